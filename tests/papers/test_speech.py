"""Corpora in the layouts of their authors, whole and damaged."""

import os
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lnlab.papers.las.data
from lnlab import data
from lnlab.papers.las import recordings
from lnlab.papers.las.synthesizer import FOLDED, PHONES, fold
from tests.data.layouts import fsdd, librispeech, put, timit, tone


def load(spec, unit=None, **options):
    return data.load(spec, "speech", unit=unit, **options)


# --- audio ---------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [".flac", ".sph"])
def test_other_formats_give_the_samples_of_wav(tmp_path, end):
    one, other = (
        recordings.read_audio(put(tmp_path / f"a{end}"), 16000)[0] for end in (".wav", end)
    )
    np.testing.assert_allclose(one, other, atol=2**-15)  # the last bit of 16
    assert one.dtype == np.float32
    assert one.shape == (8000,)


BROKEN = {
    "rate": (lambda p: put(p, tone(rate=8000), 8000), "8000 samples a second, expected 16000"),
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
        recordings.read_audio(path, 16000)[0]
    assert str(path) in str(error.value)


@pytest.mark.parametrize("end", [".wav", ".flac", ".sph"])
def test_a_recording_that_is_cut_off_is_refused(tmp_path, end):
    path = put(tmp_path / f"a{end}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"cut off|cannot be read"):
        recordings.read_audio(path, 16000)[0]


@pytest.mark.parametrize("before", [b"", b"LIST\3\0\0\0abc\0"], ids=["alone", "behind a list"])
def test_samples_that_are_fewer_than_their_chunk_says_are_refused(tmp_path, before):
    whole = put(tmp_path / "whole.wav").read_bytes()
    head, sign, samples = whole[12:].partition(b"data")

    def written(name, length):
        chunks = b"WAVE" + head + before + sign + length.to_bytes(4, "little") + samples[4:]
        path = tmp_path / name
        path.write_bytes(b"RIFF" + len(chunks).to_bytes(4, "little") + chunks)
        return path

    right = len(samples) - 4
    assert recordings.read_audio(written("right.wav", right), 16000)[0].shape == (8000,)
    for wrong in (right + 2, 2 * right, 2**32 - 1):
        with pytest.raises(ValueError, match=r"wrong\.wav is cut off.*download it again"):
            recordings.read_audio(written("wrong.wav", wrong), 16000)[0]


# --- phones --------------------------------------------------------------------------------


def test_61_phones_fold_to_39():
    assert len(FOLDED) == 61
    assert set(FOLDED.values()) == {*PHONES, ""}  # q, the glottal stop, is left out


def test_folding_joins_silence_and_leaves_out_stops_of_the_glottis():
    found = fold(["h#", "q", "ix", "tcl", "t", "pcl", "epi", "p", "ao", "h#"])
    assert found == ["sil", "ih", "sil", "t", "sil", "p", "aa", "sil"]


# --- layouts -------------------------------------------------------------------------------


@pytest.mark.parametrize("capital", [True, False])
def test_timit(tmp_path, capital):
    found: Any = load(f"timit={timit(tmp_path / 'ti mit', capital)}")
    assert found.kind == "official"
    assert found.units == PHONES
    assert len(found.train) + len(found.valid) == 2  # without the sa sentences
    assert [u.speaker for u in found.test] == ["mdab0"]  # of the core test set alone
    (said,) = found.test
    assert said.units == ("sil", "sh", "sil", "ih")
    assert said.begins.tolist() == [0, 0.1, 0.3, 0.4]
    assert said.ends.tolist() == [0.1, 0.25, 0.4, 0.5]


@pytest.mark.parametrize("ending", ["0", "1"])
def test_every_tenth_speaker_of_timit_validates(tmp_path, ending):
    names = [f"M{a}{b}{c}{ending}" for a in "ABC" for b in "ABC" for c in "ABCD"]
    for name in names:
        put(tmp_path / "TRAIN" / "DR1" / name / "SX1.PHN", text="0 9 h#\n")
    listed = lnlab.papers.las.data.list_timit(tmp_path)
    assert len(names) == 36
    assert [len(listed[split]) for split in ("train", "valid", "test")] == [32, 4, 0]


def test_librispeech(tmp_path):
    found = load(f"librispeech={librispeech(tmp_path)}")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [2, 2, 2]
    assert "".join(found.train[0].units) == "HE'D WAIT"
    assert found.test[0].speaker == "1089"
    assert found.train[0].features.shape == (48, 123)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(lnlab.papers.las.data, "STRINGS", {"train": 6, "valid": 2, "test": 3})


@pytest.mark.parametrize("unit", ["words", "letters", "phones"])
def test_fsdd(tmp_path, few, unit):
    found: Any = load(f"fsdd={fsdd(tmp_path)}", unit)
    assert [len(part) for part in (found.train, found.valid, found.test)] == [6, 2, 3]
    for said in found.train:
        assert set(said.units) <= set(found.units)
        if unit == "words":
            assert 3 <= len(said.units) <= 5
            np.testing.assert_allclose(said.ends - said.begins, 0.2)
            assert (said.begins[1:] >= said.ends[:-1]).all()


def test_a_speaker_can_be_left_to_the_test(tmp_path, few):
    folder = fsdd(tmp_path, speakers=("ann", "bob"))
    found = load(f"fsdd={folder}", held_out_speaker="bob")
    assert {u.speaker for u in (*found.train, *found.valid)} == {"ann"}
    assert {u.speaker for u in found.test} == {"bob"}
    assert found.checksum != load(f"fsdd={folder}").checksum
    with pytest.raises(ValueError, match="nobody is called 'eve': choose from ann, bob"):
        _ = load(f"fsdd={folder}", held_out_speaker="eve").train
    with pytest.raises(ValueError, match="spoken has no option held_out_speaker: it has"):
        load("embedded", held_out_speaker="bob")


def test_checksum_is_of_what_is_heard(tmp_path):
    folder = librispeech(tmp_path)
    first = load(f"librispeech={folder}").checksum
    assert first == load(f"librispeech={folder}").checksum
    put(next(folder.rglob("*-0000.flac")), tone(loud=0.2) + 0.01)
    assert first != load(f"librispeech={folder}").checksum


@pytest.mark.parametrize("make", [fsdd, timit, librispeech])
def test_the_archive_does_for_its_folder(tmp_path, few, make, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    folder, archive = make(tmp_path / "folder"), tmp_path / "é archive.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, ".")
    found = [load(f"{make.__name__}={path}") for path in (folder, archive, archive)]
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


PHN, TRANS = "*SX127.PHN", "*.trans.txt"
DAMAGED = {
    "timit, no phone": (timit, write(PHN, "0 9 h#\n9 99 zz\n"), "no phone of TIMIT: zz"),
    "timit, no line": (timit, write(PHN, "h# 0 9\n"), "is not BEGIN END PHONE"),
    "timit, no sound": (timit, without("*SX127.WAV"), "is not there"),
    "librispeech, symbols": (librispeech, write(TRANS, "103-7-0000 3 PIGS\n"), r"\['3'\]"),
    "librispeech, no sound": (librispeech, write(TRANS, "x HI\n"), r"x\.flac is not there"),
    "librispeech, bytes": (librispeech, bytes_of(TRANS, b"\xff\xfe1"), "is no text"),
    "fsdd, a name": (fsdd, another_name, "DIGIT_SPEAKER_TAKE"),
    "fsdd, a digit": (fsdd, without("3_ann_*.wav"), r"ann says no \[3\]"),
    "fsdd, a rate": (fsdd, another_rate, "expected 8000"),
}


@pytest.mark.parametrize(("make", "damage", "message"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_named(tmp_path, few, make, damage, message):
    damage(make(tmp_path))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        _ = load(f"{make.__name__}={tmp_path}").train


@pytest.mark.parametrize("name", ["fsdd", "timit", "librispeech"])
def test_what_is_not_there_says_how_to_get_it(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name}=PATH"):
        _ = load(f"{name}={tmp_path / 'nothing'}").train
    with pytest.raises(FileNotFoundError, match=name):
        _ = load(f"{name}={tmp_path}").train


# --- faulty files --------------------------------------------------------------------------


@pytest.fixture
def faulty(tmp_path, few):
    """Digits of which one is in two channels, and three are too short, silent and damaged."""
    folder = fsdd(tmp_path)
    at = folder / "top/recordings"
    put(at / "1_ann_8.wav", tone(0.2, 8000, channels=2), 8000)
    put(at / "2_ann_8.wav", tone(0.01, 8000), 8000)
    put(at / "3_ann_8.wav", np.zeros((2000, 1)), 8000)
    put(at / "4_ann_8.wav", text="<html>404</html>")
    return f"fsdd={folder}"


def test_all_faulty_files_are_named_at_once(faulty):
    with pytest.raises(ValueError, match="4 of 100 recordings cannot be used") as error:
        _ = load(faulty).train
    for complaint in (
        r"mix_channels=True mixes channels to one, skip_faulty=True leaves them out",
        r"1_ann_8\.wav has 2 channels",
        r"2_ann_8\.wav lasts 0\.010 s, less than a frame",
        r"3_ann_8\.wav is silent",
        r"4_ann_8\.wav cannot be read",
    ):
        assert re.search(complaint, str(error.value))
    with pytest.raises(ValueError, match="3 of 100 recordings cannot be used") as error:
        _ = load(faulty, mix_channels=True).train
    assert "1_ann_8" not in str(error.value)


def test_what_was_mixed_and_left_out_is_in_the_name(faulty):
    both = load(faulty, mix_channels=True, skip_faulty=True)
    assert both.note == "1 of 100 recordings mixed to one channel, 3 of 100 recordings left out"
    assert both.name == f"fsdd, {both.note}"
    assert len(both.train) == 6
    without = load(faulty, skip_faulty=True)
    assert without.name == "fsdd, 4 of 100 recordings left out"
    assert load(faulty, mix_channels=True, skip_faulty=True).name == both.name


def test_two_channels_are_mixed_to_their_mean(tmp_path):
    left, right = tone(), 0.5 * tone()
    path = put(tmp_path / "a.wav", np.hstack([left, right]))
    sound, channels = recordings.read_audio(path, 16000)
    assert channels == 2
    np.testing.assert_allclose(sound, 0.75 * tone()[:, 0], atol=2**-15)  # the last bit of 16


def test_utterances_of_faulty_files_are_left_out(tmp_path):
    folder = librispeech(tmp_path)
    put(next(folder.rglob("103-7-0001.flac")), tone(0.02))
    found = load(f"librispeech={folder}", skip_faulty=True)
    assert [u.name for u in found.train] == ["103-7-0000"]
    assert found.name == "librispeech, 1 of 6 recordings left out"
    assert (
        len({found.checksum, load(f"librispeech={folder}", most=1, skip_faulty=True).checksum})
        == 2
    )
    assert len(found.test) == 2


@pytest.mark.parametrize("make", [fsdd, timit, librispeech])
def test_lengths_are_known_without_features(tmp_path, few, make):
    found = load(f"{make.__name__}={make(tmp_path)}")
    for said in (*found.train, *found.test):
        assert said.frames == len(said.features)


# --- the real files ------------------------------------------------------------------------


@pytest.fixture
def real(request):
    folder = os.environ.get("LNLAB_TEST_DATA")
    if not folder:
        pytest.skip("set LNLAB_TEST_DATA to a folder that holds fsdd/ and librispeech/")
    return Path(folder)


def test_the_real_excerpt_of_librispeech(real):
    found = load(f"librispeech={real / 'librispeech'}")
    assert len(found.train) + len(found.test) == 4
    assert all(u.speaker == "1089" for u in (*found.train, *found.test))


def test_the_real_archive(real, few, tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    (digits,) = (real / "fsdd").glob("*.tar.gz")
    assert len(load(f"fsdd={digits}").train) == 6
