"""The invariances of Table 1 that a module of any make has."""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lnlab.nn.table1 import Statistics
from lnlab.probes.certify.certificate import Certificate, Grade, Invariance
from lnlab.probes.certify.changes import (
    OF_INPUTS,
    OF_SUMMED,
    OF_WEIGHTS,
    OTHERS,
    Change,
    changes_of,
)
from lnlab.probes.certify.judge import USUAL, Judge
from lnlab.probes.givens import refuse_nonfinite, refuse_unreadable
from lnlab.probes.inside import dead_units
from lnlab.probes.invariance import EXACT
from lnlab.probes.refusals import refuse_no_tensor, several
from lnlab.probes.returned import first_tensor, tensors
from lnlab.probes.subject import GIVEN, Read, Subject, Weight, weights_of
from lnlab.probes.untouched import over_cases, uncompiled
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread

COLUMNS = (*OF_WEIGHTS, *OF_INPUTS, *OF_SUMMED, OTHERS.column)
BADNESS = list(Grade)
MODES = ("train", "frozen", "recomputed", "evaluation")
FREED = 30 * 2**20
"""Bytes: glibc gives what is freed at the end of its memory back, from twice the largest block
that was freed so far, up to 32 MB, and small kernels would ask for it anew each time: for some
200,000 pages in a certificate of ResNet20, which without takes a twentieth less."""


@in_one_thread
def certify(
    module: nn.Module,
    x: Tensor,
    *,
    weights: Collection[str] | str | None = None,
    columns: Collection[int] | int | None = None,
    read: Read = first_tensor,
    feature_axis: int | None = None,
    dtypes: Collection[torch.dtype] | torch.dtype = tuple(EXACT),
    modes: Collection[str] | str | None = None,
    progress: bool = False,
) -> Certificate:
    """Try every transformation of Table 1 and its extension on ``module``.

    Each is tried at every weight (columns 1 to 3, 7, 8, 10) and at the input (4, 5, 6, 9,
    11), for deltas over 60 decades and of both signs, with statistics over cases of the
    batch ("train"), as they are ("frozen"), and taken again after the change ("recomputed"),
    where the module has any. A module that computes the same, to rounding, in training and
    with statistics taken again (batch norm does, without dropout) is tried in training alone,
    and both modes have what was found. Outputs are judged, and what goes into each f: a ReLU
    that is shut must not pass for an invariance. The module itself is not touched, nor is the
    random state; your hooks on it are not called.

    Args:
        module: called as ``module(x)``.
        x: its input, cases along the first axis.
        weights: names of the parameters to change; None: every matrix and kernel that is no
            part of a normalizer or an embedding.
        columns: which transformations; None: all.
        read: from what the module returns to the tensor that is judged; without it the first,
            and the certificate says of how many.
        feature_axis: of x, along which one case's inputs stand; None: the second for a
            picture or where the first weight is a kernel, else the last.
        dtypes: precisions; the first is graded by itself, the others are never graded better.
        modes: of "train", "frozen", "recomputed" and "evaluation", those to try where the
            module has them; None: all.
        progress: whether to show a bar: of all changes in all precisions and modes, of which
            there are fewer where some can do nothing.

    Raises:
        TypeError: where ``module`` is none, or x, or what is read from the output, no tensor.
        ValueError: where x holds NaN or an infinity, or integers that no input
            transformation fits; where the module does not take x, cannot be copied, or is
            not the same function twice; for a weight or column that does not exist.
    """
    start = time.perf_counter()
    torch.empty(FREED, dtype=torch.uint8)  # freed at once, and never written to
    module = uncompiled(module)
    read = _First() if read is first_tensor else read
    columns = COLUMNS if columns is None else several("columns", columns, int, "numbers")
    dtypes = several("dtypes", dtypes, torch.dtype, "precisions, torch.float64")
    if weights is not None:
        weights = several("weights", weights, str, "names of parameters")
    if modes is not None:
        modes = several("modes", modes, str, "names of modes")
    _check(x, columns, dtypes, feature_axis)
    chosen = weights_of(module, weights)
    chosen_modes = _chosen(_modes(module, x, read), modes)
    session = _Session(columns, feature_axis)

    def tried() -> Iterator[Change]:
        trained: dict[torch.dtype, Judge] = {}
        for dtype, (mode, statistics) in product(dtypes, chosen_modes.items()):
            label = f"{_name(dtype)}, {mode}"
            try:
                subject = Subject(module, x, dtype=dtype, statistics=statistics, read=read)
                judge = Judge(subject, chosen)
            except ValueError as error:
                session.not_tried[label] = str(error)
                continue
            if mode == "train":
                trained[dtype] = judge
            if mode == "recomputed" and dtype in trained and judge.agrees(trained[dtype]):
                session.repeat(judge, _name(dtype))
                continue
            yield from session.hear(judge, mode, label)

    most = len(dtypes) * len(chosen_modes) * _most(chosen.values(), columns)
    for _ in bar(tried(), most, type(module).__name__, shown=progress):
        pass
    if not session.invariances:
        why = session.not_tried or "it has no matrix or kernel, and columns are of weights"
        raise ValueError(f"nothing of {type(module).__name__} could be tried: {why}.")
    return Certificate(
        module=type(module).__name__,
        shape=tuple(x.shape),
        invariances=tuple(session.invariances),
        dead=session.dead,
        not_tried=session.not_tried,
        returned=read.returned if isinstance(read, _First) else 1,
        silent=session.silent,
        evaluations=session.evaluations,
        seconds=time.perf_counter() - start,
    )


def _chosen(
    there: dict[str, Statistics], wanted: Collection[str] | None
) -> dict[str, Statistics]:
    """The modes of the module that are looked at: all, or those that are wanted.

    Raises:
        ValueError: for a mode that does not exist, and where none is left.
    """
    if wanted is None:
        return there
    if unknown := sorted(set(wanted) - set(MODES)):
        raise ValueError(f"there are no modes {unknown}: choose from {', '.join(MODES)}.")
    chosen = {mode: statistics for mode, statistics in there.items() if mode in wanted}
    if not chosen:
        raise ValueError(f"modes is {sorted(wanted)}: the module has {', '.join(there)}.")
    return chosen


class _First:
    """:func:`first_tensor`, which remembers of how many."""

    returned = 1

    def __call__(self, output: Any) -> Tensor:
        self.returned = sum(1 for _ in tensors(output))
        return first_tensor(output)


class _Session:
    """All precisions and modes of one module, one after the other."""

    def __init__(self, columns: Sequence[int], feature_axis: int | None) -> None:
        self.columns, self.feature_axis = columns, feature_axis
        self.invariances: list[Invariance] = []
        self.first: dict[tuple, Invariance] = {}
        self.used: dict[str, list[Weight]] = {}
        self.not_tried: dict[str, str] = {}
        self.dead: dict[str, tuple[int, int]] = {}
        self.silent = False
        self.evaluations = 0

    def hear(self, judge: Judge, mode: str, label: str) -> Iterator[Change]:
        """Take down every invariance of one subject, a change at each turn."""
        self.silent = self.silent or judge.silent
        if not self.invariances:
            self.dead = dead_units(judge.subject.see(find_shut=True).inside)
        again = mode not in {m for *_, m in self.first}
        plainer = _Plainer(judge) if again and mode != "frozen" else None
        if mode not in self.used:  # the same in every precision
            self.used[mode] = [
                weight for weight in judge.weights.values() if judge.uses(weight)
            ]
        used = self.used[mode]
        for name in judge.weights.keys() - {weight.name for weight in used}:
            self.not_tried[name] = "nothing that can be seen depends on it"
        changes = [
            change
            for change in changes_of(used, judge.subject, judge.base.called, self.feature_axis)
            if change.transformation.column in self.columns
            and self._does_something(change, judge)
        ]
        for change in changes:
            yield change
            try:
                first = self.first.get((change.where, change.transformation.column, mode))
                broken = first is not None and first.grade is Grade.BROKEN
                found = judge.judged(change, mode, known_broken=broken)
            except ValueError as error:
                what = f"{label}, {change.where} {change.transformation.formula}"
                self.not_tried[what] = str(error)
                continue
            self.invariances.append(self._settled(found, change, plainer))
        self.evaluations += judge.evaluations + (plainer.evaluations if plainer else 0)

    def repeat(self, judge: Judge, dtype: str) -> None:
        """Take down for recomputed statistics what training found of the same function."""
        found = [v for v in self.invariances if (v.mode, v.dtype) == ("train", dtype)]
        self.invariances += [
            replace(v, mode="recomputed") for v in found if v.column != OTHERS.column
        ]
        self.evaluations += judge.evaluations

    def _does_something(self, change: Change, judge: Judge) -> bool:
        """True if a change can be seen at all: where it cannot, exact would mean nothing."""
        if change.where == "x" and not judge.uses_x():
            self.not_tried["x"] = "nothing that can be seen depends on it"
            return False
        if not judge.differs(change):
            what = f"{change.where} {change.transformation.formula}"
            self.not_tried[what] = f"it changes nothing: {change.where} is 0"
            return False
        return True

    def _settled(
        self, found: Invariance, change: Change, plainer: "_Plainer | None"
    ) -> Invariance:
        """The invariance with what is in its way, no better than in the first precision."""
        key = (found.where, found.column, found.mode)
        first = self.first.setdefault(key, found)
        # a coarser precision can hide a small break behind its rounding, and cannot mend one
        found = replace(found, grade=max(first.grade, found.grade, key=BADNESS.index))
        imperfect = found.grade in (Grade.APPROXIMATE, Grade.BROKEN)
        if plainer is None or not change.transformation.scales or not imperfect:
            return found
        return replace(found, exact_without=plainer.exact_without(change))


class _Plainer:
    """A subject without what commonly stands in the way of an invariance."""

    WITHOUT: ClassVar = {
        "eps": {"eps": True},
        "bias inside": {"bias": True},
        "eps and bias inside": {"eps": True, "bias": True},
    }

    def __init__(self, judge: Judge) -> None:
        self.judges: dict[str, Judge] = {}
        for without, which in self.WITHOUT.items():
            subject = judge.subject.without(**which)
            if subject is not None:
                with suppress(ValueError):  # 0/0 where nothing varies
                    self.judges[without] = Judge(subject, judge.weights)

    @property
    def evaluations(self) -> int:
        return sum(judge.evaluations for judge in self.judges.values())

    def exact_without(self, change: Change) -> str:
        """The setting that, at 0, lets ``change`` change nothing; "" where none does."""
        # the most plain comes last, and is mostly not needed
        return next((without for without in self.judges if self._exact(without, change)), "")

    def _exact(self, without: str, change: Change) -> bool:
        judge = self.judges[without]
        # at still smaller ones a bias that BatchNorm takes away again has cost all digits
        defects = (judge.outputs(change, delta) for delta in (USUAL, 1e-3))
        return all(defect <= EXACT[judge.dtype] for defect in defects)


def _most(weights: Iterable[Weight], columns: Sequence[int]) -> int:
    """The number of changes there can be in one precision and mode."""
    at_weights = (OF_WEIGHTS + (OF_SUMMED if weight.summed else ()) for weight in weights)
    each = (*at_weights, (*OF_INPUTS, OTHERS.column))
    return sum(len(set(own) & set(columns)) for own in each)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(
    x: Tensor, columns: Sequence[int], dtypes: Sequence[torch.dtype], feature_axis: int | None
) -> None:
    """Raise where certify cannot begin."""
    refuse_no_tensor("x", x, GIVEN)
    if x.dim() == 0 or x.numel() == 0:
        raise ValueError(f"x has shape {tuple(x.shape)}: give at least one case.")
    axes = range(-x.dim(), x.dim())
    if feature_axis is not None and feature_axis not in axes:
        raise ValueError(
            f"feature_axis is {feature_axis!r}: x has the axes {axes.start} to {axes.stop - 1}."
        )
    if unknown := [column for column in columns if column not in COLUMNS]:
        raise ValueError(f"there are no columns {unknown}: choose from {sorted(COLUMNS)}.")
    if unknown := [dtype for dtype in dtypes if dtype not in EXACT]:
        raise ValueError(f"no tolerance is known for {unknown}: choose from {list(EXACT)}.")
    refuse_unreadable("x", x)
    if x.is_floating_point():
        refuse_nonfinite("x", x)
    elif wrong := sorted(set(columns) & {*OF_INPUTS, OTHERS.column}):
        raise ValueError(
            f"x holds {x.dtype}, which columns {wrong} cannot re-scale or shift: certify what "
            f"comes behind the embedding, or give columns={sorted((*OF_WEIGHTS, *OF_SUMMED))}."
        )


def _modes(module: nn.Module, x: Tensor, read: Read) -> dict[str, Statistics]:
    """The modes in which a module is to be tried, from what it does as it is.

    Raises:
        ValueError: where it does not take x in training or in evaluation.
    """
    if over_cases(module):
        return {
            "train": Statistics.BATCH,
            "frozen": Statistics.FROZEN,
            "recomputed": Statistics.RECOMPUTED,
        }
    evaluation = Judge(Subject(module, x, statistics=Statistics.FROZEN, read=read), {})
    training = Judge(Subject(module, x, statistics=Statistics.BATCH, read=read), {})
    both = {"train": Statistics.BATCH, "evaluation": Statistics.FROZEN}
    same = torch.equal(evaluation.base.y, training.base.y)
    return {"evaluation": Statistics.FROZEN} if same else both
