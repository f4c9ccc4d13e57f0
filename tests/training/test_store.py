"""Runs are found under any root, read without waiting, and kept small."""

from pathlib import Path

import pytest
import torch

from lnlab import paths
from lnlab.training.runs import Busy, Run, keep, read, remove, survey, table

DATA = {"checksum": "abc"}


def run_of(root, task="mnist", done=True, **config) -> Run:
    with Run.open(task, config, DATA, root) as run:
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
    with Run.open("mnist", {}, DATA, tmp_path) as writer:
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


def test_a_missing_configuration_is_named_with_its_run_and_what_to_do(tmp_path):
    run = run_of(tmp_path)
    (run.folder / "config.json").unlink()
    message = rf"{run.folder}/config\.json is missing.*Delete {run.folder} to start again"
    with pytest.raises(ValueError, match=message):
        Run(run.folder)
    with pytest.warns(UserWarning, match=rf"{message}\. This run is left out"):
        assert not read(tmp_path)


def test_keep_leaves_the_weights_behind(tmp_path):
    run = run_of(tmp_path / "runs", norm="layer")
    kept = keep(run, tmp_path / "results")
    assert kept.done
    assert (kept.task, kept.key, kept.config, kept.data) == ("mnist", run.key, run.config, DATA)
    assert (kept.result, kept.finished) == (run.result, run.finished)
    assert kept.environment == run.environment
    assert kept.metrics().equals(run.metrics())
    assert (tmp_path / "results" / "mnist.jsonl.xz").stat().st_size < 4000
    with pytest.raises(FileNotFoundError, match="without weights"):
        kept.weights()


def test_kept_runs_are_merged_sorted_and_keeping_again_changes_no_byte(tmp_path):
    runs = [run_of(tmp_path / "runs", norm=norm) for norm in ("layer", "batch", "none")]
    for run in runs:
        keep(run, tmp_path / "results")
    path = tmp_path / "results" / "mnist.jsonl.xz"
    once = path.read_bytes()
    assert [run.key for run in read(tmp_path / "results")] == sorted(run.key for run in runs)
    keep(runs[0], tmp_path / "results")
    keep(read(tmp_path / "results")[1], tmp_path / "results")
    assert path.read_bytes() == once
    for run in reversed(runs):
        keep(run, tmp_path / "other")
    assert (tmp_path / "other" / "mnist.jsonl.xz").read_bytes() == once


def test_the_environment_of_the_end_is_kept_where_it_was_another(tmp_path, monkeypatch):
    with Run.open("mnist", {}, DATA, tmp_path / "runs") as run:
        run.checkpoint({})
    now = run.environment | {"commit": "of the day after"}
    monkeypatch.setattr("lnlab.training.runs.environment", lambda device: now)
    with Run.open("mnist", {}, DATA, tmp_path / "runs") as run:
        run.finish({}, {})
    kept = keep(run, tmp_path / "results")
    assert kept.environment == run.environment != now
    assert kept.environment_at_end == run.environment_at_end == now


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b[41:]])
def test_a_damaged_file_of_kept_runs_is_named(damage, tmp_path):
    path = keep(run_of(tmp_path / "runs"), tmp_path / "results").folder
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=rf"{path} is damaged.*Restore it from git"):
        assert read(tmp_path / "results") == []


def test_what_is_kept_in_git_is_small():
    files = [path for path in paths.place("results").rglob("*") if path.is_file()]
    assert len(files) <= 20
    assert sum(path.stat().st_size for path in files) <= 9e6


def test_keep_refuses_what_is_not_done_or_damaged(tmp_path):
    run = run_of(tmp_path, done=False, norm="layer")
    with pytest.raises(ValueError, match="only finished runs are kept"):
        keep(run, tmp_path / "results")
    run = run_of(tmp_path, norm="batch")
    (run.folder / "metrics.jsonl").write_text('{"update": 1, "nll": 0.0}\n')
    with pytest.raises(ValueError, match="damaged"):
        keep(run, tmp_path / "results")
    assert not [run for run in read(tmp_path / "results") if run.done]


def test_table_has_the_differences_and_the_last_row_of_each_seed(tmp_path):
    for norm, size in (("layer", 4), ("batch", 128)):
        with Run.open(
            "mnist", {"norm": norm, "batch_size": size, "epochs": 2}, DATA, tmp_path
        ) as run:
            for update, seed in ((1, 0), (1, 1), (2, 0), (2, 1)):
                run.log({"update": update, "seed": seed, "nll": size / update + seed})
    Run.open("mnist", {"norm": "none", "batch_size": 4, "epochs": 2}, DATA, tmp_path).close()
    found = table(read(tmp_path)).set_index(["norm", "seed"]).sort_index()
    assert "epochs" not in found
    assert found.loc[("batch", 1), "nll"] == 65.0
    assert found.loc[("layer", 0), "nll"] == 2.0
    assert found.loc["none", "nll"].isna().tolist() == [True]
    assert not any(found["done"].tolist())


def test_removed_run_is_gone_and_one_being_written_is_not(tmp_path):
    run = run_of(tmp_path, norm="layer")
    remove(run)
    assert not run.folder.exists()
    with Run.open("mnist", {}, DATA, tmp_path) as run:
        with pytest.raises(Busy):
            remove(run)
        assert run.folder.exists()


def test_removal_that_is_cut_short_leaves_no_run(tmp_path, monkeypatch):
    for survives in range(1, 4):
        run = run_of(tmp_path, norm="layer")
        unlinked = iter(range(survives))

        def unlink(path, *args, run=run, unlinked=unlinked, unlink=Path.unlink, **settings):
            if path.parent == run.folder and next(unlinked, None) is None:
                raise KeyboardInterrupt
            unlink(path, *args, **settings)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", unlink)
            with pytest.raises(KeyboardInterrupt):
                remove(run)
        assert not [run for run in read(tmp_path) if run.done]
        run = run_of(tmp_path, norm="layer")
        assert run.result == {"seconds": 2.0}
        remove(run)


@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_a_damaged_run_is_left_out_with_a_word_and_can_be_removed(name, tmp_path):
    whole, damaged = (run_of(tmp_path, norm=norm) for norm in ("layer", "batch"))
    (damaged.folder / name).write_bytes(b"{")
    with pytest.warns(UserWarning, match=rf"{damaged.key}.*damaged.*left out"):
        assert [run.key for run in read(tmp_path)] == [whole.key]
    runs, (found,) = survey(tmp_path)
    assert [run.key for run in runs] == [whole.key]
    assert (found.task, found.key, found.folder) == ("mnist", damaged.key, damaged.folder)
    remove(found)
    assert survey(tmp_path)[1] == []


def test_last_rows_are_those_of_the_last_update(tmp_path):
    with Run.open("mnist", {}, DATA, tmp_path) as run:
        assert run.last() == []
        for update, seed in ((1, 0), (1, 1), (2, 0), (2, 1)):
            run.log({"update": update, "seed": seed})
        assert run.last() == [{"update": 2, "seed": 0}, {"update": 2, "seed": 1}]
