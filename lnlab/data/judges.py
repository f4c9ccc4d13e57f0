"""Judges of sentence vectors: made here, and the five of Kiros et al. (2015) from their files.

- SICK (Marelli et al., 2014): how much the two sentences of a pair have to do with each other.
- MR (Pang and Lee, 2005), CR (Hu and Liu, 2004): good or bad reviews of films, of products.
- SUBJ (Pang and Lee, 2004): subjective or objective.
- MPQA (Wiebe et al., 2005): the polarity of an opinion in a phrase.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from lnlab.data import verdicts
from lnlab.data.cache import code, stamp
from lnlab.data.dataset import Dataset
from lnlab.data.judge import SentenceJudge, folds
from lnlab.data.source import Source, data_folder
from lnlab.data.vocabulary import cut

ONLY = {"only": "names of judges with commas between them; all if nothing is said"}
STORY_JUDGES = Source(
    name="story-tasks",
    title="Sentences of the stories: roles, order, negation, who feels; what is found good",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.data.verdicts",
    offers="judges",
    options=ONLY,
)
JUDGES = Source(
    name="sentence-tasks",
    title="SICK, MR, CR, SUBJ and MPQA, the official files, in a folder or below",
    kind="official",
    licence="SICK: CC BY-NC-SA 3.0; MR, SUBJ: CC BY 4.0; CR, MPQA: of their authors, research",
    citation="as Kiros et al. (2015), https://github.com/ryankiros/skip-thoughts",
    offers="judges",
    options=ONLY,
)
SOURCES = (STORY_JUDGES, JUDGES)

CLASSES = {
    "MR": (("rt-polarity.neg", "mr.neg"), ("rt-polarity.pos", "mr.pos")),
    "CR": (("custrev.neg", "cr.neg"), ("custrev.pos", "cr.pos")),
    "SUBJ": (
        ("plot.tok.gt9.5000", "subj.objective"),
        ("quote.tok.gt9.5000", "subj.subjective"),
    ),
    "MPQA": (("mpqa.neg",), ("mpqa.pos",)),
}
"""The files of classes 0 and 1, first by their official names; ``.txt`` may follow."""
WINDOWS = "MR", "SUBJ"
"""Those whose official files are in Windows-1252."""
SICK = (
    ("SICK_train.txt",),
    ("SICK_trial.txt",),
    ("SICK_test_annotated.txt", "SICK_test.txt"),
)
"""The files of SemEval-2014; ``SICK.txt`` has all pairs, and the part of each in a column."""
WHOLE = "SICK.txt"
DEPTHS = "*", "*/*", "*/*/*"
"""Places of files in a folder; links to folders are followed."""
NAMES = "SICK", *CLASSES
COLUMNS = "sentence_A", "sentence_B", "relatedness_score"
PART = "SemEval_set"
PARTS = {"TRAIN": 0, "TRIAL": 1, "TEST": 2}
WRITTEN = "cutting", "judge", "judges", "stories", "tales", "verdicts"
"""The modules that decide what is asked."""


class Judges(Dataset[SentenceJudge], Mapping[str, SentenceJudge]):
    """Judges by name; as :class:`Dataset`, but for its splits."""

    def __init__(
        self,
        source: Source,
        names: Sequence[str],
        read: Callable[[], Mapping[str, SentenceJudge]],
        of: Callable[[], str],
    ) -> None:
        def found() -> tuple[Mapping[str, SentenceJudge], str]:
            parts = read()
            blank = sum(judge.blank for judge in parts.values())
            return parts, f"{blank} blank lines left out" if blank else ""

        super().__init__(source, found, lambda: f"{','.join(names)} {of()}", noted=True)
        self.names = tuple(names)

    def __getitem__(self, name: str) -> SentenceJudge:
        if name not in self.names:
            raise KeyError(name)
        return self._checked[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _digest(self) -> bytes:
        checksums = (judge.checksum for judge in self._parts[0].values())
        return hashlib.sha256("\n".join(checksums).encode()).digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {len(judge):,}" for name, judge in self.items())
        return f"{self.kind} data: {self.name}: {counts} cases"


def load(source: Source, place: Path | None = None, *, only: str = "") -> Judges:
    """The judges of a source, for :func:`lnlab.data.load`.

    - ``story-tasks``: 1,400 pairs and 600 cases each, made here, always the same. -
    ``sentence-tasks``: the files of :data:`SICK` and :data:`CLASSES`, in the folder or two
    below.

    Args:
        place: the folder. None: the source's own place in the data folder.
        only: names of judges, with commas between them; empty for all.

    Raises:
        ValueError: for a judge that there is not, or a path for what is made here; later, for
            a missing column, another encoding, a relatedness that is none, too few cases.
        FileNotFoundError: where files are not; names them.
    """
    every = ("relatedness", *verdicts.MADE) if source is STORY_JUDGES else NAMES
    names = [name.strip() for name in only.split(",")] if only else [*every]
    strange = sorted({*names} - {*every})
    if strange:
        raise ValueError(
            f"{source.name} has no {strange[0]!r}: choose from {', '.join(every)}."
        )
    written = code(*(Path(__file__).with_name(f"{name}.py") for name in WRITTEN))
    if source is STORY_JUDGES:
        if place is not None:
            raise ValueError(f"{source.name}={place}: they are made here, give no path.")
        return Judges(
            source,
            names,
            lambda: {name: judge for name, judge in verdicts.judges().items() if name in names},
            lambda: written,
        )
    place = place or data_folder() / source.name
    found = (file for depth in DEPTHS for file in sorted(place.glob(depth)) if file.is_file())
    there = {file.name.lower(): file for file in found}
    files = {name: _files(name, there, place) for name in names}
    return Judges(
        source,
        names,
        lambda: {name: _read(name, found) for name, found in files.items()},
        lambda: f"{stamp(file for found in files.values() for file in found)} {written}",
    )


def _files(name: str, there: Mapping[str, Path], place: Path) -> list[Path]:
    """The files of a judge, its classes or parts in their order."""
    wanted = SICK if name == "SICK" else CLASSES[name]
    if name == "SICK" and WHOLE.lower() in there:
        return [there[WHOLE.lower()]]
    found = []
    for names in wanted:
        either = [f"{one}{end}".lower() for one in names for end in ("", ".txt")]
        if not {*either} & {*there}:
            raise FileNotFoundError(
                f"{name} is not whole in {place}: there is no {' or '.join(names)} "
                f"({JUDGES.citation}). Put it there, or name the folder that has the files of "
                "all judges: sentence-tasks=PATH."
            )
        found.append(next(there[one] for one in either if one in there))
    return found


def _read(name: str, files: Sequence[Path]) -> SentenceJudge:
    return _related(files) if name == "SICK" else _classes(name, files)


def _classes(name: str, files: Sequence[Path]) -> SentenceJudge:
    """Cases of class 0, then of class 1."""
    read = [_lines(file, *("windows-1252",) * (name in WINDOWS)) for file in files]
    lines = [[line for line in part if line.strip()] for part in read]
    targets = np.repeat([0.0, 1.0], [len(part) for part in lines])
    blank = sum(len(part) - len(full) for part, full in zip(read, lines, strict=True))
    where = f"{name} ({', '.join(map(str, files))})"
    return _named(
        where, name, cut(line for part in lines for line in part), [], targets,
        folds(name, len(targets)), blank,
    )  # fmt: skip


def _related(files: Sequence[Path]) -> SentenceJudge:
    rows, blank = [], 0
    for number, file in enumerate(files):
        lines = _lines(file)
        blank += sum(not line.strip() for line in lines)
        rows += _rows(
            file, [(n, line) for n, line in enumerate(lines, 1) if line.strip()], number
        )
    first, second, scores, parts = zip(*rows, strict=True) if rows else ((),) * 4
    where = f"SICK ({', '.join(map(str, files))})"
    return _named(
        where, "SICK", cut(first), cut(second), np.array(scores, float),
        np.array(parts, np.int64), blank,
    )  # fmt: skip


def _rows(
    file: Path, lines: Sequence[tuple[int, str]], part: int
) -> Iterator[tuple[str, str, float, int]]:
    """Pairs with their relatedness and part, from numbered lines below a heading, with tabs."""
    heading = lines[0][1].rstrip("\r").split("\t") if lines else []
    wanted = [*COLUMNS, PART] if file.name.lower() == WHOLE.lower() else [*COLUMNS]
    for column in wanted:
        if column not in heading:
            raise ValueError(
                f"{file} has no column {column}: it has {', '.join(heading)[:200] or 'none'}."
            )
    for number, line in lines[1:]:
        cells = dict(zip(heading, line.rstrip("\r").split("\t"), strict=False))
        where = f"{file}, line {number}"
        if len(cells) < len(heading):
            raise ValueError(f"{where} has {len(cells)} columns, its heading {len(heading)}.")
        first, second, score = (cells[column] for column in COLUMNS)
        if PART in wanted and cells[PART] not in PARTS:
            raise ValueError(
                f"{where}: {PART} is {cells[PART]!r}, not one of {', '.join(PARTS)}."
            )
        if not first.strip() or not second.strip():
            raise ValueError(f"{where} has a sentence without words.")
        yield (
            first,
            second,
            _score(score, where),
            PARTS[cells[PART]] if PART in wanted else part,
        )


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = 0.0
    if not 1 <= score <= 5:
        raise ValueError(f"{where}: relatedness_score is {text!r}, not a number from 1 to 5.")
    return score


def _named(where: str, *parts: object) -> SentenceJudge:
    """A judge whose faults are said with the names of its files."""
    try:
        return SentenceJudge(*parts)  # pyright: ignore[reportArgumentType]
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _lines(file: Path, *official: str) -> list[str]:
    """The lines of a file in UTF-8, or else in its official encoding.

    Raises:
        ValueError: if it is in neither.
    """
    content, encodings = file.read_bytes(), ("utf-8", *official)
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    raise ValueError(
        f"{file} is no text in {' or '.join(encodings)}: convert it, or take the official file."
    )
