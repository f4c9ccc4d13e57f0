"""Speech made here: random words, synthetic speakers, and the truth about every phone."""

from functools import cache

import numpy as np

from lnlab.data.filterbank import features
from lnlab.data.formant import RATE, Voice, synthesise
from lnlab.data.phones import SILENCE, WORDS
from lnlab.data.utterance import Utterance

SIZES = {"train": 2000, "valid": 200, "test": 500}
SPEAKERS = {"train": range(40), "valid": range(40, 48), "test": range(48, 56)}
"""Nobody speaks in two parts."""
MOST_WORDS = 3
PAUSED = 0.3
"""How often there is a pause between two words."""
QUIETEST, LOUDEST = 15.0, 35.0
"""dB from the noise to the speech."""
MARGIN = 0.05, 0.25
"""Seconds of silence before and after."""


@cache
def corpus(seed: int = 0, most: int | None = None) -> dict[str, list[Utterance]]:
    """Utterances of one to three random words; the words have no order to be guessed.

    A pause between two words is a unit, ``sil``; the silence around them is none. Each
    utterance depends on the seed and on its own number alone.
    """
    return {
        split: [utterance(seed, split, number) for number in range(at_most(count, most))]
        for split, count in SIZES.items()
    }


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
    return placed(f"{split}-{number:04}", speaker, speech, phones, ends, random)


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
        features=features(sound, RATE),
        units=tuple(phones),
        begins=np.concatenate([[before / RATE], ends[:-1]]),
        ends=ends,
        sound=sound,
    )
