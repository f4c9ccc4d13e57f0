"""The contract of every experiment."""

import json
from dataclasses import fields, replace
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lnlab.nn.normalizer import at_least_float32
from lnlab.papers import EXPERIMENTS
from lnlab.training import Evaluation, Experiment, find_run, stack, train_steps
from lnlab.training.experiment import experiment_fields
from lnlab.training.random_state import IsolatedTorchRandomState
from lnlab.training.runs import read
from lnlab.training.trainer import build_initial_models, forward_in_mixed_precision

every_experiment = pytest.mark.parametrize("kind", EXPERIMENTS.values(), ids=EXPERIMENTS)

GAIN, RATE = {"gain": (0.1, 1.0)}, {"learning_rate": (0.1, 0.01)}
CLIP = {"max_grad_norm": (0.5, 2.0)}
FURTHER_FIELDS = {
    "las": {**GAIN, "dropout": (0.0, 0.5), "beam_width": (1, 2)},
    "draw": {**RATE, **CLIP, "drawings": (0, 1)},
    "order_embeddings": {**GAIN, **RATE, **CLIP, "margin": (0.05, 0.2)},
    "handwriting": {**GAIN, "max_grad_norm": (0.0, 1.0), "std_floor": (0.0, 0.1)},
    "attentive_reader": {**GAIN, **RATE, **CLIP},
    "sequential_digits": {**GAIN, **RATE, "epochs": (1, 2)},
    "skip_thoughts": {**GAIN, **RATE, **CLIP},
    "transformer": {**RATE, "layers": (1, 2), "weight_decay": (0.0, 1.0)},
    "convolutions": {**RATE, "batch_size": (4, 128)},
    "mnist": {**RATE, "batch_size": (4, 128)},
    "batch_layer_norm_reviews": {**RATE, "threshold": (0.0, 0.5)},
    "batch_layer_norm_images": {**RATE, "batch_size": (5, 25)},
}
"""Fields that have no list to choose from, and values to compare."""


def fields_with_choices(kind):
    """The fields of an experiment that have a list to choose from."""
    choices = {
        field.name: field.constraints.get("choices", (True, False) * (field.type_hint is bool))
        for field in experiment_fields(kind).values()
    }
    return {name: None for name, values in choices.items() if len(values) > 1}


ARMS = [
    (kind, field, values)
    for name, kind in EXPERIMENTS.items()
    for field, values in {**fields_with_choices(kind), **FURTHER_FIELDS[name]}.items()
    # the random numbers of a cell decide where the readout starts; networks differ
    if field not in ("cell", "architecture")
]


@cache
def dataset_of(kind):
    """The data of an experiment at smoke, loaded once; they depend on no setting."""
    return kind.budget("smoke").dataset()


@every_experiment
def test_budgets_presets_and_configurations_agree(kind):
    assert issubclass(kind, Experiment)
    assert EXPERIMENTS[kind.name] is kind
    assert set(kind.budgets()) == {"smoke", "notebook", "paper"}
    for budget, task in kind.budgets().items():
        assert kind.budget(budget) == task == kind(preset=budget)
        config = json.loads(json.dumps(task.config()))
        assert replace(kind.from_config_ignoring_unknown(config), data=task.data) == task


@pytest.mark.parametrize(("kind", "field", "values"), ARMS, ids=lambda value: str(value)[-30:])
def test_arms_start_from_the_same_weights(kind, field, values):
    """Where names and shapes are the same; initialisations differ."""
    arms = kind.arms("smoke", field, values)
    assert len(arms) > 1
    dataset = dataset_of(kind)
    starts = []
    for task in arms.values():
        torch.manual_seed(99)  # the caller's random numbers do not matter
        torch.set_default_dtype(torch.float32)
        starts.append(dict(task.model(3, dataset).named_parameters()))
        torch.set_default_dtype(torch.float64)
    for one, other in pairwise(starts):
        alike = [n for n in one.keys() & other.keys() if one[n].shape == other[n].shape]
        weights = [n for n in alike if one[n].dim() > 1]
        assert weights
        same = [torch.equal(one[n], other[n]) for n in weights]
        assert not all(same) if field == "initialisation" else all(same)


@every_experiment
def test_arms_have_the_same_batches(kind):
    def first(task):
        x, _ = next(task.training_batches(dataset).batches_of_epoch(1))
        return torch.cat(
            [leaf.flatten().double() for leaf in torch.utils._pytree.tree_leaves(x)]
        )

    tasks = [
        task
        for owner, field, values in ARMS
        if owner is kind and field != "batch_size"
        for task in kind.arms("smoke", field, values, seeds=(0, 1)).values()
    ]
    dataset = dataset_of(kind)
    expected = first(tasks[0])
    assert all(torch.equal(first(task), expected) for task in tasks[1:])


@every_experiment
def test_every_evaluation_leaves_the_model_unchanged(kind):
    task, dataset = kind.budget("smoke", seeds=(0, 1)), dataset_of(kind)
    torch.set_default_dtype(torch.float32)
    model = stack([task.model(seed, dataset) for seed in task.seeds])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for evaluation in Evaluation:
        metrics = task.evaluate(model, dataset, evaluation)
        assert all(len(values) == 2 for values in metrics.values())
        assert evaluation is Evaluation.LIGHT or {*task.metrics} <= metrics.keys()
    assert all(torch.equal(value, before[n]) for n, value in model.state_dict().items())


@every_experiment
def test_a_run_of_some_updates_is_found_again(kind, tmp_path):
    task = kind.budget("smoke", updates=3, seeds=(0,))
    assert len(list(train_steps(task, root=tmp_path))) == 3
    (run,) = read(tmp_path)
    assert run.config["updates"] == 3
    (ending,) = run.result["outcomes"].values()
    assert (ending["outcome"], ending["update"]) == ("finished", 3)
    again = find_run(kind.from_config_ignoring_unknown(run.config), root=tmp_path)
    assert again is not None
    assert again.key == run.key
    assert {f.name for f in fields(kind)} >= run.config.keys() - {"device", "precision"}


@every_experiment
def test_fused_it_is_the_same_function_with_the_same_gradients(kind):
    dataset, values = dataset_of(kind), []
    for fused in (True, False):
        experiment = replace(kind.budget("smoke", seeds=(0,)), fused=fused)
        model = stack([experiment.model(seed, dataset) for seed in experiment.seeds]).double()
        x, y = next(
            experiment.training_batches(dataset, dtype=torch.float64).batches_of_epoch(0)
        )
        with IsolatedTorchRandomState("the same for both", torch.device("cpu")):
            loss = experiment.loss(model(x), y)
            loss.sum().backward()
        grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        values.append({"loss": loss} | grads | dict(model.named_buffers()))
    assert values[0].keys() == values[1].keys()
    for name, expected in values[1].items():
        torch.testing.assert_close(values[0][name], expected, rtol=1e-7, atol=1e-9, msg=name)


class ProductDtypes(TorchDispatchMode):
    """Records the dtypes of matrix products."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "convolution"):
            self.dtypes.add(output.dtype)
        return output


@every_experiment
def test_mixed_precision_changes_products_alone(kind, monkeypatch):
    # the reference: a compiled loop always computes in float32
    task, dataset = replace(kind.budget("smoke", seeds=(0,)), fused=False), dataset_of(kind)
    normalized = []

    def record(a):
        normalized.append(at_least_float32(a))
        return normalized[-1]

    monkeypatch.setattr("lnlab.nn.normalizer.at_least_float32", record)
    losses, grads = [], []
    for mixed in (False, True):
        model, products = stack(build_initial_models(task, dataset)), ProductDtypes()
        x, y = next(task.training_batches(dataset).batches_of_epoch(0))
        with products, IsolatedTorchRandomState("the same for both", torch.device("cpu")):
            losses.append(
                task.loss(forward_in_mixed_precision(model, x) if mixed else model(x), y)
            )
            losses[-1].sum().backward()
        assert (torch.bfloat16 in products.dtypes) == mixed
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        parameters = [p for p in model.parameters() if p.grad is not None]
        grads.append(torch.cat([p.grad.flatten() for p in parameters]))
    assert losses[1].dtype == torch.float32
    torch.testing.assert_close(*losses, rtol=5e-3, atol=0)
    # lowest (0.87) for the listener, whose norm scales up small states with their roundings
    assert torch.cosine_similarity(*grads, dim=0) > 0.85
    assert {a.dtype for a in normalized} <= {torch.float32}
