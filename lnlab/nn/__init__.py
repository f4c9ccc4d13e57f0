"""Normalizers: rules for the (mu, sigma) of one equation, and what stays the same under them.

========  ==========================  =====  =======================================
symbol    is                          size   of
========  ==========================  =====  =======================================
``a``     summed inputs               B, H   ``a = W x``
``W``     weights, one row a unit     H, D
``g, b``  gain and bias               H
``mu``    what is subtracted                 the rule of a normalizer
``sigma`` what is divided by                 the rule of a normalizer
========  ==========================  =====  =======================================
"""

from functools import partial

from lnlab.lazy import lazy
from lnlab.nn.attention import (
    Annotations,
    Attention,
    Hypothesis,
    entropy,
    mass,
    monotonicity,
    search,
)
from lnlab.nn.batch import (
    BatchNorm,
    BatchRenorm,
    GhostBatchNorm,
    Mode,
    OverCases,
    RecurrentBatchNorm,
)
from lnlab.nn.batch_layer import (
    CODE,
    CONFIGURATIONS,
    PAPER,
    BatchLayerNorm,
    Copies,
    Population,
    Reading,
    possible,
)
from lnlab.nn.cells import (
    MODERN_START,
    PAPER_START,
    PUBLISHED,
    STARTS,
    Bias,
    Carry,
    Cell,
    GRUCell,
    Initial,
    LSTMCell,
    RNNCell,
    State,
    Sums,
    Update,
    as_torch,
    authors,
    gain_only,
    modern,
)
from lnlab.nn.elementwise import AdaNorm, DyT
from lnlab.nn.layer import GroupNorm, InstanceNorm, LayerNorm, RMSNorm, ScaleNorm
from lnlab.nn.linear import Conv2d, Linear, Norm
from lnlab.nn.normalizer import (
    AffineNormalizer,
    Identity,
    Normalizer,
    Stats,
    inside_root,
    outside_root,
    wide,
)
from lnlab.nn.statistics import recompute, statistics_from
from lnlab.nn.weight import MeanOnlyBatchNorm, SpectralNorm, WeightNorm, WeightStandardization

NORMS: dict[str, Norm] = {
    "none": Identity,
    "layer": LayerNorm,
    "batch": BatchNorm,
    "weight": WeightNorm,
    "rms": RMSNorm,
    "group": partial(GroupNorm, groups=4),
    "instance": InstanceNorm,
    "scale": ScaleNorm,
    "weight standardization": WeightStandardization,
    "weight, mean-only batch": MeanOnlyBatchNorm,
    "ghost batch": partial(GhostBatchNorm, ghost=16),
    "batch renorm": BatchRenorm,
    "spectral": SpectralNorm,
    "ada": AdaNorm,
    "dyt": DyT,
    "recurrent batch": partial(RecurrentBatchNorm, steps=1),
    "batch layer": BatchLayerNorm,
}
"""Names at the edge (panels, the command line); models are handed the factories."""

__getattr__, _ = lazy(__name__)


def named(name: str) -> Norm:
    """The factory called ``name``; raises ValueError naming those that exist."""
    if name not in NORMS:
        raise ValueError(f"no normalizer is called {name!r}: choose from {', '.join(NORMS)}.")
    return NORMS[name]


__all__ = [
    "CODE",
    "CONFIGURATIONS",
    "MODERN_START",
    "NORMS",
    "PAPER",
    "PAPER_START",
    "PUBLISHED",
    "STARTS",
    "AdaNorm",
    "AffineNormalizer",
    "Annotations",
    "Attention",
    "BatchLayerNorm",
    "BatchNorm",
    "BatchRenorm",
    "Bias",
    "Carry",
    "Cell",
    "Conv2d",
    "Copies",
    "DyT",
    "GRUCell",
    "GhostBatchNorm",
    "GroupNorm",
    "Hypothesis",
    "Identity",
    "Initial",
    "InstanceNorm",
    "LSTMCell",
    "LayerNorm",
    "Linear",
    "MeanOnlyBatchNorm",
    "Mode",
    "Norm",
    "Normalizer",
    "OverCases",
    "Population",
    "RMSNorm",
    "RNNCell",
    "Reading",
    "RecurrentBatchNorm",
    "ScaleNorm",
    "SpectralNorm",
    "State",
    "Stats",
    "Sums",
    "Update",
    "WeightNorm",
    "WeightStandardization",
    "as_torch",
    "authors",
    "entropy",
    "gain_only",
    "inside_root",
    "mass",
    "modern",
    "monotonicity",
    "named",
    "outside_root",
    "possible",
    "recompute",
    "search",
    "statistics_from",
    "wide",
]
