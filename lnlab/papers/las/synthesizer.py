"""Speech made here: random words, synthetic speakers, and the truth about every phone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lnlab.data.cache import Arrays, cache_arrays
from lnlab.papers.las.recordings import Samples, Utterance

# Phones: the 39 in which results are reported, TIMIT's 61, and how some words are spoken.
#
# The 39 are those of Lee & Hon (1989), with closures and pauses as ``sil``; glottal stops are
# left out.


VOWELS = ("iy", "ih", "eh", "ae", "aa", "ah", "uh", "uw", "er", "ey", "ay", "oy", "aw", "ow")
CONSONANTS = (
    *("p", "b", "t", "d", "k", "g", "dx", "ch", "jh"),
    *("f", "v", "th", "dh", "s", "z", "sh", "hh"),
    *("m", "n", "ng", "l", "r", "w", "y"),
)
SILENCE = "sil"
PHONES = (*VOWELS, *CONSONANTS, SILENCE)

FOLDED = {
    **{phone: phone for phone in PHONES if phone != SILENCE},
    **{"ao": "aa", "ax": "ah", "ax-h": "ah", "axr": "er", "hv": "hh", "ix": "ih"},
    **{"el": "l", "em": "m", "en": "n", "nx": "n", "eng": "ng", "zh": "sh", "ux": "uw"},
    **dict.fromkeys(("pcl", "tcl", "kcl", "bcl", "dcl", "gcl"), SILENCE),
    **dict.fromkeys(("h#", "pau", "epi"), SILENCE),
}
"""The one of the 39 phones for each of TIMIT's 61; ``q``, the glottal stop, is left out."""

LEFT_OUT = ("q",)


def fold(phones: list[str]) -> list[str]:
    """TIMIT's phones as the 39, each run of silence as one.

    Raises:
        ValueError: for what is no phone of TIMIT; names it.
    """
    unknown = sorted(set(phones) - set(FOLDED) - set(LEFT_OUT))
    if unknown:
        raise ValueError(f"no phone of TIMIT: {', '.join(unknown)}.")
    folded: list[str] = []
    for phone in phones:
        if phone in LEFT_OUT:
            continue
        name = FOLDED[phone]
        if name != SILENCE or folded[-1:] != [SILENCE]:
            folded.append(name)
    return folded


WORDS = {
    word: tuple(phones.split())
    for word, phones in (
        line.split(maxsplit=1)
        for line in """
        zero z ih r ow
        one w ah n
        two t uw
        three th r iy
        four f aa r
        five f ay v
        six s ih k s
        seven s eh v ah n
        eight ey t
        nine n ay n
        apple ae p ah l
        baby b ey b iy
        bath b ae th
        beach b iy ch
        bird b er d
        boat b ow t
        book b uh k
        boy b oy
        bridge b r ih jh
        brother b r ah dh er
        bug b ah g
        cage k ey jh
        cat k ae t
        chair ch eh r
        cheese ch iy z
        child ch ay l d
        city s ih dx iy
        clock k l aa k
        cloud k l aw d
        coffee k aa f iy
        coin k oy n
        cook k uh k
        cow k aw
        cup k ah p
        dance d ae n s
        day d ey
        dog d aa g
        door d aa r
        dream d r iy m
        ear ih r
        earth er th
        egg eh g
        father f aa dh er
        feather f eh dh er
        fire f ay er
        fish f ih sh
        flower f l aw er
        foot f uh t
        friend f r eh n d
        garden g aa r d ah n
        gate g ey t
        girl g er l
        glass g l ae s
        gold g ow l d
        good g uh d
        green g r iy n
        hand hh ae n d
        house hh aw s
        ice ay s
        island ay l ah n d
        job jh aa b
        joy jh oy
        judge jh ah jh
        juice jh uw s
        key k iy
        king k ih ng
        knife n ay f
        ladder l ae dx er
        leaf l iy f
        letter l eh dx er
        light l ay t
        love l ah v
        measure m eh sh er
        milk m ih l k
        moon m uw n
        mother m ah dh er
        mouth m aw th
        music m y uw z ih k
        name n ey m
        night n ay t
        noise n oy z
        ocean ow sh ah n
        page p ey jh
        paper p ey p er
        push p uh sh
        queen k w iy n
        rain r ey n
        ring r ih ng
        river r ih v er
        road r ow d
        room r uw m
        school s k uw l
        ship sh ih p
        shoe sh uw
        sing s ih ng
        smooth s m uw dh
        song s aa ng
        sugar sh uh g er
        sun s ah n
        table t ey b ah l
        teacher t iy ch er
        thing th ih ng
        toy t oy
        tree t r iy
        vase v ey s
        vision v ih sh ah n
        voice v oy s
        wall w aa l
        watch w aa ch
        water w aa dx er
        weather w eh dh er
        window w ih n d ow
        wood w uh d
        yard y aa r d
        year y ih r
        yellow y eh l ow
        young y ah ng
        zoo z uw
        """.strip().splitlines()
    )
}
"""The phones of some English words; the ten digits first."""

DIGITS = tuple(WORDS)[:10]


# A formant synthesiser: phones to sound, and where exactly each of them is in it.
#
# Voiced sound is a sum of harmonics of the voice's pitch, each as loud as three resonances and
# the fall of the glottal spectrum make it; friction is noise between two frequencies; a stop is
# silence and a burst. Pitch, formants and loudness glide from one phone to the next, so that
# neighbours colour each other. After Klatt (1980), very much simplified: intelligible to a
# network, and the truth about its boundaries is known to the sample.


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


Parts = dict[str, list[Utterance]]

SIZES = {"train": 2000, "valid": 200, "test": 500}
SPEAKERS = {"train": range(40), "valid": range(40, 48), "test": range(48, 56)}
"""Nobody speaks in two parts."""
MOST_WORDS = 3
PAUSED = 0.3
"""The probability of a pause between two words."""
QUIETEST, LOUDEST = 15.0, 35.0
"""dB from the noise to the speech."""
MARGIN = 0.05, 0.25
"""Seconds of silence before and after."""


def corpus(most: int | None = None, seed: int = 0) -> Parts:
    """Utterances of one to three random words; the words have no order to be guessed.

    A pause between two words is a unit, ``sil``; the silence around them is none. Each
    utterance depends on the seed and on its own number alone.

    Args:
        most: how many to train on at most, and of the other parts in proportion.
    """
    counts = {split: at_most(count, most) for split, count in SIZES.items()}
    arrays = cache_arrays(
        "spoken",
        f"{seed} {counts}",
        lambda: _packed(
            {
                split: [utterance(seed, split, number) for number in range(count)]
                for split, count in counts.items()
            }
        ),
    )
    parts: Parts = {split: [] for split in SIZES}
    at = {name: np.cumsum(arrays[f"{name}_counts"])[:-1] for name in ("sound", "units")}
    cut = (
        np.split(arrays["sound"], at["sound"]),
        *(np.split(arrays[name], at["units"]) for name in ("units", "begins", "ends")),
    )
    splits = (
        split for split, count in zip(SIZES, arrays["sizes"], strict=True) for _ in range(count)
    )
    for split, speaker, sound, units, begins, ends in zip(
        splits, arrays["speakers"], *cut, strict=True
    ):
        parts[split].append(
            Utterance(
                name=_name(split, len(parts[split])),
                speaker=f"speaker {speaker}",
                units=tuple(PHONES[unit] for unit in units),
                heard=Samples(sound, RATE),
                begins=begins,
                ends=ends,
            )
        )
    return parts


def _packed(parts: Parts) -> Arrays:
    said = [utterance for split in SIZES for utterance in parts[split]]
    sounds = [u.heard.sound() for u in said]
    return {
        "sizes": np.array([len(parts[split]) for split in SIZES]),
        "speakers": np.array([int(u.speaker.split()[1]) for u in said]),
        "sound": np.concatenate(sounds),
        "sound_counts": np.array([len(sound) for sound in sounds]),
        "units": np.array([PHONES.index(unit) for u in said for unit in u.units], np.uint8),
        "units_counts": np.array([len(u.units) for u in said]),
        "begins": np.concatenate([np.asarray(u.begins) for u in said]),
        "ends": np.concatenate([np.asarray(u.ends) for u in said]),
    }


def _name(split: str, number: int) -> str:
    return f"{split}-{number:04}"


def at_most(count: int, most: int | None) -> int:
    """``count``, in the proportion in which ``most`` training utterances are fewer than all."""
    return count if most is None else min(count, -(-count * most // SIZES["train"]))


def utterance(seed: int, split: str, number: int) -> Utterance:
    """Number ``number`` of a part."""
    random = np.random.default_rng([seed, list(SIZES).index(split), number])
    speaker, words, paused = chosen(random, split)
    phones = [*WORDS[words[0]]]
    for word, pause in zip(words[1:], paused, strict=True):
        phones += [SILENCE] * pause + [*WORDS[word]]
    speech, ends = synthesise(phones, Voice.of(speaker), random)
    return placed(_name(split, number), speaker, speech, phones, ends, random)


def chosen(random: np.random.Generator, split: str) -> tuple[int, list[str], list[bool]]:
    """A speaker of a part, what he says, and whether he pauses after each word but the last."""
    speaker = int(random.choice(SPEAKERS[split]))
    words = random.choice(list(WORDS), random.integers(1, MOST_WORDS + 1)).tolist()
    return speaker, words, [random.random() < PAUSED for _ in words[1:]]


def placed(
    name: str,
    speaker: int,
    speech: np.ndarray,
    phones: list[str],
    ends: np.ndarray,
    random: np.random.Generator,
) -> Utterance:
    """An utterance with silence around it, and in noise.

    Args:
        speech: samples.
        ends: of the phones, in samples; each begins where the one before ends.
    """
    before, after = (int(s * RATE) for s in random.uniform(*MARGIN, 2))
    sound = np.pad(speech, (before, after))
    loudness = 10 ** (-random.uniform(QUIETEST, LOUDEST) / 20) * float(speech.std())
    sound = sound + random.normal(0, loudness, len(sound)).astype(np.float32)
    ends = (before + ends) / RATE
    return Utterance(
        name=name,
        speaker=f"speaker {speaker}",
        units=tuple(phones),
        heard=Samples(sound, RATE),
        begins=np.concatenate([[before / RATE], ends[:-1]]),
        ends=ends,
    )
