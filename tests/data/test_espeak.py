"""Words spoken by eSpeak NG, where it is installed: the same each time, and where they are."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from lnlab import data
from lnlab.data import espeak, speaker, spoken
from lnlab.data.phones import PHONES
from lnlab.data.spoken import SPEAKERS


@pytest.fixture(scope="module")
def here():
    try:
        espeak.library()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_everybody_has_a_voice_of_his_own():
    voices = {espeak.Manner.of(speaker).name for part in SPEAKERS.values() for speaker in part}
    assert len(voices) == sum(map(len, SPEAKERS.values()))


def test_every_name_is_of_one_of_the_39():
    assert set(espeak.FOLDED.values()) <= set(PHONES)


def test_phones_are_folded_and_silence_joined():
    events = [
        (9, "_"),
        (9, "k"),
        (30, "I"),
        (30, ";"),
        (50, "_:"),
        (70, "_"),
        (80, "t#"),
        (90, "_"),
    ]
    assert espeak.folded(events) == (["k", "ih", "sil", "dx", "sil"], [0, 30, 50, 80, 90])
    with pytest.raises(ValueError, match="'x2', which is none of the 39"):
        espeak.folded([(0, "x2")])


def test_what_is_named_and_no_library_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("LNLAB_ESPEAK", str(tmp_path / "nothing.so"))
    with pytest.raises(FileNotFoundError, match=r"LNLAB_ESPEAK is .*nothing\.so"):
        _ = data.load("espeak", "speech").train


def test_where_there_is_none_it_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("LNLAB_ESPEAK", raising=False)
    monkeypatch.setattr(espeak, "SYSTEM", ())
    monkeypatch.setattr(espeak.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(espeak.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'lnlab\[espeak\]'"):
        _ = data.load("espeak", "speech").train


BREATHY = """
import ctypes, hashlib, io, runpy, sys
Speaker = runpy.run_path(sys.argv[1])["Speaker"]
sound = io.BytesIO()
speaker = Speaker(sys.argv[2], sys.argv[3], sound)
for text in ("one two", "three"):
    for _ in range(int(sys.argv[4])):
        ctypes.CDLL(None).rand()
    speaker.say(7, text, "en+f2", 150, 50)
print(hashlib.sha256(sound.getvalue()).hexdigest())
"""


def test_breath_is_the_same_whoever_else_draws_from_rand(here):
    """One process in eight had 12 values of the C library's `rand()` taken before eSpeak's."""
    name, data = espeak.library()
    said = {
        subprocess.run(
            [sys.executable, "-c", BREATHY, speaker.__file__, name, data or "", str(drawn)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for drawn in (0, 12)
    }
    assert len(said) == 1
    assert said != {hashlib.sha256().hexdigest() + "\n"}


def test_the_process_of_espeak_loads_nothing_that_could_draw():
    code = (
        f"import runpy, sys; runpy.run_path({speaker.__file__!r}); "
        "print(*{'numpy', 'torch', 'scipy', 'lnlab'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    assert not ran.stdout.split()


@pytest.fixture
def few(monkeypatch, full):
    """A part of the corpus; with --full all of it."""
    if not full:
        monkeypatch.setattr(spoken, "SIZES", {"train": 60, "valid": 8, "test": 30})
    return spoken.SIZES


def test_the_corpus_is_the_same_each_time(here, few, monkeypatch, tmp_path):
    found = data.load("espeak", "speech")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [*few.values()]
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))  # nothing is kept here: it speaks again
    assert data.load("espeak", "speech").checksum == found.checksum
    cut = data.load("espeak", "speech", most=20)
    assert [u.name for u in cut.train] == [u.name for u in found.train[:20]]
    assert cut.checksum != found.checksum


def test_phones_lie_where_they_are_said(here, few):
    found = data.load("espeak", "speech")
    for said in (*found.train[:50], *found.test[:50]):
        assert set(said.units) <= set(PHONES)
        assert len(said.begins) == len(said.ends) == len(said.units)
        assert (said.ends > said.begins).all()
        sound = said.sound
        assert said.ends[-1] < len(sound) / found.rate
        speech, silence = (
            sound[int(a * found.rate) : int(b * found.rate)]
            for a, b in ((said.begins[0], said.ends[-1]), (0, said.begins[0] - 0.01))
        )
        assert np.std(speech) > 2 * np.std(silence)
    speakers = [{u.speaker for u in part} for part in (found.train, found.valid, found.test)]
    assert not speakers[0] & speakers[1] | speakers[0] & speakers[2] | speakers[1] & speakers[2]
