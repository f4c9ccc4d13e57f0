"""Listen, attend and spell: Chan et al. (2016), with layer norm as in Ben Othman (2018)."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "LayerNormOverFeatures": ".model",
        "InstanceNormOverPaddedTime": ".model",
        "make_batch_and_unit_counts": ".model",
        "value_quantiles_and_gradient_norm": ".evaluate",
        "quantiles_by_update": ".evaluate",
        "spectrogram_figure": ".panel",
    },
)
