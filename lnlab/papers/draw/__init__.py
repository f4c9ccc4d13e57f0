"""The deep recurrent attentive writer, DRAW: pictures glimpse by glimpse, section 6.4."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "ESTIMATED": ".evaluate",
        "MISTAKES": ".model",
        "bound_terms": ".evaluate",
        "bound_too_low_warning": ".evaluate",
        "check_drawable": ".experiment",
        "filterbank": ".model",
        "importance_weighted_nll": ".evaluate",
        "kl_to_standard_normal": ".model",
    },
)
