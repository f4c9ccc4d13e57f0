"""Handwriting with its text: Graves (2013), with layer norm as in Ba et al. (2016), 6.5."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "ALPHABETS": ".data",
        "Alphabet": ".data",
        "BatchableLines": ".model",
        "InkedLine": ".panel",
        "make_mixture": ".model",
        "negative_log_likelihood": ".model",
        "load_writers": ".panel",
        "sample_points": ".model",
        "load_included_writers": ".panel",
        "offsets_to_strokes": ".pen",
        "window_peak_errors_in_characters": ".evaluate",
        "write": ".evaluate",
        "writing_figure": ".panel",
    },
)
