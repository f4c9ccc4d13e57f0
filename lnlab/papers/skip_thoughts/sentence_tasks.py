"""Judges of sentence vectors: made here, and the five of Kiros et al. (2015) from their files.

- SICK (Marelli et al., 2014): how much the two sentences of a pair have to do with each other.
- MR (Pang and Lee, 2005), CR (Hu and Liu, 2004): good or bad reviews of films, of products.
- SUBJ (Pang and Lee, 2004): subjective or objective.
- MPQA (Wiebe et al., 2005): the polarity of an opinion in a phrase.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np

from lnlab.data.cache import file_stamp
from lnlab.data.dataset import Dataset, Source
from lnlab.papers.skip_thoughts import data
from lnlab.papers.skip_thoughts.data import (
    BAD,
    GLAD,
    GOOD,
    SAD,
    SUBJECTS,
    Cast,
    Sentences,
    cached_tokens,
    join,
    tokenize,
)
from lnlab.paths import data_folder

# Sentences with a target, on which frozen vectors are judged.


FOLDS = 10
"""As the authors of skip-thoughts have it."""
TRAIN, TRIAL, TEST = range(3)
"""The parts of pairs."""


@dataclass(frozen=True, eq=False)
class SentenceJudge:
    """Cases that a linear model on top of frozen vectors is to get right.

    Attributes:
        name: of the judge.
        sentences: of words (N).
        others: the second sentence of each pair (N); empty where cases are single sentences.
        targets: float64 (N,): how much the sentences of a pair have to do with each other, from
            1 to 5; else the class, 0 or 1.
        parts: int64 (N,): of pairs :data:`TRAIN`, :data:`TRIAL` or :data:`TEST`, else the fold.
        blank: the number of lines without words, which were left out.

    Raises:
        ValueError: for fewer cases than folds, a part without cases, or one class alone, in all
            or in what a fold or one within it trains on.
    """

    name: str
    sentences: Sentences
    others: Sentences
    targets: np.ndarray
    parts: np.ndarray
    blank: int = 0

    def __post_init__(self) -> None:
        parts = 1 + TEST if self.others else FOLDS
        if len(self.targets) < parts:
            raise ValueError(
                f"{self.name} has {len(self.targets)} cases and {parts} folds: give a case to "
                "each fold or more."
            )
        missing = sorted({*range(parts)} - {*self.parts.tolist()})
        if missing:
            raise ValueError(f"{self.name} has no case in part {missing[0]} of {parts}.")
        if len(np.unique(self.targets)) < 2:
            raise ValueError(f"{self.name} has cases of one class only: give both.")
        if not self.pairs:
            among, _ = splits(self)
            ones = self.targets @ among
            if not ((ones > 0) & (ones < among.sum(0))).all():
                few = min((0, 1), key=lambda of: (self.targets == of).sum())
                raise ValueError(
                    f"{self.name} has {(self.targets == few).sum()} cases of class {few}, none "
                    "of which is in what some fold trains on: give more of them."
                )

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def pairs(self) -> bool:
        """True if a case is two sentences."""
        return bool(self.others)

    @property
    def said(self) -> Sentences:
        """All sentences, those of the second place behind those of the first."""
        return [*self.sentences, *self.others]

    @property
    def checksum(self) -> str:
        """SHA-256 of all that is asked."""
        total = hashlib.sha256(f"{self.name}\n{join(self.said)}\0".encode())
        total.update(self.targets.astype("<f8").tobytes() + self.parts.astype("<i8").tobytes())
        return total.hexdigest()


def folds(name: str, count: int) -> np.ndarray:
    """The fold of each of so many cases (N,), as even as can be, drawn by a hash."""
    drawn = [hashlib.sha256(f"{name} {case}".encode()).digest() for case in range(count)]
    order = np.array(sorted(range(count), key=drawn.__getitem__), np.int64)
    found = np.empty(count, np.int64)
    found[order] = np.arange(count) * FOLDS // max(1, count)
    return found


@lru_cache(maxsize=16)
def splits(judge: SentenceJudge) -> tuple[np.ndarray, np.ndarray]:
    """The cases that train a model and those that it is tested on (N, K): those of the folds,
    then, fold by fold, those of the ten folds within what trains."""
    parts = [judge.parts]
    for fold in range(FOLDS):
        inside = np.flatnonzero(judge.parts != fold)
        within = np.full(len(judge), -1)
        within[inside] = folds(f"{judge.name} within {fold}", len(inside))
        parts.append(within)
    tested = [part == fold for part in parts for fold in range(FOLDS)]
    there = np.repeat([part >= 0 for part in parts], FOLDS, axis=0)
    return (there & ~np.array(tested)).T.copy(), np.array(tested).T.copy()


# Judges made here, of sentences in the grammar of the stories: words alone do not decide them.
#
# Many cases are turned: who did it to whom, what came first, what a negation denies, who feels
# something. The words of a sentence and of the turned one are the same, or nearly, and as like
# those of a sentence that means the same.


SCORES = {"same": 5.0, "near": 3.5, "turned": 2.5, "other": 2.0, "far": 1.0}
"""The relatedness of two sentences, by what was done to the second."""
CHANCES = {"same": 3, "near": 1, "turned": 3, "other": 1, "far": 2}
PAIRS = {TRAIN: 700, TRIAL: 200, TEST: 500}
CASES = 600
"""Sentences of a judge of single ones; half of each class."""
DENIED = 0.3
"""The part of phrases that deny their words."""
ALONE = 0.6
"""The part of customers of whom nobody else's mood is told."""
Said = tuple[str, str]


def judges() -> dict[str, SentenceJudge]:
    """All of them, always the same: a SICK, a SUBJ, an MR, an MPQA and a CR in small."""
    return {
        "relatedness": _make_related(),
        **{name: _make_classes(name, make) for name, make in MADE.items()},
    }


def _make_related() -> SentenceJudge:
    """Pairs: the second sentence says the same, or is turned, or has less to do with it."""
    random = Random("relatedness")
    relations = random.choices([*CHANCES], [*CHANCES.values()], k=sum(PAIRS.values()))
    said = [random.choice(FORMS)(random, relation) for relation in relations]
    first, second = ([pair[side].split() for pair in said] for side in (0, 1))
    return SentenceJudge(
        "relatedness",
        first,
        second,
        np.array([SCORES[relation] for relation in relations]),
        np.repeat([*PAIRS], [*PAIRS.values()]),
    )


def _make_classes(name: str, make: Callable[[Random, bool], str]) -> SentenceJudge:
    """Different sentences of both classes in turn."""
    random, found = Random(name), dict[str, bool]()
    while len(found) < CASES:
        found.setdefault(make(random, len(found) % 2 == 1), len(found) % 2 == 1)
    targets = np.array([*found.values()], np.float64)
    return SentenceJudge(
        name, [line.split() for line in found], [], targets, folds(name, CASES)
    )


# --- pairs -----------------------------------------------------------------------------------


def _roles(random: Random, relation: str) -> Said:
    """The roles in a deed."""
    cast = data.drawn(random)
    one = next(deed for deed in _many(random, cast) if deed.whom)
    way, other = random.sample(range(len(one.ways)), 2)
    if relation in ("same", "turned"):
        return one.ways[way], (one if relation == "same" else one.turned).ways[other]
    if relation == "near" and one.thing:
        things = [thing for thing in SUBJECTS[cast.subject] if thing != one.thing]
        return one.ways[way], replace(one, thing=random.choice(things)).ways[way]
    if relation == "near":
        verbs = [verb for verb in data.TOWARDS if verb != one.verb]
        return one.ways[way], replace(one, verb=random.choice(verbs)).ways[way]
    return one.ways[way], _else(random, cast, relation, one)


def _order(random: Random, relation: str) -> Said:
    """The order of two deeds."""
    cast = data.drawn(random)
    first, second = data.deeds(random, cast)
    way = random.randrange(2)
    said = data.in_turn(first, second)[way]
    if relation == "same":
        return said, data.in_turn(first, second)[1 - way]
    if relation == "turned":
        return said, random.choice(data.in_turn(second, first))
    if relation == "near":
        return said, random.choice(first.ways)
    return said, _else(random, cast, relation, first, second)


def _scope(random: Random, relation: str) -> Said:
    """The scope of a negation: it denies that it was said, or that it was done."""
    cast = data.drawn(random)
    one, teller = data.deeds(random, cast)[0], random.choice((cast.hero, cast.friend))
    told = [data.silent(teller, one), data.denies(teller, one)]
    random.shuffle(told)
    way = random.randrange(2)
    if relation in ("same", "turned"):
        return told[0][way], told[relation == "turned"][1 - way]
    if relation == "near":
        return told[0][way], random.choice(one.ways)
    return told[0][way], _else(random, cast, relation, one)


FORMS = (_roles, _order, _scope)


def _many(random: Random, cast: Cast) -> Iterator[data.Deed]:
    while True:
        yield data.deed(random, cast)


def _else(random: Random, cast: Cast, relation: str, *not_these: data.Deed) -> str:
    """Another deed: of the same people there, or of others elsewhere."""
    if relation == "far":
        return random.choice(next(_many(random, _away(random, cast))).ways)
    return random.choice(
        next(
            deed
            for deed in _many(random, cast)
            if all(deed.verb != one.verb and deed.thing != one.thing for one in not_these)
        ).ways
    )


def _away(random: Random, cast: Cast) -> Cast:
    """A cast of which nothing is the same."""
    while True:
        other = data.drawn(random)
        if other.subject != cast.subject and not {*other[1:3]} & {*cast[1:3]}:
            return other


# --- single sentences ------------------------------------------------------------------------


def _teller(random: Random, subjective: bool) -> str:
    """Subjective if the teller of the story feels or finds it; else somebody else does."""
    cast = data.drawn(random)
    somebody = random.choice((cast.hero, cast.friend))
    told = random.choice(data.deed(random, cast).ways)
    adverb = random.choice(("luckily", "sadly"))
    if random.random() < 0.75:
        if subjective:
            return f"{adverb} , {somebody} knew that {told}"
        return f"{somebody} knew that {adverb} , {told}"
    found = f"the {random.choice([*SUBJECTS[cast.subject]])} was {random.choice(GOOD + BAD)}"
    return found if subjective else random.choice((f"{somebody} knew that {found}", told))


def _opinion(random: Random, good: bool) -> str:
    """Good if the thing that it is about is found good."""
    thing, other = random.sample([*SUBJECTS[random.choice([*SUBJECTS])]], 2)
    return data.opinion(random, thing, other, good)


def _phrase(random: Random, good: bool) -> str:
    """A few words that praise or blame, by themselves or by denying the contrary."""
    thing = random.choice([*SUBJECTS[random.choice([*SUBJECTS])]])
    denied = random.random() < DENIED
    word = random.choice(GOOD if good != denied else BAD)
    mood = random.choice(GLAD if good != denied else SAD)
    before = "not " * denied, random.choice(("", "really "))
    return random.choice(
        (
            "{}a {}{} {}".format(*before, word, thing),
            "was {}{}{} about the {}".format(*before, mood, thing),
        )
    )


def _customer(random: Random, content: bool) -> str:
    """Good if who got a thing is content, whatever who gave it feels."""
    cast = data.drawn(random)
    giver, customer = random.sample([cast.hero, cast.friend], 2)
    thing = random.choice([*SUBJECTS[cast.subject]])
    got = random.choice(data.Deed(giver, "gave", thing, customer).ways)
    own, contrary = (GLAD, SAD) if content else (SAD, GLAD)
    liked = "liked" if content else "hated"
    if random.random() < ALONE:
        return random.choice(
            (
                f"{got} , {customer} was {random.choice(own)} about it",
                f"{got} , {customer} {liked} it",
            )
        )
    moods = [
        f"{customer} was {random.choice(own)}",
        f"{giver} was {random.choice(contrary)}",
    ]
    random.shuffle(moods)
    return " , ".join((got, *moods))


MADE = {"teller": _teller, "opinion": _opinion, "phrase": _phrase, "customer": _customer}
"""Judges of single sentences, and what makes them."""


ONLY = {"only": "names of judges with commas between them; all if nothing is said"}
STORY_JUDGES = Source(
    name="story-tasks",
    title="Sentences of the stories: roles, order, negation, who feels; what is found good",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.papers.skip_thoughts.sentence_tasks",
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
        return self._verified[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _digest(self) -> bytes:
        checksums = (judge.checksum for judge in self._splits.values())
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
        ValueError: for a judge that there is not; later, for a missing column, another
            encoding, a relatedness that is none, too few cases.
        FileNotFoundError: where files are not; names them.
    """
    every = ("relatedness", *MADE) if source is STORY_JUDGES else NAMES
    names = [name.strip() for name in only.split(",")] if only else [*every]
    strange = sorted({*names} - {*every})
    if strange:
        raise ValueError(
            f"{source.name} has no {strange[0]!r}: choose from {', '.join(every)}."
        )
    if source is STORY_JUDGES:
        return Judges(
            source,
            names,
            lambda: {name: judge for name, judge in judges().items() if name in names},
            str,
        )
    place = place or data_folder() / source.name
    found = (file for depth in DEPTHS for file in sorted(place.glob(depth)) if file.is_file())
    there = {file.name.lower(): file for file in found}
    files = {name: _files(name, there, place) for name in names}
    return Judges(
        source,
        names,
        lambda: {name: _read(name, found) for name, found in files.items()},
        lambda: file_stamp(file for found in files.values() for file in found),
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
        where, name, _tokens([line for part in lines for line in part]), [], targets,
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
        where, "SICK", _tokens(first), _tokens(second), np.array(scores, float),
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


def _tokens(lines: Sequence[str]) -> Sentences:
    return cached_tokens("words", "\n".join(lines), lambda: [tokenize(line) for line in lines])


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
