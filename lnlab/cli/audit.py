"""``lnlab audit``: a module of one's own, with every analysis that applies."""

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("where", metavar="FILE.py:FUNCTION")
@click.option("--data", help="Handed to the function: a path, say, to weights or cases.")
@click.option("--out", type=click.Path(path_type=Path), help="The page; none without it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def audit(where: str, data: str | None, out: Path | None, as_json: bool) -> None:
    """Audit a module: FUNCTION returns the module, its input and, if you like, a loss.

    The input is a tensor, a tuple of all inputs, a dictionary of all by name, or an
    lnlab.auditing.Call; the loss takes what the module returns. On one thread, unless
    OMP_NUM_THREADS says how many.
    """
    # before torch comes: the many small products are no faster on two threads, and where the
    # cores have other work to do ten times as slow, as the threads wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    function = load_function(where)
    from lnlab.auditing import audit

    model, x, loss_fn = call(function, where, data)
    try:
        report = audit(model, x, loss_fn=loss_fn, progress=sys.stderr.isatty())
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error
    click.echo(report.to_json() if as_json else str(report))
    if out is not None:
        page = report.save(out)
        click.echo(f"{page}: the page, with the numbers behind it", err=as_json)


def load_function(where: str) -> Callable:
    """Return the function that ``FILE.py:FUNCTION`` names; its folder can be imported from.

    Raises:
        ValueError: where there is none, or its file cannot be run.
    """
    from lnlab.cli.bench import program

    file, _, name = where.rpartition(":")
    path = Path(file)
    if not file or not name.isidentifier():
        raise ValueError(f"{where!r} is no FILE.py:FUNCTION, as in net.py:make.")
    if not path.is_file():
        raise ValueError(f"there is no file {file}.")
    sys.path.append(str(path.resolve().parent))  # last: its files must not hide packages
    try:
        module = program(path)
    except Exception as error:  # a user's file may raise anything
        raise ValueError(f"{file} raised {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        functions = {n: f for n, f in vars(module).items() if inspect.isfunction(f)}
        own = [n for n, f in functions.items() if f.__module__ == module.__name__]
        choice = ", ".join(own) or "none"
        raise ValueError(f"{file} has no function {name}; there are: {choice}.")
    return function


def call(function: Callable, where: str, data: str | None) -> tuple[Any, Any, Any]:
    """Return the module, the input and the loss (or None) that a function returns.

    Raises:
        ValueError: where it takes something else than ``--data``, raises, or returns
            something else.
    """
    arguments = [] if data is None else [data]
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        given = "--data" if arguments else "no --data"
        raise ValueError(
            f"{where} does not fit {given} ({error}): it takes one argument with --data, and "
            "none without."
        ) from error
    try:
        made = function(*arguments)
    except Exception as error:  # a user's function may raise anything
        raise ValueError(f"{where} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise ValueError(
            f"{where} returned {type(made).__name__}: let it return (module, input) or "
            "(module, input, loss)."
        )
    return (*made, None) if len(made) == 2 else made
