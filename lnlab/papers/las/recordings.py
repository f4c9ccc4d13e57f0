"""Utterances, their sound and its features; sound files: WAV, FLAC and NIST SPHERE.

All files of a corpus are inspected before one is used, once until a file changes.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from lnlab.data.cache import Arrays, cache_arrays, hash_file_stats
from lnlab.extras import explain_missing_extra

MAX_CACHED = 2**29
"""Bytes of features of one corpus that stay in memory: about 3 hours of speech."""


@dataclass(frozen=True, eq=False, slots=True)
class Recording:
    """The sound of an utterance, in memory or in files."""

    sample_rate: int  # samples a second
    num_samples: int  # the number N of samples
    digest: bytes  # the SHA-256 of what is read
    read_samples: Callable[[], np.ndarray] = field(
        repr=False
    )  # returns the samples (N,), float32

    @property
    def num_frames(self) -> int:
        """The number T of frames of the features, known without computing them."""
        return count_frames(self.num_samples, self.sample_rate)

    def compute_features(self) -> Tensor:
        """Compute the features (T, D), a frame every 10 ms."""
        return compute_features(self.read_samples(), self.sample_rate)


def wrap_samples_as_recording(samples: np.ndarray, sample_rate: int) -> Recording:
    """Return samples (N,) in memory as a recording."""
    digest = hashlib.sha256(samples.tobytes()).digest()
    return Recording(sample_rate, len(samples), digest, lambda: samples)


def join_recordings_after_pauses(
    pauses_in_samples: Sequence[int], recordings: Sequence[Recording]
) -> Recording:
    """Join recordings to one, each after a pause, in samples."""
    total = hashlib.sha256()
    for pause, recording in zip(pauses_in_samples, recordings, strict=True):
        total.update(f"{pause} ".encode() + recording.digest)

    def read_joined_samples() -> np.ndarray:
        pieces = []
        for pause, recording in zip(pauses_in_samples, recordings, strict=True):
            pieces += [np.zeros(pause, np.float32), recording.read_samples()]
        return np.concatenate(pieces)

    length = sum(pauses_in_samples) + sum(recording.num_samples for recording in recordings)
    return Recording(recordings[0].sample_rate, length, total.digest(), read_joined_samples)


class InMemoryFeatureCache:
    """A cache of the features that are computed first, up to a number of bytes.

    Nothing is replaced. A cache of the last used features would be useless for an epoch that is
    longer than the cache: each would be replaced before it is used again.
    """

    def __init__(self, size: int = MAX_CACHED) -> None:
        self._free = size
        self._features: dict[int, Tensor] = {}

    def features_of(self, utterance: "Utterance") -> Tensor:
        """Return the features (T, D) of an utterance, which must live as long as the cache."""
        features = self._features.get(id(utterance))
        if features is None:
            features = utterance.recording.compute_features()
            if features.nbytes <= self._free:
                self._free -= features.nbytes
                self._features[id(utterance)] = features
        return features


SecondsPerUnit = np.ndarray  # a time in seconds for each unit of a transcript (U,)


@dataclass(frozen=True, eq=False, slots=True)
class Utterance:
    """An utterance with its transcript; its sound is read when it is used."""

    name: str
    speaker: str
    units: Sequence[str]  # the transcript; a text is a sequence of letters
    recording: Recording = field(repr=False)
    begins: SecondsPerUnit | None = None  # seconds at which each unit begins; None if unknown
    ends: SecondsPerUnit | None = None
    cache: InMemoryFeatureCache = field(
        default_factory=lambda: InMemoryFeatureCache(0), repr=False
    )

    @property
    def num_frames(self) -> int:
        """The length T of the features, known without computing them."""
        return self.recording.num_frames

    @property
    def features(self) -> Tensor:
        """The features (T, D), a frame every 10 ms."""
        return self.cache.features_of(self)

    @property
    def samples(self) -> np.ndarray:
        """The samples (N,)."""
        return self.recording.read_samples()


Example = TypeVar("Example")


def shrink_splits_in_proportion(
    splits: Mapping[str, list[Example]], max_train: int | None
) -> dict[str, list[Example]]:
    """Return the first ``max_train`` training examples, and that share of the other splits."""
    share = 1 if max_train is None else min(1, max_train / max(1, len(splits["train"])))
    return {name: split[: math.ceil(share * len(split))] for name, split in splits.items()}


# Features of sound: log-mel energies and how they change.
#
# The settings are those of the published code of Ben Othman (2018): 40 filters and the energy,
# with first and second differences, 123 numbers for every 10 ms.

WINDOW, HOP = 0.025, 0.010  # seconds that a frame covers, and from one frame to the next
FILTERS = 40
EMPHASIS = 0.97
LOWEST = 20.0  # Hz, where the first filter begins; the last ends at half the rate
MIN_ENERGY = 1e-10
SPAN = 2  # frames on each side from which a difference is taken


def compute_features(samples: np.ndarray, sample_rate: int) -> Tensor:
    """Return log-mel energies, the log energy, and their differences (T, 123), normalized.

    T is :func:`count_frames` of the samples (N,). Each column has mean 0 and variance 1 over
    the utterance, or is 0 if it never changes.
    """
    return normalize_columns(
        append_time_differences(log_mel_and_log_energy(samples, sample_rate))
    )


def count_frames(num_samples: int, sample_rate: int) -> int:
    """Return the number T of frames of so many samples; below 1 for too few."""
    return 1 + (num_samples - round(WINDOW * sample_rate)) // round(HOP * sample_rate)


def append_time_differences(frames: Tensor) -> Tensor:
    """Return (T, D) with first and second differences: (T, 3 D)."""
    first = slopes_over_time(frames)
    return torch.cat([frames, first, slopes_over_time(first)], dim=1)


def normalize_columns(frames: Tensor) -> Tensor:
    """Return (T, D) with mean 0 and variance 1 in each column, in float32."""
    spread, mean = torch.std_mean(frames, dim=0, correction=0)
    return ((frames - mean) / spread.clamp(min=1e-5)).float()


def log_mel_and_log_energy(samples: np.ndarray, sample_rate: int) -> Tensor:
    """Return (T, 41): the log of the energy in each mel filter, and of all, in nats."""
    window, hop = round(WINDOW * sample_rate), round(HOP * sample_rate)
    x = torch.from_numpy(np.ascontiguousarray(samples, np.float64))
    x = torch.cat([x[:1], x[1:] - EMPHASIS * x[:-1]])
    frames = x.unfold(0, window, hop)  # (T, window)
    size = 1 << (window - 1).bit_length()
    taper = torch.hamming_window(window, periodic=False, dtype=x.dtype)
    power = torch.fft.rfft(frames * taper, size).abs().square()
    energies = power @ mel_filters(sample_rate, size).T, frames.square().sum(1, keepdim=True)
    return torch.cat(energies, dim=1).clamp(min=MIN_ENERGY).log()


def mel_filters(sample_rate: int, fft_size: int) -> Tensor:
    """Return triangles in mel, m = 1127 ln(1 + f/700), over the bins of a spectrum.

    (40, size // 2 + 1); each reaches from the centre of the one before to that of the next.
    """

    def hertz_to_mel(f: Tensor) -> Tensor:
        return 1127 * torch.log1p(f / 700)

    ends = hertz_to_mel(torch.tensor([LOWEST, sample_rate / 2], dtype=torch.float64))
    edges = torch.linspace(float(ends[0]), float(ends[1]), FILTERS + 2, dtype=torch.float64)
    bins = hertz_to_mel(
        torch.arange(fft_size // 2 + 1, dtype=torch.float64) * sample_rate / fft_size
    )
    low, centre, high = (edges[k : k + FILTERS, None] for k in range(3))
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    return torch.minimum(rising, falling).clamp(min=0)


def slopes_over_time(frames: Tensor) -> Tensor:
    """Return the slope of each column (T, D) through :data:`SPAN` frames on both sides."""
    T = len(frames)
    padded = F.pad(frames.T[None], (SPAN, SPAN), mode="replicate")[0].T
    slope = torch.zeros_like(frames)
    for k in range(1, SPAN + 1):
        slope += k * (padded[SPAN + k : SPAN + k + T] - padded[SPAN - k : SPAN - k + T])
    return slope / (2 * sum(k * k for k in range(1, SPAN + 1)))


# Sound files.

MAX_NAMED = 100  # the most faulty files that an error names


def read_audio(path: Path, expected_rate: int) -> np.ndarray:
    """Return the samples (N,) of a recording of one channel, from -1 to 1.

    Raises:
        FileNotFoundError: if it is missing.
        ValueError: if it is no audio, is cut off, has another rate or several channels, or is
            empty, shorter than a frame or silent; names the file.
    """
    with explain_missing_extra():
        import soundfile

    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there.")
    if _is_cut_off(path):
        raise ValueError(f"{path} is cut off: copy or download it again.")
    try:
        sound, its_rate = soundfile.read(path, dtype="float32")
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be read as WAV, FLAC or SPHERE: {error}") from error
    if its_rate != expected_rate:
        problem = f"has {its_rate} samples a second, expected {expected_rate}: convert it"
    elif sound.ndim > 1:
        problem = f"has {sound.shape[1]} channels: mix them to one"
    elif len(sound) < WINDOW * expected_rate:
        problem = f"lasts {len(sound) / expected_rate:.3f} s, less than a frame: take it out"
    elif not np.isfinite(sound).all() or not sound.any():
        problem = "is silent, or has samples that are not finite"
    else:
        return sound
    raise ValueError(f"{path} {problem}.")


def _is_cut_off(path: Path) -> bool:
    """Return True for a file shorter than its header says: libsndfile reads what there is."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(1024)
    if head.startswith(b"RIFF"):
        return int.from_bytes(head[4:8], "little") + 8 > size
    if not head.startswith(b"NIST_1A"):
        return False
    count, width = (
        re.search(rb"\n%s -i (\d{1,12})\n" % name, head)
        for name in (b"sample_count", b"sample_n_bytes")
    )
    return not count or not width or 1024 + int(count[1]) * int(width[1]) > size


def inspect_recordings(paths: Iterable[Path], expected_rate: int) -> dict[Path, Recording]:
    """Return the recordings in files, each of which is read once on this machine.

    Raises:
        ValueError: if some cannot be used; names them.
    """
    paths = list(paths)
    key = f"{expected_rate} {hash_file_stats(paths)}"
    facts = cache_arrays(
        "recordings", key, lambda: _sample_counts_and_digests(paths, expected_rate)
    )
    return {
        path: Recording(
            expected_rate,
            int(length),
            digest.tobytes(),
            partial(read_audio, path, expected_rate),
        )
        for path, length, digest in zip(paths, facts["lengths"], facts["digests"], strict=True)
    }


def _sample_counts_and_digests(paths: Sequence[Path], expected_rate: int) -> Arrays:
    """Return the length of each recording, and the hash of its samples."""
    lengths, digests, problems = [], [], []
    for path in tqdm(paths, "recordings", disable=None, delay=2):
        try:
            sound = read_audio(path, expected_rate)
        except (ValueError, FileNotFoundError) as error:
            problems.append(str(error))
            continue
        lengths.append(len(sound))
        digests.append(np.frombuffer(hashlib.sha256(sound.tobytes()).digest(), np.uint8))
    if problems:
        raise ValueError(
            f"{len(problems)} of {len(paths)} recordings cannot be used:\n"
            + "\n".join(problems[:MAX_NAMED])
        )
    return {"lengths": np.array(lengths), "digests": np.array(digests)}
