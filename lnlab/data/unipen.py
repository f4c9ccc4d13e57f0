"""Lines of the UNIPEN collection (Guyon et al., 1994): Apple's writers, in UNIPEN 1.0's files.

A file of ``data/8`` names the file of ``include`` with the pen's places, and says what was
written: ``.SEGMENT TEXT 0-20 ? "over the lazy black dog"``, all strokes of the file.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np

from lnlab.data.line import Line, Stroke, length, offsets, resampled

PER_CHARACTER = 10
"""Points a character: a line of 29 characters, the mean, has some 300."""
FARTHEST = 1e6
"""Pixels from the corner of the tablet: no tablet is as large."""
INCLUDED = re.compile(r"^\.INCLUDE\s+(\S+/data/\S+)\s*$", re.M)
TEXT = re.compile(r'^\.SEGMENT\s+TEXT\s+(\d+)-(\d+)\s+\?\s+"(.*?)"\s*\Z', re.M | re.S)
ESCAPED = re.compile(r"\\(.)")
WRITER = re.compile(r"^\.WRITER_ID\s+(\S.*?)(?:_\d)?\s*$", re.M)
"""The name of a writer; one who came twice, Eric_Behnke_1 and _2, is one."""
PEN = re.compile(r"^\.PEN_DOWN\s*\n(.*?)(?=^\.|\Z)", re.M | re.S)


def root(folder: Path) -> Path | None:
    """The folder that has ``data/8`` and ``include``: a folder, or one in it; None if none."""
    for place in (folder, *sorted(folder.glob("*/"))):
        if (place / "data" / "8").is_dir() and (place / "include").is_dir():
            return place
    return None


def lines(folder: Path, faults: Counter[str]) -> list[Line]:
    """The lines of a collection.

    Args:
        folder: as :func:`root` finds it.
        faults: counts what was left out, and what was passed over.

    Raises:
        ValueError: if there are no labelled lines, or a file is none of UNIPEN's; names it.
        FileNotFoundError: if the file of a line's pen is not there; names both.
    """
    files = sorted((folder / "data" / "8").glob("*/*/*.dat"))
    if not files:
        raise ValueError(f"unipen: there are no lines, data/8/*/*/*.dat, in {folder}.")
    found = (line(path, folder, faults) for path in files)
    return [one for one in found if one is not None]


def line(path: Path, folder: Path, faults: Counter[str]) -> Line | None:
    """One line; None where it is left out. Errors and arguments are those of :func:`lines`."""
    label = path.read_text("latin-1")
    included, said = INCLUDED.search(label), TEXT.search(label)
    if included is None:
        raise ValueError(f"{path} names no pen data: expected .INCLUDE WHERE/data/FILE.")
    pen = folder / "include" / included[1]
    if ".." in Path(included[1]).parts or not pen.is_file():
        raise FileNotFoundError(f"{path} names {included[1]}, which is not in {pen.parents[3]}")
    content = pen.read_text("latin-1")
    text = "" if said is None else " ".join(ESCAPED.sub(r"\1", said[3]).split())
    if not text:
        faults["without text"] += 1
        return None
    if not any(letter.isalnum() for letter in text):
        faults["of symbols only"] += 1
        return None
    writer = WRITER.search(content)
    strokes = [_stroke(part, pen, faults) for part in PEN.findall(content)]
    strokes = [stroke for stroke in strokes if len(stroke)]
    if sum(map(len, strokes)) < 2 or length(strokes) == 0:
        faults["of one point"] += 1
        return None
    step = length(strokes) / (PER_CHARACTER * len(text))
    ink = [resampled(stroke, step) / step for stroke in strokes]
    name = path.relative_to(folder / "data" / "8").with_suffix("").as_posix()
    return Line(name, writer[1] if writer else path.parent.name, text, offsets(ink))


def _stroke(part: str, path: Path, faults: Counter[str]) -> Stroke:
    """The places between two movements of the pen; what is no place on a tablet is counted."""
    try:
        numbers = np.array(part.split(), float)
        places = numbers.reshape(-1, 2)
    except ValueError as error:
        raise ValueError(
            f"{path}: a stroke has something else than pairs x y: {error}"
        ) from None
    there = (np.abs(places) < FARTHEST).all(1)  # what is no number is not less
    faults["points without a place"] += int((~there).sum())
    return places[there]
