"""Traces made once, and filled and moved in place."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

Traces = dict[int | str, dict[str, Any]]
"""Attributes of traces by their names."""


def fill(figure: go.Figure, traces: Mapping[int | str, Mapping[str, Any]]) -> None:
    """Give the named traces of ``figure`` their attributes."""
    for name, new in traces.items():
        figure.update_traces(new, selector={"name": name})
