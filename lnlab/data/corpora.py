"""Recorded speech in the layouts of its authors: TIMIT and LibriSpeech.

Each is listed here, what is said and in which file; no sound is read.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lnlab.data.phones import FOLDED, LEFT_OUT, SILENCE, fold
from lnlab.data.recordings import looked_at
from lnlab.data.utterance import Utterance

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
