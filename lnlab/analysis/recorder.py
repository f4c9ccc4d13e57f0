"""A training recorded by hooks: summaries of what passes through the modules of a network.

    with record(model, modules=["layers.1"], every=10) as recorder:
        ...train...
    recorder.to_frame()

Tensors are summarized at once and not kept. If there are too many summaries of one tensor,
every second is dropped and half as many are taken from then on, so that memory is bounded
however long the training is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from math import frexp, hypot, isfinite, nan, sqrt
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from lnlab.analysis.module_copy import (
    as_list_even_if_single,
    check_model,
    check_names,
    uncompiled_module,
)
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.nn import at_least_float32

# A tensor in a few numbers: its distribution, and what its examples and units have in common.


QUANTILES = {
    f"q{round(100 * q):02}": q for q in (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
}
SAMPLE = 4096
"""Quantiles are of at most so many values of a tensor, evenly spread over it."""
MOMENTS = ("mean", "std", "norm", "zeros", "dead")

Row = dict[str, Any]


def tensor_statistics(tensor: Tensor) -> Row:
    """Return the numbers of a tensor (any shape) for a table; see :meth:`Recorder.to_frame`."""
    values = at_least_float32(tensor)
    finite, largest = values.reshape(-1), values.new_zeros(1)
    if values.numel():
        largest = as_examples_by_units(values).abs().amax(0)  # of each unit
    top = float(largest.max())
    if not isfinite(top):  # cheaper than to look at each of them
        finite = finite[finite.isfinite()]
        top = float(finite.abs().max()) if finite.numel() else top
    n = finite.numel()
    # in float64: the difference of two float32 numbers may overflow
    sample = finite[:: max(1, -(-n // SAMPLE))].cpu().double().numpy()
    row: Row = {"count": values.numel(), "nonfinite": values.numel() - n}
    if not n:
        return row | dict.fromkeys((*MOMENTS, *QUANTILES), nan)
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
    levels = list(QUANTILES.values())
    return row | dict(zip(QUANTILES, np.quantile(sample, levels).tolist(), strict=True))


def as_examples_by_units(tensor: Tensor) -> Tensor:
    """Return examples by units (N, H), in at least float32.

    Units are along the last axis, in images (B, H, height, width) and kernels along the
    second; the rest are examples.
    """
    wide = at_least_float32(tensor)
    wide = wide.movedim(1, -1) if wide.dim() >= 4 else wide
    return wide.reshape(-1, wide.shape[-1]) if wide.dim() else wide.reshape(1, 1)


def stable_rank(A: Tensor) -> float:
    """Return ||A||_F²/||A||_2² of a matrix (N, H): 1 for multiples of one row, at most H.

    NaN for a matrix of zeros, and for one that holds what is not finite.
    """
    largest = float(A.abs().max())
    if not isfinite(largest) or not largest:
        return nan
    A = A / largest  # or the squares of large numbers overflow, and those of small ones are 0
    # both have the squares of the singular values of A for eigenvalues, and 0: ||A||_F² is
    # their sum, ||A||_2² the largest; in float64, as LAPACK's float32 may not converge
    gram = (A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T).double()
    return float(gram.trace() / torch.linalg.eigvalsh(gram)[-1])


def mean_cosine_of_rows(A: Tensor) -> float:
    """Return the mean cosine of the angle between two rows of a matrix (N, H).

    1 if examples cannot be distinguished; NaN for a single row. Rows of zeros are at a right
    angle to all.
    """
    N = len(A)
    rows = A[(A != 0).any(1)]
    rows = rows / rows.abs().amax(1, keepdim=True)  # or the squares of small ones would be 0
    # the squared length of the sum of N unit vectors is N and the sum of all N (N - 1) cosines
    summed = (rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)).sum(0).square().sum()
    return float((summed - len(rows)) / (N * (N - 1))) if N > 1 else nan


def is_in_backward_pass() -> bool:
    """Return True inside a backward pass, where a checkpoint computes its part again."""
    return torch._C._current_graph_task_id() != -1


class HookContext:
    """A context in which hooks are in place; entered again, it continues."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []

    def _register_hooks(self) -> Iterable[RemovableHandle]:
        """Register the hooks and yield their handles."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._hooks:
            raise RuntimeError(f"this {type(self).__name__} is recording already.")
        self._hooks += self._register_hooks()
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()


WHAT = ("activations", "gradients", "parameters")
EXTRA = ("drift", "rank", "cosine")

Modules = (
    Collection[str] | Collection[type[nn.Module]] | Callable[[str, nn.Module], bool] | None
)
"""Names as ``named_modules`` gives them, classes, or a predicate; None: modules without any."""


def record(
    model: nn.Module,
    modules: Modules = None,
    what: Collection[str] = ("activations",),
    *,
    every: int = 1,
    max_rows: int = 1000,
    evaluation: bool = False,
    extra: Collection[str] = (),
) -> Recorder:
    """Return a context manager that records statistics of tensors while ``model`` is trained.

    A step is a call of ``model`` in training mode. For each chosen module it can record the
    outputs (activations), the gradients of the loss with respect to the outputs and to the
    module's own parameters (gradients), and the values of these parameters. On leaving the
    context all hooks are removed.

    Args:
        model: any module. A stack of several models (:class:`lnlab.training.Stacked`) cannot be
            recorded; record the models that ``unstack()`` returns.
        modules: the modules to record; None takes those that contain no other modules.
        what: any of "activations", "gradients" and "parameters".
        every: the number of steps from one record to the next.
        max_rows: the largest number of records to keep of one tensor.
        evaluation: whether to record calls in evaluation mode, too.
        extra: further statistics, which take longer: "drift", the change of each unit's mean
            and variance since the last record; "rank", the stable rank; "cosine", the mean
            cosine between examples.

    Raises:
        ValueError: if a module or a quantity does not exist, if ``every`` or ``max_rows`` is
            too small, or if the model is compiled.

    Examples:
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> with lnlab.record(net) as recorder:
        ...     for _ in range(5):
        ...         optimizer.zero_grad()
        ...         F.cross_entropy(net(x), y).backward()
        ...         optimizer.step()
        >>> recorder.plot()
    """
    check_model(model)
    if model is not uncompiled_module(model):
        raise ValueError(
            "compiled modules run without hooks: record the module that was given to "
            "torch.compile, and train that one while it is recorded."
        )
    what, extra = as_list_even_if_single(what, str), as_list_even_if_single(extra, str)
    for name, given, known in (("what", what, WHAT), ("extra", extra, EXTRA)):
        if set(given) - set(known) or not what:
            raise ValueError(f"{name} is {sorted(given)}: choose from {', '.join(known)}.")
    if every < 1 or max_rows < 2:
        raise ValueError(f"every is {every}, max_rows {max_rows}: give at least 1 and 2.")
    chosen = choose_modules(model, modules)
    return Recorder(model, chosen, frozenset((*what, *extra)), every, max_rows, evaluation)


def choose_modules(model: nn.Module, modules: Modules) -> dict[str, nn.Module]:
    """Return the modules of ``model`` that ``modules`` selects, by name."""
    known = dict(model.named_modules())
    if modules is None:
        chosen = {name: m for name, m in known.items() if not any(m.children())}
    elif callable(modules) and not isinstance(modules, type):
        chosen = {name: m for name, m in known.items() if modules(name, m)}
    else:
        wanted = as_list_even_if_single(modules, (str, type))
        names = {name for name in wanted if isinstance(name, str)}
        classes = tuple(kind for kind in wanted if isinstance(kind, type))
        check_names("module", names, known)
        chosen = {n: m for n, m in known.items() if n in names or isinstance(m, classes)}
    if not chosen:
        raise ValueError(f"modules={modules!r} chooses nothing: there are {', '.join(known)}.")
    return chosen


Key = tuple[str, str, int]
"""The name of a module or parameter, what is recorded of it, and which of its calls."""


class Recorder(HookContext, AnalysisResult):
    """Statistics of the recorded tensors; if the context is entered again, it continues."""

    def __init__(
        self,
        model: nn.Module,
        modules: dict[str, nn.Module],
        what: frozenset[str],
        every: int,
        max_rows: int,
        evaluation: bool,
    ) -> None:
        self.model, self.modules, self.what = model, modules, what
        self.every, self.max_rows, self.evaluation = every, max_rows, evaluation
        self.step = 0
        self._rows: dict[Key, list[Row]] = defaultdict(list)
        self._last: dict[Key, tuple[int, Tensor, Tensor]] = {}
        self._calls: dict[str, int] = {}
        self._differentiated: set[tuple[str, int]] = set()
        super().__init__()

    def _register_hooks(self) -> Iterator[RemovableHandle]:
        yield self.model.register_forward_pre_hook(self._begin_step, prepend=True)

    @property
    def _records_current_mode(self) -> bool:
        return self.model.training or self.evaluation

    @property
    def _is_due(self) -> bool:
        return self._records_current_mode and self.step % self.every == 0

    def _begin_step(self, model: nn.Module, inputs: tuple) -> None:
        """Count a step; hooks of the modules, which slow down every call, are there if due."""
        if (
            not self._records_current_mode
            or is_in_backward_pass()
            or torch.compiler.is_compiling()
        ):
            return
        self.step += 1
        for hook in self._hooks[1:]:
            hook.remove()
        del self._hooks[1:]
        if not self._is_due:
            return
        self._calls.clear()
        self._differentiated.clear()
        for name, module in self.modules.items():
            if self.what & {"activations", "gradients"}:
                self._hooks.append(module.register_forward_hook(self._make_output_hook(name)))
            for key, parameter in module.named_parameters(recurse=False):
                path = f"{name}.{key}".lstrip(".")
                if "parameters" in self.what:
                    self._add_summary((path, "parameters", 0), parameter.detach())
                if "gradients" in self.what and parameter.requires_grad:
                    hook = partial(self._add_parameter_gradient, (path, "gradients", 0))
                    self._hooks.append(parameter.register_post_accumulate_grad_hook(hook))

    def _make_output_hook(self, name: str) -> Callable:
        def hook(module: nn.Module, inputs: tuple, output: Any) -> None:
            if not self._is_due or torch.compiler.is_compiling():
                return
            # a checkpoint computes its part again in the backward pass: the same call, which
            # a reentrant one makes without gradients at first
            again = is_in_backward_pass()
            key = f"{name}, again" if again else name
            call = self._calls[key] = self._calls.get(key, -1) + 1
            tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
            for i, tensor in enumerate(tensors):
                path = f"{name}[{i}]" if len(tensors) > 1 else name
                if "activations" in self.what and not again:
                    self._add_summary((path, "activations", call), tensor.detach())
                seen = again and (path, call) in self._differentiated
                if "gradients" in self.what and tensor.requires_grad and not seen:
                    self._differentiated.add((path, call))
                    tensor.register_hook(self._make_gradient_hook((path, "gradients", call)))

        return hook

    def _make_gradient_hook(self, key: Key) -> Callable[[Tensor], None]:
        step = self.step

        def add_gradient_summary(gradient: Tensor) -> None:
            if self._hooks:  # nothing of a backward pass that begins after leaving
                self._add_summary(key, gradient.detach(), step)

        return add_gradient_summary

    def _add_parameter_gradient(self, key: Key, parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        self._add_summary(key, parameter.grad.detach())

    def _add_summary(self, key: Key, tensor: Tensor, step: int | None = None) -> None:
        if is_batchedtensor(tensor):
            raise ValueError(
                "a stack of models hides its numbers: record one of model.unstack()."
            )
        step = self.step if step is None else step
        head = {"step": step, "name": key[0], "what": key[1], "call": key[2]}
        self._rows[key].append(
            head | tensor_statistics(tensor) | self._chosen_extra_statistics(key, tensor, step)
        )
        if len(self._rows[key]) > self.max_rows:
            self.every *= 2
            for other, rows in self._rows.items():
                self._rows[other] = [row for row in rows if row["step"] % self.every == 0]

    def _chosen_extra_statistics(self, key: Key, tensor: Tensor, step: int) -> Row:
        """Return the numbers that ``what`` asks for beside the summary."""
        if not self.what & set(EXTRA) or not tensor.numel():
            return {}
        row: Row = {}
        A = as_examples_by_units(tensor)
        if "rank" in self.what:
            row["rank"] = stable_rank(A)
        if "cosine" in self.what:
            row["cosine"] = mean_cosine_of_rows(A)
        if "drift" in self.what:
            # of every unit over the examples; in float64, as differences cancel
            var, mean = torch.var_mean(A.double(), dim=0, correction=0)
            last, mean_, var_ = self._last.get(key, (step, mean * nan, var * nan))
            row |= {"since": step - last, "drift_mean": float((mean - mean_).abs().mean())}
            row["drift_var"] = float((var - var_).abs().mean())
            self._last[key] = step, mean, var
        return row

    def __iter__(self) -> Iterator[Row]:
        for rows in self._rows.values():
            yield from rows

    def to_frame(self) -> DataFrame:
        """Return a row per summary.

        Columns: step, name, what, call (of a module that is called several times), count, mean,
        std, norm, zeros (their fraction), dead (the fraction of units that are 0 in all
        examples), nonfinite (how many) and quantiles q00 to q100. Units are along the last
        axis, in images (B, H, height, width) along the second; all else are examples. Moments
        are of all finite values, quantiles of an even sample of them.

        With ``extra``: rank, ||A||_F²/||A||_2² of the examples by units A; cosine, the mean
        over pairs of examples; drift_mean and drift_var, how far the mean and the variance of a
        unit over the examples have moved (the mean over units of the size) since so many steps
        (since) before.
        """
        rows = list(self)
        if not rows:
            raise ValueError(
                f"nothing was recorded: the model was called fewer than {self.every} times in "
                "training mode, or behind torch.compile, which runs without hooks; "
                "evaluation=True records the calls in evaluation mode, too."
            )
        order = ["step", "name", "what", "call"]
        return make_frame(rows).sort_values(order, ignore_index=True)

    def plot(self) -> Figure:
        """Return the median and the quantiles of each tensor over the steps."""
        from lnlab.figures.curves import quantile_ribbons

        frame = self.to_frame().query("call == 0")
        names = frame["name"] + ", " + frame["what"]
        return quantile_ribbons(
            {str(name): rows for name, rows in frame.groupby(names, sort=False)}
        )
