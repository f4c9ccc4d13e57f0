"""Runs that were never trained: what they would have measured is written down."""

from dataclasses import replace

import pytest

from lnlab.papers.mnist import Experiment
from lnlab.training.runs import Run

UPDATES = 10
"""In an epoch."""


@pytest.fixture
def ran(tmp_path):
    """Makes the finished run of a task, each of its seeds with one value a measurement.

    A value that is a number stays so through the whole run; a list holds one an epoch,
    from before the first to after the last.
    """

    def run_of(
        task,
        values,
        *,
        metric="train_nll",
        kind="official",
        checksum="c" * 64,
        device="cpu",
        precision="float32",
        done=True,
    ):
        config = {**task.config(), "device": device, "precision": precision}
        data = {"name": task.data, "kind": kind, "checksum": checksum, "licence": ""}
        with Run.open(task.name, config, data, tmp_path) as run:
            for epoch in range(task.epochs + 1):
                for seed, value in values.items():
                    value = value[epoch] if isinstance(value, list) else value
                    row = {"update": UPDATES * epoch, "epoch": epoch, "seed": seed}
                    run.log(row | {"cpu_seconds": 2.0 * epoch, metric: value})
            if done:
                run.finish({}, {})
        return run

    return run_of


@pytest.fixture
def made(ran):
    """Makes the finished run of an arm of permutation-invariant MNIST, of some seeds."""

    def make(arm, values, *, batch_size=128, kind="official", **settings):
        changes = {k: v for k, v in settings.items() if k in Experiment.__dataclass_fields__}
        others = {k: v for k, v in settings.items() if k not in changes}
        task = replace(
            Experiment.budget("paper", batch_size=batch_size), norm=arm, seeds=(*values,)
        )
        name = {"official": "mnist", "embedded": "digits"}.get(kind, kind)
        return ran(replace(task, **{"data": name, **changes}), values, kind=kind, **others)

    return make
