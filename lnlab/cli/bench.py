"""``lnlab bench``: the benchmarks of the checkout."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from types import ModuleType

import click

from lnlab import paths


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not a table.")
@click.option("--device", help="Where, for the benchmarks that can be elsewhere: cuda.")
def bench(name: str, as_json: bool, device: str | None) -> None:
    """Measure speed beside a named peer, on this machine; a wrong name lists what there is."""
    main = load_benchmark(name).main
    options = signature(main).parameters
    if "json" not in options:
        raise ValueError(f"{name} is a program of its own: python -m benchmarks.{name} --help")
    if device is not None and "device" not in options:
        raise ValueError(f"benchmark {name} is of the CPU: leave --device out.")
    main(json=as_json, **({} if device is None else {"device": device}))


def load_benchmark(name: str) -> ModuleType:
    """Return the module of a benchmark of the checkout.

    Raises:
        ValueError: There is none of that name; lists what there is.
    """
    folder = paths.root() / "benchmarks"
    files = {path.stem: path for path in sorted(folder.glob("[!_]*.py"))}
    if name not in files:
        raise ValueError(f"There is no benchmark {name!r}. There are: {', '.join(files)}")
    if str(folder.parent) not in sys.path:
        sys.path.insert(0, str(folder.parent))  # for `from benchmarks import ...`
    return load_file(files[name])


def load_file(path: Path) -> ModuleType:
    """Return the module in a file, under a name that hides no other module."""
    name = f"lnlab_file_{path.stem}"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their module there
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
