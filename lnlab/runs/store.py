"""The runs that are there: to find, to read, to compare, to keep, to remove."""

import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lnlab.runs.files import to_json, write
from lnlab.runs.folder import CONFIG, ENVIRONMENT, METRICS, PICTURES, RESULT, TOLD, Folder
from lnlab.runs.lock import locked
from lnlab.runs.packed import pack
from lnlab.runs.run import Run

if TYPE_CHECKING:
    import pandas as pd

PACKED = (METRICS, PICTURES)
"""Files that are kept compressed."""

KEPT = (CONFIG, ENVIRONMENT, *PACKED, RESULT)
"""Files that are small enough to commit; the result is last, as it makes the run done."""


@dataclass(frozen=True)
class Damaged:
    """A run that cannot be read: its folder, and what is wrong with it."""

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
    """The runs under one root or several, to read: of one task or of all, in name order.

    Never waits for a writer. A run that several roots hold comes once: from the first root
    where it is done, else from the first that has it. Damaged ones are left out with a
    warning each; :func:`survey` gives them too.
    """
    runs, damaged = survey(root, task)
    for one in damaged:
        warnings.warn(f"{one.error} This run is left out.", stacklevel=2)
    return runs


def survey(
    root: Path | Iterable[Path], task: str | None = None
) -> tuple[list[Run], list[Damaged]]:
    """The runs that :func:`read` gives, and those that cannot be read."""
    roots = [root] if isinstance(root, str | Path) else list(root)
    found: dict[tuple[str, str], Run] = {}
    damaged = []
    for top in roots:
        files = (Path(top).glob(f"{task or '*'}/*/{name}") for name in (CONFIG, RESULT))
        for folder in sorted({file.parent for each in files for file in each}):
            try:
                run = Run(folder)
            except (ValueError, OSError) as error:
                if Folder(folder).begun:  # else it was removed meanwhile
                    damaged.append(Damaged(folder, str(error)))
                continue
            name = (run.task, run.key)
            if name not in found or (run.done and not found[name].done):
                found[name] = run
    return [found[name] for name in sorted(found)], damaged


def unbegun(root: Path) -> list[Damaged]:
    """The folders of runs under ``root`` that do not say of what: killed before they began, or
    while they were removed. One that is just being begun is among them for a moment."""
    folders = sorted(path for path in Path(root).glob("*/*/") if path.is_dir())
    return [
        Damaged(folder, f"{folder} has no config.json: nothing was begun here.")
        for folder in folders
        if not Folder(folder).begun
    ]


def keep(run: Run, root: Path) -> Run:
    """A copy of a finished run under another root, small, to commit.

    Its weights are left out, and files of their own for what its result tells as well.

    Raises:
        ValueError: if the run is not done, or one of its files is damaged.
    """
    if not run.done:
        raise ValueError(f"{run.folder} is not done: only finished runs are kept.")
    folder = Path(root) / run.task / run.key
    folder.mkdir(parents=True, exist_ok=True)
    files = Folder(run.folder)
    left_out = {name for name in TOLD if files.settled(name)}
    without = folder == run.folder and not any(folder.glob(f"{PICTURES}*"))  # as it was kept
    if without or not run.pictured:
        left_out.add(PICTURES)
    contents = {name: run.content(name) for name in KEPT if name not in left_out}
    if CONFIG in left_out:
        contents[RESULT] = to_json({TOLD[CONFIG]: files.object(CONFIG)} | files.record())
    for name, content in contents.items():
        (pack if name in PACKED else write)(folder / name, content)
    for name in left_out:  # now that the result is there, which tells it
        (folder / name).unlink(missing_ok=True)
    return Run(folder)


def table(runs: Iterable[Run]) -> "pd.DataFrame":
    """The last row of each seed of each run, beside what tells the run from the others.

    Columns: ``key``, ``done``, ``finished``, the settings in which the runs differ, then their
    metrics that are one number or word each. A run that has not measured anything yet has one
    row without numbers.
    """
    import pandas as pd

    runs = list(runs)
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for those in settings for name in those)
    told = [n for n in names if len({repr(those.get(n)) for those in settings}) > 1]
    rows = []
    for run, those in zip(runs, settings, strict=True):
        head = {"key": run.key, "done": run.done, "finished": run.finished}
        head |= {n: those.get(n) for n in told}
        rows += [head | _single(row) for row in run.last() or [{}]]
    return pd.DataFrame(rows)


def _single(row: dict[str, Any]) -> dict[str, Any]:
    return {n: value for n, value in row.items() if not isinstance(value, list | dict)}


def _settings(run: Run) -> dict[str, Any]:
    return {"task": run.task, **run.config, "data": run.data.get("name")}


def remove(run: Run | Damaged) -> None:
    """Delete a run, damaged or not.

    Killed on the way, what is left counts as not begun, never as done.

    Raises:
        Busy: if it is being written.
        OSError: if its folder may not be changed; names the path.
    """
    lock = locked(run.folder)
    try:
        first = [run.folder / name for name in ("result.json", "state.pt", "config.json")]
        for path in [*first, *run.folder.iterdir()]:
            if path.name != ".lock":
                path.unlink(missing_ok=True)
        with suppress(OSError):  # another system may hold on to it, another writer begin anew
            (run.folder / ".lock").unlink(missing_ok=True)
            run.folder.rmdir()
    finally:
        lock.release()
    if os.name != "posix":
        (run.folder / ".lock").unlink(missing_ok=True)
        run.folder.rmdir()
