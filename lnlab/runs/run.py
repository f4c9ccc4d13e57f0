"""One run: the folder that it writes, and that others read."""

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lnlab.runs.environment import environment
from lnlab.runs.files import TEMPORARY, of_json, plain, read_json, sha256, write, write_json
from lnlab.runs.folder import HASHED, METRICS, PICTURES, Folder
from lnlab.runs.growing import Growing
from lnlab.runs.identity import key, place
from lnlab.runs.lock import locked
from lnlab.runs.pictures import in_rows, of_seed, packet, packets

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from torch import Tensor

SAME = ("lnlab", "code", "torch")
"""Versions that must be those a run was begun with, or it is not resumed."""

SAME_ON = {"cpu": ("cpu_capability",), "cuda": ("device_name",)}
"""The same of the hardware, by device: it shows in the last bits."""


class Run:
    """A folder that says what a run was, how it went and how it ended.

    :meth:`open` gives one to write in, :func:`read` those that are there to read.

    Attributes:
        folder: where it is.
        task: the name of its task.
        config: the configuration, as JSON gives it back (tuples are lists).
        data: name, kind, checksum and licence of the data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._files = Folder(self.folder)
        recorded = self._files.object("config.json")
        with self._files.damage("config.json"):
            self.task: str = recorded["task"]
            self.config: dict[str, Any] = recorded["config"]
            self.data: dict[str, Any] = recorded["data"]
            if key(self.config, self.data["checksum"]) != self.folder.name:
                raise ValueError("its folder has the key of another configuration")
        self._lock: FileLock | None = None
        self._now: dict[str, Any] = {}
        self._growing = {n: Growing(self.folder / n) for n in (METRICS, PICTURES)}
        self._checkpoint: dict[str, dict[str, Any]] = {}  # by its SHA-256, what grew before it

    @classmethod
    def open(
        cls,
        task: str,
        config: Mapping[str, Any],
        data: Mapping[str, Any],
        root: Path,
        device: "torch.device | str" = "cpu",
        code: str | tuple[str, ...] = (),
    ) -> "Run":
        """The run of this configuration on this data, locked for writing unless it is done.

        What a killed process left behind is put in order: half-written files are removed
        and rows of metrics that are newer than the checkpoint are cut off.

        Args:
            task: the name of the experiment.
            config: what decides its course, as JSON can hold it.
            data: ``checksum`` at least, and what :func:`~lnlab.runs.place` asks for.
            root: the folder under which all runs live.
            device: where it computes.
            code: the names of the modules whose sources decide its course, the task's first
                (:mod:`lnlab.runs.closure`); all of lnlab if none is given.

        Raises:
            Busy: if the folder is being written already.
            RuntimeError: if the run was begun with another version of lnlab's code or of torch,
                or on another kind of processor, and so cannot be resumed.
            ValueError: if the checkpoint is damaged.
            TypeError: if the configuration cannot be written as JSON.
            OSError: if the folder cannot be written; names the path.
        """
        record = {"task": task, "config": dict(config), "data": dict(data)}
        folder = place(root, task, config, data)
        if Folder(folder).done:
            return cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = locked(folder)
        try:
            modules = (code,) if isinstance(code, str) else code
            return cls._begin(folder, record, lock, environment(device, modules))
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _begin(cls, folder: Path, record: dict, lock: FileLock, now: dict) -> "Run":
        if Folder(folder).done:  # by the writer whose lock ended just before ours began
            lock.release()
            return cls(folder)
        for stray in folder.glob(f"*{TEMPORARY}"):
            stray.unlink()
        resumed = (folder / "state.pt").is_file()
        if not resumed:
            (folder / PICTURES).unlink(missing_ok=True)
            write(folder / METRICS, b"")
            write_json(folder / "environment.json", now)
            write_json(folder / "config.json", record)  # last: a reader finds the run by it
        run = cls(folder)
        run._lock, run._now = lock, now
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
        try:
            if not isinstance(seen, dict):
                path = self.folder / "state.pt"
                raise ValueError(f"{path} is not what checkpoints.json says it is.")
            for name, growing in self._growing.items():
                growing.cut(seen.get(name))
        except ValueError as error:
            raise ValueError(f"{error} {again}") from None
        self._checkpoint = {digest: seen}

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'done' if self.done else 'not done'})"

    def close(self) -> None:
        """Give the folder free for other writers; closing twice does nothing."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def key(self) -> str:
        """The name of the folder, made from configuration and data."""
        return self.folder.name

    @property
    def done(self) -> bool:
        """True once the run came to its end."""
        return self._files.done

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, device, threads and what else decides its bits, when the run was begun."""
        return self._files.object("environment.json")

    def changes(self, now: Mapping[str, Any] | None = None) -> dict[str, tuple[Any, Any]]:
        """Surroundings that changed since the run was begun and decide its bits.

        Args:
            now: an :func:`~lnlab.runs.environment`; by default that of this process.

        Returns:
            (then, now) by name: of the code, of torch, and of the processor. Nothing bars
            the reading of a run, any of it its resumption. By default the code is left out
            for runs that were begun when its hash was of other files.
        """
        begun = self.environment
        known = now is not None or "code_of" in begun
        now = now or environment(begun["device"], tuple(begun.get("code_of", ())))
        names = [*SAME, *SAME_ON.get(now["device"], ())]
        if not known:
            names.remove("code")
        return {n: (begun.get(n), now[n]) for n in names if begun.get(n) != now[n]}

    @property
    def result(self) -> dict[str, Any]:
        """The result that :meth:`finish` was given.

        Raises:
            ValueError: if the run is not done.
        """
        with self._files.damage("result.json"):
            return self._files.record()["result"]

    @property
    def finished(self) -> str:
        """The time of its end, in UTC; empty if it is not done, or nobody wrote it down."""
        return self._files.record().get("finished", "") if self.done else ""

    def content(self, name: str) -> bytes:
        """The bytes of one of its files; of a run that is done, the very ones it ended with.

        Raises:
            ValueError: if they have changed since.
            FileNotFoundError: if the file is not there: a run may be kept without weights.
        """
        return self._files.content(name)

    def log(
        self,
        row: Mapping[str, Any],
        pictures: "Mapping[str, np.ndarray | Tensor] | None" = None,
    ) -> None:
        """Append one row to the metrics; it is on its way to the disk when this returns.

        Args:
            row: numbers and words by name.
            pictures: arrays by name (attention, a canvas, strokes) of float16, float32,
                float64 or uint8, to be looked at with :meth:`pictures`; the row then has an
                ``update`` and a ``seed``.

        Raises:
            OSError: if it cannot be written; the rows before it stay whole.
            ValueError: if somebody else has changed the metrics meanwhile.
        """
        self._writing()
        line = json.dumps(row, default=plain).encode() + b"\n"
        if pictures:
            self._growing[PICTURES].add(packet(row, pictures))
        self._growing[METRICS].add(line)

    def metrics(self) -> "pd.DataFrame":
        """The rows that were logged; a row that is being written just now is not shown."""
        import pandas as pd

        return pd.DataFrame(self._files.rows())

    def last(self) -> list[dict[str, Any]]:
        """The rows of the last update that was logged, one for each seed."""
        return self._files.last()

    @property
    def pictured(self) -> bool:
        """True of a run with whose rows arrays were logged."""
        if self.done:
            return PICTURES in self._files.record()["sha256"]
        return (self.folder / PICTURES).is_file()

    def pictures(self, seed: int) -> "dict[int, dict[str, np.ndarray]]":
        """The pictures that were logged with the rows of a seed, by update, then by name.

        Of runs that kept attention in their rows: "attention 0", "attention 1" and so on.
        """
        if not self.pictured:
            return of_seed(in_rows(self._files.rows()), seed)
        content = self.content(PICTURES)
        with self._files.damage(PICTURES):
            return of_seed(packets(content), seed)

    def checkpoint(self, state: Mapping[str, Any]) -> None:
        """Keep ``state`` (tensors, numbers, text and containers of them) to resume from.

        A kill at any moment leaves this checkpoint or the one before it.
        """
        import torch

        self._writing()
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        content = buffer.getbuffer()
        for growing in self._growing.values():
            growing.sync()
        newest = {sha256(content): {n: g.summary() for n, g in self._growing.items()}}
        # Both are named while state.pt is either of them.
        write_json(self.folder / "checkpoints.json", self._checkpoint | newest)
        write(self.folder / "state.pt", content)
        self._checkpoint = newest

    def restore(self) -> dict[str, Any] | None:
        """The state of the last checkpoint, on the CPU; None if there is none.

        Raises:
            ValueError: if the file is not the one that was written.
        """
        import torch

        self._writing()
        if not self._checkpoint:
            return None
        content = (self.folder / "state.pt").read_bytes()
        if sha256(content) not in self._checkpoint:
            raise ValueError(f"{self.folder / 'state.pt'} was changed by someone else.")
        return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")

    def finish(self, result: Mapping[str, Any], weights: "Mapping[str, Tensor]") -> None:
        """Write the weights, then the result; from here on the run is done and is closed.

        Raises:
            ValueError: if somebody else has changed the metrics meanwhile.
        """
        import safetensors.torch

        self._writing()
        for growing in self._growing.values():
            growing.check()
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        write(self.folder / "weights.safetensors", safetensors.torch.save(whole))
        names = [*HASHED, *([PICTURES] if self._growing[PICTURES] else [])]
        record = {
            "result": dict(result),
            "sha256": {n: sha256((self.folder / n).read_bytes()) for n in names},
            "data": self.data["checksum"],
            "finished": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            "environment": self._now,
        }
        write_json(self.folder / "result.json", record | {"own": of_json(record)})
        for name in ("state.pt", "checkpoints.json"):
            (self.folder / name).unlink(missing_ok=True)
        self.close()

    def weights(self) -> "dict[str, Tensor]":
        """The trained weights, as :meth:`finish` was given them.

        Raises:
            ValueError: if the run is not done, or the file is not the one that was written.
            FileNotFoundError: if the run was kept without its weights.
        """
        import safetensors.torch

        self._files.record()
        return safetensors.torch.load(self.content("weights.safetensors"))

    def _writing(self) -> None:
        if self._lock is None:
            raise RuntimeError(f"{self.folder} is open for reading only: use Run.open.")
