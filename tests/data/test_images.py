"""Images: splits, ranges and checksums; official files under their name only."""

import gzip
import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from lnlab import data
from lnlab.data import images
from tests.data import layouts

FILES = {
    "train-images-idx3-ubyte": (12, 5, 4),
    "train-labels-idx1-ubyte": (12,),
    "t10k-images-idx3-ubyte": (6, 5, 4),
    "t10k-labels-idx1-ubyte": (6,),
}


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim])
    return header + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_idx(folder: Path, *, gz: bool = False, **changed: np.ndarray) -> Path:
    """Four small IDX files in `folder`; `changed` replaces arrays by position in FILES."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for n, (name, shape) in enumerate(FILES.items()):
        array = rng.integers(0, 256, shape, dtype=np.uint8)
        if len(shape) == 1:
            array = (np.arange(shape[0]) % 10).astype(np.uint8)
        if f"file{n}" in changed:
            array = changed[f"file{n}"]
        content = idx_bytes(array)
        path = folder / (f"{name}.gz" if gz else name)
        path.write_bytes(gzip.compress(content) if gz else content)
    return folder


def test_digits_are_the_first_1200_and_the_last_597_of_scikit_learn():
    digits = data.load("embedded")
    x, y = load_digits(return_X_y=True)
    assert (digits.name, digits.kind) == ("digits", "embedded")
    assert (digits.shape, digits.classes, digits.valid) == ((8, 8), 10, None)
    assert torch.equal(digits.train.x, torch.tensor(x[:1200] / 16, dtype=torch.float32))
    assert torch.equal(digits.test.x, torch.tensor(x[1200:] / 16, dtype=torch.float32))
    assert torch.equal(digits.train.y, torch.tensor(y[:1200]))
    assert torch.equal(digits.test.y, torch.tensor(y[1200:]))
    assert digits.checksum == images.DIGITS.checksum


# MNIST's format.


@pytest.mark.parametrize("gz", [False, True])
def test_own_files_gzipped_or_not_are_the_same_data(tmp_path, monkeypatch, gz):
    monkeypatch.setenv("HOME", str(tmp_path))
    pixels = np.arange(240, dtype=np.uint8).reshape(12, 5, 4)
    write_idx(tmp_path / "données à moi = 1", gz=gz, file0=pixels)
    own = data.load("idx=~/données à moi = 1")
    plain = data.load(f"idx={write_idx(tmp_path / 'plain', file0=pixels)}")
    assert (own.kind, own.shape, own.valid, len(own.test)) == ("own", (5, 4), None, 6)
    assert torch.equal(own.train.x.view(12, 5, 4), torch.from_numpy(pixels).float() / 255)
    assert own.checksum == plain.checksum


IDX = idx_bytes(np.arange(60, dtype=np.uint8).reshape(3, 4, 5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html>", "starts with 3c 21 44 4f .* expected 00 00 08 03"),
        (IDX[:-1], "75 bytes, expected 76 for 3 x 4 x 5"),
        (gzip.compress(IDX)[:-8] + bytes(8), "damaged gzip file: CRC check failed"),
    ],
    ids=["html", "short", "wrong CRC"],
)
def test_a_damaged_idx_file_says_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "some"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"some: {message}"):
        images.read_idx(path, 3)


def test_files_must_be_there_official_and_fit_each_other(tmp_path):
    with pytest.raises(ValueError, match=r"train-images.* not the official file.*ba891046"):
        _ = data.load(f"mnist={write_idx(tmp_path)}").train
    few, wide = np.zeros(11, np.uint8), np.zeros((6, 5, 5), np.uint8)
    with pytest.raises(ValueError, match=r"12 images in train-.*11 labels in train-"):
        _ = data.load(f"idx={write_idx(tmp_path / 'few', file1=few)}").train
    with pytest.raises(ValueError, match=r"training images are \(5, 4\), test .*\(5, 5\)"):
        _ = data.load(f"idx={write_idx(tmp_path / 'wide', file2=wide)}").train
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"no t10k-labels-idx1-ubyte\.gz and no"):
        _ = data.load(f"idx={tmp_path}").train


def test_mnist_validates_with_the_last_5000_training_images(monkeypatch):
    def read(name, ndim, sha256):
        assert len(sha256) == 64
        return np.arange(60_000 if "train" in name else 10_000, dtype=np.uint16)

    monkeypatch.setattr(images, "read_idx", read)
    pixels, _ = images.read_and_check_idx_files({name: name for name in FILES}, images.MNIST)
    sizes = {split: (y[0], len(y)) for split, (_, y) in pixels.items()}
    assert sizes == {"train": (0, 55_000), "test": (0, 10_000), "valid": (55_000, 5_000)}


def test_max_train_keeps_the_first_training_images():
    whole, few = data.load("digits"), data.load("digits", max_train=7)
    assert torch.equal(few.train.x, whole.train.x[:7])
    assert torch.equal(few.test.x, whole.test.x)
    assert few.checksum != whole.checksum


LETTERS = np.tile(np.arange(1, 27, dtype=np.uint8), 2)


def letters(folder: Path, train: np.ndarray = LETTERS, test: np.ndarray = LETTERS) -> str:
    pictures = [np.zeros((len(y), 5, 4), np.uint8) for y in (train, test)]
    write_idx(folder, file0=pictures[0], file1=train, file2=pictures[1], file3=test)
    return f"idx={folder}"


def test_labels_count_from_0_or_from_1_as_those_of_letters(tmp_path):
    own = data.load(letters(tmp_path / "from 1"))
    assert (own.classes, own.name, own.note) == (26, "idx, labels 1 to 26", "labels 1 to 26")
    assert own.train.y.tolist() == (LETTERS - 1).tolist() == own.test.y.tolist()
    other = data.load(letters(tmp_path / "from 0", LETTERS[3:] - 1, LETTERS[:3] - 1))
    assert (other.classes, other.name, other.note) == (26, "idx", "")
    assert other.test.y.tolist() == [0, 1, 2]
    assert other.checksum != own.checksum


# CIFAR-10.

BATCH = layouts.CIFAR_BATCH


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(images, "BATCH", BATCH)
    monkeypatch.setattr(images, "VALID", 20)


def parse(content: bytes):
    return images.parse_cifar10(content, Path("data_batch_1"))


def test_a_pickle_gives_what_unpickling_gives(small_batches):
    content = layouts.cifar_batch("data_batch_1")
    pictures, labels = parse(content)
    plain = pickle.loads(content)
    assert np.array_equal(pictures.reshape(BATCH, -1), plain["data"])
    assert labels.tolist() == plain["labels"]


class Command:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_a_pickle_cannot_run_anything(small_batches, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"it asks for posix\.system, which is no array"):
        parse(layouts.cifar_batch("data_batch_1", more=Command()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "changed", [{"labels": [3, 10] * 10}, {"data": np.zeros((BATCH, 3072), np.float32)}]
)
def test_a_wrong_batch_is_named(small_batches, changed):
    with pytest.raises(ValueError, match=r"data_batch_1 is damaged.*20 x 3072 bytes and 20"):
        parse(layouts.cifar_batch("data_batch_1", **changed))
    with pytest.raises(ValueError, match="data_batch_1 is damaged, or no pickle of CIFAR-10"):
        parse(layouts.cifar_batch("data_batch_1")[:-100])


def test_the_archive_and_its_folder_are_the_same(small_batches, tmp_path, monkeypatch):
    archive = layouts.cifar10_archive(tmp_path)
    inner = tmp_path / "files" / images.CIFAR10_FOLDER
    datasets = [
        data.load(f"cifar10={path}") for path in (archive, tmp_path, inner.parent, inner)
    ]
    assert len({one.checksum for one in datasets}) == 1
    cifar = datasets[0]
    assert (cifar.shape, cifar.class_names) == ((3, 32, 32), images.CIFAR10_NAMES)
    assert cifar.name == "cifar10, not the official files"
    assert cifar.valid is not None
    assert [len(part) for part in (cifar.train, cifar.valid, cifar.test)] == [80, 20, 20]
    batch = images.parse_cifar10((inner / "data_batch_1").read_bytes(), inner)[0]
    assert torch.equal(cifar.train.x[:20], torch.tensor(batch.reshape(20, -1) / 255).float())
    md5 = {name: hashlib.md5((inner / name).read_bytes()) for name in images.CIFAR10_MD5}
    monkeypatch.setattr(images, "CIFAR10_MD5", {n: h.hexdigest() for n, h in md5.items()})
    assert images.read_cifar10(images.find_or_unpack_cifar10(inner))[1] == ""
    (inner / "data_batch_4").unlink()
    with pytest.raises(FileNotFoundError, match=r"cifar10 is not whole in .*data_batch_4"):
        data.load(f"cifar10={inner}")


# Binary images.


def test_lines_of_digits_are_pictures(tmp_path, monkeypatch):
    x = np.random.default_rng(0).integers(0, 2, (3, 784))
    lines = "".join(" ".join(map(str, row)) + "\n" for row in x.tolist()).encode()
    for file in images.MNIST_BINARY.files:
        (tmp_path / file.name).write_bytes(lines)
    with pytest.raises(ValueError, match="not the official file"):
        _ = data.load(f"mnist-binary={tmp_path}").train
    monkeypatch.setattr(images, "read_bytes", lambda path, sha256: path.read_bytes())
    files = {path.name: path for path in tmp_path.iterdir()}
    pixels, note = images.read_binarized_mnist(files, 2)
    assert [len(y) for _, y in pixels.values()] == [2, 3, 3]
    assert (pixels["test"][0].reshape(3, -1) == x).all()
    assert note == "2 pictures to train on"


def test_digits_are_split_before_they_are_moved():
    digits = data.load("digits-binary")
    labels = torch.tensor(load_digits().target)
    splits = (
        (digits.train, 0, 1000, 5),
        (digits.valid, 1000, 1200, 2),
        (digits.test, 1200, 1797, 1),
    )
    for part, first, end, views in splits:
        assert torch.equal(part.y.bincount(), views * labels[first:end].bincount())
        assert set(part.x.unique().tolist()) == {0.0, 1.0}
