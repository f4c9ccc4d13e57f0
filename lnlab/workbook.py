"""The notebooks: which there are, what they can be told, and running them headless."""

import ast
import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import papermill
import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_event_loop
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers

import lnlab

Hear = Callable[[str, str], None]


def notebooks(folder: Path) -> list[Path]:
    """The notebooks of a folder in reading order."""
    return sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))


def chosen(names: Sequence[str], paths: list[Path]) -> list[Path]:
    """The notebooks that are named by number (``2`` or ``02``) or by name; all for none.

    Raises:
        ValueError: A name fits no notebook; the message lists those that exist.
    """

    def fits(name: str, path: Path) -> bool:
        number = path.stem.split("_")[0]
        by_number = name.isdecimal() and number.isdecimal() and int(name) == int(number)
        return by_number or name in (path.stem, path.name)

    for name in names:
        if not any(fits(name, path) for path in paths):
            existing = ", ".join(path.stem for path in paths)
            raise ValueError(f"There is no notebook {name!r}. There are: {existing}")
    return [path for path in paths if not names or any(fits(name, path) for name in names)]


def value(text: str) -> Any:
    """What was meant on the command line: a Python literal where it is one, else the text."""
    try:
        literal = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return list(literal) if isinstance(literal, tuple) else literal


KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def opened(path: Path) -> nbformat.NotebookNode:
    """A notebook as papermill takes it: with a kernel, whether it names one or not."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["kernelspec"] = KERNEL
    return notebook


def parameters(path: Path) -> dict[str, str]:
    """The parameters of a notebook and their defaults, as its ``parameters`` cell has them."""
    found = papermill.inspect_notebook(opened(path))
    return {name: parameter["default"] for name, parameter in found.items()}


def shared(wanted: dict[str, Any], paths: list[Path]) -> dict[Path, dict[str, Any]]:
    """Each notebook's part of the wanted parameters.

    Raises:
        ValueError: No notebook has one of them (papermill would run on with a warning).
    """
    known = {path: parameters(path) for path in paths}
    for name in wanted:
        if not any(name in defaults for defaults in known.values()):
            existing = "\n".join(f"  {path.stem}: {', '.join(known[path])}" for path in paths)
            raise ValueError(f"No notebook has a parameter {name!r}. There are:\n{existing}")
    return {path: {k: v for k, v in wanted.items() if k in known[path]} for path in paths}


@dataclass(frozen=True)
class Outcome:
    """How the run of one notebook ended; ``error`` and the place of it if it failed."""

    name: str
    seconds: float
    parameters: dict[str, Any]
    at: str
    error: str | None
    place: str | None
    version: str = lnlab.__version__

    def __str__(self) -> str:
        if self.error is None:
            return f"ran     {self.name} in {self.seconds} s"
        where = self.place or "before its first cell"
        return f"FAILED  {self.name} {where} after {self.seconds} s: {self.error}"


class OwnKernel(AsyncKernelManager):
    """The interpreter that runs lnlab, whatever kernels are installed elsewhere."""

    def _transport_encryption_default(self) -> str:
        # code and outputs pass through TCP, where other users of the machine could read them
        return "auto"

    def _kernel_spec_manager_default(self) -> KernelSpecManager:
        # no folders: what is left is the kernel of sys.executable
        return KernelSpecManager(kernel_dirs=[])


def last_place(notebook: nbformat.NotebookNode) -> str | None:
    """The cell that was begun last: its place among those that were written, its first line."""
    written = [
        cell
        for cell in notebook.cells
        if "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    # papermill's times can be trusted, its status not: it is "completed" for cells never run
    times = [cell.metadata.get("papermill", {}).get("start_time") for cell in written]
    begun = [number for number, at in enumerate(times, 1) if at]
    if not begun:
        return None
    line = written[begun[-1] - 1].source.strip().split("\n")[0]
    return f"in cell {begun[-1]} ({line})"


def failure(error: Exception, timeout: int) -> str:
    """One line that says what went wrong, in words a reader of the notebook can use."""
    if isinstance(error, PapermillExecutionError):
        return f"{error.ename}: {error.evalue}"
    if isinstance(error, CellTimeoutError):
        return f"The cell took longer than {timeout} s (lnlab run --timeout allows more)."
    if isinstance(error, DeadKernelError):
        return "The kernel died: killed, out of memory, or a crash in compiled code."
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Ear:
    """A file that papermill writes a notebook's standard output to; it passes lines on."""

    name: str
    hear: Hear

    def write(self, text: str) -> None:
        lines = [line.strip() for line in re.split(r"[\r\n]", text)]
        for line in filter(None, lines):
            self.hear(self.name, line)

    def flush(self) -> None: ...


def silence(name: str, line: str) -> None:
    """Hear what a notebook prints, and say nothing."""


def run_one(
    path: Path, out: Path, wanted: dict[str, Any], timeout: int, hear: Hear = silence
) -> Outcome:
    """Execute one notebook into ``out/NAME.ipynb``, or ``NAME.failed.ipynb``.

    Whatever happens, nothing half-written carries either name.

    Args:
        path: The notebook; it is run in its own folder and stays as it is.
        out: An existing folder.
        wanted: Values for its parameters.
        timeout: Seconds that one cell may take.
        hear: Told the name and each line that the notebook prints, as it is printed.
    """
    draft = out / f".{path.stem}.{os.getpid()}.ipynb"
    start, error = time.monotonic(), None
    try:
        # nbclient makes an event loop in each thread, and leaves it open
        with asyncio.Runner(loop_factory=ensure_event_loop):
            papermill.execute_notebook(
                opened(path),
                str(draft),
                wanted,
                kernel_manager_class=OwnKernel,
                # what it would log (a reply cut off by the timeout) the outcome says in words
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
                progress_bar=False,
                execution_timeout=timeout,
                stdout_file=Ear(path.stem, hear),
                # widget states make a notebook of 50 kB one of 5 MB, and no page needs them
                store_widget_state=False,
                # the working directory: papermill's own `cwd` moves the whole process
                resources={"metadata": {"path": str(path.parent)}},
            )
    except Exception as problem:
        error = problem
    notebook = remove_error_markers(executed(draft, path))
    outcome = Outcome(
        name=path.stem,
        seconds=round(time.monotonic() - start, 1),
        parameters=wanted,
        at=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        error=error and failure(error, timeout),
        place=last_place(notebook) if error else None,
    )
    settle(draft, notebook, outcome, out)
    return outcome


def executed(draft: Path, path: Path) -> nbformat.NotebookNode:
    """What there is of a run: the draft, or the notebook itself if it was never written."""
    try:
        return nbformat.read(draft, as_version=4)
    except (OSError, ValueError):
        return opened(path)


def settle(draft: Path, notebook: nbformat.NotebookNode, outcome: Outcome, out: Path) -> None:
    """Give the executed notebook its final name in one step."""
    good, bad = out / f"{outcome.name}.ipynb", out / f"{outcome.name}.failed.ipynb"
    notebook.metadata["lnlab"] = asdict(outcome)
    nbformat.write(notebook, draft)
    os.replace(draft, bad if outcome.error else good)
    if not outcome.error:
        bad.unlink(missing_ok=True)


def sweep_drafts(out: Path) -> None:
    """Remove what runs that were killed have left half-written."""
    for draft in out.glob(".*.*.*"):
        number = draft.name.split(".")[-2]
        if number.isdecimal() and not psutil.pid_exists(int(number)):
            draft.unlink(missing_ok=True)


def run(
    wanted: dict[Path, dict[str, Any]],
    out: Path,
    *,
    jobs: int,
    timeout: int,
    hear: Hear = silence,
) -> Iterator[Outcome]:
    """Execute notebooks, ``jobs`` at a time, and yield each outcome as it comes."""
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    sweep_drafts(out)
    pool = ThreadPoolExecutor(jobs)
    try:
        runs = [
            pool.submit(run_one, path, out, own, timeout, hear) for path, own in wanted.items()
        ]
        for finished in as_completed(runs):
            yield finished.result()
    finally:
        # whoever gives up (Ctrl-C) does not wait for the cell that is running
        pool.shutdown(wait=False, cancel_futures=True)
