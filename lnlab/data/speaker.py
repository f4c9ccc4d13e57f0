"""eSpeak NG in a process of its own, into which nothing but the standard library is loaded.

The noise of a voice's breath is drawn from the C library's ``rand()``, one generator for the
whole process: wherever another library in it draws too, every later utterance of a breathy
voice is another sound. So this script imports neither lnlab nor numpy, and sets ``rand()``
before each utterance. It also keeps eSpeak NG, under the GPL-3.0, apart from lnlab.

    python speaker.py LIBRARY DATA SOUND < orders > heard

DATA may be empty. Each line of ``orders`` is the JSON of [text, voice, words a minute, pitch].
The first line of ``heard`` is the rate in samples a second; each further one, for an utterance,
the JSON of [samples, [[sample at which a phone begins, phone], ...]]. The samples of all,
int16, stand one behind the other in the file SOUND.
"""

import ctypes
import json
import os
import sys
from typing import Any, BinaryIO


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
    """The library, and the samples and phones of what it says.

    Args:
        library: a name or path that the system's loader knows.
        data: the folder of its data, where it lies elsewhere than the library expects.
        sound: where the samples are written to.

    Raises:
        OSError: where there is no such library.
        RuntimeError: where it does not start.
    """

    def __init__(self, library: str, data: str, sound: BinaryIO) -> None:
        self._c = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
        self._library: Any = ctypes.CDLL(library)
        folder = data.encode() or None
        self.rate = self._library.espeak_Initialize(SYNCHRONOUS, 0, folder, PHONES | STAY)
        if self.rate <= 0:
            raise RuntimeError(f"{library} does not start; its data: {data or 'its own'}")
        self._file = sound
        self._samples = 0
        self._phones: list[tuple[int, str]] = []
        self._heard = _HEARD(self._hear)  # kept, or it would be freed
        self._library.espeak_SetSynthCallback(self._heard)

    def _hear(self, wave: Any, count: int, events: Any) -> int:
        if wave and count:
            self._samples += count
            self._file.write(ctypes.string_at(wave, 2 * count))
        place = 0
        while events[place].type != LAST:
            if events[place].type == PHONE:
                name = events[place].id.string.decode().lstrip("',")  # stress
                self._phones.append((events[place].sample, name))
            place += 1
        return 0

    def say(
        self, seed: int, text: str, voice: str, rate: int, pitch: int
    ) -> tuple[int, list[tuple[int, str]]]:
        """The number of samples written, and the phones with the samples at which they begin.

        Args:
            seed: of the noise of breath.
            text: what is said, with ``voice``, at ``rate`` words a minute and ``pitch`` of 0 to
                99.

        Raises:
            RuntimeError: for a voice that the library does not have.
        """
        self._samples, self._phones = 0, []
        if self._library.espeak_SetVoiceByName(voice.encode()):
            raise RuntimeError(f"eSpeak NG has no voice {voice}.")
        self._library.espeak_SetParameter(RATE_OF_WORDS, rate, 0)
        self._library.espeak_SetParameter(PITCH, pitch, 0)
        raw = text.encode()
        self._c.srand(seed)
        self._library.espeak_Synth(raw, len(raw) + 1, 0, 1, 0, UTF8, None, None)
        self._library.espeak_Synchronize()
        return self._samples, self._phones


def main(library: str, data: str, sound: str) -> None:
    """Say what the standard input orders."""
    with open(sound, "wb") as file:
        speaker = Speaker(library, data, file)
        print(speaker.rate)
        for number, order in enumerate(sys.stdin):
            print(json.dumps(speaker.say(number + 1, *json.loads(order))))


if __name__ == "__main__":
    main(*sys.argv[1:])
