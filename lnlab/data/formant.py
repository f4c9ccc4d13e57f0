"""A formant synthesiser: phones to sound, and where exactly each of them is in it.

Voiced sound is a sum of harmonics of the voice's pitch, each as loud as three resonances and
the fall of the glottal spectrum make it; friction is noise between two frequencies; a stop is
silence and a burst. Pitch, formants and loudness glide from one phone to the next, so that
neighbours colour each other. After Klatt (1980), very much simplified: intelligible to a
network, and the truth about its boundaries is known to the sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lnlab.data.phones import SILENCE

RATE = 16_000
"""Samples a second."""
FRAME = 80
"""Samples in which sound is held constant: 5 ms."""
WIDTHS = 70.0, 100.0, 160.0
"""Bandwidths of the three resonances, in Hz."""
GLIDE = 5
"""Frames over which one phone turns into the next: 25 ms."""


@dataclass(frozen=True)
class Sound:
    """The recipe of a phone.

    Attributes:
        seconds: how long it is, on average.
        formants: the three resonances, in Hz, at its beginning and at its end.
        voice: loudness of the voice.
        noise: of friction.
        band: between which frequencies friction lies, in Hz.
        closure: the part of its time that is silent before a burst.
    """

    seconds: float
    formants: tuple[tuple[float, float, float], tuple[float, float, float]]
    voice: float = 1.0
    noise: float = 0.0
    band: tuple[float, float] = (100.0, 200.0)
    closure: float = 0.0


def _still(F1: float, F2: float, F3: float, seconds: float = 0.09, **more) -> Sound:
    return Sound(seconds, ((F1, F2, F3), (F1, F2, F3)), **more)


def _glide(begin: str, end: str) -> Sound:
    first, last = (SOUNDS[phone].formants[0] for phone in (begin, end))
    return Sound(0.14, (first, last))


SOUNDS: dict[str, Sound] = {
    "iy": _still(280, 2250, 2900),
    "ih": _still(400, 1950, 2550, 0.07),
    "eh": _still(550, 1770, 2490),
    "ae": _still(690, 1660, 2490, 0.11),
    "aa": _still(710, 1100, 2540, 0.11),
    "ah": _still(620, 1220, 2550, 0.07),
    "uh": _still(450, 1030, 2380, 0.07),
    "uw": _still(310, 870, 2250),
    "er": _still(470, 1270, 1540, 0.1),
    "p": _still(300, 900, 2300, 0.08, voice=0, noise=0.35, band=(300, 1500), closure=0.65),
    "b": _still(300, 900, 2300, 0.07, voice=0.25, noise=0.2, band=(300, 1500), closure=0.65),
    "t": _still(300, 1700, 2700, 0.08, voice=0, noise=0.5, band=(3000, 7000), closure=0.6),
    "d": _still(300, 1700, 2700, 0.07, voice=0.25, noise=0.3, band=(3000, 7000), closure=0.6),
    "k": _still(300, 2000, 2500, 0.09, voice=0, noise=0.45, band=(1500, 3200), closure=0.6),
    "g": _still(300, 2000, 2500, 0.08, voice=0.25, noise=0.28, band=(1500, 3200), closure=0.6),
    "dx": _still(350, 1600, 2650, 0.035, voice=0.45),
    "ch": _still(300, 1800, 2600, 0.12, voice=0, noise=0.7, band=(2200, 6000), closure=0.4),
    "jh": _still(300, 1800, 2600, 0.1, voice=0.3, noise=0.45, band=(2200, 6000), closure=0.35),
    "f": _still(350, 1200, 2300, 0.1, voice=0, noise=0.25, band=(1000, 7800)),
    "v": _still(350, 1200, 2300, 0.07, voice=0.4, noise=0.12, band=(1000, 7800)),
    "th": _still(350, 1500, 2500, 0.1, voice=0, noise=0.16, band=(5000, 7800)),
    "dh": _still(350, 1500, 2500, 0.06, voice=0.45, noise=0.08, band=(5000, 7800)),
    "s": _still(350, 1700, 2600, 0.11, voice=0, noise=0.9, band=(4000, 7800)),
    "z": _still(350, 1700, 2600, 0.08, voice=0.3, noise=0.5, band=(4000, 7800)),
    "sh": _still(350, 1800, 2500, 0.11, voice=0, noise=0.9, band=(2000, 5500)),
    "hh": _still(500, 1500, 2500, 0.07, voice=0, noise=0.2, band=(400, 3500)),
    "m": _still(260, 1000, 2200, 0.07, voice=0.55),
    "n": _still(260, 1550, 2500, 0.07, voice=0.55),
    "ng": _still(260, 2100, 2650, 0.08, voice=0.55),
    "l": _still(360, 1000, 2700, 0.07, voice=0.75),
    "r": _still(360, 1150, 1500, 0.07, voice=0.75),
    "w": _still(300, 650, 2200, 0.06, voice=0.75),
    "y": _still(270, 2250, 3000, 0.06, voice=0.75),
    SILENCE: _still(500, 1500, 2500, 0.1, voice=0),
}
SOUNDS |= {
    "ey": _glide("eh", "iy"),
    "ay": _glide("aa", "iy"),
    "oy": _glide("uh", "iy"),
    "aw": _glide("aa", "uw"),
    "ow": _glide("uh", "uw"),
}


@dataclass(frozen=True)
class Voice:
    """A speaker.

    Attributes:
        pitch: in Hz.
        tract: by what all formants are multiplied: 1 for a man, 1.2 for a child.
        speed: by what all durations are divided.
        breath: noise under the voice.
        tilt: how fast the harmonics fall, in powers of their number.
    """

    pitch: float
    tract: float
    speed: float
    breath: float
    tilt: float

    @classmethod
    def of(cls, speaker: int) -> "Voice":
        """The voice of a speaker by number; it depends on nothing else."""
        random = np.random.default_rng([speaker, 8])
        high = speaker % 2
        return cls(
            pitch=random.uniform(95, 150) * (1.6 if high else 1),
            tract=random.uniform(0.95, 1.06) * (1.13 if high else 1),
            speed=random.uniform(0.85, 1.2),
            breath=random.uniform(0.005, 0.03),
            tilt=random.uniform(0.7, 1.2),
        )


def synthesise(
    phones: Sequence[str], voice: Voice, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The sound of some phones, and where each ends.

    Args:
        phones: of :data:`SOUNDS`.
        voice: who speaks.
        random: for durations, pitch and noise.

    Returns:
        float32 samples (N,) at :data:`RATE`, of which the loudest is 0.5, and the sample at
        which each phone ends (len(phones),).

    Raises:
        ValueError: where there are no phones, or an unknown one.
    """
    unknown = sorted(set(phones) - set(SOUNDS))
    if unknown or not phones:
        raise ValueError(f"phones are {list(phones)}: give some of {', '.join(SOUNDS)}.")
    sounds = [SOUNDS[phone] for phone in phones]
    seconds = np.array([sound.seconds for sound in sounds]) / voice.speed
    frames = np.maximum(3, seconds * random.uniform(0.75, 1.3, len(sounds)) * RATE / FRAME)
    frames = frames.astype(int)
    tracks = _glided(
        np.concatenate([_track(s, n) for s, n in zip(sounds, frames, strict=True)])
    )
    sound = _voiced(tracks, voice, random) + _friction(tracks, voice, random)
    loudest = np.abs(sound).max()
    return (0.5 * sound / max(loudest, 1e-9)).astype(np.float32), frames.cumsum() * FRAME


def _track(sound: Sound, frames: int) -> np.ndarray:
    """(frames, 7): three formants, voice, noise, and the band of the noise."""
    along = np.linspace(0, 1, frames)[:, None]
    begin, end = (np.array(f) for f in sound.formants)
    open_ = (along >= sound.closure).astype(float)
    if sound.closure:  # a burst dies away
        open_ *= np.exp(-4 * np.maximum(0, along - sound.closure))
    voice = sound.voice * (1 if not sound.closure else 0.5 + 0.5 * open_)
    return np.hstack(
        [
            begin + along * (end - begin),
            np.broadcast_to(voice, (frames, 1)),
            sound.noise * open_,
            np.tile(sound.band, (frames, 1)),
        ]
    )


def _glided(tracks: np.ndarray) -> np.ndarray:
    """The formants and the voice, smoothed: neighbours colour each other."""
    kernel = np.hanning(GLIDE + 2)[1:-1]
    padded = np.pad(tracks[:, :4], ((GLIDE // 2, GLIDE // 2), (0, 0)), mode="edge")
    smooth = np.stack(
        [np.convolve(column, kernel / kernel.sum(), "valid") for column in padded.T], axis=1
    )
    return np.hstack([smooth, tracks[:, 4:]])


def _voiced(tracks: np.ndarray, voice: Voice, random: np.random.Generator) -> np.ndarray:
    frames = len(tracks)
    slow = np.interp(
        np.arange(frames), np.linspace(0, frames, 5), random.normal(0, 0.05, 5)
    )  # how the melody goes
    pitch = voice.pitch * np.exp(slow - 0.15 * np.linspace(0, 1, frames))
    count = int(0.45 * RATE / pitch.max())
    number = np.arange(1, count + 1)
    at = pitch[:, None] * number  # (frames, count)
    loud = number**-voice.tilt * np.ones_like(at)
    for k, width in enumerate(WIDTHS):
        centre = voice.tract * tracks[:, k : k + 1]
        ratio = at / centre
        loud /= np.hypot(1 - ratio**2, ratio * width / centre)
    loud *= (tracks[:, 3] / 4)[:, None]
    # from frames to samples; the phase of each harmonic is a multiple of the first's
    phase = 2 * np.pi * np.cumsum(np.repeat(pitch, FRAME)) / RATE
    turn = np.exp(1j * phase).astype(np.complex64)
    total, power = np.zeros(frames * FRAME, np.float32), np.ones_like(turn)
    centres = np.arange(frames) * FRAME + FRAME / 2
    samples = np.arange(frames * FRAME)
    for k in range(count):
        power = power * turn
        total += np.interp(samples, centres, loud[:, k]).astype(np.float32) * power.imag
    return total


def _friction(tracks: np.ndarray, voice: Voice, random: np.random.Generator) -> np.ndarray:
    """Noise whose spectrum is cut to the band of each frame, by overlapping windows."""
    frames, size = len(tracks), 4 * FRAME
    padded = random.normal(0, 1, (frames + 3) * FRAME)
    window = np.sqrt(np.hanning(size + 1)[:-1])
    pieces = np.lib.stride_tricks.sliding_window_view(padded, size)[::FRAME][:frames] * window
    spectrum = np.fft.rfft(pieces)
    frequency = np.fft.rfftfreq(size, 1 / RATE)
    low, high = tracks[:, 5:6], tracks[:, 6:7]
    inside = 1 / (1 + np.exp(np.clip((low - frequency) / 150, -50, 50)))
    inside = inside / (1 + np.exp(np.clip((frequency - high) / 150, -50, 50)))
    gain = tracks[:, 4:5] * inside + voice.breath * (0.2 + tracks[:, 3:4])
    pieces = np.fft.irfft(spectrum * gain, size) * window
    total = np.zeros((frames + 3) * FRAME)
    for shift in range(4):
        part = pieces[shift::4].reshape(-1)
        total[shift * FRAME : shift * FRAME + len(part)] += part
    return (0.08 * total[FRAME + FRAME // 2 :][: frames * FRAME]).astype(np.float32)
