"""The source files that a module's code consists of, found without running any of it.

The closure follows every import of a module, at its top or inside a function, to the file
that defines what is imported: ``from lnlab.norms import LayerNorm`` leads to
``norms/layer.py`` and not to the other normalizers, which ``norms/__init__.py`` only passes
on. It ends where lnlab ends (and the package of the module itself): other packages are known
by their versions.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import lnlab

OURS = Path(lnlab.__file__).resolve().parent

COMPILED = (".cpp", ".cu", ".h")
"""Endings of sources that are compiled: they decide as much as the Python beside them."""

KEEPING = "lnlab.runs"
"""The room that writes down what the others compute: it decides none of it."""

DOOR, LOAD, WHAT, ROOMS = "lnlab.data", "load", "what", "ROOMS"
"""``load(spec, what)`` of the data reads one of ``ROOMS``, which only the caller chooses."""

ANY = "*"
"""The kind of data that is noted where only a run can tell which it is."""


def closure(modules: Iterable[str]) -> dict[str, Path]:
    """The files that decide what some modules do, by name.

    The C++ sources of a folder count as soon as one of its modules does. Where the name of
    an imported module is computed (``import_module(f"lnlab.data.{kind}")``), the whole room
    counts, as nobody can say which; and all of lnlab where one of ``modules`` has no file,
    as a class has none that was written in a notebook. Of the data, whose door leads to all
    kinds, those count that some module asks for by name: ``load(spec, what="speech")``.

    Args:
        modules: their dotted names.
    """
    _file.cache_clear()
    waiting = list(modules)
    if not waiting or any(_file(name) is None for name in waiting):
        return {_inside(path): path for path in _sources(OURS, ".py", *COMPILED)}
    asked: set[str] = set()
    found = _reached(waiting, asked)
    while more := {what for item in found.items() for what in _asked(*item)} - asked:
        asked |= more
        found = _reached(waiting, asked)
    folders = {path.parent for path in found.values() if path.is_relative_to(OURS)}
    return found | {_inside(p): p for folder in folders for p in _sources(folder, *COMPILED)}


def _reached(modules: list[str], asked: set[str]) -> dict[str, Path]:
    """The files of some modules and of all that they lead to, given the kinds of data."""
    followed = {"lnlab", *(name.partition(".")[0] for name in modules)}
    closed = {room for what, room in _rooms().items() if not asked & {what, ANY}}
    closed |= set() if ANY in asked else set(_passed_on(DOOR))
    waiting, found = list(modules), {}
    while waiting:
        name = waiting.pop()
        ours = name.partition(".")[0] in followed and not f"{name}.".startswith(f"{KEEPING}.")
        path = _file(name) if ours and name not in found else None
        if path is not None:
            found[name] = path
            needed = _needed(name, path)
            waiting += [n for n in needed if not (name == DOOR and n in closed)]
    return found


def _rooms() -> dict[str, str]:
    """The module of each kind of data, by the kind, as the door has them."""
    path = _file(DOOR)
    for node in _tree(path.read_bytes()).body if path is not None else ():
        match node:
            case ast.Assign([ast.Name(name)], ast.Dict(keys, values)) | ast.AnnAssign(
                ast.Name(name), value=ast.Dict(keys, values)
            ) if name == ROOMS:
                return {
                    str(kind.value): f"{DOOR}.{room.id}"
                    for kind, room in zip(keys, values, strict=True)
                    if isinstance(kind, ast.Constant) and isinstance(room, ast.Name)
                }
    return {}


def _passed_on(package: str) -> Iterator[str]:
    """The modules from which a package only passes names on, without using one of them."""
    path = _file(package)
    tree = _tree(path.read_bytes() if path is not None else b"")
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    sources: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            source = _absolute(package, node.module, node.level)
            for alias in node.names:
                names = sources.setdefault(_definition(source, alias.name), set())
                names.add(alias.asname or alias.name)
    yield from (source for source, names in sources.items() if not names & used)


def _asked(name: str, path: Path) -> Iterator[str]:
    """The kinds of data that a module asks the door for; :data:`ANY` where it may be any."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    nodes = _executed(path.read_bytes())
    loads = set()
    for node in nodes:
        match node:
            case ast.Import(names) if DOOR in {alias.name for alias in names}:
                yield ANY
            case ast.ImportFrom(module, names, level):
                source = _absolute(package, module, level)
                if DOOR in {f"{source}.{alias.name}" for alias in names}:
                    yield ANY
                if source == DOOR:
                    loads |= {a.asname or a.name for a in names if a.name == LOAD}
    if not loads:
        return
    used = [node for node in nodes if isinstance(node, ast.Name) and node.id in loads]
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.func in used]
    yield from (_kind(call) for call in calls)
    if len(used) > len(calls):
        yield ANY  # handed on, to be called elsewhere


def _kind(call: ast.Call) -> str:
    """The kind of data that a call of the door names."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    said = named.get(WHAT) or (call.args[1] if len(call.args) > 1 else None)
    match said:
        case ast.Constant(str(kind)):
            return kind
        case None if None not in named and not any(
            isinstance(argument, ast.Starred) for argument in call.args
        ):
            return next(iter(_rooms()), ANY)  # the first is what the door has by default
    return ANY


def _sources(folder: Path, *suffixes: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in suffixes]


def _inside(path: Path) -> str:
    return path.relative_to(OURS).as_posix()


@cache
def _file(name: str) -> Path | None:
    """The file of a module, which need not have been imported; None if there is none.

    Each closure looks again, as files come and go between one and the next.
    """
    known = sys.modules.get(name)
    if known is not None:
        place = getattr(known, "__file__", None)
        return Path(place).resolve() if place else None
    top, *rest = name.split(".")
    spec = find_spec(top) if top not in ("", "__main__") else None
    if spec is None or spec.origin is None or not rest:
        return Path(spec.origin).resolve() if spec is not None and spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *rest).resolve()
        for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if file.is_file():
                return file
    return None


def _needed(name: str, path: Path) -> Iterator[str]:
    """The modules that the code of a module leads to."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _executed(path.read_bytes()):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names, level):
                source = _absolute(package, module, level)
                yield from (_definition(source, alias.name) for alias in names)
            case ast.Call(
                ast.Name("import_module") | ast.Attribute(attr="import_module"),
                [said, *_],
            ):
                yield from _computed(package, said)


@cache
def _executed(source: bytes) -> tuple[ast.AST, ...]:
    """The imports, calls and names of a module but those that only a type checker sees."""
    waiting: list[ast.AST] = [_tree(source)]
    found = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call | ast.Name):
            found.append(node)
        waiting += ast.iter_child_nodes(node)
    return tuple(found)


def _absolute(package: str, module: str | None, level: int) -> str:
    """The module that ``from module import`` means in a package; ``level`` counts its dots."""
    above = package.split(".")[: 1 - level or None] if level else []
    return ".".join([*above, *filter(None, [module])])


def _definition(module: str, name: str) -> str:
    """The module that defines a name; packages that only pass it on are seen through."""
    if _file(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    path = _file(module)
    if path is None or path.name != "__init__.py":
        return module
    for node in _tree(path.read_bytes()).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    source = _absolute(module, node.module, node.level)
                    return _definition(source, alias.name)
    return module


def _computed(package: str, said: ast.expr) -> Iterator[str]:
    """The modules that ``import_module(said)`` may import: the one named, or a whole room."""
    match said:
        case ast.Constant(str(name)):
            dots = len(name) - len(name.lstrip("."))
            yield _absolute(package, name.lstrip("."), dots)
            return
        case ast.JoinedStr([ast.Constant(str(head)), *_]) if not head.startswith("."):
            package = head.rpartition(".")[0]
    room = _file(package)
    if room is None:
        return
    for path in sorted(room.parent.rglob("*.py")):
        inside = path.relative_to(room.parent).with_suffix("").parts
        yield ".".join([package, *(part for part in inside if part != "__init__")])


@cache
def _tree(source: bytes) -> ast.Module:
    return ast.parse(source)
