"""Listening to a network while it works: summaries of what passes through its parts.

    with record(model, where=["layers.1"], every=10) as seen:
        ...train...
    seen.frame()

Tensors are summed up at once and not kept; when there are too many summaries of one tensor,
every second is dropped and half as many are taken from then on, so that memory has a bound
however long the training is.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from math import frexp, hypot, isfinite, sqrt
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor
from torch.utils._pytree import tree_leaves

from lnlab.analysis.module_copy import as_list, check_model

if TYPE_CHECKING:
    import pandas as pd


# A tensor in a few numbers: its distribution, and what its cases and units have in common.


QUANTILES = {
    f"q{round(100 * q):02}": q for q in (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
}
PLACES = np.array(list(QUANTILES.values()))
SAMPLE = 4096
"""Quantiles are of at most so many values of a tensor, evenly spread over it."""
MOMENTS = ("mean", "std", "norm", "zeros", "dead")

Row = dict[str, Any]


def summary(tensor: Tensor) -> Row:
    """The numbers of a tensor (any shape) for a frame; quantiles are of an even sample."""
    values = widened(tensor)
    finite, largest = values.reshape(-1), values.new_zeros(1)
    if values.numel():
        largest = as_matrix(values).abs().amax(0)  # of each unit
    top = float(largest.max())
    if not isfinite(top):  # cheaper than to look at each of them
        finite = finite[finite.isfinite()]
        top = float(finite.abs().max()) if finite.numel() else top
    n = finite.numel()
    # numpy sorts ten times as fast as torch, on a processor
    sample = np.sort(finite[:: max(1, -(-n // SAMPLE))].cpu().numpy())
    row: Row = {"count": values.numel(), "nonfinite": values.numel() - n}
    if not n:
        return row | dict.fromkeys((*MOMENTS, *QUANTILES), float("nan"))
    # In units of a power of 2 near the largest no sum and no square overflows or underflows,
    # and the division does not round.
    unit = max(2.0 ** (frexp(top)[1] - 1), torch.finfo(values.dtype).tiny)
    scaled = finite / unit
    mean = float(scaled.mean())
    std = float((scaled - mean).norm()) / sqrt(n)
    norm = hypot(mean, std) * sqrt(n)  # ||a||² = n (mean² + std²)
    zeros = 1 - int(torch.count_nonzero(values)) / values.numel()
    dead = 1 - int(torch.count_nonzero(largest)) / len(largest)
    moments = (mean * unit, std * unit, norm * unit, zeros, dead)
    row |= zip(MOMENTS, moments, strict=True)
    return row | dict(zip(QUANTILES, quantiles(sample).tolist(), strict=True))


def quantiles(sample: np.ndarray) -> np.ndarray:
    """A quantile of a sorted sample, interpolated between two of its values."""
    place = PLACES * (len(sample) - 1)
    below = place.astype(int)
    # in float64: the difference of two float32 numbers may overflow
    low, high = sample[[below, np.minimum(below + 1, len(sample) - 1)]].astype(np.float64)
    return low + (place - below) * (high - low)


def widened(tensor: Tensor) -> Tensor:
    """A tensor (any shape) in at least float32."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def as_matrix(tensor: Tensor) -> Tensor:
    """Cases by units (N, H) in at least float32.

    Units stand along the last axis, of pictures (B, H, height, width) and kernels along the
    second; the rest are cases.
    """
    wide = widened(tensor)
    wide = wide.movedim(1, -1) if wide.dim() >= 4 else wide
    return wide.reshape(-1, wide.shape[-1]) if wide.dim() else wide.reshape(1, 1)


def stable_rank(A: Tensor) -> float:
    """||A||_F²/||A||_2² of a matrix (N, H): 1 where all rows are multiples of one, at most H.

    NaN of a matrix of zeros, and of one that holds what is not finite.
    """
    largest = float(A.abs().max())
    if not isfinite(largest) or not largest:
        return float("nan")
    A = A / largest  # or the squares of large numbers overflow, and those of small ones are 0
    # both have the squares of the singular values of A for eigenvalues, and 0: ||A||_F² is
    # their sum, ||A||_2² the largest
    gram = A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T
    return float(gram.trace() / torch.linalg.eigvalsh(gram)[-1])


def mean_cosine(A: Tensor) -> float:
    """The mean cosine of the angle between two rows of a matrix (N, H); NaN of a lone row.

    1 where cases cannot be told apart. Rows of zeros are at a right angle to all.
    """
    N = len(A)
    rows = A[(A != 0).any(1)]
    rows = rows / rows.abs().amax(1, keepdim=True)  # or the squares of small ones would be 0
    # the squared length of the sum of N unit vectors is N and the sum of all N (N - 1) cosines
    summed = (rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)).sum(0).square().sum()
    return float((summed - len(rows)) / (N * (N - 1))) if N > 1 else float("nan")


def unit_moments(A: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every unit over the cases of (N, H), each (H,), in float64."""
    var, mean = torch.var_mean(A.double(), dim=0, correction=0)
    return mean, var


# A training heard by hooks, which are there while somebody listens and are gone after.


class Listening:
    """A context in which hooks are in place; entered again, it goes on where it was.

    Raises:
        RuntimeError: on entering what has been entered and not left.
    """

    def __init__(self) -> None:
        self._hooks: list[Any] = []

    def _hook(self) -> Iterable[Any]:
        """The handles of the hooks, which are put in place on the way."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._hooks:
            raise RuntimeError(f"this {type(self).__name__} is listening already.")
        self._hooks += self._hook()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()


WHAT = ("activations", "gradients", "parameters")
ALSO = ("drift", "rank", "cosine")

Where = Collection[str] | Collection[type[nn.Module]] | Callable[[str, nn.Module], bool] | None
"""Names as ``named_modules`` gives them, classes, or a predicate; None: parts without parts."""


def record(
    model: nn.Module,
    where: Where = None,
    what: Collection[str] = ("activations",),
    *,
    every: int = 1,
    rows: int = 1000,
    evaluation: bool = False,
    also: Collection[str] = (),
) -> "Recorder":
    """A context manager that listens to parts of ``model``; its hooks are gone on leaving.

    A step is a call of ``model`` in training mode. Recorded are, of each chosen part, its
    outputs (activations), the loss's gradients by them and by its own parameters
    (gradients), and the values of these parameters.

    Args:
        model: any module. Of :class:`lnlab.training.Stacked` models only a stack of one can
            be heard; ``unstack()`` the others.
        where: which parts.
        what: any of activations, gradients, parameters.
        every: steps from one summary to the next.
        rows: the most summaries that are kept of one tensor.
        evaluation: listen to calls in evaluation mode, too.
        also: what takes longer to compute: "drift" of each unit's mean and variance since the
            summary before, the stable "rank", the mean "cosine" between cases.

    Raises:
        ValueError: for a part or a quantity that does not exist, or every or rows too small.
    """
    check_model(model)
    what, also = ([v] if isinstance(v, str) else v for v in (what, also))
    for name, given, known in (("what", what, WHAT), ("also", also, ALSO)):
        if set(given) - set(known) or not what:
            raise ValueError(f"{name} is {sorted(given)}: choose from {', '.join(known)}.")
    if every < 1 or rows < 2:
        raise ValueError(f"every is {every}, rows {rows}: give at least 1 and 2.")
    quantities = frozenset(what) | frozenset(also)
    return Recorder(model, chosen(model, where), quantities, every, rows, evaluation)


def chosen(model: nn.Module, where: Where) -> dict[str, nn.Module]:
    """The parts of ``model`` that ``where`` means, by name.

    Raises:
        ValueError: if a name does not exist, or nothing is chosen.
    """
    parts = dict(model.named_modules())
    if where is None:
        found = {name: part for name, part in parts.items() if not any(part.children())}
    elif callable(where):
        found = {name: part for name, part in parts.items() if where(name, part)}
    else:
        where = as_list(where, (str, type))
        names = {name for name in where if isinstance(name, str)}
        classes = tuple(kind for kind in where if isinstance(kind, type))
        if names - parts.keys():
            missing, there = ", ".join(sorted(names - parts.keys())), ", ".join(parts)
            raise ValueError(f"there is no part {missing}; there are: {there}")
        found = {n: p for n, p in parts.items() if n in names or isinstance(p, classes)}
    if not found:
        raise ValueError(f"where={where!r} chooses nothing; there are: {', '.join(parts)}")
    return found


class Recorder(Listening):
    """The recorder that :func:`record` returns; entered again, it goes on where it was."""

    def __init__(
        self,
        model: nn.Module,
        parts: dict[str, nn.Module],
        what: frozenset[str],
        every: int,
        rows: int,
        evaluation: bool,
    ) -> None:
        self.model, self.parts, self.what = model, parts, what
        self.every, self.rows, self.evaluation = every, rows, evaluation
        self.step = 0
        self._rows: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
        self._last: dict[tuple[str, str, int], tuple[int, Tensor, Tensor]] = {}
        self._calls: dict[str, int] = {}
        super().__init__()

    def _hook(self) -> Iterator[Any]:
        yield self.model.register_forward_pre_hook(self._begin, prepend=True)

    def _listen(self) -> None:
        """Put hooks on the parts, to hear them until :meth:`_turn_away` takes these off."""
        for name, part in self.parts.items():
            if self.what & {"activations", "gradients"}:
                self._hooks.append(part.register_forward_hook(self._hearing(name)))
            if "gradients" in self.what:
                for own, parameter in part.named_parameters(recurse=False):
                    if parameter.requires_grad:
                        hear = self._hearing_gradient(f"{name}.{own}".lstrip("."))
                        hook = parameter.register_post_accumulate_grad_hook(hear)
                        self._hooks.append(hook)

    def _turn_away(self) -> None:
        """Take off all hooks but that of the model: those of the parts slow down every step."""
        for hook in self._hooks[1:]:
            hook.remove()
        del self._hooks[1:]

    @property
    def _now(self) -> bool:
        return self._heard and self.step % self.every == 0

    @property
    def _heard(self) -> bool:
        return self.model.training or self.evaluation

    def _begin(self, model: nn.Module, inputs: tuple) -> None:
        if not self._heard:
            return
        self.step += 1
        if len(self._hooks) > 1:
            self._turn_away()
        if self.step % self.every:
            return
        self._calls.clear()
        self._listen()
        if "parameters" in self.what:
            for name, part in self.parts.items():
                for own, parameter in part.named_parameters(recurse=False):
                    self._take(f"{name}.{own}".lstrip("."), "parameters", parameter.detach())

    def _hearing(self, name: str) -> Callable:
        def hear(part: nn.Module, inputs: tuple, output: Any) -> None:
            if not self._now:
                return
            call = self._calls[name] = self._calls.get(name, -1) + 1
            tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
            for place, tensor in enumerate(tensors):
                full = f"{name}[{place}]" if len(tensors) > 1 else name
                if "activations" in self.what:
                    self._take(full, "activations", tensor.detach(), call)
                if "gradients" in self.what and tensor.requires_grad:
                    tensor.register_hook(self._hearing_backward(full, call))

        return hear

    def _hearing_backward(self, name: str, call: int) -> Callable[[Tensor], None]:
        step = self.step

        def hear(gradient: Tensor) -> None:
            if self._hooks:  # nobody listens to a way back that begins after leaving
                self._take(name, "gradients", gradient.detach(), call, step)

        return hear

    def _hearing_gradient(self, name: str) -> Callable[[nn.Parameter], None]:
        def hear(parameter: nn.Parameter) -> None:
            if self._now and parameter.grad is not None:
                self._take(name, "gradients", parameter.grad.detach())

        return hear

    def _take(
        self, name: str, what: str, tensor: Tensor, call: int = 0, step: int | None = None
    ) -> None:
        if is_batchedtensor(tensor):
            raise ValueError(
                "a stack of models hides its numbers: record one of model.unstack()."
            )
        key = (name, what, call)
        now = self.step if step is None else step
        head = {"step": now, "name": name, "what": what, "call": call}
        self._rows[key].append(head | summary(tensor) | self._also(key, tensor, now))
        if len(self._rows[key]) > self.rows:
            self._thin()

    def _also(self, key: tuple[str, str, int], tensor: Tensor, step: int) -> Row:
        """The numbers that were asked for beside the summary."""
        if not self.what & set(ALSO) or not tensor.numel():
            return {}
        row: Row = {}
        A = as_matrix(tensor)
        if "rank" in self.what:
            row["rank"] = stable_rank(A)
        if "cosine" in self.what:
            row["cosine"] = mean_cosine(A)
        if "drift" in self.what:
            mean, var = unit_moments(A)
            before, mean_, var_ = self._last.get(key, (step, mean * torch.nan, var))
            since, moved = step - before, (mean - mean_).abs().mean()
            row |= {"since": since, "drift_mean": float(moved)}
            row["drift_var"] = float((var - var_).abs().mean()) if since else torch.nan
            self._last[key] = step, mean, var
        return row

    def _thin(self) -> None:
        """Halve what is kept, and what will be taken."""
        self.every *= 2
        for key, rows in self._rows.items():
            self._rows[key] = [row for row in rows if row["step"] % self.every == 0]

    def __iter__(self) -> Iterator[Row]:
        for rows in self._rows.values():
            yield from rows

    def frame(self) -> "pd.DataFrame":
        """A row for each summary: step, name, what, call (of a part used as_list times), count,
        mean, std, norm, zeros (their fraction), dead (the fraction of units that are 0 in all
        cases), nonfinite (how many) and quantiles q00 to q100. Units stand along the last
        axis, in pictures (B, H, height, width) along the second; all else are cases.

        Moments are of all finite values, quantiles of an even sample of them. With ``also``:
        rank, ||A||_F²/||A||_2² of the cases by units A; cosine, the mean over pairs of cases;
        drift_mean and drift_var, how far the mean and the variance of a unit over the cases
        have moved (the mean over units of the size) since so many steps (since) before.

        Raises:
            ValueError: if there is nothing to show.
        """
        import pandas as pd

        rows = list(self)
        if not rows:
            raise ValueError(
                f"nothing was recorded: the model was called fewer than {self.every} times in "
                "training mode; evaluation=True listens to the other calls too."
            )
        return pd.DataFrame(rows).sort_values(
            ["step", "name", "what", "call"], ignore_index=True
        )

    def state_dict(self) -> dict[str, Any]:
        """All that was recorded, to go on from after a resume."""
        return {
            "step": self.step,
            "every": self.every,
            "rows": list(self),
            "last": [[*key, *last] for key, last in self._last.items()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        self.step, self.every = state["step"], state["every"]
        self._last = {tuple(last[:3]): tuple(last[3:]) for last in state["last"]}
        self._rows = defaultdict(list)
        for row in state["rows"]:
            self._rows[row["name"], row["what"], row["call"]].append(row)
