"""The page of an audit: findings, then the tables behind them, in one small file."""

import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader

import lnlab
from lnlab.auditing.finding import CheckTable, three_significant_digits

if TYPE_CHECKING:
    from lnlab.auditing.audit import Audit


def write_page(audit: "Audit", path: Path) -> Path:
    """Write the page of an audit, which needs nothing beside it, and return its path.

    Raises:
        OSError: where it cannot be written.
    """
    # what the template does not mark as safe is escaped
    templates = Environment(
        loader=PackageLoader("lnlab.auditing", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = files("lnlab.book").joinpath("templates/page.css").read_text(encoding="utf-8")
    page = templates.get_template("report.html").render(
        title=f"Audit of {audit.module_class_name}",
        # the font of formulas, of which a report has none, is no file of its folder
        style=style.replace(', url("STIXTwoMath-Regular.ttf")', ""),
        about=[audit.summary(), audit.about],
        findings=audit.findings,
        sections=[{"name": name, **make_section(data)} for name, data in audit.data.items()],
        not_run=audit.not_run,
        version=lnlab.__version__,
    )
    path.write_text(page, encoding="utf-8")
    return path


def make_section(data: CheckTable) -> dict[str, Any]:
    """Return the numbers behind one check as the template shows them.

    Each cell is its text and the length of its bar in per cent, 0 where it has none.
    """
    columns = list(dict.fromkeys(key for row in data.rows for key in row))
    bars, ends = log_bar_percentages_and_axis(
        [row[data.plotted_column] for row in data.rows] if data.plotted_column else []
    )
    rows = [
        [
            (format_value(row.get(c, "")), bar if c == data.plotted_column else 0)
            for c in columns
        ]
        for row, bar in zip(data.rows, bars or [0] * len(data.rows), strict=True)
    ]
    axis = (
        f"Bars: {data.curve_axis_label}, on a logarithmic axis {ends}."
        if data.plotted_column
        else ""
    )
    return {"note": data.table_note, "axis": axis, "columns": columns, "rows": rows}


def format_value(value: Any) -> str:
    """Return a value as a reader wants it: three digits of a number, nothing for NaN."""
    if isinstance(value, float):
        return "" if math.isnan(value) else three_significant_digits(value)
    return str(value)


def log_bar_percentages_and_axis(numbers: Sequence[float]) -> tuple[list[float], str]:
    """Return the lengths in per cent of bars on a logarithmic axis, and the axis in words.

    What has no logarithm has no bar. The axis has whole decades: a spread of a few per cent is
    not to look like a cliff.
    """
    logs = [math.log10(v) if 0 < v < math.inf else math.nan for v in numbers]
    finite = [v for v in logs if math.isfinite(v)] or [0.0]
    low, high = math.floor(min(finite)), math.floor(max(finite)) + 1
    lengths = [
        0 if math.isnan(v) else round(max(100 * (v - low) / (high - low), 1), 1) for v in logs
    ]
    return lengths, f"from {10.0**low:g} to {10.0**high:g}"
