"""One run: the folder that it writes, and that others read."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from filelock import FileLock
from torch import Tensor

from lnlab.runs.claim import claimed
from lnlab.runs.environment import environment
from lnlab.runs.files import (
    TEMPORARY,
    Rows,
    append,
    of_json,
    plain,
    read_json,
    sha256,
    sync,
    whole_lines,
    write,
    write_json,
)

if TYPE_CHECKING:
    import pandas as pd


SAME = ("lnlab", "code", "torch")
"""What a run is resumed with as it was begun, or not at all."""

SAME_ON = {"cpu": ("cpu_capability",), "cuda": ("device_name",)}
"""And, by device, what else shows in the last bits."""


HASHED = ("config.json", "environment.json", "metrics.jsonl", "weights.safetensors")
"""The files of a finished run whose bytes its result knows."""


class Run:
    """A folder that says what a run was, how it went and how it ended.

    :meth:`open` gives one to write in, :func:`read` those that are there to read.

    Attributes:
        folder: where it is.
        task: the name of the task.
        config: the configuration, as JSON gives it back (tuples are lists).
        data: name, kind, checksum and licence of the data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        recorded = self._object("config.json")
        with self._damage("config.json"):
            self.task: str = recorded["task"]
            self.config: dict[str, Any] = recorded["config"]
            self.data: dict[str, Any] = recorded["data"]
            if key(self.config, self.data["checksum"]) != self.folder.name:
                raise ValueError("its folder has the key of another configuration")
        self._claim: FileLock | None = None
        self._now: dict[str, Any] = {}
        self._rows = Rows()
        self._checkpoint: dict[str, dict[str, Any]] = {}  # by its SHA-256, the rows before it

    @classmethod
    def open(
        cls,
        task: str,
        config: Mapping[str, Any],
        data: Mapping[str, Any],
        root: Path,
        device: torch.device | str = "cpu",
    ) -> "Run":
        """The run of this configuration on this data, claimed for writing unless it is done.

        What a killed process left behind is put in order: half-written files are removed
        and rows of metrics that are newer than the checkpoint are cut off.

        Args:
            task: the name of the experiment.
            config: what decides its course, as JSON can hold it.
            data: at least the data's ``checksum``.
            root: the folder under which all runs live.
            device: where it computes.

        Raises:
            Busy: if the folder is being written already.
            RuntimeError: if the run was begun with another version of lnlab's code or of torch,
                or on another kind of processor, and so cannot be resumed.
            ValueError: if the checkpoint is damaged.
            TypeError: if the configuration cannot be written as JSON.
            OSError: if the folder cannot be written; names the path.
        """
        record = {"task": task, "config": dict(config), "data": dict(data)}
        folder = Path(root) / task / key(config, data["checksum"])
        if _done(folder):
            return cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        claim = claimed(folder)
        try:
            return cls._begin(folder, record, claim, environment(device))
        except BaseException:
            claim.release()
            raise

    @classmethod
    def _begin(cls, folder: Path, record: dict, claim: FileLock, now: dict) -> "Run":
        if _done(folder):  # by the writer whose claim ended just before ours began
            claim.release()
            return cls(folder)
        for stray in folder.glob(f"*{TEMPORARY}"):
            stray.unlink()
        resumed = (folder / "state.pt").is_file()
        if not resumed:
            write(folder / "metrics.jsonl", b"")
            write_json(folder / "environment.json", now)
            write_json(folder / "config.json", record)  # last: a reader finds the run by it
        run = cls(folder)
        run._claim, run._now = claim, now
        if resumed:
            run._resume()
        return run

    def _resume(self) -> None:
        again = f"Delete {self.folder} to start again."
        for what, (then, now) in self.changes(self._now).items():
            raise RuntimeError(
                f"{self.folder} was begun with {what} {then} and this is {now}: a run is not "
                f"resumed across versions. {again}"
            )
        digest = sha256((self.folder / "state.pt").read_bytes())
        known = read_json(self.folder / "checkpoints.json")
        seen = known.get(digest) if isinstance(known, dict) else None
        lines = whole_lines((self.folder / "metrics.jsonl").read_bytes())
        rows = Rows.first(seen, lines)
        if rows is None:
            damaged = self.folder / ("state.pt" if seen is None else "metrics.jsonl")
            raise ValueError(f"{damaged} is not what checkpoints.json says it is. {again}")
        write(self.folder / "metrics.jsonl", b"".join(lines[: rows.count]))
        self._rows, self._checkpoint = rows, {digest: rows.summary()}

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'done' if self.done else 'not done'})"

    def close(self) -> None:
        """Give the folder free for other writers. Closing twice does nothing."""
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    @property
    def key(self) -> str:
        """The name of the folder, made from configuration and data."""
        return self.folder.name

    @property
    def done(self) -> bool:
        """Whether the run came to its end."""
        return _done(self.folder)

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, device, threads and what else decides its bits, when the run was begun."""
        return self._object("environment.json")

    def changes(self, now: Mapping[str, Any] | None = None) -> dict[str, tuple[Any, Any]]:
        """What is no longer as it was when the run was begun, and decides its bits.

        Args:
            now: an :func:`~lnlab.runs.environment`; by default that of this process.

        Returns:
            (then, now) by name: of the code, of torch, and of the processor. Nothing bars
            the reading of a run, any of it its resumption.
        """
        begun = self.environment
        now = environment(begun["device"]) if now is None else now
        names = [*SAME, *SAME_ON.get(now["device"], ())]
        return {n: (begun.get(n), now[n]) for n in names if begun.get(n) != now[n]}

    @property
    def result(self) -> dict[str, Any]:
        """What :meth:`finish` was given.

        Raises:
            ValueError: if the run is not done.
        """
        with self._damage("result.json"):
            return self._record()["result"]

    def _record(self) -> dict[str, Any]:
        if not self.done:
            raise ValueError(f"{self.folder} is not done: run its task again to resume it.")
        record = read_json(self.folder / "result.json")
        with self._damage("result.json"):
            own = {name: value for name, value in record.items() if name != "own"}
            # runs that were kept before have no hash of their own
            if record.get("own", of_json(own)) != of_json(own):
                raise ValueError("it has another SHA-256 for itself")
            if set(record["sha256"]) != set(HASHED):
                raise ValueError("it has not the SHA-256 of every other file")
        return record

    def _object(self, name: str) -> dict[str, Any]:
        """What one of its JSON files holds."""
        content = self.content(name)
        with self._damage(name):
            value = json.loads(content)
            if not isinstance(value, dict):
                raise TypeError("it is no object")
            return value

    @contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            path = self.folder / name
            raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from error

    def content(self, name: str) -> bytes:
        """The bytes of one of its files; of a run that is done, the very ones it ended with.

        Raises:
            ValueError: if they have changed since.
            FileNotFoundError: if the file is not there: a run may be kept without weights.
        """
        hashes = self._record()["sha256"] if self.done else {}
        content = (self.folder / name).read_bytes()
        if sha256(content) != hashes.get(name, sha256(content)):
            path = self.folder / name
            raise ValueError(f"{path} is damaged: result.json has another SHA-256 for it.")
        return content

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one row to the metrics; it is on its way to the disk when this returns.

        Raises:
            OSError: if it cannot be written; the rows before it stay whole.
        """
        self._writing()
        line = json.dumps(row, default=plain).encode() + b"\n"
        append(self.folder / "metrics.jsonl", line)
        self._rows.add(line)

    def metrics(self) -> "pd.DataFrame":
        """The rows that were logged; a row that is being written just now is not shown."""
        import pandas as pd

        lines = whole_lines(self.content("metrics.jsonl"))
        return pd.DataFrame([self._row(*numbered) for numbered in enumerate(lines, start=1)])

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        with self._damage(f"metrics.jsonl, line {number},"):
            row = json.loads(line)
            if not isinstance(row, dict):
                raise TypeError("it is no object")
            return row

    def checkpoint(self, state: Mapping[str, Any]) -> None:
        """Keep ``state`` (tensors, numbers, text and containers of them) to resume from.

        A kill at any moment leaves this checkpoint or the one before it.
        """
        self._writing()
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        content = buffer.getbuffer()
        sync(self.folder / "metrics.jsonl")
        newest = {sha256(content): self._rows.summary()}
        # Both are named while state.pt is either of them.
        write_json(self.folder / "checkpoints.json", self._checkpoint | newest)
        write(self.folder / "state.pt", content)
        self._checkpoint = newest

    def restore(self) -> dict[str, Any] | None:
        """The state of the last checkpoint, on the CPU; None if there is none.

        Raises:
            ValueError: if the file is not the one that was written.
        """
        self._writing()
        if not self._checkpoint:
            return None
        content = (self.folder / "state.pt").read_bytes()
        if sha256(content) not in self._checkpoint:
            raise ValueError(f"{self.folder / 'state.pt'} was changed by someone else.")
        return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")

    def finish(self, result: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        """Write the weights, then the result; from here on the run is done and is closed."""
        self._writing()
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        write(self.folder / "weights.safetensors", safetensors.torch.save(whole))
        record = {
            "result": dict(result),
            "sha256": {name: sha256((self.folder / name).read_bytes()) for name in HASHED},
            "data": self.data["checksum"],
            "environment": self._now,
        }
        write_json(self.folder / "result.json", record | {"own": of_json(record)})
        for name in ("state.pt", "checkpoints.json"):
            (self.folder / name).unlink(missing_ok=True)
        self.close()

    def weights(self) -> dict[str, Tensor]:
        """The trained weights, as :meth:`finish` was given them.

        Raises:
            ValueError: if the run is not done, or the file is not the one that was written.
            FileNotFoundError: if the run was kept without its weights.
        """
        self._record()
        return safetensors.torch.load(self.content("weights.safetensors"))

    def _writing(self) -> None:
        if self._claim is None:
            raise RuntimeError(f"{self.folder} is open for reading only: use Run.open.")


def _done(folder: Path) -> bool:
    return (folder / "result.json").is_file()


def key(config: Mapping[str, Any], checksum: str) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of configuration and data."""
    try:
        text = json.dumps(
            {"config": config, "data": checksum},
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
        )
    except (TypeError, ValueError) as error:
        raise TypeError(f"the configuration cannot be written as JSON: {error}") from error
    return sha256(text.encode())[:12]
