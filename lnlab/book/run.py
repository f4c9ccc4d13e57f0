"""Notebooks run headless, side by side; what is good of them is kept."""

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import papermill
import psutil
import torch
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_event_loop
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers

import lnlab
from lnlab.book.notebooks import parameters, value
from lnlab.training.random_state import read_device
from lnlab.training.runs import device_name

Hear = Callable[[str, str], None]


KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def opened(path: Path) -> nbformat.NotebookNode:
    """A notebook as papermill takes it: with a kernel, whether it names one or not."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["kernelspec"] = KERNEL
    return notebook


def settled(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """The values of all parameters of a notebook that is told ``wanted``; of the device that
    is chosen by itself, the one that is."""
    found: dict[str, Any] = {}
    for name, text in parameters(path).items():
        asked = re.fullmatch(r"""os\.environ\.get\(["'](\w+)["'], ["'](\w*)["']\)""", text)
        found[name] = os.environ.get(*asked.groups()) if asked else value(text)
    found |= wanted
    if found.get("device") == "auto":
        found["device"] = str(read_device("auto"))
    return found


def with_gpu(device: str, hardware: str) -> str:
    """Return the hardware of a notebook in words, first the GPU that it computed on."""
    where = torch.device(device)
    return f"{device_name(where)}; {hardware}" if where.type == "cuda" else hardware


def seconds_before(path: Path, out: Path) -> float:
    """The seconds of a notebook's last run into ``out``, else those its first cell says."""
    try:
        return nbformat.read(out / path.name, as_version=4).metadata["lnlab"]["seconds"]
    except (OSError, ValueError, KeyError):
        first = nbformat.read(path, as_version=4).cells[0].source
        said = re.search(r"(\d+)\s+(second|minute)", first)
        return float(said[1]) * (60 if said[2] == "minute" else 1) if said else 60.0


def turns(seconds: dict[Path, float], jobs: int) -> list[Path]:
    """The order in which notebooks of so many seconds begin: quick ones first.

    With several at a time one begins with the longest, which would end alone.
    """
    order = sorted(seconds, key=lambda path: seconds[path])
    if 1 < jobs < len(order):
        order.insert(jobs - 1, order.pop())
    return order


@dataclass(frozen=True)
class Executed:
    """The end of the run of one notebook.

    Attributes:
        name: the notebook's.
        seconds: that it took.
        parameters: all of them, with the values that they had.
        at: date and time of its end.
        error: what went wrong, if anything did.
        place: where.
        hardware: what it ran on.
        version: of lnlab.
        cpu_seconds: of its kernel, and of the processes that it waited for; None where it died.
    """

    name: str
    seconds: float
    parameters: dict[str, Any]
    at: str
    error: str | None
    place: str | None
    hardware: str = ""
    version: str = lnlab.__version__
    cpu_seconds: float | None = None

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


def clocked(spent: list[float]) -> type[OwnKernel]:
    """The kernel manager that leaves in ``spent`` the CPU-seconds of its kernel."""

    class Clocked(OwnKernel):
        async def shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
            with suppress(psutil.Error, AttributeError):  # it is gone already
                process = psutil.Process(self.provisioner.pid)  # pyright: ignore
                spent.append(sum(process.cpu_times()[:4]))  # and of those that it waited for
            await self._async_shutdown_kernel(now=now, restart=restart)

    return Clocked


class WrittenOnce(NBClientEngine):
    """Papermill's engine, which writes a notebook before its first cell and after its last.

    Its own writes it twice a cell, too: with what the figures of a notebook weigh, half of what
    a run takes beside the kernel.
    """

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> None:
        path, nb_man.output_path = nb_man.output_path, None
        try:
            super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            nb_man.output_path = path  # where what is there of a notebook that failed goes


ENGINE = "written once"
papermill_engines.register(ENGINE, WrittenOnce)


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
    path: Path,
    out: Path,
    wanted: dict[str, Any],
    timeout: int,
    hear: Hear = silence,
    hardware: str = "",
) -> Executed:
    """Execute one notebook into ``out/NAME.ipynb``, or ``NAME.failed.ipynb``.

    Whatever happens, nothing half-written carries either name.

    Args:
        path: The notebook; it is run in its own folder and stays as it is.
        out: An existing folder.
        wanted: Values for its parameters.
        timeout: Seconds that one cell may take.
        hear: Told the name and each line that the notebook prints, as it is printed.
        hardware: What it runs on, in words; a GPU is added to it.
    """
    draft = out / f".{path.stem}.{os.getpid()}.ipynb"
    start, error = time.monotonic(), None
    spent: list[float] = []
    try:
        # nbclient makes an event loop in each thread, and leaves it open
        with asyncio.Runner(loop_factory=ensure_event_loop):
            papermill.execute_notebook(
                opened(path),
                str(draft),
                wanted,
                engine_name=ENGINE,
                kernel_manager_class=clocked(spent),
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
    settings = settled(path, wanted)
    outcome = Executed(
        name=path.stem,
        seconds=round(time.monotonic() - start, 1),
        parameters=settings,
        at=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        error=error and failure(error, timeout),
        place=last_place(notebook) if error else None,
        hardware=with_gpu(settings.get("device", "cpu"), hardware),
        cpu_seconds=round(spent[-1], 1) if spent else None,
    )
    settle(draft, notebook, outcome, out)
    return outcome


def executed(draft: Path, path: Path) -> nbformat.NotebookNode:
    """The output of a run so far: the draft, or the notebook itself if there is none."""
    try:
        return nbformat.read(draft, as_version=4)
    except (OSError, ValueError):
        return opened(path)


def settle(draft: Path, notebook: nbformat.NotebookNode, outcome: Executed, out: Path) -> None:
    """Give the executed notebook its final name in one step."""
    good, bad = out / f"{outcome.name}.ipynb", out / f"{outcome.name}.failed.ipynb"
    notebook.metadata["lnlab"] = asdict(outcome)
    nbformat.write(notebook, draft)
    os.replace(draft, bad if outcome.error else good)
    if not outcome.error:
        bad.unlink(missing_ok=True)


def sweep_drafts(out: Path) -> None:
    """Remove what runs that were killed have left half-written."""
    for draft, process in drafts(out):
        if not psutil.pid_exists(process):
            draft.unlink(missing_ok=True)


def drafts(out: Path) -> Iterator[tuple[Path, int]]:
    """The half-written notebooks and pages in a folder, and the process that writes each."""
    for folder in (out, out / "handout"):
        for draft in folder.glob(".*.*.*"):
            number = draft.name.split(".")[-2]
            if number.isdecimal():
                yield draft, int(number)


PULSE = 1.0
"""Seconds after which a run looks whether it was told to stop."""


def run(
    wanted: dict[Path, dict[str, Any]],
    out: Path,
    *,
    jobs: int,
    timeout: int,
    hear: Hear = silence,
    hardware: str = "",
) -> Iterator[Executed]:
    """Execute notebooks by :func:`turns`, ``jobs`` at a time; yield outcomes as they come."""
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    sweep_drafts(out)
    pool = ThreadPoolExecutor(jobs)
    try:
        runs = [
            pool.submit(run_one, path, out, wanted[path], timeout, hear, hardware)
            for path in turns({path: seconds_before(path, out) for path in wanted}, jobs)
        ]
        pending = set(runs)
        while pending:
            # in pulses: a signal that another thread caught is heard when this one moves
            done, pending = wait(pending, PULSE, FIRST_COMPLETED)
            for finished in done:
                yield finished.result()
    finally:
        # whoever gives up (Ctrl-C) does not wait for the cell that is running
        pool.shutdown(wait=False, cancel_futures=True)
