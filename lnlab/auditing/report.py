"""The page of an audit: findings, then the tables and curves behind them, in one small file."""

import math
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader

import lnlab
from lnlab.auditing.finding import CheckData, Profile, digits

if TYPE_CHECKING:
    from lnlab.auditing.audit import Audit

WIDTH, PLOT_HEIGHT, LEFT = 760, 280, 76
"""The width of a curve, the height above its labels, and the room left of it, in pixels."""

LONGEST_NAME, MOST_LABELS = 34, 24
"""Letters of a label, of which the last are kept, and the most labels of a curve."""


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
        title=f"Audit of {audit.module}",
        # the font of formulas, of which a report has none, is no file of its folder
        style=style.replace(', url("STIXTwoMath-Regular.ttf")', ""),
        about=[audit.summary(), audit.about],
        findings=audit.findings,
        sections=[section(name, data) for name, data in audit.data.items()],
        not_run=audit.not_run,
        version=lnlab.__version__,
    )
    path.write_text(page, encoding="utf-8")
    return path


def section(name: str, data: CheckData) -> dict[str, Any]:
    """Return the numbers behind one check as the template shows them."""
    return {
        "name": name,
        "note": data.note,
        "columns": list(dict.fromkeys(key for row in data.rows for key in row)),
        "rows": [{k: text_of(v) for k, v in row.items()} for row in data.rows],
        "chart": data.profile and chart(data.profile),
    }


def text_of(value: Any) -> str:
    """Return a value as a reader wants it: three digits of a number, nothing for NaN."""
    if isinstance(value, float):
        return "" if math.isnan(value) else digits(value)
    return str(value)


def chart(profile: Profile) -> dict[str, Any]:
    """Return where everything of a curve stands, in pixels: y on a logarithmic axis.

    A value that has no logarithm leaves a gap. The axis has whole decades: a spread of a few
    per cent is not to look like a cliff.
    """
    positive = [v for v in profile.numbers if 0 < v < math.inf]
    low = math.floor(math.log10(min(positive, default=1)))
    high = math.floor(math.log10(max(positive, default=1))) + 1
    step = (WIDTH - LEFT - 20) / max(len(profile.numbers) - 1, 1)

    def y(value: float) -> float:
        share = (high - math.log10(value)) / (high - low)
        return round(10 + share * (PLOT_HEIGHT - 10), 1)

    xs = [round(LEFT + 10 + step * i, 1) for i in range(len(profile.numbers))]
    points = [
        {"x": x, "y": y(value), "text": f"{name}: {digits(value)}"}
        if 0 < value < math.inf
        else None
        for x, name, value in zip(xs, profile.names, profile.numbers, strict=True)
    ]
    every = -(-len(xs) // MOST_LABELS)
    labels = [
        {"x": x, "text": name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME:]}"}
        for x, name in zip(xs[::every], profile.names[::every], strict=True)
    ]
    longest = max(len(label["text"]) for label in labels)
    return {
        "unit": profile.unit,
        "width": WIDTH,
        "left": LEFT,
        "bottom": PLOT_HEIGHT,
        "height": PLOT_HEIGHT + 20 + 5.5 * longest,
        "ticks": [{"y": y(value), "label": f"{value:g}"} for value in ticks(low, high)],
        "points": [point for point in points if point],
        "lines": list(connected(points)),
        "labels": labels,
    }


def ticks(low: int, high: int) -> list[float]:
    """Return the labelled values of a logarithmic axis from 10^low to 10^high: 10 or so."""
    factors = (1, 2, 5) if high - low < 4 else (1,)
    every = max(1, (high - low) // 8)
    values = [f * 10.0**decade for decade in range(low, high, every) for f in factors]
    return [*values, 10.0**high]


def connected(points: list[dict[str, Any] | None]) -> Iterator[list[tuple[float, float]]]:
    """Yield the stretches of points that a line connects."""
    line: list[tuple[float, float]] = []
    for point in [*points, None]:
        if point is not None:
            line.append((point["x"], point["y"]))
        elif line:
            yield line
            line = []
