"""Speech with what is said in it: synthesised, spoken digits, TIMIT and LibriSpeech.

An utterance is its features and the units (phones or letters) that are said. Where it is known
when, the ends of the units are kept too, so that an alignment can be held against the truth.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lnlab.data.cache import file_stamp
from lnlab.data.dataset import Dataset, Source
from lnlab.data.files import unpack
from lnlab.papers.las.recordings import (
    Joined,
    Memory,
    Recording,
    Unit,
    Utterance,
    first,
    looked_at,
)
from lnlab.papers.las.synthesizer import DIGITS, FOLDED, LEFT_OUT, PHONES, SILENCE, WORDS, fold
from lnlab.paths import data_folder

MADE = {"unit": "phones", "most": "how many utterances to train on at most"}
FILES = {
    "most": MADE["most"],
    "mix": "True mixes recordings of several channels to one",
    "leave_out": "True does without faulty recordings",
}
"""Options of synthesised speech, and of speech from files; the first unit is the default."""
LETTERS = (*" 'ABCDEFGHIJKLMNOPQRSTUVWXYZ",)

SPOKEN = Source(
    name="spoken",
    title="Words synthesised by lnlab, phone boundaries known",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.papers.las.synthesizer",
    offers="speech",
    options=MADE,
)
FSDD = Source(
    name="fsdd",
    title="Free Spoken Digit Dataset v1.0.10, digits joined into strings, 8 kHz",
    kind="official",
    licence="CC BY-SA 4.0",
    citation="Jackson et al. (2020), https://github.com/Jakobovski/free-spoken-digit-dataset",
    offers="speech",
    options={
        "unit": "words, letters, phones",
        "unheard": "a speaker whom only the test has",
        **FILES,
    },
)
TIMIT = Source(
    name="timit",
    title="TIMIT, 61 phones folded to 39",
    kind="official",
    licence="LDC User Agreement",
    citation="Garofolo et al. (1993), https://catalog.ldc.upenn.edu/LDC93S1",
    offers="speech",
    options={"unit": "phones", **FILES},
)
LIBRISPEECH = Source(
    name="librispeech",
    title="LibriSpeech, read English at 16 kHz",
    kind="official",
    licence="CC BY 4.0",
    citation="Panayotov et al. (2015), https://www.openslr.org/12",
    offers="speech",
    options={"unit": "letters", **FILES},
)
SOURCES = (SPOKEN, FSDD, TIMIT, LIBRISPEECH)

GET = {
    "fsdd": "download the archive of tag v1.0.10 from its page",
    "timit": "order it from the Linguistic Data Consortium (LDC93S1)",
    "librispeech": "download train-clean-100, dev-clean and test-clean from its page",
}
"""The way to the files of a source whose licence or size forbids a download unasked."""


class Speech(Dataset[tuple[Utterance, ...]]):
    """A set of utterances, heard when they are needed; as :class:`lnlab.data.Images`.

    The checksum is of the samples and of the units. An epoch takes the memory of a batch and
    of :data:`lnlab.papers.las.recordings.MOST` bytes of features, however long it is.

    Args:
        source, of, noted: as of :class:`Dataset`.
        said: the utterances by split, and the note.
        units: all that can be said, in the order of their numbers.
        rate: samples of the sound a second.
    """

    def __init__(
        self,
        source: Source,
        said: Callable[[], tuple[Mapping[str, Sequence[Utterance]], str]],
        of: Callable[[], str],
        *,
        units: tuple[str, ...],
        rate: int,
        noted: bool = False,
    ) -> None:
        super().__init__(source, self._remembered, of, noted=noted)
        self._said, self.units, self.rate = said, units, rate

    def _remembered(self) -> tuple[Mapping[str, tuple[Utterance, ...]], str]:
        said, note = self._said()
        for split, utterances in said.items():
            if not utterances and split != "valid":
                raise ValueError(f"{self.source.name} has no utterances to {split} with.")
        memory = Memory()
        return {
            split: tuple(replace(utterance, memory=memory) for utterance in utterances)
            for split, utterances in said.items()
        }, note

    def _digest(self) -> bytes:
        total = hashlib.sha256(f"{self.rate}".encode())
        for split, utterances in self._splits.items():
            total.update(f"{split}\n".encode())
            for u in utterances:
                said = f"{u.name}\0{u.speaker}\0{' '.join(u.units)}\n"
                total.update(said.encode() + u.heard.digest)
                for places in (u.begins, u.ends):
                    total.update(b"" if places is None else places.tobytes())
        return total.digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{len(part)} {split}" for split, part in self._splits.items())
        return f"{self.kind} data: {self.name}, utterances: {counts}; {len(self.units)} units"


def load(
    source: Source,
    place: Path | None = None,
    *,
    unit: Unit | None = None,
    most: int | None = None,
    unheard: str = "",
    mix: bool = False,
    leave_out: bool = False,
) -> Speech:
    """The speech of a source, for :func:`lnlab.data.load`.

    When a split is first used all recordings are looked at, and all that are faulty are named
    in one error.

    Args:
        place: a folder, or the .tar.gz of the authors, which is unpacked once into the data
            folder; LibriSpeech comes in several, to be unpacked into one folder. None: the
            source's own place in the data folder.
        unit: what is recognized, phones, letters or (of digits) words; None: the source's own.
        most: how many utterances to train on at most, the first; those of validation and test
            get fewer in proportion. None: all.
        unheard: a speaker of ``fsdd`` whom only the test has; the other sources have other
            speakers in their tests anyway.
        mix: whether recordings of several channels are mixed to one.
        leave_out: whether faulty recordings are left out. The name of the data says how many
            were mixed and left out.

    Raises:
        ValueError: for an unknown unit or speaker; later, for damaged files.
        FileNotFoundError: where the files are not; says how to get them.
    """
    units: Any = source.options["unit"].split(", ")
    if unit is not None and unit not in units:
        raise ValueError(f"{source.name} has no {unit}: choose from {', '.join(units)}.")
    if most is not None and most < 1:
        raise ValueError(f"most is {most}: give at least 1, or None for all.")
    said: Unit = units[0] if unit is None else unit
    options = f"{said} {most} {unheard!r} {mix} {leave_out}"
    if source is SPOKEN:
        return _synthesised(most)
    place = place or data_folder() / source.name
    if not place.exists():
        raise FileNotFoundError(
            f"{source.name} is not in {place}: {GET[source.name]} ({source.citation}), and "
            f"name it or a folder of its files: {source.name}=PATH"
        )
    read = partial(_from_files, source, place, said, most, unheard, mix, leave_out)
    known = {"phones": PHONES, "letters": LETTERS, "words": DIGITS}
    return Speech(
        source,
        read,
        lambda: f"{options} {STRINGS} {file_stamp(_files(place))}",
        units=known[said],
        rate=8_000 if source is FSDD else 16_000,
        noted=mix or leave_out,
    )


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())


def _from_files(
    source: Source,
    place: Path,
    unit: Unit,
    most: int | None,
    unheard: str,
    mix: bool,
    leave_out: bool,
) -> tuple[Mapping[str, Sequence[Utterance]], str]:

    folder = unpack(place) if place.is_file() else place
    faulty: Any = {"mix": mix, "leave_out": leave_out}
    if source is FSDD:
        said, note = strings(folder, unit, unheard, **faulty)
        return first(said, most), note
    return heard(first(LISTS[source.name](folder), most), **faulty)


def _synthesised(most: int | None) -> Speech:
    from lnlab.papers.las import synthesizer

    return Speech(
        SPOKEN,
        lambda: (synthesizer.corpus(most), ""),
        lambda: f"{most} {synthesizer.SIZES}",
        units=PHONES,
        rate=synthesizer.RATE,
    )


# Recorded speech in the layouts of its authors: TIMIT and LibriSpeech.
#
# Each is listed here, what is said and in which file; no sound is read.


RATE = 16_000
LETTER = re.compile(r"[ 'A-Z]+")


class Listed(NamedTuple):
    """An utterance whose sound has not been looked at: as :class:`Utterance`, with its file."""

    name: str
    speaker: str
    units: Sequence[str]
    path: Path
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None


Lists = dict[str, list[Listed]]


def heard(
    listed: Lists, *, mix: bool = False, leave_out: bool = False
) -> tuple[dict[str, list[Utterance]], str]:
    """The utterances that can be used, and what was done to others: :func:`looked_at`."""
    paths = [said.path for part in listed.values() for said in part]
    found, note = looked_at(paths, RATE, mix=mix, leave_out=leave_out)
    return {
        split: [
            Utterance(u.name, u.speaker, u.units, found[u.path], u.begins, u.ends)
            for u in part
            if u.path in found
        ]
        for split, part in listed.items()
    }, note


def timit(folder: Path) -> Lists:
    """TIMIT's 462 speakers to train, of whom every tenth validates, and its 24 core test ones.

    ``sa`` sentences, which all speakers say, are left out.

    Args:
        folder: with TRAIN/DR1/FCJF0/SX127.WAV and .PHN, in capitals or not.

    Raises:
        FileNotFoundError: if no such files are there.
    """
    parts: Lists = {"train": [], "test": []}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() != ".phn" or path.stem.lower().startswith("sa"):
            continue
        split, speaker = path.parts[-4].lower(), path.parts[-2].lower()
        if split not in parts:
            raise ValueError(f"{path}: expected TRAIN/DR1/SPEAKER/SENTENCE.PHN in {folder}.")
        if split == "test" and speaker not in CORE_TEST:
            continue
        parts[split].append(_timit(path, speaker))
    if not parts["train"]:
        raise FileNotFoundError(f"timit: no TRAIN/DR*/SPEAKER/*.PHN in {folder}.")
    return _every_tenth_validates(parts)


def _every_tenth_validates(parts: Lists) -> Lists:
    """The lists, with every tenth speaker of the training ones, by name, in "valid"; a lone one
    trains."""
    every = sorted({u.speaker for u in parts["train"]})
    speakers = every[::10] if len(every) > 1 else []
    train = [u for u in parts["train"] if u.speaker not in speakers]
    valid = [u for u in parts["train"] if u.speaker in speakers]
    return {"train": train, "valid": valid, "test": parts["test"]}


_CORE = """
mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 mbpm0 mklt0 fnlp0 mcmj0
mjdh0 fmgd0 mgrt0 mnjm0 fdhc0 mjln0 mpam0 fmld0
"""
CORE_TEST = frozenset(_CORE.split())
"""The 24 speakers of the core test set, two men and a woman of each region."""


def _timit(path: Path, speaker: str) -> Listed:
    rows = []
    for place, line in enumerate(_lines(path), start=1):
        match = re.fullmatch(r"(\d+) (\d+) (\S+)", line)
        if match is None:
            raise ValueError(f"{path}, line {place}: {line!r} is not BEGIN END PHONE.")
        rows.append((int(match[1]), int(match[2]), match[3].lower()))
    try:
        units = fold([phone for *_, phone in rows])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    begins, ends = [], []
    last = ""
    for begin, end, phone in rows:
        if phone in LEFT_OUT:
            continue
        if FOLDED[phone] == last == SILENCE:
            ends[-1] = end
            continue
        last = FOLDED[phone]
        begins.append(begin)
        ends.append(end)
    sounds = [path.with_suffix(suffix) for suffix in (".WAV", ".wav", ".flac")]
    return Listed(
        name=f"{speaker}-{path.stem.lower()}",
        speaker=speaker,
        units=tuple(units),
        path=next((sound for sound in sounds if sound.is_file()), sounds[0]),
        begins=np.array(begins) / RATE,
        ends=np.array(ends) / RATE,
    )


def librispeech(folder: Path) -> Lists:
    """Read English: all of train-*, dev-* to validate, test-* to test.

    Where there is only one of these folders (an excerpt), every other utterance of it is for
    training and the rest for the test.

    Args:
        folder: with ``train-clean-100/103/1240/103-1240.trans.txt`` and .flac, or with a
            folder LibriSpeech that has them.

    Raises:
        FileNotFoundError: if no transcripts are there.
    """
    parts: Lists = {"train": [], "valid": [], "test": []}
    names = {"train": "train", "dev": "valid", "test": "test"}
    for path in sorted(folder.rglob("*.trans.txt")):
        begins = path.parts[-4].partition("-")[0]
        if begins not in names:
            raise ValueError(f"{path}: expected train-*, dev-* or test-*/SPEAKER/CHAPTER/.")
        parts[names[begins]] += _librispeech(path)
    present = [split for split in parts if parts[split]]
    if not present:
        raise FileNotFoundError(f"librispeech: no *.trans.txt in {folder}.")
    if len(present) == 1:
        (only,) = present
        parts = {"train": parts[only][::2], "valid": [], "test": parts[only][1::2]}
    return parts


def _librispeech(path: Path) -> Iterator[Listed]:
    for place, line in enumerate(_lines(path), start=1):
        name, _, text = line.partition(" ")
        units = _letters(text, f"{path}, line {place}")
        yield Listed(name, path.parts[-3], units, path.parent / f"{name}.flac")


def _letters(text: str, where: str) -> str:
    if not LETTER.fullmatch(text):
        unknown = sorted(set(LETTER.sub("", text)))
        raise ValueError(f"{where}: {text!r} is empty or holds {unknown}: expected A to Z.")
    return text


def _lines(path: Path) -> list[str]:
    """The lines of a text file, without blank ones at its end.

    Raises:
        FileNotFoundError, ValueError: if it is not there, or no text.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there.")
    try:
        return path.read_text(encoding="utf-8").rstrip().splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text: {error}") from error


LISTS: dict[str, Callable[[Path], Lists]] = {
    "timit": timit,
    "librispeech": librispeech,
}


# The Free Spoken Digit Dataset: its single digits, joined into strings.


FSDD_RATE = 8_000
STRINGS = {"train": 1500, "valid": 150, "test": 300}
"""Numbers of strings of digits that are joined from the recordings."""
DIGITS_EACH = 3, 5
TEST, VALID = range(5), range(5, 8)
"""Takes that are not trained on: 0 to 4 are the authors' test set."""
GAP = 0.0, 0.15
"""Seconds of silence before a digit."""
NAME = re.compile(r"\d_[a-z]+_\d+")

Speakers = dict[str, dict[int, list[Recording]]]
Parts = dict[str, Speakers]


def strings(
    folder: Path, unit: Unit, unheard: str = "", *, mix: bool = False, leave_out: bool = False
) -> tuple[dict[str, list[Utterance]], str]:
    """Strings of three to five digits of one speaker each, joined at random.

    Training, validation and test use other takes of the same six speakers.

    Args:
        folder: with ``recordings/{digit}_{speaker}_{take}.wav``, or in a folder in it.
        unheard: a speaker whose takes are the test instead, all of them, and nothing else.
        mix, leave_out: see :func:`looked_at`, whose note is returned too.

    Raises:
        ValueError: where a speaker lacks a digit in a part, or nobody is called ``unheard``.
        FileNotFoundError: where there are no recordings.
    """
    paths = sorted(folder.glob("**/recordings/*.wav"))
    if not paths:
        raise FileNotFoundError(f"fsdd: no recordings/*.wav in {folder}: unpack its archive.")
    for path in paths:
        if NAME.fullmatch(path.stem) is None:
            raise ValueError(f"{path}: a recording is called DIGIT_SPEAKER_TAKE.wav")
    found, note = looked_at(paths, FSDD_RATE, mix=mix, leave_out=leave_out)
    parts = _parts(found.values(), unheard, folder)
    return {
        split: [_joined(parts[split], unit, split, number) for number in range(count)]
        for split, count in STRINGS.items()
    }, note


def _parts(recordings: Iterable[Recording], unheard: str, folder: Path) -> Parts:
    """Recordings by part, speaker and digit; each speaker of a part says all ten."""
    found: Parts = {split: defaultdict(lambda: defaultdict(list)) for split in STRINGS}
    for recording in recordings:
        digit, speaker, take = recording.path.stem.split("_")
        split = "test" if int(take) in TEST else "valid" if int(take) in VALID else "train"
        if unheard and (split == "test" or speaker == unheard):
            if speaker != unheard:
                continue
            split = "test"
        found[split][speaker][int(digit)].append(recording)
    if unheard and not found["test"]:
        speakers = ", ".join(sorted(found["train"]))
        raise ValueError(f"fsdd: nobody is called {unheard!r}: choose from {speakers}.")
    for split, speakers in found.items():
        if not speakers:
            raise ValueError(f"fsdd: there is no recording to {split} with in {folder}.")
        for speaker, digits in speakers.items():
            if len(digits) < 10:
                missing = sorted(set(range(10)) - set(digits))
                raise ValueError(f"fsdd: {speaker} says no {missing} in {split}, {folder}.")
    return found


def _joined(speakers: Speakers, unit: Unit, split: str, number: int) -> Utterance:
    random = np.random.default_rng([list(STRINGS).index(split), number])
    speaker = sorted(speakers)[random.integers(len(speakers))]
    count = random.integers(DIGITS_EACH[0], DIGITS_EACH[1] + 1)
    quiet, parts, words = [], [], []
    for digit in random.integers(0, 10, count):
        takes = speakers[speaker][digit]
        parts.append(takes[random.integers(len(takes))])
        quiet.append(int(random.uniform(*GAP) * FSDD_RATE))
        words.append(DIGITS[digit])
    ends = np.cumsum(np.add(quiet, [part.length for part in parts]))
    begins = ends - [part.length for part in parts]
    known = unit == "words"  # within a digit nobody knows
    return Utterance(
        name=f"{split}-{number:04}",
        speaker=speaker,
        units=_units(words, unit),
        heard=Joined(tuple(quiet), tuple(parts)),
        begins=begins / FSDD_RATE if known else None,
        ends=ends / FSDD_RATE if known else None,
    )


def _units(words: list[str], unit: Unit) -> Sequence[str]:
    if unit == "words":
        return tuple(words)
    if unit == "phones":
        return tuple(phone for word in words for phone in WORDS[word])
    return " ".join(words).upper()
