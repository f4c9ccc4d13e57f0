"""Speech: files in the layouts of their authors, features, and the synthesizer."""

import re

import numpy as np
import pytest
import torch

import lnlab.papers.las.data
from lnlab import data
from lnlab.papers.las import recordings, synthesizer
from lnlab.papers.las.recordings import FILTERS, append_time_differences, log_mel_and_log_energy
from lnlab.papers.las.synthesizer import FOLDED, FRAME, PHONES, SILENCE, WORDS
from tests.data.layouts import fsdd, librispeech, pack, put, timit, tone


def load(spec, **options):
    return data.load(spec, "speech", **options)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(lnlab.papers.las.data, "STRINGS", {"train": 6, "valid": 2, "test": 3})


# --- sound files ------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [".wav", ".flac", ".sph"])
def test_all_formats_are_read_and_refused_if_cut_off(tmp_path, end):
    path = put(tmp_path / f"a{end}")
    sound = recordings.read_audio(path, 16000)
    assert sound.dtype == np.float32
    np.testing.assert_allclose(sound, tone()[:, 0], atol=2**-15)  # the last bit of 16
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"cut off|cannot be read"):
        recordings.read_audio(path, 16000)


def test_all_faulty_recordings_are_named_at_once(tmp_path, few):
    folder = fsdd(tmp_path) / "top/recordings"
    put(folder / "1_ann_8.wav", tone(0.2, 8000, channels=2), 8000)
    put(folder / "2_ann_8.wav", tone(0.01, 8000), 8000)
    put(folder / "3_ann_8.wav", np.zeros((2000, 1)), 8000)
    put(folder / "4_ann_8.wav", tone())
    put(folder / "5_ann_8.wav", text="<html>404</html>")
    with pytest.raises(ValueError, match="5 of 100 recordings cannot be used") as error:
        _ = load(f"fsdd={tmp_path}").train
    for complaint in (
        r"1_ann_8\.wav has 2 channels",
        r"2_ann_8\.wav lasts 0\.010 s, less than a frame",
        r"3_ann_8\.wav is silent",
        r"4_ann_8\.wav has 16000 samples a second, expected 8000",
        r"5_ann_8\.wav cannot be read",
    ):
        assert re.search(complaint, str(error.value))


# --- corpora ----------------------------------------------------------------------------------


@pytest.mark.parametrize("capital", [True, False])
def test_timit(tmp_path, capital):
    corpus = load(f"timit={timit(tmp_path / 'ti mit', capital)}")
    assert corpus.units == PHONES
    assert len(corpus.train) + len(corpus.valid) == 2  # without the sa sentences
    (utterance,) = corpus.test  # of the core test set alone
    assert (utterance.speaker, utterance.units) == ("mdab0", ("sil", "sh", "sil", "ih"))
    assert utterance.begins.tolist() == [0, 0.1, 0.3, 0.4]
    assert utterance.ends.tolist() == [0.1, 0.25, 0.4, 0.5]
    assert (len(FOLDED), {*FOLDED.values()}) == (61, {*PHONES, ""})  # without the glottal stop
    for name in (f"M{a}{b}{c}0" for a in "ABC" for b in "ABC" for c in "ABCD"):
        put(tmp_path / "36" / "TRAIN" / "DR1" / name / "SX1.PHN", text="0 9 h#\n")
    listed = lnlab.papers.las.data.list_timit(tmp_path / "36")
    assert [len(listed[split]) for split in ("train", "valid", "test")] == [32, 4, 0]


def test_librispeech(tmp_path):
    corpus = load(f"librispeech={librispeech(tmp_path)}")
    assert [len(split) for split in (corpus.train, corpus.valid, corpus.test)] == [2, 2, 2]
    assert "".join(corpus.train[0].units) == "HE'D WAIT"
    assert corpus.test[0].speaker == "1089"
    put(next(tmp_path.rglob("103-7-0000.flac")), tone(loud=0.2) + 0.01)
    assert corpus.checksum != load(f"librispeech={tmp_path}").checksum


def test_fsdd(tmp_path, few):
    folder = fsdd(tmp_path, speakers=("ann", "bob"))
    words = load(f"fsdd={folder}")
    assert [len(split) for split in (words.train, words.valid, words.test)] == [6, 2, 3]
    for one in words.train:
        assert 3 <= len(one.units) <= 5
        np.testing.assert_allclose(one.ends - one.begins, 0.2)
        assert (one.begins[1:] >= one.ends[:-1]).all()
        assert one.ends[-1] * 8000 == pytest.approx(len(one.samples), abs=1)
    held_out = load(f"fsdd={folder}", held_out_speaker="bob")
    assert {u.speaker for u in (*held_out.train, *held_out.valid)} == {"ann"}
    assert {u.speaker for u in held_out.test} == {"bob"}
    with pytest.raises(ValueError, match="nobody is called 'eve': choose from ann, bob"):
        _ = load(f"fsdd={folder}", held_out_speaker="eve").train


@pytest.mark.parametrize("make", [fsdd, timit, librispeech])
def test_an_archive_is_its_folder_and_lengths_are_known(tmp_path, few, make, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    folder = make(tmp_path / "folder")
    archive = pack(folder, tmp_path / "é archive.tar.gz")
    one, other = (load(f"{make.__name__}={path}") for path in (folder, archive))
    assert one.checksum == other.checksum
    assert all(utterance.num_frames == len(utterance.features) for utterance in one.train)
    nothing = f"{make.__name__}={tmp_path / 'nothing'}"
    with pytest.raises(
        FileNotFoundError, match=f"names no file or folder: .*, and name .*{make.__name__}=PATH"
    ):
        _ = load(nothing).train


@pytest.mark.parametrize(
    ("make", "file", "content", "message"),
    [
        (timit, "*SX127.PHN", b"0 9 h#\n9 99 zz\n", "'9 99 zz' is not BEGIN END PHONE"),
        (timit, "*SX127.WAV", None, r"X127\.WAV is not there"),
        (librispeech, "*.trans.txt", b"103-7-0000 3 PIGS\n", r"\['3'\]"),
        (fsdd, "3_ann_*.wav", None, r"ann says no \[3\]"),
    ],
)
def test_damaged_files_are_named(tmp_path, few, make, file, content, message):
    for path in make(tmp_path).rglob(file):
        path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        _ = load(f"{make.__name__}={tmp_path}").train


# --- features ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8000, 16000])
def test_energies_are_those_of_triangles_and_a_symmetric_hamming_window(rate):
    """Against NumPy, whose window begins and ends with the same 0.08."""
    window, size = rate // 40, 256 * rate // 8000
    filters = recordings.mel_filters(rate, size).numpy()
    assert filters.shape == (FILTERS, size // 2 + 1)
    assert (filters.sum(1) > 0).all(), "a filter without a bin"
    centres = filters.argmax(1)
    np.testing.assert_allclose(filters.sum(0)[centres[1] : centres[-2]], 1)
    sound = np.random.default_rng(0).normal(0, 0.1, window)
    x = np.concatenate([sound[:1], sound[1:] - recordings.EMPHASIS * sound[:-1]])
    power = np.abs(np.fft.rfft(x * np.hamming(window), size)) ** 2
    expected = np.log([*(filters @ power), x @ x])
    # sums of 257 in float64
    np.testing.assert_allclose(
        log_mel_and_log_energy(sound, rate)[0].numpy(), expected, rtol=1e-12
    )


def test_differences_of_a_parabola_are_its_derivatives():
    parabola = torch.arange(20.0)[:, None].double().square()
    frames = append_time_differences(parabola)
    torch.testing.assert_close(frames[2:-2, 1], 2 * torch.arange(2.0, 18).double())
    torch.testing.assert_close(frames[4:-4, 2], torch.full((12,), 2.0))
    assert not append_time_differences(torch.ones(5, 2))[:, 2:].any()


# --- the synthesizer --------------------------------------------------------------------------


def synthesise(phones):
    voice = synthesizer.make_voice(0)
    return synthesizer.synthesize_with_phone_ends(phones, voice, np.random.default_rng(0))


def test_ends_are_those_of_the_samples_and_silence_is_quiet():
    assert {phone for phones in WORDS.values() for phone in phones} == {*PHONES} - {SILENCE}
    assert len({*WORDS.values()}) == len(WORDS), "two words sound alike"
    sound, ends = synthesise(["iy", SILENCE, "aa"])
    assert (sound.dtype, ends[-1]) == (np.float32, len(sound))
    assert (np.diff(ends) > 0).all()
    assert not (ends % FRAME).any()
    assert np.abs(sound).max() == pytest.approx(0.5)
    assert sound[ends[0] + 4 * FRAME : ends[1] - 4 * FRAME].std() < 0.05 * sound.std()
    with pytest.raises(ValueError, match="phones are"):
        synthesise(["k", "q"])
