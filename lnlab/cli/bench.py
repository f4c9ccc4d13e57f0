"""``lnlab bench``: the benchmarks of the checkout."""

import sys
from importlib import import_module
from inspect import signature

import click

from lnlab import paths


@click.command("bench")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not a table.")
@click.option("--device", help="Where, for the benchmarks that can be elsewhere: cuda.")
def run_benchmark(name: str, as_json: bool, device: str | None) -> None:
    """Measure speed beside a named peer, on this machine.

    A wrong name lists what there is.
    """
    folder = paths.checkout_folder() / "benchmarks"
    names = sorted(path.stem for path in folder.glob("[!_]*.py"))
    if name not in names:
        raise ValueError(f"There is no benchmark {name!r}. There are: {', '.join(names)}")
    sys.path.insert(0, str(folder.parent))
    main = import_module(f"benchmarks.{name}").main
    options = {"json": as_json, **({"device": device} if device else {})}
    if unknown := sorted(options.keys() - signature(main).parameters.keys()):
        raise ValueError(
            f"{name} takes no --{' --'.join(unknown)}: leave it out, or run "
            f"`python -m benchmarks.{name}`."
        )
    main(**options)
