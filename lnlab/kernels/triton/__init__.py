"""Recurrent layers on a GPU: a step of time is one product and one Triton program a case.

Triton comes with torch's builds for CUDA. It is imported when a layer first runs on a GPU;
where it is absent, torch's operators take its place, and a warning says so once.

CUDA graphs of whole passes are the launches of every step, recorded once and played again.
A graph writes where it wrote when it was recorded. So a plan has tensors of its own, into which
a call's are copied and from which its results are; a call holds its plan until its way back is
behind it, or until nobody can ask for that any more. Recorded are shapes that come ``AGAIN``,
while there are no more than ``PLANS``. No GPU has been at hand to try ``recorded`` on.
"""

import functools
import importlib.util
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from lnlab.kernels.fallback import Steps
from lnlab.kernels.library import NoKernel
from lnlab.nn import State

if TYPE_CHECKING:
    from lnlab.kernels.triton.loop import Pass, Slopes

WIDEST = 2048
"""Units up to which a program holds its case in registers; held to by a test."""


def steps(device: torch.device, dtype: torch.dtype, units: int) -> Steps | None:
    """The loop over time of a layer with H units by Triton; None where it has none.

    It has one in float32, on a GPU that torch calls "cuda", for at most ``WIDEST`` units.
    """
    if device.type != "cuda" or dtype != torch.float32 or units > WIDEST or not installed():
        return None
    from lnlab.kernels.triton.loop import steps

    return steps


@functools.cache
def installed() -> bool:
    """True if there is Triton; where not, one :class:`NoKernel` warning has said so."""
    if importlib.util.find_spec("triton"):
        return True
    warnings.warn(
        "Triton is not installed. Recurrent layers run on torch's operators instead: the same "
        'results, more slowly. pip install "lnlab[triton]"',
        NoKernel,
        stacklevel=3,
    )
    return False


# --- CUDA graphs -----------------------------------------------------------------------------

AGAIN, PLANS = 3, 32

seen: Counter[Any] = Counter()
"""Passes by their shape."""
made: Counter[Any] = Counter()
"""Plans by the shape of their passes."""
free: defaultdict[Any, "list[Plan]"] = defaultdict(list)
"""Plans that nobody holds."""


def borrowed(told: "Pass", keep: bool) -> "Borrowed | None":
    """A plan for a pass like this; None while its shape is new, or there are too many plans."""
    device = told.A.device
    if not possible(device):
        return None
    sizes = told.A.shape, told.W_h.shape, told.kernel, told.eps, told.lengths is None
    key = *sizes, keep, device, stream(device)
    seen[key] += 1
    if free[key]:
        return Borrowed(free[key].pop(), free[key])
    if seen[key] <= AGAIN or made.total() >= PLANS:
        return None
    made[key] += 1
    return Borrowed(Plan(told, keep), free[key])


def possible(device: torch.device) -> bool:
    """True if something can be recorded now."""
    return device.type == "cuda" and not torch.cuda.is_current_stream_capturing()


def stream(device: torch.device) -> int:
    """The number of the stream that launches go to: plans are not shared by several."""
    return torch.cuda.current_stream(device).cuda_stream


def recorded(run: Callable[[], None]) -> Callable[[], None]:
    """The work of ``run`` in one launch."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # compiles programs and makes room, which no graph can
        run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


class Plan:
    """A pass over tensors of its own, recorded."""

    slopes: "Slopes"

    def __init__(self, like: "Pass", keep: bool) -> None:
        own = {name: copied(getattr(like, name)) for name in READ}
        self.way = replace(like, **own)
        self.y, self.last = like.results()
        self.forward = recorded(lambda: self.way.launch(self.y, self.last))
        if keep:
            self.slopes = self.way.slopes(torch.zeros_like(self.y))
            fill(self.slopes.dstate, tuple(torch.zeros_like(s) for s in self.last))
            self.backward = recorded(lambda: self.slopes.launch(self.way, self.y))


READ = "A", "W_h", "rest", "first", "lengths"
"""The tensors that a pass reads, by the names of its fields."""


class Borrowed:
    """A plan on loan to one call, which gives it back when nobody needs it any more."""

    def __init__(self, plan: Plan, home: list[Plan]) -> None:
        self.plan, self.home = plan, home

    def __del__(self) -> None:
        self.home.append(self.plan)

    def forward(self, told: "Pass") -> tuple[Tensor, ...]:
        """y (T, B, H) and the last state (B, H) of a pass."""
        plan = self.plan
        for name in READ:
            fill(getattr(plan.way, name), getattr(told, name))
        fill(plan.last, told.first)
        plan.forward()
        return copied((plan.y, *plan.last))

    def backward(self, _: Tensor, dy: Tensor, dlast: State) -> tuple[Tensor, ...]:
        """The slopes of A (T, B, n), W_h, ``rest`` and ``first``."""
        plan = self.plan
        fill((plan.slopes.dy, plan.slopes.dstate), (dy, tuple(dlast)))
        plan.backward()
        weights = plan.slopes.of_weights(plan.way, plan.y)
        return copied(plan.slopes.dA), *weights, *copied(plan.slopes.dstate)


def copied(tree: Any) -> Any:
    """The tensors of a tree again, elsewhere."""
    return tree_map_only(Tensor, torch.clone, tree)


def fill(own: Any, given: Any) -> None:
    """Copy the tensors of one tree into those of another."""
    for mine, theirs in zip(tree_leaves(own), tree_leaves(given), strict=True):
        if mine is not None:
            mine.copy_(theirs)
