"""Speech with its transcripts: synthesised, spoken digits, TIMIT and LibriSpeech.

An utterance is its sound and its units (phones, letters or words). Where the times of the units
are known, as they are but for LibriSpeech, an alignment can be compared with them.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from lnlab.data.cache import hash_file_stats
from lnlab.data.dataset import Dataset, Source, read_text, sources_offering
from lnlab.data.downloads import unpack_into_data_folder
from lnlab.papers.las import synthesizer
from lnlab.papers.las.recordings import (
    InMemoryFeatureCache,
    Recording,
    SecondsPerUnit,
    Utterance,
    inspect_recordings,
    join_recordings_after_pauses,
    shrink_splits_in_proportion,
)
from lnlab.papers.las.synthesizer import DIGITS, FOLDED, PHONES, SILENCE

SPOKEN, FSDD, TIMIT, LIBRISPEECH = SOURCES = sources_offering("speech")
HOW_TO_GET = {
    "fsdd": "download the archive of tag v1.0.10 from its page",
    "timit": "order it from the Linguistic Data Consortium (LDC93S1)",
    "librispeech": "download train-clean-100, dev-clean and test-clean from its page",
}
"""The way to get files whose licence or size forbids a download unasked."""
UNITS = {
    "fsdd": DIGITS,
    "timit": PHONES,
    "librispeech": (*" 'ABCDEFGHIJKLMNOPQRSTUVWXYZ",),
}
"""The words, phones or letters that are recognized."""
RATE, FSDD_RATE = 16_000, 8_000


class SpeechDataset(Dataset[tuple[Utterance, ...]]):
    """A set of utterances, whose sound is read when it is used.

    The checksum is of the samples and of the units. An epoch takes the memory of a batch and of
    :data:`~lnlab.papers.las.recordings.MAX_CACHED` bytes of features, however long it is.
    ``units`` are all those of the source, in the order of their numbers; ``rate`` is in samples
    a second.
    """

    def __init__(
        self,
        source: Source,
        read: Callable[[], Mapping[str, Sequence[Utterance]]],
        key: Callable[[], str],
        *,
        units: tuple[str, ...],
        rate: int,
    ) -> None:
        super().__init__(source, self._utterances_sharing_feature_cache, key)
        self._read_utterances, self.units, self.rate = read, units, rate

    def _utterances_sharing_feature_cache(
        self,
    ) -> tuple[Mapping[str, tuple[Utterance, ...]], Literal[""]]:
        utterances = self._read_utterances()
        for split, examples in utterances.items():
            if not examples and split != "valid":
                raise ValueError(f"{self.source.name} has no utterances to {split} with.")
        cache = InMemoryFeatureCache()
        return {
            split: tuple(replace(utterance, cache=cache) for utterance in examples)
            for split, examples in utterances.items()
        }, ""

    def _digest(self) -> bytes:
        total = hashlib.sha256(f"{self.rate}".encode())
        for split, utterances in self._splits.items():
            total.update(f"{split}\n".encode())
            for u in utterances:
                line = f"{u.name}\0{u.speaker}\0{' '.join(u.units)}\n"
                total.update(line.encode() + u.recording.digest)
                for times in (u.begins, u.ends):
                    total.update(b"" if times is None else times.tobytes())
        return total.digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{len(split)} {name}" for name, split in self._splits.items())
        return f"{self.kind} data: {self.name}, utterances: {counts}; {len(self.units)} units"


def load(
    source: Source,
    path: Path | None = None,
    *,
    max_train: int | None = None,
    held_out_speaker: str = "",
) -> SpeechDataset:
    """Return the speech of a source; the options are those of ``sources.toml``.

    When a split is first used, all recordings are inspected, and all that are faulty are named
    in one error. Validation and test get fewer utterances in proportion to ``max_train``. The
    path is a folder, or the authors' .tar.gz; the archives of LibriSpeech are to be unpacked
    into one folder.
    """
    if source is SPOKEN:
        return SpeechDataset(
            source,
            lambda: synthesizer.make_corpus(max_train),
            lambda: f"{max_train} {synthesizer.SIZES}",
            units=PHONES,
            rate=synthesizer.RATE,
        )
    path = source.locate(path, f"{HOW_TO_GET[source.name]} ({source.citation}), and")

    def read_utterances_by_split() -> Mapping[str, Sequence[Utterance]]:
        folder = unpack_into_data_folder(path) if path.is_file() else path
        if source is FSDD:
            return shrink_splits_in_proportion(
                make_digit_strings(folder, held_out_speaker), max_train
            )
        transcripts = list_timit(folder) if source is TIMIT else list_librispeech(folder)
        return attach_recordings(shrink_splits_in_proportion(transcripts, max_train))

    def cache_key() -> str:
        files = [path] if path.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
        return f"{max_train} {held_out_speaker!r} {STRINGS} {hash_file_stats(files)}"

    rate = FSDD_RATE if source is FSDD else RATE
    return SpeechDataset(
        source, read_utterances_by_split, cache_key, units=UNITS[source.name], rate=rate
    )


class UncheckedUtterance(NamedTuple):
    """An utterance whose sound is not inspected yet: as :class:`Utterance`, with its file."""

    name: str
    speaker: str
    units: Sequence[str]
    path: Path
    begins: SecondsPerUnit | None = None
    ends: SecondsPerUnit | None = None


TranscriptsBySplit = dict[str, list[UncheckedUtterance]]  # transcripts by split


def attach_recordings(transcripts: TranscriptsBySplit) -> dict[str, list[Utterance]]:
    """Return the utterances of transcripts, once all recordings have been inspected."""
    recordings = inspect_recordings(
        (t.path for split in transcripts.values() for t in split), RATE
    )
    return {
        name: [
            Utterance(t.name, t.speaker, t.units, recordings[t.path], t.begins, t.ends)
            for t in split
        ]
        for name, split in transcripts.items()
    }


def _read_text_lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there.")
    return read_text(path).rstrip().splitlines()


# TIMIT.

CORE_TEST = (
    "mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 "
    "mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 mnjm0 fdhc0 mjln0 mpam0 fmld0"
)
"""The 24 speakers of the core test set, two men and a woman of each region."""


def list_timit(folder: Path) -> TranscriptsBySplit:
    """List TIMIT: 462 speakers train, of whom every tenth validates, and 24 core ones test.

    The folder has TRAIN/DR1/FCJF0/SX127.WAV and .PHN, in capitals or not. ``sa`` sentences,
    which all speakers say, are left out.
    """
    splits: TranscriptsBySplit = {"train": [], "test": []}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() != ".phn" or path.stem.lower().startswith("sa"):
            continue
        split, speaker = path.parts[-4].lower(), path.parts[-2].lower()
        if split not in splits:
            raise ValueError(f"{path}: expected TRAIN/DR1/SPEAKER/SENTENCE.PHN in {folder}.")
        if split == "train" or speaker in CORE_TEST.split():
            splits[split].append(_read_timit_phones(path, speaker))
    if not splits["train"]:
        raise FileNotFoundError(f"timit: no TRAIN/DR*/SPEAKER/*.PHN in {folder}.")
    speakers = sorted({u.speaker for u in splits["train"]})
    valid = speakers[::10] if len(speakers) > 1 else []  # a lone speaker trains
    return {
        "train": [u for u in splits["train"] if u.speaker not in valid],
        "valid": [u for u in splits["train"] if u.speaker in valid],
        "test": splits["test"],
    }


def _read_timit_phones(phn_path: Path, speaker: str) -> UncheckedUtterance:
    units, begins, ends = [], [], []
    for number, line in enumerate(_read_text_lines(phn_path), start=1):
        match = re.fullmatch(r"(\d+) (\d+) (\S+)", line)
        phone = match[3].lower() if match else ""
        if not match or phone not in FOLDED:
            raise ValueError(
                f"{phn_path}, line {number}: {line!r} is not BEGIN END PHONE of TIMIT."
            )
        folded, begin, end = FOLDED[phone], int(match[1]), int(match[2])
        if folded == SILENCE and units[-1:] == [SILENCE]:
            ends[-1] = end  # silences in a row are one
        elif folded:
            units.append(folded)
            begins.append(begin)
            ends.append(end)
    sounds = [phn_path.with_suffix(suffix) for suffix in (".WAV", ".wav", ".flac")]
    return UncheckedUtterance(
        name=f"{speaker}-{phn_path.stem.lower()}",
        speaker=speaker,
        units=tuple(units),
        path=next((sound for sound in sounds if sound.is_file()), sounds[0]),
        begins=np.array(begins) / RATE,
        ends=np.array(ends) / RATE,
    )


# LibriSpeech.


def list_librispeech(folder: Path) -> TranscriptsBySplit:
    """List read English: all of train-* trains, dev-* validates, test-* tests.

    The folder has ``train-clean-100/103/1240/103-1240.trans.txt`` and .flac, at any depth. If
    there is only one of these folders (an excerpt), every other utterance of it trains and the
    rest test.
    """
    splits: TranscriptsBySplit = {"train": [], "valid": [], "test": []}
    names = {"train": "train", "dev": "valid", "test": "test"}
    for path in sorted(folder.rglob("*.trans.txt")):
        prefix = path.parts[-4].partition("-")[0]
        if prefix not in names:
            raise ValueError(f"{path}: expected train-*, dev-* or test-*/SPEAKER/CHAPTER/.")
        splits[names[prefix]] += _read_librispeech_chapter(path)
    present = [split for split in splits.values() if split]
    if not present:
        raise FileNotFoundError(f"librispeech: no *.trans.txt in {folder}.")
    if len(present) == 1:
        (only,) = present
        return {"train": only[::2], "valid": [], "test": only[1::2]}
    return splits


def _read_librispeech_chapter(path: Path) -> Iterator[UncheckedUtterance]:
    for number, line in enumerate(_read_text_lines(path), start=1):
        name, _, text = line.partition(" ")
        if not re.fullmatch(r"[ 'A-Z]+", text):
            unknown = sorted(set(re.sub(r"[ 'A-Z]", "", text)))
            raise ValueError(
                f"{path}, line {number}: {text!r} is empty or holds {unknown}: expected A to Z."
            )
        yield UncheckedUtterance(name, path.parts[-3], text, path.parent / f"{name}.flac")


# The Free Spoken Digit Dataset: its single digits, joined into strings.

STRINGS = {"train": 1500, "valid": 150, "test": 300}
"""Numbers of strings of digits that are joined from the recordings."""
MIN_DIGITS, MAX_DIGITS = 3, 5
TEST_TAKES, VALID_TAKES = range(5), range(5, 8)
"""Takes that are not trained on: 0 to 4 are the authors' test set."""
PAUSE = 0.0, 0.15  # seconds of silence before a digit

Takes = dict[str, dict[str, dict[int, list[Recording]]]]
"""The recordings by split, speaker and digit."""


def make_digit_strings(folder: Path, held_out_speaker: str = "") -> dict[str, list[Utterance]]:
    """Return strings of three to five digits of one speaker each, joined at random.

    The splits have different takes of the same six speakers; of a ``held_out_speaker`` all are
    in the test, and no others.
    """
    paths = sorted(folder.glob("**/recordings/*.wav"))
    if not paths:
        raise FileNotFoundError(f"fsdd: no recordings/*.wav in {folder}: unpack its archive.")
    for path in paths:
        if re.fullmatch(r"\d_[a-z]+_\d+", path.stem) is None:
            raise ValueError(f"{path}: a recording is called DIGIT_SPEAKER_TAKE.wav")
    recordings = inspect_recordings(paths, FSDD_RATE)
    takes = _group_takes_by_split(recordings, held_out_speaker, folder)
    return {
        split: [_make_digit_string(takes, split, number) for number in range(count)]
        for split, count in STRINGS.items()
    }


def _group_takes_by_split(
    recordings: Mapping[Path, Recording], held_out_speaker: str, folder: Path
) -> Takes:
    takes: Takes = {split: defaultdict(lambda: defaultdict(list)) for split in STRINGS}
    for path, recording in recordings.items():
        digit, speaker, take = path.stem.split("_")
        split = "train"
        if int(take) in TEST_TAKES or speaker == held_out_speaker:
            split = "test"
        elif int(take) in VALID_TAKES:
            split = "valid"
        if held_out_speaker and split == "test" and speaker != held_out_speaker:
            continue
        takes[split][speaker][int(digit)].append(recording)
    if held_out_speaker and not takes["test"]:
        speakers = ", ".join(sorted(takes["train"]))
        raise ValueError(
            f"fsdd: nobody is called {held_out_speaker!r}: choose from {speakers}."
        )
    for split, speakers in takes.items():
        for speaker, digits in speakers.items():
            missing = sorted(set(range(10)) - set(digits))
            if missing:
                raise ValueError(f"fsdd: {speaker} says no {missing} in {split}, {folder}.")
    return takes


def _make_digit_string(takes: Takes, split: str, index: int) -> Utterance:
    random = np.random.default_rng([list(STRINGS).index(split), index])
    speakers = takes[split]
    speaker = sorted(speakers)[random.integers(len(speakers))]
    count = random.integers(MIN_DIGITS, MAX_DIGITS + 1)
    pauses, recordings, words = [], [], []
    for digit in random.integers(0, 10, count):
        takes_of_digit = speakers[speaker][digit]
        recordings.append(takes_of_digit[random.integers(len(takes_of_digit))])
        pauses.append(int(random.uniform(*PAUSE) * FSDD_RATE))
        words.append(DIGITS[digit])
    lengths = [recording.num_samples for recording in recordings]
    ends = np.cumsum(np.add(pauses, lengths))
    return Utterance(
        name=f"{split}-{index:04}",
        speaker=speaker,
        units=tuple(words),
        recording=join_recordings_after_pauses(pauses, recordings),
        begins=(ends - lengths) / FSDD_RATE,
        ends=ends / FSDD_RATE,
    )
