"""The sentence of the panel, of a change and of its measurement."""

from collections.abc import Mapping

import numpy as np

from lnlab.analysis.invariance import EXACT
from lnlab.figures.style import number
from lnlab.panels.invariance.state import InvarianceState, over_cases


def seen(defect: float, exact: float) -> str:
    """The words over a picture: as :func:`moves`, but rounding is no change."""
    return "unchanged" if defect < exact else moves(defect, exact)


def moves(defect: float, exact: float) -> str:
    """The size of a movement in a few words; a defect below ``exact`` is rounding."""
    if np.isnan(defect):
        return "0/0: not a number"
    if defect == 0:
        return "unchanged"
    if defect < exact:
        return f"unchanged to {number(defect)}"
    if defect < 1e-3:
        return f"changed by {number(defect)}"
    if defect < 9.95:  # two digits of it are less than 1,000 %
        return f"changed by {number(100 * defect)} %"
    times = f"{float(f'{defect:.3g}'):,.0f}" if defect < 1e7 else number(defect)
    return f"changed by × {times}"


def framed(state: InvarianceState) -> tuple[int, list[str]]:
    """The column and the rows of the table that the panel is at."""
    rows = [
        f"{name}, {state.mode}"
        if over_cases(type(state), name) and state.mode != "batch"
        else name
        for name in state.normalizers
    ]
    return state.transformation - 1, rows


def conditions(state: InvarianceState) -> str:
    """The conditions that every measurement depends on besides."""
    return f"ε = {state.eps:g}, {state.dtype}, batch of {state.batch}"


def sentence(state: InvarianceState, here: Mapping[str, float]) -> str:
    """The change and how far it moves the outputs.

    Args:
        state: what is changed, and how.
        here: the defect of each normalizer there.
    """
    by = f"δ = {state.delta:g}" if state.scales else f"a shift of {state.shift:g}"
    change = f"{state.formula} with {by}"
    if not here:
        return f"{change}. Choose a normalizer to see whether its outputs move."
    said = []
    for name, defect in here.items():
        alone = over_cases(type(state), name) and state.mode == "batch" and state.batch == 1
        why = (
            " (of one case its output is b, whatever comes in)" if alone and not defect else ""
        )
        said.append(f"{name} {moves(defect, EXACT[state.precision])}{why}")
    return f"{change}: {', '.join(said)}, of the largest output."
