"""Runs on disk: whole after a kill, written by one process, damage named, kept small."""

import hashlib
import io
import json
import os
import pickle
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import lnlab
from lnlab import paths
from lnlab.training.runs import (
    Busy,
    Run,
    code,
    environment,
    keep,
    key,
    read,
    remove,
    survey,
    table,
    write,
)

CONFIG = {"norm": "layer", "units": [8, 8], "learning_rate": 1e-3}
DATA = {"name": "digits", "kind": "embedded", "checksum": "abc", "licence": "BSD"}


def begin(root, task="mnist", **changes) -> Run:
    return Run.open(task, CONFIG | changes, DATA, root)


def finished(root, task="mnist", **changes) -> Run:
    with begin(root, task, **changes) as run:
        for update in (1, 2):
            run.log({"update": update, "seed": 0, "nll": torch.tensor(1 / update)}, PICTURES)
        run.finish({"seconds": 1.5}, {"W": torch.eye(3).T})
    return run


PICTURES = {
    "attention": torch.arange(6, dtype=torch.float16).reshape(2, 3).T,
    "canvas": np.arange(6, dtype=np.uint8),
}


def check_pictures(run: Run, updates: list[int]) -> None:
    found = run.pictures(0)
    assert list(found) == updates
    for pictures in found.values():
        assert np.array_equal(pictures["attention"], PICTURES["attention"].numpy())
        assert pictures["canvas"].dtype == np.uint8
        assert np.array_equal(pictures["canvas"], PICTURES["canvas"])
    assert run.pictures(1) == {}


def program(body: str, *arguments: object) -> subprocess.Popen:
    """A program that opens the same run in another process."""
    head = f"""
    import json, os, random, resource, signal, sys, time, torch
    from pathlib import Path
    from lnlab.training.runs import Run, environment
    def begin(**changes):
        return Run.open("mnist", {CONFIG!r} | changes, {DATA!r}, Path(sys.argv[1]))
    """
    code = textwrap.dedent(head) + textwrap.dedent(body)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


# what a run is


def test_key_is_the_hash_of_canonical_json():
    text = '{"config":{"a":[1,2],"b":0.5},"data":"abc"}'
    expected = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert key({"b": 0.5, "a": (1, 2)}, "abc") == expected
    assert key({"b": 0.5, "a": (1, 2)}, "abd") != expected
    with pytest.raises(TypeError, match="configuration cannot be written as JSON"):
        key({"a": float("nan")}, "abc")


@pytest.mark.parametrize("name", ["runs", "mes données à moi"])
def test_finished_run_says_what_it_was(name, tmp_path):
    assert not finished(tmp_path / name)._lock
    run = begin(tmp_path / name)
    assert run.done
    assert run.folder == tmp_path / name / "mnist" / key(CONFIG, "abc")
    assert (run.config, run.data) == (CONFIG, DATA)
    assert run.environment == environment()
    assert run.result == {"seconds": 1.5}
    assert torch.equal(run.weights()["W"], torch.eye(3))
    columns = {"update": [1, 2], "seed": [0, 0], "nll": [1.0, 0.5]}
    assert run.metrics().to_dict("list") == columns
    assert run.last() == [{"update": 2, "seed": 0, "nll": 0.5}]
    check_pictures(run, [1, 2])
    assert not list(run.folder.glob("checkpoint.bin"))
    with pytest.raises(RuntimeError, match="for reading only"):
        run.log({"update": 3})


def test_environment_is_complete_and_names_no_machine():
    here = environment()
    assert here["lnlab"] == lnlab.__version__
    assert here["threads"] == torch.get_num_threads() == 1
    assert here["device_name"]
    text = json.dumps(here)
    assert platform.node() not in text
    assert str(Path.home()) not in text
    folder = Path(lnlab.__file__).parents[1]
    head = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True).stdout.strip() or None
    assert (here["commit"].removesuffix("-dirty") if here["commit"] else None) == commit


def test_code_changes_with_any_source_of_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr("lnlab.__file__", str(tmp_path / "__init__.py"))
    paths_of = [tmp_path / "__init__.py", tmp_path / "k" / "f.cpp"]
    seen = [code.__wrapped__()]
    for path, text in ((paths_of[0], "1"), (paths_of[1], "1"), (paths_of[1], "2")):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        seen.append(code.__wrapped__())
    paths_of[1].rename(tmp_path / "g.cpp")
    assert len({*seen, code.__wrapped__()}) == 5


# resumed


def test_a_checkpoint_comes_back_and_later_rows_are_cut(tmp_path):
    state = {"W": torch.randn(3), "moments": {0: {"step": torch.tensor(2.0)}}, "at": (1, 0.5)}
    with begin(tmp_path) as run:
        run.log({"update": 0})
    with begin(tmp_path) as run:  # without a checkpoint it starts again
        assert run.restore() is None
        assert run.rows() == []
        run.log({"update": 1, "seed": 0}, PICTURES)
        run.checkpoint(state)
        run.log({"update": 2, "seed": 0}, PICTURES)
        with (run.folder / "metrics.jsonl").open("ab") as file:
            file.write(b'{"update": 3, "torn')
        assert Run(run.folder).metrics()["update"].tolist() == [1, 2]
    (run.folder / "checkpoint.bin.part").write_bytes(b"killed while it was written")
    with begin(tmp_path) as run:
        back = run.restore()
        assert back is not None
        assert torch.equal(back["W"], state["W"])
        assert {**back, "W": 0} == {**state, "W": 0}
        check_pictures(run, [1])
        run.log({"update": 2, "seed": 0}, PICTURES)
        assert run.metrics()["update"].tolist() == [1, 2]
        run.finish({}, {})
    check_pictures(run, [1, 2])
    assert not list(run.folder.glob("*.part"))


@pytest.mark.parametrize("part", ["lnlab", "code", "torch", "cpu_capability"])
def test_another_version_may_read_but_not_resume(part, tmp_path, monkeypatch):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint({})
    finished(tmp_path, norm="batch")
    here = environment()
    monkeypatch.setattr("lnlab.training.runs.environment", lambda _: here | {part: "0.7"})
    with pytest.raises(RuntimeError, match=rf"{part} .*is 0\.7.*Delete {run.folder} to start"):
        begin(tmp_path)
    assert len(Run(run.folder).metrics()) == 1
    assert Run(run.folder).changes() == {part: (here[part], "0.7")}
    assert begin(tmp_path, norm="batch").done


def test_a_second_writer_is_refused_until_the_first_dies(tmp_path):
    holder = program(
        """
        run = begin(); run.log({"update": 1}); run.checkpoint({"update": 1})
        print("held", flush=True); time.sleep(60)
        """,
        tmp_path,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy, match="is being written"):
            begin(tmp_path)
        (reader,) = read(tmp_path)  # does not wait
        assert not reader.done
        with pytest.raises(Busy):
            remove(reader)
        with pytest.raises(ValueError, match="is not done"):
            _ = reader.result
    finally:
        holder.kill()
        holder.communicate()
    with begin(tmp_path) as run:  # at once, or it would be Busy
        assert run.restore() == {"update": 1}


def test_killed_at_any_moment_state_and_rows_agree(full, tmp_path):
    times = 200 if full else 8
    child = program(
        """
        def write_until_killed(ready):
            with begin() as run:
                os.write(ready, b"1")
                for update in range((run.restore() or {"update": 0})["update"] + 1, 10**9):
                    run.log({"update": update})
                    run.checkpoint({"update": update, "W": torch.zeros(100_000)})

        waits = random.Random(0)
        for _ in range(int(sys.argv[2])):
            begun, ready = os.pipe()
            child = os.fork()
            if not child:
                write_until_killed(ready)
            os.read(begun, 1)
            time.sleep(waits.uniform(0, 0.2))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            with begin() as run:
                rows = [row["update"] for row in run.rows()]
                strays = len(list(run.folder.glob("*.part")))
                print(json.dumps([(run.restore() or {"update": 0})["update"], rows, strays]))
        """,
        tmp_path,
        times,
    )
    output, _ = child.communicate(timeout=300)
    found = [json.loads(line) for line in output.splitlines()]
    assert len(found) == times, output
    updates = [update for update, _, _ in found]
    assert updates == sorted(updates)
    assert updates[-1] > 0
    assert all(rows == list(range(1, update + 1)) for update, rows, _ in found)
    assert not any(strays for _, _, strays in found)


# damaged


def damages(content: bytes, count: int = 50) -> list[bytes]:
    """A file with its end torn off, or a bit flipped, at places from the first to the last."""
    places = range(0, len(content), max(1, len(content) // count))
    torn = [content[:n] for n in places]
    return torn + [content[:n] + bytes([content[n] ^ 1]) + content[n + 1 :] for n in places]


def everything(folder: Path) -> list:
    run = Run(folder)
    return [run.config, run.environment, run.metrics(), run.weights(), run.pictures(0)]


FILES = ["config", "metrics", "result", "pictures", "weights"]


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_a_finished_run_is_named_with_what_to_do(name, tmp_path):
    folder = finished(tmp_path).folder
    (path,) = folder.glob(f"{name}.*")
    whole = path.read_bytes()
    for damaged in damages(whole):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"{path} is damaged.*Delete {folder} to start"):
            everything(folder)
    path.unlink()
    with pytest.raises(ValueError, match=rf"{folder}.*(missing|is not done)"):
        everything(folder)


def test_a_damaged_checkpoint_is_named_with_what_to_do(tmp_path):
    with begin(tmp_path) as run:
        run.checkpoint({"W": torch.randn(20)})
    path = run.folder / "checkpoint.bin"
    whole = path.read_bytes()
    for damaged in damages(whole):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"checkpoint\.bin is damaged.*to start again"):
            begin(tmp_path)
    path.write_bytes(whole)
    (run.folder / "metrics.jsonl").write_bytes(b"damaged")  # the checkpoint has its rows
    with begin(tmp_path) as run:
        assert run.rows() == []
    (run.folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json is missing.*Delete .* to start again"):
        begin(tmp_path)


class Gadget:
    """A pickle that runs a command when it is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_pickle_in_a_checkpoint_is_not_executed(tmp_path):
    with begin(tmp_path) as run:
        run.checkpoint({})
    mark = tmp_path / "executed"
    buffer = io.BytesIO()
    torch.save({"W": Gadget(f"touch '{mark}'")}, buffer)
    content = hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue()
    (run.folder / "checkpoint.bin").write_bytes(content)
    with pytest.raises(pickle.UnpicklingError):
        begin(tmp_path)
    assert not mark.exists()


def test_write_replaces_the_file_or_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    write(path, b"old")
    write(path, b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.txt", b"new")]
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write(tmp_path / "folder", b"new")
    assert raised.value.filename == str(tmp_path / "folder")
    assert not list(tmp_path.glob("*.part"))


def test_a_full_disk_leaves_what_was_there(tmp_path):
    sizes = range(200, 40_200, 2_000)
    child = program(
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        environment()
        for size in map(int, sys.argv[2:]):
            if os.fork():
                os.wait()
                continue
            run = begin(size=size)
            run.log({"update": 1})
            run.checkpoint({"W": torch.ones(10)})
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            try:
                run.checkpoint({"W": torch.ones(10_000)})
                print(size, "written", flush=True)
            except OSError as error:
                print(size, Path(error.filename).name, flush=True)
            os._exit(0)
        """,
        tmp_path,
        *sizes,
    )
    output, _ = child.communicate(timeout=120)
    assert output.splitlines() == [f"{size} checkpoint.bin" for size in sizes]
    for size in sizes:
        with begin(tmp_path, size=size) as run:
            back = run.restore()
            assert back is not None
            assert len(back["W"]) == 10
            assert run.rows() == [{"update": 1}]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX")
def test_a_read_only_folder_can_be_read_and_not_written():
    # root may write anywhere and becomes another user; pytest's own folders are closed to him
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        folders = (root / "mnist", finished(root).folder)
        for folder in folders:
            folder.chmod(0o555)
        child = program(
            """
            import pandas, safetensors.torch
            if os.getuid() == 0:
                os.setuid(65534)  # what is imported later may lie where only root can read
            run = begin()
            print(run.done, len(run.metrics()), len(run.weights()["W"]))
            try:
                begin(norm="batch")
            except PermissionError as error:
                print(error.filename)
            """,
            root,
        )
        output, _ = child.communicate(timeout=60)
        for folder in folders:
            folder.chmod(0o755)  # to be removed
    other = key(CONFIG | {"norm": "batch"}, "abc")
    assert output.split("\n")[:2] == ["True 2 3", str(root / "mnist" / other)]


# many runs, and kept ones


def test_runs_are_read_by_task_and_key_a_finished_one_first(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    begin(first).close()
    runs = [finished(second), finished(first, norm="batch"), finished(first, "draw")]
    finished(second, norm="batch")
    (first / "mnist" / "not a run").mkdir()
    found = read([first, second])
    assert [run.task for run in found] == ["draw", "mnist", "mnist"]
    assert {run.folder for run in found} == {run.folder for run in runs}
    assert [run.key for run in read([first, second], "draw")] == [runs[2].key]
    assert read(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_a_damaged_run_is_left_out_with_a_warning_and_can_be_removed(name, tmp_path):
    whole, damaged = (finished(tmp_path, norm=norm) for norm in ("layer", "batch"))
    (damaged.folder / name).write_bytes(b"{")
    with pytest.warns(UserWarning, match=rf"{damaged.key}.*damaged.*left out"):
        assert [run.key for run in read(tmp_path)] == [whole.key]
    _, (found,) = survey(tmp_path)
    assert (found.task, found.key, found.folder) == ("mnist", damaged.key, damaged.folder)
    remove(found)
    assert survey(tmp_path)[1] == []
    assert not damaged.folder.exists()


def test_a_removal_that_is_cut_short_leaves_no_finished_run(tmp_path, monkeypatch):
    run = finished(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            remove(run)
    assert read(tmp_path) == []
    assert finished(tmp_path).result == {"seconds": 1.5}


def test_kept_runs_are_the_same_without_weights(tmp_path):
    runs = [finished(tmp_path / "runs", norm=norm) for norm in ("layer", "batch", "none")]
    for run in runs:
        kept = keep(run, tmp_path / "results")
        for name in ("task", "key", "config", "data", "environment", "result", "finished"):
            assert getattr(kept, name) == getattr(run, name)
        assert kept.metrics().equals(run.metrics())
        check_pictures(kept, [1, 2])
        with pytest.raises(FileNotFoundError, match="without weights"):
            kept.weights()
    files = sorted((tmp_path / "results").glob("*.xz"))
    assert [path.name for path in files] == ["mnist.jsonl.xz", "mnist.pictures.xz"]
    assert [run.key for run in read(tmp_path / "results")] == sorted(run.key for run in runs)
    before = [path.read_bytes() for path in files]
    keep(runs[0], tmp_path / "results")
    keep(read(tmp_path / "results")[1], tmp_path / "results")
    assert [path.read_bytes() for path in files] == before
    files[0].write_bytes(before[0][:-1])
    with pytest.warns(UserWarning, match=rf"{files[0]} is damaged.*Restore it from git"):
        assert read(tmp_path / "results") == []
    with pytest.raises(ValueError, match="only finished runs are kept"):
        keep(begin(tmp_path, norm="dyt"), tmp_path / "results")


def test_the_environment_of_the_end_is_kept_where_it_was_another(tmp_path, monkeypatch):
    with begin(tmp_path) as run:
        run.checkpoint({})
    now = run.environment | {"commit": "of the day after"}
    monkeypatch.setattr("lnlab.training.runs.environment", lambda _: now)
    kept = keep(finished(tmp_path), tmp_path / "results")
    assert kept.environment == run.environment
    assert kept.record()["environment_at_end"] == now


def test_what_is_kept_in_git_is_small():
    files = [path for path in paths.place("results").rglob("*") if path.is_file()]
    assert len(files) <= 20
    assert sum(path.stat().st_size for path in files) <= 9e6


def test_table_has_the_differences_and_the_last_row_of_each_seed(tmp_path):
    for norm, size in (("layer", 4), ("batch", 128)):
        with begin(tmp_path, norm=norm, batch_size=size) as run:
            for update, seed in ((1, 0), (1, 1), (2, 0), (2, 1)):
                run.log({"update": update, "seed": seed, "nll": size / update + seed})
    begin(tmp_path, norm="none", batch_size=4).close()
    rows = table(read(tmp_path)).set_index(["norm", "seed"]).sort_index()
    assert "learning_rate" not in rows
    assert rows.loc[("batch", 1), "nll"] == 65.0
    assert rows.loc[("layer", 0), "nll"] == 2.0
    assert rows.loc["none", "nll"].isna().tolist() == [True]
    assert not any(rows["done"].tolist())
