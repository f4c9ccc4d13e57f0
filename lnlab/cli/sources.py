"""Subjects and fields of tasks, read from their source and not run: that would take torch."""

import ast
from pathlib import Path
from typing import Any, NamedTuple

import lnlab
from lnlab.papers import WHERE


def subject(name: str) -> str:
    """The subject of a task, and its paper: the first line of its module's docstring."""
    return (ast.get_docstring(source(module_of(name)).tree) or "").partition("\n")[0]


def missing(name: str) -> str:
    """A message for a task that there is not."""
    return f"There is no task {name!r}. There are: {', '.join(WHERE)}"


def defaults(name: str) -> dict[str, Any]:
    """The fields of a task and their defaults, in the order in which its class has them.

    Raises:
        ValueError: There is no such task; the message lists those that are.
    """
    if name not in WHERE:
        raise ValueError(missing(name))
    return fields(module_of(name), WHERE[name][1])


def module_of(name: str) -> str:
    """The module of a task."""
    return f"lnlab.papers.{WHERE[name][0]}"


class Module(NamedTuple):
    """A module as it is written, and the package that its relative imports begin at."""

    tree: ast.Module
    package: str


def source(module: str) -> Module:
    """The source of a module of lnlab, which is not imported for it."""
    place = Path(str(lnlab.__file__)).parent.joinpath(*module.split(".")[1:])
    is_package = place.is_dir()
    file = place / "__init__.py" if is_package else place.with_suffix(".py")
    package = module if is_package else module.rpartition(".")[0]
    return Module(ast.parse(file.read_text(encoding="utf-8")), package)


def fields(module: str, kind: str) -> dict[str, Any]:
    """The fields of a class of lnlab and of those that it is made from, and their defaults."""
    tree, package = source(module)
    places = {kind: (module, kind)}
    constants: dict[str, ast.expr] = {}
    body: ast.ClassDef | None = None
    # a lazy package imports for type checkers alone
    hidden = (inner for node in tree.body if isinstance(node, ast.If) for inner in node.body)
    for node in [*tree.body, *hidden]:
        match node:
            case ast.Assign([ast.Name(name)], value):
                constants[name] = value
            case ast.ImportFrom():
                other = ".".join(filter(None, [package if node.level else "", node.module]))
                places |= {alias.name: (other, alias.name) for alias in node.names}
            case ast.ClassDef(name):
                places[name] = (module, name)
                body = node if name == kind else body
    if body is None:  # the module passes on what another has
        return fields(*places[kind])
    found: dict[str, Any] = {}
    for base in body.bases:
        place = places[ast.unparse(base)]
        found |= fields(*place) if place[0].startswith("lnlab.") else {}
    for node in body.body:
        match node:
            case ast.AnnAssign(ast.Name(name), kind_of, ast.expr() as value):
                if not ast.unparse(kind_of).startswith("ClassVar"):
                    found[name] = literal(value, constants)
    return found


def literal(value: ast.expr, constants: dict[str, ast.expr]) -> Any:
    """The number, text or tuple that a default is: in a call the first argument, or a name."""
    match value:
        case ast.Call(args=[first, *_]):
            value = first
        case ast.Name(name):
            value = constants[name]
    return ast.literal_eval(value)
