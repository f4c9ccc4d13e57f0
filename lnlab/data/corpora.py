"""Recorded speech in the layouts of its authors: FSDD, AN4, TIMIT and LibriSpeech."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from lnlab.data import audio, filterbank
from lnlab.data.phones import DIGITS, FOLDED, LEFT_OUT, SILENCE, WORDS, fold
from lnlab.data.utterance import Unit, Utterance

Parts = dict[str, list[Utterance]]

FSDD_RATE, RATE = 8_000, 16_000
FSDD_STRINGS = {"train": 1500, "valid": 150, "test": 300}
"""How many strings of digits are joined from the recordings."""
FSDD_DIGITS = 3, 5
FSDD_TEST, FSDD_VALID = range(5), range(5, 8)
"""Takes that are not trained on: 0 to 4 are the authors' test set."""
GAP = 0.0, 0.15
"""Seconds of silence between two digits."""

LETTER = re.compile(r"[ 'A-Z]+")


def fsdd(folder: Path, unit: Unit, unheard: str = "") -> tuple[int, Parts]:
    """Strings of three to five digits of one speaker each, joined at random.

    Training, validation and test use other takes of the same six speakers.

    Args:
        folder: with ``recordings/{digit}_{speaker}_{take}.wav``, or in a folder in it.
        unheard: a speaker whose takes are the test instead, all of them, and nothing else.
    """
    recordings = _wavs(folder, unheard)
    return FSDD_RATE, {
        split: [_joined(recordings[split], unit, split, number) for number in range(count)]
        for split, count in FSDD_STRINGS.items()
    }


def _wavs(folder: Path, unheard: str) -> dict[str, dict[str, dict[int, list[Path]]]]:
    """Files by part, speaker and digit."""
    found: dict = {split: defaultdict(lambda: defaultdict(list)) for split in FSDD_STRINGS}
    paths = sorted(folder.glob("**/recordings/*.wav"))
    for path in paths:
        match = re.fullmatch(r"(\d)_([a-z]+)_(\d+)", path.stem)
        if match is None:
            raise ValueError(f"{path}: a recording is called DIGIT_SPEAKER_TAKE.wav")
        take, speaker = int(match[3]), match[2]
        split = "test" if take in FSDD_TEST else "valid" if take in FSDD_VALID else "train"
        if unheard and (split == "test" or speaker == unheard):
            if speaker != unheard:
                continue
            split = "test"
        found[split][speaker][int(match[1])].append(path)
    if not paths:
        raise FileNotFoundError(f"fsdd: no recordings/*.wav in {folder}: unpack its archive.")
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


def _joined(speakers: dict, unit: Unit, split: str, number: int) -> Utterance:
    random = np.random.default_rng([list(FSDD_STRINGS).index(split), number])
    speaker = sorted(speakers)[random.integers(len(speakers))]
    count = random.integers(FSDD_DIGITS[0], FSDD_DIGITS[1] + 1)
    pieces, begins, ends, words = [], [], [], []
    at = 0
    for digit in random.integers(0, 10, count):
        path = speakers[speaker][digit][random.integers(len(speakers[speaker][digit]))]
        quiet = np.zeros(int(random.uniform(*GAP) * FSDD_RATE), np.float32)
        sound = audio.read(path, FSDD_RATE)
        pieces += [quiet, sound]
        begins.append(at + len(quiet))
        at += len(quiet) + len(sound)
        ends.append(at)
        words.append(DIGITS[digit])
    sound = np.concatenate(pieces)
    known = unit == "words"  # within a digit nobody knows
    return Utterance(
        name=f"{split}-{number:04}",
        speaker=speaker,
        features=filterbank.features(sound, FSDD_RATE),
        units=_units(words, unit),
        begins=np.array(begins) / FSDD_RATE if known else None,
        ends=np.array(ends) / FSDD_RATE if known else None,
        sound=sound,
    )


def _units(words: list[str], unit: Unit) -> tuple[str, ...]:
    if unit == "words":
        return tuple(words)
    if unit == "phones":
        return tuple(phone for word in words for phone in WORDS[word])
    return tuple(" ".join(words).upper())


def an4(folder: Path, unit: Unit) -> tuple[int, Parts]:
    """Spelt names, addresses and dates: 948 utterances to train, of which every tenth
    speaker's validate, and 130 to test.

    Args:
        folder: with ``etc/an4_{train,test}.{fileids,transcription}`` and, under ``wav/``,
            recordings (.sph, .wav, .flac), or, under ``feat/``, mel cepstra (.mfc).
    """
    root = _below(folder, "etc/an4_train.fileids", "an4")
    parts = {split: list(_an4(root, split)) for split in ("train", "test")}
    speakers = sorted({u.speaker for u in parts["train"]})[::10]
    train = [u for u in parts["train"] if u.speaker not in speakers]
    valid = [u for u in parts["train"] if u.speaker in speakers]
    return RATE, {"train": train, "valid": valid, "test": parts["test"]}


def _an4(root: Path, split: str) -> Iterator[Utterance]:
    ids = _lines(root / "etc" / f"an4_{split}.fileids")
    said = _lines(root / "etc" / f"an4_{split}.transcription")
    if len(ids) != len(said):
        raise ValueError(
            f"{root}: {len(ids)} ids and {len(said)} transcripts to {split}, expected as many."
        )
    for place, (name, line) in enumerate(zip(ids, said, strict=True), start=1):
        match = re.fullmatch(r"(?:<s> )?(.*?)(?: </s>)? ?\((.*)\)", line)
        if match is None or match[2] != Path(name).name:
            raise ValueError(
                f"{root}/etc/an4_{split}.transcription, line {place}: {line!r} is not that of "
                f"{name}."
            )
        sound, found = _an4_sound(root, name)
        yield Utterance(
            name=match[2],
            speaker=Path(name).parent.name,
            features=found,
            units=_letters(match[1], f"{root}/etc/an4_{split}.transcription, line {place}"),
            sound=sound,
        )


def _an4_sound(root: Path, name: str):
    for suffix in (".sph", ".wav", ".flac"):
        path = root / "wav" / f"{name}{suffix}"
        if path.is_file():
            sound = audio.read(path, RATE)
            return sound, filterbank.features(sound, RATE)
    path = root / "feat" / f"{name}.mfc"
    if not path.is_file():
        raise FileNotFoundError(f"an4: neither wav/{name}.sph nor feat/{name}.mfc in {root}.")
    return None, cepstra(path)


def cepstra(path: Path):
    """The features (T, 39) in a Sphinx file of 13 mel cepstra a frame, with differences.

    Raises:
        ValueError: if the file holds another number of values than it says.
    """
    import torch

    raw = path.read_bytes()
    values = np.frombuffer(raw[4:], ">f4") if len(raw) >= 4 and len(raw) % 4 == 0 else []
    promised = int.from_bytes(raw[:4], "big")
    if (
        not promised
        or len(values) != promised
        or promised % 13
        or not np.isfinite(values).all()
    ):
        raise ValueError(
            f"{path} says {promised} values and holds {len(values)}: expected finite ones, 13 "
            "a frame."
        )
    frames = torch.from_numpy(np.array(values, np.float64).reshape(-1, 13))
    return filterbank.normalized(filterbank.with_differences(frames))


def timit(folder: Path, unit: Unit) -> tuple[int, Parts]:
    """TIMIT's 462 speakers to train, of whom every tenth validates, and its 24 core test ones.

    ``sa`` sentences, which all speakers say, are left out.

    Args:
        folder: with TRAIN/DR1/FCJF0/SX127.WAV and .PHN, in capitals or not.
    """
    parts: Parts = {"train": [], "valid": [], "test": []}
    found = {"train": set(), "test": set()}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() != ".phn" or path.stem.lower().startswith("sa"):
            continue
        split, speaker = path.parts[-4].lower(), path.parts[-2].lower()
        if split not in found:
            raise ValueError(f"{path}: expected TRAIN/DR1/SPEAKER/SENTENCE.PHN in {folder}.")
        if split == "test" and speaker not in CORE_TEST:
            continue
        found[split].add(speaker)
        if split == "train" and int.from_bytes(speaker.encode(), "big") % 10 == 0:
            split = "valid"
        parts[split].append(_timit(path, speaker))
    if not parts["train"]:
        raise FileNotFoundError(f"timit: no TRAIN/DR*/SPEAKER/*.PHN in {folder}.")
    return RATE, parts


_CORE = """
mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 mbpm0 mklt0 fnlp0 mcmj0
mjdh0 fmgd0 mgrt0 mnjm0 fdhc0 mjln0 mpam0 fmld0
"""
CORE_TEST = frozenset(_CORE.split())
"""The 24 speakers of the core test set, two men and a woman of each region."""


def _timit(path: Path, speaker: str) -> Utterance:
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
    sound = audio.read(next((s for s in sounds if s.is_file()), sounds[0]), RATE)
    return Utterance(
        name=f"{speaker}-{path.stem.lower()}",
        speaker=speaker,
        features=filterbank.features(sound, RATE),
        units=tuple(units),
        begins=np.array(begins) / RATE,
        ends=np.array(ends) / RATE,
        sound=sound,
    )


def librispeech(folder: Path, unit: Unit) -> tuple[int, Parts]:
    """Read English: all of train-*, dev-* to validate, test-* to test.

    Where there is only one of these folders (an excerpt), every other utterance of it is for
    training and the rest for the test.

    Args:
        folder: with ``train-clean-100/103/1240/103-1240.trans.txt`` and .flac, or with a
            folder LibriSpeech that has them.
    """
    parts: Parts = {"train": [], "valid": [], "test": []}
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
    return RATE, parts


def _librispeech(path: Path) -> Iterator[Utterance]:
    for place, line in enumerate(_lines(path), start=1):
        name, _, text = line.partition(" ")
        units = _letters(text, f"{path}, line {place}")
        sound = audio.read(path.parent / f"{name}.flac", RATE)
        yield Utterance(
            name=name,
            speaker=path.parts[-3],
            features=filterbank.features(sound, RATE),
            units=units,
            sound=sound,
        )


def _letters(text: str, where: str) -> tuple[str, ...]:
    if not LETTER.fullmatch(text):
        unknown = sorted(set(LETTER.sub("", text)))
        raise ValueError(f"{where}: {text!r} is empty or holds {unknown}: expected A to Z.")
    return tuple(text)


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


def _below(folder: Path, name: str, source: str) -> Path:
    """The folder at or below ``folder`` that holds the file ``name``."""
    for root in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
        if (root / name).is_file():
            return root
    raise FileNotFoundError(f"{source}: no {name} in {folder}: unpack its archive there.")


READERS: dict[str, Callable[..., tuple[int, Parts]]] = {
    "fsdd": fsdd,
    "an4": an4,
    "timit": timit,
    "librispeech": librispeech,
}
