"""Digits read as sequences: arms start alike, and seeds together are the seeds one by one."""

import json
from dataclasses import replace

import pytest
import torch

from lnlab.nn import CELL_INITS, LayerNorm, RecurrentBatchNorm
from lnlab.nn.recurrent import Recurrent
from lnlab.papers.sequential_digits import ARMS, CELLS, Experiment
from lnlab.training import stack, train_steps
from lnlab.training.random_state import default_dtype
from lnlab.training.runs import read

every_arm = pytest.mark.parametrize("arm", ARMS)


@pytest.fixture(scope="module")
def digits():
    return Experiment.budget("smoke").dataset()


def weights(model):
    return {n: p for n, p in model.named_parameters() if "norm" not in n}


@pytest.mark.parametrize("initialisation", CELL_INITS)
@pytest.mark.parametrize("cell", CELLS)
def test_arms_start_from_the_same_weights(cell, initialisation, digits):
    tasks = Experiment.arms("smoke", cell=cell, initialisation=initialisation).values()
    first, *others = (weights(task.model(3, digits)) for task in tasks)
    torch.manual_seed(99)  # the caller's random numbers do not matter
    for other in [*others, weights(next(iter(tasks)).model(3, digits))]:
        shared = first.keys() & other.keys()
        assert {"layer.cells.0.W_x", "layer.cells.0.W_h", "readout.W"} <= shared
        assert all(torch.equal(first[name], other[name]) for name in shared)


def test_every_normalizer_starts_with_the_gain(digits):
    for arm, kind in (("layer", LayerNorm), ("batch", RecurrentBatchNorm)):
        net = Experiment.budget("smoke", norm=arm, gain=0.3).model(0, digits)
        gains = [part.g for part in net.modules() if isinstance(part, kind)]
        assert len(gains) == 3  # eq. 20 and 22
        assert all((g == 0.3).all() for g in gains)


@every_arm
def test_the_net_reads_the_pixels_in_their_order(arm, digits):
    net = Experiment.budget("smoke", norm=arm, fused=False).model(0, digits).double().eval()
    x = digits.test.x[:5].double()
    state = None
    for row in x.unflatten(1, (8, 8)).unbind(1):
        y, state = net.layer.unroll(net.layer.cells[0], row[None], state)
    if arm != "batch":  # which counts its steps from the start of a call
        torch.testing.assert_close(net(x), net.readout(y[0]), rtol=0, atol=1e-13)  # rounding
    assert net(x).shape == (5, 10)
    assert not torch.equal(net(x), net(x.flip(1)))


@every_arm
def test_seeds_together_are_the_seeds_one_by_one(arm, digits):
    task = Experiment.budget("smoke", norm=arm)
    alone = [task.model(seed, digits).double() for seed in task.seeds]
    together = stack([task.model(seed, digits) for seed in task.seeds]).double()
    assert any(part.opaque for part in together.modules() if isinstance(part, Recurrent))
    x = digits.train.x[:12].double().expand(2, 12, 64)
    for _ in range(2):  # running statistics too
        ours = together(x)
        theirs = torch.stack([net(x[0]) for net in alone])
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)  # roundings
    ours.square().sum().backward()
    theirs.square().sum().backward()
    slopes = dict(together.module.named_parameters())
    for index, net in enumerate(alone):
        for name, p in net.named_parameters():
            torch.testing.assert_close(slopes[name].grad[index], p.grad, rtol=1e-9, atol=1e-12)
        for name, b in net.named_buffers():
            torch.testing.assert_close(dict(together.module.named_buffers())[name][index], b)


def test_a_run_is_resumed_and_names_what_it_is(tmp_path):
    task = Experiment.budget("smoke", norm="batch", gain=0.1)
    steps = train_steps(task, root=tmp_path)
    for _ in range(20):
        next(steps)
    steps.close()
    assert not read(tmp_path, task.name)[0].done
    last = [step.update for step in train_steps(task, root=tmp_path)][-1]
    (run,) = read(tmp_path, task.name)
    assert run.done
    assert last == task.num_updates(len(task.batches(task.dataset()))) == 37
    assert run.config == json.loads(json.dumps(task.config())) | {
        "device": "cpu",
        "precision": "float32",
    }
    end = run.metrics().groupby("seed").last()
    assert (end.train_nll < 2.3).all()  # ln 10: it has learned something


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "lawyer"}, "norm is 'lawyer': choose from none, layer"),
        ({"cell": "tree"}, "choose from rnn, lstm, gru"),
        ({"initialisation": "none"}, "choose from paper, modern"),
        ({"pixels_per_step": 0}, "at least 1"),
        ({"units": (8, 8)}, "units is .*: give a tuple of 1"),
        ({"seeds": (1, 1)}, "each once"),
    ],
)
def test_wrong_fields_say_what_there_is(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(Experiment(), **changes)


def test_pixels_that_do_not_divide_a_picture(digits):
    with pytest.raises(ValueError, match="pixels_per_step is 7: it must divide the 64"):
        Experiment(pixels_per_step=7).model(0, digits)


def test_an_unknown_budget():
    with pytest.raises(ValueError, match="choose from smoke, notebook, paper"):
        Experiment.budget("lunch")


@pytest.mark.parametrize("halved", [1, 2])
def test_the_factor_is_that_of_a_gradient_in_a_step_back(halved, digits):
    net = Experiment.budget("smoke", norm="none", cell="rnn").model(0, digits)
    cell = net.float().layer.cells[0]
    for p in cell.parameters():
        p.data.zero_()
    cell.W_h.data.copy_(0.5**halved * torch.eye(len(cell.W_h)))  # tanh is steep at 0: 1
    assert net.factor(digits.test.x[:7]) == pytest.approx(0.5**halved, rel=1e-12)
    assert cell.W_h.dtype is torch.float32  # it was looked at in a copy


@every_arm
def test_factors_are_measured_where_they_are_asked_for(arm, tmp_path, digits):
    task = Experiment.budget("smoke", norm=arm, gradient_factor=True)
    plain, watched = (
        made(one, tmp_path / str(one.gradient_factor))
        for one in (replace(task, gradient_factor=False), task)
    )
    assert "gradient_factor" not in plain
    factors = watched.set_index(["update", "seed"])["gradient_factor"]
    assert (factors > 0).all()
    with default_dtype(torch.float32):
        start = task.model(1, digits).factor(digits.test.x[:100])
    assert factors[0, 1] == pytest.approx(start, rel=1e-12)


def made(task, folder):
    """The metrics of a whole run."""
    for _ in train_steps(task, root=folder):
        pass
    return read(folder)[0].metrics()
