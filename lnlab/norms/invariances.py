"""Table 1 of Ba et al. (2016) and its extension, as data: what stays the same.

A *row* claims, for one normalizer, which transformations leave the output as it was. The
first six columns are the paper's Table 1. Its 18 entries hold under conditions that the
paper leaves unsaid, and so do these: eps = 0, delta > 0, no bias inside a, and statistics
of the batch (or of the population) taken again after the change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from torch import Tensor

from . import (
    NORMS,
    BatchLayerNorm,
    BatchNorm,
    BatchRenorm,
    GhostBatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Population,
)
from .normalizer import Normalizer
from .transformations import (
    GHOST,
    GROUPS,
    ONE_GHOST_SCALED,
    ONE_GHOST_SHIFTED,
    ONE_GROUP_SCALED,
    ONE_GROUP_SHIFTED,
    TRANSFORMATIONS,
    Given,
    Transformation,
)

__all__ = [
    "ROWS",
    "TABLE_1",
    "TRANSFORMATIONS",
    "Given",
    "Place",
    "Row",
    "Statistics",
    "Transformation",
    "eps_ratio",
]


class Statistics(Enum):
    """The source of statistics over cases while something is transformed.

    ``Statistics("batch")`` and so on are these, too.
    """

    BATCH = "of the batch"
    FROZEN = "frozen: of the population before the change"
    RECOMPUTED = "recomputed: of the population after the change"

    @classmethod
    def _missing_(cls, value: object) -> "Statistics":
        names = [member.name.lower() for member in cls]
        if value not in names:
            raise ValueError(f"statistics are {value!r}: choose from {', '.join(names)}.")
        return cls[str(value).upper()]


class Place(Enum):
    """The kind of layer that the normalizer stands in."""

    DENSE = "dense"
    CONVOLUTION = "convolution"
    PADDED = "convolution with zero padding"

    @property
    def space(self) -> int:
        """The number of spatial axes of x."""
        return 0 if self is Place.DENSE else 2


@dataclass(frozen=True)
class Row:
    """The claims of one normalizer, a row of the table.

    Attributes:
        norm: the factory.
        cells: twelve letters, Y or N (or - where the question makes no sense), columns 1
            to 10 the transformations, 11 independence of the other cases, 12 training =
            evaluation.
        reason: in one line.
        statistics: where those over cases come from.
        place: the layer it stands in.
        conditions: what else a cell needs, by column.
        variants: further transformations that change nothing, where the column's own does.
        bias_inside: columns 1 to 10 again with a bias inside a; empty where not claimed.
        odd: whether delta < 0 flips the sign of what is put out before b is added; else
            the output is not even the same up to its sign.
        batch: how many cases are normalized together; None: all that there are.
    """

    norm: Callable[..., Normalizer]
    cells: str
    reason: str
    statistics: Statistics = Statistics.BATCH
    place: Place = Place.DENSE
    conditions: dict[int, str] = field(default_factory=dict)
    variants: tuple[Transformation, ...] = ()
    bias_inside: str = ""
    odd: bool = True
    batch: int | None = None

    def make(self, units: int, eps: float = 0.0) -> Normalizer:
        """The normalizer of ``units`` units, in its place, with ``eps``."""
        norm = (
            self.norm(units, space=self.place.space) if self.place.space else self.norm(units)
        )
        norm.eps = eps
        return norm

    def claims(self, column: int) -> bool:
        """True if column 1 to 12 is claimed to change nothing."""
        return self.cells[column - 1] == "Y"


_BATCH, _LAYER = "YNYYYNNYNNNN", "YYNYNYYNNNYY"
_NONE = "NNNNNNNNNN"
_BATCH_BIASED, _LAYER_BIASED = "YNYYYNNYNN", "NYNNNNYNNN"
"""A bias inside a is taken out again by a mean over cases; a mean over units keeps it, and
only what shifts a itself goes unseen."""

_WHOLE = dict.fromkeys((4, 5), "the whole population changes, not the batch alone")
_PADDING = "zero padding stays 0 where the data are shifted"

ROWS: dict[str, Row] = {
    "none": Row(NORMS["none"], "NNNNNNNNNNYY", "the identity", bias_inside=_NONE),
    "batch": Row(
        BatchNorm, _BATCH, "standardizes each unit over the cases", bias_inside=_BATCH_BIASED
    ),
    "batch, frozen": Row(
        BatchNorm, "NNNNNNNNNNY-", "a fixed affine map", Statistics.FROZEN, bias_inside=_NONE
    ),
    "batch, recomputed": Row(
        BatchNorm, "YNYYYNNYNNY-", "as batch, given the population", Statistics.RECOMPUTED,
        conditions={**_WHOLE, 11: "given the population"}, bias_inside=_BATCH_BIASED,
    ),
    "layer": Row(
        LayerNorm, _LAYER, "standardizes each case over its units", bias_inside=_LAYER_BIASED
    ),
    "weight": Row(
        NORMS["weight"], "YNYNNNNNNNYY", "removes the norm of each wᵢ only", bias_inside=_NONE
    ),
    "weight, mean-only batch": Row(
        NORMS["weight, mean-only batch"], "YNYNYNNYNNNN", "weight norm, each unit centred",
        bias_inside="YNYNYNNYNN",
    ),
    "rms": Row(
        NORMS["rms"], "YNNYNYNNNNYY", "removes the scale of a case, does not centre",
        bias_inside=_NONE,
    ),
    "scale": Row(
        NORMS["scale"], "YNNYNYNNNNYY", "as rms, up to a constant", bias_inside=_NONE
    ),
    "group": Row(
        partial(GroupNorm, groups=GROUPS), _LAYER, "layer norm inside each group",
        variants=(ONE_GROUP_SCALED, ONE_GROUP_SHIFTED), bias_inside=_LAYER_BIASED,
    ),
    "ghost batch": Row(
        partial(GhostBatchNorm, ghost=GHOST), _BATCH, "batch norm inside each ghost batch",
        variants=(ONE_GHOST_SCALED, ONE_GHOST_SHIFTED), bias_inside=_BATCH_BIASED,
    ),
    "batch renorm, clips off": Row(
        partial(BatchRenorm, r_max=float("inf"), d_max=float("inf")), "NNNNNNNNNNYY",
        "forward, the running statistics alone", bias_inside=_NONE,
    ),
    "batch renorm, r = 1, d = 0": Row(
        partial(BatchRenorm, r_max=1.0, d_max=0.0), _BATCH, "batch norm",
        bias_inside=_BATCH_BIASED,
    ),
    "ada": Row(
        NORMS["ada"], _LAYER, "a function of LN(a)", bias_inside=_LAYER_BIASED, odd=False
    ),
    "weight standardization": Row(
        NORMS["weight standardization"], "YNYNNNNNYYYY", "each wᵢ centred and scaled",
        bias_inside="YNYNNNNNYY",
    ),
    "spectral": Row(
        NORMS["spectral"], "YNNNNNNNNNYY", "removes the scale of W as a whole",
        conditions={12: "power iteration converged"}, bias_inside=_NONE,
    ),
    "dyt": Row(NORMS["dyt"], "NNNNNNNNNNYY", "no statistics", bias_inside=_NONE),
    "recurrent batch": Row(
        NORMS["recurrent batch"], _BATCH, "batch norm, at each time step by itself",
        bias_inside=_BATCH_BIASED,
    ),
    "batch layer": Row(
        partial(BatchLayerNorm, population=Population.named("TTFF")), "YNNYNNNNNNNN",
        "a sum of batch and layer norm: what both keep", bias_inside=_NONE,
        conditions={
            **dict.fromkeys((3, 5, 8), "moves by O(1/m) only"),
            12: "batch statistics from the population in evaluation, here TTFF",
        },
    ),
    "batch layer, m = 1": Row(
        BatchLayerNorm, _LAYER, "one case at a time it is 0.9999 LN(a)/√d", batch=1,
        bias_inside=_LAYER_BIASED,
    ),
    "layer, convolution": Row(
        LayerNorm, "YNNYNYYNNNYY", "γ∗x varies over space: one mean cannot remove it",
        place=Place.CONVOLUTION, bias_inside="NNNNNNYNNN",
    ),
    "layer per position, convolution": Row(
        partial(LayerNorm, per_position=True), _LAYER, "the dense row at each position",
        place=Place.CONVOLUTION, bias_inside=_LAYER_BIASED,
    ),
    "group, convolution": Row(
        partial(GroupNorm, groups=GROUPS), "YNNYNYYNNNYY", "as layer, inside each group",
        place=Place.CONVOLUTION, variants=(ONE_GROUP_SCALED, ONE_GROUP_SHIFTED),
        bias_inside="NNNNNNYNNN",
    ),
    "instance": Row(
        InstanceNorm, "YNYYYYYYYNYY", "each unit of each case over space",
        place=Place.CONVOLUTION, bias_inside="YNYYYYYYYN",
        conditions={5: "no zero padding", 9: "no zero padding"},
    ),
    "instance, padded": Row(
        InstanceNorm, "YNYYNYYYNNYY", _PADDING, place=Place.PADDED, bias_inside="YNYYNYYYNN"
    ),
    "batch, convolution": Row(
        BatchNorm, _BATCH, "as dense, over space too", place=Place.CONVOLUTION,
        conditions={5: "no zero padding"}, bias_inside=_BATCH_BIASED,
    ),
    "batch, padded": Row(
        BatchNorm, "YNYYNNNYNNNN", _PADDING, place=Place.PADDED, bias_inside="YNYYNNNYNN"
    ),
}  # fmt: skip

TABLE_1 = {name: ROWS[name].cells[:6] for name in ("batch", "weight", "layer")}
"""Table 1 of Ba et al. (2016): one letter for each of its six columns."""


def eps_ratio(var: Tensor, eps: float, delta: float) -> Tensor:
    """The factor (shaped as var) by which re-scaling a by delta moves (a - mu)/sigma.

    With eps in the root it is sqrt((var + eps) / (var + eps/delta²)), to first order
    1 + eps/(2 var) (1 - 1/delta²): the invariance ends where delta² var comes near eps.
    """
    return ((var + eps) / (var + eps / delta**2)).sqrt()
