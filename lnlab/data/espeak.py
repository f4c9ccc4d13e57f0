"""Words spoken by eSpeak NG, where it is installed, and when it speaks each of their phones.

The library keeps its state and its random numbers to itself: the same text twice is not the
same sound. So the whole corpus is spoken in one go by a process of its own, which also keeps
this library, under the GPL-3.0, apart from the rest; nothing of it is in lnlab.
"""

import ctypes
import ctypes.util
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lnlab.data import spoken
from lnlab.data.formant import RATE
from lnlab.data.phones import SILENCE
from lnlab.data.utterance import Utterance

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
"""From eSpeak's names of phones to the 39 and silence."""
COLOURED = (";",)
"""What eSpeak counts as a phone and is the colour of the one before: soft."""


class Voice(NamedTuple):
    """How somebody speaks: a voice of eSpeak, words a minute, and pitch from 0 to 99."""

    name: str
    rate: int
    pitch: int

    @classmethod
    def of(cls, speaker: int) -> "Voice":
        """The same voice for the same number, from 0 to 55."""
        random = np.random.default_rng([2, speaker])
        name = f"{ACCENTS[speaker % len(ACCENTS)]}+{VARIANTS[speaker // len(ACCENTS)]}"
        return cls(name, int(random.integers(130, 210)), int(random.integers(25, 75)))


@cache
def corpus() -> dict[str, list[Utterance]]:
    """As :func:`lnlab.data.spoken.corpus`, the same words, spoken by eSpeak.

    Raises:
        FileNotFoundError: where there is no eSpeak NG; says how to get it.
        RuntimeError: where it failed, with what it said.
    """
    library()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spoken.npz"
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(file)],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        if done.returncode or not file.is_file():
            raise RuntimeError(f"eSpeak NG failed: {done.stderr.strip()[-500:]}")
        with np.load(file) as kept:
            whole = {name: kept[name] for name in kept.files}
    counts = {name: whole[f"{name}_counts"].tolist() for name in ("sound", "phones")}
    cut = {
        "sound": np.split(whole["sound"], np.cumsum(counts["sound"])[:-1]),
        "phones": np.split(whole["phones"], np.cumsum(counts["phones"])[:-1]),
        "ends": np.split(whole["ends"], np.cumsum(counts["phones"])[:-1]),
    }
    parts: dict[str, list[Utterance]] = {split: [] for split in spoken.SIZES}
    for (split, number), *said in zip(numbers(), *cut.values(), strict=True):
        speech, phones, ends = said
        random = np.random.default_rng([1, list(spoken.SIZES).index(split), number])
        speaker, _ = words(split, number)
        parts[split].append(
            spoken.placed(
                f"{split}-{number:04}", speaker, speech, phones.tolist(), ends, random
            )
        )
    return parts


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
    """Where eSpeak NG is, and its data if they lie elsewhere than it expects.

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


class _Id(ctypes.Union):
    _fields_ = [
        ("number", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("string", ctypes.c_char * 8),
    ]


class _Event(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in ("type", "unique", "text_position", "length")),
        *((name, ctypes.c_int) for name in ("audio_position", "sample")),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    ]


_HEARD = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)
SYNCHRONOUS, PHONES, STAY = 2, 1, 0x8000  # of espeak_Initialize
RATE_OF_WORDS, PITCH = 1, 3  # of espeak_SetParameter
LAST, PHONE = 0, 7  # types of events
UTF8 = 1


class Speaker:
    """The library, in a process where nobody else uses it."""

    def __init__(self) -> None:
        name, data = library()
        self._lib: Any = ctypes.CDLL(name)
        folder = data.encode() if data else None
        self.rate = self._lib.espeak_Initialize(SYNCHRONOUS, 0, folder, PHONES | STAY)
        if self.rate <= 0:
            raise RuntimeError(f"{name} does not start; its data: {data}, in a shorter path?")
        self._sound: list[np.ndarray] = []
        self._phones: list[tuple[int, str]] = []
        self._heard = _HEARD(self._hear)  # kept, or it would be freed
        self._lib.espeak_SetSynthCallback(self._heard)

    def _hear(self, wave: Any, count: int, events: Any) -> int:
        if wave and count:
            self._sound.append(np.ctypeslib.as_array(wave, (count,)).copy())
        place = 0
        while events[place].type != LAST:
            if events[place].type == PHONE:
                name = events[place].id.string.decode().lstrip("',")  # stress
                self._phones.append((events[place].sample, name))
            place += 1
        return 0

    def say(self, text: str, voice: Voice) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Speech at 16 kHz (N,), its phones, and where each ends, in samples.

        Silence is joined to one, and left out at both ends; so are phones that take no time.

        Raises:
            ValueError: for a phone that has no place among the 39; names it.
        """
        from scipy.signal import resample_poly

        self._sound, self._phones = [], []
        if self._lib.espeak_SetVoiceByName(voice.name.encode()):
            raise RuntimeError(f"eSpeak NG has no voice {voice.name}.")
        self._lib.espeak_SetParameter(RATE_OF_WORDS, voice.rate, 0)
        self._lib.espeak_SetParameter(PITCH, voice.pitch, 0)
        raw = text.encode()
        self._lib.espeak_Synth(raw, len(raw) + 1, 0, 1, 0, UTF8, None, None)
        self._lib.espeak_Synchronize()
        sound = np.concatenate(self._sound).astype(np.float32) / 2**15
        phones, begins = folded(self._phones)
        if phones[-1] == SILENCE:
            end = begins.pop()
            phones.pop()
        else:
            end = len(sound)
        ends = np.array([*begins[1:], end])
        lasts = np.diff(ends, prepend=0) > 0  # an r after "or" takes no time
        phones, ends = [p for p, kept in zip(phones, lasts, strict=True) if kept], ends[lasts]
        sound = sound[:end]
        common = gcd(RATE, self.rate)
        speech = resample_poly(sound, RATE // common, self.rate // common)
        return speech.astype(np.float32), phones, ends * RATE / self.rate


def folded(events: list[tuple[int, str]]) -> tuple[list[str], list[int]]:
    """Phones among the 39, and the samples at which they begin, the first at 0."""
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


def main(file: str) -> None:
    """Speak the whole corpus, and keep it."""
    speaker = Speaker()
    said = [
        speaker.say(text, Voice.of(who)) for who, text in (words(*each) for each in numbers())
    ]
    sounds, phones, ends = zip(*said, strict=True)
    np.savez(
        file,
        sound=np.concatenate(sounds),
        phones=np.concatenate(phones),
        ends=np.concatenate(ends),
        sound_counts=[len(sound) for sound in sounds],
        phones_counts=[len(each) for each in phones],
    )


if __name__ == "__main__":
    main(sys.argv[1])
