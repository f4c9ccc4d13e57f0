"""The change of an output under a transformation: Table 1 of Ba et al. (2016), measured.

The *defect* of a transformation is max|y' - y| / max|y| over all outputs y of the layer
(before f, where a dead unit might hide a change). It is measured in the precision of what the
layer is given; panels and tables use float64, in which 1e-30 to 1e30 times the weights or the
inputs is still no special case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.analysis.magnitudes import EXACT, relative_max_change
from lnlab.analysis.module_copy import SavedBuffers, recompute_bn_stats
from lnlab.analysis.random import normal, uniform
from lnlab.analysis.result import AnalysisResult, DataFrame, make_frame
from lnlab.nn import Normalizer, SpectralNorm
from lnlab.nn.table1 import (
    ROWS,
    TRANSFORMATIONS,
    BatchNormStatisticsSource,
    DenseOrConv,
    LayerInputs,
    OneBasedExtendedTable1Column,
    TableRow,
    Transformation,
)
from lnlab.threads import in_one_thread_if_small

DELTA = 3.7
"""The scale by which a table is measured: nothing special, such as a power of two."""


# What a layer is given: random weights and inputs.


def random_layer_inputs(
    units: int = 12,
    inputs: int = 7,
    examples: int = 8,
    place: DenseOrConv = DenseOrConv.DENSE,
    *,
    seed: int = 0,
) -> LayerInputs:
    """Return standard normal weights W and inputs x, in float64.

    Args:
        units, inputs, examples: H, D and B.
        place: dense, or a convolution of images of 6 by 6 with kernels of 3 by 3.
        seed: of W and x each by itself: W does not change with B, nor the first x.
    """
    pixels, window = (6,) * place.spatial_axis_count, (3,) * place.spatial_axis_count
    return LayerInputs(
        W=normal(seed, 0, units, inputs, *window),
        x=normal(seed, 1, examples, inputs, *pixels),
        added_to_a=torch.zeros((), dtype=torch.float64),
        picture_padding=1 if place is DenseOrConv.PADDED else 0,
    )


def random_vector_for_any_shift(layer_inputs: LayerInputs, *, seed: int = 0) -> Tensor:
    """Return a standard normal vector (N,), long enough for every shift of ``layer_inputs``."""
    longest = max(
        len(layer_inputs.x),
        layer_inputs.x.shape[1],
        len(layer_inputs.W),
        layer_inputs.W[0].numel(),
    )
    return normal(seed, 3, longest).to(layer_inputs.x.dtype)


def cast(layer_inputs: LayerInputs, dtype: torch.dtype) -> LayerInputs:
    """Return ``layer_inputs`` rounded to ``dtype``."""
    return replace(
        layer_inputs,
        W=layer_inputs.W.to(dtype),
        x=layer_inputs.x.to(dtype),
        added_to_a=layer_inputs.added_to_a.to(dtype),
    )


def check_finite(name: str, v: Tensor) -> None:
    """Raise ValueError if ``v`` (any shape), called ``name``, holds NaN or an infinity."""
    if not bool(v.isfinite().all()):
        index = tuple((~v.isfinite()).nonzero()[0].tolist())
        raise ValueError(
            f"{name} is {v[index].item()} at {index}: a defect of what is not finite says "
            "nothing, give finite numbers."
        )


class NormalizedLayer:
    """The layer y = N(W x + c) of one row of Table 1, before f.

    Its ``norm`` has the precision of ``layer_inputs``, and its buffers stay as they are.

    Args:
        row: which normalizer, in what place.
        layer_inputs: what the layer is given before any change.
        eps: of the normalizer.
        statistics: where statistics over examples come from; None: as the row says. Frozen ones
            are those of ``layer_inputs``.
        seed: draws gains and biases from U(1/2, 3/2); None leaves them at their start.
    """

    def __init__(
        self,
        row: TableRow,
        layer_inputs: LayerInputs,
        *,
        eps: float = 0.0,
        statistics: BatchNormStatisticsSource | None = None,
        seed: int | None = None,
    ) -> None:
        for name in ("W", "x", "added_to_a"):
            check_finite(name, getattr(layer_inputs, name))
        self.row, self.layer_inputs = row, layer_inputs
        self.statistics = row.statistics_source if statistics is None else statistics
        self.norm = row.make_norm(len(layer_inputs.W), eps).to(layer_inputs.W.dtype)
        self.norm.initialize_from_weights(layer_inputs.W)
        if isinstance(self.norm, SpectralNorm):
            _set_u_to_first_singular_vector(self.norm, layer_inputs.W)
        if seed is not None:
            _randomize_gains_and_biases(self.norm, seed)
        if self.statistics is BatchNormStatisticsSource.FROZEN:
            recompute_bn_stats(_NormCalledWithLayerInputs(self.norm), layer_inputs)
        self._buffers = SavedBuffers(self.norm)
        self.y = self.output(layer_inputs)

    def output(self, layer_inputs: LayerInputs) -> Tensor:
        """Return y (B, H, *space); recomputed statistics are those of ``layer_inputs``."""
        again = self.statistics is BatchNormStatisticsSource.RECOMPUTED
        return self._output_with_statistics(
            layer_inputs, self.statistics, layer_inputs if again else None
        )

    @torch.no_grad()
    def _output_with_statistics(
        self,
        layer_inputs: LayerInputs,
        statistics: BatchNormStatisticsSource,
        population: LayerInputs | None,
    ) -> Tensor:
        with self._buffers:
            if population is not None:
                recompute_bn_stats(_NormCalledWithLayerInputs(self.norm), population)
            self.norm.train(statistics is BatchNormStatisticsSource.BATCH)
            a = layer_inputs.unnormalized_pre_activations(self.norm)
            if self.row.examples_normalized_together is None:
                return self.norm(a, layer_inputs.W, 0)
            # mini-batches: what mixes examples mixes those of one batch alone
            batches = a.split(self.row.examples_normalized_together)
            return torch.cat([self.norm(batch, layer_inputs.W, 0) for batch in batches])

    def defect(
        self, transformation: Transformation, delta: float = 1.0, shift: Tensor | None = None
    ) -> float:
        """Return max|y' - y| / max|y| for one change; NaN if y' holds one.

        ``delta`` is the scale, for a transformation that scales, and ``shift`` what the others
        cut theirs from (N,); None: :func:`random_vector_for_any_shift`.
        """
        shift = (
            random_vector_for_any_shift(self.layer_inputs)
            if shift is None
            else shift.to(self.layer_inputs.x.dtype)
        )
        return relative_max_change(
            self.output(transformation(self.layer_inputs, delta, shift)), self.y
        )

    def batch_dependence(self) -> float:
        """Return column 11: the defect of the first example when all the others are replaced.

        Statistics of a population stay those of the examples before.
        """
        x = self.layer_inputs.x
        # others by an affine map, so that mean and variance over the examples change, too
        replaced = replace(self.layer_inputs, x=torch.cat([x[:1], 2 * x[1:].flip(0) + 1]))
        y, changed = (
            self._output_with_statistics(layer_inputs, self.statistics, self.layer_inputs)
            for layer_inputs in (self.layer_inputs, replaced)
        )
        return relative_max_change(changed[:1], y[:1])

    def train_eval_gap(self) -> float:
        """Return column 12: the defect of evaluation against training on the same examples.

        Evaluation knows a population that holds other examples too.
        """
        x = self.layer_inputs.x
        # with images of x that have another mean and variance: x alone would be its own
        # population, and training and evaluation the same
        population = replace(self.layer_inputs, x=torch.cat([x, 2 * x + 1, 1 - x.flip(0)]))
        training = self._output_with_statistics(
            self.layer_inputs, BatchNormStatisticsSource.BATCH, population
        )
        evaluation = self._output_with_statistics(
            self.layer_inputs, BatchNormStatisticsSource.FROZEN, population
        )
        return relative_max_change(evaluation, training)


class _NormCalledWithLayerInputs(nn.Module):
    """A normalizer as a module of one argument, what the layer is given."""

    def __init__(self, norm: Normalizer) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, layer_inputs: LayerInputs) -> Tensor:
        return layer_inputs.output(self.norm)


@torch.no_grad()
def _set_u_to_first_singular_vector(norm: SpectralNorm, W: Tensor) -> None:
    """Set u to the limit of power iteration, the first left singular vector."""
    norm.u.copy_(torch.linalg.svd(W.flatten(1).double(), full_matrices=False)[0][:, 0])


@torch.no_grad()
def _randomize_gains_and_biases(norm: Normalizer, seed: int) -> None:
    # at the start, 1 and 0, a gain in the wrong place or a missing bias would not be seen
    for number, p in enumerate(norm.parameters()):
        p.copy_(0.5 + uniform(seed, (5, number), *p.shape))


# The whole table.


class MeasuredCell(NamedTuple):
    """One cell of a table of invariances: the claim, and what was measured."""

    row: str  # of the table: which normalizer, in what place
    column: OneBasedExtendedTable1Column  # the number of the transformation
    transformation_name: str  # the transformation in words
    is_claimed_invariant: bool
    defect: float
    agrees_with_claim: bool


@dataclass(frozen=True)
class MeasuredTable(AnalysisResult):
    """Every cell of a table of invariances, measured."""

    cells: tuple[MeasuredCell, ...]

    def to_frame(self) -> DataFrame:
        """Return one row per cell."""
        columns = ["row", "column", "name", "claimed", "defect", "agrees"]
        return make_frame(self.cells, columns=columns)


@in_one_thread_if_small
def measure_table1(
    rows: Mapping[str, TableRow] = ROWS, *, eps: float = 0.0, seed: int = 0
) -> MeasuredTable:
    """Measure every cell of ``rows`` in float64, with ``eps`` in every normalizer.

    A cell agrees if its defect lies on the claimed side of :data:`EXACT`; the claims are of
    eps = 0 and delta > 0. ``seed`` draws weights, inputs, shifts, gains and biases.
    """
    measured = []
    for name, row in rows.items():
        layer_inputs = random_layer_inputs(place=row.layer_kind, seed=seed)
        layer = NormalizedLayer(row, layer_inputs, eps=eps, seed=seed)
        shift = random_vector_for_any_shift(layer_inputs, seed=seed)
        defects = [(T.column, T.name, layer.defect(T, DELTA, shift)) for T in TRANSFORMATIONS]
        defects.append((11, "independence of the other examples", layer.batch_dependence()))
        if row.yes_no_letter_per_column[11] != "-":
            defects.append((12, "training = evaluation", layer.train_eval_gap()))
        for column, what, defect in defects:
            claimed = row.claims_invariance(column)
            agrees = (defect < EXACT[torch.float64]) == claimed
            measured.append(MeasuredCell(name, column, what, claimed, defect, agrees))
    return MeasuredTable(tuple(measured))
