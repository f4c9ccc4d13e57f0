"""Words spoken by eSpeak NG, where it is installed: the same each time, and where they are."""

import numpy as np
import pytest

from lnlab.data import espeak, speech
from lnlab.data.phones import PHONES
from lnlab.data.spoken import SPEAKERS


@pytest.fixture(scope="module")
def here():
    try:
        espeak.library()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_everybody_has_a_voice_of_his_own():
    voices = {espeak.Voice.of(speaker).name for part in SPEAKERS.values() for speaker in part}
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
        speech.load("espeak")


def test_where_there_is_none_it_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("LNLAB_ESPEAK", raising=False)
    monkeypatch.setattr(espeak, "SYSTEM", ())
    monkeypatch.setattr(espeak.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(espeak.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'lnlab\[espeak\]'"):
        speech.load("espeak")


@pytest.mark.slow
def test_the_whole_corpus_is_the_same_each_time(here):
    found = speech.load("espeak")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [2000, 200, 500]
    for said in (*found.train[:50], *found.test[:50]):
        assert set(said.units) <= set(PHONES)
        assert len(said.begins) == len(said.ends) == len(said.units)
        assert (said.ends > said.begins).all()
        assert said.ends[-1] < len(said.sound) / found.rate
        speech_, silence = (
            said.sound[int(a * found.rate) : int(b * found.rate)]
            for a, b in ((said.begins[0], said.ends[-1]), (0, said.begins[0] - 0.01))
        )
        assert np.std(speech_) > 2 * np.std(silence)
    speakers = [{u.speaker for u in part} for part in (found.train, found.valid, found.test)]
    assert not speakers[0] & speakers[1] | speakers[0] & speakers[2] | speakers[1] & speakers[2]
    espeak.corpus.cache_clear()
    assert speech.load("espeak").checksum == found.checksum
    few = speech.load("espeak", most=100)
    assert [u.name for u in few.train] == [u.name for u in found.train[:100]]
