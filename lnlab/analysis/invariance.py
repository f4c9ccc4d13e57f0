"""The movement of an output under a transformation: Table 1 of Ba et al. (2016), measured.

The *defect* of a transformation is max|y' - y| / max|y| over all outputs y of the layer
(before f, which may hide a change behind a dead unit). It is measured in the precision of
what the layer is given; pictures and tables of it use float64, in which 1e-30 to 1e30 times
the weights or the inputs is still no special case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from lnlab.analysis.arguments import (
    cast,
    random_given,
    random_shift,
    refuse_delta,
    refuse_nonfinite,
    refuse_other,
    shift_length,
    uniform,
)
from lnlab.analysis.module_copy import Buffers, remember
from lnlab.nn import Normalizer, SpectralNorm
from lnlab.nn.table1 import ROWS, TRANSFORMATIONS, Given, Row, Statistics, Transformation
from lnlab.threads import in_one_thread

if TYPE_CHECKING:
    import pandas as pd


EXACT = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.1}
"""A defect below this is rounding: some 10^3 of its units in float64 and float32, 25 in
bfloat16, which rounds weights, inputs and outputs once more after the change."""


class NormalizedLayer:
    """The layer y = N(W x + c) of one row, before f: what transformations are tried on.

    Attributes:
        norm: the row's normalizer, in the precision of ``given``. Evaluating the layer
            leaves nothing behind in it.

    Args:
        row: which normalizer, in what place.
        given: what the layer is given before any change.
        eps: the eps of the normalizer.
        statistics: where statistics over cases come from; None: as the row says. Frozen
            ones are those of ``given``.
        seed: draws gains and biases from U(1/2, 3/2); None leaves them at their start.

    Raises:
        ValueError: where W, x or c holds NaN or an infinity.
    """

    def __init__(
        self,
        row: Row,
        given: Given,
        *,
        eps: float = 0.0,
        statistics: Statistics | None = None,
        seed: int | None = None,
    ) -> None:
        refuse_other("row", row, Row, "one of ROWS")
        refuse_other("given", given, Given, "random_given(units, inputs, cases)")
        for name in ("W", "x", "c"):
            refuse_nonfinite(name, getattr(given, name))
        self.row, self.given = row, given
        self.statistics = row.statistics if statistics is None else statistics
        self.norm = row.make(len(given.W), eps).to(given.W.dtype)
        self.norm.start(given.W)
        if isinstance(self.norm, SpectralNorm):
            _converge(self.norm, given.W)
        if seed is not None:
            _draw_gains(self.norm, seed)
        if self.statistics is Statistics.FROZEN:
            remember(_Fed(self.norm), given)
        self._buffers = Buffers(self.norm)
        self.y = self.output(given)

    def output(self, given: Given) -> Tensor:
        """y (B, H, *space) of ``given``; recomputed statistics are those of ``given``."""
        again = self.statistics is Statistics.RECOMPUTED
        return self._output(given, self.statistics, given if again else None)

    @torch.no_grad()
    def _output(self, given: Given, statistics: Statistics, population: Given | None) -> Tensor:
        with self._buffers:
            if population is not None:
                remember(_Fed(self.norm), population)
            self.norm.train(statistics is Statistics.BATCH)
            a = given.summed_inputs(self.norm)
            if self.row.batch is None:
                return self.norm(a, given.W, 0)
            # mini-batches of their own: what mixes cases mixes those of a part alone
            return torch.cat([self.norm(part, given.W, 0) for part in a.split(self.row.batch)])

    def defect(
        self, transformation: Transformation, delta: float = 1.0, shift: Tensor | None = None
    ) -> float:
        """max|y' - y| / max|y| for one change; NaN where y' holds one.

        Args:
            transformation: the change.
            delta: the scale, for a transformation that scales.
            shift: what the others cut theirs from (N,); None: :func:`random_shift`.

        Raises:
            ValueError: for a delta that is 0, not finite, or out of range (:data:`LARGEST`),
                and for a shift that is not finite or too short.
        """
        return self._defect(transformation, delta, self._shift(shift))

    def _defect(self, transformation: Transformation, delta: float, shift: Tensor) -> float:
        refuse_delta(delta)
        return relative_change(self.output(transformation(self.given, delta, shift)), self.y)

    def against_delta(
        self,
        transformation: Transformation,
        deltas: Iterable[float],
        shift: Tensor | None = None,
    ) -> np.ndarray:
        """The defect for each delta; shifts are by delta times ``shift`` (N,)."""
        shift = self._shift(shift)
        return np.array(
            [
                self._defect(transformation, delta, shift)
                if transformation.scales
                else self._defect(transformation, delta, delta * shift)
                for delta in map(float, deltas)
            ]
        )

    def _shift(self, shift: Tensor | None) -> Tensor:
        if shift is None:
            return random_shift(self.given)
        refuse_nonfinite("shift", shift)
        needed = shift_length(self.given)
        if shift.dim() != 1 or len(shift) < needed:
            raise ValueError(
                f"shift has shape {tuple(shift.shape)}: give a vector of at least {needed}."
            )
        return shift.to(self.given.x.dtype)

    def dependence(self) -> float:
        """Column 11: the defect of the first case when all the others are replaced.

        Statistics of a population stay those of the cases before.
        """
        x = self.given.x
        # others by an affine map, so that mean and variance over the cases are others, too
        replaced = replace(self.given, x=torch.cat([x[:1], 2 * x[1:].flip(0) + 1]))
        y, changed = (
            self._output(given, self.statistics, self.given) for given in (self.given, replaced)
        )
        return relative_change(changed[:1], y[:1])

    def gap(self) -> float:
        """Column 12: the defect of evaluation against training on the same cases.

        Evaluation knows a population that holds other cases too.
        """
        x = self.given.x
        # with images of x that have another mean and variance: x alone would be its own
        # population, and training and evaluation the same
        population = replace(self.given, x=torch.cat([x, 2 * x + 1, 1 - x.flip(0)]))
        training = self._output(self.given, Statistics.BATCH, population)
        evaluation = self._output(self.given, Statistics.FROZEN, population)
        return relative_change(evaluation, training)


class _Fed(nn.Module):
    """A normalizer as a module of one argument, what the layer is given."""

    def __init__(self, norm: Normalizer) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, given: Given) -> Tensor:
        return given.output(self.norm)


@torch.no_grad()
def _converge(norm: SpectralNorm, W: Tensor) -> None:
    """Power iteration's limit: the first left singular vector."""
    norm.u.copy_(torch.linalg.svd(W.flatten(1).double(), full_matrices=False)[0][:, 0])


@torch.no_grad()
def _draw_gains(norm: Normalizer, seed: int) -> None:
    # at the start, 1 and 0, a gain in the wrong place or a bias left out would not be seen
    for number, p in enumerate(norm.parameters()):
        p.copy_(0.5 + uniform(seed, (5, number), *p.shape))


def relative_change(changed: Tensor, y: Tensor, largest: float | None = None) -> float:
    """max|y' - y| / max|y| in float64; 0/0 is 0, and a NaN in either gives NaN.

    Args:
        changed: y'.
        y: of the same shape.
        largest: max|y|, given where several y' are compared with one y.
    """
    largest = greatest(y) if largest is None else largest
    moved = greatest(changed.double() - y)
    # 0 where nothing moved, also where y is 0; infinite where y was 0 and is not now
    if largest:
        return moved / largest
    return float("inf") if moved > 0 else moved


def greatest(y: Tensor) -> float:
    """The largest |y| of y (any shape); NaN where y holds one."""
    least, largest = (
        y.double().aminmax()
    )  # both ends in one pass, where |y| would be made first
    return max(abs(float(least)), abs(float(largest)))


@in_one_thread
def table(
    rows: Mapping[str, Row] = ROWS,
    *,
    units: int = 12,
    inputs: int = 7,
    cases: int = 8,
    delta: float = 3.7,
    eps: float = 0.0,
    dtype: torch.dtype = torch.float64,
    statistics: Statistics | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Every cell of ``rows`` measured: columns row, column, name, claimed, defect, agrees.

    ``agrees`` is whether the defect lies on the claimed side of :data:`EXACT`; the claims
    are of eps = 0 and delta > 0, so that it also shows where those matter.

    Args:
        rows: what to measure, by name.
        units: H; a multiple of 4 where the rows hold the group normalizers.
        inputs: D.
        cases: B.
        delta: the factor by which weights, inputs or cases are re-scaled.
        eps: the eps of every normalizer.
        dtype: the precision of everything.
        statistics: instead of what each row says.
        seed: what weights, inputs, shifts, gains and biases are drawn with.
    """
    import pandas as pd

    refuse_other("rows", rows, Mapping, "rows by name, such as ROWS")
    cells = []
    for name, row in rows.items():
        given = cast(random_given(units, inputs, cases, row.place, seed=seed), dtype)
        layer = NormalizedLayer(row, given, eps=eps, statistics=statistics, seed=seed)
        shift = random_shift(given, seed=seed)
        for column, what, defect in _measured(layer, delta, shift):
            claimed = row.claims(column)
            agrees = (defect < EXACT[dtype]) == claimed
            cells.append((name, column, what, claimed, defect, agrees))
    return pd.DataFrame(cells, columns=["row", "column", "name", "claimed", "defect", "agrees"])


def _measured(
    layer: NormalizedLayer, delta: float, shift: Tensor
) -> Iterator[tuple[int, str, float]]:
    for transformation in TRANSFORMATIONS:
        defect = layer.defect(transformation, delta, shift)
        yield transformation.column, transformation.name, defect
    yield 11, "independence of the other cases", layer.dependence()
    if layer.row.cells[11] != "-":
        yield 12, "training = evaluation", layer.gap()
