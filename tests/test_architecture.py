"""Imports run one way and stay lazy where it matters."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "lnlab"
MODULES = sorted(PACKAGE.rglob("*.py"))


def order() -> list[str]:
    """The parts of the package in the order of the table in ARCHITECTURE.md."""
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)


ORDER = order()
# the only parts that may import these, wherever in the file
OWNERS = {
    "ipywidgets": {"panels", "papers"},
    "anywidget": {"panels", "live"},
    "papermill": {"book"},
    "nbconvert": {"book"},
    "plotly": {"figures", "panels", "book", "papers"},
    "click": {"cli"},
}
FORBIDDEN = {"utils", "util", "common", "helpers", "base", "manager", "misc", "core"}


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> frozenset[str]:
    """The dotted name of all that a module imports, but for what only type checkers see."""
    package = ["lnlab", *path.relative_to(PACKAGE).parts[:-1]]
    checks = [node for node in ast.walk(tree(path)) if isinstance(node, ast.If)]
    unseen = {n for c in checks if "TYPE_CHECKING" in ast.dump(c.test) for n in ast.walk(c)}
    names: set[str] = set()
    for node in {*ast.walk(tree(path))} - unseen:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def test_imports_run_one_way():
    assert {part(path) for path in MODULES} - {"__init__"} == {*ORDER}
    for path in MODULES:
        known = {name.split(".")[1] for name in imported(path) if name.startswith("lnlab.")}
        known -= {part(path), "__version__"}  # `from lnlab import __version__` is everybody's
        if part(path) in ORDER:
            assert known <= {*ORDER[: ORDER.index(part(path))]}, path


def test_heavy_packages_have_one_owner():
    for path in MODULES:
        packages = {name.split(".")[0] for name in imported(path)}
        for package in packages & OWNERS.keys():
            assert part(path) in OWNERS[package], (path, package)


def test_modules_are_well_named():
    words = {path: {*path.relative_to(PACKAGE).with_suffix("").parts} for path in MODULES}
    assert not [path for path, own in words.items() if FORBIDDEN & {*map(str.lower, own)}]


def test_classes_have_names_of_their_own():
    where: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    del where["Experiment"]  # lnlab.papers.NAME.Experiment, whatever the name
    twice = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert not twice, twice


def test_no_modules_import_each_other_in_a_circle():
    names = {
        ".".join(["lnlab", *p.relative_to(PACKAGE).with_suffix("").parts]): p for p in MODULES
    }
    leads = {
        name: {
            known
            for full in imported(path)
            for known in (full, full.rpartition(".")[0])
            if known in names
        }
        for name, path in names.items()
    }
    left = {name: others - {name} for name, others in leads.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"a circle in {sorted(left)}"


HEAVY = {"plotly", "anywidget", "ipywidgets", "papermill", "nbconvert", "IPython", "pandas"}
LIGHT = (
    ("import lnlab", HEAVY | {"torch", "numpy", "click"}),
    (
        "from lnlab.papers import EXPERIMENTS; [*EXPERIMENTS]",
        HEAVY | {"torch", "numpy", "click"},
    ),
    ("import lnlab.cli", HEAVY | {"torch", "numpy", "tqdm"}),
    ("import lnlab.training.runs", HEAVY | {"torch"}),
    ("import lnlab.nn", HEAVY | {"sklearn"}),
    ("[*EXPERIMENTS.values()]", HEAVY | {"sklearn", "tqdm.notebook"}),
)
"""Statements in an order in which they load ever more, and what none has loaded then."""


def test_imports_are_light():
    code = "\n".join(f"{statement}\nprint(*sys.modules)" for statement, _ in LIGHT)
    for (statement, absent), loaded in zip(LIGHT, run_python(code), strict=True):
        assert not absent & {*loaded.split()}, statement


def test_the_first_panel_imports_no_experiment():
    (loaded,) = run_python("from lnlab import panels; panels.invariance; print(*sys.modules)")
    ours = {name for name in loaded.split() if name.startswith("lnlab.")}
    assert len(ours) < 40
    assert not {name.split(".")[1] for name in ours} & {"papers", "data", "auditing", "book"}


def run_python(code: str) -> list[str]:
    """The lines that code prints in a process of its own."""
    command = [sys.executable, "-c", f"import sys\n{code}"]
    return subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.splitlines()
