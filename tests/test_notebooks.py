"""What every notebook of the workbook keeps to, read off without running it."""

import ast
import re
from itertools import groupby
from pathlib import Path
from statistics import median

import nbformat
import pytest

from lnlab.pages.formulas import markdown
from lnlab.workbook import notebooks, parameters

FOLDER = Path(__file__).parents[1] / "notebooks"
PATHS = notebooks(FOLDER)
HEADINGS = [
    "Claim",
    "Data",
    "Model",
    "Watch it train",
    "Compare with the paper",
    "Break it",
    "Exercises",
]

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def prose(path):
    return "\n\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")


def lines(cell):
    return [line for line in cell.source.splitlines() if line.strip()]


def tagged(path):
    return [c for c in code_cells(path) if "parameters" in c.metadata.get("tags", [])]


def headings(path):
    return re.findall(r"^## +(.+?)\s*$", prose(path), re.M)


def statements(cell, *kinds):
    return [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, kinds)]


def test_numbers_are_the_reading_order():
    numbers = [path.stem.split("_")[0] for path in PATHS]
    assert all(re.fullmatch(r"\d\d", number) for number in numbers)
    assert len(set(numbers)) == len(numbers)


@every_notebook
def test_nothing_executed_is_committed(path):
    notebook = read(path)
    assert not any(cell.outputs for cell in code_cells(path))
    assert not any(cell.execution_count for cell in code_cells(path))
    assert "widgets" not in notebook.metadata
    assert notebook.metadata.kernelspec.name == "python3"


@every_notebook
def test_opens_with_title_question_and_minutes(path):
    first = read(path).cells[0]
    assert first.cell_type == "markdown"
    assert re.match(rf"# {path.stem[:2]} · \S", first.source)
    assert "?" in first.source
    assert re.search(r"\bminutes?\b", first.source)


@every_notebook
def test_one_cell_of_parameters(path):
    (cell,) = tagged(path)
    assigned = [t.id for node in statements(cell, ast.Assign) for t in node.targets]
    assert assigned == list(parameters(path)), "papermill must see every parameter"
    if "budget" in assigned:
        assert "LNLAB_BUDGET" in cell.source, "the tests set it to smoke"


@every_notebook
def test_one_cell_of_imports(path):
    imports = [c for c in code_cells(path) if statements(c, ast.Import, ast.ImportFrom)]
    assert len([c for c in imports if c not in tagged(path)]) == 1
    stars = [n for c in imports for n in statements(c, ast.alias) if n.name == "*"]
    assert not stars


@every_notebook
def test_code_comes_in_small_pieces(path):
    lengths = sorted(len(lines(cell)) for cell in code_cells(path))
    assert lengths[-1] <= 25
    assert lengths[int(0.9 * (len(lengths) - 1))] <= 12
    assert median(lengths) <= 5


@every_notebook
def test_more_prose_than_code(path):
    words = len(re.sub(r"\$\$.*?\$\$", " ", prose(path), flags=re.S).split())
    assert words >= 8 * sum(len(lines(cell)) for cell in code_cells(path))


@every_notebook
def test_each_section_with_code_asserts_something(path):
    def section(cell):
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^## +(.+?)\s*$", cell.source, re.M):
                section.now = heading
        return section.now

    section.now = None
    for heading, cells in groupby(read(path).cells, section):
        code = [cell for cell in cells if cell.cell_type == "code"]
        if heading and code:
            assert any(statements(c, ast.Assert) for c in code), f"## {heading}"


@every_notebook
def test_experiments_share_their_headings_and_parameters(path):
    if "Watch it train" in headings(path):
        assert headings(path) == HEADINGS
        assert {"budget", "seeds", "device", "data"} <= set(parameters(path))


@every_notebook
def test_every_formula_can_be_set(path):
    page = markdown(prose(path), trusted=True)
    assert not re.findall(r'<code class="unread" title="([^"]*)"', page)


@every_notebook
def test_links_between_notebooks_lead_somewhere(path):
    for target in re.findall(r"\]\(([\w.-]+\.ipynb)", prose(path)):
        assert (FOLDER / target).is_file(), target
