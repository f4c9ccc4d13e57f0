"""Docstrings begin with what the thing is, and those of tensors name their shapes."""

import ast
from collections.abc import Iterator

from tests.test_architecture import MODULES, PACKAGE, tree

QUESTIONS = {*"Of Where How By What Whether When Which From For In".split()}  # noqa: SIM905
COMPUTING = ("nn", "kernels", "data", "analysis", "training")


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


OVERRIDDEN = {
    "forward", "backward", "extra_repr", "state_dict", "load_state_dict",  # torch's
    "stats", "update_running_stats", "set_population_stats",
    "initialize_from_weights", "check_input",
    "effective_weight", "sound", "unnormalized_pre_activations", "running_mean_and_var",
    "reset_parameters", "parameters_from_torch", "parameters_to_torch", "torch_state_dict",
    "features",  # norms', cells' and recordings'
}  # fmt: skip
CALLED = [
    path
    for path in MODULES
    if path.relative_to(PACKAGE).parts[0] in COMPUTING
    and path.name not in ("runs.py", "sweep.py")
]


def lacking(function: ast.FunctionDef) -> Iterator[str]:
    """What the docstring of a function does not say: what it is, its shapes."""
    text = ast.get_docstring(function)
    if not text:
        free = any(
            ast.unparse(d).endswith(("overload", ".setter")) for d in function.decorator_list
        )
        if not free and function.name not in OVERRIDDEN:
            yield "what is it?"
        return
    annotations = [argument.annotation for argument in function.args.args]
    kinds = " ".join(ast.unparse(a) for a in (*annotations, function.returns) if a)
    if "Tensor" in kinds and "(" not in text and "shape" not in text:
        yield "which shape?"


def test_what_is_public_says_what_it_is_and_its_shapes():
    asked = [
        f"{path}:{function.lineno} {function.name}: {question}"
        for path in CALLED
        for function in public(tree(path).body)
        for question in lacking(function)
    ]
    assert not asked


def listed_attributes(docstring: str) -> Iterator[str]:
    """The names before the colons of the section "Attributes:"."""
    _, _, section = docstring.partition("\nAttributes:\n")
    for line in section.split("\n\n")[0].splitlines():
        if line.startswith("    ") and line[4] != " ":
            yield from line.partition(":")[0].strip().split(", ")


def identifiers(node: ast.ClassDef) -> set[str]:
    """The names of fields, methods and attributes in the body of a class."""
    attributes = ("attr", "id", "name")
    return {getattr(n, a) for n in ast.walk(node) for a in attributes if hasattr(n, a)}


def test_the_attributes_of_a_docstring_are_those_of_its_class():
    seen, unknown = 0, []
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ClassDef):
                names = {*listed_attributes(ast.get_docstring(node) or "")}
                seen += len(names)
                unknown += [f"{node.name}.{name}" for name in names - identifiers(node)]
    assert seen > 100
    assert not unknown
