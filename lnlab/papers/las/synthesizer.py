"""Speech made here: random words, synthetic speakers, and the exact times of every phone.

Voiced sound is a sum of harmonics of the voice's pitch, each as loud as three resonances and
the fall of the glottal spectrum make it; friction is noise between two frequencies; a stop is
silence and a burst. Pitch, formants and loudness glide from one phone to the next. After Klatt
(1980), very much simplified: a network can recognize it, and its boundaries are known to the
sample.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lnlab.data.cache import Arrays, cache_arrays
from lnlab.papers.las.recordings import Utterance, wrap_samples_as_recording


def _read_csv_rows(file_name: str) -> Iterator[dict[str, str]]:
    with Path(__file__).with_name(file_name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


@dataclass(frozen=True)
class Phone:
    """The recipe of a phone."""

    mean_seconds: float  # its average length
    begin_and_end_formants: tuple[
        tuple[float, ...], tuple[float, ...]
    ]  # in Hz, at its beginning and end
    voice_loudness: float  # loudness of the voice
    friction_loudness: float  # loudness of friction
    friction_band_hz: tuple[
        float, float
    ]  # the lowest and the highest frequency of friction, in Hz
    silent_fraction: float  # the share of its time that is silent before a burst


# The 39 phones of Lee & Hon (1989), with closures and pauses as ``sil``; TIMIT's 61, of which
# the glottal stop is left out; and how some English words are spoken.

SOUNDS: dict[str, Phone] = {}
KINDS: dict[str, list[str]] = {"vowel": [], "consonant": [], "silence": []}
for _row in _read_csv_rows("phones.csv"):
    _begin, _end = (
        tuple(float(_row[f"{prefix}F{k}"]) for k in (1, 2, 3)) for prefix in ("", "end_")
    )
    SOUNDS[_row["phone"]] = Phone(
        float(_row["seconds"]),
        (_begin, _end),
        float(_row["voice"]),
        float(_row["noise"]),
        (float(_row["noise_low"]), float(_row["noise_high"])),
        float(_row["closure"]),
    )
    KINDS[_row["kind"]].append(_row["phone"])
PHONES = tuple(SOUNDS)
VOWELS, CONSONANTS, (SILENCE,) = (tuple(phones) for phones in KINDS.values())
FOLDED = {row["timit"]: row["phone"] for row in _read_csv_rows("timit_phones.csv")}
"""The one of the 39 phones for each of TIMIT's 61; empty for the one that is left out."""
WORDS = {row["word"]: tuple(row["phones"].split()) for row in _read_csv_rows("words.csv")}
"""The phones of some English words; the ten digits first."""
DIGITS = tuple(WORDS)[:10]


RATE = 16_000  # samples a second
FRAME = 80  # samples in which sound is held constant: 5 ms
BANDWIDTHS = 70.0, 100.0, 160.0  # bandwidths of the three resonances, in Hz
GLIDE = 5  # frames over which one phone turns into the next: 25 ms


@dataclass(frozen=True)
class Voice:
    """A speaker."""

    pitch_hz: float  # in Hz
    formant_factor: float  # factor of all formants: 1 for a man, 1.2 for a child
    speed_factor: float  # by what all durations are divided
    breath_noise: float  # noise under the voice
    harmonic_decay_power: float  # how fast the harmonics fall, in powers of their number


def make_voice(speaker: int) -> Voice:
    """Return the voice of a speaker by number; it depends on nothing else."""
    random = np.random.default_rng([speaker, 8])
    high = speaker % 2
    return Voice(
        pitch_hz=random.uniform(95, 150) * (1.6 if high else 1),
        formant_factor=random.uniform(0.95, 1.06) * (1.13 if high else 1),
        speed_factor=random.uniform(0.85, 1.2),
        breath_noise=random.uniform(0.005, 0.03),
        harmonic_decay_power=random.uniform(0.7, 1.2),
    )


PhoneEndsInSamples = np.ndarray  # the number of samples before each end


def synthesize_with_phone_ends(
    phones: Sequence[str], voice: Voice, generator: np.random.Generator
) -> tuple[np.ndarray, PhoneEndsInSamples]:
    """Return the sound of some phones, and where each ends.

    The sound is float32 (N,) at :data:`RATE`, of which the loudest sample is 0.5; the ends are
    samples (len(phones),). ``generator`` decides durations, pitch and noise.
    """
    if not phones or not set(phones) <= set(SOUNDS):
        raise ValueError(f"phones are {list(phones)}: give some of {', '.join(SOUNDS)}.")
    sounds = [SOUNDS[phone] for phone in phones]
    seconds = np.array([sound.mean_seconds for sound in sounds]) / voice.speed_factor
    frames = np.maximum(3, seconds * generator.uniform(0.75, 1.3, len(sounds)) * RATE / FRAME)
    frames = frames.astype(int)
    tracks = _smooth_formants_and_voice(
        np.concatenate(
            [_phone_parameters_by_frame(s, n) for s, n in zip(sounds, frames, strict=True)]
        )
    )
    sound = _voiced_sound(tracks, voice, generator) + _friction_sound(tracks, voice, generator)
    loudest = np.abs(sound).max()
    return (0.5 * sound / max(loudest, 1e-9)).astype(np.float32), frames.cumsum() * FRAME


def _phone_parameters_by_frame(phone: Phone, frames: int) -> np.ndarray:
    """Return (frames, 7): three formants, voice, noise, and the band of the noise."""
    time = np.linspace(0, 1, frames)[:, None]
    begin, end = (np.array(formants) for formants in phone.begin_and_end_formants)
    burst = (time >= phone.silent_fraction).astype(float)
    if phone.silent_fraction:  # a burst dies away
        burst *= np.exp(-4 * np.maximum(0, time - phone.silent_fraction))
    voice = phone.voice_loudness * (0.5 + 0.5 * burst if phone.silent_fraction else 1)
    band = np.tile(phone.friction_band_hz, (frames, 1))
    voices = np.broadcast_to(voice, (frames, 1))
    return np.hstack(
        [begin + time * (end - begin), voices, phone.friction_loudness * burst, band]
    )


def _smooth_formants_and_voice(parameters_by_frame: np.ndarray) -> np.ndarray:
    """Smooth the formants and the voice: neighbours colour each other."""
    kernel = np.hanning(GLIDE + 2)[1:-1]
    padded = np.pad(parameters_by_frame[:, :4], ((GLIDE // 2, GLIDE // 2), (0, 0)), mode="edge")
    smooth = np.stack(
        [np.convolve(column, kernel / kernel.sum(), "valid") for column in padded.T], axis=1
    )
    return np.hstack([smooth, parameters_by_frame[:, 4:]])


def _voiced_sound(
    parameters_by_frame: np.ndarray, voice: Voice, generator: np.random.Generator
) -> np.ndarray:
    frames = len(parameters_by_frame)
    melody = np.interp(
        np.arange(frames), np.linspace(0, frames, 5), generator.normal(0, 0.05, 5)
    )
    pitch = voice.pitch_hz * np.exp(melody - 0.15 * np.linspace(0, 1, frames))
    count = int(0.45 * RATE / pitch.max())
    number = np.arange(1, count + 1)
    frequencies = pitch[:, None] * number  # (frames, count)
    loudness = number**-voice.harmonic_decay_power * np.ones_like(frequencies)
    for k, width in enumerate(BANDWIDTHS):
        centre = voice.formant_factor * parameters_by_frame[:, k : k + 1]
        ratio = frequencies / centre
        loudness /= np.hypot(1 - ratio**2, ratio * width / centre)
    loudness *= (parameters_by_frame[:, 3] / 4)[:, None]
    # from frames to samples; the phase of each harmonic is a multiple of the first's
    phase = 2 * np.pi * np.cumsum(np.repeat(pitch, FRAME)) / RATE
    first = np.exp(1j * phase).astype(np.complex64)
    total, harmonic = np.zeros(frames * FRAME, np.float32), np.ones_like(first)
    centres = np.arange(frames) * FRAME + FRAME / 2
    samples = np.arange(frames * FRAME)
    for k in range(count):
        harmonic = harmonic * first
        total += np.interp(samples, centres, loudness[:, k]).astype(np.float32) * harmonic.imag
    return total


def _friction_sound(
    parameters_by_frame: np.ndarray, voice: Voice, generator: np.random.Generator
) -> np.ndarray:
    """Return noise whose spectrum is cut to the band of each frame, by overlapping windows."""
    frames, size = len(parameters_by_frame), 4 * FRAME
    padded = generator.normal(0, 1, (frames + 3) * FRAME)
    window = np.sqrt(np.hanning(size + 1)[:-1])
    pieces = np.lib.stride_tricks.sliding_window_view(padded, size)[::FRAME][:frames] * window
    spectrum = np.fft.rfft(pieces)
    frequency = np.fft.rfftfreq(size, 1 / RATE)
    low, high = parameters_by_frame[:, 5:6], parameters_by_frame[:, 6:7]
    band = 1 / (1 + np.exp(np.clip((low - frequency) / 150, -50, 50)))
    band = band / (1 + np.exp(np.clip((frequency - high) / 150, -50, 50)))
    gain = parameters_by_frame[:, 4:5] * band + voice.breath_noise * (
        0.2 + parameters_by_frame[:, 3:4]
    )
    pieces = np.fft.irfft(spectrum * gain, size) * window
    total = np.zeros((frames + 3) * FRAME)
    for shift in range(4):
        part = pieces[shift::4].reshape(-1)
        total[shift * FRAME : shift * FRAME + len(part)] += part
    return (0.08 * total[FRAME + FRAME // 2 :][: frames * FRAME]).astype(np.float32)


# The corpus.

SIZES = {"train": 2000, "valid": 200, "test": 500}
SPEAKERS = {"train": range(40), "valid": range(40, 48), "test": range(48, 56)}
"""Nobody speaks in two splits."""
MAX_WORDS = 3
PAUSE = 0.3  # the probability of a pause between two words
QUIETEST, LOUDEST = 15.0, 35.0  # dB from the noise to the speech
MARGIN = 0.05, 0.25  # seconds of silence before and after

Splits = dict[str, list[Utterance]]


def make_corpus(max_train: int | None = None, seed: int = 0) -> Splits:
    """Make utterances of one to three random words, or read them from the cache.

    A pause between two words is a unit, ``sil``; the silence around them is none. Each
    utterance depends on the seed and on its own number alone. At most ``max_train`` train, and
    of the other splits fewer in proportion.
    """
    train = SIZES["train"]
    counts = {
        split: size if max_train is None else min(size, -(-size * max_train // train))
        for split, size in SIZES.items()
    }
    arrays = cache_arrays(
        "spoken", f"{seed} {counts}", lambda: _make_corpus_arrays(seed, counts)
    )
    rows = json.loads(arrays["rows"].tobytes())
    sounds = np.split(arrays["sound"], np.cumsum([row.pop() for row in rows])[:-1])
    splits: Splits = {split: [] for split in counts}
    for (name, speaker, units, *times), sound in zip(rows, sounds, strict=True):
        recording, (begins, ends) = wrap_samples_as_recording(sound, RATE), map(np.array, times)
        utterance = Utterance(name, speaker, tuple(units), recording, begins, ends)
        splits[name.partition("-")[0]].append(utterance)
    return splits


def _make_corpus_arrays(seed: int, counts: dict[str, int]) -> Arrays:
    """Return all sound in one array, and in JSON what there is of each utterance besides."""
    sounds, rows = [], []
    for split, count in counts.items():
        for number in range(count):
            u = make_utterance(seed, split, number)
            times = [np.asarray(u.begins).tolist(), np.asarray(u.ends).tolist()]
            rows.append([u.name, u.speaker, u.units, *times, len(u.samples)])
            sounds.append(u.samples)
    text = json.dumps(rows).encode()
    return {"sound": np.concatenate(sounds), "rows": np.frombuffer(text, np.uint8)}


def make_utterance(seed: int, split: str, number: int) -> Utterance:
    """Make one utterance of a split, with silence around it, and in noise."""
    random = np.random.default_rng([seed, list(SIZES).index(split), number])
    speaker, words, pauses = choose_speaker_words_and_pauses(random, split)
    phones = [*WORDS[words[0]]]
    for word, pause in zip(words[1:], pauses, strict=True):
        phones += [SILENCE] * pause + [*WORDS[word]]
    speech, ends = synthesize_with_phone_ends(phones, make_voice(speaker), random)
    before, after = (int(s * RATE) for s in random.uniform(*MARGIN, 2))
    sound = np.pad(speech, (before, after))
    noise = 10 ** (-random.uniform(QUIETEST, LOUDEST) / 20) * float(speech.std())
    sound = sound + random.normal(0, noise, len(sound)).astype(np.float32)
    ends = (before + ends) / RATE
    return Utterance(
        name=f"{split}-{number:04}",
        speaker=f"speaker {speaker}",
        units=tuple(phones),
        recording=wrap_samples_as_recording(sound, RATE),
        begins=np.concatenate([[before / RATE], ends[:-1]]),
        ends=ends,
    )


def choose_speaker_words_and_pauses(
    generator: np.random.Generator, split: str
) -> tuple[int, list[str], list[bool]]:
    """Choose a speaker, words, and whether a pause follows each word but the last."""
    speaker = int(generator.choice(SPEAKERS[split]))
    words = generator.choice(list(WORDS), generator.integers(1, MAX_WORDS + 1)).tolist()
    return speaker, words, [generator.random() < PAUSE for _ in words[1:]]
