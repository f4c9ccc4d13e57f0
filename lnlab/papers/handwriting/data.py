"""Handwriting as the way of a pen, with its text: made here, UNIPEN's, IAM-OnDB's."""

import hashlib
import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import lnlab.papers.handwriting.pen
from lnlab.data.cache import Arrays, cache_arrays, file_stamp
from lnlab.data.dataset import Dataset, Source, read_sources
from lnlab.data.files import unpack
from lnlab.papers.handwriting import pen
from lnlab.papers.handwriting.pen import Line, Stroke, length, offsets, resampled
from lnlab.paths import data_folder

# Lines of the UNIPEN collection (Guyon et al., 1994): Apple's writers, in UNIPEN 1.0's files.
#
# A file of ``data/8`` names the file of ``include`` with the pen's places, and says what was
# written: ``.SEGMENT TEXT 0-20 ? "over the lazy black dog"``, all strokes of the file.


PER_CHARACTER = 10
"""Points a character: a line of 29 characters, the mean, has some 300."""
FARTHEST = 1e6
"""Pixels from the corner of the tablet: no tablet is as large."""
INCLUDED = re.compile(r"^\.INCLUDE\s+(\S+/data/\S+)\s*$", re.M)
TEXT = re.compile(r'^\.SEGMENT\s+TEXT\s+(\d+)-(\d+)\s+\?\s+"(.*?)"\s*\Z', re.M | re.S)
ESCAPED = re.compile(r"\\(.)")
WRITER = re.compile(r"^\.WRITER_ID\s+(\S.*?)(?:_\d)?\s*$", re.M)
"""The name of a writer; one who came twice, Eric_Behnke_1 and _2, is one."""
PEN_COMMANDS = re.compile(r"^\.PEN_DOWN\s*\n(.*?)(?=^\.|\Z)", re.M | re.S)


def root(folder: Path) -> Path | None:
    """The folder that has ``data/8`` and ``include``: a folder, or one in it; None if none."""
    for place in (folder, *sorted(folder.glob("*/"))):
        if (place / "data" / "8").is_dir() and (place / "include").is_dir():
            return place
    return None


def read_unipen(folder: Path, faults: Counter[str]) -> list[Line]:
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
    strokes = [_stroke(part, pen, faults) for part in PEN_COMMANDS.findall(content)]
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


# Lines of IAM-OnDB (Liwicki and Bunke, 2005), in its official layout.
#
# ``lineStrokes/a01/a01-000/a01-000u-01.xml`` has the strokes of line 1 of form a01-000u,
# ``ascii/a01/a01-000/a01-000u.txt`` the text of all its lines, behind ``CSR:``. The lists of
# forms of its task 1 part them: ``trainset.txt`` trains, ``testset_v.txt`` validates,
# ``testset_f.txt`` tests, and ``testset_t.txt``, its second validation set, trains too.


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


def read_iam(folder: Path, split: str, faults: Counter[str]) -> list[Line]:
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


PEN, UNIPEN, IAM = SOURCES = read_sources("strokes")
OTHER = 0
"""The number of every character that an alphabet lacks."""
FAR = 60.0
"""Units from one point to the next from which on they are counted: the pen changed lines."""
PARTED = 10
"""One in so many of UNIPEN's writers validates, and one tests."""
ALPHABETS = {
    "pen": " " + pen.LETTERS,
    "unipen": "".join(chr(code) for code in range(32, 127)),
    "iam": " ',." + string.ascii_uppercase + string.ascii_lowercase,
}
"""The characters of each source, from number 1 on; IAM-OnDB's are 57 with :data:`OTHER`, as
many as in the paper, which does not say which."""


class Alphabet:
    """The characters that can be written, each with its number from 1 on; 0 is every other.

    Args:
        characters: without repetition.
    """

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self._numbers = {one: number for number, one in enumerate(characters, start=1)}

    def __len__(self) -> int:
        """V, with the number of all others."""
        return len(self.characters) + 1

    def lacks(self, text: str) -> str:
        """The characters of a text that are not known, each once."""
        return "".join(one for one in dict.fromkeys(text) if one not in self._numbers)

    def numbers(self, text: str) -> list[int]:
        """The number of each character."""
        return [self._numbers.get(one, OTHER) for one in text]

    def known(self, text: str) -> list[int]:
        """The number of each character of a text that is to be written.

        Raises:
            ValueError: if it is empty, or has characters that are not known; names them.
        """
        if not text.strip():
            raise ValueError("there is no text: give some characters to write.")
        if lacks := self.lacks(text):
            raise ValueError(
                f"{text!r} has {', '.join(map(repr, lacks))}, which this net never learned: "
                f"choose from {self.characters!r}."
            )
        return self.numbers(text)

    @property
    def digest(self) -> str:
        """A hash of the characters in their order."""
        return hashlib.sha256(self.characters.encode()).hexdigest()


class Strokes(Dataset[Sequence[Line]]):
    """Lines of handwriting; as :class:`lnlab.data.Images`.

    ``name`` says what was left out and what was passed over: lines without text, of one point,
    of symbols only; points without a place; and counts what was kept though it is far away.
    """

    def __init__(
        self,
        source: Source,
        read: Callable[[], Mapping[str, Sequence[Line]]],
        of: Callable[[], str],
        faults: Counter[str],
        most: int | None = None,
    ) -> None:
        self._lines, self._files, self._faults, self._most = read, of, faults, most
        super().__init__(source, self._whole, lambda: f"{of()} {most}", noted=True)
        self.alphabet = Alphabet(ALPHABETS[source.name])

    def _whole(self) -> tuple[Mapping[str, Sequence[Line]], str]:
        """The lines, kept as arrays from when they were first read, and a note."""
        arrays = cache_arrays("strokes", f"{self.source.name} {self._files()}", self._made)
        parts = {split: from_arrays(arrays, split) for split in ("train", "valid", "test")}
        parts["train"] = parts["train"][: self._most]
        return parts, arrays["note"].tobytes().decode()

    def _made(self) -> Arrays:
        parts = self._lines()
        for split, part in parts.items():
            if not part:
                raise ValueError(f"{self.source.name}: there are no lines to {split}.")
        arrays = {name: array for split, part in parts.items()
                  for name, array in packed(split, part).items()}  # fmt: skip
        note = noted(self._faults + counted(parts, self.alphabet))
        return arrays | {"note": np.frombuffer(note.encode(), np.uint8)}

    @cached_property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (2,) of dx and dy in training."""
        moved = np.concatenate([line.offsets[1:, :2] for line in self.train]).astype(float)
        return moved.mean(0), moved.std(0)

    @cached_property
    def unseen(self) -> list[int]:
        """The places of the test lines whose text no training line has."""
        seen = {line.text for line in self.train}
        return [place for place, line in enumerate(self.test) if line.text not in seen]

    def _digest(self) -> bytes:
        return lnlab.papers.handwriting.pen.digest(self._splits)

    def __str__(self) -> str:
        parts = self._splits
        counts = ", ".join(f"{len(part)} {split}" for split, part in parts.items())
        steps = np.mean([line.steps for line in parts["train"]])
        return (
            f"{self.kind} data: {self.name}, lines: {counts}; {steps:.0f} points a line on "
            f"average; {len(parts['test']) - len(self.unseen)} lines to test have a text that "
            f"is trained on too"
        )


def counted(parts: Mapping[str, Sequence[Line]], alphabet: Alphabet) -> Counter[str]:
    """Counts of what was kept and has to be said: far offsets, unknown characters."""
    found: Counter[str] = Counter()
    for line in (line for part in parts.values() for line in part):
        far = np.abs(line.offsets[:, :2]).max(1) > FAR
        found[f"offsets longer than {FAR:.0f} kept"] += int(far.sum())
        found.update(f"times the unknown {one!r}" for one in line.text if alphabet.lacks(one))
    return found


def noted(faults: Counter[str]) -> str:
    """The words for what was counted."""
    left = {"without text", "of one point", "of symbols only"}
    said = [
        f"{count} lines {what} left out" if what in left else f"{count} {what}"
        for what, count in sorted(faults.items())
        if count
    ]
    return ", ".join(said)


def packed(split: str, part: Sequence[Line]) -> Arrays:
    """The lines of a split as arrays."""
    words = json.dumps([(line.name, line.writer, line.text) for line in part])
    unknown = np.full(0, -1, np.int16)
    return {
        f"{split} offsets": np.concatenate([line.offsets for line in part]),
        f"{split} counts": np.array([len(line.offsets) for line in part]),
        f"{split} words": np.frombuffer(words.encode(), np.uint8),
        f"{split} places": np.concatenate(
            [unknown if line.places is None else line.places for line in part]
        ),
    }


def from_arrays(arrays: Arrays, split: str) -> list[Line]:
    """The lines of a split again."""
    ends = arrays[f"{split} counts"].cumsum()[:-1]
    names = json.loads(arrays[f"{split} words"].tobytes())
    rows = np.split(arrays[f"{split} offsets"], ends)
    places = arrays[f"{split} places"]
    known = np.split(places, ends) if len(places) else [None] * len(rows)
    return [
        Line(name, writer, text, row, place)
        for (name, writer, text), row, place in zip(names, rows, known, strict=True)
    ]


def load(source: Source, place: Path | None = None, *, most: int | None = None) -> Strokes:
    """The handwriting of a source, for :func:`lnlab.data.load`.

    Args:
        place: the folder of its files, or UNIPEN's archive. None: the source's own place in the
            data folder.
        most: how many lines to train on at most; None: all.

    Raises:
        ValueError: for a ``most`` below 1; later, for damaged files.
        FileNotFoundError: where files are not; says how to get them.
    """
    if most is not None and most < 1:
        raise ValueError(f"most is {most}: give at least 1.")
    faults: Counter[str] = Counter()
    if source is PEN:
        sizes = pen.PARTS | {"train": min(pen.PARTS["train"], most or pen.PARTS["train"])}
        return Strokes(source, partial(_made, sizes), lambda: str(sizes), faults, most)
    place = place or data_folder() / source.name
    read, files = _unipen(place, faults) if source is UNIPEN else _iam(place, faults)
    return Strokes(source, read, lambda: file_stamp(files), faults, most)


Read = Callable[[], Mapping[str, Sequence[Line]]]


def _made(sizes: Mapping[str, int]) -> dict[str, list[Line]]:
    return {split: pen.lines(split, count) for split, count in sizes.items()}


def _unipen(place: Path, faults: Counter[str]) -> tuple[Read, list[Path]]:
    """The reader of UNIPEN's lines, and the files that decide them."""
    archives = [place] if place.is_file() else sorted(place.glob("unipen*.tar.gz"))
    folder = root(place) if place.is_dir() else None
    if folder is None and not archives:
        raise FileNotFoundError(
            f"unipen is not in {place}: neither data/8 and include nor unipen*.tar.gz. Get "
            f"train_r01_v07 from {UNIPEN.citation}, and name its folder: unipen=PATH."
        )
    files = [archives[0]] if folder is None else sorted(folder.glob("*/**/*.dat"))
    return partial(_of_unipen, folder or archives[0], faults), files


def _of_unipen(place: Path, faults: Counter[str]) -> dict[str, list[Line]]:
    """UNIPEN's lines, no writer in two parts."""
    folder = place if place.is_dir() else root(unpack(place))
    if folder is None:
        raise ValueError(f"{place} has no data/8 and include: it is no archive of UNIPEN.")
    found = read_unipen(folder, faults)
    writers = sorted({line.writer for line in found}, key=_hash)
    held = max(1, len(writers) // PARTED)
    part = dict.fromkeys(writers, "train")
    part |= dict.fromkeys(writers[:held], "test")
    part |= dict.fromkeys(writers[held : 2 * held], "valid")
    return {
        split: [line for line in found if part[line.writer] == split]
        for split in ("train", "valid", "test")
    }


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _iam(place: Path, faults: Counter[str]) -> tuple[Read, list[Path]]:
    """The reader of IAM-OnDB's lines, and the files that decide them."""
    files = needed(place)
    missing = [path for path in files if not path.is_file()]
    missing += [] if (place / "lineStrokes").is_dir() else [place / "lineStrokes"]
    if missing:
        raise FileNotFoundError(
            f"iam is not whole in {place}, {missing[0]} is not there. Its licence forbids to "
            f"give it on: register at {IAM.citation}, get lineStrokes-all, ascii-all and the "
            "lists of task 1, unpack them into one folder, and name it: iam=PATH."
        )
    return lambda: {split: read_iam(place, split, faults) for split in LISTS}, files
