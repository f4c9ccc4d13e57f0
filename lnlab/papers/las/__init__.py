"""Listen, attend and spell: Chan et al. (2016), with layer norm as in Ben Othman (2018)."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "NormOverFeatures": ".model",
        "NormOverTime": ".model",
        "make_batch": ".model",
        "measure_gradient_and_distributions": ".evaluate",
        "quantile_curves": ".evaluate",
        "spectrogram_figure": ".panel",
    },
)
