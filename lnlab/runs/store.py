"""The runs that are there: to find, to read, to compare, to keep, to remove."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lnlab.runs.claim import claimed
from lnlab.runs.files import write
from lnlab.runs.run import Run

if TYPE_CHECKING:
    import pandas as pd

KEPT = ("config.json", "environment.json", "metrics.jsonl", "result.json")
"""What is small enough to commit; the result comes last, as it makes the run done."""


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
        ValueError: if the run is not done, or one of its files is damaged.
    """
    if not run.done:
        raise ValueError(f"{run.folder} is not done: only finished runs are kept.")
    folder = Path(root) / run.task / run.key
    folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        write(folder / name, run.content(name))
    return Run(folder)


def table(runs: Iterable[Run]) -> "pd.DataFrame":
    """The last row of each seed of each run, beside what tells the run from the others.

    Columns: ``key``, ``done``, the settings in which the runs differ, then their metrics. A
    run that has not measured anything yet has one row without numbers.
    """
    import pandas as pd

    runs = list(runs)
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for those in settings for name in those)
    told = [n for n in names if len({repr(those.get(n)) for those in settings}) > 1]
    rows = []
    for run, those in zip(runs, settings, strict=True):
        head = {"key": run.key, "done": run.done} | {n: those.get(n) for n in told}
        metrics = run.metrics()
        last = metrics.groupby("seed").tail(1).to_dict("records") if len(metrics) else [{}]
        rows += [head | row for row in last]
    return pd.DataFrame(rows)


def _settings(run: Run) -> dict[str, Any]:
    return {"task": run.task, **run.config, "data": run.data.get("name")}


def remove(run: Run) -> None:
    """Delete a run. Killed on the way, what is left counts as not begun, never as done.

    Raises:
        Busy: if it is being written.
        OSError: if its folder may not be changed; names the path.
    """
    with claimed(run.folder):
        first = [run.folder / name for name in ("result.json", "state.pt", "config.json")]
        for path in [*first, *run.folder.iterdir()]:
            if path.name != ".claim":
                path.unlink(missing_ok=True)
    (run.folder / ".claim").unlink(missing_ok=True)
    run.folder.rmdir()
