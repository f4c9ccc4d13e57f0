"""CIFAR-10 is read from its pickles, which nobody runs, or an error names what is wrong."""

import dataclasses
import hashlib
import os
import pickle
import random
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

import lnlab.data.images
from lnlab import data
from lnlab.data import download, images
from tests.data import layouts
from tests.data.test_download import send, serving
from tests.data.test_mutations import mutated

BATCH = layouts.CIFAR_BATCH


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(lnlab.data.images, "BATCH", BATCH)
    monkeypatch.setattr(lnlab.data.images, "VALID", 20)


def parsed(content: bytes, name: str = "data_batch_1"):
    return lnlab.data.images.parsed(content, name, name)


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("encoded", [False, True])
def test_what_a_pickle_holds_is_what_unpickling_gives(protocol, encoded):
    plain = pickle.loads(layouts.cifar_batch("data_batch_1"))
    whole = {key.encode() if encoded else key: value for key, value in plain.items()}
    pictures, labels = parsed(pickle.dumps(whole, protocol=protocol))
    assert np.array_equal(pictures.reshape(BATCH, -1), plain["data"])
    assert labels.tolist() == plain["labels"]


@pytest.mark.parametrize("protocol", [0, 1, 5])
def test_another_kind_of_pickle_is_refused(protocol):
    plain = pickle.loads(layouts.cifar_batch("data_batch_1"))
    with pytest.raises(ValueError, match="data_batch_1 has no batch_label, no labels"):
        parsed(pickle.dumps(plain, protocol=protocol))


class Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_a_pickle_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="no data of unsigned bytes"):
        parsed(layouts.cifar_batch("data_batch_1", data=Runs()))
    parsed(layouts.cifar_batch("data_batch_1", more=Runs()))
    assert not list(tmp_path.iterdir())


WRONG = {
    "labels out of range": ({"labels": [3, 10] * 10}, "label 1 is 10, expected 0 to 9"),
    "a label below": ({"labels": [-1] * BATCH}, "label 0 is -1, expected 0 to 9"),
    "too few labels": ({"labels": [1] * 19}, "19 labels and 61,440 bytes of pictures, expe"),
    "another size": (
        {"data": np.zeros((BATCH, 784), np.uint8)},
        r"20 labels and 15,680 bytes of pictures, expected 20 and 61,440: 3 x 32 x 32 bytes a",
    ),
    "another type": ({"data": np.zeros((BATCH, 3072), np.float32)}, "no data of unsigned byt"),
    "by columns": (
        {"data": np.zeros((BATCH, 3072), np.uint8, order="F")}, "unsigned bytes, row by row"
    ),
    "another batch": (
        {"batch_label": "training batch 2 of 5"},
        "data_batch_1 calls itself 'training batch 2 of 5', expected 'training batch 1 of 5'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_batch_is_named(what):
    changed, message = WRONG[what]
    with pytest.raises(ValueError, match=message):
        parsed(layouts.cifar_batch("data_batch_1", **changed))


def test_a_damaged_file_is_refused_or_read(full):
    content = layouts.cifar_batch("data_batch_1")
    chance, refused = random.Random(5), 0
    for _ in range(2_000 if full else 200):
        try:
            pictures, labels = parsed(mutated(content, chance))
        except ValueError as error:
            refused += "data_batch_1" in str(error)
        else:
            assert pictures.shape == (BATCH, 3, 32, 32)
            assert labels.max() < 10
    assert refused > 50


def test_the_folder_the_archive_and_the_folder_of_either_are_the_same(tmp_path):
    archive = layouts.cifar10_archive(tmp_path)
    inner = tmp_path / "files" / "cifar-10-batches-py"
    places = [archive, tmp_path, inner.parent, inner]
    found = [data.load(f"cifar10={place}") for place in places]
    assert len({one.checksum for one in found}) == 1
    assert (found[0].shape, found[0].classes, found[0].names) == (
        (3, 32, 32), 10, lnlab.data.images.NAMES,
    )  # fmt: skip
    assert found[0].name == "cifar10, not the official files"
    first = pickle.loads((inner / "data_batch_1").read_bytes())["data"]
    expected = torch.from_numpy(first).float() / 255
    assert torch.equal(found[0].train.x[:BATCH], expected)
    assert found[0].valid is not None
    assert [len(part) for part in (found[0].train, found[0].valid, found[0].test)] == [
        80, 20, 20,
    ]  # fmt: skip
    some = data.load(f"cifar10={inner}", most=30)
    assert torch.equal(some.train.x, found[0].train.x[:30])
    assert torch.equal(some.valid.x, found[0].valid.x)


def test_official_files_are_known_by_their_sums(tmp_path, monkeypatch):
    place = layouts.cifar10(tmp_path) / lnlab.data.images.FOLDER
    sums = {
        name: hashlib.md5((place / name).read_bytes()).hexdigest()
        for name in lnlab.data.images.MEMBERS
    }
    monkeypatch.setattr(lnlab.data.images, "MEMBERS", sums)
    assert data.load(f"cifar10={place}").name == "cifar10"


def test_members_that_are_cut_off_left_out_or_renamed_are_named(tmp_path):
    whole = layouts.cifar10_archive(tmp_path / "whole")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"cut\.tar\.gz is damaged, or no \.tar\.gz"):
        data.load(f"cifar10={cut}")
    folder = tmp_path / "whole" / "files" / lnlab.data.images.FOLDER
    renamed = tmp_path / "renamed.tar.gz"
    names = ["data_batch_1", "data_batch_3", "data_batch_2", "data_batch_4", "data_batch_5"]
    with tarfile.open(renamed, "w:gz") as archive:
        for path, name in zip(sorted(folder.iterdir()), [*names, "test_batch"], strict=True):
            archive.add(path, f"{lnlab.data.images.FOLDER}/{name}")
    with pytest.raises(ValueError, match=r"data_batch_2 calls itself 'training batch 3 of 5'"):
        _ = data.load(f"cifar10={renamed}").train
    (folder / "data_batch_4").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"cifar10: no data_batch_4 in .* it needs data_"
    ):
        data.load(f"cifar10={folder}")


def test_it_is_downloaded_verified_and_read(tmp_path, monkeypatch):
    content = layouts.cifar10_archive(tmp_path / "made").read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    file = dataclasses.replace(images.CIFAR10.files[0], size=len(content), sha256=sha256)
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(FileNotFoundError, match="lnlab data fetch cifar10"):
        data.load("cifar10")
    with serving(lambda request: send(request, content)) as server:
        source = dataclasses.replace(images.CIFAR10, files=(file,), urls=(server.url,))
        download.fetch(source, progress=False)
        assert server.asked == [("/cifar-10-python.tar.gz", None)]
        wrong = dataclasses.replace(source, files=(dataclasses.replace(file, sha256="0" * 64),))
        with pytest.raises(ConnectionError, match=f"sha256 {sha256}, expected 0000"):
            download.fetch(wrong, tmp_path / "wrong", pauses=(0,), progress=False)
    assert len(data.load("cifar10").train) == 80


def test_the_real_pictures(monkeypatch):
    root = os.environ.get("LNLAB_TEST_DATA")
    place = Path(root or "", "cifar10")
    if not root or not (place / lnlab.data.images.FOLDER).is_dir():
        pytest.skip("set LNLAB_TEST_DATA to a folder that holds cifar10/cifar-10-batches-py")
    monkeypatch.setattr(lnlab.data.images, "BATCH", 10_000)
    monkeypatch.setattr(lnlab.data.images, "VALID", 5_000)
    found = data.load(f"cifar10={place}", most=5_000)
    assert found.valid is not None
    assert (len(found.train), len(found.valid), len(found.test)) == (5_000, 5_000, 10_000)
    assert found.train.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert torch.bincount(found.test.y).tolist() == [1_000] * 10
