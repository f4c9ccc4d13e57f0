"""To diverge is an ending: it is recorded, the other seeds go on, and a run can be resumed."""

import math

import pytest
import torch

from lnlab.training import stack, train
from lnlab.training.runs import read

FROM = 9


@pytest.fixture
def breaking(tiny):
    """The small task of three seeds, of which some break after update :data:`FROM`."""

    class Breaking(type(tiny())):
        broken = (1,)

        def loss(self, output, y):
            losses = super().loss(output, y)
            if torch.is_grad_enabled():
                object.__setattr__(self, "count", getattr(self, "count", self.first) + 1)
                if self.count >= FROM:
                    factor = torch.ones(3)
                    factor[list(self.broken)] = math.inf
                    losses = losses * factor
            return losses

        first = 0

        def measure(self, model, dataset, *moment):
            found = super().measure(model, dataset, *moment)
            assert all(map(math.isfinite, found["train_nll"]))
            return found

    return lambda broken, first=0: type(
        "Breaking", (Breaking,), {"broken": broken, "first": first}
    )(seeds=(3, 4, 5))


def end(task, root):
    for _ in train(task, root=root):
        pass
    (run,) = read(root)
    return run


def rows(run, seed):
    metrics = run.metrics()
    return metrics[metrics.seed == seed].drop(columns=["seconds", "cpu_seconds"])


def test_one_of_three_diverges_and_the_others_are_what_they_would_be(breaking, tmp_path):
    lost, whole = end(breaking((1,)), tmp_path / "lost"), end(breaking(()), tmp_path / "whole")
    assert lost.done
    assert lost.result["outcomes"] == {
        "3": {"outcome": "finished", "update": 21},
        "4": {"outcome": "diverged", "update": FROM},
        "5": {"outcome": "finished", "update": 21},
    }
    assert {o["outcome"] for o in whole.result["outcomes"].values()} == {"finished"}
    ours, theirs = lost.weights(), whole.weights()
    for name, value in theirs.items():
        if name.startswith("4."):
            continue
        assert torch.equal(ours[name], value), name
    assert not ours["4.0.weight"].isfinite().all()
    for seed in (3, 5):
        # the losses, and what was measured, with or without a column for the lost one
        assert rows(lost, seed).drop(columns="diverged").equals(rows(whole, seed))
    last = rows(lost, 4).iloc[-1]
    assert last["diverged"] == FROM
    assert last[["loss", "train_nll", "train_error"]].isna().all()
    assert rows(lost, 4).iloc[:3].drop(columns="diverged").equals(rows(whole, 4).iloc[:3])


@pytest.mark.parametrize("stop", [FROM - 1, FROM, FROM + 3])
def test_a_run_with_a_lost_seed_is_resumed(stop, breaking, tmp_path):
    whole = end(breaking((1,)), tmp_path / "whole")
    steps = train(breaking((1,)), root=tmp_path / "stopped")
    assert any(step.update == stop for step in steps)
    steps.close()
    stopped = end(breaking((1,), first=stop), tmp_path / "stopped")
    times = ["seconds", "cpu_seconds"]
    assert stopped.metrics().drop(columns=times).equals(whole.metrics().drop(columns=times))
    assert stopped.result["outcomes"] == whole.result["outcomes"]
    assert (stopped.folder / "weights.safetensors").read_bytes() == (
        whole.folder / "weights.safetensors"
    ).read_bytes()


def test_where_all_are_lost_the_run_ends(breaking, tmp_path):
    run = end(breaking((0, 1, 2)), tmp_path)
    assert run.done
    assert run.result["updates"] == FROM
    assert {o["update"] for o in run.result["outcomes"].values()} == {FROM}
    assert run.metrics()["update"].unique().tolist() == [0, 1, 7, FROM]
    assert run.metrics().iloc[-1]["diverged"] == FROM


@pytest.mark.parametrize("lost", [(1,), (0, 1, 2)])
def test_weights_that_the_last_update_before_a_look_has_lost_are_not_measured(
    lost, breaking, tmp_path
):
    class Stepping(type(breaking(()))):
        def optimizer(self, parameters):
            own = [*parameters]
            made, steps = super().optimizer(own), []

            def after(*_):
                steps.append(1)
                if len(steps) == 7:  # after which they are measured
                    for p in own:
                        p.data[list(lost)] = math.nan

            made.register_step_post_hook(after)
            return made

    run = end(Stepping(seeds=(3, 4, 5)), tmp_path)
    outcomes = run.result["outcomes"]
    assert {seed for seed, o in outcomes.items() if o["outcome"] == "diverged"} == {
        str(3 + index) for index in lost
    }
    assert {o["update"] for o in outcomes.values() if o["outcome"] == "diverged"} == {7}
    assert run.metrics().iloc[-1]["update"] == (7 if len(lost) == 3 else 21)


@pytest.mark.parametrize("count", [1, 3])
def test_models_are_finite_one_by_one_however_their_weights_lie(count):
    models = [torch.nn.Conv2d(3, 4, 2) for _ in range(count)]
    for model in models:
        model.to(memory_format=torch.channels_last)
        model.empty = torch.nn.Parameter(torch.zeros(0))
        model.scale = torch.nn.Parameter(torch.tensor(1.0))
    models[-1].scale.data.fill_(math.nan)
    assert stack(models).finite().tolist() == [True] * (count - 1) + [False]


def test_a_lost_model_is_stood_in_for():
    models = [torch.nn.BatchNorm1d(3) for _ in range(3)]
    together = stack(models)
    with torch.no_grad():
        together.module.get_parameter("weight")[0] = math.nan
        together.module.get_buffer("running_mean")[0] = math.nan
        together.module.get_parameter("weight")[1] = 7.0
    other = together.without([True, False, False])
    x = torch.randn(3, 5, 3)
    x[0] = x[1]
    y = other.eval()(x)
    assert torch.equal(y[0], y[1])
    assert torch.equal(y[1:], together.eval()(x)[1:])
    assert together.module.get_parameter("weight")[0].isnan().all()
    with pytest.raises(ValueError, match="none can stand in"):
        together.without([True] * 3)
