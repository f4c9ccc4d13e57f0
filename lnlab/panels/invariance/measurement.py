"""The effect of a transformation on layers: a pure function from a state to arrays."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.analysis.arguments import cast, random_given, random_shift
from lnlab.analysis.invariance import EXACT, NormalizedLayer, relative_change
from lnlab.figures.invariance import Measured, Moved, Sweep
from lnlab.nn import Identity
from lnlab.nn.table1 import ROWS, TRANSFORMATIONS, Given, Statistics, eps_ratio
from lnlab.panels.choices import MODES
from lnlab.panels.invariance.state import (
    CASES,
    INPUTS,
    PAPER,
    SIZES,
    TABLE,
    UNITS,
    InvarianceState,
    over_cases,
)
from lnlab.panels.invariance.words import seen


@lru_cache(maxsize=32)
def given(dtype: torch.dtype, batch: int) -> Given:
    """The weights and inputs, always the same."""
    drawn = cast(random_given(UNITS, INPUTS, CASES), dtype)
    return replace(drawn, x=drawn.x[:batch])


@lru_cache(maxsize=8)
def unit_shift(dtype: torch.dtype) -> Tensor:
    """The vector that shifts are multiples of."""
    return random_shift(given(dtype, CASES))


@lru_cache(maxsize=128)
def layer(
    kind: type[InvarianceState],
    name: str,
    eps: float,
    dtype: torch.dtype,
    batch: int,
    statistics: Statistics,
) -> NormalizedLayer:
    """The layer of one row, its gains and biases always the same."""
    cases = batch if statistics is Statistics.BATCH else CASES
    row = kind.rows.get(name) or ROWS[name]
    return NormalizedLayer(row, given(dtype, cases), eps=eps, statistics=statistics, seed=0)


def layers(state: InvarianceState) -> dict[str, NormalizedLayer]:
    """The layers of the state's normalizers."""
    return {
        name: layer(
            type(state),
            name,
            state.eps,
            state.precision,
            state.batch,
            MODES[state.mode] if over_cases(type(state), name) else Statistics.BATCH,
        )
        for name in state.normalizers
    }


@lru_cache(maxsize=20_000)
def defect(of: NormalizedLayer, column: int, amount: float) -> float:
    """The defect of a layer, max abs(y' - y) / max abs(y): :mod:`lnlab.analysis.invariance`."""
    shift = unit_shift(of.given.x.dtype)
    return float(of.against_delta(TRANSFORMATIONS[column - 1], [amount], shift)[0])


class InvarianceMeasurement(NamedTuple):
    """All that one move of a slider shows.

    Attributes:
        parts: summed inputs, then the outputs of each normalizer, before and after the change.
        sweep: how far they move over the sizes of the change, and at the state's own.
    """

    parts: list[Moved]
    sweep: Sweep


def measure(state: InvarianceState) -> InvarianceMeasurement:
    """The measurement of a state; the one way into this room for a slider."""
    return InvarianceMeasurement(parts(state), sweep(state))


def parts(state: InvarianceState) -> list[Moved]:
    """Summed inputs, and the outputs of each normalizer, before and after the change."""
    change = state.transformation, state.delta, state.shift
    outputs = (part(type(state), name, of, *change) for name, of in layers(state).items())
    return [summed_inputs(state.precision, state.batch, *change), *outputs]


# kept for those who look at other normalizers under the same change
@lru_cache(maxsize=64)
def summed_inputs(
    dtype: torch.dtype, batch: int, column: int, delta: float, shift: float
) -> Moved:
    """The summed inputs before and after a change."""
    identity, before = Identity(UNITS), given(dtype, batch)
    after = TRANSFORMATIONS[column - 1](before, delta, shift * unit_shift(dtype))
    a, changed = before.summed_inputs(identity), after.summed_inputs(identity)
    return moved("summed inputs a", column, a, changed, reach(InvarianceState, "none"))


@lru_cache(maxsize=64)
def part(
    kind: type[InvarianceState],
    name: str,
    of: NormalizedLayer,
    column: int,
    delta: float,
    shift: float,
) -> Moved:
    """The outputs of the layer of one normalizer before and after a change."""
    vector = shift * unit_shift(of.given.x.dtype)
    y = of.output(TRANSFORMATIONS[column - 1](of.given, delta, vector))
    return moved(name, column, of.y, y, reach(kind, name))


def moved(name: str, column: int, before: Tensor, after: Tensor, reach: float) -> Moved:
    """All values; of a change of one unit or one case, only those of that unit or case."""
    note = seen(relative_change(after, before), EXACT[before.dtype])
    about = {3: (slice(None), 0), 6: (0,)}.get(column, ())
    values = (y[about].flatten().double().numpy() for y in (before, after))
    return Moved(name, *values, reach=reach, note=note)


@lru_cache(maxsize=1)
def spread() -> float:
    """The standard deviation of the summed inputs."""
    return float(given(torch.float64, CASES).summed_inputs(Identity(UNITS)).std())


@lru_cache(maxsize=64)
def reach(kind: type[InvarianceState], name: str) -> float:
    """Half an axis that holds a normalizer's outputs; not of the state, so that it stays."""
    y = layer(kind, name, 1e-5, torch.float64, CASES, Statistics.BATCH).y
    return 1.4 * float(y.abs().flatten().quantile(0.998))


def sweep(state: InvarianceState) -> Sweep:
    """The defects of the state's normalizers over the sizes of the change."""
    column, amount = state.transformation, state.amount
    amounts = np.copysign(SIZES, amount).tolist()
    var = torch.tensor(spread() ** 2, dtype=torch.float64)
    kept = any(state.rows[name].claims(column) for name in state.normalizers)
    by_eps = kept and state.scales and state.eps > 0
    predicted = [float(abs(eps_ratio(var, state.eps, size) - 1)) for size in SIZES if by_eps]
    return Sweep(
        what=f"size of {'δ' if state.scales else 'the shift'} in {state.formula}"
        + (", δ < 0" if amount < 0 else ""),
        sizes=SIZES,
        defects={
            name: np.array([defect(of, column, each) for each in amounts])
            for name, of in layers(state).items()
        },
        size=abs(amount),
        here={name: defect(of, column, amount) for name, of in layers(state).items()},
        predicted=np.array(predicted or [np.nan] * len(SIZES)),
        knee=state.eps**0.5 / spread() if by_eps else np.nan,
    )


def measured(state: InvarianceState) -> Measured:
    """Table 1 and its extension, each row with its own statistics, at the state's change."""
    of = {
        name: layer(
            InvarianceState,
            name,
            state.eps,
            state.precision,
            state.batch,
            ROWS[name].statistics,
        )
        for name in TABLE
    }
    amounts = [state.delta if change.scales else state.shift for change in TRANSFORMATIONS]
    columns = range(1, 1 + len(TRANSFORMATIONS))
    return Measured(
        rows=TABLE,
        columns=[change.formula for change in TRANSFORMATIONS],
        defects=np.array(
            [
                [defect(row, *cell) for cell in zip(columns, amounts, strict=True)]
                for row in of.values()
            ]
        ),
        claims=np.array([[ROWS[name].claims(column) for column in columns] for name in TABLE]),
        exact=EXACT[state.precision],
        boxed=(len(PAPER), 6),
    )
