"""Lines of IAM-OnDB (Liwicki and Bunke, 2005), in its official layout.

``lineStrokes/a01/a01-000/a01-000u-01.xml`` has the strokes of line 1 of form a01-000u,
``ascii/a01/a01-000/a01-000u.txt`` the text of all its lines, behind ``CSR:``. The lists of
forms of its task 1 part them: ``trainset.txt`` trains, ``testset_v.txt`` validates,
``testset_f.txt`` tests, and ``testset_t.txt``, its second validation set, trains too.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from lnlab.data.line import Line, Stroke, length, offsets

LISTS = {"train": ("trainset.txt", "testset_t.txt"), "valid": ("testset_v.txt",),
         "test": ("testset_f.txt",)}  # fmt: skip
FORM = re.compile(r"([a-z]\d\d)-(\d{3})([a-z]?)")
LARGEST = 8 * 2**20
"""Bytes of a file; the longest line has some 200,000."""
STEP = 20.0
"""Units of the whiteboard in one unit of ours: the pen goes some as far between two points."""


def needed(folder: Path) -> list[Path]:
    """All files of a copy that are read: lists, texts and strokes."""
    lists = [
        path for names in LISTS.values() for name in names for path in [_list(folder, name)]
    ]
    return [*lists, *sorted(folder.glob("ascii/*/*/*.txt")),
            *sorted(folder.glob("lineStrokes/*/*/*.xml"))]  # fmt: skip


def _list(folder: Path, name: str) -> Path:
    """A list of forms, at the top or in a folder of lists."""
    found = sorted(folder.glob(f"*/{name}"))
    return found[0] if found and not (folder / name).is_file() else folder / name


def lines(folder: Path, split: str, faults: Counter[str]) -> list[Line]:
    """The lines of a split.

    Args:
        folder: the one with ``lineStrokes``, ``ascii`` and the lists.
        split: train, valid or test.
        faults: counts what was left out, and what was passed over.

    Raises:
        ValueError: for a list that names no form, or a file that is none of the layout.
        FileNotFoundError: for a form that is not there; names it.
    """
    found: list[Line] = []
    for name in LISTS[split]:
        path = _list(folder, name)
        for form in path.read_text("ascii", "replace").split():
            known = FORM.fullmatch(form)
            if known is None:
                raise ValueError(f"{path}: {form!r} is no form: expected a01-000u.")
            found += _form(folder, known, faults)
    return found


def _form(folder: Path, name: re.Match[str], faults: Counter[str]) -> Iterator[Line]:
    """The lines of one form that have a text."""
    form, group, number = name[0], name[1], name[2]
    place = Path(group) / f"{group}-{number}"
    files = sorted((folder / "lineStrokes" / place).glob(f"{form}-*.xml"))
    if not files:
        raise FileNotFoundError(
            f"iam: the lists name form {form}, lineStrokes/{place} has none of its lines"
        )
    texts = _texts(folder / "ascii" / place / f"{form}.txt")
    for path in files:
        number_of_line = int(path.stem.rpartition("-")[2])
        text = texts.get(number_of_line, "")
        strokes = _strokes(path, faults)
        if not text:
            faults["without text"] += 1
        elif sum(map(len, strokes)) < 2 or length(strokes) == 0:
            faults["of one point"] += 1
        else:
            yield Line(path.stem, form, text, offsets([part / STEP for part in strokes]))


def _texts(path: Path) -> dict[int, str]:
    """The lines of a form's text by number, from 1."""
    if not path.is_file():
        return {}
    _, mark, corrected = path.read_text("latin-1").partition("CSR:")
    if not mark:
        raise ValueError(f"{path} has no CSR:, behind which the text of the lines stands.")
    rows = corrected.strip().splitlines()
    return {number: " ".join(row.split()) for number, row in enumerate(rows, start=1)}


def _strokes(path: Path, faults: Counter[str]) -> list[Stroke]:
    """The strokes of a line, y upwards."""
    if path.stat().st_size > LARGEST:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes, a line {LARGEST:,} at most."
        )
    content = path.read_bytes()
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError(f"{path} declares types of its own, which no file of IAM-OnDB does.")
    try:
        session = ElementTree.fromstring(content)
        found = [
            np.array(
                [[float(point.attrib["x"]), -float(point.attrib["y"])] for point in stroke]
            )
            for stroke in session.iterfind("StrokeSet/Stroke")
        ]
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no line of IAM-OnDB: {error!r}.") from None
    kept = []
    for stroke in (part for part in found if len(part)):
        there = (np.abs(stroke) < 1e6).all(1)  # what is no number is not less
        faults["points without a place"] += int((~there).sum())
        kept += [stroke[there]] if there.any() else []
    return kept
