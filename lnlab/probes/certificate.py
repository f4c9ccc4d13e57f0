"""What `certify` found: verdicts, and how they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class Grade(Enum):
    """How much of an invariance there is, best first."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    BROKEN = "broken"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Verdict:
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
            worst = (
                ""
                if self.worst == self.defect
                else f"; {_size(self.worst)} at {self.worst_delta:g}"
            )
            return f"broken ({_size(self.defect)}{worst}, case {self.worst_case}{without})"
        law = f", ∝ δ^-{self.rate:.1f}" if math.isfinite(self.rate) else ""
        knee = f", knee δ = {_size(self.knee)}" if math.isfinite(self.knee) else ""
        return f"approximate ({_size(self.defect)}{law}{knee}{without})"

    def record(self) -> dict:
        """The fields as plain values, numbers that are not finite as None."""
        fields = asdict(self) | {"grade": self.grade.value, "inside": self.inside.value}
        return {k: None if _no_number(v) else v for k, v in fields.items()}


def _size(defect: float) -> str:
    """Two digits where it is visible, else its magnitude."""
    return f"{defect:.2g}" if 0.01 <= defect < 1000 else f"{defect:.0e}" if defect else "0"


def _no_number(v: object) -> bool:
    return isinstance(v, float) and not math.isfinite(v)


@dataclass(frozen=True)
class Certificate:
    """What stays the same in a module; prints as a table.

    Attributes:
        module: its class.
        shape: of the input.
        verdicts: one for each place, transformation, mode and precision.
        dead: for each f with units that are shut in all cases: how many, of how many.
        not_tried: why a mode or precision could not be tried.
        evaluations: how often the module was evaluated.
        seconds: how long that took.
    """

    module: str
    shape: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    dead: dict[str, tuple[int, int]]
    not_tried: dict[str, str]
    evaluations: int
    seconds: float

    def frame(self) -> pd.DataFrame:
        """One row a verdict, without the curves."""
        import pandas as pd

        records = [v.record() for v in self.verdicts]
        return pd.DataFrame(records).drop(columns="curve", errors="ignore")

    def to_json(self) -> str:
        """All of it; what is not finite is null."""
        return json.dumps(
            {
                "module": self.module,
                "shape": self.shape,
                "dead": self.dead,
                "not_tried": self.not_tried,
                "evaluations": self.evaluations,
                "seconds": self.seconds,
                "verdicts": [
                    v.record()
                    | {"curve": [[None if _no_number(n) else n for n in p] for p in v.curve]}
                    for v in self.verdicts
                ],
            },
            allow_nan=False,
        )

    def grade(self, where: str, column: int, **which: str) -> Grade:
        """The grade of one cell; ``mode=`` and ``dtype=`` choose, else the first is taken.

        Raises:
            KeyError: where there is no such verdict.
        """
        for v in self.verdicts:
            wanted = {"where": where, "column": column, **which}
            if all(getattr(v, name) == value for name, value in wanted.items()):
                return v.grade
        raise KeyError(f"no verdict on column {column} at {where!r} with {which}.")

    def _rows(self) -> Iterator[list[str]]:
        dtypes = list(dict.fromkeys(v.dtype for v in self.verdicts))
        yield ["where", "transformation", "mode", *dtypes, "inside", "δ < 0"]
        cells: dict[tuple, dict[str, Verdict]] = {}
        for v in self.verdicts:
            cells.setdefault((v.where, v.column, v.mode), {})[v.dtype] = v
        for (where, column, mode), by_dtype in cells.items():
            first = next(iter(by_dtype.values()))
            texts = [str(by_dtype[d]) if d in by_dtype else "not tried" for d in dtypes]
            what = f"{column:2d}  {first.formula}"
            yield [
                where,
                what,
                mode,
                *texts[:1],
                *_short(by_dtype, dtypes[1:]),
                first.inside.value,
                first.sign,
            ]

    def _notes(self) -> Iterator[str]:
        shape = ", ".join(map(str, self.shape))
        yield (
            f"{self.module} of x ({shape}): {self.evaluations} evaluations in "
            f"{self.seconds:.1f} s"
        )
        for name, (dead, units) in self.dead.items():
            yield f"dead in all cases: {dead} of {units} units at {name}"
        for what, why in self.not_tried.items():
            yield f"not tried: {what}: {why}"

    def __str__(self) -> str:
        rows = list(self._rows())
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join([*self._notes(), "", *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        cells = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
            for row in rows
        )
        notes = "<br>".join(map(escape, self._notes()))
        titles = "".join(f"<th>{escape(text)}</th>" for text in head)
        return (
            f"<p>{notes}</p><table><thead><tr>{titles}</tr></thead>"
            f"<tbody>{cells}</tbody></table>"
        )


def _short(by_dtype: dict[str, Verdict], dtypes: list[str]) -> list[str]:
    """Further precisions: the grade and the size."""
    found = [by_dtype.get(dtype) for dtype in dtypes]
    return [f"{v.grade.value} ({_size(v.defect)})" if v else "not tried" for v in found]
