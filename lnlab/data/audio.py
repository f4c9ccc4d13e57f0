"""Speech from files, checked: WAV, FLAC and NIST SPHERE."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from lnlab.data.filterbank import WINDOW

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
