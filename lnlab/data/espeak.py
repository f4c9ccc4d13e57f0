"""Words spoken by eSpeak NG, where it is installed, and when it speaks each of their phones.

What the library says depends on all that it has said before. So the whole corpus is spoken in
one go, always in the same order, by a process of its own: :mod:`lnlab.data.speaker`.
"""

import ctypes
import ctypes.util
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from math import gcd
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lnlab.data import formant, phones, speaker, spoken
from lnlab.data.formant import RATE
from lnlab.data.kept import code
from lnlab.data.phones import SILENCE
from lnlab.data.utterance import first

GET = "apt install espeak-ng, brew install espeak-ng, or pip install 'lnlab[espeak]'"
SYSTEM = "libespeak-ng.so.1", "libespeak-ng.dylib", "libespeak-ng.dll"
ACCENTS = "en-us", "en", "en-gb-scotland", "en-029"
VARIANTS = (*(f"m{k}" for k in range(1, 9)), *(f"f{k}" for k in range(1, 6)), "croak")
"""Fourteen voices, which with four accents are the 56 speakers."""
PATIENCE = 600
"""Seconds for the whole corpus, which takes about ten."""

FOLDED = {
    **{
        p: p
        for p in ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z")
    },
    **{"D": "dh", "N": "ng", "S": "sh", "T": "th", "Z": "sh", "h": "hh", "j": "y"},
    **{"tS": "ch", "dZ": "jh", "t#": "dx", "t[": "t", "@L": "l", "r-": "r"},
    **{"0": "aa", "A:": "aa", "A@": "aa", "O:": "aa", "O2": "aa", "o@": "aa", "O@": "aa"},
    **{"a": "ae", "aa": "ae", "E": "eh", "e@": "eh", "3": "er", "3:": "er", "IR": "er"},
    **{"@": "ah", "V": "ah", "a#": "ah", "U": "uh", "U@": "uh", "u:": "uw", "u": "uw"},
    **{"I": "ih", "I2": "ih", "I#": "ih", "i@": "ih", "i@3": "ih", "i": "iy", "i:": "iy"},
    **{"aI": "ay", "aI2": "ay", "aI3": "ay", "aI@": "ay", "aU": "aw", "OI": "oy"},
    **{"eI": "ey", "oU": "ow", "_": SILENCE, "_:": SILENCE},
}
"""The one of the 39 phones, or silence, for each of eSpeak's names."""
COLOURED = (";",)
"""Names that eSpeak counts as phones, but that only soften the one before."""


class Manner(NamedTuple):
    """A manner of speaking: a voice of eSpeak, words a minute, and pitch from 0 to 99."""

    name: str
    rate: int
    pitch: int

    @classmethod
    def of(cls, speaker: int) -> "Manner":
        """The same voice for the same number, from 0 to 55."""
        random = np.random.default_rng([2, speaker])
        name = f"{ACCENTS[speaker % len(ACCENTS)]}+{VARIANTS[speaker // len(ACCENTS)]}"
        return cls(name, int(random.integers(130, 210)), int(random.integers(25, 75)))


def corpus(most: int | None = None) -> spoken.Parts:
    """The words of :func:`lnlab.data.spoken.corpus`, spoken by eSpeak.

    Raises:
        FileNotFoundError: where there is no eSpeak NG; says how to get it.
        RuntimeError: where it failed, with what it said.
    """
    return first(spoken.synthesised("espeak", made_of(), _spoken), most)


def made_of() -> str:
    """A text that changes when the words would sound otherwise: the library, and our code."""
    name, data = library()
    lib = ctypes.CDLL(name)
    lib.espeak_Info.restype = ctypes.c_char_p
    ours = (__file__, speaker.__file__, formant.__file__, phones.__file__, spoken.__file__)
    version = f"{name} {data} {lib.espeak_Info(None)}"
    return f"{spoken.SIZES} {version} numpy {np.__version__} {code(*ours)}"


def _spoken() -> spoken.Parts:
    parts: spoken.Parts = {split: [] for split in spoken.SIZES}
    for (split, number), said in zip(numbers(), spoken_by_espeak(), strict=True):
        random = np.random.default_rng([1, list(spoken.SIZES).index(split), number])
        who, _ = words(split, number)
        parts[split].append(spoken.placed(f"{split}-{number:04}", who, *said, random))
    return parts


def spoken_by_espeak() -> Iterator[tuple[np.ndarray, list[str], np.ndarray]]:
    """Samples (N,) at 16 kHz of each utterance, its phones, and the samples where they end.

    Raises:
        RuntimeError: if eSpeak NG fails; has the end of what it said.
        FileNotFoundError: if it is not there.
    """
    name, data = library()
    orders = [[text, *Manner.of(who)] for who, text in (words(*each) for each in numbers())]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sound"
        done = subprocess.run(
            [sys.executable, "-I", speaker.__file__, name, data or "", str(file)],
            input="\n".join(map(json.dumps, orders)),
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"eSpeak NG failed: {done.stderr.strip()[-500:]}")
        rate, *heard = map(json.loads, done.stdout.splitlines())
        whole = np.fromfile(file, np.int16)
    place = 0
    for samples, events in heard:
        yield cut(whole[place : place + samples], events, rate)
        place += samples


def cut(
    sound: np.ndarray, events: list[tuple[int, str]], rate: int
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Speech at 16 kHz (N,) between -1 and 1, its phones, and where each ends, in samples.

    Silence is joined to one, and left out at both ends; so are phones that take no time.

    Args:
        sound: what eSpeak said (N',), int16, at ``rate`` samples a second.
        events: the samples at which phones begin, and eSpeak's names of them.

    Raises:
        ValueError: for a phone that has no place among the 39; names it.
    """
    from scipy.signal import resample_poly

    phones, begins = folded(events)
    if phones[-1] == SILENCE:
        end = begins.pop()
        phones.pop()
    else:
        end = len(sound)
    ends = np.array([*begins[1:], end])
    lasts = np.diff(ends, prepend=0) > 0  # an r after "or" takes no time
    phones, ends = [p for p, kept in zip(phones, lasts, strict=True) if kept], ends[lasts]
    common = gcd(RATE, rate)
    speech = resample_poly(
        sound[:end].astype(np.float32) / 2**15, RATE // common, rate // common
    )
    return speech.astype(np.float32), phones, ends * RATE / rate


def numbers() -> Iterator[tuple[str, int]]:
    """Every utterance of every part, in the order in which they are spoken."""
    return ((split, number) for split, count in spoken.SIZES.items() for number in range(count))


def words(split: str, number: int) -> tuple[int, str]:
    """Who speaks an utterance, and its text; a comma is a pause."""
    random = np.random.default_rng([0, list(spoken.SIZES).index(split), number])
    speaker, chosen, paused = spoken.chosen(random, split)
    pairs = zip(chosen, [*paused, False], strict=True)
    return speaker, " ".join(word + "," * pause for word, pause in pairs)


def library() -> tuple[str, str | None]:
    """The path of eSpeak NG, and of its data if they lie elsewhere than it expects.

    ``LNLAB_ESPEAK`` may name the library; then the system's; then the package
    ``espeakng-loader``.

    Raises:
        FileNotFoundError: where there is none; says how to get it.
    """
    named = os.environ.get("LNLAB_ESPEAK")
    for name in [named] if named else [ctypes.util.find_library("espeak-ng"), *SYSTEM]:
        try:
            ctypes.CDLL(name or "")
        except OSError:
            continue
        if name:
            return name, None
    if named:
        raise FileNotFoundError(f"LNLAB_ESPEAK is {named}, which is no library of eSpeak NG.")
    if importlib.util.find_spec("espeakng_loader") is None:
        raise FileNotFoundError(f"eSpeak NG is not here: {GET}.")
    import espeakng_loader  # pyright: ignore[reportMissingImports]

    return espeakng_loader.get_library_path(), espeakng_loader.get_data_path()


def folded(events: list[tuple[int, str]]) -> tuple[list[str], list[int]]:
    """Phones among the 39, and the samples at which they begin, the first at 0.

    Raises:
        ValueError: for a phone of eSpeak that is none of them.
    """
    phones: list[str] = []
    begins: list[int] = []
    for sample, name in events:
        if name in COLOURED:
            continue
        if name not in FOLDED:
            raise ValueError(f"eSpeak says {name!r}, which is none of the 39 phones.")
        phone = FOLDED[name]
        if phone == SILENCE and (not phones or phones[-1] == SILENCE):
            continue
        phones.append(phone)
        begins.append(sample if begins else 0)
    return phones, begins
