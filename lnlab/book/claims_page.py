"""The page of the claims: one line per statement, folded out to its settings and values.

It takes records as :func:`lnlab.papers.claims.results.judged` makes them.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

MIME = "application/vnd.lnlab.claims+json"
"""The type of an output from which a page shows claims: their records."""
HERE = Path(__file__).parent / "templates"
TEMPLATES = Environment(
    loader=PackageLoader("lnlab.book"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
WIDTH, HEIGHT, MOST = 220, 18, 4
"""The axis in pixels, and its ends in units of the smallest effect that matters."""
COLUMNS = (
    "id", "paper", "source", "quote", "says", "word", "size", "effect", "interval", "unit", "q",
    "n", "setting", "nearness", "declared", "command",
)  # fmt: skip
"""The columns of a download."""
LEGEND = (
    "In brackets: the 95 % interval over the n seeds of a setting, each of which trains both "
    "sides from the same weights. One learning rate for all: not tuned for each side. LN is "
    "layer norm, BN batch norm, BLN batch layer norm; pre-LN and post-LN transformers have it "
    "before each module, or behind. LAS is the speech recognizer Listen, Attend and Spell."
)

MEANINGS = {
    "supported": "the 95 % interval lies wholly on the claimed side of no effect",
    "contradicted": "it lies wholly on the other side",
    "mixed": "another setting of the same question, as near to the paper, says the opposite "
    "(after Holm's correction for several tests)",
    "no difference that matters": "the interval includes no effect and excludes every effect "
    "that matters",
    "inconclusive": "none of the above, or fewer than five pairs of seeds",
    "correct": "a formula or a table, checked: it is as the paper says",
    "wrong as printed": "it is not; what is right is said beside it",
    "ambiguous": "right in one reading, wrong in another",
    "not tested": "no data or runs within reach, or no network learned anything",
}
"""The meaning of each word."""
SIZES = {
    "but small": "the whole interval is closer to no effect than the smallest effect that "
    "matters, a size set for each statement with a reason",
    "size uncertain": "part of it is closer, part is not",
}
EQUALITY = (
    "A claim that two things are equal is supported if the interval lies within the smallest "
    "effect that matters on both sides; a claim that one is not larger, if the interval ends "
    "below that effect, however far. Either is contradicted if the interval lies wholly beyond."
)


def fragment(records: Sequence[Mapping[str, Any]], *, controls: bool = True) -> str:
    """Return the claims as HTML to put into a page, with their style and script.

    Args:
        controls: whether they can be filtered, sorted and downloaded.
    """
    themes = [
        (theme, list(of_theme))
        for theme, of_theme in groupby(_by_theme(records), lambda one: one["theme"])
    ]
    chosen = {
        name: list(dict.fromkeys(one[name] for one in records))
        for name in ("paper", "theme", "word")
    }
    data = json.dumps([{name: one.get(name) for name in COLUMNS} for one in records])
    return TEMPLATES.get_template("claims.html").render(
        themes=themes, chosen=chosen, controls=controls, dot=dot, kind=kind, digits=digits,
        legend=LEGEND, meanings=MEANINGS, sizes=SIZES, equality=EQUALITY,
        # inside a script only "</script" and "<!--" mean something: no "<" is left
        data=Markup(data.replace("<", r"\u003c")),
        style=Markup((HERE / "claims.css").read_text(encoding="utf-8")),
        script=Markup((HERE / "claims.js").read_text(encoding="utf-8")),
    )  # fmt: skip


def page(records: Sequence[Mapping[str, Any]], before: str = "") -> str:
    """Return a whole page in one file: ``before``, trusted HTML, and the claims."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>What became of the claims · lnlab</title>\n</head>\n"
        f'<body class="lnlab-claims-page">\n{before}\n{fragment(records)}\n</body>\n</html>\n'
    )


def _by_theme(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    order = list(dict.fromkeys(one["theme"] for one in records))
    return sorted(records, key=lambda one: order.index(one["theme"]))


def kind(record: Mapping[str, Any]) -> str:
    """Return the classes of a record: its word, and "small" where its effect is."""
    return f"{record['word'].replace(' ', '-')} {record.get('size') or ''}".strip()


def digits(value: float | None) -> str:
    """Return a number in three digits that count, or nothing."""
    return "" if value is None else f"{value:.3g}"


def dot(axis: Sequence[float] | None, small: bool = False) -> Markup:
    """Return a dot with its interval as SVG, on an axis whose band is what does not matter.

    Args:
        axis: the estimate and the ends of its interval in units of the smallest effect that
            matters, the claimed side positive; None: nothing to draw.
        small: of a setting that is not the headline.
    """
    if axis is None:
        return Markup("")

    def x(value: float) -> float:
        return round(WIDTH / 2 * (1 + max(-MOST, min(MOST, value)) / (MOST + 0.3)), 1)

    middle, low, high = axis
    y, radius = HEIGHT / 2, 3 if small else 4.5
    label = escape(
        f"{middle:+.1f} times the smallest effect that matters, claimed side positive"
    )
    parts = [
        f'<rect class="band" x="{x(-1)}" width="{x(1) - x(-1)}" height="{HEIGHT}"/>',
        f'<path class="zero" d="M{x(0)} 0V{HEIGHT}"/>',
        f'<path class="interval" d="M{x(low)} {y}H{x(high)}"/>',
        f'<circle cx="{x(middle)}" cy="{y}" r="{radius}"/>',
    ]
    for end, sign in ((low, -1), (high, 1)):
        if (abs(end) > MOST and end * sign > 0) or (abs(middle) > MOST and middle * sign > 0):
            tip = x(MOST * sign) + 6 * sign
            parts.append(f'<path class="tip" d="M{tip} {y}l{-7 * sign} -5v10z"/>')
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )
