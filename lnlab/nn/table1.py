"""Table 1 of Ba et al. (2016) and its extension, as data: the invariances of each norm.

A *row* claims, for one normalizer, which transformations do not change the output. The first
six columns are the paper's Table 1. Its 18 entries hold under conditions that the paper does
not state, and so do these: eps = 0, delta > 0, no bias inside a, and statistics of the batch
(or of the population) computed again after the change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.nn import NORMS
from lnlab.nn.batch import BatchNorm, BatchRenorm, GhostBatchNorm
from lnlab.nn.batch_layer import BatchLayerNorm
from lnlab.nn.layer import GroupNorm, InstanceNorm, LayerNorm
from lnlab.nn.normalizer import Normalizer

# The columns of Table 1 of Ba et al. (2016), and four of our own, as changes of a layer.
#
# A *transformation* changes what a layer is given: its weights W, its inputs x, or its
# pre-activations a.


@dataclass(frozen=True)
class LayerInputs:
    """The inputs and weights of one layer; ``a = W x + added_to_a``."""

    W: Tensor  # weights (H, D), or (H, D, height, width) of a convolution
    x: Tensor  # inputs (B, D), or (B, D, height, width)
    added_to_a: Tensor  # added to the pre-activations, broadcast: 0, or a bias inside a
    picture_padding: int = 0  # zeros around the picture

    def unnormalized_pre_activations(self, norm: Normalizer) -> Tensor:
        """Return ``a`` (B, H, *space), with the weights that ``norm`` multiplies by."""
        W = norm.effective_weight(self.W)
        if self.x.dim() == 2:
            return F.linear(self.x, W) + self.added_to_a
        return F.conv2d(self.x, W, padding=self.picture_padding) + self.added_to_a

    def output(self, norm: Normalizer) -> Tensor:
        """Return the normalized pre-activations (B, H): f could hide a change."""
        return norm(self.unnormalized_pre_activations(norm), self.W, 0)

    def broadcast_along(self, v: Tensor, axis: int) -> Tensor:
        """Reshape v (N,) to ``axis`` of x (0 examples, 1 inputs or units), to broadcast."""
        return v.reshape(tuple(-1 if i == axis else 1 for i in range(self.x.dim())))


WholeBatchIfNone = int | None
"""The number of examples normalized together; None: all of the batch."""
OneBasedExtendedTable1Column = int
"""The number of a column of Table 1 or of its extension: of a transformation."""
UnicodeFormula = str
""""X → δX", in Unicode, not in TeX."""


@dataclass(frozen=True)
class Transformation:
    """One column: a change of the inputs by a scale ``delta`` or by a ``shift``."""

    column: OneBasedExtendedTable1Column  # 1 to 6 are the columns of Table 1, in its order
    name: str  # in the paper's words where it has some
    formula: UnicodeFormula  # the same, in its letters
    # from the inputs and delta, or one long vector from which shifts of any shape are cut
    change: Callable[[LayerInputs, Any], LayerInputs]
    is_scaling: bool  # whether it uses delta; the others use the shift

    def __call__(self, inputs: LayerInputs, delta: float, shift: Tensor) -> LayerInputs:
        return self.change(inputs, delta if self.is_scaling else shift)


def _scale_W(inputs: LayerInputs, factor: float) -> LayerInputs:
    return replace(inputs, W=factor * inputs.W)


def _scale_first_weight_row(inputs: LayerInputs, factor: float) -> LayerInputs:
    return replace(inputs, W=torch.cat([factor * inputs.W[:1], inputs.W[1:]]))


def _scale_x(inputs: LayerInputs, factor: float) -> LayerInputs:
    return replace(inputs, x=factor * inputs.x)


def _scale_first_example(inputs: LayerInputs, factor: float) -> LayerInputs:
    return replace(inputs, x=torch.cat([factor * inputs.x[:1], inputs.x[1:]]))


def _add_vector_to_weight_rows(inputs: LayerInputs, shift: Tensor) -> LayerInputs:
    # One γ for all rows: every pre-activation of an example moves by γᵀx, one number, which a
    # mean over the units takes out and a mean over the examples does not.
    gamma = shift[: inputs.W[0].numel()].view_as(inputs.W[0])
    return replace(inputs, W=inputs.W + gamma)


def _add_number_per_weight_row(inputs: LayerInputs, shift: Tensor) -> LayerInputs:
    # a_i changes by c_i times the sum of x: another number per unit and example
    c = shift[: len(inputs.W)].reshape((-1,) + (1,) * (inputs.W.dim() - 1))
    return replace(inputs, W=inputs.W + c)


def _shift_x(inputs: LayerInputs, shift: Tensor, axis: int) -> LayerInputs:
    # Along the inputs (axis 1) a changes by W γ, one number per unit, the same for all
    # examples. Along the examples a_i changes by c_n times the sum of row i of W.
    return replace(
        inputs, x=inputs.x + inputs.broadcast_along(shift[: inputs.x.shape[axis]], axis)
    )


def _shift_pre_activations(inputs: LayerInputs, shift: Tensor, axis: int) -> LayerInputs:
    size = len(inputs.W if axis else inputs.x)
    return replace(
        inputs, added_to_a=inputs.added_to_a + inputs.broadcast_along(shift[:size], axis)
    )


_shift_x_per_example, _shift_x_per_input = partial(_shift_x, axis=0), partial(_shift_x, axis=1)
_shift_a_per_example, _shift_a_per_unit = (
    partial(_shift_pre_activations, axis=0),
    partial(_shift_pre_activations, axis=1),
)


TRANSFORMATIONS: tuple[Transformation, ...] = (
    Transformation(1, "weight matrix re-scaling", "W → δW", _scale_W, True),
    Transformation(
        2, "weight matrix re-centering", "W → W + 1γᵀ", _add_vector_to_weight_rows, False
    ),
    Transformation(3, "weight vector re-scaling", "w₁ → δw₁", _scale_first_weight_row, True),
    Transformation(4, "dataset re-scaling", "X → δX", _scale_x, True),
    Transformation(5, "dataset re-centering", "X → X + 1γᵀ", _shift_x_per_input, False),
    Transformation(
        6, "single training case re-scaling", "x₁ → δx₁", _scale_first_example, True
    ),
    Transformation(
        7, "shift of an example's pre-activations", "aₙ → aₙ + cₙ1", _shift_a_per_example, False
    ),
    Transformation(
        8, "shift of a unit's pre-activation", "aᵢ → aᵢ + cᵢ", _shift_a_per_unit, False
    ),
    Transformation(
        9, "shift of an example's inputs", "xₙ → xₙ + cₙ1", _shift_x_per_example, False
    ),
    Transformation(
        10, "shift of a unit's weights", "wᵢ → wᵢ + cᵢ1", _add_number_per_weight_row, False
    ),
)
"""Columns 1 to 10. Column 11, an example's output does not depend on the others, and 12,
training and evaluation are the same function, are no transformations: see ``Row``."""

GROUPS, GHOST = 4, 4
"""The number of groups of units, and of examples in a ghost batch, in the rows with such."""


class BatchNormStatisticsSource(Enum):
    """The source of statistics over examples while the inputs are changed."""

    BATCH = "of the batch"
    FROZEN = "frozen: running averages from before any change"
    RECOMPUTED = "recomputed: of all examples, after each change"


class DenseOrConv(Enum):
    """The kind of layer that is normalized."""

    DENSE = "dense"
    CONVOLUTION = "convolution"
    PADDED = "convolution with zero padding"

    @property
    def spatial_axis_count(self) -> int:
        """The number of spatial axes of x."""
        return 0 if self is DenseOrConv.DENSE else 2


@dataclass(frozen=True)
class TableRow:
    """The claims of one normalizer, a row of the table."""

    norm_factory: Callable[..., Normalizer]
    # twelve letters, Y or N (or - where the question makes no sense): columns 1 to 10 the
    # transformations, 11 independence of the other examples, 12 training = evaluation
    yes_no_letter_per_column: str
    reason: str  # in one line
    # the source of statistics over examples
    statistics_source: BatchNormStatisticsSource = BatchNormStatisticsSource.BATCH
    layer_kind: DenseOrConv = DenseOrConv.DENSE  # the layer that is normalized
    # what else a letter needs, by column
    conditions_by_column: dict[OneBasedExtendedTable1Column, str] = field(
        default_factory=dict, hash=False
    )
    # whether delta < 0 flips the sign of the output before b is added; else the output is not
    # even the same up to its sign
    negative_delta_only_flips_sign: bool = True
    examples_normalized_together: WholeBatchIfNone = None

    def make_norm(self, units: int, eps: float = 0.0) -> Normalizer:
        """Return the normalizer of ``units`` units in its kind of layer, with ``eps``."""
        space = self.layer_kind.spatial_axis_count
        norm = self.norm_factory(units, space=space) if space else self.norm_factory(units)
        norm.eps = eps
        return norm

    def claims_invariance(self, column: OneBasedExtendedTable1Column) -> bool:
        """Return True if column 1 to 12 is claimed to change nothing."""
        return self.yes_no_letter_per_column[column - 1] == "Y"


_BATCH, _LAYER = "YNYYYNNYNNNN", "YYNYNYYNNNYY"
_WHOLE = dict.fromkeys((4, 5), "the whole population changes, not the batch alone")
_PADDING = "zero padding stays 0 where the data are shifted"
_CONVOLUTION = DenseOrConv.CONVOLUTION

ROWS: dict[str, TableRow] = {
    "none": TableRow(NORMS["none"], "NNNNNNNNNNYY", "the identity"),
    "batch": TableRow(BatchNorm, _BATCH, "standardizes each unit over the examples"),
    "batch, frozen": TableRow(
        BatchNorm, "NNNNNNNNNNY-", "a fixed affine map", BatchNormStatisticsSource.FROZEN
    ),
    "batch, recomputed": TableRow(
        BatchNorm, "YNYYYNNYNNY-", "as batch, given the population",
        BatchNormStatisticsSource.RECOMPUTED,
        conditions_by_column={**_WHOLE, 11: "given the population"},
    ),
    "layer": TableRow(LayerNorm, _LAYER, "standardizes each example over its units"),
    "weight": TableRow(NORMS["weight"], "YNYNNNNNNNYY", "removes the norm of each wᵢ only"),
    "weight, mean-only batch": TableRow(
        NORMS["weight, mean-only batch"], "YNYNYNNYNNNN", "weight norm, each unit centred"
    ),
    "rms": TableRow(
        NORMS["rms"], "YNNYNYNNNNYY", "removes the scale of an example, does not centre"
    ),
    "scale": TableRow(NORMS["scale"], "YNNYNYNNNNYY", "as rms, up to a constant"),
    "group": TableRow(
        partial(GroupNorm, GROUPS), _LAYER, "layer norm inside each group"
    ),
    "ghost batch": TableRow(
        partial(GhostBatchNorm, ghost=GHOST), _BATCH, "batch norm inside each ghost batch"
    ),
    "batch renorm, clips off": TableRow(
        partial(BatchRenorm, r_max=float("inf"), d_max=float("inf")), "NNNNNNNNNNYY",
        "forward, the running statistics alone",
    ),
    "batch renorm, r = 1, d = 0": TableRow(
        partial(BatchRenorm, r_max=1.0, d_max=0.0), _BATCH, "batch norm"
    ),
    "ada": TableRow(
        NORMS["ada"], _LAYER, "a function of LN(a)", negative_delta_only_flips_sign=False
    ),
    "weight standardization": TableRow(
        NORMS["weight standardization"], "YNYNNNNNYYYY", "each wᵢ centred and scaled"
    ),
    "spectral": TableRow(
        NORMS["spectral"], "YNNNNNNNNNYY", "removes the scale of W as a whole",
        conditions_by_column={12: "power iteration converged"},
    ),
    "dyt": TableRow(NORMS["dyt"], "NNNNNNNNNNYY", "no statistics"),
    "derf": TableRow(
        NORMS["derf"], "NNNNNNNNNNYY", "no statistics", negative_delta_only_flips_sign=False
    ),
    "recurrent batch": TableRow(
        NORMS["recurrent batch"], _BATCH, "batch norm, at each time step by itself"
    ),
    "batch layer": TableRow(
        partial(BatchLayerNorm, population="TTFF"), "YNNYNNNNNNNN",
        "a sum of batch and layer norm: what both keep",
        conditions_by_column={
            **dict.fromkeys((3, 5, 8), "moves by O(1/m) only"),
            12: "batch statistics from the population in evaluation, here TTFF",
        },
    ),
    "batch layer, m = 1": TableRow(
        BatchLayerNorm,
        _LAYER,
        "one example at a time it is 0.9999 LN(a)/√d",
        examples_normalized_together=1,
    ),
    "layer, convolution": TableRow(
        LayerNorm, "YNNYNYYNNNYY", "γ∗x varies over space: one mean cannot remove it",
        layer_kind=_CONVOLUTION,
    ),
    "layer per position, convolution": TableRow(
        partial(LayerNorm, per_position=True), _LAYER, "the dense row at each position",
        layer_kind=_CONVOLUTION,
    ),
    "group, convolution": TableRow(
        partial(GroupNorm, GROUPS), "YNNYNYYNNNYY", "as layer, inside each group",
        layer_kind=_CONVOLUTION,
    ),
    "instance": TableRow(
        InstanceNorm, "YNYYYYYYYNYY", "each unit of each example over space",
        layer_kind=_CONVOLUTION, conditions_by_column=dict.fromkeys((5, 9), "no zero padding"),
    ),
    "instance, padded": TableRow(
        InstanceNorm, "YNYYNYYYNNYY", _PADDING, layer_kind=DenseOrConv.PADDED
    ),
    "batch, convolution": TableRow(
        BatchNorm, _BATCH, "as dense, over space too", layer_kind=_CONVOLUTION,
        conditions_by_column={5: "no zero padding"},
    ),
    "batch, padded": TableRow(
        BatchNorm, "YNYYNNNYNNNN", _PADDING, layer_kind=DenseOrConv.PADDED
    ),
}  # fmt: skip

TABLE_1 = {
    name: ROWS[name].yes_no_letter_per_column[:6] for name in ("batch", "weight", "layer")
}
"""Table 1 of Ba et al. (2016): one letter for each of its six columns."""


def rescaled_output_ratio(var: Tensor, eps: float, delta: float) -> Tensor:
    """Return the factor (shaped as var) that re-scaling a by delta puts on (a - mu)/sigma.

    With eps in the root it is sqrt((var + eps) / (var + eps/delta²)), to first order
    1 + eps/(2 var) (1 - 1/delta²): the invariance ends where delta² var comes near eps.
    """
    return ((var + eps) / (var + eps / delta**2)).sqrt()
