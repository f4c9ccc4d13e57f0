"""One run: the folder that it writes, and that others read."""

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from lnlab.runs.environment import environment
from lnlab.runs.files import (
    TEMPORARY,
    append,
    plain,
    read_json,
    sha256,
    whole_lines,
    write,
    write_json,
)

if TYPE_CHECKING:
    import pandas as pd


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
        recorded = read_json(self.folder / "config.json")
        self.task: str = recorded["task"]
        self.config: dict[str, Any] = recorded["config"]
        self.data: dict[str, Any] = recorded["data"]
        self._claim: FileLock | None = None
        self._rows = 0
        self._checkpoint: dict[str, int] = {}

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
            RuntimeError: if another process is writing in the folder, or if the run was begun
                by another version of lnlab and cannot be resumed.
            TypeError: if the configuration cannot be written as JSON.
            OSError: if the folder cannot be written; names the path.
        """
        record = {"task": task, "config": dict(config), "data": dict(data)}
        folder = Path(root) / task / key(config, data["checksum"])
        if (folder / "result.json").is_file():
            return cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        claim = _claim(folder)
        try:
            return cls._begin(folder, record, claim, environment(device))
        except BaseException:
            claim.release()
            raise

    @classmethod
    def _begin(cls, folder: Path, record: dict, claim: FileLock, now: dict) -> "Run":
        for stray in folder.glob(f"*{TEMPORARY}"):
            stray.unlink()
        resumed = (folder / "state.pt").is_file()
        if not resumed:
            write_json(folder / "config.json", record)
            write_json(folder / "environment.json", now)
        run = cls(folder)
        run._claim = claim
        if run.done:  # by the writer whose claim ended just before ours began
            run.close()
        elif resumed:
            run._resume(now)
        else:
            run._cut(0)
        return run

    def _resume(self, now: Mapping[str, Any]) -> None:
        begun = self.environment
        if begun["lnlab"] != now["lnlab"]:
            raise RuntimeError(
                f"{self.folder} was begun by lnlab {begun['lnlab']} and this is lnlab "
                f"{now['lnlab']}: a run is not resumed across versions. Delete the folder to "
                "start again."
            )
        digest = sha256((self.folder / "state.pt").read_bytes())
        known: dict[str, int] = read_json(self.folder / "checkpoints.json")
        if digest not in known:
            raise ValueError(
                f"{self.folder / 'state.pt'} is damaged (its SHA-256 is not in "
                f"checkpoints.json): delete {self.folder} to start again."
            )
        self._checkpoint = {digest: known[digest]}
        self._cut(known[digest])

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
        return (self.folder / "result.json").is_file()

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, device, threads and what else decides the bits of a run."""
        return read_json(self.folder / "environment.json")

    @property
    def result(self) -> dict[str, Any]:
        """What :meth:`finish` was given.

        Raises:
            ValueError: if the run is not done.
        """
        return self._record()["result"]

    def _record(self) -> dict[str, Any]:
        if not self.done:
            raise ValueError(f"{self.folder} is not done: run its task again to resume it.")
        return read_json(self.folder / "result.json")

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one row to the metrics; it is on its way to the disk when this returns.

        Raises:
            OSError: if it cannot be written; the rows before it stay whole.
        """
        self._writing()
        line = json.dumps(row, default=plain).encode() + b"\n"
        append(self.folder / "metrics.jsonl", line)
        self._rows += 1

    def metrics(self) -> "pd.DataFrame":
        """The rows that were logged; a row that is being written just now is not shown."""
        import pandas as pd

        lines = whole_lines(self.folder / "metrics.jsonl")
        return pd.DataFrame([json.loads(line) for line in lines])

    def checkpoint(self, state: Mapping[str, Any]) -> None:
        """Keep ``state`` (tensors, numbers, text and containers of them) to resume from.

        A kill at any moment leaves this checkpoint or the one before it.
        """
        self._writing()
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        content = buffer.getbuffer()
        newest = {sha256(content): self._rows}
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
        hashed = ("config.json", "environment.json", "metrics.jsonl", "weights.safetensors")
        record = {
            "result": dict(result),
            "data": self.data["checksum"],
            "sha256": {
                name: sha256((self.folder / name).read_bytes())
                for name in hashed
                if (self.folder / name).is_file()
            },
            "environment": self.environment,
        }
        write_json(self.folder / "result.json", record)
        for name in ("state.pt", "checkpoints.json"):
            (self.folder / name).unlink(missing_ok=True)
        self.close()

    def weights(self) -> dict[str, Tensor]:
        """The trained weights, as :meth:`finish` was given them.

        Raises:
            ValueError: if the run is not done, or the file is not the one that was written.
            FileNotFoundError: if the run was kept without its weights.
        """
        expected = self._record()["sha256"]["weights.safetensors"]
        path = self.folder / "weights.safetensors"
        if not path.is_file():
            raise FileNotFoundError(f"{path}: this run was kept without its weights.")
        content = path.read_bytes()
        if sha256(content) != expected:
            raise ValueError(f"{path} is damaged: its SHA-256 is not the one in result.json.")
        return safetensors.torch.load(content)

    def _writing(self) -> None:
        if self._claim is None:
            raise RuntimeError(f"{self.folder} is open for reading only: use Run.open.")

    def _cut(self, rows: int) -> None:
        path = self.folder / "metrics.jsonl"
        lines = whole_lines(path)[:rows]
        write(path, b"".join(lines))
        self._rows = len(lines)


def _claim(folder: Path) -> FileLock:
    # Not thread-local: a generator may be closed by another thread than began it.
    claim = FileLock(folder / ".claim", thread_local=False)
    try:
        claim.acquire(timeout=0)
    except Timeout:
        raise RuntimeError(
            f"{folder} is being written by another process: wait for it, or stop it."
        ) from None
    return claim


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


def read(root: Path | Iterable[Path], task: str | None = None) -> list[Run]:
    """The runs under one root or several, to read: of one task or of all, in name order.

    Never waits for a writer. A run that several roots hold comes once: from the first root
    where it is done, else from the first that has it.
    """
    roots = [root] if isinstance(root, str | Path) else list(root)
    found: dict[tuple[str, str], Run] = {}
    for top in roots:
        for config in sorted(Path(top).glob(f"{task or '*'}/*/config.json")):
            run = Run(config.parent)
            name = (run.task, run.key)
            if name not in found or (run.done and not found[name].done):
                found[name] = run
    return [found[name] for name in sorted(found)]


def keep(run: Run, root: Path) -> Run:
    """A copy of a finished run under another root, without its weights: small, to commit.

    Raises:
        ValueError: if the run is not done.
    """
    if not run.done:
        raise ValueError(f"{run.folder} is not done: only finished runs are kept.")
    folder = Path(root) / run.task / run.key
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "environment.json", "metrics.jsonl", "result.json"):
        write(folder / name, (run.folder / name).read_bytes())
    return Run(folder)
