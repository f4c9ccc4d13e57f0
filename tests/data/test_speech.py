"""Corpora in the layouts of their authors, whole and damaged."""

import os
import tarfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from lnlab.data import audio, corpora, speech
from lnlab.data.phones import FOLDED, PHONES, fold


def tone(seconds=0.5, rate=16000, channels=1, loud=0.3):
    wave = loud * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)
    return np.tile(wave[:, None], (1, channels))


def put(path, sound=None, rate=16000, text=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        path.write_text(text)
    else:
        kind = "NIST" if path.suffix == ".sph" else None
        soundfile.write(path, tone() if sound is None else sound, rate, format=kind)
    return path


# --- audio ---------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [".flac", ".sph"])
def test_other_formats_give_the_samples_of_wav(tmp_path, end):
    one, other = (audio.read(put(tmp_path / f"a{end}"), 16000) for end in (".wav", end))
    np.testing.assert_allclose(one, other, atol=2**-15)  # the last bit of 16
    assert one.dtype == np.float32
    assert one.shape == (8000,)


BROKEN = {
    "rate": (lambda p: put(p, tone(rate=8000), 8000), "8000 samples a second, expected 16000"),
    "stereo": (lambda p: put(p, tone(channels=2)), "2 channels"),
    "empty": (lambda p: put(p, np.zeros((0, 1))), "is empty"),
    "short": (lambda p: put(p, tone(0.02)), r"lasts 0\.020 s, less than a frame"),
    "silent": (lambda p: put(p, np.zeros((999, 1))), "is silent"),
    "clipped": (lambda p: put(p, np.sign(tone())), "is clipped"),
    "no audio": (lambda p: put(p, text="<html>404</html>"), "cannot be read"),
}


@pytest.mark.parametrize(("make", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_with_a_recording_is_said(tmp_path, make, message):
    path = make(tmp_path / "é sound.wav")
    with pytest.raises(ValueError, match=message) as error:
        audio.read(path, 16000)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("end", [".wav", ".flac", ".sph"])
def test_a_recording_that_is_cut_off_is_refused(tmp_path, end):
    path = put(tmp_path / f"a{end}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"cut off|cannot be read"):
        audio.read(path, 16000)


def test_a_recording_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"b\.wav is not there"):
        audio.read(tmp_path / "b.wav", 16000)


# --- phones --------------------------------------------------------------------------------


def test_61_phones_fold_to_39():
    assert len(FOLDED) == 60  # and q, which is left out
    assert set(FOLDED.values()) == set(PHONES)


def test_folding_joins_silence_and_leaves_out_stops_of_the_glottis():
    found = fold(["h#", "q", "ix", "tcl", "t", "pcl", "epi", "p", "ao", "h#"])
    assert found == ["sil", "ih", "sil", "t", "sil", "p", "aa", "sil"]


def test_what_is_no_phone_is_named():
    with pytest.raises(ValueError, match="no phone of TIMIT: xyz"):
        fold(["h#", "xyz"])


# --- layouts -------------------------------------------------------------------------------


def timit(folder, capital=True):
    text = "0 1600 h#\n1600 4000 sh\n4000 4800 q\n4800 6000 tcl\n6000 6400 pau\n6400 8000 ix\n"
    for part, speaker in (
        ("TRAIN", "FCJF0"),
        ("TRAIN", "MABC0"),
        ("TEST", "MDAB0"),
        ("TEST", "MXXX0"),
    ):
        for sentence in ("SX127", "SA1"):
            stem = folder / part / "DR1" / speaker / sentence
            if not capital:
                stem = Path(
                    *(
                        p.lower() if p != str(folder) else p
                        for p in (str(folder), part, "dr1", speaker, sentence)
                    )
                )
            put(stem.with_suffix(".PHN" if capital else ".phn"), text=text)
            put(stem.with_suffix(".WAV" if capital else ".wav"))
    return folder


@pytest.mark.parametrize("capital", [True, False])
def test_timit(tmp_path, capital):
    found: Any = speech.load(f"timit={timit(tmp_path / 'ti mit', capital)}")
    assert found.kind == "official"
    assert found.units == PHONES
    assert len(found.train) + len(found.valid) == 2  # without the sa sentences
    assert [u.speaker for u in found.test] == ["mdab0"]  # of the core test set alone
    (said,) = found.test
    assert said.units == ("sil", "sh", "sil", "ih")
    assert said.begins.tolist() == [0, 0.1, 0.3, 0.4]
    assert said.ends.tolist() == [0.1, 0.25, 0.4, 0.5]


def librispeech(folder):
    for part, book in (("train-clean-100", "103"), ("dev-clean", "84"), ("test-clean", "1089")):
        at = folder / "LibriSpeech" / part / book / "7"
        put(
            at / f"{book}-7.trans.txt",
            text=f"{book}-7-0000 HE'D WAIT\n{book}-7-0001 NO LONGER\n",
        )
        for number in range(2):
            put(at / f"{book}-7-{number:04}.flac")
    return folder


def test_librispeech(tmp_path):
    found = speech.load(f"librispeech={librispeech(tmp_path)}")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [2, 2, 2]
    assert "".join(found.train[0].units) == "HE'D WAIT"
    assert found.test[0].speaker == "1089"
    assert found.train[0].features.shape == (48, 123)


def an4(folder, cepstra=False):
    for split, ids in (
        ("train", ["x/fa/one-fa-b", "x/fb/two-fb-b"]),
        ("test", ["x/fc/three-fc-b"]),
    ):
        put(folder / f"an4/etc/an4_{split}.fileids", text="\n".join(ids) + "\n")
        lines = [f"<s> GO ON </s> ({Path(i).name})" for i in ids]
        put(folder / f"an4/etc/an4_{split}.transcription", text="\n".join(lines) + "\n")
        for name in ids:
            if cepstra:
                values = np.random.default_rng(0).normal(size=13 * 70).astype(">f4")
                path = folder / f"an4/feat/{name}.mfc"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes((13 * 70).to_bytes(4, "big") + values.tobytes())
            else:
                put(folder / f"an4/wav/{name}.sph")
    return folder


@pytest.mark.parametrize(("cepstra", "shape"), [(True, (70, 39)), (False, (48, 123))])
def test_an4(tmp_path, cepstra, shape):
    found = speech.load(f"an4={an4(tmp_path, cepstra)}")
    assert "".join(found.test[0].units) == "GO ON"
    assert found.test[0].features.shape == shape
    assert (found.test[0].sound is None) == cepstra
    assert len(found.train) == len(found.valid) == 1
    assert found.train[0].speaker != found.valid[0].speaker


def fsdd(folder, takes=10, speakers=("ann",)):
    for digit, speaker, take in product(range(10), speakers, range(takes)):
        put(folder / f"top/recordings/{digit}_{speaker}_{take}.wav", tone(0.2, 8000), 8000)
    return folder


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(corpora, "FSDD_STRINGS", {"train": 6, "valid": 2, "test": 3})


@pytest.mark.parametrize("unit", ["words", "letters", "phones"])
def test_fsdd(tmp_path, few, unit):
    found: Any = speech.load(f"fsdd={fsdd(tmp_path)}", unit)
    assert [len(part) for part in (found.train, found.valid, found.test)] == [6, 2, 3]
    for said in found.train:
        assert set(said.units) <= set(found.units)
        if unit == "words":
            assert 3 <= len(said.units) <= 5
            np.testing.assert_allclose(said.ends - said.begins, 0.2)
            assert (said.begins[1:] >= said.ends[:-1]).all()


def test_the_same_strings_in_every_unit(tmp_path, few):
    folder = fsdd(tmp_path)
    words, letters = (speech.load(f"fsdd={folder}", unit) for unit in ("words", "letters"))
    for one, other in zip(words.train, letters.train, strict=True):
        assert " ".join(one.units).upper() == "".join(other.units)


def test_a_speaker_can_be_left_to_the_test(tmp_path, few):
    folder = fsdd(tmp_path, speakers=("ann", "bob"))
    found = speech.load(f"fsdd={folder}", unheard="bob")
    assert {u.speaker for u in (*found.train, *found.valid)} == {"ann"}
    assert {u.speaker for u in found.test} == {"bob"}
    assert found.checksum != speech.load(f"fsdd={folder}").checksum
    with pytest.raises(ValueError, match="nobody is called 'eve': choose from ann, bob"):
        speech.load(f"fsdd={folder}", unheard="eve")
    with pytest.raises(ValueError, match="tests on speakers of its own"):
        speech.load("embedded", unheard="bob")


def test_somebody_must_be_heard(tmp_path, few):
    with pytest.raises(ValueError, match="no recording to train with"):
        speech.load(f"fsdd={fsdd(tmp_path)}", unheard="ann")


def test_checksum_is_of_what_is_heard(tmp_path):
    folder = librispeech(tmp_path)
    first = speech.load(f"librispeech={folder}").checksum
    assert first == speech.load(f"librispeech={folder}").checksum
    put(next(folder.rglob("*-0000.flac")), tone(loud=0.2) + 0.01)
    assert first != speech.load(f"librispeech={folder}").checksum


@pytest.mark.parametrize("make", [an4, fsdd, timit, librispeech])
def test_the_archive_does_for_its_folder(tmp_path, few, make, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    folder, archive = make(tmp_path / "folder"), tmp_path / "é archive.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, ".")
    found = [speech.load(f"{make.__name__}={path}") for path in (folder, archive, archive)]
    assert len({said.checksum for said in found}) == 1
    assert len(list((tmp_path / "data/unpacked").glob("*/"))) == 1


def write(pattern, text):
    return lambda folder: next(folder.rglob(pattern)).write_text(text)


def without(pattern):
    return lambda folder: [path.unlink() for path in folder.rglob(pattern)]


def bytes_of(pattern, text):
    return lambda folder: next(folder.rglob(pattern)).write_bytes(text)


def another_name(folder):
    put(folder / "top/recordings/a.wav", tone(0.2, 8000), 8000)


def another_rate(folder):
    for path in folder.rglob("*.wav"):
        put(path, tone(0.2))


PHN, TRANS, AN4_TRAIN = "*SX127.PHN", "*.trans.txt", "an4_train.transcription"
DAMAGED = {
    "timit, no phone": (timit, write(PHN, "0 9 h#\n9 99 zz\n"), "no phone of TIMIT: zz"),
    "timit, no line": (timit, write(PHN, "h# 0 9\n"), "is not BEGIN END PHONE"),
    "timit, no sound": (timit, without("*SX127.WAV"), "is not there"),
    "librispeech, symbols": (librispeech, write(TRANS, "103-7-0000 3 PIGS\n"), r"\['3'\]"),
    "librispeech, no sound": (librispeech, write(TRANS, "x HI\n"), r"x\.flac is not there"),
    "librispeech, bytes": (librispeech, bytes_of(TRANS, b"\xff\xfe1"), "is no text"),
    "an4, a line too few": (an4, write(AN4_TRAIN, "GO ON (one-fa-b)\n"), "1 transcripts"),
    "an4, another line": (an4, write(AN4_TRAIN, "A (x)\nB (y)\n"), "line 1: .* is not that"),
    "an4, no sound": (an4, without("three*.sph"), "neither wav/x/fc/three-fc-b.sph"),
    "fsdd, a name": (fsdd, another_name, "DIGIT_SPEAKER_TAKE"),
    "fsdd, a digit": (fsdd, without("3_ann_*.wav"), r"ann says no \[3\]"),
    "fsdd, a rate": (fsdd, another_rate, "expected 8000"),
}


@pytest.mark.parametrize(("make", "damage", "message"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_named(tmp_path, few, make, damage, message):
    damage(make(tmp_path))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        speech.load(f"{make.__name__}={tmp_path}")


@pytest.mark.parametrize("short", [b"", b"\0\0", b"\0\0\0\x0d", b"\0\0\0\x0d" + b"\0" * 48])
def test_cepstra_that_are_cut_off_are_refused(tmp_path, short):
    path = tmp_path / "a.mfc"
    path.write_bytes(short)
    with pytest.raises(ValueError, match="expected finite ones, 13 a frame"):
        corpora.cepstra(path)


@pytest.mark.parametrize("name", ["fsdd", "an4", "timit", "librispeech"])
def test_what_is_not_there_says_how_to_get_it(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name}=PATH"):
        speech.load(f"{name}={tmp_path / 'nothing'}")
    with pytest.raises(FileNotFoundError, match=name):
        speech.load(f"{name}={tmp_path}")


@pytest.mark.parametrize(
    ("spec", "unit", "message"),
    [
        ("swbd", None, "choose from embedded, spoken, espeak, fsdd"),
        ("timit", "letters", "timit has no letters: choose from phones"),
        ("embedded=here", None, "give no path"),
    ],
)
def test_what_does_not_exist_is_named(spec, unit, message):
    with pytest.raises(ValueError, match=message):
        speech.load(spec, unit)


# --- the real files ------------------------------------------------------------------------


@pytest.fixture
def real(request):
    folder = os.environ.get("LNLAB_TEST_DATA")
    if not folder:
        pytest.skip("set LNLAB_TEST_DATA to a folder that holds fsdd/, an4/ and librispeech/")
    return Path(folder)


def test_the_real_excerpt_of_librispeech(real):
    found = speech.load(f"librispeech={real / 'librispeech'}")
    assert len(found.train) + len(found.test) == 4
    assert all(u.speaker == "1089" for u in (*found.train, *found.test))


def test_the_real_archives(real, few, tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    (digits,) = (real / "fsdd").glob("*.tar.gz")
    assert len(speech.load(f"fsdd={digits}").train) == 6
    (spelt,) = (real / "an4").glob("*.tar.gz")
    found = speech.load(f"an4={spelt}")
    assert len(found.train) + len(found.valid) == 948
    assert len(found.test) == 130
