"""Run notebooks headless, several at a time; of one that fails the last good run stays."""

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import papermill
import torch
from joblib import cpu_count
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_event_loop
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers

import lnlab
from lnlab.book.notebooks import read_notebook, read_parameter_defaults
from lnlab.data import load
from lnlab.training.random_state import read_device
from lnlab.training.runs import device_name, write_file

if TYPE_CHECKING:
    from lnlab.training import Experiment

Listener = Callable[[str, str], None]
"""Called with the name of a notebook and each line that it prints."""
ResolvedParameters = dict[str, Any]
"""All parameters of a notebook: values that were wanted, and its own of the others."""


def fill_missing_parameters(path: Path, wanted: dict[str, Any]) -> ResolvedParameters:
    """Return all parameters of a notebook that is run with ``wanted``, its own of the others;
    the device "auto" is the one that is chosen."""
    values = read_parameter_defaults(path, os.environ) | wanted
    if values.get("device") == "auto":
        values["device"] = str(read_device("auto"))
    return values


def describe_hardware(device: str) -> str:
    """Return what a notebook is computed on, in words: a GPU, processor and cores."""
    plural = "core" if cpu_count() == 1 else "cores"
    names = [f"{device_name(torch.device('cpu'))}, {cpu_count()} {plural}"]
    if torch.device(device).type == "cuda":
        names.insert(0, device_name(torch.device(device)))
    return "; ".join(names)


def find_experiment(path: Path) -> "type[Experiment] | None":
    """Return the class of the experiment that a notebook imports; None if it imports none."""
    cells = (cell for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code")
    code = "\n".join("".join(cell["source"]) for cell in cells)
    found = re.search(r"(?m)^from (lnlab\.papers\.\w+) import (\w*Experiment)$", code)
    return getattr(import_module(found[1]), found[2]) if found else None


def check_data(path: Path, spec: str, budget: str = "") -> None:
    """Raise a ValueError if a notebook cannot have these data, or if their files are missing.

    Args:
        path: of the notebook.
        spec: its parameter ``data``, as :func:`lnlab.data.load` takes it.
        budget: its parameter ``budget``; empty: the notebook's own.
    """
    experiment = find_experiment(path)
    try:
        load(spec, experiment and experiment.required_data_kind)
        if experiment:
            budget = budget or read_parameter_defaults(path, os.environ)["budget"]
            experiment.budget(budget, data=spec).dataset()
    except (ValueError, OSError) as error:
        raise ValueError(f"-p data {spec!r} for notebook {path.stem}: {error}") from None


def describe_data(path: Path, settings: ResolvedParameters) -> str:
    """Return name and kind of the data of a run; empty if the notebook takes none.

    Args:
        path: of the notebook.
        settings: its parameters; if ``data`` is empty, the budget says which.
    """
    experiment = find_experiment(path)
    if experiment is None or "data" not in settings:
        return ""
    try:
        spec = settings["data"] or experiment.budget(settings.get("budget", "")).data
        source = load(spec, experiment.required_data_kind).source
    except (ValueError, OSError):
        return ""  # the run fails, and says why
    return f"{source.name} ({source.kind})"


@dataclass(frozen=True)
class NotebookRun:
    """The end of the run of one notebook: what its page says of it.

    Attributes:
        parameters: all of them, with the values that they had.
        at: date and time of its end.
        place: where it went wrong, if it did.
        data: name and kind of the data, also where the parameter is empty.
    """

    name: str
    seconds: float
    parameters: ResolvedParameters
    at: str
    error: str | None
    place: str | None
    hardware: str = ""
    data: str = ""
    version: str = lnlab.__version__

    def __str__(self) -> str:
        if self.error is None:
            return f"ran     {self.name} in {self.seconds} s"
        where = self.place or "before its first cell"
        return f"FAILED  {self.name} {where} after {self.seconds} s: {self.error}"


class SameInterpreterKernelManager(AsyncKernelManager):
    """A manager of kernels whose kernel is the interpreter that runs lnlab."""

    def _transport_encryption_default(self) -> str:
        # code and outputs pass through TCP, where other users of the machine could read
        return "auto"

    def _kernel_spec_manager_default(self) -> KernelSpecManager:
        # no folders of installed kernels: what is left is the kernel of sys.executable
        return KernelSpecManager(kernel_dirs=[])


class NotebookKeepingEngine(NBClientEngine):
    """Papermill's engine; ``executed`` gets the notebook, however its run ends."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, executed: list[Any], **options: Any
    ) -> None:
        executed.append(nb_man.nb)
        super().execute_managed_notebook(nb_man, kernel_name, **options)


papermill_engines.register("lnlab", NotebookKeepingEngine)


@dataclass(frozen=True)
class StdoutLinesToListener:
    """A file that papermill writes a notebook's standard output to: it passes lines on."""

    notebook_name: str
    listener: Listener

    def write(self, text: str) -> None:
        for line in filter(None, map(str.strip, re.split(r"[\r\n]", text))):
            self.listener(self.notebook_name, line)

    def flush(self) -> None:
        pass  # papermill calls it; every line has been passed on


def describe_last_begun_cell(notebook: nbformat.NotebookNode) -> str | None:
    """Return number and first line of the cell that was begun last, of those in the source."""
    injected = "injected-parameters"
    own = [cell for cell in notebook.cells if injected not in cell.metadata.get("tags", [])]
    # papermill's times can be trusted, its status not: it is "completed" for cells never run
    begun = [
        f"in cell {number} ({cell.source.strip().partition(chr(10))[0]})"
        for number, cell in enumerate(own, 1)
        if cell.metadata.get("papermill", {}).get("start_time")
    ]
    return begun[-1] if begun else None


def describe_failure(error: Exception, cell_timeout: int | None) -> str:
    """Return one line that says what went wrong, for a reader of the notebook."""
    if isinstance(error, PapermillExecutionError):
        return f"{error.ename}: {error.evalue}"
    if isinstance(error, CellTimeoutError):
        return f"The cell took longer than {cell_timeout} s (lnlab run --timeout allows more)."
    if isinstance(error, DeadKernelError):
        return "The kernel died: killed, out of memory, or a crash in compiled code."
    return f"{type(error).__name__}: {error}"


def run_notebook(
    path: Path,
    out: Path,
    wanted: dict[str, Any],
    cell_timeout: int | None,
    listener: Listener,
) -> NotebookRun:
    """Execute one notebook into ``out/NAME.ipynb``, or ``NAME.failed.ipynb``.

    Whatever happens, nothing half-written carries either name. The notebook is run in its own
    folder and stays as it is.

    Args:
        path: of the notebook.
        out: an existing folder.
        wanted: values for its parameters.
        cell_timeout: seconds that one cell may take; None: any.
        listener: called with the name and each line that the notebook prints.
    """
    start, error = time.monotonic(), None
    executed: list[nbformat.NotebookNode] = []
    try:
        # nbclient makes an event loop in each thread, and leaves it open
        with asyncio.Runner(loop_factory=ensure_event_loop):
            papermill.execute_notebook(
                path,
                None,  # papermill would write the notebook twice a cell, with all its figures
                wanted,
                engine_name="lnlab",
                executed=executed,
                kernel_name="python3",
                language="python",
                kernel_manager_class=SameInterpreterKernelManager,
                # what it would log (a reply cut off by the timeout) the outcome says in words
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
                progress_bar=False,
                execution_timeout=cell_timeout,
                stdout_file=StdoutLinesToListener(path.stem, listener),
                # widget states make a notebook of 50 kB one of 5 MB, and no page needs them
                store_widget_state=False,
                # the working directory: papermill's own `cwd` moves the whole process
                resources={"metadata": {"path": str(path.parent)}},
            )
    except Exception as problem:
        error = problem
    notebook = executed[0] if executed else nbformat.read(path, as_version=4)
    notebook = remove_error_markers(notebook)
    settings = fill_missing_parameters(path, wanted)
    outcome = NotebookRun(
        name=path.stem,
        seconds=round(time.monotonic() - start, 1),
        parameters=settings,
        at=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        error=error and describe_failure(error, cell_timeout),
        place=describe_last_begun_cell(notebook) if error else None,
        hardware=describe_hardware(settings.get("device", "cpu")),
        data=describe_data(path, settings),
    )
    notebook.metadata["lnlab"] = asdict(outcome)
    good, bad = out / path.name, out / f"{path.stem}.failed.ipynb"
    write_file(bad if error else good, nbformat.writes(notebook).encode())
    if not error:
        bad.unlink(missing_ok=True)
    return outcome


def run_notebooks(
    wanted: dict[Path, dict[str, Any]],
    out: Path,
    *,
    jobs: int,
    cell_timeout: int | None,
    listener: Listener = lambda name, line: None,
) -> Iterator[NotebookRun]:
    """Execute notebooks, ``jobs`` at a time, and yield their outcomes as they come."""
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    pool = ThreadPoolExecutor(jobs)
    pending = {
        pool.submit(run_notebook, path, out, values, cell_timeout, listener)
        for path, values in wanted.items()
    }
    while pending:
        # every second: a signal that another thread caught comes when this one moves
        done, pending = wait(pending, 1.0, FIRST_COMPLETED)
        for finished in done:
            yield finished.result()
    pool.shutdown()
