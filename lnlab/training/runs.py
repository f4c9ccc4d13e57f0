"""Runs on disk: written by one process, resumed after a kill, read by anyone.

A run is the folder ``root/<experiment>/<key>/``. The key is a hash of its configuration and of
the checksum of its data, so that the same run is found again.

==================== ===================================================================
config.json          experiment, configuration, data, environment
metrics.jsonl        one JSON object per row
checkpoint.bin       where to resume: a state, and the rows and pictures until then
pictures.safetensors arrays that belong to rows (attention, drawings), if there are any
weights.safetensors  the trained weights
result.json          written last, with the SHA-256 of the files above: the run is done
==================== ===================================================================

Finished runs are kept in git as ``root/<experiment>.jsonl.xz``, two lines per run, sorted by
key: what it was and how it ended; its metrics. Arrays are in ``root/<experiment>.pictures.xz``.
"""

import hashlib
import io
import json
import lzma
import os
import platform
import re
import shutil
import subprocess
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from filelock import FileLock, Timeout

import lnlab

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from torch import Tensor


CONFIG, METRICS, CHECKPOINT = "config.json", "metrics.jsonl", "checkpoint.bin"
PICTURES, WEIGHTS, RESULT = "pictures.safetensors", "weights.safetensors", "result.json"

KEPT, KEPT_PICTURES = ".jsonl.xz", ".pictures.xz"
"""Endings of the files of kept runs. LZMA stores the numbers of 900 runs in 4 MB; JSON lines
need no library to be read, and keep rows with different fields as they are."""

MALFORMED = (ValueError, TypeError, KeyError, AttributeError, EOFError, RuntimeError)
"""The errors of reading a file that was not written by lnlab, or was changed."""


class RunLockedError(RuntimeError):
    """The folder of a run is being written by another process, or by this one."""


def environment(device: "torch.device | str" = "cpu") -> dict[str, Any]:
    """Return what decides the bits of a run besides its configuration.

    Nothing in it names the machine or its user. ``commit`` is None outside a checkout and ends
    in ``-dirty`` where files differ from it.
    """
    import numpy
    import torch

    device = torch.device(device)
    return {
        "lnlab": lnlab.__version__,
        "commit": git_commit(),
        "code": code_hash(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device.type,
        "device_name": device_name(device),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


@cache
def code_hash() -> str:
    """Return 12 digits of the SHA-256 of the package's sources, Python and C++."""
    package, total = Path(lnlab.__file__).parent, hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".cpp", ".cu", ".h"):
            name = path.relative_to(package).as_posix()
            total.update(f"{name}\0".encode() + path.read_bytes())
    return total.hexdigest()[:12]


@cache
def git_commit() -> str | None:
    """Return the commit of the checkout that lnlab is run from; None outside one."""
    here = Path(__file__)
    settings: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "timeout": 10,
        "check": True,
    }
    git = ["git", "-C", str(here.parent)]
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        # fails where lnlab is installed inside of a checkout of something else
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], **settings)
        return subprocess.run([*git, *describe], **settings).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def device_name(device: "torch.device") -> str:
    """Return the name that a processor gives itself."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    name = re.search(r"^model name\s*: *(.+)$", text, re.MULTILINE)
    return name[1] if name else platform.processor()


# files


def run_key(config: Mapping[str, Any], checksum: str) -> str:
    """Return 12 digits of the SHA-256 of a configuration and the checksum of its data."""
    whole = {"config": config, "data": checksum}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode())[:12]


def sha256(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole: after a kill it is the old one or the new one."""
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def to_json(value: Any) -> bytes:
    """Return JSON that people can read; tensors and arrays as lists."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=methodcaller("tolist"))
    return text.encode() + b"\n"


@contextmanager
def _explaining_read_errors(path: Path, advice: str) -> Iterator[None]:
    """Turn what goes wrong while a file is read into an error that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing: the run is damaged. {advice}") from error
    except (*MALFORMED, lzma.LZMAError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged: {reason}. {advice}") from error


def _lock_folder(folder: Path) -> FileLock:
    """Lock a folder until its lock is released or the process ends."""
    # not thread-local: a generator may be closed by another thread than began it
    lock = FileLock(folder / ".lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunLockedError(
            f"{folder} is being written by another run of the same experiment, in this process "
            "or another: wait for it, or stop it (close() its iterator)."
        ) from None
    return lock


class Run:
    """A training run on disk, for reading; :meth:`open` returns one for writing.

    Attributes:
        folder: its folder.
        task: the name of its experiment.
        config: the configuration, as JSON returns it (tuples have become lists).
        data: name, kind, checksum and licence of the data.
        environment: what else its numbers depend on when it was begun (:func:`environment`).
        state: if the run was resumed, the state of its checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._lock: FileLock | None = None
        self.state: dict[str, Any] | None = None
        self._rows: list[str] = []
        self._arrays: dict[str, Tensor] = {}
        content = self._read_checked(CONFIG)
        with self._explaining_read_errors(CONFIG):
            record = json.loads(content)
            self.task: str = record["task"]
            self.config: dict[str, Any] = record["config"]
            self.data: dict[str, Any] = record["data"]
            self.environment: dict[str, Any] = record["environment"]
            if run_key(self.config, self.data["checksum"]) != self.folder.name:
                raise ValueError("its folder has the key of another configuration")

    @classmethod
    def open(
        cls,
        task: str,
        config: Mapping[str, Any],
        data: Mapping[str, Any],
        root: Path,
        device: "torch.device | str" = "cpu",
    ) -> "Run":
        """Return the run of this configuration on this data, locked unless it is done.

        After a kill, rows that are newer than the checkpoint are cut off.
        """
        folder = Path(root) / task / run_key(config, data["checksum"])
        if (folder / RESULT).is_file():  # its folder may be read-only: no lock
            return cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            lock = _lock_folder(folder)
            stack.callback(lock.release)
            if (folder / RESULT).is_file():  # written by whoever had the lock before
                return cls(folder)
            now = environment(device)
            for part in folder.glob("*.part"):
                part.unlink()
            if not (folder / CHECKPOINT).is_file():
                write_file(folder / METRICS, b"")
                record = {"task": task, "config": config, "data": data, "environment": now}
                write_file(folder / CONFIG, to_json(record))  # last: readers find the run by it
            run = cls(folder)
            run._lock = lock
            run._resume_if_same_environment(now)
            stack.pop_all()  # no error: the lock stays
            return run

    @classmethod
    def find(
        cls, task: str, config: Mapping[str, Any], data: Mapping[str, Any], root: Path
    ) -> "Run | None":
        """Return the run of this configuration and data for reading; None without one."""
        folder = Path(root) / task / run_key(config, data["checksum"])
        if (folder / CONFIG).is_file():
            return cls(folder)
        runs = read_kept_runs(Path(root) / f"{task}{KEPT}")
        return next((run for run in runs if run.key == folder.name), None)

    def _resume_if_same_environment(self, current_environment: Mapping[str, Any]) -> None:
        """Go on from the checkpoint, if there is one and it was made by this version."""
        import torch

        path = self.folder / CHECKPOINT
        if not path.is_file():
            return
        then = self.environment
        on_cpu = current_environment["device"] == "cpu"
        processor = "cpu_capability" if on_cpu else "device_name"
        for name in ("code", "torch", processor):  # all show in the last bits
            if then.get(name) != current_environment[name]:
                raise RuntimeError(
                    f"{self.folder} was begun with {name} {then.get(name)} and this is "
                    f"{current_environment[name]}: a run is not resumed across versions. "
                    f"Delete {self.folder} to start again."
                )
        with self._explaining_read_errors(CHECKPOINT):
            saved = torch.load(path, weights_only=True, map_location="cpu")
        self.state, self._rows, self._arrays = (saved[n] for n in ("state", "rows", "arrays"))
        write_file(self.folder / METRICS, "".join(self._rows).encode())

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.unlock()

    def unlock(self) -> None:
        """Let other processes write the run; unlocking it twice is allowed."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def key(self) -> str:
        """The name of its folder, a hash of the configuration and the data."""
        return self.folder.name

    @property
    def done(self) -> bool:
        """True if the run is finished."""
        return (self.folder / RESULT).is_file()

    @property
    def result(self) -> dict[str, Any]:
        """The result of a finished run: its duration, and the outcome of each seed."""
        return self._read_result_record()["result"]

    @property
    def finish_time(self) -> str:
        """The time at which the run finished, in UTC; empty if it is unfinished or unknown."""
        return self._read_result_record()["finished"] if self.done else ""

    def rows(self) -> list[dict[str, Any]]:
        """Return all logged rows; a row that is only partly written is left out."""
        *lines, _ = self._read_checked(METRICS).split(b"\n")
        with self._explaining_read_errors(METRICS):
            return [json.loads(line) for line in lines]

    def metrics(self) -> "pd.DataFrame":
        """Return the metrics as a pandas table, one row per update and seed.

        If an experiment has a ``best_metric``, two evaluations follow the last update: of the
        last weights, and of the best ones. In the one row of both, a metric that is measured
        during training is that of the last weights; one that is measured only at the end, on
        test data, is that of the best weights. :meth:`evaluations` has both.
        """
        frame, key = self.evaluations(), ["update", "seed"]
        if not {*key} <= {*frame}:
            return frame
        is_best = frame.duplicated(key)
        best, frame = frame.loc[is_best], frame.loc[~is_best]
        at_the_end = [name for name in frame if len(best) and frame[name].isna().all()]
        if not at_the_end:
            return frame.reset_index(drop=True)
        rest = frame.drop(columns=at_the_end)
        return rest.merge(best[[*key, *at_the_end]], on=key, how="left")

    def evaluations(self) -> "pd.DataFrame":
        """Return all logged rows as a pandas table, one row per evaluation and seed.

        With a ``best_metric`` the last one is of the best weights, after that of the last ones.
        """
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows_of_last_update(self) -> list[dict[str, Any]]:
        """Return the last row of each seed, of the last logged update."""
        rows = self.rows()
        last = [row for row in rows if row.get("update") == rows[-1].get("update")]
        return list({row.get("seed"): row for row in last}.values())

    def pictures(self, seed: int) -> "dict[int, dict[str, np.ndarray]]":
        """Return the arrays that were logged for a seed, by update and name."""
        pictures: dict[int, dict[str, np.ndarray]] = defaultdict(dict)
        for name, array in self.arrays().items():
            of_seed, update, picture = name.split("/", 2)
            if int(of_seed) == seed:
                pictures[int(update)][picture] = array
        return dict(sorted(pictures.items()))

    def arrays(self) -> "dict[str, np.ndarray]":
        """Return all logged arrays, by "seed/update/name"."""
        from safetensors.numpy import load

        if not self.done:
            return {name: array.numpy() for name, array in self._arrays.items()}
        has_pictures = PICTURES in self._read_result_record()["sha256"]
        return load(self._read_checked(PICTURES)) if has_pictures else {}

    def weights(self) -> "dict[str, Tensor]":
        """Return the weights of the trained models, by name."""
        from safetensors.torch import load

        self._read_result_record()
        return load(self._read_checked(WEIGHTS))

    def record(self) -> dict[str, Any]:
        """Return the record of a finished run: configuration, data, environment, result."""
        names = ("key", "config", "data", "environment", "result")
        return {name: getattr(self, name) for name in names} | {"finished": self.finish_time}

    def _read_checked(self, name: str) -> bytes:
        """Return the bytes of one of its files: of a finished run, those that it ended with."""
        expected = self._read_result_record()["sha256"] if self.done else {}
        with self._explaining_read_errors(name):
            content = (self.folder / name).read_bytes()
            if sha256(content) != expected.get(name, sha256(content)):
                raise ValueError(f"{RESULT} has another SHA-256 for it")
            return content

    def _read_result_record(self) -> dict[str, Any]:
        """Return what ``result.json`` holds."""
        if not self.done:
            raise ValueError(f"{self.folder} is not done: train it again to resume it.")
        with self._explaining_read_errors(RESULT):
            return json.loads((self.folder / RESULT).read_bytes())

    def _explaining_read_errors(self, name: str) -> AbstractContextManager[None]:
        return _explaining_read_errors(
            self.folder / name, f"Delete {self.folder} to start again."
        )

    # to write

    def log(
        self,
        row: Mapping[str, Any],
        pictures: "Mapping[str, np.ndarray | Tensor] | None" = None,
    ) -> None:
        """Append a row to the metrics, and arrays (attention, drawings) by name.

        Those are read by :meth:`pictures`; the row then has an ``update`` and a ``seed``.
        """
        import torch

        line = json.dumps(row, default=methodcaller("tolist")) + "\n"
        for name, picture in (pictures or {}).items():
            array = torch.as_tensor(picture).detach().cpu()
            array = array.clone(memory_format=torch.contiguous_format)
            self._arrays[f"{row['seed']}/{row['update']}/{name}"] = array
        self._rows.append(line)
        with (self.folder / METRICS).open("ab") as file:
            file.write(line.encode())

    def checkpoint(self, state: Mapping[str, Any]) -> None:
        """Keep ``state`` (tensors, numbers, text and containers of them) to resume from.

        A kill at any moment leaves this checkpoint or the one before it.
        """
        import torch

        buffer = io.BytesIO()
        torch.save({"state": dict(state), "rows": self._rows, "arrays": self._arrays}, buffer)
        write_file(self.folder / CHECKPOINT, buffer.getvalue())

    def finish(self, result: Mapping[str, Any], weights: "Mapping[str, Tensor]") -> None:
        """Save the weights and the result; the run is then finished and unlocked."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        files = {WEIGHTS: save(tensors), METRICS: "".join(self._rows).encode()}
        if self._arrays:
            files[PICTURES] = save(dict(sorted(self._arrays.items())))
        for name, content in files.items():
            write_file(self.folder / name, content)
        files[CONFIG] = self._read_checked(CONFIG)
        record: dict[str, Any] = {
            "result": dict(result),
            "finished": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            "sha256": {name: sha256(content) for name, content in files.items()},
        }
        write_file(self.folder / RESULT, to_json(record))
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        self.unlock()


# kept runs

RESTORE = "Restore it from git."


class KeptRun(Run):
    """A finished run in the file of its experiment: without weights, to read."""

    def __init__(self, path: Path, record: dict[str, Any], rows: bytes) -> None:
        self.folder, self.task = path, path.name.removesuffix(KEPT)
        self.config, self.data = record["config"], record["data"]
        self.environment = record["environment"]
        self._kept, self._line, self._lock = record, rows, None

    key = property(lambda self: self._kept["key"])
    done = property(lambda self: True)

    def record(self) -> dict[str, Any]:
        return self._kept

    _read_result_record = record

    def rows(self) -> list[dict[str, Any]]:
        with _explaining_read_errors(self.folder, RESTORE):
            return json.loads(self._line)

    def arrays(self) -> "dict[str, np.ndarray]":
        prefix = f"{self.key}/"
        arrays = _read_arrays_of_kept_runs(self.folder.with_name(f"{self.task}{KEPT_PICTURES}"))
        return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}

    def weights(self) -> NoReturn:
        raise FileNotFoundError(f"run {self.key} was kept in {self.folder} without weights.")


def read_kept_runs(path: Path) -> "list[KeptRun]":
    """Return the runs in the file of an experiment; none if there is no such file."""
    if not path.exists():
        return []
    with _explaining_read_errors(path, RESTORE):
        lines = lzma.decompress(path.read_bytes()).splitlines()
        pairs = zip(lines[::2], lines[1::2], strict=True)
        return [KeptRun(path, json.loads(record), rows) for record, rows in pairs]


def _read_arrays_of_kept_runs(path: Path) -> "dict[str, np.ndarray]":
    """Return the arrays of an experiment's kept runs, by "key/seed/update/name"."""
    from safetensors.numpy import load

    if not path.exists():
        return {}
    with _explaining_read_errors(path, RESTORE):
        return load(lzma.decompress(path.read_bytes()))


def keep(run: Run, root: Path) -> Run:
    """Add a finished run, without its weights, to the file of its experiment.

    Keeping it again changes nothing.
    """
    from safetensors.numpy import save

    if not run.done:
        raise ValueError(f"{run.folder} is not done: only finished runs are kept.")
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    path, pictures = (root / f"{run.task}{ending}" for ending in (KEPT, KEPT_PICTURES))
    with FileLock(root / f".{run.task}.lock"):
        arrays = _read_arrays_of_kept_runs(pictures)
        arrays |= {f"{run.key}/{name}": array for name, array in run.arrays().items()}
        if arrays:
            write_file(pictures, lzma.compress(save(dict(sorted(arrays.items())))))
        runs = {one.key: one for one in (*read_kept_runs(path), run)}
        records = ((run.record(), run.rows()) for _, run in sorted(runs.items()))
        text = "".join(f"{json.dumps(one)}\n{json.dumps(rows)}\n" for one, rows in records)
        write_file(path, lzma.compress(text.encode()))
    return next(one for one in read_kept_runs(path) if one.key == run.key)


def read(root: Path | Iterable[Path], task: str | None = None) -> list[Run]:
    """Return the runs under one root or several, of one experiment or all, in name order.

    Never waits for a writer. A run that several roots have comes once: from the first root
    where it is done, else from the first that has it. Damaged runs are left out with a warning
    each, which says what to do.
    """
    by_name: dict[tuple[str, str], Run] = {}
    for top in map(Path, [root] if isinstance(root, str | Path) else root):
        folders = {path.parent for path in top.glob(f"{task or '*'}/*/{CONFIG}")}
        for path in [*sorted(top.glob(f"{task or '*'}{KEPT}")), *sorted(folders)]:
            try:
                runs = read_kept_runs(path) if path.name.endswith(KEPT) else [Run(path)]
            except (ValueError, OSError) as error:
                if path.exists():  # it may have been removed meanwhile
                    warnings.warn(f"{error} This run is left out.", stacklevel=2)
                continue
            for run in runs:
                name = run.task, run.key
                if name not in by_name or (run.done and not by_name[name].done):
                    by_name[name] = run
    return [by_name[name] for name in sorted(by_name)]


def remove(run: Run) -> None:
    """Delete the folder of a run that nobody is writing."""
    lock = _lock_folder(run.folder)
    try:
        shutil.rmtree(run.folder)
    finally:
        lock.release()
