"""The runs that are there: to find, to read, to keep."""

from collections.abc import Iterable
from pathlib import Path

from lnlab.runs.files import write
from lnlab.runs.run import Run

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
