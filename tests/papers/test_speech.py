"""Corpora in the layouts of their authors, whole and damaged."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lnlab.papers.las.data
from lnlab import data
from lnlab.papers.las import recordings
from lnlab.papers.las.synthesizer import FOLDED, PHONES, fold
from tests.data.layouts import fsdd, librispeech, pack, put, timit, tone


def load(spec, unit=None, **options):
    return data.load(spec, "speech", unit=unit, **options)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(lnlab.papers.las.data, "STRINGS", {"train": 6, "valid": 2, "test": 3})


@pytest.mark.parametrize("end", [".flac", ".sph"])
def test_all_formats_give_the_same_samples_and_are_refused_if_cut_off(tmp_path, end):
    paths = [put(tmp_path / f"a{each}") for each in (".wav", end)]
    one, other = (recordings.read_audio(path, 16000)[0] for path in paths)
    np.testing.assert_allclose(one, other, atol=2**-15)  # the last bit of 16
    assert (one.dtype, one.shape) == (np.float32, (8000,))
    for path in paths:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ValueError, match=r"cut off|cannot be read"):
            recordings.read_audio(path, 16000)


def test_a_wav_whose_data_chunk_promises_more_is_refused(tmp_path):
    path = put(tmp_path / "a.wav")
    head, name, samples = path.read_bytes().partition(b"data")
    path.write_bytes(head + name + (2**32 - 1).to_bytes(4, "little") + samples[4:])
    with pytest.raises(ValueError, match=r"a\.wav is cut off.*download it again"):
        recordings.read_audio(path, 16000)


FAULTS = {
    "8000 samples a second, expected 16000": lambda p: put(p, tone(rate=8000), 8000),
    "is empty": lambda p: put(p, np.zeros((0, 1))),
    r"lasts 0\.020 s, less than a frame": lambda p: put(p, tone(0.02)),
    "is silent": lambda p: put(p, np.zeros((999, 1))),
    "is clipped": lambda p: put(p, np.sign(tone())),
    "cannot be read": lambda p: put(p, text="<html>404</html>"),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_faulty_recording_is_named(tmp_path, message):
    path = FAULTS[message](tmp_path / "é sound.wav")
    with pytest.raises(ValueError, match=f"é sound.wav.*{message}"):
        recordings.read_audio(path, 16000)


def test_channels_are_mixed_to_their_mean(tmp_path):
    path = put(tmp_path / "a.wav", np.hstack([tone(), 0.5 * tone()]))
    sound, channels = recordings.read_audio(path, 16000)
    assert channels == 2
    np.testing.assert_allclose(sound, 0.75 * tone()[:, 0], atol=2**-15)  # the last bit of 16


def test_61_phones_fold_to_39_and_silences_to_one():
    assert len(FOLDED) == 61
    assert set(FOLDED.values()) == {*PHONES, ""}  # q, the glottal stop, is left out
    folded = fold(["h#", "q", "ix", "tcl", "t", "pcl", "epi", "p", "ao", "h#"])
    assert folded == ["sil", "ih", "sil", "t", "sil", "p", "aa", "sil"]


@pytest.mark.parametrize("capital", [True, False])
def test_timit(tmp_path, capital):
    found: Any = load(f"timit={timit(tmp_path / 'ti mit', capital)}")
    assert found.units == PHONES
    assert len(found.train) + len(found.valid) == 2  # without the sa sentences
    (said,) = found.test  # of the core test set alone
    assert (said.speaker, said.units) == ("mdab0", ("sil", "sh", "sil", "ih"))
    assert said.begins.tolist() == [0, 0.1, 0.3, 0.4]
    assert said.ends.tolist() == [0.1, 0.25, 0.4, 0.5]


def test_every_tenth_speaker_of_timit_validates(tmp_path):
    for name in (f"M{a}{b}{c}0" for a in "ABC" for b in "ABC" for c in "ABCD"):
        put(tmp_path / "TRAIN" / "DR1" / name / "SX1.PHN", text="0 9 h#\n")
    listed = lnlab.papers.las.data.list_timit(tmp_path)
    assert [len(listed[split]) for split in ("train", "valid", "test")] == [32, 4, 0]


def test_librispeech(tmp_path):
    found = load(f"librispeech={librispeech(tmp_path)}")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [2, 2, 2]
    assert "".join(found.train[0].units) == "HE'D WAIT"
    assert found.test[0].speaker == "1089"
    put(next(tmp_path.rglob("103-7-0000.flac")), tone(loud=0.2) + 0.01)
    assert found.checksum != load(f"librispeech={tmp_path}").checksum


def test_fsdd(tmp_path, few):
    folder = fsdd(tmp_path)
    words, letters, phones = (load(f"fsdd={folder}", u) for u in ("words", "letters", "phones"))
    assert [len(part) for part in (words.train, words.valid, words.test)] == [6, 2, 3]
    for one, other in zip(words.train, letters.train, strict=True):
        assert " ".join(one.units).upper() == "".join(other.units)
        assert 3 <= len(one.units) <= 5
        np.testing.assert_allclose(one.ends - one.begins, 0.2)
        assert (one.begins[1:] >= one.ends[:-1]).all()
    assert {unit for said in phones.train for unit in said.units} <= set(phones.units)


def test_a_speaker_can_be_left_to_the_test(tmp_path, few):
    folder = fsdd(tmp_path, speakers=("ann", "bob"))
    found = load(f"fsdd={folder}", held_out_speaker="bob")
    assert {u.speaker for u in (*found.train, *found.valid)} == {"ann"}
    assert {u.speaker for u in found.test} == {"bob"}
    assert found.checksum != load(f"fsdd={folder}").checksum
    with pytest.raises(ValueError, match="nobody is called 'eve': choose from ann, bob"):
        _ = load(f"fsdd={folder}", held_out_speaker="eve").train


@pytest.mark.parametrize("make", [fsdd, timit, librispeech])
def test_an_archive_is_its_folder_and_lengths_are_known(tmp_path, few, make, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    folder = make(tmp_path / "folder")
    archive = pack(folder, tmp_path / "é archive.tar.gz")
    found = [load(f"{make.__name__}={path}") for path in (folder, archive)]
    assert found[0].checksum == found[1].checksum
    assert all(said.frames == len(said.features) for said in found[0].train)


def write(pattern, text):
    return lambda folder: next(folder.rglob(pattern)).write_bytes(text)


def without(pattern):
    return lambda folder: [path.unlink() for path in folder.rglob(pattern)]


PHN, TRANS = "*SX127.PHN", "*.trans.txt"
DAMAGED = {
    "no phone of TIMIT: zz": (timit, write(PHN, b"0 9 h#\n9 99 zz\n")),
    "is not BEGIN END PHONE": (timit, write(PHN, b"h# 0 9\n")),
    r"X127\.WAV is not there": (timit, without("*SX127.WAV")),
    r"\['3'\]": (librispeech, write(TRANS, b"103-7-0000 3 PIGS\n")),
    "is no text": (librispeech, write(TRANS, b"\xff\xfe1")),
    r"ann says no \[3\]": (fsdd, without("3_ann_*.wav")),
    "no recordings": (fsdd, without("*.wav")),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_damaged_files_are_named(tmp_path, few, message):
    make, damage = DAMAGED[message]
    damage(make(tmp_path))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        _ = load(f"{make.__name__}={tmp_path}").train


@pytest.mark.parametrize("name", ["fsdd", "timit", "librispeech"])
def test_missing_corpora_say_how_to_get_them(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name} is not in .*, and name .*{name}=PATH"):
        _ = load(f"{name}={tmp_path / 'nothing'}").train


@pytest.fixture
def faulty(tmp_path, few):
    """Digits of which one is in two channels, and two are too short and silent."""
    folder = fsdd(tmp_path) / "top/recordings"
    put(folder / "1_ann_8.wav", tone(0.2, 8000, channels=2), 8000)
    put(folder / "2_ann_8.wav", tone(0.01, 8000), 8000)
    put(folder / "3_ann_8.wav", np.zeros((2000, 1)), 8000)
    return f"fsdd={tmp_path}"


def test_all_faulty_files_are_named_at_once(faulty):
    with pytest.raises(ValueError, match="3 of 100 recordings cannot be used") as error:
        _ = load(faulty).train
    for complaint in (
        "mix_channels=True mixes channels to one, skip_faulty=True leaves them out",
        r"1_ann_8\.wav has 2 channels",
        r"2_ann_8\.wav lasts 0\.010 s, less than a frame",
        r"3_ann_8\.wav is silent",
    ):
        assert re.search(complaint, str(error.value))
    with pytest.raises(ValueError, match="2 of 100 recordings cannot be used"):
        _ = load(faulty, mix_channels=True).train


def test_what_was_mixed_and_left_out_is_in_the_name(faulty):
    both = load(faulty, mix_channels=True, skip_faulty=True)
    assert both.note == "1 of 100 recordings mixed to one channel, 2 of 100 recordings left out"
    assert both.name == f"fsdd, {both.note}"
    assert load(faulty, skip_faulty=True).name == "fsdd, 3 of 100 recordings left out"


def test_utterances_of_faulty_files_are_left_out(tmp_path):
    put(next(librispeech(tmp_path).rglob("103-7-0001.flac")), tone(0.02))
    found = load(f"librispeech={tmp_path}", skip_faulty=True)
    assert [u.name for u in found.train] == ["103-7-0000"]
    assert found.name == "librispeech, 1 of 6 recordings left out"


@pytest.mark.skipif("LNLAB_TEST_DATA" not in os.environ, reason="LNLAB_TEST_DATA is not set")
def test_the_real_files(few, tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    folder = Path(os.environ["LNLAB_TEST_DATA"])
    found = load(f"librispeech={folder / 'librispeech'}")
    assert {u.speaker for u in (*found.train, *found.test)} == {"1089"}
    (digits,) = (folder / "fsdd").glob("*.tar.gz")
    assert len(load(f"fsdd={digits}").train) == 6
