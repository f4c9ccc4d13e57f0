"""Speech made here: random words, synthetic speakers, and the truth about every phone."""

import numpy as np

from lnlab.data import formant, phones
from lnlab.data.cache import Arrays, code, kept
from lnlab.data.formant import RATE, Voice, synthesise
from lnlab.data.phones import PHONES, SILENCE, WORDS
from lnlab.data.recordings import Samples
from lnlab.data.utterance import Utterance

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
    arrays = kept(
        "spoken",
        f"{seed} {counts} {made_of()}",
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


def made_of() -> str:
    """A text that changes when an utterance of the same seed would sound otherwise."""
    return f"numpy {np.__version__} {code(formant.__file__, phones.__file__, __file__)}"


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
