"""Sources of the sound of utterances: arrays, files, or several files joined.

The files of a corpus are looked at before one is used, all of them, once: how long they are,
what is in them, and what is wrong. That is kept (:mod:`lnlab.data.cache`) until one changes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from lnlab.data import audio, filterbank
from lnlab.data.cache import Arrays, code, kept, stamp

if TYPE_CHECKING:
    from torch import Tensor

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
        return filterbank.frames(len(self.samples), self.rate)

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its samples."""
        return hashlib.sha256(self.samples.tobytes()).digest()

    def sound(self) -> np.ndarray:
        return self.samples

    def features(self) -> "Tensor":
        return filterbank.features(self.samples, self.rate)


@dataclass(frozen=True, slots=True)
class Recording:
    """A file that was looked at.

    Attributes:
        length: the number of its samples.
        digest: SHA-256 of its samples as :func:`lnlab.data.audio.mixed` gives them.
    """

    path: Path
    rate: int
    length: int
    digest: bytes

    @property
    def frames(self) -> int:
        """The number T of frames of its features."""
        return filterbank.frames(self.length, self.rate)

    def sound(self) -> np.ndarray:
        return audio.mixed(self.path, self.rate)[0]

    def features(self) -> "Tensor":
        return filterbank.features(self.sound(), self.rate)


@dataclass(frozen=True, slots=True)
class Joined:
    """Recordings one after the other, each behind so many samples of silence."""

    quiet: tuple[int, ...]
    parts: tuple[Recording, ...]

    @property
    def frames(self) -> int:
        """The number T of frames of its features."""
        length = sum(self.quiet) + sum(part.length for part in self.parts)
        return filterbank.frames(length, self.parts[0].rate)

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
        return filterbank.features(self.sound(), self.parts[0].rate)


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
    of = f"{rate} {stamp(paths)} {code(audio.__file__, __file__)}"
    looks = kept("recordings", of, lambda: _looks(paths, rate))
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
            content, channels[place] = audio.mixed(path, rate)
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
