"""The moving picture of the README: inputs re-scaled, and which outputs stand still.

``python -m benchmarks.moving > docs/moving.svg``: an SVG that moves by itself (SMIL), with what
the panel of notebook 00 measures at each delta.
"""

from dataclasses import replace
from html import escape

import numpy as np

from lnlab.figures.invariance.movement import outline
from lnlab.figures.style.palette import BLACK, lines
from lnlab.panels.invariance.measurement import Moved, parts
from lnlab.panels.invariance.state import InvarianceState

WIDTH, HEIGHT, TOP, GAP, SECONDS = 190, 150, 64, 12, 8
DELTAS = 2 ** np.concatenate([np.linspace(0, 2, 7), np.linspace(2, -2, 13), [-1, -0.5, 0]])


def path(values: np.ndarray, part: Moved, peak: float) -> str:
    """The outline of a histogram, in the picture's pixels."""
    x, y = outline(values, part.reach)
    across = (x / part.reach + 1) / 2 * WIDTH
    down = TOP + HEIGHT * (1 - np.minimum(y / peak, 1.15) / 1.2)
    points = (f"{a:.0f} {b:.0f}" for a, b in zip(across, down, strict=True))
    return "M" + " L".join(points)


def animated(name: str, values: list[str]) -> str:
    """An attribute that takes these values one after the other, and begins again."""
    return (
        f'<animate attributeName="{name}" values="{";".join(values)}" '
        f'dur="{SECONDS}s" repeatCount="indefinite"/>'
    )


def column(place: int, courses: list[Moved], color: str) -> str:
    """One distribution, before and at every delta."""
    first = courses[0]
    peak = float(outline(first.before, first.reach)[1].max())
    before = path(first.before, first, peak)
    after = [path(each.after, each, peak) for each in courses]
    return (
        f'<g transform="translate({place * (WIDTH + GAP)} 0)">'
        f'<text x="{WIDTH / 2:g}" y="{TOP - 12}" text-anchor="middle" font-weight="bold" '
        f'fill="{color}">{escape(first.name)}</text>'
        f'<path d="{before}" fill="#CBD0D8"/>'
        f'<path d="{after[0]}" fill="none" stroke="{color}" stroke-width="2">'
        f"{animated('d', after)}</path></g>"
    )


def picture() -> str:
    """The whole SVG."""
    state = InvarianceState(eps=0.0, transformation=4)
    moved = [parts(replace(state, delta=float(delta))) for delta in DELTAS]
    colors = [BLACK, *(lines(state.normalizers)[name]["color"] for name in state.normalizers)]
    courses = zip(*moved, strict=True)
    columns = (column(i, [*c], colors[i]) for i, c in enumerate(courses))
    width = len(colors) * (WIDTH + GAP) - GAP
    steps = np.log2(DELTAS) / 4 + 0.5
    height = TOP + HEIGHT + 8
    dots = [f"{262 + 300 * float(step):.0f}" for step in steps]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {width + 20} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="15">'
        f'<rect x="-10" width="{width + 20}" height="{height}" fill="#fff"/>'
        '<text x="0" y="22">inputs times δ, from ¼ to 4</text>'
        '<path d="M262 17H562" stroke="#8A8F98" stroke-width="3"/>'
        f'<circle cx="{dots[0]}" cy="17" r="8" fill="#0072B2">'
        f"{animated('cx', dots)}</circle>{''.join(columns)}</svg>\n"
    )


if __name__ == "__main__":
    print(picture(), end="")
