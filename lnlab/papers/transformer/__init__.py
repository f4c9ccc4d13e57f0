"""A small transformer that writes text: where its normalizer stands, and which it is."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "ARMS": ".model",
        "PLACES": ".model",
    },
)
