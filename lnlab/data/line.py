"""A line of handwriting as the way of a pen, and points at equal distances along it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Stroke = np.ndarray
"""The places of a pen from where it is put down to where it is lifted (N, 2), y upwards."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line of handwriting.

    Attributes:
        name: where it is from.
        writer: whose it is; the same name, the same hand.
        text: what is written.
        offsets: from each point to the next, (T + 1, 3): dx, dy, and 1 where the pen is lifted
            behind a point. The first row is the first point, 0 away from itself.
        places: the place in the text of the character that each point belongs to (T + 1,);
            None where nobody knows.
    """

    name: str
    writer: str
    text: str
    offsets: np.ndarray
    places: np.ndarray | None = None

    @property
    def steps(self) -> int:
        """T, the number of points after the first."""
        return len(self.offsets) - 1

    @property
    def strokes(self) -> list[Stroke]:
        """The strokes again, the first point at 0."""
        return strokes(self.offsets)


def offsets(strokes: Sequence[Stroke]) -> np.ndarray:
    """The offsets (T + 1, 3) of strokes, in float32: see :class:`Line`."""
    whole = np.concatenate(strokes).astype(float)
    lifted = np.zeros(len(whole))
    lifted[np.cumsum([len(stroke) for stroke in strokes]) - 1] = 1
    moved = np.diff(whole, axis=0, prepend=whole[:1])
    return np.column_stack([moved, lifted]).astype(np.float32)


def strokes(offsets: np.ndarray) -> list[Stroke]:
    """The strokes of offsets (T + 1, 3); the last may end with the pen on the paper."""
    places = offsets[:, :2].astype(float).cumsum(0)
    ends = np.flatnonzero(offsets[:, 2] > 0.5) + 1
    return [part for part in np.split(places, ends) if len(part)]


def length(strokes: Iterable[Stroke]) -> float:
    """The length of ink."""
    return float(sum(np.linalg.norm(np.diff(one, axis=0), axis=1).sum() for one in strokes))


def resampled(stroke: Stroke, step: float) -> Stroke:
    """A stroke with points at equal distances, near ``step``; both its ends stay.

    A dot, whose points are all closer together than half a step, becomes one point.
    """
    lengths = np.linalg.norm(np.diff(stroke, axis=0), axis=1)
    along = np.concatenate([[0.0], lengths.cumsum()])
    parts = int(np.rint(along[-1] / step))
    if parts == 0:
        return stroke[:1]
    at = np.linspace(0.0, along[-1], parts + 1)
    return np.column_stack([np.interp(at, along, stroke[:, axis]) for axis in range(2)])


def digest(parts: Mapping[str, Sequence[Line]]) -> bytes:
    """The SHA-256 of lines, split by split."""
    total = hashlib.sha256()
    for split, part in parts.items():
        total.update(f"{split} {len(part)}\n".encode())
        for line in part:
            total.update(f"{line.name}\0{line.writer}\0{line.text}\0".encode())
            total.update(line.offsets.astype("<f4").tobytes())
            if line.places is not None:
                total.update(line.places.astype("<i2").tobytes())
    return total.digest()
