"""The findings of `certify`: invariances, and how they are read."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from html import escape
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


LINE = 100
"""The characters that a line of a printed certificate holds."""
MODE, FULL = 2, 2
"""The columns of the modes, and, without that one, of the first precision, told in full."""
LEAST = ((30, 24), (20, 13))
"""The characters that what is told in full keeps, and the longest word of the others: first
words are kept whole, and only where a line cannot hold them are they cut."""


class Grade(Enum):
    """The degree to which an invariance holds, best first."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    BROKEN = "broken"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Invariance:
    """One transformation at one place of the module, in one mode and precision.

    Attributes:
        where: "x" or the name of a weight.
        column: the transformation's number, 1 to 10, or 11, independence of other cases.
        name: the transformation in words.
        formula: the same in the paper's letters.
        mode: "train", "frozen", "recomputed", or "evaluation" where nothing is remembered
            of cases.
        dtype: "float64" and so on.
        grade: of the outputs; NOT_JUDGED where they stand still only because what moved
            inside went into units that answer nothing.
        inside: the grade of what goes into f and comes out of normalizers; NOT_JUDGED where
            there is none of these, or none that can be seen.
        defect: max|y' - y| / max|y| at delta = 3.7, or for a shift as large as what it
            shifts.
        worst: the largest defect at any delta > 0 that was tried.
        worst_delta: that delta.
        worst_case: the case whose output moved most there.
        worst_site: the place inside that moved most there.
        rate: p where the defect goes as delta^-p below 1: 2 is an eps inside the root, 1
            one outside; NaN where there is no such law.
        knee: the delta below which the invariance is gone, where delta² var = eps.
        exact_without: what must be 0 for it to be exact, where that does it: "eps", "bias
            inside" (the bias of the layers that make summed inputs), or both.
        sign: what delta < 0 does beside |delta|: "same", "flips" (about a bias), "other".
        curve: (delta, defect) of all that was tried.
    """

    where: str
    column: int
    name: str
    formula: str
    mode: str
    dtype: str
    grade: Grade
    inside: Grade
    defect: float
    worst: float
    worst_delta: float
    worst_case: int
    worst_site: str
    rate: float
    knee: float
    exact_without: str
    sign: str
    curve: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        if self.grade is Grade.EXACT:
            return f"exact ({_size(self.worst)})"
        if self.grade is Grade.NOT_JUDGED:
            return "not judged: dead units only"
        without = f"; exact without {self.exact_without}" if self.exact_without else ""
        if self.grade is Grade.BROKEN:
            worse = self.worst > self.defect > 0
            worst = f"; {_size(self.worst)} at {self.worst_delta:g}" if worse else ""
            return f"broken ({self.seen}{worst}, case {self.worst_case}{without})"
        law = f", ∝ δ^-{self.rate:.1f}" if math.isfinite(self.rate) else ""
        knee = f", knee δ = {_size(self.knee)}" if math.isfinite(self.knee) else ""
        return f"approximate ({self.seen}{law}{knee}{without})"

    @property
    def seen(self) -> str:
        """The defect in words: at the usual delta, or where there is none, the worst."""
        if self.defect > 0 or self.grade is Grade.EXACT:
            return _size(self.defect)
        if self.worst != 0:
            return f"{_size(self.worst)} at δ = {self.worst_delta:g}"
        return f"not seen in {self.dtype}"

    def record(self) -> dict:
        """The fields as plain values, numbers that are not finite as None."""
        fields = asdict(self) | {"grade": self.grade.value, "inside": self.inside.value}
        return {k: None if _no_number(v) else v for k, v in fields.items()}


def _size(defect: float) -> str:
    """Two digits where it is visible, else its magnitude."""
    if not math.isfinite(defect):
        return "∞" if math.isinf(defect) else "not a number"
    return f"{defect:.2g}" if 0.01 <= defect < 1000 else f"{defect:.0e}" if defect else "0"


def _no_number(v: object) -> bool:
    return isinstance(v, float) and not math.isfinite(v)


@dataclass(frozen=True)
class Certificate:
    """The invariances of a module; prints as a table.

    Attributes:
        module: its class.
        shape: of the input.
        invariances: one for each place, transformation, mode and precision.
        dead: for each f with units that are shut in all cases: how many, of how many.
        not_tried: why a mode or precision could not be tried.
        returned: how many tensors the module returns, of which the first was judged.
        silent: whether all outputs are 0 before any change.
        evaluations: how often the module was evaluated.
        seconds: how long that took.
    """

    module: str
    shape: tuple[int, ...]
    invariances: tuple[Invariance, ...]
    dead: dict[str, tuple[int, int]]
    not_tried: dict[str, str]
    evaluations: int
    seconds: float
    returned: int = 1
    silent: bool = False

    def frame(self) -> pd.DataFrame:
        """One row an invariance, without the curves."""
        import pandas as pd

        records = [v.record() for v in self.invariances]
        return pd.DataFrame(records).drop(columns="curve", errors="ignore")

    def to_json(self) -> str:
        """All of it; what is not finite is null."""
        return json.dumps(
            {
                "module": self.module,
                "shape": self.shape,
                "dead": self.dead,
                "not_tried": self.not_tried,
                "returned": self.returned,
                "silent": self.silent,
                "evaluations": self.evaluations,
                "seconds": self.seconds,
                "invariances": [
                    v.record()
                    | {"curve": [[None if _no_number(n) else n for n in p] for p in v.curve]}
                    for v in self.invariances
                ],
            },
            allow_nan=False,
        )

    def grade(self, where: str, column: int, **which: str) -> Grade:
        """The grade of one cell; ``mode=`` and ``dtype=`` choose, else the first is taken.

        Raises:
            KeyError: where there is no such row.
        """
        for v in self.invariances:
            wanted = {"where": where, "column": column, **which}
            if all(getattr(v, name) == value for name, value in wanted.items()):
                return v.grade
        raise KeyError(f"nothing was found on column {column} at {where!r} with {which}.")

    def _rows(self) -> Iterator[list[str]]:
        dtypes = list(dict.fromkeys(v.dtype for v in self.invariances))
        judged = any(v.inside is not Grade.NOT_JUDGED for v in self.invariances)
        inside = ["inside"] if judged else []
        yield ["where", "transformation", "mode", *dtypes, *inside, "δ < 0"]
        cells: dict[tuple, dict[str, Invariance]] = {}
        for v in self.invariances:
            cells.setdefault((v.where, v.column, v.mode), {})[v.dtype] = v
        for alike in _folded(cells):
            first = (
                alike[0][dtypes[0]] if dtypes[0] in alike[0] else next(iter(alike[0].values()))
            )
            yield [
                _places([next(iter(row.values())).where for row in alike]),
                f"{first.column:2d}  {first.formula}",
                first.mode,
                *(_cell([row[d] for row in alike if d in row], first) for d in dtypes),
                *([first.inside.value] if judged else []),
                first.sign,
            ]

    def _summary(self) -> str:
        """All in a sentence, in the first precision: "11 of 33 invariances are exact, ..."."""
        own = [v for v in self.invariances if v.dtype == self.invariances[0].dtype]
        counts = Counter(v.grade for v in own)
        exact, *rest = (
            f"{counts[g]} {g.value}" for g in Grade if counts[g] or g is Grade.EXACT
        )
        of, be = f"of {len(own)} invariances", "is" if counts[Grade.EXACT] == 1 else "are"
        said = ", ".join([exact.replace(" ", f" {of} {be} ", 1), *rest])
        return f"{said} in {own[0].dtype}."

    def _notes(self) -> Iterator[str]:
        shape = ", ".join(map(str, self.shape))
        yield f"{self.module} of x ({shape}): {self._summary()}"
        yield f"{self.evaluations} evaluations in {self.seconds:.1f} s"
        if self.returned > 1:
            yield f"judged: the first of {self.returned} tensors returned; read= takes another"
        if self.silent:
            yield "all outputs are 0 before any change: next to that every movement is ∞"
        for name, (dead, units) in self.dead.items():
            yield f"dead in all cases: {dead} of {units} units at {name}"
        for what, why in self.not_tried.items():
            yield f"not tried: {what}: {why}"

    def __str__(self) -> str:
        head, *rows = self._rows()
        modes = dict.fromkeys(row[MODE] for row in rows)
        plain = [row[:MODE] + row[MODE + 1 :] for row in (head, *rows)]
        widths = _widths(plain)
        lines = list(_wrapped(plain[0], widths))
        for mode in modes:
            lines.append(f"{mode}:")
            own = [new for new, row in zip(plain[1:], rows, strict=True) if row[MODE] == mode]
            lines += [line for row in own for line in _wrapped(row, widths)]
        return "\n".join([*self._notes(), "", *lines])

    def _repr_html_(self) -> str:
        import pandas as pd

        head, *rows = self._rows()
        notes = "<br>".join(map(escape, self._notes()))
        table = pd.DataFrame(rows, columns=head).to_html(index=False, border=0)
        return f"<p>{notes}</p>{table}"


def _folded(cells: dict[tuple, dict[str, Invariance]]) -> list[list[dict[str, Invariance]]]:
    """Rows by dtype, those together that differ in their weight and in sizes alone."""
    groups: dict[tuple, list[dict[str, Invariance]]] = {}
    for (where, column, mode), row in cells.items():
        grades = tuple((dtype, v.grade, v.exact_without) for dtype, v in row.items())
        first = next(iter(row.values()))
        place = where if where == "x" else ""
        key = (place, column, mode, grades, first.inside, first.sign)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _places(names: list[str]) -> str:
    """One name, or the first and how many others."""
    others = len(names) - 1
    return names[0] if not others else f"{names[0]} and {others} other{'s' * (others > 1)}"


def _cell(found: list[Invariance], first: Invariance) -> str:
    """One invariance in full, or the grade of several with the least and greatest defect.

    Where it is of another precision than ``first`` and has the same grade, the defects alone.
    """
    if not found:
        return "not tried"
    whole = found[0].dtype == first.dtype
    if len(found) == 1 and whole:
        return str(found[0])
    sizes = sorted((v.defect, v.seen) for v in found)
    low, high = sizes[0][1], sizes[-1][1]
    said = low if low == high else f"{low} to {high}"
    if not whole and found[0].grade is first.grade:
        return said
    without = (
        f"; exact without {found[0].exact_without}" if whole and found[0].exact_without else ""
    )
    return f"{found[0].grade.value} ({said}{without})"


def _widths(rows: list[list[str]]) -> list[int]:
    """The columns' widths, on one line together: what is told in full is folded first."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(w) for text in column for w in [*text.split(), ""]) for column in columns]
    for full, longest in LEAST:
        least = [min(word, longest) for word in words]
        # a formula is read in one piece
        least[1], least[FULL] = widths[1], min(widths[FULL], full)
        while (over := sum(widths) + 2 * (len(widths) - 1) - LINE) > 0 and widths != least:
            spare = widths[FULL] - least[FULL]
            widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
            widths[FULL if spare else widest] -= min(over, spare) if spare else 1
    return widths


def _wrapped(row: list[str], widths: list[int]) -> Iterator[str]:
    """The lines of one row, as many as its longest cell needs."""
    cells = [
        wrap(text, width) if len(text) > width else [text]
        for text, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=""):
        line = "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True))
        yield line.rstrip()
