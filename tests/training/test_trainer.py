"""Training ends in the same bytes however often it was stopped; to diverge is a result."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.training import (
    Batches,
    cross_entropy_per_model,
    evaluate,
    evaluation_mode,
    find_run,
    fit,
    stack,
    train,
    train_steps,
)
from lnlab.training.runs import Run, read
from lnlab.training.trainer import build_initial_models
from tests.training.conftest import Noisy, Tiny, random_numbers

TIMES = ["seconds", "cpu_seconds"]


def train_to_end(experiment, root, *stops, **settings) -> Run:
    """Train to the end, stopped after some updates and taken up again."""
    for update in stops:
        steps = train_steps(experiment, root=root, **settings)
        assert any(step.update == update for step in steps)
        steps.close()
    for _ in train_steps(experiment, root=root, **settings):
        pass
    (run,) = read(root)
    return run


def contents(run: Run) -> tuple:
    """Return what must be the same whenever the configuration is: all but the times."""
    rows = run.metrics().drop(columns=TIMES).to_csv()
    weights = (run.folder / "weights.safetensors").read_bytes()
    return weights, rows, run.result["outcomes"]


def test_a_run_has_a_row_for_each_seed_at_each_evaluation(tiny, tmp_path):
    steps = list(train_steps(tiny(), root=tmp_path))
    assert [step.update for step in steps] == list(range(1, 22))
    (run,) = read(tmp_path, "tiny")
    metrics = run.metrics()
    assert metrics["update"].tolist() == [0, 0, 1, 1, 7, 7, 21, 21]
    assert metrics["seed"].tolist() == [3, 4] * 4
    assert metrics["epoch"].tolist() == [0, 0, 1 / 7, 1 / 7, 1, 1, 3, 3]
    assert metrics["loss"].isna().tolist() == [True, True] + [False] * 6
    assert metrics["loss"].tolist()[2:4] == steps[0].loss.tolist()
    assert metrics["seconds"].tolist()[::2] == [
        0.0,
        *(steps[i].total_seconds for i in (0, 6, 20)),
    ]
    assert (run.result["updates"], run.result["seconds"]) == (21, steps[-1].total_seconds)
    assert run.result["main_metrics"] == ["train_nll", "train_error"]
    assert list(train_steps(tiny(), root=tmp_path)) == []
    for seed in (3, 4):  # the weights are those that were measured last
        model = tiny().load_model(run.weights(), tiny().dataset(), seed).float()
        nll = tiny().evaluate(stack([model]), tiny().dataset())["train_nll"]
        # side by side the sums are taken in another order: float32
        last = metrics.query("seed == @seed")["train_nll"]
        assert nll[0] == pytest.approx(last.iloc[-1], rel=1e-5)
        assert last.iloc[-1] < last.iloc[0]


class Plain(Tiny):
    max_grad_norm = 0.1

    def model(self, seed, dataset):
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

    def schedule(self, progress):
        return 0.1**progress


def test_the_loop_is_the_plain_loop_to_the_last_bit(tmp_path):
    experiment = Plain(seeds=(3,))
    weights = train_to_end(experiment, tmp_path).weights()
    (model,) = build_initial_models(experiment, None)
    optimizer, data = experiment.optimizer(model.parameters()), experiment.dataset().train
    update = 0
    for epoch in range(3):
        for x, y in Batches(data.x, data.y, 4, (3,)).batches_of_epoch(epoch):
            optimizer.param_groups[0]["lr"] = 1e-2 * 0.1 ** (update / 21)
            optimizer.zero_grad()
            F.cross_entropy(model(x[0]), y[0]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            update += 1
    for name, value in model.state_dict().items():
        assert torch.equal(weights[f"3.{name}"], value), name


def test_fit_makes_an_update_when_its_losses_are_asked_for():
    plain = nn.Linear(6, 2).float()
    model, data = stack([plain]), Tiny().dataset().train
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (model, plain)]
    batches = Batches(data.x, data.y, 4, (0,))
    steps = fit(model.eval(), batches, cross_entropy_per_model, optimizers[0], epochs=2)
    for epoch in range(2):
        for x, y in batches.batches_of_epoch(epoch):
            optimizers[1].zero_grad()
            loss = F.cross_entropy(plain(x[0]), y[0])
            loss.backward()
            optimizers[1].step()
            assert next(steps).item() == loss.item()
            assert torch.equal(model.module.get_parameter("weight"), plain.weight)
    assert next(steps, None) is None


# the same bytes


@pytest.mark.parametrize("kind", [Tiny, Noisy])
@pytest.mark.parametrize("seeds", [(3, 4), (3,)])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_stopped_and_taken_up_again_it_ends_in_the_same_bytes(kind, seeds, precision, tmp_path):
    def run(folder, *stops):
        root = tmp_path / folder
        return contents(train_to_end(kind(seeds=seeds), root, *stops, precision=precision))

    expected = run("whole")
    for stops in ([7, 20], [21], [1, 2, 9]):
        assert run(str(stops), *stops) == expected


def test_a_run_and_its_caller_leave_each_others_random_numbers_alone(tmp_path):
    expected = contents(train_to_end(Noisy(), tmp_path / "a"))
    torch.manual_seed(5)
    alone = random_numbers() + random_numbers()
    torch.manual_seed(5)
    before = random_numbers()
    again = contents(train_to_end(Noisy(), tmp_path / "b"))
    assert before + random_numbers() == alone
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(2)
    for _ in train_steps(Noisy(), root=tmp_path / "c"):
        random_numbers()
    assert torch.get_num_threads() == 2
    assert contents(read(tmp_path / "c")[0]) == again == expected


# runs


def test_a_run_is_found_by_its_configuration(tiny, tmp_path):
    assert find_run(tiny(), root=tmp_path) is None
    steps = train_steps(tiny(), root=tmp_path)
    next(steps)
    assert not find_run(tiny(), root=tmp_path).done
    with pytest.raises(RuntimeError, match="is being written"):
        next(train_steps(tiny(), root=tmp_path))
    steps.close()
    assert find_run(tiny(), root=tmp_path, precision="float64") is None
    assert find_run(tiny(epochs=1), root=tmp_path) is None
    run = train_to_end(tiny(), tmp_path / "64", precision="float64")
    assert (run.config["precision"], run.config["device"]) == ("float64", "cpu")
    assert run.weights()["3.0.weight"].dtype == torch.float64
    for wrong, message in (
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used here"),
        ({"precision": "float8"}, "precision 'float8': choose from float32, float64, mixed"),
    ):
        with pytest.raises(ValueError, match=message):
            next(train_steps(tiny(), root=tmp_path / "wrong", **wrong))
    assert not (tmp_path / "wrong").exists()


def test_a_run_that_was_done_is_read_back_and_says_so(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    steps = train_steps(tiny(), root=tmp_path)
    for _ in range(5):
        next(steps)
    steps.close()
    run = train(tiny(), "batch norm", root=tmp_path)
    assert run.done
    assert capsys.readouterr().out.startswith("batch norm: 16 of 16 in "), "of 21, 5 were made"
    assert train(tiny(), "batch norm", root=tmp_path).key == run.key
    text = f"batch norm: read back from run {run.key}, trained {run.finish_time} UTC\n"
    assert capsys.readouterr().out == text


class Pictured(Tiny):
    def evaluate(self, model, dataset, evaluation):
        metrics = super().evaluate(model, dataset)
        pictures = [torch.full((2, 3), nll).float() for nll in metrics["train_nll"]]
        return {**metrics, "canvas": pictures}


def test_what_is_no_experiment_is_named():
    with pytest.raises(TypeError, match="experiment is 'layer': give an experiment"):
        train("layer")  # pyright: ignore[reportArgumentType]


def test_an_array_is_kept_as_a_picture_and_resumed(tmp_path):
    run = train_to_end(Pictured(), tmp_path, 9)
    assert "canvas" not in run.metrics()
    for seed in (3, 4):
        rows, pictures = run.metrics().query("seed == @seed"), run.pictures(seed)
        assert [*pictures] == rows["update"].tolist() == [0, 1, 7, 21]
        for update, nll in zip(rows["update"], rows["train_nll"], strict=True):
            assert (pictures[update]["canvas"] == np.float32(nll)).all()


# seeds that diverge

FROM = 9
"""The update at which the loss of some seeds is infinite."""


class Breaking(Tiny):
    """The small experiment, of whose seeds some diverge."""

    broken = ()

    def schedule(self, progress):
        object.__setattr__(self, "update", round(progress * 21) + 1)
        return 1.0

    def loss(self, output, y):
        factor = torch.ones(len(self.seeds))
        if torch.is_grad_enabled() and self.update >= FROM:
            factor[list(self.broken)] = math.inf
        return super().loss(output, y) * factor

    def evaluate(self, model, dataset, *evaluation):
        metrics = super().evaluate(model, dataset)
        assert all(map(math.isfinite, metrics["train_nll"]))
        return metrics


def breaking(*broken, kind=Breaking, **fields):
    fields = {"seeds": (3, 4, 5)} | fields
    return type("Broken", (kind,), {"broken": broken})(**fields)


def test_one_seed_diverges_and_the_others_are_what_they_would_be(tmp_path):
    run = train_to_end(breaking(1), tmp_path / "one")
    whole = train_to_end(breaking(), tmp_path / "none")
    assert run.result["outcomes"] == {
        "3": {"outcome": "finished", "update": 21},
        "4": {"outcome": "diverged", "update": FROM},
        "5": {"outcome": "finished", "update": 21},
    }
    for name, value in whole.weights().items():
        assert name.startswith("4.") or torch.equal(run.weights()[name], value), name
    rows, others = (one.metrics().drop(columns=TIMES).groupby("seed") for one in (run, whole))
    for seed in (3, 5):
        assert rows.get_group(seed).drop(columns="diverged").equals(others.get_group(seed))
    last = rows.get_group(4).iloc[-1]
    assert last["diverged"] == FROM
    assert last[["loss", "train_nll", "train_error"]].isna().all()
    for stop in (FROM - 1, FROM, FROM + 3):
        again = train_to_end(breaking(1), tmp_path / str(stop), stop)
        assert contents(again) == contents(run)
    ended = train_to_end(breaking(0, 1, 2), tmp_path / "all")  # nothing is left to train
    assert ended.result["updates"] == FROM
    assert ended.metrics()["update"].unique().tolist() == [0, 1, 7, FROM]


class Stepping(Breaking):
    """Breaks weights in the very update before an evaluation; the loss was finite."""

    def loss(self, output, y):
        return cross_entropy_per_model(output, y)

    def optimizer(self, parameters):
        parameters = [*parameters]
        optimizer = super().optimizer(parameters)

        def after(*_):
            if self.update == 7:  # after which they are evaluated
                for p in parameters:
                    p.data[list(self.broken)] = math.nan

        optimizer.register_step_post_hook(after)
        return optimizer


@pytest.mark.parametrize("broken", [(1,), (0, 1, 2)])
def test_weights_that_are_not_finite_are_not_evaluated(broken, tmp_path):
    run = train_to_end(breaking(*broken, kind=Stepping), tmp_path)
    outcomes = run.result["outcomes"]
    diverged = {seed: o["update"] for seed, o in outcomes.items() if o["outcome"] == "diverged"}
    assert diverged == {str(3 + index): 7 for index in broken}
    assert run.metrics().iloc[-1]["update"] == (7 if len(broken) == 3 else 21)


# the best weights

VALID = {3: [0.5, 0.4, 0.3, 0.9], 4: [0.2, math.nan, 0.6, 0.7]}
"""The validation metric of seeds 3 and 4 at updates 0, 1, 7 and 21."""


class Selecting(Breaking):
    """The small experiment whose weights that count are the best by a made-up validation."""

    higher_is_better = ("recall",)
    lower_is_better = ("valid",)
    update = 0

    def evaluate(self, model, dataset, evaluation):
        index = {0: 0, 1: 1, 7: 2, 21: 3}.get(self.update, 3)
        values = [VALID[seed][index] for seed in self.seeds]
        nll = super().evaluate(model, dataset)["train_nll"]
        name = "test" if evaluation.name == "FINAL" else "nll"
        return {"valid": values, "recall": [-v for v in values], name: nll}


@pytest.mark.parametrize("metric", ["valid", "recall"])
@pytest.mark.parametrize("seeds", [(3, 4), (3,)])
def test_the_best_weights_count_whichever_way_is_better(metric, seeds, tmp_path):
    def select(folder, *stops):
        experiment = breaking(kind=Selecting, best_metric=metric, seeds=seeds)
        return train_to_end(experiment, tmp_path / folder, *stops)

    run = select("whole")
    sign = 1 if metric == "valid" else -1
    for seed in seeds:
        update, value = {3: (7, 0.3), 4: (0, 0.2)}[seed]
        best = {"metric": metric, "value": sign * value, "update": update}
        assert run.result["outcomes"][str(seed)]["best"] == best
        rows = run.metrics().query("seed == @seed")
        assert rows["update"].tolist() == [0, 1, 7, 21]
        # at the end what counts is measured: the weights of that update
        assert rows["test"].iloc[-1] == rows.query("update == @update")["nll"].iloc[0]
        assert rows["test"].iloc[:-1].isna().all()
        # what was measured before is that of the last weights
        assert rows["nll"].iloc[-1] != rows["test"].iloc[-1]
        np.testing.assert_array_equal(rows["valid"].astype(float), VALID[seed])
        twice = run.evaluations().query("seed == @seed")
        assert twice["update"].tolist() == [0, 1, 7, 21, 21]
        assert [row["test"] for row in run.rows_of_last_update() if row["seed"] == seed] == [
            twice["test"].iloc[-1]
        ]
    for stop in (5, 21):
        assert contents(select(str(stop), stop)) == contents(run)


def test_a_seed_that_has_diverged_has_the_best_weights_it_had(tmp_path):
    experiment = breaking(0, kind=Selecting, best_metric="valid", seeds=(3, 4))
    run = train_to_end(experiment, tmp_path)
    outcome = run.result["outcomes"]["3"]
    assert (outcome["outcome"], outcome["update"]) == ("diverged", FROM)
    assert outcome["best"]["update"] == 7
    assert all(weight.isfinite().all() for weight in run.weights().values())
    rows = run.metrics().query("seed == 3")
    assert rows["test"].iloc[-1] == rows.query("update == 7")["nll"].iloc[0]


def test_evaluate_is_the_mean_over_all_cases_and_leaves_no_trace():
    x = torch.randn(40, 6)
    y = (x[:, 0] > 0).long()
    models = [nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)) for _ in "abc"]
    model = stack(models)
    model(x[:10].expand(3, 10, 6)).sum().backward()
    model.get_submodule("module.1").eval()  # frozen statistics stay frozen
    modes = [module.training for module in model.modules()]
    state = copy.deepcopy(model.state_dict())
    metrics = evaluate(model, x, y, cross_entropy_per_model, batch_size=7)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    for index, one in enumerate(model.unstack()):
        output = one.eval()(x)
        nll, error = F.cross_entropy(output, y), (output.argmax(1) != y).double().mean()
        assert metrics["nll"][index] == pytest.approx(nll.item(), rel=1e-13)
        assert metrics["error"][index] == error.item()
        alone = evaluate(one, x.float(), y, F.cross_entropy, batch_size=7)
        assert alone["nll"][0] == pytest.approx(nll.item(), rel=1e-5)
    with pytest.raises(KeyError), evaluation_mode(model):
        raise KeyError
    assert [module.training for module in model.modules()] == modes
