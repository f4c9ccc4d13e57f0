"""Figures: arrays in, a plotly figure out."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "add_level": ".curves",
        "bands": ".landscape",
        "configurations": ".tables",
        "learning_curves": ".curves",
        "line_chart": ".curves",
        "lstm_step": ".tables",
        "matrices": ".tables",
        "memory_bars": ".tables",
        "over_depth": ".curves",
        "paired_differences": ".curves",
        "path_on_plane": ".landscape",
        "pictures": ".tables",
        "ratio_curves": ".curves",
        "ratios_to_torch": ".curves",
        "ribbons": ".curves",
        "smoothness_ribbons": ".curves",
        "surfaces": ".landscape",
        "sweeps": ".curves",
        "table": ".tables",
        "timeline": ".tables",
    },
)
