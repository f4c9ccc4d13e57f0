"""Figures: arrays in, a plotly figure out."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "add_level": ".curves",
        "bands": ".landscape",
        "configuration_squares": ".tables",
        "line_chart": ".curves",
        "matrices": ".tables",
        "over_depth": ".curves",
        "paired_differences": ".curves",
        "path_on_plane": ".landscape",
        "pictures": ".tables",
        "quantile_ribbons": ".curves",
        "smoothness_ribbons": ".curves",
        "surfaces": ".landscape",
        "table": ".tables",
    },
)
