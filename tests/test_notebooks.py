"""What every notebook of the workbook keeps to, read off without running it."""

import ast
import linecache
import re
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import median
from types import ModuleType

import nbformat
import pytest
import torch
from torch import nn

import lnlab
from lnlab.book.html import markdown_to_html
from lnlab.book.notebooks import list_notebooks, read_parameter_defaults_as_text
from lnlab.book.run import fill_missing_parameters

PANEL = re.compile(
    r"\bpanels?\.(attention|distributions|drawing|geometry|invariance|landscape|order|stream_and_gradients_over_depth|"
    r"positions|reading|recurrence|thoughts|transformer|writing)\("
)
"""The call of a panel."""
FOLDER = Path(__file__).parents[1] / "notebooks"
PATHS = list_notebooks(FOLDER)
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


@cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def prose(path):
    return "\n\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")


def source(path):
    return "\n".join(cell.source for cell in code_cells(path))


def lines(cell):
    return [line for line in cell.source.splitlines() if line.strip()]


def tagged(path):
    return [c for c in code_cells(path) if "parameters" in c.metadata.get("tags", [])]


def headings(path):
    return re.findall(r"^## +(.+?)\s*$", prose(path), re.M)


def nodes(cell):
    return ast.walk(ast.parse(cell.source))


def test_numbers_are_the_reading_order():
    numbers = [path.stem.split("_")[0] for path in PATHS]
    assert numbers == [f"{number:02}" for number in range(len(PATHS))]


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
    targets = [t for node in nodes(cell) if isinstance(node, ast.Assign) for t in node.targets]
    assigned = [ast.unparse(target) for target in targets]
    seen = list(read_parameter_defaults_as_text(path))
    assert assigned == seen, "papermill must see every parameter"
    if "budget" in assigned:
        assert "LNLAB_BUDGET" in cell.source, "the tests set it to smoke"


@every_notebook
def test_one_cell_imports_with_at_most_four_lines_of_lnlab(path):
    imports = ast.Import | ast.ImportFrom
    cells = [c for c in code_cells(path) if any(isinstance(n, imports) for n in nodes(c))]
    assert len([c for c in cells if c not in tagged(path)]) == 1
    lines = re.findall(r"(?m)^ *(?:import|from) lnlab\b.*", source(path))
    assert 1 <= len(lines) <= 4, lines


@every_notebook
def test_what_is_reached_through_a_module_of_lnlab_exists(path):
    space = {}
    exec(code_cells(path)[0].source, space)
    for node in ast.walk(ast.parse(source(path))):
        names = ast.unparse(node).split(".") if isinstance(node, ast.Attribute) else []
        value = space.get(names[0]) if names and all(map(str.isidentifier, names)) else None
        for name in names[1:]:
            if isinstance(value, ModuleType) and value.__name__.startswith("lnlab"):
                value = getattr(value, name)


@every_notebook
def test_code_comes_in_small_pieces_between_prose(path):
    lengths = sorted(len(lines(cell)) for cell in code_cells(path))
    assert lengths[-1] <= 25
    assert lengths[int(0.9 * (len(lengths) - 1))] <= 12
    assert median(lengths) <= 5
    words = len(re.sub(r"\$\$.*?\$\$", " ", prose(path), flags=re.S).split())
    assert words >= 8 * sum(lengths)


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
            asserted = any(isinstance(node, ast.Assert) for c in code for node in nodes(c))
            assert asserted, f"## {heading}"


@every_notebook
def test_experiments_share_their_headings_and_parameters(path):
    defaults = read_parameter_defaults_as_text(path)
    if "Watch it train" in headings(path):
        assert headings(path) == HEADINGS
        assert {"budget", "seeds", "device", "data"} <= set(defaults)
    assert defaults.get("device", '"auto"') == '"auto"'
    on_the_cpu = {"00", "01", "02", "03", "07", "18"}  # as docs/notebooks.md says
    assert ("device" in defaults) == (path.stem[:2] not in on_the_cpu)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("number", ["15", "16", "17"])
def test_what_a_notebook_computes_itself_is_on_the_device(
    number, device, monkeypatch, tmp_path
):
    (path,) = (path for path in PATHS if path.stem.startswith(number))
    torch.set_default_dtype(torch.float32)
    monkeypatch.setenv("LNLAB_BUDGET", "smoke")
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    space = {}
    for at, cell in enumerate(code_cells(path)):
        if not PANEL.search(cell.source):  # a panel trains on the CPU
            name = f"<cell {at} of {number}>"  # a cached call reads its source
            linecache.cache[name] = (1, None, cell.source.splitlines(True), name)
            exec(compile(cell.source, name, "exec"), space)
        if "parameters" in cell.metadata.get("tags", []):
            space["device"] = str(device)
    modules = [one for one in space.values() if isinstance(one, nn.Module)]
    assert device.type in {p.device.type for one in modules for p in one.parameters()}


def test_a_run_says_which_device_was_chosen(monkeypatch):
    (path,) = (path for path in PATHS if path.stem.startswith("04"))
    monkeypatch.setattr(torch, "empty", lambda *_, device: None)  # which tries the device
    for there, chosen in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert fill_missing_parameters(path, {})["device"] == chosen
    assert fill_missing_parameters(path, {"device": "cuda:1"})["device"] == "cuda:1"


def shows(cell):
    """Whether what a cell computes is seen below it; a panel or a bar is there to be used."""
    body = ast.parse(cell.source).body
    seen = isinstance(body[-1], ast.Expr) or "print(" in cell.source
    return seen and not (PANEL.search(cell.source) or "progress(" in cell.source)


@every_notebook
def test_what_is_to_be_predicted_is_covered(path):
    cells = read(path).cells
    for number, cell in enumerate(cells):
        # a panel may stand open that shows what is asked only where it is moved
        moved = re.search("before you drag", cell.source)
        if cell.cell_type == "markdown" and re.search(
            r"\*\*(Predict|Make a guess)", cell.source
        ):
            after = [c for c in cells[number:] if c.cell_type == "code"]
            first = next(c for c in after if shows(c) or PANEL.search(c.source))
            hidden = first.metadata.get("jupyter", {}).get("outputs_hidden", False)
            assert hidden or (moved and PANEL.search(first.source)), cell.source[-200:]


DETAILS = r"(?s)<details><summary>([\w ]+)</summary>\n\n(.*?)\n\n</details>"
CODE = r"(?s)```python\n(.*?)```"


def exercises(path):
    """Of each exercise its hidden parts: summary and text."""
    _, _, text = prose(path).partition("## Exercises\n\n")
    return [re.findall(DETAILS, each) for each in re.split(r"(?m)^\d\. ", text)[1:]]


@every_notebook
def test_every_exercise_has_a_hidden_answer(path):
    for number, parts in enumerate(exercises(path), 1):
        assert {"Solution", "What to look for"} & {summary for summary, _ in parts}, number


@pytest.mark.parametrize("number", ["01", "02", "03", "04", "05", "06"])
def test_the_code_of_an_answer_passes_its_check(number):
    (path,) = (path for path in PATHS if path.stem.startswith(number))
    cells = code_cells(path) if number == "01" else [code_cells(path)[0]]
    space = {}
    for cell in cells:
        exec(cell.source, space)
    ran = 0
    for parts in exercises(path):
        # a check is of what the solution defines
        for summary in ("Solution", "Check yours"):
            for code in re.findall(CODE, "".join(text for s, text in parts if s == summary)):
                exec(code, space)
                ran += 1
    assert ran


def test_the_knee_of_an_exercise_is_where_its_answer_says():
    (path,) = (path for path in PATHS if path.stem.startswith("17"))
    space = {}
    for cell in code_cells(path)[0], *(c for c in code_cells(path) if "MyNorm(nn" in c.source):
        exec(cell.source, space)
    eps = float(re.findall(r"`MyNorm` an \$\\epsilon\$ of ([\d.]+)", prose(path))[0])

    def scaled(eps):
        torch.manual_seed(0)
        layer = nn.Sequential(nn.Linear(16, 12, bias=False), space["MyNorm"](12, eps))
        report = lnlab.check_invariances(layer, torch.randn(8, 16), columns=(1,))
        return report.invariances[0]

    assert 7e-3 < scaled(1e-5).knee_delta < 1.4e-2
    assert 7e-2 < scaled(eps).knee_delta < 1.4e-1
    assert scaled(0.1).grade.value == "broken"
    assert scaled(0.1).exact_without == "eps"


WRONG = [
    ("01", "WholeNorm = lnlab.nn.LayerNorm", "deviation 1, and yet more than one mu or sigma"),
    ("01", "WholeNorm = lnlab.nn.Identity", r"deviation \d\.\d+, not 0 and 1$"),
    ("02", "SignNorm = lnlab.nn.LayerNorm", r"columns \[1, 2, 4, 6, 7\], not to"),
]


@pytest.mark.parametrize(("number", "wrong", "words"), WRONG)
def test_a_wrong_answer_is_told_what_it_is(number, wrong, words):
    (path,) = (path for path in PATHS if path.stem.startswith(number))
    space = {}
    for cell in code_cells(path) if number == "01" else code_cells(path)[:1]:
        exec(cell.source, space)
    exec(wrong, space)
    (check,) = (
        text for parts in exercises(path) for summary, text in parts if summary == "Check yours"
    )
    with pytest.raises(AssertionError, match=words):
        exec("".join(re.findall(CODE, check)), space)


@every_notebook
def test_every_formula_can_be_set(path):
    page = markdown_to_html(prose(path), trusted=True)
    assert not re.findall(r'<code class="unread" title="([^"]*)"', page)


@every_notebook
def test_a_loop_of_its_own_trains_in_one_thread(path):
    """As all that lnlab trains does; a cached call runs so."""
    source = "\n".join(cell.source for cell in code_cells(path))
    for cell in code_cells(path):
        if ".backward()" in cell.source and ".step()" in cell.source:
            made = re.findall(r"^def (\w+)\(", cell.source, re.M)
            kept = any(f"cached_call({name}, " in source for name in made)
            assert "one_thread(" in cell.source or kept, cell.source


@every_notebook
def test_links_between_notebooks_lead_somewhere(path):
    for target in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", re.sub(r"`[^`]*`", "", prose(path))):
        # a page lies beside the other pages, and nothing else of the checkout does
        assert re.fullmatch(r"[\w-]+\.ipynb", target), target
        assert (FOLDER / target).is_file(), target
