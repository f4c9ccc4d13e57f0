"""A loss as a function of the parameters: what all probes of its geometry differentiate."""

import random
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm

from lnlab.analysis.arguments import (
    refuse_no_function,
    refuse_no_module,
    refuse_no_tensor,
    refuse_other,
    refuse_unreadable,
    several,
)
from lnlab.analysis.module_copy import Buffers, remember, untouched
from lnlab.analysis.subject import GIVEN
from lnlab.nn import OverCases
from lnlab.nn.table1 import Statistics
from lnlab.threads import in_one_thread

# The parameters of a module that a loss is a function of, and the places where they stand.


Place = tuple[dict[str, Any], str, str]
"""A module's dict that holds a parameter, its name there, and its name in the whole."""


def places(module: nn.Module, names: dict[int, str]) -> list[Place]:
    """All places of some parameters; one that is shared has several."""
    registries = [part._parameters for part in module.modules()]
    return [
        (r, key, names[id(p)]) for r in registries for key, p in r.items() if id(p) in names
    ]


def chosen(
    module: nn.Module, own: dict[str, nn.Parameter], names: Collection[str] | None
) -> list[str]:
    """The names of the parameters that are to vary, in the module's order.

    Raises:
        TypeError: where ``names`` are none.
        ValueError: where one does not exist, nothing is left, or precisions differ.
    """
    names = names if names is None else several("names", names, str, "names of parameters")
    if names is None:
        trained = {name for name, p in module.named_parameters() if p.requires_grad}
        found = [name for name in own if name in trained]
    elif missing := set(names) - set(own):
        raise ValueError(f"no parameter is called {sorted(missing)}: there are {list(own)}.")
    else:
        found = [name for name in own if name in set(names)]
    if not found:
        raise ValueError(
            f"{type(module).__name__} has no parameters that are trained: there is nothing to "
            "vary."
        )
    if len({own[name].dtype for name in found}) > 1:
        raise ValueError("the parameters have several dtypes: give dtype=torch.float32.")
    return found


def single_at_least(module: nn.Module) -> torch.dtype | None:
    """float32 where a parameter of ``module`` has fewer digits, else None: its own will do.

    A bfloat16 has two or three digits, of which a difference of losses or a gradient's product
    with the Hessian keeps none.
    """
    bits = [torch.finfo(p.dtype).bits for p in module.parameters() if p.is_floating_point()]
    return torch.float32 if bits and min(bits) < 32 else None


# A test of gradients: can torch differentiate a second time what it differentiated once?


@contextmanager
def plain_operators() -> Iterator[None]:
    """A context without fused attention and cuDNN's recurrent nets, differentiable once."""
    with sdpa_kernel(SDPBackend.MATH), torch.backends.cudnn.flags(enabled=False):
        yield


def breaks_off(slope: Tensor) -> bool:
    """True if a gradient (any shape) went through what is differentiable once.

    Torch would silently leave the part of the second derivative out of what is marked so, and
    raise later where it knows of none.
    """
    seen, ahead = set(), [slope.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        if node.name().endswith(("Error", "NotImplemented")):
            return True
        seen.add(node)
        ahead += [before for before, _ in node.next_functions]
    return False


Loss = Callable[..., Tensor]
"""A loss: from what a module returns, and y, to a scalar."""


class Objective:
    """L(w): the loss of a module on fixed cases at any parameters w, a vector (P,).

    Everything is computed on a copy, each time from the same buffers and the same random
    state: the module, its buffers, hooks and mode, and the random state of the program stay
    as they are, whatever happens.

    Args:
        module: called as ``module(x)``; wrap one of several inputs in one of a single input.
        x: its input, cases along the first axis.
        y: what the loss compares with; None where it needs nothing.
        loss: ``loss(output, y)``, a scalar: ``F.cross_entropy``; the output is all that the
            module returns, of a tuple take what counts: ``lambda out, y: ...``.
        statistics: where statistics over cases (BatchNorm's) come from, a member of
            :class:`~lnlab.nn.table1.Statistics` or its name, "batch". BATCH: those of
            x, in training mode; FROZEN: the remembered ones, in evaluation mode, the same at
            every w; RECOMPUTED: in evaluation mode, taken from x again at every w, by those
            of lnlab.nn and by torch's BatchNorm. The last two differ from each other as
            soon as w moves, and are hardly ever told apart.
        names: the parameters that w holds; None: all that are trained.
        dtype: the precision; None: that of the module, float32 at least.

    Raises:
        TypeError: where ``module`` is none, x no tensor, or the loss no function.
        ValueError: where there is nothing to vary, where x does not fit, where the loss is no
            finite scalar, where BatchNorm has a single case or does not remember what it
            should, or where the module gives another loss the second time (dropout).
    """

    @in_one_thread
    def __init__(
        self,
        module: nn.Module,
        x: Tensor,
        y: Any,
        loss: Loss,
        *,
        statistics: Statistics | str,
        names: Collection[str] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.statistics, self.loss = Statistics(statistics), loss
        refuse_no_tensor("x", x, GIVEN)
        refuse_no_function("loss", loss, "a function of what the module returns and y")
        if dtype is not None:
            refuse_other("dtype", dtype, torch.dtype, "a precision, torch.float64")
        if not x.dim() or not len(x):
            raise ValueError(
                f"x has shape {tuple(x.shape)}: give cases along the first axis, one at least."
            )
        refuse_unreadable("x", x)
        self.module = untouched(module)
        dtype = dtype or single_at_least(self.module)
        self.x, self.y = (v.detach().clone() if isinstance(v, Tensor) else v for v in (x, y))
        if dtype is not None:
            self.module.to(dtype)
            self.x = self.x.to(dtype) if self.x.is_floating_point() else self.x
            floating = isinstance(y, Tensor) and self.y.is_floating_point()
            self.y = self.y.to(dtype) if floating else self.y
        self.module.train(self.statistics is Statistics.BATCH)
        self._buffers = Buffers(self.module)
        self._devices = [x.device] if x.is_cuda else []
        self._state = torch.get_rng_state()
        own = dict(self.module.named_parameters())
        self.names = chosen(module, own, names)
        self._places = places(self.module, {id(own[name]): name for name in self.names})
        self.shapes = [own[name].shape for name in self.names]
        self.start = self.flat([own[name] for name in self.names])
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            self._refuse()
        finally:  # what would draw from these is refused, but has drawn
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002

    def __call__(self, w: Tensor) -> Tensor:
        """L(w), differentiable in ``w`` (P,).

        With RECOMPUTED statistics the derivative takes them as constants; with those of the
        BATCH it goes through them, as training does.
        """
        self.refuse("w", w)
        return self.at(self.split(w), self.x)

    def refuse(self, name: str, w: Tensor) -> None:
        """Raise unless ``w``, called ``name``, is a vector of all parameters (P,).

        Raises:
            TypeError: for what is no tensor.
            ValueError: for another shape or kind of numbers.
        """
        like = self.start
        refuse_no_tensor(name, w, f"the parameters as a tensor ({len(like)},)")
        if w.shape != like.shape or not w.is_floating_point():
            raise ValueError(
                f"{name} has shape {tuple(w.shape)} in {w.dtype}: the {len(self.names)} "
                f"parameters have {len(like)} numbers, give ({len(like)},) in {like.dtype}."
            )

    def at(self, tensors: dict[str, Tensor], x: Tensor) -> Tensor:
        """The loss () with these parameters by name, on x (B, ...) in place of its cases."""
        with torch.random.fork_rng(self._devices), self._buffers:
            torch.set_rng_state(self._state)
            own = [registry[key] for registry, key, _ in self._places]
            try:
                for registry, key, name in self._places:
                    registry[key] = tensors[name]
                if self.statistics is Statistics.RECOMPUTED:
                    remember(self.module, self.x)
                output = self.module(x)
            finally:
                for (registry, key, _), p in zip(self._places, own, strict=True):
                    registry[key] = p
            return self.loss(output, self.y)

    def split(self, w: Tensor) -> dict[str, Tensor]:
        """The parameters by name that ``w`` (P,) holds, as views of it."""
        parts = w.split([shape.numel() for shape in self.shapes])
        cut = zip(self.names, parts, self.shapes, strict=True)
        return {name: part.view(shape) for name, part, shape in cut}

    def flat(self, tensors: Collection[Tensor]) -> Tensor:
        """Tensors in the order of :attr:`names` as one vector (P,)."""
        return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])

    def of(self, module: nn.Module) -> Tensor:
        """The w (P,) that another module has, one with parameters of the same names.

        Raises:
            TypeError: where it is none.
            ValueError: where it has others.
        """
        refuse_no_module(module)
        own = dict(module.named_parameters())
        for name, shape in zip(self.names, self.shapes, strict=True):
            if name not in own or own[name].shape != shape:
                raise ValueError(
                    f"{type(module).__name__} has no parameter {name} of shape "
                    f"{tuple(shape)}: give a module made as the first was."
                )
        return self.flat([own[name] for name in self.names]).to(self.start)

    def slices(self) -> dict[str, slice]:
        """The place of each parameter in w."""
        ends = torch.tensor([shape.numel() for shape in self.shapes]).cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        return {n: slice(a, b) for n, a, b in zip(self.names, starts, ends, strict=True)}

    @in_one_thread
    def value(self, w: Tensor | None = None) -> float:
        """L(w), w (P,), of the module's own parameters by default."""
        with torch.no_grad():
            return float(self(self.start if w is None else w))

    @in_one_thread
    def gradient(self, w: Tensor | None = None) -> tuple[float, Tensor]:
        """L(w) and its gradient (P,).

        Raises:
            ValueError: where there is none.
        """
        loss, slope = self._slope(self._variable(w))
        return float(loss.detach()), slope

    def _variable(self, w: Tensor | None) -> Tensor:
        """``w`` (P,), or the module's own parameters, to be differentiated by."""
        w = self.start if w is None else w
        self.refuse("w", w)
        return w.detach().requires_grad_()

    def _slope(self, w: Tensor, *, twice: bool = False) -> tuple[Tensor, Tensor]:
        """L(w) and its gradient, which can be differentiated again if ``twice``."""
        try:
            return self._way_back(w, twice)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # cuDNN's recurrent nets have no way back in evaluation mode
            with plain_operators():
                return self._way_back(w, twice)

    def _way_back(self, w: Tensor, twice: bool) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            loss = self(w)
            if not loss.requires_grad:
                raise ValueError(
                    "the loss has no gradient by the parameters: give one that changes "
                    "smoothly with what the module returns (no count), and detach nothing."
                )
            (slope,) = torch.autograd.grad(loss, w, create_graph=twice)
        return loss, slope

    @in_one_thread
    def hessian_product(self, w: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """The map v to H v at w, v (P,) or several as (P, K).

        The gradient is computed once; each product is one pass back through it.

        Raises:
            ValueError: where the module or the loss has no second derivative.
        """
        w = self._variable(w)
        try:
            _, slope = self._slope(w, twice=True)
            if breaks_off(slope):
                with plain_operators():
                    _, slope = self._slope(w, twice=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise ValueError(f"{self._why_not(w)} {error}") from error
        if breaks_off(slope):
            raise ValueError(self._once())

        @in_one_thread
        def product(v: Tensor) -> Tensor:
            if v.dim() == 2:
                return torch.stack([product(column) for column in v.T], dim=1)
            if not slope.requires_grad:  # the loss is linear in w
                return torch.zeros_like(v)
            # the slope of v · grad L(w) by w, with v held constant: H v, as H is symmetric
            # (Pearlmutter 1994), for the price of a gradient and without any row of H
            (moved,) = torch.autograd.grad(
                slope, w, v, retain_graph=True, materialize_grads=True
            )
            return moved

        return product

    def _why_not(self, w: Tensor) -> str:
        """The reason why a second derivative raises: the first may do so, too."""
        try:
            self._slope(w, twice=False)
        except RuntimeError:
            name = type(self.module).__name__
            return f"{name} or its loss cannot be differentiated at all; nor can it be trained."
        return self._once()

    def _once(self) -> str:
        return (
            f"{type(self.module).__name__} or its loss can be differentiated once and not "
            "twice: take parts that can (the reference of what was fused)."
        )

    def _refuse(self) -> None:
        """Raise where the loss at the start is no function that can be probed."""
        over_cases = [
            m for m in self.module.modules() if isinstance(m, OverCases | TorchBatchNorm)
        ]
        if len(self.x) < 2 and over_cases and self.statistics is not Statistics.FROZEN:
            raise ValueError(
                "x holds a single case, over which BatchNorm cannot take statistics: give "
                "more, or statistics=Statistics.FROZEN."
            )
        if self.statistics is not Statistics.BATCH:
            self._refuse_forgetful()
        version = self.x._version
        try:
            with torch.no_grad():
                first, again = self(self.start), self(self.start)
        except (RuntimeError, TypeError, IndexError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{type(self.module).__name__} or its loss does not take x of shape "
                f"{tuple(self.x.shape)}: {error}. The loss is called with all that the module "
                "returns, and y."
            ) from error
        if self.x._version != version:
            raise ValueError(f"{type(self.module).__name__} writes into its input: let it not.")
        if not isinstance(first, Tensor) or first.numel() != 1 or first.dim():
            shape = tuple(first.shape) if isinstance(first, Tensor) else type(first).__name__
            raise ValueError(f"the loss returned {shape}: let it return a scalar, a mean.")
        if not first.isfinite():
            raise ValueError(
                f"the loss is {first.item()} at the start: look for NaN or infinities in x, y "
                "and the parameters."
            )
        with torch.random.fork_rng(self._devices):
            # torch.manual_seed would seed all devices, and these alone are put back
            torch.default_generator.manual_seed(1)
            for device in self._devices:
                torch.cuda.default_generators[device.index].manual_seed(1)
            state, self._state = self._state, torch.get_rng_state()
            with torch.no_grad():
                other = self(self.start)
            self._state = state
        if not torch.equal(first, again) or not torch.equal(first, other):
            training = self.statistics is Statistics.BATCH
            way = "set p = 0 in its dropout, or choose statistics=Statistics.FROZEN"
            raise ValueError(
                f"{type(self.module).__name__} gives another loss the second time: "
                f"{way if training else 'let it draw nothing and keep nothing in evaluation'}."
            )

    def _refuse_forgetful(self) -> None:
        for name, part in self.module.named_modules():
            if isinstance(part, TorchBatchNorm) and part.running_mean is None:
                raise ValueError(
                    f"{name or type(part).__name__} remembers no statistics and has those of "
                    "the batch in evaluation as well: choose statistics=Statistics.BATCH."
                )


def refuse_no_objective(objective: Any) -> None:
    """Raise TypeError unless ``objective`` is an :class:`Objective`."""
    give = 'Objective(module, x, y, loss, statistics="batch")'
    refuse_other("objective", objective, Objective, give)
