"""Docstrings begin with what the thing is, and those that users call name their errors."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import lnlab

PACKAGE = Path(__file__).parents[1] / "lnlab"
MODULES = sorted(PACKAGE.rglob("*.py"))
QUESTIONS = {
    "Of",
    "Where",
    "How",
    "By",
    "What",
    "Whether",
    "When",
    "Which",
    "From",
    "For",
    "In",
}
COMPUTING = ("nn", "kernels", "data", "analysis", "training")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and text of each docstring, those of fields and constants too."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, here in zip([None, *body], body, strict=False):
            heads = before is None and not isinstance(node, ast.If | ast.For | ast.With)
            if not (heads or isinstance(before, ast.Assign | ast.AnnAssign)):
                continue
            value = here.value if isinstance(here, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield here.lineno, value.value


def test_a_docstring_begins_with_what_the_thing_is():
    asked = [
        f"{path}:{line}: {text}"
        for path in MODULES
        for line, text in texts(tree(path))
        if text.split(" ")[0] in QUESTIONS
    ]
    assert not asked


def public(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """The functions and methods that others call."""
    for node in body:
        protocol = isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
        if isinstance(node, ast.ClassDef) and not (node.name.startswith("_") or protocol):
            yield from public(node.body)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def documented(function: ast.FunctionDef, overridden: set[str]) -> bool:
    """True for a docstring, an override of what has one, and a property's setter."""
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    free = any(d == "overload" or d.endswith(".setter") for d in decorators)
    return bool(ast.get_docstring(function)) or function.name in overridden or free


OVERRIDDEN = {
    "forward", "backward", "extra_repr", "state_dict", "load_state_dict",  # torch's
    "stats", "update_running", "set_population", "initialize", "check", "weight", "sound",
    "pre_activations", "running_stats", "reset_parameters", "from_torch", "to_torch",
    "torch_state_dict", "features",  # norms', cells' and recordings'
}  # fmt: skip
ROOMS = [
    p
    for p in MODULES
    if p.relative_to(PACKAGE).parts[0] in COMPUTING and p.name not in ("runs.py", "sweep.py")
]


def lacking(function: ast.FunctionDef) -> Iterator[str]:
    """What the docstring of a function does not say: what it is, its shapes, its errors."""
    text = ast.get_docstring(function)
    if not documented(function, OVERRIDDEN):
        yield "what is it?"
    if not text:
        return
    annotations = [argument.annotation for argument in function.args.args]
    kinds = " ".join(ast.unparse(a) for a in (*annotations, function.returns) if a)
    if "Tensor" in kinds and "(" not in text and "shape" not in text:
        yield "which shape?"
    raised = any(isinstance(n, ast.Raise) and n.exc for n in ast.walk(function))
    if (
        function.name in lnlab.__all__
        and raised
        and "Error" not in text
        and "Raises:" not in text
    ):
        yield "which errors?"


def test_what_is_public_says_what_it_is_its_shapes_and_its_errors():
    asked = [
        f"{path}:{function.lineno} {function.name}: {question}"
        for path in ROOMS
        for function in public(tree(path).body)
        for question in lacking(function)
    ]
    assert not asked
