"""A run ends in the same bytes, however often it was stopped on its way."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from lnlab.analysis.recorder import record
from lnlab.training import finish, found, stack, train
from lnlab.training.runs import Run, read

TIMES = ["seconds", "cpu_seconds"]
LIBRARIES = ["torch", "numpy", "Python"]


def end(task, root, **settings) -> Run:
    """The run of a task, trained to its end."""
    for _ in train(task, root=root, **settings):
        pass
    (run,) = read(root)
    return run


def left(run: Run) -> tuple[bytes, str]:
    """What must be the same whenever the configuration is: weights and metrics, less times."""
    rows = run.metrics().drop(columns=TIMES).to_csv()
    return (run.folder / "weights.safetensors").read_bytes(), rows


def test_run_measures_and_finishes(tiny, tmp_path):
    task = tiny()
    steps = list(train(task, root=tmp_path))
    assert [step.update for step in steps] == list(range(1, 22))
    (run,) = read(tmp_path, "tiny")
    assert run.done
    metrics = run.metrics()
    assert metrics["update"].tolist() == [0, 0, 1, 1, 7, 7, 21, 21]
    assert metrics["seed"].tolist() == [3, 4] * 4
    assert metrics["epoch"].tolist() == [0, 0, 1 / 7, 1 / 7, 1, 1, 3, 3]
    assert metrics["loss"].isna().tolist() == [True, True] + [False] * 6
    assert metrics["loss"].tolist()[2:4] == steps[0].loss.tolist()
    assert metrics["seconds"].tolist()[::2] == [0.0, *(steps[i].seconds for i in (0, 6, 20))]
    nll = metrics["train_nll"].tolist()
    assert sum(nll[6:]) < sum(nll[:2])
    assert run.result["updates"] == 21
    assert run.result["seconds"] == steps[-1].seconds
    assert run.environment["threads"] == 1
    assert run.data["kind"] == "synthetic"


def test_a_task_may_let_its_learning_rate_fall(tiny, tmp_path):
    class Falling(type(tiny())):
        def schedule(self, part):
            return 0.1**part

        def optimizer(self, parameters):
            optimizer = super().optimizer(parameters)
            optimizer.register_step_pre_hook(lambda o, *_: used.append(o.param_groups[0]["lr"]))
            return optimizer

    used, whole = [], Falling()
    run = end(whole, tmp_path / "whole")
    assert used == pytest.approx([whole.learning_rate * 0.1 ** (k / 21) for k in range(21)])
    steps = train(whole, root=tmp_path / "stopped")
    for _ in range(9):
        next(steps)
    steps.close()
    assert left(end(whole, tmp_path / "stopped")) == left(run)


def test_weights_are_those_that_were_measured_last(tiny, tmp_path):
    task = tiny()
    run = end(task, tmp_path)
    weights = run.weights()
    for seed in task.seeds:
        model = task.model(seed, task.dataset()).float()
        own = {name: weights[f"{seed}.{name}"] for name in model.state_dict()}
        model.load_state_dict(own)
        measured = task.measure(stack([model]), task.dataset())
        last = run.metrics().query("seed == @seed").iloc[-1]
        # side by side the sums are taken in another order: float32
        assert measured["train_nll"][0] == pytest.approx(last["train_nll"], rel=1e-5)
    assert len(weights) == 2 * len(model.state_dict())


def test_run_that_is_done_gives_no_steps(tiny, tmp_path):
    run = end(tiny(), tmp_path)
    before = left(run)
    assert list(train(tiny(), root=tmp_path)) == []
    assert left(run) == before


def test_same_configuration_same_bytes_whatever_goes_on_around(drawing, draw, tmp_path):
    expected = left(end(drawing(), tmp_path / "a"))
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(99)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(2)
    for _ in train(drawing(), root=tmp_path / "b"):
        for library in LIBRARIES:
            draw(library)
    assert torch.get_num_threads() == 2
    assert torch.get_default_dtype() == torch.float32
    assert left(read(tmp_path / "b")[0]) == expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_run_does_not_touch_the_random_numbers_of_others(library, drawing, draw, tmp_path):
    def drawn(between) -> list[float]:
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(5)
        pair = [draw(library), draw(library)]
        between()
        return [*pair, draw(library), draw(library)]

    expected = drawn(lambda: None)
    assert drawn(lambda: end(drawing(), tmp_path)) == expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_random_numbers_of_every_library_are_resumed(library, drawing, draw, tmp_path):
    task = drawing(draws=(library,))
    expected = left(end(task, tmp_path / "clean"))
    for stop in (1, 4, 9):
        steps = train(task, root=tmp_path / "stopped")
        assert any(step.update == stop for step in steps)
        steps.close()
        draw(library)
    assert left(end(task, tmp_path / "stopped")) == expected


@pytest.mark.parametrize("seeds", [(3, 4), (3,)])
@pytest.mark.parametrize("stops", [[1], [7], [20], [21], [2, 3, 9]])
def test_stopped_and_taken_up_again_it_ends_in_the_same_bytes(seeds, stops, tiny, tmp_path):
    task = tiny(seeds=seeds)
    expected = left(end(task, tmp_path / "clean"))
    seconds = 0.0
    for stop in stops:
        steps = train(task, root=tmp_path / "stopped")
        for step in steps:
            if step.update == stop:
                assert step.seconds > seconds
                seconds = step.seconds
                break
        steps.close()
    assert left(end(task, tmp_path / "stopped")) == expected


def test_what_goes_beside_is_resumed_too(tiny, tmp_path):
    task, recorders = tiny(seeds=(3,)), []

    def beside(model):
        recorders.append(record(model, ["module.0"], every=2))
        return recorders[-1]

    end(task, tmp_path / "clean", beside=beside)
    steps = train(task, root=tmp_path / "stopped", beside=beside)
    for _ in range(9):
        next(steps)
    steps.close()
    end(task, tmp_path / "stopped", beside=beside)
    clean, stopped, resumed = (recorder.to_frame() for recorder in recorders)
    assert len(stopped) < len(resumed)
    assert resumed.equals(clean)


def test_run_of_a_task_is_found_by_its_configuration(tiny, tmp_path):
    assert found(tiny(), root=tmp_path) is None
    steps = train(tiny(), root=tmp_path)
    next(steps)
    begun = found(tiny(), root=tmp_path)
    assert begun is not None
    assert not begun.done
    steps.close()
    assert found(tiny(), root=tmp_path, precision="float64") is None
    with pytest.raises(ValueError, match="precision 'flaot32': choose from float32"):
        found(tiny(), root=tmp_path, precision="flaot32")
    assert found(tiny(epochs=1), root=tmp_path) is None


def test_it_is_recorded_what_a_checksum_is_of(tiny, tmp_path):
    class Sourced(type(tiny())):
        def dataset(self):
            dataset = super().dataset()
            dataset.checksum, dataset.checksum_of = "c1", "source"
            return dataset

    run = end(Sourced(), tmp_path)
    assert (run.data["checksum"], run.data["checksum_of"]) == ("c1", "source")
    again = found(Sourced(), root=tmp_path)
    assert again is not None
    assert again.key == run.key


def test_two_at_once_are_told(tiny, tmp_path):
    first = train(tiny(), root=tmp_path)
    next(first)
    with pytest.raises(RuntimeError, match="is being written"):
        next(train(tiny(), root=tmp_path))
    first.close()
    assert end(tiny(), tmp_path).done


def test_mixed_precision_goes_on_where_it_stopped(tiny, tmp_path):
    whole = [step.loss for step in train(tiny(), root=tmp_path / "a", precision="mixed")]
    steps = train(tiny(), root=tmp_path / "b", precision="mixed", save_every=0)
    for _ in range(len(whole) // 2):
        next(steps)
    steps.close()
    rest = [step.loss for step in train(tiny(), root=tmp_path / "b", precision="mixed")]
    assert 0 < len(rest) < len(whole)
    assert all(map(torch.equal, rest, whole[-len(rest) :]))
    (run,) = read(tmp_path / "a")
    assert run.config["precision"] == "mixed"
    other = [step.loss for step in train(tiny(), root=tmp_path / "c")]
    assert not all(map(torch.equal, other, whole))


def test_runs_differ_by_device_precision_and_configuration(tiny, tmp_path):
    for epochs, precision in ((2, "float32"), (2, "float64"), (1, "float32")):
        for _ in train(tiny(epochs=epochs), root=tmp_path, precision=precision):
            pass
    runs = read(tmp_path)
    assert len(runs) == 3
    for run in runs:
        dtype = getattr(torch, run.config["precision"])
        assert run.weights()["3.0.weight"].dtype == dtype
        assert run.config["device"] == "cpu"


def test_seeds_start_the_same_alone_and_together(tiny, tmp_path):
    together = end(tiny(seeds=(3, 4)), tmp_path / "together").metrics()
    alone = end(tiny(seeds=(4,)), tmp_path / "alone").metrics()
    # up to the noise, which each stack draws its own of: the start is the same
    first = together.query("seed == 4")["train_nll"].iloc[0]
    assert first == pytest.approx(alone["train_nll"].iloc[0], rel=1e-6)  # float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used here"),
        ({"device": "gpu"}, "device 'gpu' cannot be used here"),
        ({"precision": "float8"}, "precision 'float8': choose from float32, float64, mixed"),
    ],
)
def test_impossible_settings_are_refused_at_once(settings, message, tiny, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(tiny(), root=tmp_path, **settings)
    assert not list(tmp_path.iterdir())


def test_checkpoint_holds_all_that_is_needed(tiny, tmp_path):
    steps = train(tiny(), root=tmp_path, save_every=0.0)
    for _ in range(9):
        next(steps)
    (run,) = read(tmp_path)
    steps.close()
    run = Run.open(run.task, run.config, run.data, tmp_path)
    state = run.restore()
    run.close()
    assert state is not None
    assert state["step"][0] == 9


def test_models_are_drawn_in_float32_from_their_seed(tiny):
    from lnlab.training.trainer import models

    torch.manual_seed(3)
    with torch.random.fork_rng():
        torch.set_default_dtype(torch.float32)
        expected = nn.Linear(6, 5).weight
        torch.set_default_dtype(torch.float64)
    model, _ = models(tiny(), SimpleNamespace())
    assert torch.equal(model.get_parameter("0.weight"), expected)


def test_a_run_that_was_done_is_read_back_and_says_so(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    steps = train(tiny(), root=tmp_path)
    for _ in range(5):
        next(steps)
    steps.close()
    done = finish(tiny(), "batch norm", root=tmp_path)
    assert done is not None
    assert done.done
    assert capsys.readouterr().out.startswith("batch norm: 16 of 16 in "), "of 21, 5 were made"
    again = finish(tiny(), "batch norm", root=tmp_path)
    assert again is not None
    assert again.key == done.key
    said = f"batch norm: read back from run {done.key}, trained {done.finished} UTC\n"
    assert capsys.readouterr().out == said
