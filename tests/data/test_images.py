"""What `load` promises: splits, ranges, checksums, and never a substitute."""

import dataclasses
import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from lnlab import data
from lnlab.data import images

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


@pytest.fixture(scope="module")
def mnist_folder() -> Path:
    folder = os.environ.get("LNLAB_TEST_DATA")
    if not folder or not (Path(folder) / "mnist").is_dir():
        pytest.skip("set LNLAB_TEST_DATA to a folder that holds mnist/ with the real files")
    return Path(folder) / "mnist"


def test_digits_are_the_first_1200_and_the_last_597_of_scikit_learn():
    digits = data.load("embedded")
    x, y = load_digits(return_X_y=True)
    assert (digits.kind, digits.shape, digits.classes, digits.valid) == (
        "embedded",
        (8, 8),
        10,
        None,
    )
    assert torch.equal(digits.train.x, torch.tensor(x[:1200] / 16, dtype=torch.float32))
    assert torch.equal(digits.test.x, torch.tensor(x[1200:] / 16, dtype=torch.float32))
    assert torch.equal(digits.train.y, torch.tensor(y[:1200]))
    assert torch.equal(digits.test.y, torch.tensor(y[1200:]))
    assert digits.train.x.dtype == torch.float32
    assert digits.train.y.dtype == torch.int64
    assert digits.checksum == images.DIGITS.checksum


def test_embedded_is_digits_by_another_name():
    assert data.load("digits").checksum == data.load("embedded").checksum


@pytest.mark.parametrize("gz", [False, True])
def test_own_files_gzipped_or_not_are_the_same_data(tmp_path, gz):
    own = data.load(f"idx={write_idx(tmp_path / 'gz', gz=gz)}")
    plain = data.load(f"idx={write_idx(tmp_path / 'plain')}")
    assert (own.kind, own.shape, own.valid) == ("own", (5, 4), None)
    assert len(own.train) == 12
    assert len(own.test) == 6
    assert own.train.x.shape == (12, 20)
    assert own.checksum == plain.checksum


@pytest.mark.parametrize("n", range(4))
def test_checksum_changes_with_one_pixel_or_label_of_any_file(tmp_path, n):
    before = data.load(f"idx={write_idx(tmp_path)}").checksum
    path = tmp_path / list(FILES)[n]
    content = bytearray(path.read_bytes())
    content[-1] = 0 if n == 1 else (content[-1] + 1) % 10
    path.write_bytes(content)
    assert data.load(f"idx={tmp_path}").checksum != before


def test_pixels_are_divided_by_255_and_rows_are_images(tmp_path):
    picture = np.arange(240, dtype=np.uint8).reshape(12, 5, 4)
    own = data.load(f"idx={write_idx(tmp_path, file0=picture)}")
    expected = torch.from_numpy(picture).float() / 255
    assert torch.equal(own.train.x.view(12, 5, 4), expected)


def test_folder_with_a_space_and_an_accent(tmp_path):
    assert len(data.load(f"idx={write_idx(tmp_path / 'données à moi = 1')}").train) == 12


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_idx(tmp_path / "files")
    assert len(data.load("idx=~/files").test) == 6


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifar", "unknown data 'cifar': choose from embedded, digits, mnist, idx"),
        ("", "write embedded, NAME or NAME=PATH"),
        ("mnist=", "write embedded, NAME or NAME=PATH"),
        ("=/tmp", "write embedded, NAME or NAME=PATH"),
        ("embedded=/tmp", "digits is embedded, give no path"),
        ("idx", "idx=PATH"),
    ],
)
def test_a_spec_that_names_nothing_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        _ = data.load(spec).train


def test_mnist_not_fetched_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"lnlab data fetch mnist.*mnist=PATH"):
        _ = data.load("mnist").train


def test_a_missing_file_and_a_missing_folder_are_named(tmp_path):
    (write_idx(tmp_path) / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"no t10k-labels-idx1-ubyte\.gz and no"):
        _ = data.load(f"idx={tmp_path}").train
    with pytest.raises(FileNotFoundError, match="nowhere"):
        _ = data.load(f"mnist={tmp_path / 'nowhere'}").train


def test_files_that_are_not_official_are_no_mnist(tmp_path):
    with pytest.raises(ValueError, match=r"train-images.* not the official file.*ba891046"):
        _ = data.load(f"mnist={write_idx(tmp_path)}").train


def test_counts_and_sizes_must_agree(tmp_path):
    few = np.zeros(11, np.uint8)
    with pytest.raises(ValueError, match=r"12 images in train-.*11 labels in train-"):
        _ = data.load(f"idx={write_idx(tmp_path / 'few', file1=few)}").train
    wide = np.zeros((6, 5, 5), np.uint8)
    with pytest.raises(ValueError, match=r"training images are \(5, 4\), test .*\(5, 5\)"):
        _ = data.load(f"idx={write_idx(tmp_path / 'wide', file2=wide)}").train


LETTERS = np.tile(np.arange(1, 27, dtype=np.uint8), 2)


def letters(folder: Path, train: np.ndarray = LETTERS, test: np.ndarray = LETTERS) -> str:
    pictures = [np.zeros((len(y), 5, 4), np.uint8) for y in (train, test)]
    write_idx(folder, file0=pictures[0], file1=train, file2=pictures[1], file3=test)
    return f"idx={folder}"


def test_letters_are_26_classes_and_the_name_says_that_they_count_from_1(tmp_path):
    own = data.load(letters(tmp_path / "from 1"))
    assert (own.classes, own.name, own.note) == (26, "idx, labels 1 to 26", "labels 1 to 26")
    assert own.train.y.tolist() == (LETTERS - 1).tolist() == own.test.y.tolist()
    other = data.load(letters(tmp_path / "from 0", LETTERS - 1, LETTERS[:3] - 1))
    assert (other.classes, other.name, other.note) == (26, "idx", "")
    assert torch.equal(other.train.y, own.train.y)
    assert other.checksum != own.checksum


def test_a_class_without_a_training_image_is_named_or_said(tmp_path):
    spec = letters(tmp_path, np.array([0, 1, 3, 6], np.uint8), np.array([1, 3], np.uint8))
    with pytest.raises(ValueError, match="labels go from 0 to 6, but no image has 2, 4, 5"):
        _ = data.load(spec).train
    assert data.load(spec, classes=7).classes == 7
    assert data.load(spec, classes=9).train.y.tolist() == [0, 1, 3, 6]
    with pytest.raises(ValueError, match="label 3 is 6, expected 0 to 4"):
        _ = data.load(spec, classes=5).train
    with pytest.raises(ValueError, match="give 1 to 256"):
        data.load(spec, classes=300)
    with pytest.raises(ValueError, match="digits has no option classes: it has none"):
        data.load("embedded", classes=10)


def test_a_label_that_training_does_not_know_is_refused_with_its_place(tmp_path):
    labels = np.array([1, 2, 3, 10, 5, 6], np.uint8)
    with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte: label 3 is 10, expected 0"):
        _ = data.load(f"idx={write_idx(tmp_path, file3=labels)}").train


def test_other_digits_than_the_pinned_ones_are_refused(monkeypatch):
    other = dataclasses.replace(images.DIGITS, checksum="0" * 64)
    monkeypatch.setattr(images, "DIGITS", other)
    monkeypatch.setattr(images, "SOURCES", (other,))
    with pytest.raises(ValueError, match="digits: its cases have checksum 9e7bc1c2"):
        _ = data.load("embedded").train


def test_listing_sources_loads_neither_torch_nor_scikit_learn():
    code = (
        "import sys, lnlab.data as data; data.sources()\n"
        "sys.exit(bool({'torch', 'sklearn', 'requests'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_source_says_what_it_is():
    for source in data.sources():
        assert source.title
        assert source.licence
        assert source.kind in ("official", "embedded", "synthetic", "own")
        assert all(len(file.sha256) == 64 for file in source.files)
        archives = [file.name.endswith(".tar.gz") for file in source.files]
        assert [not file.content_sha256 for file in source.files] == archives
    assert images.MNIST.size == 11_594_722


def test_real_mnist_is_split_as_in_the_paper(mnist_folder):
    mnist = data.load(f"mnist={mnist_folder}")
    assert (mnist.kind, mnist.shape) == ("official", (28, 28))
    assert mnist.valid is not None
    assert (len(mnist.train), len(mnist.valid), len(mnist.test)) == (55_000, 5_000, 10_000)
    assert mnist.train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert mnist.test.y[:5].tolist() == [7, 2, 1, 0, 4]
    assert mnist.train.x.min() == 0
    assert mnist.train.x.max() == 1
    assert mnist.checksum == images.MNIST.checksum


def test_real_mnist_unpacked_or_packed_again_is_the_same(mnist_folder, tmp_path):
    for n, path in enumerate(sorted(mnist_folder.glob("*.gz"))):
        content = gzip.decompress(path.read_bytes())
        if n % 2:
            (tmp_path / path.stem).write_bytes(content)
        else:
            (tmp_path / path.name).write_bytes(gzip.compress(content, 1))
    assert data.load(f"mnist={tmp_path}").checksum == images.MNIST.checksum


def test_real_mnist_files_have_the_pinned_size_and_hash(mnist_folder):
    for file in images.MNIST.files:
        content = (mnist_folder / file.name).read_bytes()
        assert len(content) == file.size
        assert hashlib.sha256(content).hexdigest() == file.sha256
