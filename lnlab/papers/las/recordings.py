"""Sources of the sound of utterances: arrays, files, or several files joined.

The files of a corpus are looked at before one is used, all of them, once: how long they are,
what is in them, and what is wrong. That is kept (:mod:`lnlab.data.cache`) until one changes.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
from tqdm import tqdm

from lnlab.data.cache import Arrays, cache_arrays, file_stamp

if TYPE_CHECKING:
    from torch import Tensor

# Something that was said, ready for a recognizer, its sound read when it is asked for.


Unit = Literal["phones", "letters", "words"]

MOST = 2**29
"""Bytes of features of one corpus that stay in memory: about 3 hours of speech."""


class Heard(Protocol):
    """The sound of an utterance, of a kind that is in :mod:`lnlab.papers.las.recordings`."""

    @property
    def frames(self) -> int:
        """The number T of frames of its features, known without computing them."""
        ...

    @property
    def digest(self) -> bytes:
        """A hash of what is read or was synthesised."""
        ...

    def sound(self) -> np.ndarray:
        """The samples (N,)."""
        ...

    def features(self) -> "Tensor":
        """Its features (T, D), a frame every 10 ms."""
        ...


class Memory:
    """The features that were computed first, up to so many bytes; the rest are made each time.

    An epoch in any order finds the same part of its utterances here, whatever their number; of
    those used last an epoch longer than the memory would find none.
    """

    def __init__(self, most: int | None = None) -> None:
        self._left = MOST if most is None else most
        self._kept: dict[int, Tensor] = {}

    def features(self, utterance: "Utterance") -> "Tensor":
        """The features (T, D) of an utterance, which must live as long as this memory."""
        found = self._kept.get(id(utterance))
        if found is None:
            found = utterance.heard.features()
            if found.nbytes <= self._left:
                self._left -= found.nbytes
                self._kept[id(utterance)] = found
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Utterance:
    """Something that was said.

    Attributes:
        name: of the utterance.
        speaker: who said it.
        units: what was said; a text is a sequence of letters.
        heard: where its sound is.
        begins, ends: seconds at which each unit begins and ends (len(units),); None where
            nobody knows.
        memory: what keeps the features.
    """

    name: str
    speaker: str
    units: Sequence[str]
    heard: Heard = field(repr=False)
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None
    memory: Memory = field(default_factory=lambda: Memory(0), repr=False)

    @property
    def frames(self) -> int:
        """The length T of the features, known without computing them."""
        return self.heard.frames

    @property
    def features(self) -> "Tensor":
        """The features (T, D), a frame every 10 ms; computed when asked for."""
        return self.memory.features(self)

    @property
    def sound(self) -> np.ndarray:
        """The samples, to be listened to, read when asked for."""
        return self.heard.sound()


Said = TypeVar("Said")


def first(parts: Mapping[str, list[Said]], most: int | None) -> dict[str, list[Said]]:
    """The first utterances of each part, at most ``most`` to train on."""
    part = 1 if most is None else min(1, most / max(1, len(parts["train"])))
    return {split: said[: math.ceil(part * len(said))] for split, said in parts.items()}


# Speech from files, checked: WAV, FLAC and NIST SPHERE.


CLIPPED = 0.05
"""The part of all samples at full scale from which a recording is refused."""
LONGEST = 600
"""Seconds of a recording; a damaged head may promise years, for which memory would be taken."""
CHANNELS = 8
"""Channels of a recording at most, for the same reason."""


def mixed(path: Path, rate: int) -> tuple[np.ndarray, int]:
    """The mean of the channels of a recording, and how many there are.

    Returns:
        samples (N,) between -1 and 1, float32; those of a single channel as they are.

    Raises:
        FileNotFoundError: if it is not there.
        ValueError: if it is no audio, is cut off, has another rate, or is empty, shorter than
            a frame, silent or clipped; names the file.
    """
    import soundfile

    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there.")
    if _cut_off(path):
        raise ValueError(
            f"{path} is cut off: it holds less than its head says. Copy or download it again; "
            "if it is all that was recorded, write it anew."
        )
    try:
        with soundfile.SoundFile(path) as file:
            _check_head(path, file, rate)
            channels = file.read(dtype="float32", always_2d=True)  # (N, channels)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be read as WAV, FLAC or SPHERE: {error}") from error
    if not len(channels) or not np.isfinite(channels).all():
        raise ValueError(f"{path} is empty or holds what is no number.")
    from lnlab.papers.las.filterbank import WINDOW  # it needs torch

    if len(channels) < WINDOW * rate:
        raise ValueError(
            f"{path} lasts {len(channels) / rate:.3f} s, less than a frame: drop it."
        )
    sound = channels.mean(1, dtype=np.float32)
    if not sound.any():
        raise ValueError(f"{path} is silent.")
    if np.mean(np.abs(channels) >= 0.9999) > CLIPPED:
        raise ValueError(f"{path} is clipped: record it more quietly.")
    return sound, channels.shape[1]


def _check_head(path: Path, file: Any, rate: int) -> None:
    """Raise ValueError unless the head promises what is expected, before memory is taken."""
    if file.samplerate != rate:
        raise ValueError(
            f"{path} has {file.samplerate} samples a second, expected {rate}: convert it."
        )
    if file.channels > CHANNELS:
        raise ValueError(f"{path} says that it has {file.channels} channels: mix them to one.")
    if file.frames > LONGEST * rate:
        raise ValueError(f"{path} says that it lasts longer than {LONGEST} s: cut it.")


def _cut_off(path: Path) -> bool:
    """True of a WAV or SPHERE file shorter than it says; libsndfile takes what there is."""
    with path.open("rb") as file:
        head = file.read(1024)
    size = path.stat().st_size
    if head.startswith(b"NIST_1A"):
        count, width = (
            re.search(rb"\n%s -i (\d{1,12})\n" % name, head)
            for name in (b"sample_count", b"sample_n_bytes")
        )
        return not count or not width or 1024 + int(count[1]) * int(width[1]) > size
    if head[:4] != b"RIFF":
        return False
    whole = int.from_bytes(head[4:8], "little") + 8 <= size
    return not whole or _end_of_samples(path) > size


def _end_of_samples(path: Path) -> int:
    """The byte behind the samples of a WAV file, by what the heads of its chunks say."""
    start = 12  # behind "RIFF", the length of all and "WAVE"
    with path.open("rb") as file:
        while file.seek(start) and len(head := file.read(8)) == 8:
            length = int.from_bytes(head[4:], "little")
            if head[:4] == b"data":
                return start + 8 + length
            start += 8 + length + length % 2
    return start


NAMED = 100
"""Faulty files that an error names; of more it gives the number."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Speech that is in memory: samples (N,) at so many a second."""

    samples: np.ndarray
    rate: int

    @property
    def frames(self) -> int:
        """The number T of frames of its features."""
        from lnlab.papers.las.filterbank import frames

        return frames(len(self.samples), self.rate)

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its samples."""
        return hashlib.sha256(self.samples.tobytes()).digest()

    def sound(self) -> np.ndarray:
        return self.samples

    def features(self) -> "Tensor":
        from lnlab.papers.las.filterbank import features

        return features(self.samples, self.rate)


@dataclass(frozen=True, slots=True)
class Recording:
    """A file that was looked at.

    Attributes:
        length: the number of its samples.
        digest: SHA-256 of its samples as :func:`lnlab.papers.las.recordings.mixed` gives them.
    """

    path: Path
    rate: int
    length: int
    digest: bytes

    @property
    def frames(self) -> int:
        """The number T of frames of its features."""
        from lnlab.papers.las.filterbank import frames

        return frames(self.length, self.rate)

    def sound(self) -> np.ndarray:
        return mixed(self.path, self.rate)[0]

    def features(self) -> "Tensor":
        from lnlab.papers.las.filterbank import features

        return features(self.sound(), self.rate)


@dataclass(frozen=True, slots=True)
class Joined:
    """Recordings one after the other, each behind so many samples of silence."""

    quiet: tuple[int, ...]
    parts: tuple[Recording, ...]

    @property
    def frames(self) -> int:
        """The number T of frames of its features."""
        length = sum(self.quiet) + sum(part.length for part in self.parts)
        from lnlab.papers.las.filterbank import frames

        return frames(length, self.parts[0].rate)

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its parts and of the silence before each."""
        total = hashlib.sha256()
        for quiet, part in zip(self.quiet, self.parts, strict=True):
            total.update(f"{quiet} ".encode() + part.digest)
        return total.digest()

    def sound(self) -> np.ndarray:
        pieces = []
        for quiet, part in zip(self.quiet, self.parts, strict=True):
            pieces += [np.zeros(quiet, np.float32), part.sound()]
        return np.concatenate(pieces)

    def features(self) -> "Tensor":
        from lnlab.papers.las.filterbank import features

        return features(self.sound(), self.parts[0].rate)


def looked_at(
    paths: Iterable[Path], rate: int, *, mix: bool = False, leave_out: bool = False
) -> tuple[dict[Path, Recording], str]:
    """The recordings in files that can be used, and a note of what was done to others.

    Args:
        rate: samples a second that they must have.
        mix: whether several channels are mixed to one, their mean.
        leave_out: whether to do without those that are faulty.

    Returns:
        by path; and a text such as "1 of 3000 recordings mixed to one channel", empty where
        nothing was done.

    Raises:
        ValueError: where there are faulty files and they are not left out; names them all.
    """
    paths = list(paths)
    looks = cache_arrays(
        "recordings", f"{rate} {file_stamp(paths)}", lambda: _looks(paths, rate)
    )
    faults = looks["faults"].tobytes().decode().split("\n")
    found: dict[Path, Recording] = {}
    several, faulty = [], {}
    for path, length, channels, digest, fault in zip(
        paths, looks["lengths"], looks["channels"], looks["digests"], faults, strict=True
    ):
        if channels > 1:
            several.append(path)
        if channels > 1 and not mix:
            fault = fault or f"{path} has {channels} channels: mix them to one."
        if fault:
            faulty[path] = fault
        else:
            found[path] = Recording(path, rate, int(length), digest.tobytes())
    if faulty and not leave_out:
        raise ValueError(_complaint(faulty, len(paths), any(p in faulty for p in several)))
    mixed = sum(path in found for path in several)
    notes = [(mixed, "mixed to one channel"), (len(faulty), "left out")]
    return found, ", ".join(
        f"{count} of {len(paths)} recordings {done}" for count, done in notes if count
    )


def _looks(paths: Sequence[Path], rate: int) -> Arrays:
    """The length of each file, its channels, the hash of what is in it, and what is wrong."""
    lengths, channels = np.zeros(len(paths), np.int64), np.zeros(len(paths), np.int64)
    digests, faults = np.zeros((len(paths), 32), np.uint8), []
    for place, path in enumerate(tqdm(paths, "recordings", disable=None, delay=2)):
        try:
            content, channels[place] = mixed(path, rate)
        except (ValueError, FileNotFoundError) as error:
            faults.append(" ".join(str(error).split()))
            continue
        faults.append("")
        lengths[place] = len(content)
        digests[place] = np.frombuffer(hashlib.sha256(content.tobytes()).digest(), np.uint8)
    return {
        "lengths": lengths,
        "channels": channels,
        "digests": digests,
        "faults": np.frombuffer("\n".join(faults).encode("utf-8", "replace"), np.uint8),
    }


def _complaint(faulty: Mapping[Path, str], count: int, several: bool) -> str:
    named = list(faulty.values())[:NAMED]
    if len(faulty) > NAMED:
        named.append(f"and {len(faulty) - NAMED} more.")
    mended = "mix=True mixes channels to one, " if several else ""
    return (
        f"{len(faulty)} of {count} recordings cannot be used ({mended}leave_out=True does "
        "without them, and the name of the data says so):\n" + "\n".join(named)
    )
