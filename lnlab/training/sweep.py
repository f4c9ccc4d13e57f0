"""A grid of runs, worked off by the cores of this machine or by a cluster."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

from joblib import Parallel, delayed, parallel_config

from lnlab.extras import explain_missing_extra
from lnlab.training import Experiment, train_steps
from lnlab.training.runs import RunLockedError

WAIT = 0.5
"""Seconds from one look at a run that another process is writing to the next."""

DEATHS = 3
"""Deaths of processes after which each run has one of its own: one of them may be the cause."""


@dataclass(frozen=True)
class SweepRunOutcome:
    """The end of one run of a sweep."""

    experiment: Experiment  # its configuration
    error: str | None = None  # what went wrong, if anything did
    new_updates: int = 0  # made here; 0 of a run that was there before, and is read back

    @property
    def was_read_back(self) -> bool:
        """True if nothing of it was left to do."""
        return not (self.error or self.new_updates)


def grid(kind: Any, budget: str, axes: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return an experiment for every combination of the axes' values, at one budget.

    The last field of ``axes`` changes fastest.
    """
    every = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [*kind.arms(budget, values={str(changes): changes for changes in every}).values()]


def sweep(
    experiments: Iterable[Experiment],
    *,
    root: Path,
    jobs: int | None = None,
    cluster: str | None = None,
    **settings: Any,
) -> Iterator[SweepRunOutcome]:
    """Train all experiments to their ends, and yield the outcome of each as it comes.

    Finished runs are not trained again, others continue from their checkpoints, and runs that
    another process is writing are waited for: several sweeps over one root share the work.
    The bytes of a run do not depend on where it runs, how many run at once, or how often
    they were killed. With one job all runs are trained in this process. If a process dies,
    its run continues in another; a run whose own process dies is given up.

    Args:
        experiments: the configurations.
        root: where runs are kept.
        jobs: how many run at once on this machine; one on each core if not given.
        cluster: the address of a Dask scheduler, ``tls://host:8786``, whose workers run them
            instead; they need this lnlab and the same ``root``.
        settings: other arguments of :func:`lnlab.training.train_steps`.
    """
    pending = dict(enumerate(experiments))
    jobs = min(jobs or os.cpu_count() or 1, max(len(pending), 1))
    settings["root"] = Path(root).resolve()
    deaths = 0
    with _joblib_backend(cluster):
        while pending:
            alone = deaths >= DEATHS
            chosen = list(pending)[:1] if alone else list(pending)
            # with one job joblib would train in this process
            count = 2 if alone else jobs if cluster is None else -1
            options: dict[str, Any] = {"batch_size": 1, "return_as": "generator_unordered"}
            if cluster is None:
                options |= {"backend": "loky", "initializer": _exit_with_parent}
                options["initargs"] = (os.getpid(),)
            calls = [delayed(_train_unless_locked)(n, pending[n], settings) for n in chosen]
            try:
                running: Any = Parallel(count, **options)(calls)
                with closing(running) as outcomes:
                    for number, outcome in outcomes:
                        if outcome is not None:
                            del pending[number]
                            yield outcome
                        elif alone:  # another process is writing it: the next one first
                            pending[number] = pending.pop(number)
            except Exception as error:  # of a process: those of runs are outcomes
                deaths += 1
                if alone:
                    reason = f"{type(error).__name__}: its process died"
                    yield SweepRunOutcome(pending.pop(chosen[0]), error=reason)


def _train_unless_locked(
    number: int, experiment: Experiment, settings: Mapping[str, Any]
) -> tuple[int, SweepRunOutcome | None]:
    """Train one experiment to its end; None if another process is at it."""
    try:
        updates = sum(1 for _ in train_steps(experiment, **settings))
    except RunLockedError:
        time.sleep(WAIT)
        return number, None
    except Exception as error:
        return number, SweepRunOutcome(experiment, f"{type(error).__name__}: {error}")
    return number, SweepRunOutcome(experiment, new_updates=updates)


def _exit_with_parent(parent: int) -> None:
    """End this process when its parent has ended: joblib's would wait for work for minutes."""

    def poll_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=poll_parent, daemon=True).start()


@contextmanager
def _joblib_backend(cluster: str | None) -> Iterator[None]:
    """Let joblib send work to the workers of a Dask scheduler; without one, to processes."""
    if cluster is None:
        yield
        return
    with explain_missing_extra():
        from distributed import Client
    with Client(cluster, set_as_default=False) as client:
        client.get_versions(check=True)
        with parallel_config(backend="dask", client=client, n_jobs=-1):
            yield
