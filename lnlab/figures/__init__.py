"""Figures: arrays in, a plotly figure out."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "add_horizontal_line": ".curves",
        "loss_lines_and_range_bands": ".landscape",
        "configuration_heatmaps": ".tables",
        "line_chart": ".curves",
        "matrices": ".tables",
        "line_chart_over_depth": ".curves",
        "paired_differences": ".curves",
        "path_on_plane": ".landscape",
        "picture_rows": ".tables",
        "quantile_ribbons": ".curves",
        "smoothness_ribbons": ".curves",
        "loss_surfaces": ".landscape",
        "table": ".tables",
    },
)
