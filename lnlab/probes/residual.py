"""How a residual block weighs its residual, found out from its outputs alone."""

from typing import Any

import torch
from torch import Tensor, nn

from .givens import normal
from .identify import Box
from .subject import Read, Subject, first_tensor

LARGEST, STEPS = 1e6, 80


def residual_ratio(
    block: nn.Module, branch: str, x: Tensor, *, read: Read = first_tensor
) -> float:
    """How many times as much as its branch the residual counts in ``block``: a/b.

    For y = N(a x + b G(x)), N a normalizer or nothing. It is 1 in a transformer, alpha in
    DeepNorm (Wang et al. 2022), N(alpha x + G(x)), and 1/alpha where x + alpha G(x) is
    normalized instead. The branch is made to give t x; what is normalized is then (a + b t) x,
    and the output turns to its opposite where t passes -a/b.

    Args:
        block: the module, with the residual and its normalizer.
        branch: the name of the submodule G, which is not computed.
        x: an input, of which only the shape is used.
        read: what is judged.

    Raises:
        ValueError: for a branch that does not exist or is not called, and where the output
            does not turn to its opposite between t = -1e6 and -1e-6.
    """
    x = normal(6, 0, *x.shape)
    subject = Subject(block, x, dtype=torch.float64, read=read)
    try:
        module = subject.module.get_submodule(branch)
    except AttributeError as error:
        names = ", ".join(name for name, _ in block.named_modules() if name)
        raise ValueError(f"no part is called {branch!r}: there are {names}.") from error
    box, given = Box(subject), _Given()
    module.register_forward_hook(given)

    def odd(t: float) -> Tensor:
        """What is left of y without the normalizer's bias."""
        ys = []
        for sign in (1, -1):
            given.output = sign * t * x
            ys.append(box(sign * x))
        return ys[0] - ys[1]

    far = odd(LARGEST)
    if not given.called:
        raise ValueError(f"{branch!r} is not called by the block.")

    def turned(ratio: float) -> bool:
        return float((odd(-ratio) * far).sum()) < 0

    if turned(1 / LARGEST) or not turned(LARGEST):
        raise ValueError("the block is not of the form N(a x + b G(x)) with a, b of one sign.")
    low, high = 1 / LARGEST, LARGEST
    for _ in range(STEPS):
        ratio = (low * high) ** 0.5
        low, high = (low, ratio) if turned(ratio) else (ratio, high)
    return (low * high) ** 0.5


class _Given:
    """A hook by which a module returns what it is told to."""

    output: Tensor
    called = False

    def __call__(self, module: nn.Module, args: tuple, output: Any) -> Any:
        self.called = True
        return (self.output, *output[1:]) if isinstance(output, tuple) else self.output
