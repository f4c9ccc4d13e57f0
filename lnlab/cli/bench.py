"""``lnlab bench``: the benchmarks of the checkout."""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import click


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not a table.")
def bench(name: str, as_json: bool) -> None:
    """Measure speed beside a named peer, on this machine; a wrong name lists what there is."""
    from lnlab import checkout

    folder = checkout.root() / "benchmarks"
    existing = {path.stem: path for path in sorted(folder.glob("[!_]*.py"))}
    if name not in existing:
        raise ValueError(f"There is no benchmark {name!r}. There are: {', '.join(existing)}")
    program(existing[name]).main(json=as_json)


def program(path: Path) -> ModuleType:
    """The module that a file holds, wherever it lies."""
    loader = SourceFileLoader(path.stem, str(path))
    module = ModuleType(path.stem)
    loader.exec_module(module)
    return module
