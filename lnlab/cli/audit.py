"""``lnlab audit``: a module of one's own, with every probe that applies."""

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("where", metavar="FILE.py:FUNCTION")
@click.option("--data", help="Handed to the function: a path, say, to weights or cases.")
@click.option("--out", type=click.Path(path_type=Path), help="The page; none without it.")
@click.option("--beside", is_flag=True, help="plotly.js beside the page, 5 MB, not in it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def audit(where: str, data: str | None, out: Path | None, beside: bool, as_json: bool) -> None:
    """Audit a module: FUNCTION returns the module, its input and, if you like, a loss.

    The input is a tensor, a tuple of all inputs, a dictionary of all by name, or an
    lnlab.auditing.Call; the loss takes what the module returns. On one thread, unless
    OMP_NUM_THREADS says how many.
    """
    # before torch comes: the many small products are no faster on two threads, and where the
    # cores have other work to do ten times as slow, as the threads wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    function = named(where)
    from lnlab.auditing import audit

    module, inputs, loss = returned(function, where, data)
    try:
        found = audit(module, inputs, loss, progress=sys.stderr.isatty())
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error
    click.echo(found.to_json() if as_json else str(found))
    if out is not None:
        click.echo(
            f"{found.save(out, beside=beside)}: the page, with the numbers behind it",
            err=as_json,
        )


def named(where: str) -> Callable:
    """The function that ``FILE.py:FUNCTION`` names; its folder is on the path of imports.

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
    source = path.read_text(encoding="utf-8", errors="replace")
    if not re.search(rf"\b{re.escape(name)}\b|import \*|globals|exec", source):
        # said before the file runs, whose imports take seconds
        raise ValueError(missing(file, name, written(source)))
    sys.path.append(str(path.resolve().parent))  # last: its files must not hide packages
    try:
        module = program(path)
    except Exception as error:  # whatever a file of the user's may raise
        raise ValueError(f"{file} raised {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        functions = {n: v for n, v in vars(module).items() if inspect.isfunction(v)}
        there = [n for n, v in functions.items() if v.__module__ == module.__name__]
        raise ValueError(missing(file, name, there))
    return function


def missing(file: str, name: str, there: list[str]) -> str:
    """The sentence about a function that a file does not have."""
    return f"{file} has no function {name}; there are: {', '.join(there) or 'none'}."


def written(source: str) -> list[str]:
    """The functions at the top of a source, which is not run; none of what is no Python."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return []
    return [node.name for node in body if isinstance(node, ast.FunctionDef)]


def returned(function: Callable, where: str, data: str | None) -> tuple[Any, Any, Any]:
    """The module, the input and the loss (or None) that a function returns.

    Raises:
        ValueError: where it takes something else than ``--data``, raises, or returns
            something else.
    """
    try:
        inspect.signature(function).bind(*([] if data is None else [data]))
    except TypeError as error:
        given = "no --data" if data is None else "--data"
        raise ValueError(
            f"{where} does not fit {given} ({error}): it takes one argument with --data, and "
            "none without."
        ) from error
    try:
        found = function(*([] if data is None else [data]))
    except Exception as error:  # whatever a function of the user's may raise
        raise ValueError(f"{where} raised {type(error).__name__}: {error}") from error
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise ValueError(
            f"{where} returned {type(found).__name__}: let it return (module, input) or "
            "(module, input, loss)."
        )
    return (*found, None) if len(found) == 2 else found
