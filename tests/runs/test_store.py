"""Runs are found under any root, read without waiting, and kept small."""

import pytest
import torch

from lnlab.runs import Run, keep, read


def run_of(root, task="mnist", done=True, **config) -> Run:
    with Run.open(task, config, {"checksum": "abc"}, root) as run:
        run.log({"update": 1})
        if done:
            run.finish({"seconds": 2.0}, {"W": torch.zeros(100_000)})
    return run


def test_read_lists_runs_by_task_and_key(tmp_path):
    runs = [run_of(tmp_path, norm=norm) for norm in ("layer", "batch")]
    other = run_of(tmp_path, task="draw")
    (tmp_path / "mnist" / "not a run").mkdir()
    assert [run.key for run in read(tmp_path, "mnist")] == sorted(run.key for run in runs)
    assert [run.task for run in read(tmp_path)] == ["draw", "mnist", "mnist"]
    assert read(tmp_path, "draw")[0].folder == other.folder
    assert read(tmp_path / "nowhere") == []


def test_read_never_waits_for_a_writer(tmp_path):
    with Run.open("mnist", {}, {"checksum": "abc"}, tmp_path) as writer:
        writer.log({"update": 1})
        (reader,) = read(tmp_path)
        assert not reader.done
        assert len(reader.metrics()) == 1
        with pytest.raises(ValueError, match="is not done"):
            _ = reader.result


def test_of_two_roots_the_finished_run_counts(tmp_path):
    first, second = tmp_path / "runs", tmp_path / "results"
    run_of(first, done=False, norm="layer")
    run_of(second, norm="layer")
    run_of(first, norm="batch")
    run_of(second, norm="batch")
    found = {run.config["norm"]: run.folder.parts[-3] for run in read([first, second])}
    assert found == {"layer": "results", "batch": "runs"}


def test_keep_leaves_the_weights_behind(tmp_path):
    run = run_of(tmp_path / "runs")
    kept = keep(run, tmp_path / "results")
    assert kept.done
    assert kept.result == run.result
    assert kept.metrics().equals(run.metrics())
    assert sum(path.stat().st_size for path in kept.folder.iterdir()) < 4000
    with pytest.raises(FileNotFoundError, match="weights"):
        kept.weights()
    keep(run, tmp_path / "results")


def test_keep_refuses_what_is_not_done_or_damaged(tmp_path):
    run = run_of(tmp_path, done=False, norm="layer")
    with pytest.raises(ValueError, match="only finished runs are kept"):
        keep(run, tmp_path / "results")
    run = run_of(tmp_path, norm="batch")
    (run.folder / "metrics.jsonl").write_text('{"update": 1, "nll": 0.0}\n')
    with pytest.raises(ValueError, match="damaged"):
        keep(run, tmp_path / "results")
    assert not [run for run in read(tmp_path / "results") if run.done]
