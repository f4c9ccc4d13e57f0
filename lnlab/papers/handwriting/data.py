"""Handwriting as the path of a pen, with its text: generated, UNIPEN and IAM-OnDB."""

import hashlib
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from lnlab.data.cache import hash_file_stats
from lnlab.data.dataset import Dataset, Source, sort_by_hash, sources_offering
from lnlab.data.downloads import unpack_into_data_folder
from lnlab.papers.handwriting import pen
from lnlab.papers.handwriting.pen import (
    Line,
    Stroke,
    resample_stroke,
    strokes_to_offsets,
    total_stroke_length,
)
from lnlab.paths import data_folder

PEN, UNIPEN, IAM = SOURCES = sources_offering("strokes")
SPLITS = ("train", "valid", "test")
OTHER = 0  # the number of all characters that an alphabet lacks
FARTHEST = 1e6  # the largest coordinate in pixels: no tablet is as large
ALPHABETS = {
    "pen": " " + pen.LETTERS,
    "unipen": "".join(chr(code) for code in range(32, 127)),
    "iam": " ',." + string.ascii_uppercase + string.ascii_lowercase,
}
"""The characters of each source, from number 1 on; IAM-OnDB's are 57 with :data:`OTHER`, as
many as in the paper, which does not say which."""


class Alphabet:
    """The characters that can be written, with numbers from 1 on; 0 is every other one."""

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self._numbers = {letter: number for number, letter in enumerate(characters, start=1)}

    def __len__(self) -> int:
        """Return V, with the number of all others."""
        return len(self.characters) + 1

    def unknown_characters(self, text: str) -> str:
        """Return the characters of a text that are not in the alphabet, each once."""
        return "".join(c for c in dict.fromkeys(text) if c not in self._numbers)

    def encode(self, text: str, *, refuse_unknown: bool = False) -> list[int]:
        """Return the number of each character; ``refuse_unknown`` raises for any other."""
        if refuse_unknown and not text.strip():
            raise ValueError("there is no text: give some characters to write.")
        if refuse_unknown and (unknown := self.unknown_characters(text)):
            raise ValueError(
                f"{text!r} has {', '.join(map(repr, unknown))}, which this model never "
                f"learned: choose from {self.characters!r}."
            )
        return [self._numbers.get(character, OTHER) for character in text]


class OffsetMeanAndStd(NamedTuple):
    """Mean and standard deviation of dx and dy over the training lines."""

    mean: np.ndarray  # (2,)
    std: np.ndarray  # (2,)


class HandwritingDataset(Dataset[Sequence[Line]]):
    """Lines of handwriting.

    ``name`` says how many lines were left out: those without text, of one point, or of symbols
    only.
    """

    @property
    def alphabet(self) -> Alphabet:
        """The characters that the lines may have."""
        return Alphabet(ALPHABETS[self.source.name])

    @cached_property
    def scale(self) -> OffsetMeanAndStd:
        """Mean and standard deviation (2,) of dx and dy in training."""
        steps = np.concatenate([line.offsets[1:, :2] for line in self.train]).astype(float)
        return OffsetMeanAndStd(steps.mean(0), steps.std(0))

    @cached_property
    def test_indices_of_unseen_texts(self) -> list[int]:
        """The indices of the test lines whose text no training line has."""
        seen = {line.text for line in self.train}
        return [index for index, line in enumerate(self.test) if line.text not in seen]

    def _digest(self) -> bytes:
        total = hashlib.sha256()
        for split, lines in self._splits.items():
            total.update(f"{split} {len(lines)}\n".encode())
            for line in lines:
                total.update(f"{line.name}\0{line.writer}\0{line.text}\0".encode())
                total.update(line.offsets.astype("<f4").tobytes())
                if line.true_char_index_per_point is not None:
                    total.update(line.true_char_index_per_point.astype("<i2").tobytes())
        return total.digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{len(lines)} {split}" for split, lines in self._splits.items())
        steps = np.mean([line.num_points_after_first for line in self._splits["train"]])
        seen = len(self._splits["test"]) - len(self.test_indices_of_unseen_texts)
        return (
            f"{self.kind} data: {self.name}, lines: {counts}; {steps:.0f} points a line on "
            f"average; {seen} lines to test have a text that is trained on too"
        )


def load(
    source: Source, path: Path | None = None, *, max_train: int | None = None
) -> HandwritingDataset:
    """Return the handwriting of a source; the path is a folder, or UNIPEN's archive."""
    if source is PEN:
        sizes = pen.SIZES | {"train": min(pen.SIZES["train"], max_train or pen.SIZES["train"])}
        return HandwritingDataset(
            source, lambda: (pen.make_lines_by_split(sizes), ""), lambda: str(sizes)
        )
    path = path or data_folder() / source.name
    if source is UNIPEN:
        place, files = find_unipen_root_and_files(path)
        read = partial(read_unipen_and_count_omitted, place)
    else:
        files = find_iam_lists_texts_strokes(path)
        read = partial(read_iam_and_count_omitted, path)

    def read_lines_and_omission_note() -> tuple[Mapping[str, Sequence[Line]], str]:
        splits, left_out = read()
        for split, lines in splits.items():
            if not lines:
                raise ValueError(f"{source.name}: there are no lines to {split}.")
        note = f"{left_out} lines left out" if left_out else ""
        return splits | {"train": splits["train"][:max_train]}, note

    return HandwritingDataset(
        source,
        read_lines_and_omission_note,
        lambda: f"{max_train} {hash_file_stats(files)}",
        noted=True,
    )


# UNIPEN (Guyon et al., 1994): Apple's writers, in UNIPEN 1.0's files. A file of ``data/8``
# names the file of ``include`` with the points, and says what was written:
# ``.SEGMENT TEXT 0-20 ? "over the lazy black dog"``, all strokes of the file.

PER_CHARACTER = 10  # points a character: a line of 29 characters, the mean, has some 300
HELD_OUT = 10  # one in so many writers validates, and one tests


def find_unipen_folder(folder: Path) -> Path | None:
    """Return the folder that has ``data/8`` and ``include``: this one, or one in it."""
    for path in (folder, *sorted(folder.glob("*/"))):
        if (path / "data" / "8").is_dir() and (path / "include").is_dir():
            return path
    return None


FolderOrArchive = Path


def find_unipen_root_and_files(path: Path) -> tuple[FolderOrArchive, list[Path]]:
    """Return the folder or the archive of UNIPEN, and the files that decide its lines."""
    if path.is_dir() and (folder := find_unipen_folder(path)):
        return folder, sorted(folder.glob("*/**/*.dat"))
    archives = [path] if path.is_file() else sorted(path.glob("unipen*.tar.gz"))
    if not archives:
        raise FileNotFoundError(
            f"unipen is not in {path}: neither data/8 and include nor unipen*.tar.gz. Get "
            f"train_r01_v07 from {UNIPEN.citation}, and name its folder: unipen=PATH."
        )
    return archives[0], archives[:1]


def read_unipen_and_count_omitted(path: Path) -> tuple[dict[str, list[Line]], int]:
    """Read UNIPEN's lines, and count those that are left out.

    A hash of the names decides which writers validate and test.
    """
    folder = path if path.is_dir() else find_unipen_folder(unpack_into_data_folder(path))
    files = sorted((folder / "data" / "8").glob("*/*/*.dat")) if folder else []
    if folder is None or not files:
        raise ValueError(f"unipen: there are no lines, data/8/*/*/*.dat, in {path}.")
    read = (_read_unipen_line(file, folder) for file in files)
    lines = [line for line in read if line is not None]
    writers = sort_by_hash({line.writer for line in lines})
    count = max(1, len(writers) // HELD_OUT)
    split_of = dict.fromkeys(writers, "train")
    split_of |= dict.fromkeys(writers[:count], "test")
    split_of |= dict.fromkeys(writers[count : 2 * count], "valid")
    return {
        split: [line for line in lines if split_of[line.writer] == split] for split in SPLITS
    }, len(files) - len(lines)


def _read_unipen_line(path: Path, folder: Path) -> Line | None:
    """Read one line; None if it is left out."""
    label = path.read_text("latin-1")
    included = re.search(r"^\.INCLUDE\s+(\S+/data/\S+)\s*$", label, re.M)
    quoted = re.search(r'^\.SEGMENT\s+TEXT\s+\d+-\d+\s+\?\s+"(.*?)"\s*\Z', label, re.M | re.S)
    if included is None:
        raise ValueError(f"{path} names no pen data: expected .INCLUDE WHERE/data/FILE.")
    points = folder / "include" / included[1]
    if ".." in Path(included[1]).parts or not points.is_file():
        raise FileNotFoundError(f"{path} names {included[1]}, which is not in {folder}.")
    text = "" if quoted is None else " ".join(re.sub(r"\\(.)", r"\1", quoted[1]).split())
    if not any(letter.isalnum() for letter in text):
        return None
    content = points.read_text("latin-1")
    # Eric_Behnke_1 and _2 are one writer, who came twice
    writer = re.search(r"^\.WRITER_ID\s+(\S.*?)(?:_\d)?\s*$", content, re.M)
    strokes = []
    for numbers in re.findall(r"^\.PEN_DOWN\s*\n(.*?)(?=^\.|\Z)", content, re.M | re.S):
        try:
            stroke = np.array(numbers.split(), float).reshape(-1, 2)
        except ValueError as error:
            raise ValueError(
                f"{points}: a stroke has something else than pairs x y: {error}"
            ) from None
        strokes.append(stroke)
    strokes = _drop_points_off_tablet(strokes)
    if not _is_more_than_a_point(strokes):
        return None
    step = total_stroke_length(strokes) / (PER_CHARACTER * len(text))
    ink = [resample_stroke(stroke, step) / step for stroke in strokes]
    name = path.relative_to(folder / "data" / "8").with_suffix("").as_posix()
    return Line(name, writer[1] if writer else path.parent.name, text, strokes_to_offsets(ink))


def _drop_points_off_tablet(strokes: Iterable[Stroke]) -> list[Stroke]:
    """Return strokes without the points that lie on no tablet."""
    kept = (stroke[(np.abs(stroke) < FARTHEST).all(1)] for stroke in strokes)  # not nan, too
    return [stroke for stroke in kept if len(stroke)]


def _is_more_than_a_point(strokes: Sequence[Stroke]) -> bool:
    """Return True if strokes are more than a point."""
    return sum(map(len, strokes)) >= 2 and total_stroke_length(strokes) > 0


# IAM-OnDB (Liwicki and Bunke, 2005), in its official layout: the file ``a01-000u-01.xml`` in
# ``lineStrokes/a01/a01-000`` has the strokes of line 1 of form a01-000u, and ``a01-000u.txt``
# in ``ascii/a01/a01-000`` the text of all its lines, behind ``CSR:``. The lists of forms are
# those of its task 1, whose second validation set trains, too.

LISTS = {
    "train": ("trainset.txt", "testset_t.txt"),
    "valid": ("testset_v.txt",),
    "test": ("testset_f.txt",),
}
STEP = 20.0
"""Units of the whiteboard in one of ours: about as far as the pen goes between two points."""


def find_iam_lists_texts_strokes(folder: Path) -> list[Path]:
    """Return all files that are read: lists, texts and strokes."""
    lists = [_form_list_path(folder, name) for names in LISTS.values() for name in names]
    missing = [path for path in (*lists, folder / "lineStrokes") if not path.exists()]
    if missing:
        raise FileNotFoundError(
            f"iam is not whole in {folder}, {missing[0]} is not there. Its licence forbids to "
            f"give it on: register at {IAM.citation}, get lineStrokes-all, ascii-all and the "
            "lists of task 1, unpack them into one folder, and name it: iam=PATH."
        )
    return [
        *lists,
        *sorted(folder.glob("ascii/*/*/*.txt")),
        *sorted(folder.glob("lineStrokes/*/*/*.xml")),
    ]


def _form_list_path(folder: Path, name: str) -> Path:
    """Return a list of forms, at the top or in a folder of lists."""
    lists = sorted(folder.glob(f"*/{name}"))
    return lists[0] if lists and not (folder / name).is_file() else folder / name


def read_iam_and_count_omitted(folder: Path) -> tuple[dict[str, list[Line]], int]:
    """Read IAM-OnDB's lines by split, and count those that are left out."""
    splits, left_out = {split: list[Line]() for split in SPLITS}, 0
    for split, names in LISTS.items():
        for path in (_form_list_path(folder, name) for name in names):
            for form in path.read_text("ascii", "replace").split():
                lines = [*_read_form_lines(folder, form, path)]
                splits[split] += filter(None, lines)
                left_out += lines.count(None)
    return splits, left_out


def _read_form_lines(folder: Path, form: str, list_path: Path) -> Iterator[Line | None]:
    """Read the lines of one form; None where one has no text or no ink."""
    name = re.fullmatch(r"(([a-z]\d\d)-\d{3})[a-z]?", form)
    if name is None:
        raise ValueError(f"{list_path}: {form!r} is no form: expected a01-000u.")
    subfolder = Path(name[2]) / name[1]
    files = sorted((folder / "lineStrokes" / subfolder).glob(f"{form}-*.xml"))
    if not files:
        raise FileNotFoundError(
            f"iam: the lists name form {form}, lineStrokes/{subfolder} has none of its lines"
        )
    texts = _read_line_texts(folder / "ascii" / subfolder / f"{form}.txt")
    for file in files:
        text = texts.get(int(file.stem.rpartition("-")[2]), "")
        strokes = _read_iam_strokes(file)
        used = text and _is_more_than_a_point(strokes)
        ink = [stroke / STEP for stroke in strokes]
        yield Line(file.stem, form, text, strokes_to_offsets(ink)) if used else None


def _read_line_texts(path: Path) -> dict[int, str]:
    """Return the lines of a form's text by number, from 1."""
    if not path.is_file():
        return {}
    _, mark, corrected = path.read_text("latin-1").partition("CSR:")
    if not mark:
        raise ValueError(f"{path} has no CSR:, behind which the text of the lines stands.")
    lines = corrected.strip().splitlines()
    return {number: " ".join(line.split()) for number, line in enumerate(lines, start=1)}


def _read_iam_strokes(path: Path) -> list[Stroke]:
    """Return the strokes of a line, y upwards."""
    content = path.read_bytes()
    # entities can make a small file fill the memory
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError(f"{path} declares types of its own, which no file of IAM-OnDB does.")
    try:
        strokes = [
            np.array(
                [[float(point.attrib["x"]), -float(point.attrib["y"])] for point in stroke]
            ).reshape(-1, 2)
            for stroke in ElementTree.fromstring(content).iterfind("StrokeSet/Stroke")
        ]
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no line of IAM-OnDB: {error!r}.") from None
    return _drop_points_off_tablet(strokes)
