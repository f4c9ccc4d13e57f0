"""Runs on disk: whole after a kill, written by one process, damage named, kept small."""

import hashlib
import io
import json
import os
import pickle
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import lnlab
from lnlab.training.runs import Run, RunLockedError, environment, keep, read, remove, run_key

CONFIG = {"norm": "layer", "units": [8, 8], "learning_rate": 1e-3}
DATA = {"name": "digits", "kind": "embedded", "checksum": "abc", "licence": "BSD"}
PICTURES = {
    "attention": torch.arange(6, dtype=torch.float16).reshape(2, 3).T,
    "canvas": np.arange(6, dtype=np.uint8),
}


def begin(root, task="mnist", **changes) -> Run:
    return Run.open(task, CONFIG | changes, DATA, root)


def finish(root, task="mnist", **changes) -> Run:
    with begin(root, task, **changes) as run:
        for update in (1, 2):
            run.log({"update": update, "seed": 0, "nll": torch.tensor(1 / update)}, PICTURES)
        run.finish({"seconds": 1.5}, {"W": torch.eye(3).T})
    return run


def check_pictures(run: Run, updates: list[int]) -> None:
    assert list(run.pictures(0)) == updates
    for pictures in run.pictures(0).values():
        assert np.array_equal(pictures["attention"], PICTURES["attention"].numpy())
        assert pictures["canvas"].dtype == np.uint8
        assert np.array_equal(pictures["canvas"], PICTURES["canvas"])
    assert run.pictures(1) == {}


def test_a_finished_run_says_what_it_was_under_the_hash_of_canonical_json(tmp_path):
    text = '{"config":{"a":[1,2],"b":0.5},"data":"abc"}'
    assert (
        run_key({"b": 0.5, "a": (1, 2)}, "abc")
        == hashlib.sha256(text.encode()).hexdigest()[:12]
    )
    root = tmp_path / "mes données à moi"
    finish(root)
    run = begin(root)
    assert run.done
    assert run.folder == root / "mnist" / run_key(CONFIG, "abc")
    assert (run.config, run.data, run.environment) == (CONFIG, DATA, environment())
    assert run.result == {"seconds": 1.5}
    assert torch.equal(run.weights()["W"], torch.eye(3))
    columns = {"update": [1, 2], "seed": [0, 0], "nll": [1.0, 0.5]}
    assert run.metrics().to_dict("list") == columns
    assert run.rows_of_last_update() == [{"update": 2, "seed": 0, "nll": 0.5}]
    check_pictures(run, [1, 2])
    assert not list(run.folder.glob("checkpoint.bin"))


def test_environment_is_complete_and_names_no_machine():
    here = environment()
    assert here["lnlab"] == lnlab.__version__
    assert here["threads"] == torch.get_num_threads() == 1
    assert here["device_name"]
    assert platform.node() not in json.dumps(here)
    assert str(Path.home()) not in json.dumps(here)
    head = ["git", "-C", str(Path(lnlab.__file__).parents[1]), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True).stdout.strip()
    assert (here["commit"] or "").removesuffix("-dirty") == commit


# resumed


def test_a_checkpoint_comes_back_and_later_rows_are_cut(tmp_path):
    state = {"W": torch.randn(3), "moments": {0: {"step": torch.tensor(2.0)}}, "at": (1, 0.5)}
    with begin(tmp_path) as run:
        run.log({"update": 0})
    with begin(tmp_path) as run:  # without a checkpoint it starts again
        assert run.state is None
        assert run.rows() == []
        run.log({"update": 1, "seed": 0}, PICTURES)
        run.checkpoint(state)
        run.log({"update": 2, "seed": 0}, PICTURES)
        with (run.folder / "metrics.jsonl").open("ab") as file:
            file.write(b'{"update": 3, "torn')
        assert Run(run.folder).metrics()["update"].tolist() == [1, 2]
    (run.folder / "checkpoint.bin.part").write_bytes(b"killed while it was written")
    with begin(tmp_path) as run:
        restored = run.state
        assert torch.equal(restored["W"], state["W"])
        assert {**restored, "W": 0} == {**state, "W": 0}
        check_pictures(run, [1])
        run.log({"update": 2, "seed": 0}, PICTURES)
        assert run.metrics()["update"].tolist() == [1, 2]
        run.finish({}, {})
    check_pictures(run, [1, 2])
    assert not list(run.folder.glob("*.part"))


@pytest.mark.parametrize("part", ["code", "cpu_capability"])
def test_another_version_may_read_but_not_resume(part, tmp_path, monkeypatch):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint({})
    finish(tmp_path, norm="batch")
    here = environment()
    monkeypatch.setattr("lnlab.training.runs.environment", lambda _: here | {part: "0.7"})
    with pytest.raises(RuntimeError, match=rf"{part} .*is 0\.7.*Delete {run.folder} to start"):
        begin(tmp_path)
    assert len(Run(run.folder).metrics()) == 1
    assert begin(tmp_path, norm="batch").done


def test_a_second_writer_is_refused_until_the_first_dies(tmp_path):
    program = f"""
import sys, time
from lnlab.training.runs import Run
run = Run.open("mnist", {CONFIG!r}, {DATA!r}, sys.argv[1])
run.log({{"update": 1}}), run.checkpoint({{"update": 1}})
print("locked", flush=True), time.sleep(60)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout.readline() == "locked\n"
            with pytest.raises(RunLockedError, match="is being written"):
                begin(tmp_path)
            (reader,) = read(tmp_path)  # does not wait
            with pytest.raises(RunLockedError):
                remove(reader)
            with pytest.raises(ValueError, match="is not done"):
                _ = reader.result
        finally:
            writer.kill()
    with begin(tmp_path) as run:  # at once, or it would be locked
        assert run.state == {"update": 1}


# damaged


@pytest.mark.parametrize("name", ["config", "metrics", "pictures", "weights"])
def test_a_damaged_file_of_a_finished_run_is_named_with_what_to_do(name, tmp_path):
    def read_all():
        run = Run(folder)
        return run.config, run.environment, run.metrics(), run.weights(), run.pictures(0)

    folder = finish(tmp_path).folder
    (path,) = folder.glob(f"{name}.*")
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 15)):
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        for damaged in (content[:place], flipped):
            path.write_bytes(damaged)
            with pytest.raises(
                ValueError, match=rf"{path} is damaged.*Delete {folder} to start"
            ):
                read_all()
    path.unlink()
    with pytest.raises(ValueError, match=rf"{folder}.*(missing|is not done)"):
        read_all()


class Command:
    """A pickle that runs a command when it is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_checkpoint_that_is_torn_is_named_and_its_pickle_not_executed(tmp_path):
    with begin(tmp_path) as run:
        run.checkpoint({"W": torch.randn(20)})
    path = run.folder / "checkpoint.bin"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"checkpoint\.bin is damaged.*to start again"):
        begin(tmp_path)
    mark, buffer = tmp_path / "executed", io.BytesIO()
    torch.save({"W": Command(f"touch '{mark}'")}, buffer)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(pickle.UnpicklingError):
        begin(tmp_path)
    assert not mark.exists()


# many runs, and kept ones


def test_runs_are_read_in_order_a_finished_one_first_and_damaged_ones_left_out(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    begin(first).unlock()
    runs = [finish(second), finish(first, norm="batch"), finish(first, "draw")]
    finish(second, norm="batch")
    (first / "mnist" / "not a run").mkdir()
    both = read([first, second])
    assert [run.task for run in both] == ["draw", "mnist", "mnist"]
    assert {run.folder for run in both} == {run.folder for run in runs}
    assert [run.key for run in read([first, second], "draw")] == [runs[2].key]
    assert read(tmp_path / "nowhere") == []
    (runs[2].folder / "config.json").write_bytes(b"{")
    with pytest.warns(UserWarning, match=rf"{runs[2].key}.*damaged.*left out"):
        assert len(read([first, second])) == 2
    remove(runs[0])
    assert not runs[0].folder.exists()


def test_kept_runs_are_the_same_without_weights(tmp_path):
    results = tmp_path / "results"
    runs = [finish(tmp_path / "runs", norm=norm) for norm in ("layer", "batch", "none")]
    for run in runs:
        kept = keep(run, results)
        assert kept.task == run.task
        assert kept.record() == run.record()
        assert kept.metrics().equals(run.metrics())
        check_pictures(kept, [1, 2])
        with pytest.raises(FileNotFoundError, match="without weights"):
            kept.weights()
    files = sorted(results.glob("*.xz"))
    assert [path.name for path in files] == ["mnist.jsonl.xz", "mnist.pictures.xz"]
    assert [run.key for run in read(results)] == sorted(run.key for run in runs)
    before = [path.read_bytes() for path in files]
    keep(runs[0], results)
    keep(read(results)[1], results)
    assert [path.read_bytes() for path in files] == before
    files[0].write_bytes(before[0][:-1])
    with pytest.warns(UserWarning, match=rf"{files[0]} is damaged.*Restore it from git"):
        assert read(results) == []
    with begin(tmp_path, norm="dyt") as run:
        run.checkpoint({})
    with pytest.raises(ValueError, match="only finished runs are kept"):
        keep(run, results)
