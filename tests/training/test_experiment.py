"""The contract: what an experiment says of its fields, configuration, arms and evaluations."""

from dataclasses import dataclass, fields, replace

import pytest

from lnlab.training import Evaluation, setting, train_steps
from lnlab.training.experiment import plan_evaluations
from lnlab.training.runs import read
from tests.training.conftest import Tiny


@dataclass(frozen=True)
class Fields(Tiny):
    """The small experiment with fields of every sort."""

    norm: str = setting("layer", choices=("none", "layer"))
    gain: float = setting(1.0, least=0.1)
    cells: tuple[str, ...] = ("lstm",)
    cut: float = 0.5
    swapped: bool = False

    @classmethod
    def implied_changes(cls, budget, changes):
        return {"epochs": 9} if changes.get("batch_size") == 2 else {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "lawyer"}, r"^norm is 'lawyer': choose from none, layer\.$"),
        ({"gain": 0.0}, r"^gain is 0\.0: give a number, at least 0\.1, like 1\.0\.$"),
        ({"gain": float("inf")}, "^gain is inf: give a number"),
        (
            {"seeds": (8.5,)},
            "^seeds is .*tuple of at least one: each a whole number, at least 0",
        ),
        ({"seeds": ()}, "^seeds is .*at least one"),
        ({"seeds": (1, 1)}, "each once"),
        ({"epochs": True}, "^epochs is True: give a whole number, at least 1, like 3"),
        ({"cells": (3,)}, "^cells is .*each text"),
        ({"cut": "short"}, "^cut is 'short': give a number"),
        ({"best_metric": "nll"}, "^best_metric is 'nll': choose from train_nll, train_error"),
    ],
)
def test_what_a_field_may_not_be_is_said_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        Fields(**changes)


def test_a_configuration_gives_its_experiment_back():
    @dataclass(frozen=True)
    class Later(Fields):
        depth: int = setting(2, least=1)

    written = Fields(gain=1, seeds=[5, 6], cut=0.5)  # a field may be written in another way
    assert (written.gain, type(written.gain), written.seeds) == (1.0, float, (5, 6))
    assert Fields(seeds=3).seeds == (0, 1, 2)
    config = Fields(gain=0.5).config() | {"device": "cpu", "precision": "float32"}
    assert Fields.from_config_ignoring_unknown(config, data="mine=here") == Fields(
        gain=0.5, data="mine=here"
    )
    assert Fields(data="mine=here").config()["data"] == "mine"
    assert {*Later().config()} == {field.name for field in fields(Later)}
    # a field that is added later has the default of what the code did before
    assert Later.from_config_ignoring_unknown(config) == Later(gain=0.5)
    assert Later.config_with_defaults(config) == config | {"depth": 2}
    # and one that is no more is left out
    assert Fields.from_config_ignoring_unknown(config | {"colour": 1}) == Fields(gain=0.5)


def test_any_field_may_be_an_arm():
    def values(arms, field):
        return {label: getattr(experiment, field) for label, experiment in arms.items()}

    assert values(Fields.arms("smoke"), "norm") == {"none": "none", "layer": "layer"}
    swapped = values(Fields.arms("smoke", "swapped"), "swapped")
    assert swapped == {"swapped False": False, "swapped True": True}
    gains = Fields.arms("smoke", "gain", (0.1, 1.0), seeds=(7,))
    assert values(gains, "gain") == {"gain 0.1": 0.1, "gain 1.0": 1.0}
    assert values(gains, "seeds") == {"gain 0.1": (7,), "gain 1.0": (7,)}
    sizes = Fields.arms("smoke", "batch_size", (4, 2))
    assert values(sizes, "epochs") == {"batch_size 4": 3, "batch_size 2": 9}
    several = {"LN, gain 0.1": {"norm": "layer", "gain": 0.1}, "none": {"norm": "none"}}
    arms = Fields.arms("smoke", values=several)
    assert values(arms, "gain") == {"LN, gain 0.1": 0.1, "none": 1.0}
    with pytest.raises(ValueError, match="tiny has no field 'nrm': choose from norm, seeds"):
        Fields.arms("smoke", "nrm")
    with pytest.raises(ValueError, match="gain has no list to choose from: say which values"):
        Fields.arms("smoke", "gain")
    with pytest.raises(ValueError, match="no budget is called 'big': choose from smoke"):
        Fields.budget("big")


def test_it_is_evaluated_lightly_and_fully_and_for_its_length(tmp_path):
    kinds = []

    class Light(Tiny):
        def light_evaluation_updates(self, updates_per_epoch):
            return range(0, 99, 5)

        def full_evaluation_updates(self, updates_per_epoch):
            return {0, updates_per_epoch}

        def evaluate(self, model, dataset, evaluation=Evaluation.FINAL):
            kinds.append(evaluation)
            metrics = super().evaluate(model, dataset)
            if evaluation is Evaluation.LIGHT:
                del metrics["train_error"]
            return metrics

    experiment = Light(seeds=(3,))
    for _ in train_steps(experiment, root=tmp_path):
        pass
    metrics = read(tmp_path)[0].metrics()
    assert metrics["update"].tolist() == [0, 5, 7, 10, 15, 20, 21]
    assert metrics["update"][metrics["train_error"].isna()].tolist() == [5, 10, 15, 20]
    light, full = Evaluation.LIGHT, Evaluation.FULL
    between = [light, full, light, light, light]
    assert kinds == [Evaluation.INITIAL, *between, Evaluation.FINAL]
    short = plan_evaluations(replace(experiment, updates=6), 7)
    assert short == {0: Evaluation.INITIAL, 5: light, 6: Evaluation.FINAL}
    assert [one.num_updates(7) for one in (Tiny(), Tiny(updates=8))] == [21, 8]
    assert Tiny().updates_divisible_by(7, 7) == {0, 7, 14, 21}
