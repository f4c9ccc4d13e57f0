"""The contract: what an experiment says of itself, its configuration, its arms, its moments."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from torch import nn

from lnlab.training import Moment, cross_entropy, evaluate, found, setting, train
from lnlab.training.experiment import measured_after
from lnlab.training.runs import read


@pytest.fixture
def kind(tiny):
    """The small task with fields of every sort."""

    @dataclass(frozen=True)
    class Sorts(type(tiny())):
        norm: str = setting("layer", choices=("none", "layer"))
        gain: float = setting(1.0, above=0, most=2)
        cells: tuple[str, ...] = ("lstm",)
        cut: float | None = None
        swapped: bool = False

        @classmethod
        def implied(cls, budget, said):
            return {"epochs": 9} if said.get("batch_size") == 2 else {}

    return Sorts


def test_a_field_may_be_written_in_another_way(kind):
    task = kind(gain=1, seeds=[5, 6], cut=0.5)
    assert (task.gain, type(task.gain), task.seeds) == (1.0, float, (5, 6))
    assert task == kind(gain=1.0, seeds=(5, 6), cut=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "lawyer"}, r"^norm is 'lawyer': choose from none, layer\.$"),
        ({"norm": 3}, r"^norm is 3: choose from none, layer\.$"),
        ({"gain": 0.0}, r"^gain is 0\.0: give a number, above 0 and at most 2, like 1\.0\.$"),
        ({"gain": 3}, "^gain is 3.0: give a number"),
        ({"gain": float("inf")}, "^gain is inf: give a number"),
        ({"seeds": ("a",)}, r"^seeds is \('a',\): give a tuple of at least one: whole numbers"),
        ({"seeds": (8.5,)}, "^seeds is .*whole numbers, at least 0"),
        ({"seeds": (-3,)}, "^seeds is .*whole numbers, at least 0"),
        ({"seeds": ()}, "^seeds is .*at least one"),
        ({"seeds": -3}, "^seeds -3: write how many"),
        ({"seeds": (1, 1)}, "each once"),
        ({"epochs": True}, "^epochs is True: give a whole number"),
        ({"epochs": 0}, "^epochs is 0: give a whole number, at least 1, like 3"),
        ({"cells": (3,)}, "^cells is .*texts"),
        ({"cut": "short"}, "^cut is 'short': give"),
        ({"fused": 1}, "^fused is 1: give True or False"),
        ({"best_metric": "nll"}, "^best_metric is 'nll': choose from train_nll, train_error"),
    ],
)
def test_what_a_field_may_not_be_is_said_by_name(kind, changes, message):
    with pytest.raises(ValueError, match=message):
        kind(**changes)


def test_a_run_that_lacks_a_later_field_is_read_with_its_default(kind):
    """A field that is added later has the default of what the code did before."""

    @dataclass(frozen=True)
    class Later(kind):
        depth: int = setting(2, least=1)

    older = kind(gain=0.5).config() | {"device": "cpu"}
    assert Later.of(older) == Later(gain=0.5, depth=2)
    assert Later.completed(older) == older | {"depth": 2}
    assert Later.completed(Later(depth=3).config())["depth"] == 3
    assert {*Later().config()} == {field.name for field in fields(Later)}


def test_a_configuration_of_something_else_is_refused(kind):
    config = kind().config() | {"device": "cpu", "precision": "float32"}
    assert kind.of(config, data="mine=here").data == "mine=here"
    with pytest.raises(ValueError, match=r"it has \['colour'\]"):
        kind.of({n: v for n, v in config.items() if n != "ranks"} | {"colour": 1})


def test_any_field_may_be_an_arm(kind):
    def values(arms, field):
        return {label: getattr(task, field) for label, task in arms.items()}

    assert values(kind.arms("smoke"), "norm") == {"none": "none", "layer": "layer"}
    assert values(kind.arms("smoke", "swapped"), "swapped") == {
        "swapped False": False,
        "swapped True": True,
    }
    gains = kind.arms("smoke", "gain", (0.1, 1.0), seeds=(7,))
    assert values(gains, "gain") == {"gain 0.1": 0.1, "gain 1.0": 1.0}
    assert values(gains, "seeds") == {"gain 0.1": (7,), "gain 1.0": (7,)}
    assert values(kind.arms("smoke", "best_metric", ("", "train_nll")), "best_metric") == {
        "best_metric ''": "",
        "train_nll": "train_nll",
    }
    sizes = kind.arms("smoke", "batch_size", (4, 2))
    assert values(sizes, "epochs") == {"batch_size 4": 3, "batch_size 2": 9}
    several = {"LN, gain 0.1": {"norm": "layer", "gain": 0.1}, "none": {"norm": "none"}}
    arms = kind.arms("smoke", values=several)
    assert values(arms, "gain") == {"LN, gain 0.1": 0.1, "none": 1.0}
    with pytest.raises(ValueError, match="tiny has no field 'nrm': choose from norm, seeds"):
        kind.arms("smoke", "nrm")
    with pytest.raises(ValueError, match="gain has no list to choose from: say which values"):
        kind.arms("smoke", "gain")


def test_its_length_is_in_epochs_or_in_updates(tiny, tmp_path):
    assert (tiny().length(7), tiny(updates=10).length(7)) == (21, 10)
    run = None
    for _ in train(tiny(updates=10), root=tmp_path):
        run = read(tmp_path)[0]
    assert run is not None
    assert run.result["updates"] == 10
    assert run.metrics()["update"].unique().tolist() == [0, 1, 7, 10]
    assert run.metrics()["epoch"].iloc[-1] == 10 / 7
    assert [tiny(updates=n).passes(7) for n in (7, 8)] == [1, 2]


def test_what_is_cheap_is_measured_more_often(tiny, tmp_path):
    seen = []

    class Glancing(type(tiny())):
        def glances(self, updates_per_epoch):
            return range(0, 99, 5)

        def measure(self, model, dataset, moment=Moment.END):
            seen.append(moment)
            found = super().measure(model, dataset)
            names = ["train_nll"] if moment is Moment.CHEAP else [*found]
            return {name: found[name] for name in names}

    task = Glancing(seeds=(3,))
    for _ in train(task, root=tmp_path):
        pass
    (run,) = read(tmp_path)
    assert run.metrics()["update"].tolist() == [0, 1, 5, 7, 10, 15, 20, 21]
    cheap = run.metrics()["train_error"].isna()
    assert run.metrics()["update"][cheap].tolist() == [5, 10, 15, 20]
    cheap, dear = Moment.CHEAP, Moment.DEAR
    assert seen == [Moment.START, dear, cheap, dear, cheap, cheap, cheap, Moment.END]
    assert measured_after(replace(task, updates=6), 7) == {
        0: Moment.START,
        1: dear,
        5: cheap,
        6: Moment.END,
    }


def test_a_done_run_that_lacks_what_is_promised_is_no_answer(tiny, tmp_path):
    class More(type(tiny())):
        falls = ("train_nll", "train_error", "valid_nll")

    for _ in train(tiny(), root=tmp_path):
        pass
    assert found(tiny(), root=tmp_path)
    assert found(More(), root=tmp_path) is None
    with pytest.raises(ValueError, match="has no valid_nll: delete it to train it again"):
        list(train(More(), root=tmp_path))


def test_what_has_axes_is_kept_as_a_picture_and_resumed(tiny, tmp_path):
    class Drawn(type(tiny())):
        def measure(self, model, dataset, moment=Moment.END):
            found = super().measure(model, dataset)
            drawings = [
                torch.full((2, 3), nll, dtype=torch.float32) for nll in found["train_nll"]
            ]
            return {**found, "canvas": drawings}

    steps = train(Drawn(), root=tmp_path)
    assert any(step.update == 9 for step in steps)
    steps.close()
    for _ in train(Drawn(), root=tmp_path):
        pass
    (run,) = read(tmp_path)
    assert "canvas" not in run.metrics()
    for seed in (3, 4):
        rows, kept = run.metrics().query("seed == @seed"), run.pictures(seed)
        assert [*kept] == rows["update"].tolist() == [0, 1, 7, 21]
        for update, nll in zip(rows["update"], rows["train_nll"], strict=True):
            assert (kept[update]["canvas"] == np.float32(nll)).all()


def test_words_remain_whole_in_training_and_in_evaluation(tiny, tmp_path):
    seen = set()

    class Bag(nn.Module):
        """The mean of the vectors of five words, without a bias that would hide them."""

        def __init__(self):
            super().__init__()
            self.words = nn.Parameter(torch.randn(600, 2))

        def forward(self, x):
            seen.add(x.dtype)
            return self.words[x].mean(-2)

    class Words(type(tiny())):
        def dataset(self):
            dataset = super().dataset()
            # 513 has no float8 or bfloat16 of its own
            dataset.train.x = 513 + (dataset.train.x[:, :5] > 0).long()
            return dataset

        def model(self, seed, dataset):
            return Bag()

    task = Words()
    for _ in train(task, root=tmp_path):
        pass
    assert seen == {torch.int64}
    model, dataset = Bag().double(), task.dataset()
    alone = evaluate(
        model, dataset.train.x, dataset.train.y, lambda o, y: cross_entropy(o[None], y[None])[0]
    )
    assert 0 < alone["nll"][0] < 2


def test_arms_over_any_field_have_the_same_batches(tiny, tmp_path):
    seen = {}

    class Listening(type(tiny())):
        def loss(self, output, y):
            if torch.is_grad_enabled():
                seen.setdefault(self.learning_rate, []).append(y)
            return super().loss(output, y)

    for task in Listening.arms("smoke", "learning_rate", (0.1, 0.01)).values():
        for _ in train(replace(task, epochs=1), root=tmp_path):
            pass
    first, second = (torch.stack(each) for each in seen.values())
    assert torch.equal(first, second)
