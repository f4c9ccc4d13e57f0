"""Run notebooks headless, several at a time; of one that fails the last good run stays."""

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

Listener = Callable[[str, str], None]
"""Called with the name of a notebook and each line that it prints."""

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def read_with_kernel(path: Path) -> nbformat.NotebookNode:
    """Return a notebook as papermill takes it: with a kernel, even if it names none."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["kernelspec"] = KERNEL
    return notebook


def parameter_values(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return all parameters of a notebook that is run with ``wanted``, its own of the others;
    the device "auto" is the one that is chosen."""
    values: dict[str, Any] = {}
    for name, text in parameters(path).items():
        variable = re.fullmatch(r"""os\.environ\.get\(["'](\w+)["'], ["'](\w*)["']\)""", text)
        values[name] = os.environ.get(*variable.groups()) if variable else value(text)
    values |= wanted
    if values.get("device") == "auto":
        values["device"] = str(read_device("auto"))
    return values


def with_gpu(device: str, hardware: str) -> str:
    """Return the hardware of a notebook in words, first the GPU that it computed on."""
    where = torch.device(device)
    return f"{device_name(where)}; {hardware}" if where.type == "cuda" else hardware


def seconds_before(path: Path, out: Path) -> float:
    """Return the seconds of the last run of a notebook, or those that its first cell says."""
    try:
        return nbformat.read(out / path.name, as_version=4).metadata["lnlab"]["seconds"]
    except (OSError, ValueError, KeyError):
        first = nbformat.read(path, as_version=4).cells[0].source
        stated = re.search(r"(\d+)\s+(second|minute)", first)
        return float(stated[1]) * (60 if stated[2] == "minute" else 1) if stated else 60.0


def order_quick_first(seconds: dict[Path, float], jobs: int) -> list[Path]:
    """Return the order in which notebooks of so many seconds begin: quick ones first.

    With several at a time one begins with the longest, which would end alone.
    """
    order = sorted(seconds, key=lambda path: seconds[path])
    if 1 < jobs < len(order):
        order.insert(jobs - 1, order.pop())
    return order


@dataclass(frozen=True)
class Executed:
    """The end of the run of one notebook: what its page says of it.

    Attributes:
        parameters: all of them, with the values that they had.
        at: date and time of its end.
        place: where it went wrong, if it did.
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


def kernel_manager(cpu_seconds: list[float]) -> type[AsyncKernelManager]:
    """Return a manager of kernels that appends the CPU-seconds of its kernel at the end.

    The kernel is the interpreter that runs lnlab, whatever kernels are installed elsewhere.
    """

    class Manager(AsyncKernelManager):
        def _transport_encryption_default(self) -> str:
            # code and outputs pass through TCP, where other users of the machine could read
            return "auto"

        def _kernel_spec_manager_default(self) -> KernelSpecManager:
            # no folders: what is left is the kernel of sys.executable
            return KernelSpecManager(kernel_dirs=[])

        async def shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
            with suppress(psutil.Error, AttributeError):  # it is gone already
                process = psutil.Process(self.provisioner.pid)  # pyright: ignore
                cpu_seconds.append(sum(process.cpu_times()[:4]))  # with those it waited for
            await self._async_shutdown_kernel(now=now, restart=restart)

    return Manager


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


def last_cell(notebook: nbformat.NotebookNode) -> str | None:
    """Return number and first line of the cell that was begun last, of those in the source."""
    injected = "injected-parameters"
    own = [c for c in notebook.cells if injected not in c.metadata.get("tags", [])]
    # papermill's times can be trusted, its status not: it is "completed" for cells never run
    begun = [
        f"in cell {number} ({cell.source.strip().partition(chr(10))[0]})"
        for number, cell in enumerate(own, 1)
        if cell.metadata.get("papermill", {}).get("start_time")
    ]
    return begun[-1] if begun else None


def failure(error: Exception, timeout: int) -> str:
    """Return one line that says what went wrong, for a reader of the notebook."""
    if isinstance(error, PapermillExecutionError):
        return f"{error.ename}: {error.evalue}"
    if isinstance(error, CellTimeoutError):
        return f"The cell took longer than {timeout} s (lnlab run --timeout allows more)."
    if isinstance(error, DeadKernelError):
        return "The kernel died: killed, out of memory, or a crash in compiled code."
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class ListenerStdout:
    """A file that papermill writes a notebook's standard output to; it passes lines on."""

    name: str
    listener: Listener

    def write(self, text: str) -> None:
        for line in filter(None, map(str.strip, re.split(r"[\r\n]", text))):
            self.listener(self.name, line)

    def flush(self) -> None:
        pass  # papermill calls it; every line has already been passed on


def run_one(
    path: Path,
    out: Path,
    wanted: dict[str, Any],
    timeout: int,
    listener: Listener,
    hardware: str,
) -> Executed:
    """Execute one notebook into ``out/NAME.ipynb``, or ``NAME.failed.ipynb``.

    Whatever happens, nothing half-written carries either name. The notebook is run in its own
    folder and stays as it is.

    Args:
        path: of the notebook.
        out: an existing folder.
        wanted: values for its parameters.
        timeout: seconds that one cell may take.
        listener: called with the name and each line that the notebook prints.
        hardware: what it runs on, in words; a GPU is added to it.
    """
    draft = out / f".{path.stem}.{os.getpid()}.ipynb"
    start, error = time.monotonic(), None
    cpu_seconds: list[float] = []
    try:
        # nbclient makes an event loop in each thread, and leaves it open
        with asyncio.Runner(loop_factory=ensure_event_loop):
            papermill.execute_notebook(
                read_with_kernel(path),
                str(draft),
                wanted,
                engine_name=ENGINE,
                kernel_manager_class=kernel_manager(cpu_seconds),
                # what it would log (a reply cut off by the timeout) the outcome says in words
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
                progress_bar=False,
                execution_timeout=timeout,
                stdout_file=ListenerStdout(path.stem, listener),
                # widget states make a notebook of 50 kB one of 5 MB, and no page needs them
                store_widget_state=False,
                # the working directory: papermill's own `cwd` moves the whole process
                resources={"metadata": {"path": str(path.parent)}},
            )
    except Exception as problem:
        error = problem
    try:
        notebook = nbformat.read(draft, as_version=4)
    except (OSError, ValueError):  # it failed before its first cell
        notebook = read_with_kernel(path)
    notebook = remove_error_markers(notebook)
    settings = parameter_values(path, wanted)
    outcome = Executed(
        name=path.stem,
        seconds=round(time.monotonic() - start, 1),
        parameters=settings,
        at=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        error=error and failure(error, timeout),
        place=last_cell(notebook) if error else None,
        hardware=with_gpu(settings.get("device", "cpu"), hardware),
        cpu_seconds=round(cpu_seconds[-1], 1) if cpu_seconds else None,
    )
    good, bad = out / path.name, out / f"{path.stem}.failed.ipynb"
    notebook.metadata["lnlab"] = asdict(outcome)
    nbformat.write(notebook, draft)
    os.replace(draft, bad if outcome.error else good)
    if not outcome.error:
        bad.unlink(missing_ok=True)
    return outcome


def find_drafts(out: Path) -> Iterator[tuple[Path, int]]:
    """Yield the half-written notebooks and pages in a folder, and who writes each."""
    for folder in (out, out / "handout"):
        for draft in folder.glob(".*.*.*"):
            number = draft.name.split(".")[-2]
            if number.isdecimal():
                yield draft, int(number)


def run(
    wanted: dict[Path, dict[str, Any]],
    out: Path,
    *,
    jobs: int,
    timeout: int,
    listener: Listener = lambda name, line: None,
    hardware: str = "",
) -> Iterator[Executed]:
    """Execute notebooks, ``jobs`` at a time, and yield their outcomes as they come."""
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    for draft, process in find_drafts(out):
        if not psutil.pid_exists(process):  # of a run that was killed
            draft.unlink(missing_ok=True)
    pool = ThreadPoolExecutor(jobs)
    try:
        runs = [
            pool.submit(run_one, path, out, wanted[path], timeout, listener, hardware)
            for path in order_quick_first(
                {path: seconds_before(path, out) for path in wanted}, jobs
            )
        ]
        pending = set(runs)
        while pending:
            # every second: a signal that another thread caught comes when this one moves
            done, pending = wait(pending, 1.0, FIRST_COMPLETED)
            for finished in done:
                yield finished.result()
    finally:
        # whoever gives up (Ctrl-C) does not wait for the cell that is running
        pool.shutdown(wait=False, cancel_futures=True)
