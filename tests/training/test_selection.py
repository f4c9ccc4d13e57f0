"""The weights that count may be the best on a validation metric: kept, resumed, reported."""

import math
from dataclasses import dataclass

import pytest
import torch

from lnlab.training import Moment, stack, train
from lnlab.training.runs import read

VALID = {"3": [0.5, 0.4, 0.3, 0.9], "4": [0.2, math.nan, 0.6, 0.7]}
"""What seeds 3 and 4 are worth at updates 0, 1, 7 and 21."""


@pytest.fixture
def choosing(tiny):
    """The small task whose weights that count are the best by a made-up validation."""

    @dataclass(frozen=True)
    class Choosing(type(tiny())):
        best_metric: str = "valid"
        rises = ("recall",)
        falls = ("valid",)

        def measure(self, model, dataset, moment=Moment.END):
            place = {0: 0, 1: 1, 7: 2, 21: 3}[self.update]
            values = [VALID[str(seed)][place] for seed in self.seeds]
            nll = super().measure(model, dataset)["train_nll"]
            if moment is Moment.END:
                return {"valid": values, "recall": [-v for v in values], "test": nll}
            return {"valid": values, "recall": [-v for v in values], "nll": nll}

        def schedule(self, part):
            object.__setattr__(self, "update", round(part * 21) + 1)
            return 1.0

        update = 0

    return Choosing


def end(task, root):
    for _ in train(task, root=root):
        pass
    (run,) = read(root)
    return run


@pytest.mark.parametrize("metric", ["valid", "recall"])
@pytest.mark.parametrize("seeds", [(3, 4), (3,)])
def test_the_best_weights_count_whichever_way_the_metric_goes(
    metric, seeds, choosing, tmp_path
):
    run = end(choosing(best_metric=metric, seeds=seeds), tmp_path)
    sign = 1 if metric == "valid" else -1
    where = {3: (7, 0.3), 4: (0, 0.2)}
    for seed in seeds:
        update, value = where[seed]
        assert run.result["outcomes"][str(seed)]["best"] == {
            "metric": metric,
            "value": sign * value,
            "update": update,
        }
        rows = run.metrics()[run.metrics().seed == seed]
        assert rows["update"].tolist() == [0, 1, 7, 21, 21]
        # at the end what counts is measured: the weights of that update
        then = rows.loc[rows["update"] == update, "nll"].iloc[0]
        assert rows["test"].iloc[-1] == then
        assert rows["test"].iloc[:-1].isna().all()
        assert rows["nll"].iloc[-2] != then
    models = [choosing().model(seed, None).double() for seed in seeds]
    for seed, model in zip(seeds, models, strict=True):
        names = model.state_dict().keys()
        model.load_state_dict({name: run.weights()[f"{seed}.{name}"] for name in names})


@pytest.mark.parametrize("stop", [5, 12, 20, 21])
def test_the_best_weights_are_resumed(stop, choosing, tmp_path):
    whole = end(choosing(), tmp_path / "whole")
    steps = train(choosing(), root=tmp_path / "stopped")
    assert any(step.update == stop for step in steps)
    steps.close()
    stopped = end(choosing(), tmp_path / "stopped")
    times = ["seconds", "cpu_seconds"]
    assert stopped.metrics().drop(columns=times).equals(whole.metrics().drop(columns=times))
    assert stopped.result["outcomes"] == whole.result["outcomes"]
    assert (stopped.folder / "weights.safetensors").read_bytes() == (
        whole.folder / "weights.safetensors"
    ).read_bytes()


def test_a_metric_that_is_not_measured_is_missed_at_once(choosing, tmp_path):
    class Forgetful(choosing):
        def measure(self, model, dataset, moment=Moment.END):
            return {"nll": [0.0, 0.0]}

    with pytest.raises(ValueError, match="best_metric is 'valid', and only nll were measured"):
        next(train(Forgetful(), root=tmp_path))


@pytest.mark.parametrize("best", [0.3, 0.0])
def test_a_seed_that_is_lost_has_the_best_weights_it_had(best, choosing, tmp_path, monkeypatch):
    monkeypatch.setitem(VALID, "3", [0.5, 0.4, best, 0.9])

    class Broken(choosing):
        def loss(self, output, y):
            losses = super().loss(output, y)
            if self.update >= 12 and torch.is_grad_enabled():
                losses = losses * torch.tensor([math.nan, 1.0])
            return losses

    run = end(Broken(), tmp_path)
    outcome = run.result["outcomes"]["3"]
    assert (outcome["outcome"], outcome["update"], outcome["best"]["update"]) == (
        "diverged",
        12,
        7,
    )
    assert all(weight.isfinite().all() for weight in run.weights().values())
    last = run.metrics().query("seed == 3").iloc[-1]
    assert last["test"] == run.metrics().query("seed == 3 and update == 7")["nll"].iloc[0]


def test_stacks_of_one_and_of_several_keep_their_own():
    from lnlab.training.trainer import Best

    for count in (1, 3):
        model = stack([torch.nn.Linear(2, 2) for _ in range(count)])
        best = Best("loss", False, model)
        first = {name: value.clone() for name, value in model.state_dict().items()}
        best.look(1, {"loss": [1.0] * count})
        with torch.no_grad():
            for p in model.parameters():
                p.add_(1)
        best.look(2, {"loss": [2.0] * (count - 1) + [0.5]})
        best.put()
        for name, value in model.state_dict().items():
            moved = value if count == 1 else value[-1]
            was = first[name] if count == 1 else first[name][-1]
            assert torch.equal(moved, was + 1)
            if count > 1:
                assert torch.equal(value[:-1], first[name][:-1])
        assert best.updates == [1] * (count - 1) + [2]
