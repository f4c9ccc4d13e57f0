"""Tasks and their fields as a command line names them."""

import ast
import dataclasses
import re
from collections.abc import Mapping, Sequence
from inspect import cleandoc, formatannotation, getsource
from typing import TYPE_CHECKING, Any

import click

from lnlab.cli.sources import missing, subject
from lnlab.seeds import read_seeds

if TYPE_CHECKING:
    from lnlab.training import Experiment


class Fields(click.Command):
    """A command on a task, whose help lists the tasks, or the fields of the one named.

    Raises:
        click.UsageError: if help is asked for with a task that there is not.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from lnlab.papers import TASKS

        named = [argument for argument in args if argument in TASKS]
        ctx.meta["task"] = named[0] if named else None
        asked = {*args} & {*ctx.help_option_names}
        if asked and not named and not args[0].startswith("-"):
            raise click.UsageError(missing(args[0]), ctx)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from lnlab.papers import TASKS

        name = ctx.meta.get("task") or ""
        if name in TASKS:
            with formatter.section(f"Fields of {name}, for --set FIELD=VALUE [what they are]"):
                formatter.write_dl(described(TASKS[name]))
        else:
            with formatter.section("Tasks"):
                formatter.write_dl([(task, subject(task)) for task in TASKS])


def described(kind: "type[Experiment]") -> list[tuple[str, str]]:
    """Each field of a class of tasks: its name and type, then what each budget has and what it
    is."""
    from lnlab.training.experiment import declared

    words: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__[:-1]):
        if dataclasses.is_dataclass(ancestor):
            words |= documented(ancestor)
    budgets = kind.budgets()
    lines = []
    for field in declared(kind).values():
        choices = ", ".join(map(str, field.allowed.get("choices", ())))
        said = [words.get(field.name), choices and f"One of {choices}."]
        about = " ".join(filter(None, [f"[{by_budget(budgets, field.name)}]", *said]))
        lines.append((f"{field.name}: {formatannotation(field.kind)}", plain(about)))
    return lines


def plain(text: str) -> str:
    """Words of a docstring without its markup: ``code`` and :func:`roles`."""
    return re.sub(r"(:\w+:)?`+", "", text)


def by_budget(budgets: Mapping[str, Any], field: str) -> str:
    """The value of a field at each budget, once where all of them have the same."""
    values = {name: written(getattr(task, field)) for name, task in budgets.items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{name}: {value}" for name, value in values.items())


def written(value: Any) -> str:
    """A value as a command line takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if value != "" else "empty"


def documented(kind: type) -> dict[str, str]:
    """Text that stands under the fields in the source of a class, by name."""
    body = ast.parse(cleandoc("\n" + getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                found[name] = " ".join(words.split())
    return found


def task_named(name: str) -> Any:
    """The class of tasks that is called so.

    Raises:
        ValueError: None is; the message lists those that are.
    """
    from lnlab.papers import TASKS

    if name not in TASKS:
        raise ValueError(missing(name))
    return TASKS[name]


def changed(
    defaults: Mapping[str, Any], settings: Sequence[str], data: str | None = None
) -> dict[str, Any]:
    """The fields that ``FIELD=VALUE`` settings change, each of the type of its default.

    Raises:
        ValueError: There is no such field, a setting has no ``=``, or its value does not fit.
    """
    changes: dict[str, Any] = {}
    for setting in [*settings, *([f"data={data}"] if data else [])]:
        name, equals, text = setting.partition("=")
        if not equals or name not in defaults:
            there = ", ".join(defaults)
            raise ValueError(f"{setting!r}: write FIELD=VALUE, with a field of {there}.")
        changes[name] = like(defaults[name], name, text)
    return changes


def like(default: Any, name: str, text: str) -> Any:
    """The value that a text stands for, of the type of ``default``; a tuple is ``0,1,2``."""
    if isinstance(default, str):
        return text
    if name == "seeds":
        return read_seeds(text)
    kind = type(default)
    try:
        value = ast.literal_eval(text)
        if kind is float and type(value) is int:
            value = float(value)
        if kind is tuple and type(value) is int:
            value = (value,)
    except (ValueError, SyntaxError):
        value = None
    if type(value) is not kind or value == ():
        raise ValueError(f"{name}={text}: write it like its default, {default!r}")
    return value
