"""Pictures of a run come back as they were, are cut with their rows, and are hashed."""

import numpy as np
import pytest
import torch

from lnlab.training.runs import PICTURES, Run, keep

DATA = {"name": "digits", "kind": "embedded", "checksum": "abc", "licence": "BSD"}


def begin(root, **config) -> Run:
    return Run.open("las", config, DATA, root)


def canvas(update: int, seed: int) -> np.ndarray:
    return np.random.default_rng([update, seed]).random((3, 5))


def draw(run: Run, update: int, seeds=(0, 1)) -> None:
    for seed in seeds:
        pictures = {
            "attention": torch.tensor(canvas(update, seed)).half(),
            "canvas": (255 * canvas(update, seed)).astype(np.uint8).T,
        }
        run.log({"update": update, "seed": seed}, pictures)


def check(run: Run, updates: list[int]) -> None:
    for seed in (0, 1):
        found = run.pictures(seed)
        assert list(found) == updates
        for update, pictures in found.items():
            right = canvas(update, seed)
            assert np.array_equal(pictures["attention"], right.astype(np.float16))
            assert np.array_equal(pictures["canvas"], (255 * right).astype(np.uint8).T)
            assert pictures["attention"].dtype == np.float16
            assert pictures["canvas"].dtype == np.uint8


def test_they_come_back_from_a_run_on_its_way_done_and_kept(tmp_path):
    with begin(tmp_path / "runs") as run:
        run.log({"update": 0, "seed": 0})
        for update in (1, 5):
            draw(run, update)
        check(Run(run.folder), [1, 5])
        run.finish({}, {})
    check(run, [1, 5])
    assert list(run.metrics()) == ["update", "seed"]
    kept = keep(run, tmp_path / "results")
    check(kept, [1, 5])
    assert kept.pictures(2) == run.pictures(2) == {}
    path = tmp_path / "results" / "las.pictures.xz"
    once = path.read_bytes()
    keep(kept, tmp_path / "results")
    assert path.read_bytes() == once


def test_the_same_pictures_are_the_same_bytes(tmp_path):
    contents = []
    for name in ("first", "second"):
        with begin(tmp_path / name) as run:
            draw(run, 1)
            contents.append(run.content(PICTURES))
    assert contents[0] == contents[1]


def test_those_after_the_checkpoint_are_cut(tmp_path):
    with begin(tmp_path) as run:
        draw(run, 1)
        run.checkpoint({})
        draw(run, 2)
    with begin(tmp_path) as run:
        check(run, [1])
        draw(run, 2)
        run.finish({}, {})
    check(run, [1, 2])


def test_a_run_that_starts_again_has_none(tmp_path):
    with begin(tmp_path) as run:
        draw(run, 1)
    with begin(tmp_path) as run:
        assert run.pictures(0) == {}
        run.finish({}, {})
    assert run.pictures(0) == {}


def test_one_that_is_being_written_is_not_shown(tmp_path):
    with begin(tmp_path) as run:
        draw(run, 1)
        whole = run.content(PICTURES)
        for end in (1, 9, 200, len(whole) - 1):
            (run.folder / PICTURES).write_bytes(whole + whole[:end])
            found = run.pictures(0)
            assert list(found) == [1]


@pytest.mark.parametrize("left", [b"", b"12345678" * 20])
def test_a_change_is_noticed(left, tmp_path):
    with begin(tmp_path) as run:
        draw(run, 1)
        run.checkpoint({})
        whole = run.content(PICTURES)
        (run.folder / PICTURES).write_bytes(left)
        with pytest.raises(
            ValueError, match=r"pictures\.tensors is damaged.*that this run has"
        ):
            draw(run, 2)
    with pytest.raises(ValueError, match=r"pictures\.tensors is damaged"):
        begin(tmp_path)
    (run.folder / PICTURES).write_bytes(whole)
    with begin(tmp_path) as run:
        run.finish({}, {})
    (run.folder / PICTURES).write_bytes(left)
    with pytest.raises(ValueError, match=r"pictures\.tensors is damaged"):
        run.pictures(0)
    (run.folder / PICTURES).unlink()
    with pytest.raises(ValueError, match=r"pictures\.tensors is missing"):
        run.pictures(0)


@pytest.mark.parametrize(
    ("row", "picture", "complaint"),
    [
        ({"update": 1}, np.zeros(2), "needs its update and its seed"),
        ({"update": 1, "seed": 0}, np.zeros(2, int), "'canvas' is int64: float16, "),
        ({"update": 1, "seed": 0}, "a text", "'canvas' is <U6"),
    ],
)
def test_what_is_no_picture_is_refused_and_nothing_is_logged(row, picture, complaint, tmp_path):
    with begin(tmp_path) as run:
        with pytest.raises((ValueError, TypeError), match=complaint):
            run.log(row, {"canvas": picture})
        assert run.metrics().empty
        draw(run, 1)
        run.finish({}, {})
    check(run, [1])
