"""Pictures made here: which shape it is can be read from the middle and nowhere else."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from lnlab import data
from lnlab.data import shapes

FEW = {"train": 1_000, "valid": 500, "test": 500}


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(shapes, "SIZES", FEW)


def frame(pictures: np.ndarray) -> np.ndarray:
    """The pixels (N, 3, ...) that are no further than FRAME from the border."""
    middle = np.s_[shapes.FRAME : -shapes.FRAME]
    outer = np.ones(pictures.shape[2:], bool)
    outer[middle, middle] = False
    return pictures[:, :, outer]


def test_the_frame_is_the_same_whatever_the_shape_is():
    classes = np.arange(200) % 10
    one = shapes.draw_rgb_shapes(classes, np.random.default_rng(3))
    other = shapes.draw_rgb_shapes((classes + 1) % 10, np.random.default_rng(3))
    assert np.array_equal(frame(one), frame(other))
    assert (one != other).reshape(200, -1).any(1).all()


def test_who_reads_frames_guesses(few):
    """Chance is a tenth."""
    pixels = shapes.make_shapes()
    (x, y), (x_test, y_test) = pixels["train"], pixels["test"]
    reader = RidgeClassifier().fit(frame(x).reshape(len(x), -1) / 255.0, y)
    right = reader.score(frame(x_test).reshape(len(x_test), -1) / 255.0, y_test)
    assert abs(right - 0.1) < 4 * (0.1 * 0.9 / len(y_test)) ** 0.5  # 4 standard errors


@pytest.mark.parametrize("name", shapes.NAMES)
def test_a_shape_lies_in_the_unit_disc_and_is_no_other(name):
    u, v = np.meshgrid(*[np.linspace(-1.5, 1.5, 61)] * 2)
    inside = shapes.DEPTHS[name](u, v) > 0
    assert not (inside & (np.hypot(u, v) > 1.0 + 1e-9)).any()
    assert inside.sum() > 60
    for other in set(shapes.NAMES) - {name}:
        assert (inside != (shapes.DEPTHS[other](u, v) > 0)).sum() > 60


def test_each_class_is_there_as_often(few):
    made = data.load("shapes")
    assert np.bincount(made.train.y).tolist() == [100] * 10
    assert (made.shape, made.classes, made.class_names) == ((3, 32, 32), 10, shapes.NAMES)
    part = data.load("shapes", max_train=120)
    assert part.train.x.equal(made.train.x[:120])
