"""Runs on disk: written by one process, resumed after a kill, read by anyone.

A run is the folder ``root/<experiment>/<key>/``. The key is a hash of its configuration and of
the checksum of its data, so that the same run is found again.

=================== ====================================================================
config.json         experiment, configuration, data
environment.json    versions, commit, device: what else decides the bits
metrics.jsonl       one JSON object per row
pictures.tensors    arrays that belong to rows (attention, drawings), if there are any
checkpoint.bin      where to resume, with the SHA-256 of the files above and of itself
weights.safetensors the trained weights
result.json         written last, with the SHA-256 of all other files: the run is done
=================== ====================================================================

Finished runs are kept in git as ``root/<experiment>.jsonl.xz``, two lines per run, sorted by
key: what it was and how it ended; its metrics. Arrays are in ``root/<experiment>.pictures.xz``.
"""

import hashlib
import io
import json
import lzma
import os
import platform
import subprocess
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

import lnlab

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from torch import Tensor


CONFIG, ENVIRONMENT, RESULT = "config.json", "environment.json", "result.json"
METRICS, PICTURES, WEIGHTS = "metrics.jsonl", "pictures.tensors", "weights.safetensors"
CHECKPOINT = "checkpoint.bin"

KEPT, KEPT_PICTURES = ".jsonl.xz", ".pictures.xz"
"""Endings of the files of kept runs. LZMA stores the numbers of 900 runs in 4 MB; JSON lines
need no library to be read, and keep rows with different fields as they are."""

MUST_AGREE = ("lnlab", "code", "torch")
"""Parts of the environment without which a run is not resumed."""
MUST_AGREE_ON = {"cpu": ("cpu_capability",), "cuda": ("device_name",)}
"""Further parts by device: they show in the last bits."""

DTYPES = ("float16", "float32", "float64", "uint8")
"""The types of arrays that are logged as pictures."""


BROKEN = (ValueError, TypeError, KeyError, AttributeError, EOFError, RecursionError)
"""The errors of reading what was not written so."""


class Busy(RuntimeError):
    """The folder of a run is being written by another process, or by this one."""


# the environment of a run


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
        "commit": commit(),
        "code": code(),
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
def code() -> str:
    """Return 12 digits of the SHA-256 of the package's sources, Python and C++."""
    package = Path(lnlab.__file__).parent
    paths = sorted(p for p in package.rglob("*") if p.suffix in (".py", ".cpp", ".cu", ".h"))
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    return total.hexdigest()[:12]


@cache
def commit() -> str | None:
    """Return the commit of the checkout that lnlab is run from; None outside one."""
    here = Path(__file__)
    if not _git(here.parent, "ls-files", here.name):
        return None
    return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def device_name(device: "torch.device") -> str:
    """Return the name that a processor gives itself."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


# files


def key(config: Mapping[str, Any], checksum: str) -> str:
    """Return 12 digits of the SHA-256 of a configuration and the checksum of its data.

    Raises:
        TypeError: if the configuration cannot be written as JSON.
    """
    whole = {"config": config, "data": checksum}
    try:
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the configuration cannot be written as JSON: {error}") from error
    return sha256(text.encode())[:12]


def sha256(content: bytes | memoryview) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write(path: Path, content: bytes | memoryview) -> None:
    """Replace a file as a whole: after a kill it is the old one or the new one.

    Raises:
        OSError: if it cannot be written; names the path, and the old file is left.
    """
    temporary = path.with_name(f"{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        if os.name == "posix":  # a rename is on the disk when its folder is
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def to_json(value: Any) -> bytes:
    """Return JSON that people can read; tensors and arrays as lists."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
    return text.encode() + b"\n"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


@contextmanager
def _reading(path: Path, advice: str) -> Iterator[None]:
    """Turn what goes wrong while a file is read into an error that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing: the run is damaged. {advice}") from error
    except (*BROKEN, lzma.LZMAError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged: {reason}. {advice}") from error


def _append(path: Path, content: bytes, size: int) -> int:
    """Append all of ``content`` to a file of ``size`` bytes, or nothing; return its new size.

    Raises:
        ValueError: if something else has changed the length of the file.
        OSError: if it cannot be written; names the path.
    """
    try:
        with path.open("ab", buffering=0) as file:
            if (found := os.fstat(file.fileno()).st_size) != size:
                raise ValueError(
                    f"{path} is damaged: it has {found} bytes, and not the {size} that this "
                    "run has written; something else has changed it."
                )
            try:
                written = 0
                while written < len(content):
                    written += file.write(content[written:])
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return size + len(content)


# runs


class Run:
    """A run on disk, to read; :meth:`open` gives one to write in.

    Attributes:
        folder: where it is.
        task: the name of its experiment.
        config: the configuration, as JSON gives it back (tuples are lists).
        data: name, kind, checksum and licence of the data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        recorded = self._object(CONFIG)
        with self._reading(CONFIG):
            self.task: str = recorded["task"]
            self.config: dict[str, Any] = recorded["config"]
            self.data: dict[str, Any] = recorded["data"]
            if key(self.config, self.data["checksum"]) != self.folder.name:
                raise ValueError("its folder has the key of another configuration")
        self._lock: FileLock | None = None
        self._now: dict[str, Any] = {}
        self._state: dict[str, Any] | None = None
        self._sizes = {METRICS: 0, PICTURES: 0}

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

        After a kill half-written files are removed, and rows that are newer than the checkpoint
        are cut off.

        Args:
            task: the name of the experiment.
            config: what decides its course, as JSON can hold it.
            data: ``checksum`` at least.
            root: the folder under which all runs are.
            device: where it computes.

        Raises:
            Busy: if the folder is being written already.
            RuntimeError: if the run was begun with other code, another torch or another kind of
                processor, and so cannot be resumed.
            ValueError: if a file is damaged or missing.
            TypeError: if the configuration cannot be written as JSON.
            OSError: if the folder cannot be written; names the path.
        """
        folder = Path(root) / task / key(config, data["checksum"])
        if (folder / RESULT).is_file():
            return cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder)
        try:
            if (folder / RESULT).is_file():  # written by whoever had the lock before
                lock.release()
                return cls(folder)
            now = environment(device)
            for part in folder.glob("*.part"):
                part.unlink()
            resumed = (folder / CHECKPOINT).is_file()
            if not resumed:
                (folder / PICTURES).unlink(missing_ok=True)
                write(folder / METRICS, b"")
                write(folder / ENVIRONMENT, to_json(now))
                record = {"task": task, "config": dict(config), "data": dict(data)}
                write(folder / CONFIG, to_json(record))  # last: readers find the run by it
            run = cls(folder)
            run._lock, run._now = lock, now
            if resumed:
                run._resume()
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def find(
        cls, task: str, config: Mapping[str, Any], data: Mapping[str, Any], root: Path
    ) -> "Run | None":
        """Return the run of this configuration on this data, to read; None without one."""
        folder = Path(root) / task / key(config, data["checksum"])
        if _begun(folder):
            return cls(folder)
        there = kept(Path(root) / f"{task}{KEPT}")
        return next((run for run in there if run.key == folder.name), None)

    def _resume(self) -> None:
        content = (self.folder / CHECKPOINT).read_bytes()
        with self._reading(CHECKPOINT):
            if hashlib.sha256(content[32:]).digest() != content[:32]:
                raise ValueError("it does not have the SHA-256 that it begins with")
        import torch

        kept = torch.load(io.BytesIO(content[32:]), weights_only=True, map_location="cpu")
        for name, (size, digest) in kept["files"].items():
            path = self.folder / name
            with self._reading(name):
                begun = path.read_bytes() if size or path.exists() else b""
                if sha256(begun[:size]) != digest:
                    raise ValueError("it is not what it was at the last checkpoint")
            if name in self._sizes:
                self._sizes[name] = size
                if len(begun) > size:  # rows that are newer than the checkpoint
                    write(path, begun[:size])
        for name, (then, now) in self.changes(self._now).items():
            raise RuntimeError(
                f"{self.folder} was begun with {name} {then} and this is {now}: a run is not "
                f"resumed across versions. {self._advice}"
            )
        self._state = kept["state"]

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'done' if self.done else 'not done'})"

    def close(self) -> None:
        """Let other processes write; closing twice does nothing."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # to read

    @property
    def key(self) -> str:
        """The name of the folder, made from configuration and data."""
        return self.folder.name

    @property
    def done(self) -> bool:
        """True once the run came to its end."""
        return (self.folder / RESULT).is_file()

    @property
    def environment(self) -> dict[str, Any]:
        """The rest of what decides its bits (:func:`environment`), when the run was begun."""
        return self._object(ENVIRONMENT)

    @property
    def environment_at_end(self) -> dict[str, Any]:
        """The environment of the process that finished it."""
        return self._record()["environment"]

    def changes(self, now: Mapping[str, Any] | None = None) -> dict[str, tuple[Any, Any]]:
        """Return what has changed since the run was begun and keeps it from being resumed.

        Args:
            now: an :func:`environment`; by default that of this process.

        Returns:
            (then, now) by name.
        """
        then = self.environment
        now = now or environment(then["device"])
        names = [*MUST_AGREE, *MUST_AGREE_ON.get(now["device"], ())]
        return {n: (then.get(n), now[n]) for n in names if then.get(n) != now[n]}

    @property
    def result(self) -> dict[str, Any]:
        """The result that :meth:`finish` was given.

        Raises:
            ValueError: if the run is not done.
        """
        return self._record()["result"]

    @property
    def finished(self) -> str:
        """The time of its end, in UTC; empty if it is not done, or was not recorded."""
        return self._record()["finished"] if self.done else ""

    def rows(self) -> list[dict[str, Any]]:
        """Return every row that was logged; a row that is being written is left out."""
        lines = self.content(METRICS).splitlines(keepends=True)
        found = []
        for number, line in enumerate(lines, start=1):
            if line.endswith(b"\n"):
                with self._reading(METRICS, f", line {number},"):
                    found.append(dict(json.loads(line)))
        return found

    def metrics(self) -> "pd.DataFrame":
        """Return the rows that were logged as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def last(self) -> list[dict[str, Any]]:
        """Return the rows of the last update that was logged, one for each seed."""
        rows = self.rows()
        return [row for row in rows if row.get("update") == rows[-1].get("update")]

    @property
    def pictured(self) -> bool:
        """True if arrays were logged with its rows."""
        if self.done:
            return PICTURES in self._record()["sha256"]
        return (self.folder / PICTURES).is_file()

    def pictures(self, seed: int) -> "dict[int, dict[str, np.ndarray]]":
        """Return the arrays that were logged with the rows of a seed, by update and name."""
        if not self.pictured:
            return {}
        content = self.content(PICTURES)
        with self._reading(PICTURES):
            return {update: arrays for one, update, arrays in _packets(content) if one == seed}

    def weights(self) -> "dict[str, Tensor]":
        """Return the trained weights, as :meth:`finish` was given them.

        Raises:
            ValueError: if the run is not done, or the file is damaged or missing.
            FileNotFoundError: if the run was kept without its weights.
        """
        import safetensors.torch

        self._record()
        return safetensors.torch.load(self.content(WEIGHTS))

    def content(self, name: str) -> bytes:
        """Return the bytes of one of its files: of a finished run, those that it ended with.

        Raises:
            ValueError: if they have changed since, or the file is missing; names it.
        """
        expected = self._record()["sha256"] if self.done else {}
        with self._reading(name):
            content = (self.folder / name).read_bytes()
            if sha256(content) != expected.get(name, sha256(content)):
                raise ValueError(f"{RESULT} has another SHA-256 for it")
            return content

    def _record(self) -> dict[str, Any]:
        """Return what ``result.json`` holds, once its own hash is checked."""
        if not self.done:
            raise ValueError(f"{self.folder} is not done: train it again to resume it.")
        with self._reading(RESULT):
            record = json.loads((self.folder / RESULT).read_bytes())
            if record.pop("own") != sha256(to_json(record)):
                raise ValueError("it has another SHA-256 for itself")
            return record

    def _object(self, name: str) -> dict[str, Any]:
        content = self.content(name)
        with self._reading(name):
            return dict(json.loads(content))

    @property
    def _advice(self) -> str:
        return f"Delete {self.folder} to start again."

    def _reading(self, name: str, where: str = "") -> Any:
        return _reading(self.folder / f"{name}{where}", self._advice)

    # to write

    def log(
        self,
        row: Mapping[str, Any],
        pictures: "Mapping[str, np.ndarray | Tensor] | None" = None,
    ) -> None:
        """Append a row to the metrics.

        Args:
            row: numbers and words by name.
            pictures: arrays by name (attention, drawings) of one of :data:`DTYPES`, to be read
                by :meth:`pictures`; the row then has an ``update`` and a ``seed``.

        Raises:
            OSError: if it cannot be written; the rows before it stay whole.
            ValueError: if something else has changed the metrics.
        """
        self._check_writing()
        line = json.dumps(row, default=_plain).encode() + b"\n"
        if pictures:
            self._add(PICTURES, _packet(row, pictures))
        self._add(METRICS, line)

    def _add(self, name: str, content: bytes) -> None:
        self._sizes[name] = _append(self.folder / name, content, self._sizes[name])

    def checkpoint(self, state: Mapping[str, Any]) -> None:
        """Keep ``state`` (tensors, numbers, text and containers of them) to resume from.

        A kill at any moment leaves this checkpoint or the one before it.
        """
        import torch

        self._check_writing()
        buffer = io.BytesIO()
        torch.save({"state": dict(state), "files": self._files()}, buffer)
        content = buffer.getvalue()
        write(self.folder / CHECKPOINT, hashlib.sha256(content).digest() + content)

    def _files(self) -> dict[str, tuple[int, str]]:
        """Return size and SHA-256 of the files so far, once they are on the disk."""
        found = {}
        for name in (CONFIG, ENVIRONMENT, METRICS, PICTURES):
            path = self.folder / name
            if name == PICTURES and not self._sizes[name]:
                found[name] = 0, sha256(b"")
                continue
            with self._reading(name), path.open("rb") as file:
                os.fsync(file.fileno())
                content = file.read()
                if len(content) != self._sizes.get(name, len(content)):
                    raise ValueError("something else has changed it")
            found[name] = len(content), sha256(content)
        return found

    def restore(self) -> dict[str, Any] | None:
        """Return the state of the checkpoint that was resumed, on the CPU; None without one."""
        self._check_writing()
        return self._state

    def finish(self, result: Mapping[str, Any], weights: "Mapping[str, Tensor]") -> None:
        """Write the weights, then the result; from here on the run is done and is closed.

        Raises:
            ValueError: if something else has changed the metrics.
        """
        import safetensors.torch

        self._check_writing()
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        content = safetensors.torch.save(whole)
        write(self.folder / WEIGHTS, content)
        files = {name: digest for name, (_, digest) in self._files().items()}
        if not self._sizes[PICTURES]:
            del files[PICTURES]
        files[WEIGHTS] = sha256(content)
        record: dict[str, Any] = {
            "result": dict(result),
            "finished": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            "environment": self._now,
            "sha256": files,
        }
        record = json.loads(to_json(record))
        record["own"] = sha256(to_json(record))
        write(self.folder / RESULT, to_json(record))
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        self.close()

    def _check_writing(self) -> None:
        if self._lock is None:
            raise RuntimeError(f"{self.folder} is open for reading only: use Run.open.")


def _locked(folder: Path) -> FileLock:
    """Return the lock of a folder, which ends with its process.

    Raises:
        Busy: if another writer has it.
    """
    # not thread-local: a generator may be closed by another thread than began it
    lock = FileLock(folder / ".lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise Busy(
            f"{folder} is being written by another run of the same experiment, in this process "
            "or another: wait for it, or stop it (close() its iterator)."
        ) from None
    return lock


def _packet(row: Mapping[str, Any], pictures: Mapping[str, Any]) -> bytes:
    """Return the bytes of the pictures of one row, in the safetensors format.

    Raises:
        ValueError: if the row has no ``update`` or no ``seed``, by which they are found.
        TypeError: if a picture is not an array of one of :data:`DTYPES`; names it.
    """
    import numpy as np
    from safetensors.numpy import save

    if not {"update", "seed"} <= set(row):
        raise ValueError("a row with pictures needs its update and its seed.")
    arrays = {}
    for name, picture in pictures.items():
        array = picture.detach().cpu() if hasattr(picture, "detach") else picture
        arrays[name] = np.ascontiguousarray(array)
        if arrays[name].dtype.name not in DTYPES:
            raise TypeError(f"picture {name!r} is {arrays[name].dtype}: {', '.join(DTYPES)}")
    # as one text: safetensors writes several entries in any order
    of = json.dumps({"update": row["update"], "seed": row["seed"]}, default=_plain)
    return save(arrays, metadata={"row": of})


def _packets(content: bytes) -> "Iterator[tuple[int, int, dict[str, np.ndarray]]]":
    """Yield seed, update and pictures of each row; a torn last one is left out."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    at = 0
    while True:
        begins = at + 8 + int.from_bytes(content[at : at + 8], "little")
        if begins > len(content):
            return
        header = json.loads(content[at + 8 : begins])
        row = json.loads(header.pop("__metadata__")["row"])
        ends = begins + max((array["data_offsets"][1] for array in header.values()), default=0)
        if ends > len(content):
            return
        try:
            yield row["seed"], row["update"], load(content[at:ends])
        except SafetensorError as error:
            raise ValueError(str(error)) from error
        at = ends


# kept runs

RESTORE = "Restore it from git."


class KeptRun(Run):
    """A finished run in the file of its experiment: without weights, to read."""

    def __init__(self, path: Path, record: dict[str, Any], rows: bytes) -> None:
        self.folder, self.task = path, path.name.removesuffix(KEPT)
        self.config, self.data = record["config"], record["data"]
        self.record, self._rows, self._lock = record, rows, None

    key = property(lambda self: self.record["key"])
    done = property(lambda self: True)
    environment = property(lambda self: self.record["environment"])
    pictured = property(lambda self: bool(self._pictures))

    @property
    def environment_at_end(self) -> dict[str, Any]:
        return self.record.get("environment_at_end", self.environment)

    def _record(self) -> dict[str, Any]:
        return self.record

    def rows(self) -> list[dict[str, Any]]:
        with _reading(self.folder, RESTORE):
            return json.loads(self._rows)

    def pictures(self, seed: int) -> "dict[int, dict[str, np.ndarray]]":
        found: dict[int, dict[str, np.ndarray]] = {}
        for name, array in self._pictures.items():
            whose, update, picture = name.split("/", 2)
            if int(whose) == seed:
                found.setdefault(int(update), {})[picture] = array
        return dict(sorted(found.items()))

    @cached_property
    def _pictures(self) -> "dict[str, np.ndarray]":
        own = f"{self.key}/"
        every = _kept_pictures(self.folder.with_name(f"{self.task}{KEPT_PICTURES}"))
        return {n.removeprefix(own): a for n, a in every.items() if n.startswith(own)}

    def weights(self) -> "dict[str, Tensor]":
        raise FileNotFoundError(f"run {self.key} was kept in {self.folder} without weights.")


def kept(path: Path) -> "list[KeptRun]":
    """Return the runs in the file of an experiment; none if there is no such file.

    Raises:
        ValueError: if the file is damaged; names it.
    """
    if not path.exists():
        return []
    with _reading(path, RESTORE):
        lines = lzma.decompress(path.read_bytes()).splitlines()
        pairs = zip(lines[::2], lines[1::2], strict=True)
        return [KeptRun(path, json.loads(record), rows) for record, rows in pairs]


def _kept_pictures(path: Path) -> "dict[str, np.ndarray]":
    """Return the arrays of an experiment's kept runs, by "key/seed/update/name"."""
    from safetensors.numpy import load

    if not path.exists():
        return {}
    with _reading(path, RESTORE):
        return load(lzma.decompress(path.read_bytes()))


def keep(run: Run, root: Path) -> Run:
    """Add a finished run, without its weights, to the file of its experiment.

    Keeping it again changes nothing.

    Raises:
        ValueError: if the run is not done, or one of its files is damaged.
    """
    if not run.done:
        raise ValueError(f"{run.folder} is not done: only finished runs are kept.")
    path = Path(root) / f"{run.task}{KEPT}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{run.task}.lock")):
        lines = {one.key: (json.dumps(one.record), one._rows) for one in kept(path)}
        arrays = _kept_pictures(path.with_name(f"{run.task}{KEPT_PICTURES}"))
        arrays = {n: array for n, array in arrays.items() if not n.startswith(f"{run.key}/")}
        rows = run.rows()
        for seed in dict.fromkeys(row.get("seed") for row in rows):
            for update, pictures in run.pictures(seed).items():
                arrays |= {f"{run.key}/{seed}/{update}/{n}": a for n, a in pictures.items()}
        lines[run.key] = _record_of(run), json.dumps(rows).encode()
        write_kept(path, lines, arrays)
    return next(one for one in kept(path) if one.key == run.key)


def write_kept(
    path: Path, lines: Mapping[str, tuple[str, bytes]], arrays: "dict[str, np.ndarray]"
) -> None:
    """Write the runs of an experiment, two lines each by key, and their pictures."""
    from safetensors.numpy import save

    task, text = path.name.removesuffix(KEPT), b""
    for _, (record, rows) in sorted(lines.items()):
        text += record.encode() + b"\n" + rows + b"\n"
    if arrays:
        content = lzma.compress(save(dict(sorted(arrays.items()))))
        write(path.with_name(f"{task}{KEPT_PICTURES}"), content)
    write(path, lzma.compress(text))


def _record_of(run: Run) -> str:
    """Return the line of a kept run that says what it was and how it ended."""
    record = {
        "key": run.key, "config": run.config, "data": run.data, "environment": run.environment,
        "result": run.result, "finished": run.finished,
    }  # fmt: skip
    if run.environment_at_end != run.environment:
        record["environment_at_end"] = run.environment_at_end
    return json.dumps(record)


# all runs under a folder


@dataclass(frozen=True)
class Damaged:
    """A run, or a file of kept runs, that cannot be read: where it is, and what is wrong."""

    folder: Path
    error: str

    @property
    def key(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @property
    def task(self) -> str:
        """The name of the folder above."""
        return self.folder.parent.name


def read(root: Path | Iterable[Path], task: str | None = None) -> list[Run]:
    """Return the runs under one root or several, of one experiment or all, in name order.

    Never waits for a writer. A run that several roots have comes once: from the first root
    where it is done, else from the first that has it. Damaged runs are left out with a warning
    each; :func:`survey` returns them too.
    """
    runs, damaged = survey(root, task)
    for one in damaged:
        warnings.warn(f"{one.error} This run is left out.", stacklevel=2)
    return runs


def survey(
    root: Path | Iterable[Path], task: str | None = None
) -> tuple[list[Run], list[Damaged]]:
    """Return the runs that :func:`read` returns, and those that cannot be read."""
    roots = [root] if isinstance(root, str | Path) else list(root)
    found: dict[tuple[str, str], Run] = {}
    damaged = []
    for top in map(Path, roots):
        runs: list[Run] = []
        for path in sorted(top.glob(f"{task or '*'}{KEPT}")):
            try:
                runs += kept(path)
            except ValueError as error:
                damaged.append(Damaged(path, str(error)))
        files = (top.glob(f"{task or '*'}/*/{name}") for name in (CONFIG, RESULT))
        for folder in sorted({file.parent for each in files for file in each}):
            try:
                runs.append(Run(folder))
            except (ValueError, OSError) as error:
                if _begun(folder):  # else it was removed meanwhile
                    damaged.append(Damaged(folder, str(error)))
        for run in runs:
            name = run.task, run.key
            if name not in found or (run.done and not found[name].done):
                found[name] = run
    return [found[name] for name in sorted(found)], damaged


def unbegun(root: Path) -> list[Damaged]:
    """Return the folders of runs that do not say of what: killed before they began, or while
    they were removed. One that is just being begun is among them for a moment."""
    folders = sorted(path for path in Path(root).glob("*/*/") if path.is_dir())
    return [
        Damaged(folder, f"{folder} has no {CONFIG}: nothing was begun here.")
        for folder in folders
        if not _begun(folder)
    ]


def _begun(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (CONFIG, RESULT))


def table(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return the last row of each seed of each run, beside what tells the run from the others.

    Columns: ``key``, ``done``, ``finished``, the settings in which the runs differ, then their
    metrics that are one number or word each. A run that has not measured anything yet has one
    row without numbers.
    """
    import pandas as pd

    runs = list(runs)
    settings = [{"task": run.task, **run.config, "data": run.data.get("name")} for run in runs]
    names = dict.fromkeys(name for one in settings for name in one)
    differ = [n for n in names if len({repr(one.get(n)) for one in settings}) > 1]
    rows = []
    for run, own in zip(runs, settings, strict=True):
        head = {"key": run.key, "done": run.done, "finished": run.finished}
        head |= {name: own.get(name) for name in differ}
        for row in run.last() or [{}]:
            rows.append(head | {n: v for n, v in row.items() if not isinstance(v, list | dict)})
    return pd.DataFrame(rows)


def remove(run: Run | Damaged) -> None:
    """Delete the folder of a run, damaged or not.

    Killed on the way, what is left counts as not begun, never as done.

    Raises:
        Busy: if it is being written.
        OSError: if its folder may not be changed; names the path.
    """
    lock = _locked(run.folder)
    try:
        first = [run.folder / name for name in (RESULT, CHECKPOINT, CONFIG)]
        for path in [*first, *run.folder.iterdir()]:
            if path.name != ".lock":
                path.unlink(missing_ok=True)
        with suppress(OSError):  # another system may hold it, another writer begin anew
            (run.folder / ".lock").unlink(missing_ok=True)
            run.folder.rmdir()
    finally:
        lock.release()
