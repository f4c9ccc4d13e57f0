"""A grid of runs, worked off by this process, by the cores of this machine, or by a cluster."""

import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lnlab.training import Experiment, train_steps
from lnlab.training.runs import Busy

if TYPE_CHECKING:
    from distributed import Client, Future


PATIENCE = 0.5
"""Seconds from one look at a run that another process is writing to the next."""


@dataclass(frozen=True)
class Ended:
    """The end of one run of a sweep.

    Attributes:
        task: its configuration.
        seconds: that it took here.
        error: what went wrong, if anything did.
        updates: made here; 0 of a run that was there before, and is read back.
    """

    task: Experiment
    seconds: float = 0.0
    error: str | None = None
    updates: int = 0

    @property
    def read_back(self) -> bool:
        """True if nothing of it was left to do."""
        return not (self.error or self.updates)


def grid(task: Any, budget: str, axes: Mapping[str, Sequence[Any]]) -> list[Any]:
    """One task for every combination of the axes' values, at one budget.

    Args:
        task: a class of tasks.
        budget: smoke, notebook or paper.
        axes: values by field; the last field changes fastest.
    """
    every = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [*task.arms(budget, values={str(changes): changes for changes in every}).values()]


def apart(tasks: Iterable[Any]) -> list[Any]:
    """The tasks with one run for each seed: more runs to spread, each with less to do."""
    return [replace(task, seeds=(seed,)) for task in tasks for seed in task.seeds]


def sweep(
    tasks: Iterable[Experiment],
    *,
    root: Path,
    jobs: int | None = None,
    device: str = "auto",
    precision: str = "float32",
    save_every: float = 30.0,
) -> Iterator[Ended]:
    """Have all tasks run to their ends, and say of each what became of it, as it comes.

    From a notebook: ``for outcome in progress(sweep(tasks, root=runs), len(tasks), "sweep")``.
    What is done is not done again, what was begun goes on from its checkpoint, and what
    another process is writing is waited for: several sweeps over one root share the work.
    The bytes of a run do not depend on where it runs, how many run at once, or how often
    they were killed.

    With one job the runs come in turn, in this process. With several, each has a process of
    :class:`distributed.LocalCluster`, which others than its user cannot reach. Where Dask's
    own configuration names a scheduler (``DASK_SCHEDULER_ADDRESS=tls://host:8786``), its
    workers run them; they need this lnlab and the same ``root``. A run whose worker dies
    goes on elsewhere; one that takes four workers with it is given up.

    Args:
        tasks: the configurations.
        root: where runs are kept.
        jobs: how many run at once on this machine; one on each core if not given.
        device: where each computes.
        precision: float32, float64 or mixed.
        save_every: seconds between checkpoints: what a kill costs at most.
    """
    tasks, root = list(tasks), Path(root).resolve()
    work = partial(
        complete, root=root, device=device, precision=precision, save_every=save_every
    )
    jobs = min(jobs or os.cpu_count() or 1, max(len(tasks), 1))
    if jobs == 1 and not scheduler():
        yield from _in_turn(work, tasks)
        return
    with client(jobs) as workers:
        yield from _spread(workers, work, tasks)


def complete(task: Experiment, **where: Any) -> Ended | None:
    """Train one task to its end; None if another process is at it.

    An error of the run is its outcome: it does not stop the others.

    Args:
        where: root, device, precision and save_every, as of :func:`lnlab.training.train`.
    """
    began = time.monotonic()
    try:
        updates = sum(1 for _ in train_steps(task, **where))
    except Busy:
        time.sleep(PATIENCE)
        return None
    except Exception as error:
        return Ended(task, time.monotonic() - began, f"{type(error).__name__}: {error}")
    return Ended(task, time.monotonic() - began, updates=updates)


def _in_turn(work: "partial[Ended | None]", tasks: Sequence[Experiment]) -> Iterator[Ended]:
    waiting = deque(tasks)
    while waiting:
        task = waiting.popleft()
        outcome = work(task)
        if outcome is None:
            waiting.append(task)
        else:
            yield outcome


def _spread(
    workers: "Client", work: "partial[Ended | None]", tasks: Sequence[Experiment]
) -> Iterator[Ended]:
    from distributed import as_completed

    def submit(task: Experiment) -> "Future":
        future = workers.submit(work, task, pure=False)
        running[future] = task
        return future

    # all at once: of runs that come one by one the scheduler gives workers some in reserve
    running: dict[Future, Experiment] = dict(
        zip(workers.map(work, tasks, pure=False), tasks, strict=True)
    )
    futures = as_completed(list(running), loop=workers.loop)
    try:
        for future in futures:
            task, error = running.pop(future), future.exception()
            outcome = None if error else future.result()
            if error:
                yield Ended(task, error=f"{type(error).__name__}: {error}")
            elif outcome is None:
                futures.add(submit(task))
            else:
                yield outcome
    finally:
        workers.cancel(list(running))


def scheduler() -> str | None:
    """The address of the scheduler that Dask's configuration names, if it names one."""
    from dask import config

    return config.get("scheduler-address", None)


@contextmanager
def client(jobs: int) -> "Iterator[Client]":
    """A client of the scheduler that Dask's configuration names, or of our own cluster.

    Our own listens on the loopback only, has no dashboard, and admits nobody without the
    certificate that it makes for itself: who may submit to a worker may do what its user may.
    """
    from dask import config
    from distributed import Client, LocalCluster

    settings = {
        # a worker holds no run in reserve, which would be blamed for the death of another
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.scheduler.http.routes": [],
    }
    with ExitStack() as closing:
        if scheduler():
            cluster = None
        else:
            closing.enter_context(config.set(settings))
            cluster = closing.enter_context(
                LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    memory_limit=0,
                    host="127.0.0.1",
                    security=True,
                    dashboard_address=None,  # pyright: ignore[reportArgumentType]
                    # any free port, as several sweeps may run at once; nothing answers there
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    silence_logs=logging.CRITICAL,
                )
            )
        workers = closing.enter_context(Client(cluster, set_as_default=False))
        workers.get_versions(check=True)
        yield workers
