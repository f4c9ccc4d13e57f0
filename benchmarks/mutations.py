"""How many small mistakes the tests notice: some are drawn, put in one at a time, and tested.

    python -m benchmarks.mutations --count 60 --seed 0 --jobs 2

A mutation changes one operator, constant, name or statement of a source that computes. Figures,
panels and pages are left out (what they show is looked at), and so are datasets (checksums
hold them) and the numbers of tables and settings at the top of a module, which are choices.
A mutation is noticed when a test of a file that imports its module fails, or one of its
package, or else any quick test; what survives is printed with its function and line.
Everything happens in a copy of the checkout. The libraries that do this (mutmut, cosmic-ray)
mutate everything or cannot draw a sample from a seed, and none reads C++.
"""

import argparse
import ast
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("analysis", "kernels", "nn", "papers", "training")
LEFT_OUT = {"panel.py", "data.py", "claims"}
"""Of the papers: what is looked at, what checksums hold, and what no network computes."""
QUICK = ("-m", "not slow and not browser")
LIMIT = 900
"""Seconds after which tests that a mutation keeps from ending count as failed."""

OPERATORS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "+",
    ast.Pow: "*", ast.MatMult: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
WORDS = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "mean", "mean": "sum"}
IN_CPP = {"+": "-", "-": "+", "*": "/", "<": "<=", "+=": "-=", "-=": "+="}


class Mutation(NamedTuple):
    """Characters ``begin`` to ``end`` of a source, and what stands there instead."""

    path: str
    function: str
    line: int
    begin: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line} {self.function}".rstrip()
        return f"{where}: {self.before!r} -> {self.after!r}"


def mutations(path: Path) -> list[Mutation]:
    """All that can be done to one source."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    in_lines = functions(text) if path.suffix == ".py" else {}
    found = []
    for begin, end, after in in_python(text) if path.suffix == ".py" else in_cpp(text):
        line = text.count("\n", 0, begin) + 1
        if text[begin:end] != after:
            function = in_lines.get(line, "")
            found.append(Mutation(name, function, line, begin, end, text[begin:end], after))
    return found


def functions(text: str) -> dict[int, str]:
    """The name of the innermost function or class that each line stands in."""
    names: dict[int, str] = {}

    def walk(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{outer}.{child.name}".lstrip(".")
                lines = range(child.lineno, (child.end_lineno or child.lineno) + 1)
                names.update(dict.fromkeys(lines, name))
            walk(child, name)

    walk(ast.parse(text), "")
    return names


def in_python(text: str) -> Iterator[tuple[int, int, str]]:
    """Begin, end and replacement of each mutation of Python."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def place(line: int, column: int) -> int:  # ast counts bytes of UTF-8
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def ends(node: ast.AST) -> tuple[int, int]:
        return (
            place(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            place(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def between(left: ast.AST, right: ast.AST, operator: ast.AST) -> Iterator:
        begin, end = ends(left)[1], ends(right)[0]
        token = re.search(r"[^\s()\\]+(?: not| in)?", re.sub(r"#.*", "", text[begin:end]))
        if token and type(operator) in OPERATORS:
            yield begin + token.start(), begin + token.end(), OPERATORS[type(operator)]

    tree = ast.parse(text)
    tables = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    settings = {node for table in tables for node in ast.walk(table)} | streams(tree)
    for node in alive(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between(node.left, node.comparators[0], node.ops[0])
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1], node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            begin = ends(node)[0]  # the operand may stand in brackets, which remain
            yield begin, begin + (3 if isinstance(node.op, ast.Not) else 1), ""
        elif isinstance(node, ast.Constant) and node in settings:
            continue
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield *ends(node), str(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield *ends(node), repr(node.value + 1)
        elif isinstance(node, ast.Attribute) and node.attr in WORDS:
            yield ends(node)[1] - len(node.attr), ends(node)[1], WORDS[node.attr]
        elif isinstance(node, ast.Name) and node.id in WORDS:
            yield *ends(node), WORDS[node.id]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield *ends(node), "pass"


def streams(tree: ast.AST) -> set[ast.AST]:
    """The numbers that name a stream of random numbers: another one is as good."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        argument
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "normal"
        for argument in call.args[:2]
    }


def alive(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotation, no default of a text, nothing for type checkers."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params") or (
            isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.dump(tree.test)
        ):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr | ast.Raise):
                yield node
                yield from alive(node)


def in_cpp(text: str) -> Iterator[tuple[int, int, str]]:
    """The same of C++: operators with spaces around them, outside comments and directives."""
    at = 0
    for line in text.splitlines(keepends=True):
        code = "" if re.match(r"\s*(#|//|template|using)", line) else line.split("//")[0]
        for found in re.finditer(r"(?<= )(\+=|-=|[-+*<])(?= )", code):
            yield at + found.start(), at + found.end(), IN_CPP[found[0]]
        at += len(line)


def left_out(folder: str, names: list[str]) -> set[str]:
    """The parts of a folder of the checkout that a copy does not need."""
    made = {".git", ".venv", "build", "runs"} if Path(folder) == ROOT else set()
    return {"__pycache__", *made} & {*names}


def drawn(count: int, seed: int, only: str = "") -> list[Mutation]:
    """Mutations at random: a source in proportion to what can be done to it."""
    sources = [
        path
        for package in PACKAGES
        for path in (ROOT / "lnlab" / package).rglob("*")
        if path.suffix in (".py", ".cpp", ".h") and not LEFT_OUT & {*path.parts}
    ]
    those = [m for path in sorted(sources) for m in mutations(path) if only in m.path]
    return random.Random(seed).sample(those, min(count, len(those)))


def killed(mutation: Mutation, copy: Path) -> str:
    """The test that notices a mutation of the copy; empty where none does."""
    path = copy / mutation.path
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: mutation.begin] + mutation.after + whole[mutation.end :])
    package = f"tests/{Path(mutation.path).parts[1]}"
    module = ".".join(Path(mutation.path).with_suffix("").parts)
    importing = [
        str(test.relative_to(copy))
        for test in (copy / package).rglob("test_*.py")
        if module in test.read_text(encoding="utf-8")
    ]
    try:
        for tests in (importing, [package], ["tests", *QUICK]):
            if tests and (failed := failing(copy, tests)):
                return failed
        return ""
    finally:
        path.write_text(whole)


def failing(copy: Path, tests: list[str]) -> str:
    """The first test that fails, or why none could be made."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin", "HOME": str(copy)}
    try:
        run = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if run.returncode == 0:
        return ""
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return named[1] if named else f"pytest ends with {run.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="of sources whose path holds this")
    parser.add_argument("--json", type=Path, help="where to keep what was found")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for number in range(chosen.jobs):
            copy = Path(folder) / str(number)
            shutil.copytree(ROOT, copy, ignore=left_out)
            copies.put(copy)

        def judged(mutation: Mutation) -> tuple[Mutation, str]:
            copy = copies.get()
            try:
                return mutation, killed(mutation, copy)
            finally:
                copies.put(copy)

        found = []
        with ThreadPoolExecutor(chosen.jobs) as pool:
            for mutation, by in pool.map(judged, drawn(chosen.count, chosen.seed, chosen.only)):
                found.append({**mutation._asdict(), "killed by": by})
                print(f"{'killed  ' if by else 'SURVIVES'} {mutation}  {by}", flush=True)
    noticed = sum(bool(row["killed by"]) for row in found)
    print(f"{noticed} of {len(found)} were noticed ({noticed / len(found):.0%}).")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
