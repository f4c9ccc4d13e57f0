"""Synthesised speech is where it says it is, and sounds like what it says."""

from functools import cache

import numpy as np
import pytest

from lnlab.papers.las import synthesizer
from lnlab.papers.las.recordings import log_mel
from lnlab.papers.las.synthesizer import (
    CONSONANTS,
    FRAME,
    PHONES,
    RATE,
    SILENCE,
    VOWELS,
    WORDS,
    Voice,
    make_voice,
    synthesise,
)


def made(phones, speaker=0, seed=0):
    return synthesise(phones, make_voice(speaker), np.random.default_rng(seed))


def test_every_phone_is_in_some_word():
    said = {phone for phones in WORDS.values() for phone in phones}
    assert said == set(PHONES) - {SILENCE}
    assert len(set(WORDS.values())) == len(WORDS), "two words sound alike"


def test_ends_are_those_of_the_samples():
    sound, ends = made(["s", "iy", SILENCE, "m"], speaker=3)
    assert sound.dtype == np.float32
    assert ends[-1] == len(sound)
    assert (np.diff(ends) > 0).all()
    assert not (ends % FRAME).any()
    assert np.abs(sound).max() == pytest.approx(0.5)


def test_silence_is_quiet_and_lies_where_it_is_said():
    sound, ends = made(["iy", SILENCE, "aa"])
    inside = sound[ends[0] + 4 * FRAME : ends[1] - 4 * FRAME]
    assert inside.std() < 0.05 * sound.std()


@cache
def spectrum(phone):
    """Mean log energies of the middle of a phone."""
    sound, _ = made([phone])
    frames = log_mel(np.tile(sound, 3), RATE)[:, :40]
    return frames[len(frames) // 3 : 2 * len(frames) // 3].mean(0).numpy()


def pitch(sound):
    """The frequency (Hz) of a piece of voice: the first peak of its autocorrelation."""
    lags = np.correlate(sound, sound, "full")[len(sound) - 1 :]
    shortest, longest = RATE // 400, RATE // 70
    return RATE / (shortest + np.argmax(lags[shortest:longest]))


def test_the_voice_falls_in_the_course_of_an_utterance():
    voice = Voice(pitch=120.0, tract=1.0, speed=0.2, breath=0.0, tilt=1.0)
    falls = []
    for seed in range(8):
        sound, _ = synthesise(["aa"], voice, np.random.default_rng(seed))
        fifth = len(sound) // 5
        falls.append(pitch(sound[3 * fifth : 4 * fifth]) / pitch(sound[fifth : 2 * fifth]))
    # e^-0.06 from the second fifth to the fourth, and a melody of 5 % that is drawn
    assert 0.85 < np.mean(falls) < 0.98


def test_friction_is_high_and_vowels_are_low():
    for phone in ("s", "sh", "z"):
        assert spectrum(phone)[30:].mean() > spectrum(phone)[:12].mean() - 1
    for phone in (*VOWELS, "m", "n"):
        assert spectrum(phone)[:12].mean() > spectrum(phone)[32:].mean() + 2


def test_neighbours_sound_apart():
    apart = [
        np.abs(spectrum(a) - spectrum(b)).max()
        for place, a in enumerate((*VOWELS, *CONSONANTS))
        for b in (*VOWELS, *CONSONANTS)[:place]
    ]
    assert min(apart) > 0.5  # nats, in some filter


@pytest.mark.parametrize("phones", [[], ["k", "q"]])
def test_what_cannot_be_said_is_named(phones):
    with pytest.raises(ValueError, match="phones are"):
        made(phones)


def test_nobody_speaks_in_two_parts():
    speakers = [set(s) for s in synthesizer.SPEAKERS.values()]
    assert len(set.union(*speakers)) == sum(map(len, speakers))
    heard = {synthesizer.make_utterance(0, "valid", n).speaker for n in range(30)}
    assert heard <= {f"speaker {n}" for n in synthesizer.SPEAKERS["valid"]}
    assert len(heard) > 4


def test_boundaries_are_in_the_utterance():
    for number in range(20):
        said = synthesizer.make_utterance(0, "train", number)
        assert len(said.units) == len(said.begins) == len(said.ends)
        assert (said.begins < said.ends).all()
        assert np.array_equal(said.begins[1:], said.ends[:-1])
        assert said.begins[0] >= synthesizer.MARGIN[0] - 1e-3
        assert said.ends[-1] <= len(said.sound) / RATE
        assert said.features.shape == (1 + (len(said.sound) - 400) // 160, 123)
