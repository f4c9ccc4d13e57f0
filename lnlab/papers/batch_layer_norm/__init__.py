"""Batch layer normalization: all experiments of Ziaee & Çano (2022), and controls."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__, {"ImageExperiment": ".experiment", "ReviewExperiment": ".experiment"}
)
