"""Runs are found under any root, read without waiting, and kept small."""

import json
import re
from pathlib import Path

import pytest
import torch

from lnlab.runs import Busy, Run, keep, read, remove, survey, table
from lnlab.runs.files import write_json

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


@pytest.mark.parametrize("resumed", [False, True])
def test_an_environment_is_kept_by_itself_only_if_the_end_had_another(resumed, tmp_path):
    with Run.open("mnist", {}, DATA, tmp_path / "runs") as run:
        if resumed:
            then = run.environment | {"commit": "of the day before"}
            write_json(run.folder / "environment.json", then)
        run.finish({}, {})
    kept = keep(run, tmp_path / "results")
    assert (kept.folder / "environment.json").is_file() == resumed
    assert kept.environment == run.environment
    assert kept.content("environment.json") == run.content("environment.json")
    assert kept.changes() == run.changes()
    assert keep(kept, tmp_path / "results").environment == run.environment


def test_what_a_result_tells_is_not_kept_again_and_is_held_by_its_hash(tmp_path):
    run = keep(run_of(tmp_path / "runs", norm="layer"), tmp_path / "results")
    assert {path.name for path in run.folder.iterdir()} == {"metrics.jsonl.xz", "result.json"}
    assert (run.task, run.config["norm"], run.data) == ("mnist", "layer", DATA)
    record = json.loads((run.folder / "result.json").read_text())
    record["config"]["config"]["norm"] = "batch"
    write_json(run.folder / "result.json", record)
    runs, damaged = survey(tmp_path / "results")
    assert not runs
    assert "another SHA-256" in damaged[0].error
    del record["config"]
    write_json(run.folder / "result.json", record)
    runs, damaged = survey(tmp_path / "results")
    assert not runs
    assert "config.json" in damaged[0].error


def test_a_missing_configuration_is_named_with_its_run_and_what_to_do(tmp_path):
    run = run_of(tmp_path)
    (run.folder / "config.json").unlink()
    message = f"{run.folder / 'config.json'} is missing from run {run.key}: copy it back, or"
    with pytest.raises(FileNotFoundError, match=re.escape(message)):
        Run(run.folder)
    with pytest.warns(UserWarning, match=r"delete the folder and train again\. This run is"):
        assert not read(tmp_path)


def test_a_run_is_kept_again_over_what_was_kept_with_a_file_for_each(tmp_path):
    run = run_of(tmp_path / "runs", norm="layer")
    kept = keep(run, tmp_path / "results")
    for name in ("config.json", "environment.json", "result.json"):
        (kept.folder / name).write_bytes(run.content(name))
    assert keep(Run(kept.folder), tmp_path / "results").config == run.config
    assert {path.name for path in kept.folder.iterdir()} == {"metrics.jsonl.xz", "result.json"}


def test_an_environment_that_nobody_tells_is_missed(tmp_path):
    run = keep(run_of(tmp_path / "runs"), tmp_path / "results")
    record = json.loads((run.folder / "result.json").read_text())
    for gone in ("environment", "own"):
        record.pop(gone)
    write_json(run.folder / "result.json", record)
    with pytest.raises(FileNotFoundError, match=r"environment\.json"):
        _ = run.environment


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
