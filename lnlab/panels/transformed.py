"""What a transformation does to layers: the state of a panel, and pure functions of it."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from lnlab.figures.invariance import Moved, Sweep
from lnlab.figures.table import Measured, number
from lnlab.norms import Identity, OverCases
from lnlab.norms.invariances import ROWS, Place, Statistics, eps_ratio
from lnlab.norms.transformations import TRANSFORMATIONS, Given
from lnlab.probes.givens import cast, random_given, random_shift
from lnlab.probes.invariance import EXACT, Layer, relative_change

UNITS, INPUTS, CASES = 64, 16, 128
MOST = 4

# One case at a time (batch = 1) takes 128 times as long as all at once.
DENSE = tuple(
    name for name, row in ROWS.items() if row.place is Place.DENSE and row.batch is None
)
# Frozen and recomputed statistics are a control of their own.
NORMALIZERS = tuple(name for name in DENSE if ROWS[name].statistics is Statistics.BATCH)
PAPER = ("batch", "weight", "layer")
TABLE = (*PAPER, *(name for name in DENSE if name not in PAPER))

SIZES = np.logspace(-4, 4, 34)
EPS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in EXACT}
MODES = {statistics.name.lower(): statistics for statistics in Statistics}


@dataclass(frozen=True)
class Transformed:
    """A transformation, and the layers that it is tried on.

    Attributes:
        normalizers: at most four rows of Table 1 and its extension.
        transformation: the column, 1 to 10.
        delta: what is re-scaled is re-scaled by; 1e-4 to 1e4 in size, of either sign.
        shift: what is shifted is shifted by so many times a fixed standard normal vector;
            1e-4 to 1e4.
        eps: of every normalizer that has one.
        dtype: the precision of weights, inputs, statistics and outputs.
        batch: B; frozen and recomputed statistics are those of all 128 cases.
        mode: where statistics over cases come from: "batch", "frozen" as they were before
            the change, or "recomputed" after it.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizers: tuple[str, ...] = PAPER
    transformation: int = 1
    delta: float = 2.51
    shift: float = 1.0
    eps: float = 1e-5
    dtype: str = "float64"
    batch: int = 32
    mode: str = "batch"

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "normalizers", tuple(self.normalizers))
        if len(self.normalizers) > MOST:
            raise ValueError(f"{len(self.normalizers)} normalizers: compare at most {MOST}.")
        for name in self.normalizers:
            one_of("a normalizer", name, NORMALIZERS)
        one_of("transformation", self.transformation, range(1, 1 + len(TRANSFORMATIONS)))
        one_of("eps", self.eps, EPS)
        one_of("dtype", self.dtype, DTYPES)
        one_of("batch", self.batch, BATCHES)
        one_of("mode", self.mode, MODES)
        for name, size in (("delta", abs(self.delta)), ("shift", self.shift)):
            if not SIZES[0] <= size <= SIZES[-1]:
                raise ValueError(f"{name} is {size} in size: give 1e-4 to 1e4.")

    @property
    def scales(self) -> bool:
        """Whether the transformation reads delta; the others read the shift."""
        return TRANSFORMATIONS[self.transformation - 1].scales

    @property
    def formula(self) -> str:
        """The transformation in letters."""
        return TRANSFORMATIONS[self.transformation - 1].formula

    @property
    def amount(self) -> float:
        """Delta or the shift, whichever the transformation reads."""
        return self.delta if self.scales else self.shift

    def resized(self, size: float) -> "Transformed":
        """The same with a change of another size, of the same sign."""
        name = "delta" if self.scales else "shift"
        return replace(self, **{name: float(np.copysign(size, self.amount))})

    @property
    def precision(self) -> torch.dtype:
        return DTYPES[self.dtype]


def one_of(name: str, value: object, allowed: Collection) -> None:
    """Raise ValueError unless ``value`` is among ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: choose from {', '.join(map(str, allowed))}.")


@lru_cache(maxsize=32)
def given(dtype: torch.dtype, batch: int) -> Given:
    """The weights and inputs, always the same."""
    drawn = cast(random_given(UNITS, INPUTS, CASES), dtype)
    return replace(drawn, x=drawn.x[:batch])


@lru_cache(maxsize=8)
def unit_shift(dtype: torch.dtype) -> Tensor:
    """What shifts are multiples of."""
    return random_shift(given(dtype, CASES))


@lru_cache(maxsize=128)
def layer(
    name: str, eps: float, dtype: torch.dtype, batch: int, statistics: Statistics
) -> Layer:
    """The layer of one row, its gains and biases always the same."""
    cases = batch if statistics is Statistics.BATCH else CASES
    return Layer(ROWS[name], given(dtype, cases), eps=eps, statistics=statistics, seed=0)


@lru_cache(maxsize=64)
def over_cases(name: str) -> bool:
    """Whether a row has statistics over cases, and so a mode."""
    return isinstance(ROWS[name].make(UNITS), OverCases)


def layers(state: Transformed) -> dict[str, Layer]:
    """The layers of the state's normalizers."""
    return {
        name: layer(
            name,
            state.eps,
            state.precision,
            state.batch,
            MODES[state.mode] if over_cases(name) else Statistics.BATCH,
        )
        for name in state.normalizers
    }


@lru_cache(maxsize=20_000)
def defect(of: Layer, column: int, amount: float) -> float:
    """How far the outputs of a layer move; see :mod:`lnlab.probes.invariance`."""
    shift = unit_shift(of.given.x.dtype)
    return float(of.against_delta(TRANSFORMATIONS[column - 1], [amount], shift)[0])


def parts(state: Transformed) -> list[Moved]:
    """Summed inputs, and the outputs of each normalizer, before and after the change."""
    change = TRANSFORMATIONS[state.transformation - 1]
    shift = state.shift * unit_shift(state.precision)
    identity, before = Identity(UNITS), given(state.precision, state.batch)
    after = change(before, state.delta, shift)
    a, changed = before.summed_inputs(identity), after.summed_inputs(identity)
    moved = [part(state, "summed inputs a", a, changed, reach("none"))]
    for name, of in layers(state).items():
        y = of.output(change(of.given, state.delta, shift))
        moved.append(part(state, name, of.y, y, reach(name)))
    return moved


def part(state: Transformed, name: str, before: Tensor, after: Tensor, reach: float) -> Moved:
    """All values; of a change of one unit or one case, only those of that unit or case."""
    note = moves(relative_change(after, before), EXACT[state.precision])
    about = {3: (slice(None), 0), 6: (0,)}.get(state.transformation, ())
    values = (y[about].flatten().double().numpy() for y in (before, after))
    return Moved(name, *values, reach=reach, note=note)


@lru_cache(maxsize=1)
def spread() -> float:
    """The standard deviation of the summed inputs."""
    return float(given(torch.float64, CASES).summed_inputs(Identity(UNITS)).std())


@lru_cache(maxsize=64)
def reach(name: str) -> float:
    """Half an axis that holds a normalizer's outputs; not of the state, so that it stays."""
    y = layer(name, 1e-5, torch.float64, CASES, Statistics.BATCH).y
    return 1.4 * float(y.abs().flatten().quantile(0.998))


def moves(defect: float, exact: float) -> str:
    """How far, in a few words."""
    if np.isnan(defect):
        return "0/0: not a number"
    if defect == 0:
        return "does not move"
    return f"{'still to' if defect < exact else 'moves by'} {number(defect)}"


def sweep(state: Transformed) -> Sweep:
    """The defects of the state's normalizers over the sizes of the change."""
    column, amount = state.transformation, state.amount
    amounts = np.copysign(SIZES, amount).tolist()
    var = torch.tensor(spread() ** 2, dtype=torch.float64)
    kept = any(ROWS[name].claims(column) for name in state.normalizers)
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


def measured(state: Transformed) -> Measured:
    """Table 1 and its extension, each row with its own statistics, at the state's change."""
    of = {
        name: layer(name, state.eps, state.precision, state.batch, ROWS[name].statistics)
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


def framed(state: Transformed) -> tuple[int, list[str]]:
    """The column and the rows of the table that the panel is at."""
    rows = [
        f"{name}, {state.mode}" if over_cases(name) and state.mode != "batch" else name
        for name in state.normalizers
    ]
    return state.transformation - 1, rows


def conditions(state: Transformed) -> str:
    """What else every measurement depends on."""
    return f"ε = {state.eps:g}, {state.dtype}, batch of {state.batch}"


def sentence(state: Transformed) -> str:
    """The change and how far it moves the outputs."""
    by = f"δ = {state.delta:g}" if state.scales else f"a shift of {state.shift:g}"
    change = f"{state.formula} with {by}"
    if not state.normalizers:
        return f"{change}. Choose a normalizer to see whether its outputs move."
    said = []
    for name, of in layers(state).items():
        far = defect(of, state.transformation, state.amount)
        alone = over_cases(name) and of.statistics is Statistics.BATCH and state.batch == 1
        why = " (of one case its output is b, whatever comes in)" if alone and far == 0 else ""
        said.append(f"{name} {moves(far, EXACT[state.precision])}{why}")
    return f"{change}: {', '.join(said)}, in units of the largest output."
