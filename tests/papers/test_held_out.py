"""Cases that are held out: never trained on, and what is measured of them."""

from dataclasses import replace

import pytest
import torch

from lnlab.papers import mnist, sequential_digits
from lnlab.training import stack, train_steps
from lnlab.training.runs import read

both = pytest.mark.parametrize("kind", [mnist.Experiment, sequential_digits.Experiment])
HELD_OUT = 200


@both
def test_the_last_training_cases_are_held_out(kind):
    task = kind.budget("smoke")
    whole, less = task.dataset(), replace(task, valid_size=HELD_OUT).dataset()
    assert torch.equal(torch.cat([less.train.x, less.valid.x]), whole.train.x)
    assert torch.equal(torch.cat([less.train.y, less.valid.y]), whole.train.y)
    assert len(less.valid) == HELD_OUT
    assert less.checksum == whole.checksum
    assert torch.equal(less.test.x, whole.test.x)


@both
def test_they_are_in_no_batch(kind):
    task = replace(kind.budget("smoke"), valid_size=1000, batch_size=32)
    dataset = task.dataset()
    left = {tuple(x.tolist()) for x in dataset.train.x}
    seen = {
        tuple(x.tolist())
        for batch, _ in task.batches(dataset).epoch(0)
        for x in batch.flatten(0, 1)
    }
    assert len(seen) > 100
    assert seen <= left


@both
def test_without_held_out_cases_a_run_is_what_it_always_was(kind):
    task = kind.budget("smoke")
    assert task.config()["valid_size"] == 0
    assert replace(task, valid_size=9).config()["valid_size"] == 9
    measured = task.evaluate(_same_for_all(task), task.dataset())
    assert {*measured} == {"train_nll", "test_nll", "test_error"}


def _same_for_all(task):
    """Nets that give each class the same probability."""
    models = stack([task.model(seed, task.dataset()) for seed in task.seeds])
    with torch.no_grad():
        for p in models.parameters():
            p.zero_()
    return models


@both
def test_a_net_that_knows_nothing_has_the_nll_of_a_guess(kind):
    task = replace(kind.budget("smoke"), valid_size=HELD_OUT)
    dataset = task.dataset()
    measured = task.evaluate(_same_for_all(task), dataset)
    wrong = float((dataset.valid.y != 0).double().mean())  # the first of equal scores
    for nll, error in zip(measured["valid_nll"], measured["valid_error"], strict=True):
        assert nll == pytest.approx(torch.tensor(10.0).log().item(), abs=1e-6)  # float32
        assert error == pytest.approx(wrong, abs=1e-12)


@both
def test_a_run_measures_them_at_every_evaluation(kind, tmp_path):
    task = replace(kind.budget("smoke"), valid_size=HELD_OUT, epochs=1)
    for _ in train_steps(task, root=tmp_path):
        pass
    (run,) = read(tmp_path)
    assert not run.metrics()[["valid_nll", "valid_error"]].isna().any(axis=None)


def test_something_is_left_to_train_on():
    task = replace(mnist.Experiment.budget("smoke"), valid_size=1200)
    with pytest.raises(ValueError, match="valid_size is 1200: digits has 1200 training cases"):
        task.dataset()
