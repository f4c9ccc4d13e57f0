"""Normalizers, Table 1 of the paper as data, and layers and cells that take any normalizer.

========  ==========================  =====  =======================================
symbol    is                          size   of
========  ==========================  =====  =======================================
``a``     pre-activations             B, H   ``a = W x``, the paper's summed inputs
``W``     weights, one row a unit     H, D
``g, b``  gain and bias               H
``mu``    what is subtracted                 the rule of a normalizer
``sigma`` what is divided by                 the rule of a normalizer
========  ==========================  =====  =======================================
"""

from functools import partial

from lnlab.lazy import lazy
from lnlab.nn.attention import Annotations, Attention
from lnlab.nn.batch import (
    BatchNorm,
    BatchNormalizer,
    BatchRenorm,
    GhostBatchNorm,
    RecurrentBatchNorm,
    StatisticsMode,
)
from lnlab.nn.batch_layer import (
    CODE,
    CONFIGURATIONS,
    PAPER,
    BatchLayerNorm,
    BatchLayerNormVariant,
    Terms,
    has_finite_sigmas,
)
from lnlab.nn.cells import (
    CELL_INITS,
    MODERN_INIT,
    PAPER_INIT,
    PUBLISHED_LSTMS,
    BiasPlacement,
    CarriedCellState,
    Cell,
    CellInit,
    GRUCell,
    LSTMCell,
    NormOfProductsOrSum,
    RNNCell,
    State,
    UpdateGateConvention,
    init_like_authors_,
    init_like_torch_,
    init_variance_preserving_,
)
from lnlab.nn.elementwise import AdaNorm, Derf, DyT
from lnlab.nn.layer import GroupNorm, InstanceNorm, LayerNorm, RMSNorm, ScaleNorm
from lnlab.nn.linear import Conv2d, Linear, NormLayer
from lnlab.nn.normalizer import (
    AffineNormalizer,
    Identity,
    MuSigma,
    Normalizer,
    at_least_float32,
    inside_root,
    outside_root,
)
from lnlab.nn.recurrent import GRU, LSTM, RNN
from lnlab.nn.statistics import recompute_statistics, use_statistics
from lnlab.nn.torch_state import torch_state_dict
from lnlab.nn.weight import MeanOnlyBatchNorm, SpectralNorm, WeightNorm, WeightStandardization

NORMS: dict[str, NormLayer] = {
    "none": Identity,
    "layer": LayerNorm,
    "batch": BatchNorm,
    "weight": WeightNorm,
    "rms": RMSNorm,
    "group": partial(GroupNorm, 4),
    "instance": InstanceNorm,
    "scale": ScaleNorm,
    "weight standardization": WeightStandardization,
    "weight, mean-only batch": MeanOnlyBatchNorm,
    "ghost batch": partial(GhostBatchNorm, ghost=16),
    "batch renorm": BatchRenorm,
    "spectral": SpectralNorm,
    "ada": AdaNorm,
    "dyt": DyT,
    "derf": Derf,
    "recurrent batch": partial(RecurrentBatchNorm, steps=1),
    "batch layer": BatchLayerNorm,
}
"""Names for panels and the command line; models are given the factories."""

__getattr__, _ = lazy(__name__)


def norm_by_name(name: str) -> NormLayer:
    """Return the factory called ``name``."""
    if name not in NORMS:
        raise ValueError(f"no normalizer is called {name!r}: choose from {', '.join(NORMS)}.")
    return NORMS[name]
