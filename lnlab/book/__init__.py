"""The pages of an executed workbook: readable without a kernel and without a network.

One page a notebook, a table of contents, and beside them what all share: one copy of
plotly.js, the mathematical font, a style sheet. They are made by
:func:`lnlab.book.html.publish`.
"""

from lnlab.book.notebooks import (
    by_track,
    is_for_beginners,
    notebooks,
    parameter_lines,
    parameters,
    read,
    read_opening,
    select_notebooks,
    select_parameters,
    value,
)

__all__ = [
    "by_track",
    "is_for_beginners",
    "notebooks",
    "parameter_lines",
    "parameters",
    "read",
    "read_opening",
    "select_notebooks",
    "select_parameters",
    "value",
]
