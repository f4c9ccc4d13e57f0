"""The contract: what an experiment says of its fields, configuration, arms and evaluations."""

from dataclasses import dataclass, fields, replace

import pytest
import torch
from torch import nn

from lnlab.training import Evaluation, setting, train_steps
from lnlab.training.experiment import evaluations
from lnlab.training.runs import read


@pytest.fixture
def kind(tiny):
    """The small experiment with fields of every sort."""

    @dataclass(frozen=True)
    class Sorts(type(tiny())):
        norm: str = setting("layer", choices=("none", "layer"))
        gain: float = setting(1.0, above=0, most=2)
        cells: tuple[str, ...] = ("lstm",)
        cut: float | None = None
        swapped: bool = False

        @classmethod
        def implied(cls, budget, changes):
            return {"epochs": 9} if changes.get("batch_size") == 2 else {}

    return Sorts


def test_a_field_may_be_written_in_another_way(kind):
    task = kind(gain=1, seeds=[5, 6], cut=0.5)
    assert (task.gain, type(task.gain), task.seeds) == (1.0, float, (5, 6))
    assert kind(seeds=3).seeds == (0, 1, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "lawyer"}, r"^norm is 'lawyer': choose from none, layer\.$"),
        ({"gain": 0.0}, r"^gain is 0\.0: give a number, above 0 and at most 2, like 1\.0\.$"),
        ({"gain": float("inf")}, "^gain is inf: give a number"),
        ({"seeds": (8.5,)}, "^seeds is .*tuple of at least one: whole numbers, at least 0"),
        ({"seeds": ()}, "^seeds is .*at least one"),
        ({"seeds": (1, 1)}, "each once"),
        ({"epochs": True}, "^epochs is True: give a whole number, at least 1, like 3"),
        ({"cells": (3,)}, "^cells is .*texts"),
        ({"cut": "short"}, "^cut is 'short': give"),
        ({"fused": 1}, "^fused is 1: give True or False"),
        ({"best_metric": "nll"}, "^best_metric is 'nll': choose from train_nll, train_error"),
    ],
)
def test_what_a_field_may_not_be_is_said_by_name(kind, changes, message):
    with pytest.raises(ValueError, match=message):
        kind(**changes)


def test_a_configuration_gives_its_experiment_back(kind):
    @dataclass(frozen=True)
    class Later(kind):
        depth: int = setting(2, least=1)

    config = kind(gain=0.5).config() | {"device": "cpu", "precision": "float32"}
    assert kind.from_config(config, data="mine=here") == kind(gain=0.5, data="mine=here")
    assert kind(data="mine=here").config()["data"] == "mine"
    assert {*Later().config()} == {field.name for field in fields(Later)}
    # a field that is added later has the default of what the code did before
    assert Later.from_config(config) == Later(gain=0.5)
    assert Later.completed(config) == config | {"depth": 2}
    with pytest.raises(ValueError, match=r"it has \['colour'\]"):
        kind.from_config(config | {"colour": 1})


def test_any_field_may_be_an_arm(kind):
    def values(arms, field):
        return {label: getattr(task, field) for label, task in arms.items()}

    assert values(kind.arms("smoke"), "norm") == {"none": "none", "layer": "layer"}
    swapped = values(kind.arms("smoke", "swapped"), "swapped")
    assert swapped == {"swapped False": False, "swapped True": True}
    gains = kind.arms("smoke", "gain", (0.1, 1.0), seeds=(7,))
    assert values(gains, "gain") == {"gain 0.1": 0.1, "gain 1.0": 1.0}
    assert values(gains, "seeds") == {"gain 0.1": (7,), "gain 1.0": (7,)}
    sizes = kind.arms("smoke", "batch_size", (4, 2))
    assert values(sizes, "epochs") == {"batch_size 4": 3, "batch_size 2": 9}
    several = {"LN, gain 0.1": {"norm": "layer", "gain": 0.1}, "none": {"norm": "none"}}
    arms = kind.arms("smoke", values=several)
    assert values(arms, "gain") == {"LN, gain 0.1": 0.1, "none": 1.0}
    with pytest.raises(ValueError, match="tiny has no field 'nrm': choose from norm, seeds"):
        kind.arms("smoke", "nrm")
    with pytest.raises(ValueError, match="gain has no list to choose from: say which values"):
        kind.arms("smoke", "gain")
    with pytest.raises(ValueError, match="no budget is called 'big': choose from smoke"):
        kind.budget("big")


def test_arms_have_the_same_batches(tiny, tmp_path):
    seen = {}

    class Watched(type(tiny())):
        def loss(self, output, y):
            if torch.is_grad_enabled():
                seen.setdefault(self.learning_rate, []).append(y)
            return super().loss(output, y)

    for task in Watched.arms("smoke", "learning_rate", (0.1, 0.01)).values():
        for _ in train_steps(replace(task, epochs=1), root=tmp_path):
            pass
    first, second = (torch.stack(each) for each in seen.values())
    assert torch.equal(first, second)


def test_it_is_evaluated_lightly_and_fully_and_for_its_length(tiny, tmp_path):
    seen = []

    class Light(type(tiny())):
        def log_points(self, updates_per_epoch):
            return range(0, 99, 5)

        def evaluate(self, model, dataset, evaluation=Evaluation.FINAL):
            seen.append(evaluation)
            found = super().evaluate(model, dataset)
            names = ["train_nll"] if evaluation is Evaluation.LIGHT else [*found]
            return {name: found[name] for name in names}

    task = Light(seeds=(3,))
    for _ in train_steps(task, root=tmp_path):
        pass
    metrics = read(tmp_path)[0].metrics()
    assert metrics["update"].tolist() == [0, 1, 5, 7, 10, 15, 20, 21]
    light = metrics["train_error"].isna()
    assert metrics["update"][light].tolist() == [5, 10, 15, 20]
    one, full = Evaluation.LIGHT, Evaluation.FULL
    assert seen == [Evaluation.INITIAL, full, one, full, one, one, one, Evaluation.FINAL]
    short = evaluations(replace(task, updates=6), 7)
    assert short == {0: Evaluation.INITIAL, 1: full, 5: one, 6: Evaluation.FINAL}
    lengths = [(t.num_updates(7), t.num_epochs(7)) for t in (tiny(), tiny(updates=8))]
    assert lengths == [(21, 3), (8, 2)]
    assert task.every(7, 7) == {0, 7, 14, 21}


def test_words_remain_whole_in_training_and_in_evaluation(tiny, tmp_path):
    seen = set()

    class Bag(nn.Module):
        """The mean of the vectors of five words."""

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

    for _ in train_steps(Words(), root=tmp_path):
        pass
    assert seen == {torch.int64}
