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

from .batch import (
    BatchNorm,
    BatchRenorm,
    GhostBatchNorm,
    Mode,
    OverCases,
    RecurrentBatchNorm,
)
from .layer import GroupNorm, InstanceNorm, LayerNorm, RMSNorm, ScaleNorm
from .linear import Conv2d, Linear, Norm
from .maps import AdaNorm, DyT
from .mixture import (
    CODE,
    CONFIGURATIONS,
    PAPER,
    BatchLayerNorm,
    Copies,
    Population,
    Reading,
    possible,
)
from .normalizer import (
    AffineNormalizer,
    Identity,
    Normalizer,
    Stats,
    inside_root,
    outside_root,
    wide,
)
from .population import recompute, statistics_from
from .weight import MeanOnlyBatchNorm, SpectralNorm, WeightNorm, WeightStandardization

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


def named(name: str) -> Norm:
    """The factory called ``name``; raises ValueError naming those that exist."""
    if name not in NORMS:
        raise ValueError(f"no normalizer is called {name!r}: choose from {', '.join(NORMS)}.")
    return NORMS[name]


__all__ = [
    "CODE",
    "CONFIGURATIONS",
    "NORMS",
    "PAPER",
    "AdaNorm",
    "AffineNormalizer",
    "BatchLayerNorm",
    "BatchNorm",
    "BatchRenorm",
    "Conv2d",
    "Copies",
    "DyT",
    "GhostBatchNorm",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "LayerNorm",
    "Linear",
    "MeanOnlyBatchNorm",
    "Mode",
    "Norm",
    "Normalizer",
    "OverCases",
    "Population",
    "RMSNorm",
    "Reading",
    "RecurrentBatchNorm",
    "ScaleNorm",
    "SpectralNorm",
    "Stats",
    "WeightNorm",
    "WeightStandardization",
    "inside_root",
    "named",
    "outside_root",
    "possible",
    "recompute",
    "statistics_from",
    "wide",
]
