"""A run is whole whatever happens to it, belongs to one writer, and knows its own bytes."""

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

import pytest
import torch

from lnlab.training.runs import Busy, Run, environment, key, read, write

CONFIG = {"norm": "layer", "units": [8, 8], "learning_rate": 1e-3}
DATA = {"name": "digits", "kind": "embedded", "checksum": "abc", "licence": "BSD"}


def begin(root, **changes) -> Run:
    return Run.open("mnist", CONFIG | changes, DATA, root)


def script(body: str, *arguments: object) -> subprocess.Popen:
    """A program that opens the same run in another process."""
    head = f"""
    import sys, os, resource, torch
    from pathlib import Path
    from lnlab.training.runs import Run, read
    CONFIG, DATA = {CONFIG!r}, {DATA!r}
    """
    code = textwrap.dedent(head) + textwrap.dedent(body)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_key_is_the_hash_of_canonical_json():
    text = '{"config":{"a":[1,2],"b":0.5},"data":"abc"}'
    expected = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert key({"b": 0.5, "a": (1, 2)}, "abc") == expected
    assert key({"b": 0.5, "a": (1, 2)}, "abd") != expected


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, torch.ones(1), lambda: 1])
def test_configuration_must_be_json(value, tmp_path):
    with pytest.raises(TypeError, match="configuration cannot be written as JSON"):
        begin(tmp_path, odd=value)


@pytest.mark.parametrize("name", ["runs", "mes données à moi"])
def test_finished_run_says_what_it_was(name, tmp_path):
    with begin(tmp_path / name) as run:
        run.log({"update": 1, "nll": torch.tensor(0.5), "seeds": (1, 2)})
        run.log({"update": 2, "nll": float("inf"), "seeds": (1, 2)})
        run.finish({"seconds": 1.5}, {"W": torch.eye(3).T})
    run = begin(tmp_path / name)
    assert run.done
    assert run.folder == tmp_path / name / "mnist" / key(CONFIG, "abc")
    assert run.config == CONFIG
    assert run.data == DATA
    assert run.result == {"seconds": 1.5}
    assert torch.equal(run.weights()["W"], torch.eye(3))
    assert run.metrics().to_dict("list") == {
        "update": [1, 2],
        "nll": [0.5, float("inf")],
        "seeds": [[1, 2], [1, 2]],
    }
    names = {path.name for path in run.folder.iterdir()} - {".lock"}
    small = {"config.json", "environment.json", "metrics.jsonl", "result.json"}
    assert names == small | {"weights.safetensors"}


def test_result_holds_the_hashes_and_what_decides_the_bits(tmp_path):
    with begin(tmp_path) as run:
        run.finish({}, {"W": torch.ones(1)})
    record = json.loads((run.folder / "result.json").read_text())
    for name, digest in record["sha256"].items():
        assert hashlib.sha256((run.folder / name).read_bytes()).hexdigest() == digest
    files = {"config.json", "environment.json", "metrics.jsonl", "weights.safetensors"}
    assert set(record["sha256"]) == files
    here = record["environment"]
    assert here["torch"] == torch.__version__
    assert here["threads"] == torch.get_num_threads()
    assert here["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert {"lnlab", "commit", "device", "device_name"} <= set(here)
    assert platform.node() not in json.dumps(here)


def test_run_that_is_done_is_not_written_again(tmp_path):
    with begin(tmp_path) as run:
        run.finish({}, {})
    with begin(tmp_path) as again, pytest.raises(RuntimeError, match="for reading only"):
        again.log({"update": 3})


def test_run_without_checkpoint_starts_again(tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        assert run.restore() is None
    with begin(tmp_path) as run:
        assert run.restore() is None
        assert len(run.metrics()) == 0


def test_checkpoint_comes_back_and_later_rows_are_cut(tmp_path):
    state = {"W": torch.randn(3), "moments": {0: {"step": torch.tensor(2.0)}}, "at": (1, 0.5)}
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint(state)
        run.log({"update": 2})
        with (run.folder / "metrics.jsonl").open("ab") as file:
            file.write(b'{"update": 3, "torn')
    with begin(tmp_path) as run:
        back = run.restore()
        assert back is not None
        assert torch.equal(back["W"], state["W"])
        assert back["moments"] == state["moments"]
        assert back["at"] == state["at"]
        run.log({"update": 2})
        assert run.metrics()["update"].tolist() == [1, 2]


def test_killed_before_a_checkpoint_is_whole_the_older_one_counts(tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint({"update": 1})
        run.log({"update": 2})
    (run.folder / "checkpoint.bin.part").write_bytes(b"half")
    with begin(tmp_path) as run:
        assert run.restore() == {"update": 1}
        assert run.metrics()["update"].tolist() == [1]
        assert not list(run.folder.glob("*.part"))


def test_reader_sees_whole_rows_while_they_are_written(tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        with (run.folder / "metrics.jsonl").open("ab") as file:
            file.write(b'{"update": 2, "nl')
        assert Run(run.folder).metrics()["update"].tolist() == [1]


def test_damaged_row_is_named(tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        with (run.folder / "metrics.jsonl").open("ab") as file:
            file.write(b"\x00\x00\n")
        with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2, is damaged"):
            run.metrics()


def test_second_writer_is_told(tmp_path):
    with begin(tmp_path) as run:
        with pytest.raises(Busy, match=rf"{run.folder} is being written"):
            begin(tmp_path)
        run.log({"update": 1})
    begin(tmp_path).close()


@pytest.mark.stress
def test_writer_in_another_process_holds_the_run_until_it_dies(tmp_path):
    holder = script(
        """
        run = Run.open("mnist", CONFIG, DATA, Path(sys.argv[1]))
        run.log({"update": 1}); run.checkpoint({"update": 1}); print("held", flush=True)
        sys.stdin.read(); import time; time.sleep(60)
        """,
        tmp_path,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RuntimeError, match="is being written"):
            begin(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    with begin(tmp_path) as run:  # at once, or it would be Busy
        assert run.restore() == {"update": 1}


@pytest.mark.parametrize("what", ["lnlab", "code", "torch", "cpu_capability"])
def test_other_version_may_read_but_not_resume(what, tmp_path, monkeypatch):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint({})
    monkeypatch.setattr(
        "lnlab.training.runs.environment", lambda device: environment(device) | {what: "0.0.7"}
    )
    with pytest.raises(
        RuntimeError, match=rf"{what} .*is 0\.0\.7.*Delete {run.folder} to start"
    ):
        begin(tmp_path)
    assert len(Run(run.folder).metrics()) == 1
    assert Run(run.folder).changes() == {what: (environment()[what], "0.0.7")}


def test_finished_run_of_another_version_is_given_back_and_says_so(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("lnlab.training.runs.code", lambda: "0")
        with begin(tmp_path) as run:
            run.finish({}, {})
        assert not begin(tmp_path).changes()
    assert begin(tmp_path).done
    assert begin(tmp_path).changes() == {"code": ("0", environment()["code"])}


def test_run_is_seen_when_all_that_readers_need_is_there(tmp_path, monkeypatch):
    seen = []

    def watching(path, content):
        write(path, content)
        seen.append([len(found.metrics()) for found in read(tmp_path)])

    monkeypatch.setattr("lnlab.training.runs.write", watching)
    begin(tmp_path).close()
    assert seen == [[], [], [0]]


def test_damaged_checkpoint_is_never_loaded(tmp_path):
    with begin(tmp_path) as run:
        run.checkpoint({"W": torch.randn(20)})
    path = run.folder / "checkpoint.bin"
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 50):
        for damaged in (whole[:place], flipped(whole, place)):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"checkpoint\.bin is damaged.*to start again"):
                begin(tmp_path)
    path.write_bytes(whole)
    begin(tmp_path).close()


def test_lost_rows_are_noticed(tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint({})
    (run.folder / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"metrics\.jsonl is damaged.*Delete .* to start again"
    ):
        begin(tmp_path)


@pytest.mark.parametrize("left", [b"", b'{"update": 1}\n{"update": 1}\n'])
def test_metrics_that_change_under_a_run_are_noticed_with_the_next_row(left, tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        (run.folder / "metrics.jsonl").write_bytes(left)
        with pytest.raises(ValueError, match=rf"has {len(left)} bytes, and not the 14 that"):
            run.log({"update": 2})
    assert not run.done


@pytest.mark.parametrize("left", [b"", b'{"update": 1}'])
def test_metrics_that_change_under_a_run_are_noticed_at_its_end(left, tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        (run.folder / "metrics.jsonl").write_bytes(left)
        with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged.*something else has"):
            run.finish({}, {})
    assert not run.done


@pytest.mark.parametrize("name", ["config.json", "environment.json", "metrics.jsonl"])
@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text("{}")])
def test_a_file_that_is_missing_or_damaged_is_named_when_a_run_is_resumed(
    name, change, tmp_path
):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint({})
    change(run.folder / name)
    with pytest.raises(ValueError, match=rf"{name} is .*Delete {run.folder} to start again"):
        begin(tmp_path)


def everything(folder: Path) -> list:
    run = Run(folder)
    return [run.environment, run.metrics(), run.weights()]


@pytest.mark.parametrize(
    "name", ["config.json", "environment.json", "metrics.jsonl", "weights.safetensors"]
)
def test_a_missing_file_of_a_finished_run_is_named(name, tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.finish({}, {"W": torch.ones(1)})
    (run.folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing.*Delete {run.folder} to start"):
        everything(run.folder)


def test_damaged_weights_and_metrics_are_refused(tmp_path):
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.finish({}, {"W": torch.randn(20)})
    for name, reading in (("weights.safetensors", run.weights), ("metrics.jsonl", run.metrics)):
        path = run.folder / name
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole + b" ", flipped(whole, len(whole) // 2)):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=f"{name} is damaged"):
                reading()


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
    content = buffer.getvalue()
    path = run.folder / "checkpoint.bin"
    path.write_bytes(hashlib.sha256(content).digest() + content)
    with pytest.raises(pickle.UnpicklingError):
        begin(tmp_path)
    assert not mark.exists()


def test_full_disk_leaves_what_was_there(tmp_path):
    program = script(
        """
        run = Run.open("mnist", CONFIG, DATA, Path(sys.argv[1]))
        run.log({"update": 1}); run.checkpoint({"W": torch.ones(10)})
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        for attempt in (
            lambda: run.checkpoint({"W": torch.ones(10_000)}),
            lambda: run.log({"text": "x" * 5000}),
            lambda: run.finish({}, {"W": torch.ones(10_000)}),
        ):
            try:
                attempt()
            except OSError as error:
                print(error.filename)
        run.log({"update": 2})
        """,
        tmp_path,
    )
    output, _ = program.communicate(timeout=60)
    folder = begin(tmp_path).folder
    names = ("checkpoint.bin", "metrics.jsonl", "weights.safetensors")
    assert output.split("\n")[:-1] == [str(folder / name) for name in names]
    # the lock of begin() above is gone with its Run; the rows after the checkpoint are cut
    with begin(tmp_path) as run:
        back = run.restore()
        assert back is not None
        assert torch.equal(back["W"], torch.ones(10, dtype=torch.float32))
        assert run.metrics()["update"].tolist() == [1]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX")
def test_read_only_folder_can_be_read_and_not_written(tmp_path_factory):
    # root may write anywhere and becomes another user; pytest's own folders are closed to him
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        with begin(root) as run:
            run.log({"update": 1})
            run.finish({}, {"W": torch.ones(1)})
        for path in (root / "mnist", run.folder, *run.folder.iterdir()):
            path.chmod(0o555 if path.is_dir() else 0o444)
        program = script(
            """
            import pandas
            if os.getuid() == 0:
                os.setuid(65534)  # what is imported later may lie where only root can read
            run = Run.open("mnist", CONFIG, DATA, Path(sys.argv[1]))
            print(run.done, len(run.metrics()), float(run.weights()["W"]))
            try:
                Run.open("mnist", CONFIG | {"norm": "batch"}, DATA, Path(sys.argv[1]))
            except PermissionError as error:
                print(error.filename)
            """,
            root,
        )
        output, _ = program.communicate(timeout=60)
        for folder in (root / "mnist", run.folder):
            folder.chmod(0o755)  # to be removed
    other = key(CONFIG | {"norm": "batch"}, "abc")
    assert output.split("\n")[:2] == ["True 1 1.0", str(root / "mnist" / other)]


@pytest.mark.stress
def test_killed_at_any_moment_state_and_rows_agree(full, tmp_path):
    times = 200 if full else 8
    program = script(
        """
        import json, random, signal, time

        def begin():
            return Run.open("mnist", CONFIG, DATA, Path(sys.argv[1]))

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
                lines = run.content("metrics.jsonl").splitlines()
                rows = [json.loads(line)["update"] for line in lines]
                strays = len(list(run.folder.glob("*.part")))
                print(json.dumps([(run.restore() or {"update": 0})["update"], rows, strays]))
        """,
        tmp_path,
        times,
    )
    output, _ = program.communicate(timeout=300)
    found = [json.loads(line) for line in output.splitlines()]
    assert len(found) == times, output
    updates = [update for update, _, _ in found]
    assert updates == sorted(updates)
    assert updates[-1] > 0
    for update, rows, strays in found:
        assert rows == list(range(1, update + 1))
        assert strays == 0
