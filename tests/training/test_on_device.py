"""A run on a device is the run on the CPU to rounding, and its steps never wait."""

import math

import pytest
import torch

from lnlab.papers import EXPERIMENTS, las, mnist, sequential_digits
from lnlab.papers.las.evaluate import measure_training
from lnlab.training import find_run, train_steps
from lnlab.training.runs import read

pytestmark = pytest.mark.gpu

SMALL = [
    *mnist.Experiment.arms("smoke").values(),
    mnist.Experiment.budget("smoke", step_effects=True),
    # four steps of time, some twenty updates
    sequential_digits.Experiment.budget(
        "smoke", pixels_per_step=16, batch_size=64, gradient_factor=True
    ),
    *sequential_digits.Experiment.arms("smoke", pixels_per_step=16, batch_size=64).values(),
]
RAGGED = [las.Experiment.budget("smoke", norm="both", train_size=16)]


def label(task):
    more = getattr(task, "step_effects", False) or getattr(task, "gradient_factor", False)
    return f"{task.name} {task.norm}" + ", more" * more


def metrics(task, root, device):
    return numbers(find_run(task, root=root, device=device))


def numbers(run):
    frame = run.metrics().drop(columns=["seconds", "cpu_seconds"])
    return frame.select_dtypes("number")


def trained_without_a_wait(task, root, device):
    """Train; on the pretended device nothing is read from it between two evaluations."""
    from tests.pretend import waited

    per_epoch = len(task.dataset().train.x) // task.batch_size
    points = {*task.eval_points(per_epoch), task.epochs * per_epoch}
    steps = train_steps(
        task, root=root, device=device, save_every=math.inf
    )  # saving waits, too
    next(steps)
    waited.clear()
    counted = 0
    for step in steps:
        if step.update not in points:
            assert not waited, f"update {step.update} waits for the device: {dict(waited)}"
            counted += 1
        waited.clear()
    assert counted


@pytest.mark.parametrize("task", SMALL, ids=label)
def test_a_run_has_the_numbers_of_the_cpu_and_never_waits(task, tmp_path, device):
    assert list(train_steps(task, root=tmp_path, device="cpu"))
    trained_without_a_wait(task, tmp_path, device)
    expected = metrics(task, tmp_path, "cpu").to_numpy(float)
    measured = metrics(task, tmp_path, device).to_numpy(float)
    # float32, other orders of summation, some twenty updates
    torch.testing.assert_close(
        torch.tensor(measured), torch.tensor(expected), rtol=1e-4, atol=1e-5, equal_nan=True
    )


THREE = {"updates": 3, "seeds": (0,)}
EVERY = [
    *(kind.budget("smoke", **THREE) for kind in EXPERIMENTS.values()),
    las.Experiment.budget("smoke", **THREE, norm="none"),
    las.Experiment.budget("smoke", **THREE, norm="both", encoder_norm="time masked"),
    EXPERIMENTS["attentive_reader"].budget("smoke", **THREE, norm="batch everywhere"),
    EXPERIMENTS["attentive_reader"].budget("smoke", **THREE, norm="batch", padding="cyclic"),
]
REFERENCES = [
    EXPERIMENTS[name].budget("smoke", **THREE | {"updates": 1}, fused=False)
    for name in (
        "sequential_digits",
        "las",
        "transformer",
        "order_embeddings",
        "attentive_reader",
        "draw",
        "skip_thoughts",
        "handwriting",
    )
]
"""The tasks whose nets are computed in another way where ``fused`` is off."""


@pytest.mark.parametrize("task", EVERY, ids=label)
def test_an_update_reads_nothing_from_the_device(task, tmp_path, device, monkeypatch):
    from tests.pretend import waited

    best = {task.best_metric: [0.0]} if task.best_metric else {}
    monkeypatch.setattr(type(task), "evaluate", lambda *_: best)
    monkeypatch.setattr(type(task), "eval_points", lambda *_: {0})
    monkeypatch.setattr(type(task), "log_points", lambda *_: ())
    steps = train_steps(task, root=tmp_path, device=device, save_every=math.inf)
    next(steps), waited.clear()
    next(steps)
    assert not waited
    steps.close()


@pytest.mark.parametrize("task", REFERENCES, ids=label)
def test_a_reference_is_where_its_weights_are(task, tmp_path, device, monkeypatch):
    best = {task.best_metric: [0.0]} if task.best_metric else {}
    monkeypatch.setattr(type(task), "evaluate", lambda *_: best)
    assert len([*train_steps(task, root=tmp_path, device=device)]) == 1


NOISE_THERE = ("draw", "batch_layer_norm_reviews")
"""The tasks that draw numbers on the device in training, DRAW's z and dropped words: the CPU's
on the pretended one alone."""


@pytest.mark.parametrize("kind", [EXPERIMENTS[name] for name in EXPERIMENTS if name != "las"])
def test_every_task_has_the_numbers_of_the_cpu(kind, tmp_path, device):
    """All that a task measures before and after an update, whatever it is about.

    Recognizers, whose search takes minutes on the pretended device, have a test of their own.
    """
    if kind.name in NOISE_THERE and device.type != "pretend":
        pytest.skip(f"{kind.name} draws noise on the device, whose numbers are its own")
    task = kind.budget("smoke", updates=1, seeds=(0,))
    for where in ("cpu", device):
        assert list(train_steps(task, root=tmp_path, device=where))
    expected, measured = (metrics(task, tmp_path, d).to_numpy(float) for d in ("cpu", device))
    # float32, other orders of summation
    torch.testing.assert_close(
        torch.tensor(measured), torch.tensor(expected), rtol=1e-3, atol=1e-4, equal_nan=True
    )


@pytest.mark.parametrize("task", RAGGED, ids=label)
def test_a_recognizer_has_the_numbers_of_the_cpu(task, tmp_path, device):
    for where in ("cpu", device):
        assert list(train_steps(task, root=tmp_path, device=where))
    names = ["loss", "test_nll", "entropy"]
    expected, measured = (metrics(task, tmp_path, d)[names] for d in ("cpu", device))
    # float32, other orders of summation
    torch.testing.assert_close(
        torch.tensor(measured.to_numpy(float)),
        torch.tensor(expected.to_numpy(float)),
        rtol=1e-3,
        atol=1e-4,
        equal_nan=True,
    )


@pytest.mark.parametrize("task", RAGGED, ids=label)
def test_the_inside_of_a_recognizer_is_that_of_the_cpu(task, device):
    """In double precision: in single the gradient is off by up to a thousandth."""
    dataset, found = task.dataset(), []
    for where in ("cpu", device):
        seen = measure_training(task.model(0, dataset).double().to(where), dataset)
        found.append(
            {name: seen[name] for name in ("lipschitz", "loss_range", "beta_smoothness")}
        )
    assert found[1] == pytest.approx(found[0], rel=1e-6)


TWO = {"updates": 2, "seeds": (0,)}
ARMS = [task for kind in EXPERIMENTS.values() for task in kind.arms("smoke", **TWO).values()]


@pytest.mark.parametrize("task", ARMS, ids=label)
def test_a_run_that_is_killed_goes_on_to_the_same_weights(task, tmp_path, device, monkeypatch):
    best = {task.best_metric: [0.0]} if task.best_metric else {}
    monkeypatch.setattr(type(task), "evaluate", lambda *_: best)
    assert [
        step.update for step in train_steps(task, root=tmp_path / "whole", device=device)
    ] == [
        1,
        2,
    ]
    steps = train_steps(task, root=tmp_path / "cut", device=device, save_every=0)
    next(steps)
    with pytest.raises(Killed):  # a process that is killed saves nothing more
        steps.throw(Killed)
    assert [
        step.update for step in train_steps(task, root=tmp_path / "cut", device=device)
    ] == [2]
    (whole,), (gone_on,) = (read(tmp_path / name) for name in ("whole", "cut"))
    assert numbers(gone_on).equals(numbers(whole))
    expected, weights = whole.weights(), gone_on.weights()
    assert expected.keys() == weights.keys() != set()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


class Killed(Exception):
    """Stands for the end of a process."""
