"""Lines of handwriting as the path of a pen, and lines generated from four fonts.

A writer has a font, a slant, a width, and deformations of each letter. A line drifts, letters
vary, and the pen is slow where its path is bent: its speed falls with the cube root of the
curvature (the two-thirds law). Script is joined. The character of every point is known.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

Stroke = np.ndarray  # the points of a pen from touching down to lifting (N, 2), y upwards


@dataclass(frozen=True, eq=False)
class Line:
    """A line of handwriting.

    ``offsets`` (T + 1, 3) are the steps to each point from the one before: dx, dy, and 1 if the
    pen is lifted after the point. The first row is of the first point and has no step.
    """

    name: str
    writer: str
    text: str
    offsets: np.ndarray
    true_char_index_per_point: np.ndarray | None = None  # the place in the text (T + 1,)

    @property
    def num_points_after_first(self) -> int:
        """T, the number of points after the first."""
        return len(self.offsets) - 1

    @property
    def strokes(self) -> list[Stroke]:
        """The strokes, the first point at 0."""
        return offsets_to_strokes(self.offsets)


def strokes_to_offsets(strokes: Sequence[Stroke]) -> np.ndarray:
    """Return the offsets (T + 1, 3) of strokes, in float32: see :class:`Line`."""
    points = np.concatenate(strokes).astype(float)
    lifted = np.zeros(len(points))
    lifted[np.cumsum([len(stroke) for stroke in strokes]) - 1] = 1
    steps = np.diff(points, axis=0, prepend=points[:1])
    return np.column_stack([steps, lifted]).astype(np.float32)


def offsets_to_strokes(offsets: np.ndarray) -> list[Stroke]:
    """Return the strokes of offsets (T + 1, 3); the last may end with the pen down."""
    points = offsets[:, :2].astype(float).cumsum(0)
    ends = np.flatnonzero(offsets[:, 2] > 0.5) + 1
    return [stroke for stroke in np.split(points, ends) if len(stroke)]


def total_stroke_length(strokes: Iterable[Stroke]) -> float:
    """Return the length of strokes."""
    return float(sum(np.linalg.norm(np.diff(s, axis=0), axis=1).sum() for s in strokes))


def resample_stroke(stroke: Stroke, spacing: float) -> Stroke:
    """Return a stroke with points at equal distances, near ``spacing``; both ends stay.

    A dot, whose points are all closer together than half a step, becomes one point.
    """
    lengths = np.linalg.norm(np.diff(stroke, axis=0), axis=1)
    along = np.concatenate([[0.0], lengths.cumsum()])
    parts = int(np.rint(along[-1] / spacing))
    if parts == 0:
        return stroke[:1]
    at = np.linspace(0.0, along[-1], parts + 1)
    return np.column_stack([np.interp(at, along, stroke[:, axis]) for axis in range(2)])


FONTS = ("futural", "rowmans", "scripts", "cursive")
"""A. V. Hershey's single-stroke fonts; ``hershey/NOTICE`` belongs to them."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = tuple(Path(__file__).with_name("words.csv").read_text(encoding="utf-8").split()[1:])
INVENTED = 0.4  # the fraction of words of random letters, so that no letter is rare
LONGEST = 12  # the largest number of characters of a line
JOINED = 4.0  # the distance, in units of the font, below which a script joins two letters
PER_POINT = 5.0  # the distance between points on a straight path, in units of the font
SIZES = {"train": 2000, "valid": 200, "test": 200}  # lines of each split
WRITERS = {"train": 40, "valid": 8, "test": 8}


FontUnits = float


class Glyph(NamedTuple):
    """A character of a font: its strokes, y upwards from the base line, and its width."""

    strokes: tuple[np.ndarray, ...]
    width: FontUnits


class WriterStyle(NamedTuple):
    """A writer: what all of their lines share."""

    name: str
    font: str
    slant: float
    width_factor: float
    letter_advance_factor: float
    letter_deformations: dict[str, np.ndarray]


def make_lines_by_split(sizes: Mapping[str, int]) -> dict[str, list[Line]]:
    """Make lines by the writers of each split; the same ones on every machine."""
    return {split: make_lines(split, count) for split, count in sizes.items()}


def make_lines(split: str, count: int) -> list[Line]:
    """Make the first lines of a split."""
    writers = [make_writer_style(f"{split} {number}") for number in range(WRITERS[split])]
    texts = [
        make_random_text(random.Random(f"text {split} {number}")) for number in range(count)
    ]
    return [
        _make_line(f"{split} {number}", text, writers[number % len(writers)])
        for number, text in enumerate(texts)
    ]


def make_writer_style(name: str) -> WriterStyle:
    """Make the writer of a name."""
    rng = _generator_from_text(f"hand of {name}")
    deformations = {letter: np.eye(2) + rng.normal(0, 0.06, (2, 2)) for letter in LETTERS}
    return WriterStyle(
        name,
        font=str(rng.choice(FONTS)),
        slant=rng.normal(0.15, 0.2),
        width_factor=rng.uniform(0.8, 1.2),
        letter_advance_factor=rng.uniform(0.85, 1.15),
        letter_deformations=deformations,
    )


def make_random_text(rng: random.Random) -> str:
    """Return words of up to :data:`LONGEST` characters in all, with spaces between them."""
    text = _random_listed_or_invented_word(rng)
    while len(more := f"{text} {_random_listed_or_invented_word(rng)}") <= LONGEST:
        text = more
    return text


def _random_listed_or_invented_word(rng: random.Random) -> str:
    if rng.random() < INVENTED:
        return "".join(rng.choices(LETTERS, k=rng.randint(2, 6)))
    return rng.choice(WORDS)


def _generator_from_text(text: str) -> np.random.Generator:
    """Return a random generator that depends on a text alone."""
    return np.random.default_rng(list(text.encode()))


def _make_line(name: str, text: str, writer: WriterStyle) -> Line:
    rng = _generator_from_text(f"line {name}")
    script = writer.font in ("scripts", "cursive")
    strokes, char_indices = _join_strokes_with_char_indices(
        *_place_glyph_strokes(text, writer, rng), script
    )
    timed = [
        _resample_at_equal_times(*each) for each in zip(strokes, char_indices, strict=True)
    ]
    ink = [stroke + rng.normal(0, 0.12, stroke.shape) for stroke, _ in timed]  # tremor
    return Line(
        name,
        writer.name,
        text,
        strokes_to_offsets([stroke / PER_POINT for stroke in ink]),
        np.concatenate([indices for _, indices in timed]).astype(np.int16),
    )


def _place_glyph_strokes(
    text: str, writer: WriterStyle, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[int]]:
    """Return the strokes of a text from left to right, and the character of each."""
    x, drift = 0.0, rng.normal(0, 0.02)
    rise = rng.normal(0, 0.6, len(text)).cumsum() * 0.3
    strokes, char_indices = [], []
    for index, letter in enumerate(text):
        shape = read_glyph(writer.font, letter)
        deformation = writer.letter_deformations.get(letter, np.eye(2))
        deformation = deformation + rng.normal(0, 0.03, (2, 2))
        for stroke in shape.strokes:
            bent = stroke @ deformation.T
            across = x + writer.width_factor * bent[:, 0] + writer.slant * bent[:, 1]
            strokes.append(np.column_stack([across, bent[:, 1] + drift * across + rise[index]]))
            char_indices.append(index)
        x += writer.width_factor * writer.letter_advance_factor * shape.width + rng.normal(
            0, 0.5
        )
    return strokes, char_indices


def _join_strokes_with_char_indices(
    strokes: list[np.ndarray], char_of_stroke: list[int], is_script: bool
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Join the strokes that a script joins; return them and the character of each corner."""
    ink: list[np.ndarray] = []
    char_indices: list[np.ndarray] = []
    for stroke, index in zip(strokes, char_of_stroke, strict=True):
        indices = np.full(len(stroke), index)
        near = is_script and ink and np.linalg.norm(ink[-1][-1] - stroke[0]) < JOINED
        if near and index == char_indices[-1][-1] + 1:
            # they share the corner at which they meet
            ink[-1] = np.concatenate([ink[-1], stroke[1:]])
            char_indices[-1] = np.concatenate([char_indices[-1], indices[1:]])
        else:
            ink.append(stroke)
            char_indices.append(indices)
    return ink, char_indices


def _resample_at_equal_times(
    corners: np.ndarray, char_indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a stroke at equal times, and the character of each."""
    if len(corners) < 2:
        return corners, char_indices
    path, parts = _catmull_rom_points_and_parameters(corners)
    ds = np.linalg.norm(np.diff(path, axis=0), axis=1) + 1e-9
    along = np.concatenate([[0.0], ds.cumsum()])
    middle, total = (along[1:] + along[:-1]) / 2, along[-1]
    turn = np.abs(np.diff(np.unwrap(np.arctan2(*np.diff(path, axis=0).T[::-1]))))
    curvature = np.concatenate([[0.0], turn / ((ds[1:] + ds[:-1]) / 2)])
    end = np.minimum(middle, total - middle)  # slow where it begins and ends
    speed = (1 + 8 * curvature) ** (-1 / 3) * (0.5 + 0.5 * np.minimum(1.0, end / 4))
    time = np.concatenate([[0.0], (ds / speed).cumsum()])
    at = np.linspace(0.0, time[-1], max(2, int(np.rint(time[-1] / PER_POINT)) + 1))
    x, y, part = (np.interp(at, time, axis) for axis in (*path.T, parts))
    corner = np.minimum(np.ceil(part), len(corners) - 1).astype(int)
    return np.column_stack([x, y]), char_indices[corner]


def _catmull_rom_points_and_parameters(
    corners: np.ndarray, points_per_segment: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    """Return Catmull and Rom's curve through corners, and between which two each point is."""
    p = np.concatenate([corners[:1], corners, corners[-1:]])
    t = np.arange(points_per_segment)[:, None, None] / points_per_segment
    a, b, c, d = (p[k : len(p) - 3 + k] for k in range(4))
    quadratic, cubic = 2 * a - 5 * b + 4 * c - d, 3 * b - a - 3 * c + d
    curve = 0.5 * (2 * b + (c - a) * t + quadratic * t**2 + cubic * t**3)
    parts = (
        np.arange(len(b))[:, None] + np.arange(points_per_segment)[None] / points_per_segment
    )
    path = np.concatenate([curve.transpose(1, 0, 2).reshape(-1, 2), corners[-1:]])
    return path, np.concatenate([parts.ravel(), [len(corners) - 1.0]])


@cache
def read_glyph(font: str, letter: str) -> Glyph:
    """Return a character of a font in James Hurt's format, the base line at 0."""
    rows = (Path(__file__).parent / "hershey" / f"{font}.jhf").read_text("ascii").splitlines()
    row = [row for row in rows if not row.startswith("#")][ord(letter) - ord(" ")]
    left, right = (ord(side) - ord("R") for side in row[8:10])
    strokes = tuple(
        _parse_hershey_corners(part, left) for part in row[10:].split(" R") if part.strip()
    )
    return Glyph(strokes, float(right - left))


def _parse_hershey_corners(codes: str, left_edge: int) -> np.ndarray:
    """Return the corners (N, 2) that two letters each stand for; the base line is ``[``."""
    pairs = np.frombuffer(codes.encode("ascii"), np.uint8).astype(float).reshape(-1, 2)
    return np.column_stack([pairs[:, 0] - ord("R") - left_edge, ord("[") - pairs[:, 1]])
