"""The metrics by which an experiment judges its runs, read off its source.

To import an experiment is to import torch, which takes longer than to read a hundred runs.
"""

import ast
from functools import cache
from pathlib import Path

import lnlab

WITHOUT = ("test_error", "test_nll", "loss")
"""The metrics of a run whose experiment is not known here: the first that it has counts."""


@cache
def metrics(task: str) -> tuple[str, ...]:
    """The metrics that are shown of a task's runs: the first that a run has is its number.

    They are ``rises`` and ``falls`` of :class:`lnlab.training.Experiment`, the last first, and
    then :data:`WITHOUT`.
    """
    from lnlab.tasks import WHERE

    declared = {"falls": (), "rises": ()}
    if task in WHERE:
        declared = {field: _declared(WHERE[task][1], field) for field in declared}
    return (*declared["rises"][::-1], *declared["falls"][::-1], *WITHOUT)


def _declared(kind: str, field: str) -> tuple[str, ...]:
    """The value that the source of a class, or of a class it is built on, gives a field."""
    node = _classes().get(kind)
    if node is None:
        return ()
    for statement in node.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) if name == field:
                return ast.literal_eval(value)
    found = (_declared(base.id, field) for base in node.bases if isinstance(base, ast.Name))
    return next(filter(None, found), ())


@cache
def _classes() -> dict[str, ast.ClassDef]:
    """The classes of all tasks by name."""
    folder = Path(lnlab.__file__).parent / "tasks"
    trees = [ast.parse(path.read_bytes()) for path in sorted(folder.rglob("*.py"))]
    return {n.name: n for tree in trees for n in tree.body if isinstance(n, ast.ClassDef)}
