"""The Free Spoken Digit Dataset: its single digits, joined into strings."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lnlab.data.phones import DIGITS, WORDS
from lnlab.data.recordings import Joined, Recording, looked_at
from lnlab.data.utterance import Unit, Utterance

RATE = 8_000
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
    found, note = looked_at(paths, RATE, mix=mix, leave_out=leave_out)
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
        quiet.append(int(random.uniform(*GAP) * RATE))
        words.append(DIGITS[digit])
    ends = np.cumsum(np.add(quiet, [part.length for part in parts]))
    begins = ends - [part.length for part in parts]
    known = unit == "words"  # within a digit nobody knows
    return Utterance(
        name=f"{split}-{number:04}",
        speaker=speaker,
        units=_units(words, unit),
        heard=Joined(tuple(quiet), tuple(parts)),
        begins=begins / RATE if known else None,
        ends=ends / RATE if known else None,
    )


def _units(words: list[str], unit: Unit) -> Sequence[str]:
    if unit == "words":
        return tuple(words)
    if unit == "phones":
        return tuple(phone for word in words for phone in WORDS[word])
    return " ".join(words).upper()
