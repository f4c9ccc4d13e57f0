"""``lnlab train``: one experiment, from where it was left to its end."""

from pathlib import Path

import click

from lnlab.cli.settings import Fields, changed, task_named
from lnlab.cli.shown import show_run
from lnlab.cli.sources import defaults


@click.command(cls=Fields)
@click.argument("name", metavar="TASK")
@click.option("--budget", default="notebook", show_default=True, help="smoke, notebook, paper.")
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="May be repeated."
)
@click.option("--data", help="embedded, NAME or NAME=PATH.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps.")
@click.option(
    "--precision", default="float32", show_default=True, help="float32, float64, mixed."
)
@click.option(
    "--save-every", default=30.0, show_default=True, help="Seconds; what a kill costs."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where runs are kept [runs].")
def train(
    name: str,
    budget: str,
    settings: tuple[str, ...],
    data: str | None,
    device: str,
    precision: str,
    save_every: float,
    out: Path | None,
) -> None:
    """Train one experiment; a run that was stopped goes on, one that is done is shown.

    `lnlab train TASK --help` lists the fields of a task.
    """
    from lnlab import checkout

    changes = changed(defaults(name), settings, data)  # before what takes seconds to import
    task = task_named(name).budget(budget, **changes)
    from lnlab import training  # what was asked is right: now what takes time

    place = {"root": out or checkout.place("runs"), "device": device, "precision": precision}
    show_run(training.finish(task, save_every=save_every, **place))
