"""`lnlab run` on notebooks of which one is good and the others are bad in different ways."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lnlab import paths
from lnlab.cli import app

root_of_lnlab = paths.checkout_folder
ROOT = paths.checkout_folder()
PARAMETERS = (
    'import os\nbudget = os.environ.get("LNLAB_BUDGET", "notebook")\nseeds = 3  # how many'
)
FIGURE = """import plotly.graph_objects as go
figure = go.Figure(go.Scatter(x=[0, 1], y=[0, 1]))
figure.frames = [go.Frame(data=[go.Scatter(x=[0, 1], y=[0, k])], name=str(k)) for k in (1, 2)]
step = dict(method="animate", label="2", args=[["2"], dict(mode="immediate")])
figure.layout.sliders = [dict(steps=[step, step])]
figure"""


def write(path: Path, title: str, *cells: str) -> None:
    notebook = new_notebook(cells=[new_markdown_cell(f"# {title}\n\nWhy $\\mu$?")])
    notebook.cells.append(new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}))
    notebook.cells += [new_code_cell(cell) for cell in cells]
    nbformat.write(notebook, path)


def checkout(root: Path) -> Path:
    """Make a checkout without notebooks; their folder."""
    for name in ("pyproject.toml", "results", "docs"):
        (root / name).symlink_to(ROOT / name)
    (root / "notebooks").mkdir()
    return root / "notebooks"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No budget is set, as for a user; a run's own variables are put back after a test."""
    monkeypatch.delenv("LNLAB_BUDGET", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    monkeypatch.setenv("PLOTLY_RENDERER", "json")  # which would leave pages without figures


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    """A checkout with four notebooks, in a folder whose name has a space and accents."""
    root = tmp_path_factory.mktemp("cahier à été")
    folder = checkout(root)
    where = "import sys\nprint(budget, seeds, os.getcwd(), sys.executable, sep='|')"
    write(folder / "01_good.ipynb", "01 · It runs", where, FIGURE)
    write(folder / "02_raises.ipynb", "02 · It raises", "x = 1", "1 / 0", "x = 2")
    begin = "import time\nopen('begun', 'w').close()"
    write(folder / "03_hangs.ipynb", "03 · It hangs", begin, "time.sleep(600)")
    write(folder / "04_dies.ipynb", "04 · It dies", "os.kill(os.getpid(), 9)", "y = 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "checkout_folder", lambda: root)
        yield root


def lnlab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def program(root: Path, *arguments: object) -> list[str]:
    """The command that runs notebooks of another checkout, in a process of its own."""
    code = (
        # a shell in the background starts its programs deaf to Ctrl-C
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path\nfrom lnlab import paths\nfrom lnlab.cli import app\n"
        f"paths.checkout_folder = lambda: Path({str(root)!r})\napp({[*map(str, arguments)]!r})"
    )
    return [sys.executable, "-c", code]


def outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return [output for cell in cells for output in cell.get("outputs", [])]


@pytest.mark.slow
def test_good_and_bad_notebooks_each_come_to_their_end(workbook):
    out = workbook / "build"
    options = ["-p", "budget", "smoke", "-p", "seeds", "0,1", "--out", out]
    first = lnlab("run", "01", "02_raises", "4", *options, "--jobs", 2)
    second = lnlab("run", "03_hangs.ipynb", *options, "--timeout", 3)
    printed = first.stdout + second.stdout
    assert (first.exit_code, second.exit_code) == (1, 1)
    assert "no page is complete" in second.stdout
    assert re.search(r"(?m)^ran +01_good in [\d.]+ s$", printed)
    (line, figure) = outputs(out / "01_good.ipynb")
    folder = workbook / "notebooks"
    wanted = ["smoke", "[0, 1]", str(folder), sys.executable]
    assert line["text"].strip().split("|") == wanted
    assert len(figure["data"]["application/vnd.plotly.v1+json"]["frames"]) == 2
    for name, complaint in (
        ("02_raises", r"in cell 4 \(1 / 0\) .*ZeroDivisionError: division by zero"),
        ("03_hangs", r"in cell 4 \(time.sleep\(600\)\) .*longer than 3 s .*--timeout"),
        ("04_dies", r"in cell 3 \(os.kill\(os.getpid\(\), 9\)\) .*kernel died"),
    ):
        assert re.search(rf"(?m)^FAILED +{name} {complaint}", printed)
        assert not (out / f"{name}.ipynb").exists()
        partial = nbformat.read(out / f"{name}.failed.ipynb", as_version=4)
        assert re.search(complaint.split(" .*")[0], partial.metadata.lnlab.place)
        assert "This run failed" in (out / f"{name}.html").read_text()
    assert not list(out.glob("*.part")), "nothing half-written"
    assert not any(outputs(path) for path in folder.glob("*.ipynb")), "sources stay"
    assert f"pages: {out / 'index.html'}" in printed
    run = nbformat.read(out / "01_good.ipynb", as_version=4).metadata.lnlab
    assert run.parameters == {"budget": "smoke", "seeds": [0, 1]}
    assert re.search(r", (1 core|\d+ cores)$", run.hardware)
    times = lnlab("run", 1, 2, "--times", "--out", out).stdout.splitlines()
    assert [line.split()[0] for line in times] == ["01_good", "02_raises", "all,"]
    assert f"{run.seconds:.1f} s" in times[0]
    assert (out / "index.html").read_text().count("failed") >= 3
    for page in out.glob("*.html"):
        targets = re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', page.read_text())
        assert all((out / target).is_file() for target in targets), "needs no network"
    write(folder / "02_raises.ipynb", "02 · It raises", "x = 1")
    assert lnlab("run", 2, "--out", out).exit_code == 0
    assert (out / "02_raises.ipynb").exists()
    assert not (out / "02_raises.failed.ipynb").exists()
    assert "This run failed" not in (out / "02_raises.html").read_text()
    assert "This run failed" in (out / "03_hangs.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["7"], "no notebook '7'.*01_good, 02_raises, 03_hangs, 04_dies"),
        (["01", "-p", "sedes", "3"], "no.*parameter 'sedes'.*01_good: budget, seeds"),
        (["01", "-p", "seeds", "3;4"], "seeds '3;4': write how many"),
        (["01", "-p", "budget", "tiny"], "'tiny': choose from smoke, notebook, paper"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(workbook, tmp_path, arguments, complaint):
    result = lnlab("run", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 1
    assert re.search(f"(?is){complaint}", result.output)
    assert not (tmp_path / "out").exists()


def test_list_shows_numbers_titles_and_parameters(workbook):
    lines = lnlab("list").output.splitlines()
    assert re.fullmatch(r"01  It runs +budget  seeds", lines[0])
    assert len(lines) == 4
    title, *values = lnlab("list", "1").output.splitlines()
    assert (title, values[-1]) == ("01  It runs", "    seeds = 3  # how many")
    assert values[0] == '    budget = "notebook"'


@pytest.mark.parametrize("command", ["run", "list", "bench x"])
def test_outside_a_checkout_it_says_so(monkeypatch, tmp_path, command):
    monkeypatch.setattr(paths, "checkout_folder", root_of_lnlab)
    monkeypatch.setattr(paths.lnlab, "__file__", str(tmp_path / "lnlab" / "__init__.py"))
    result = lnlab(*command.split())
    assert result.exit_code == 1
    assert "without its checkout" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_or_killed_it_leaves_no_kernel_and_nothing_half_written(by, workbook):
    """Ctrl-C, an end that was asked for, or a kill, while a cell sleeps for ten minutes."""
    out, begun = workbook / f"stopped by {by}", workbook / "notebooks" / "begun"
    begun.unlink(missing_ok=True)
    command = program(workbook, "run", "03", "--out", out)
    with subprocess.Popen(command, stderr=subprocess.PIPE) as run:
        while not begun.exists():
            time.sleep(0.1)
            assert run.poll() is None
        kernels = psutil.Process(run.pid).children()
        run.send_signal(by)
        try:
            ended = -by if by == signal.SIGKILL else 128 + by
            assert run.wait(60) == ended, "and not when the cell ends"
        finally:
            run.kill()  # else a run that does not stop would be waited for
    assert not psutil.wait_procs(kernels, timeout=20)[1], "orphans"
    assert not list(out.iterdir())
