"""Pictures in black and white: official files byte by byte, and digits that are made here."""

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from lnlab import data
from lnlab.data import images

WIDE = 2 * 28 * 28


def lines(x):
    """Pictures (N, 784) as the official files write them."""
    return "".join(" ".join(map(str, row)) + "\n" for row in x.tolist()).encode()


def some(n=3):
    return np.random.default_rng(0).integers(0, 2, (n, 784))


def written(folder, content=None):
    """The three files in a folder, of three pictures each."""
    for split in images.SPLITS:
        (folder / f"binarized_mnist_{split}.amat").write_bytes(content or lines(some()))
    return folder


def test_lines_are_pictures():
    x = images.parse_binarized(lines(some()), "file")
    assert x.shape == (3, 28, 28)
    assert (x.reshape(3, -1) == some()).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-1], r"4,703 bytes, expected lines of 784 digits"),
        (lambda text: b"", r"0 bytes"),
        (lambda text: text[:2] + b"7" + text[3:], r"pixel 1 of picture 0 is '7', expected 0"),
        (lambda text: text[:WIDE] + b"." + text[WIDE + 1 :], r"pixel 0 of picture 1 is '\.'"),
        (lambda text: text[:1] + b"\t" + text[2:], r"line 0 is not 784 digits"),
        (lambda text: text.replace(b"\n", b" "), r"line 0 is not 784 digits"),
    ],
)
def test_text_that_is_not_such_lines_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=f"some.amat: {message}"):
        images.parse_binarized(change(lines(some())), "some.amat")


def test_files_that_are_not_there_or_not_official_are_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no binarized_mnist_train\.amat and no"):
        data.load(f"mnist-binary={tmp_path}")
    found = data.load(f"mnist-binary={written(tmp_path)}")
    with pytest.raises(ValueError, match=r"train\.amat: not the official file"):
        found.train  # noqa: B018
    (tmp_path / "binarized_mnist_train.amat").write_bytes(gzip.compress(lines(some()))[:-9])
    with pytest.raises(ValueError, match="gzip"):
        images.read_binarized(images.binarized_files(tmp_path))


def test_a_file_is_read_no_further_than_it_can_be_long(tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(bytes(50_000_000), 1))
    assert len(images.unpack_bits(path, 1000)) <= 2 * images.CHUNK


@pytest.mark.parametrize("packed", [False, True])
def test_files_of_the_known_hash_are_read(tmp_path, monkeypatch, packed):
    content = lines(some())
    sha256 = hashlib.sha256(content).hexdigest()
    files = tuple(
        images.File(f"binarized_mnist_{split}.amat", len(content), sha256, sha256)
        for split in images.SPLITS
    )
    monkeypatch.setattr(images, "MNIST_BINARY", data.Source(**{
        name: getattr(images.MNIST_BINARY, name)
        for name in ("name", "title", "kind", "licence", "citation", "offers", "options")
    }, files=files))  # fmt: skip
    for split in images.SPLITS:
        name = f"binarized_mnist_{split}.amat" + (".gz" if packed else "")
        (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    pixels, note = images.read_binarized(images.binarized_files(tmp_path), 2)
    assert [len(pixels[split][0]) for split in images.SPLITS] == [2, 3, 3]
    assert note == "2 pictures to train on"
    assert not pixels["test"][1].any()


def test_real_files_are_those_of_larochelle_and_murray():
    folder = Path(os.environ.get("LNLAB_TEST_DATA", "")) / "mnist"
    if not list(folder.glob("binarized_mnist_*")):
        pytest.skip("set LNLAB_TEST_DATA to a folder whose mnist/ has the three files")
    found = data.load(f"mnist-binary={folder}")
    assert found.valid is not None
    assert [len(part) for part in (found.train, found.valid, found.test)] == [
        50_000, 10_000, 10_000,
    ]  # fmt: skip
    assert (found.kind, found.shape, found.classes) == ("official", (28, 28), 1)
    assert set(found.test.x.unique().tolist()) == {0.0, 1.0}
    assert 0.13 < float(found.train.x.mean()) < 0.131


def test_digits_are_parted_before_they_are_moved():
    found = data.load("digits-binary")
    assert found.valid is not None
    labels = torch.tensor(load_digits().target)
    for split, (first, behind, views) in images.PARTS.items():
        part = getattr(found, split)
        assert part.x.shape == (views * (behind - first), 256)
        assert torch.equal(part.y.bincount(), views * labels[first:behind].bincount())
        assert set(part.x.unique().tolist()) == {0.0, 1.0}


def test_black_and_white_are_drawn_of_the_grey():
    levels, drawn = (data.load("digits-binary", grey=grey) for grey in (True, False))
    x, b = levels.train.x, drawn.train.x
    assert torch.equal(b[x == 0], torch.zeros_like(b[x == 0]))
    assert torch.equal(b[x == 1], torch.ones_like(b[x == 1]))
    between = (x > 0.4) & (x < 0.6)
    assert between.sum() > 1000
    assert float(b[between].mean()) == pytest.approx(float(x[between].mean()), abs=0.02)
    assert levels.name == "digits-binary, grey"


def test_a_digit_that_is_not_moved_is_its_own_enlargement(monkeypatch):
    for name in ("TURN", "STRETCH", "SHIFT"):
        monkeypatch.setattr(images, name, 0.0)
    digit = np.zeros((8, 8))
    digit[2:6, 1:4] = 1
    found = images._moved(digit, np.random.default_rng(0))
    assert found.shape == (16, 16)
    twice = np.kron(digit, np.ones((2, 2)))
    assert abs(found - twice).max() < 0.5
    assert ((found > 0.5) == twice).all()
