"""A run on a device is the run on the CPU to rounding, and its steps never wait."""

import math

import pytest
import torch

from lnlab.papers import EXPERIMENTS
from lnlab.training import find_run, train_steps
from lnlab.training.runs import read

pytestmark = pytest.mark.gpu

every_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


def numbers(run):
    frame = run.metrics().drop(columns=["seconds", "cpu_seconds"])
    return frame.select_dtypes("number")


@every_experiment
def test_an_update_reads_nothing_from_the_device(name, tmp_path, device, monkeypatch):
    from tests.pretend import waited

    experiment = EXPERIMENTS[name].budget("smoke", updates=3, seeds=(0,))
    best = {experiment.best_metric: [0.0]} if experiment.best_metric else {}
    monkeypatch.setattr(type(experiment), "evaluate", lambda *_: best)
    monkeypatch.setattr(type(experiment), "full_evaluation_updates", lambda *_: {0})
    monkeypatch.setattr(type(experiment), "light_evaluation_updates", lambda *_: ())
    steps = train_steps(experiment, root=tmp_path, device=device, save_every=math.inf)
    next(steps)
    waited.clear()
    next(steps)
    assert not waited
    steps.close()


NOISE = ("draw", "batch_layer_norm_reviews")
"""Experiments that draw numbers on the device: the CPU's on the pretended one alone."""


@every_experiment
def test_every_experiment_has_the_numbers_of_the_cpu(name, tmp_path, device):
    if name in NOISE and device.type != "pretend":
        pytest.skip(f"{name} draws noise on the device, whose numbers are its own")
    if name == "las":
        pytest.skip("its search takes minutes on the pretended device")
    experiment = EXPERIMENTS[name].budget("smoke", updates=1, seeds=(0,))
    measured = []
    for where in ("cpu", device):
        assert list(train_steps(experiment, root=tmp_path, device=where))
        run = find_run(experiment, root=tmp_path, device=where)
        measured.append(torch.tensor(numbers(run).to_numpy(float)))
    # float32, other orders of summation
    torch.testing.assert_close(*measured, rtol=1e-3, atol=1e-4, equal_nan=True)


class Killed(Exception):
    """Stands for the end of a process."""


@every_experiment
def test_a_run_that_is_killed_goes_on_to_the_same_weights(name, tmp_path, device, monkeypatch):
    experiment = EXPERIMENTS[name].budget("smoke", updates=2, seeds=(0,))
    best = {experiment.best_metric: [0.0]} if experiment.best_metric else {}
    monkeypatch.setattr(type(experiment), "evaluate", lambda *_: best)
    assert len([*train_steps(experiment, root=tmp_path / "whole", device=device)]) == 2
    steps = train_steps(experiment, root=tmp_path / "cut", device=device, save_every=0)
    next(steps)
    with pytest.raises(Killed):  # a process that is killed saves nothing more
        steps.throw(Killed)
    (step,) = train_steps(experiment, root=tmp_path / "cut", device=device)
    assert step.update == 2
    (whole,), (resumed,) = (read(tmp_path / folder) for folder in ("whole", "cut"))
    assert numbers(resumed).equals(numbers(whole))
    weights = resumed.weights()
    assert weights.keys() == whole.weights().keys() != set()
    assert all(torch.equal(weights[n], value) for n, value in whole.weights().items())
