"""`lnlab run` on notebooks of which one is good and the others are bad in different ways."""

import json
import os
import random
import re
import shutil
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

from lnlab import paths as checkout
from lnlab.book import fingerprint
from lnlab.book.run import sweep_drafts
from lnlab.cli import app
from lnlab.cli.notebooks import UNFINISHED, remaining

ROOT = checkout.root
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
    path.parent.mkdir(exist_ok=True)
    notebook = new_notebook(cells=[new_markdown_cell(f"# {title}\n\nWhy $\\mu$?")])
    notebook.cells.append(new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}))
    notebook.cells += [new_code_cell(cell) for cell in cells]
    nbformat.write(notebook, path)


@pytest.fixture(autouse=True)
def budgets_of_their_own(monkeypatch):
    """As where nobody set one: the cells of the workbook's notebooks are tested at smoke."""
    monkeypatch.delenv("LNLAB_BUDGET", raising=False)


def first_page_of(root: Path) -> None:
    """Put into a checkout what the first page is made of beside the notebooks."""
    for name in ("pyproject.toml", "results", "docs"):
        (root / name).symlink_to(ROOT() / name)


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    """A checkout with four notebooks, in a folder whose name has a space and accents."""
    root = tmp_path_factory.mktemp("cahier à été")
    first_page_of(root)
    folder = root / "notebooks"
    folder.mkdir()
    where = "import sys\nprint(budget, seeds, os.getcwd(), sys.executable, sep='|')"
    write(folder / "01_good.ipynb", "01 · It runs", where, FIGURE)
    write(folder / "02_raises.ipynb", "02 · It raises", "x = 1", "1 / 0", "x = 2")
    write(folder / "03_hangs.ipynb", "03 · It hangs", "import time", "time.sleep(600)")
    write(folder / "04_dies.ipynb", "04 · It dies", "os.kill(os.getpid(), 9)", "y = 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkout, "root", lambda: root)
        yield root


def lnlab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def ran(workbook):
    """Everything run once: what was said, the exit codes and the folder."""
    out = workbook / "build"
    options = ["-p", "budget", "smoke", "-p", "seeds", "0,1", "--out", out]
    before = dict(os.environ)
    os.environ["PLOTLY_RENDERER"] = "json"  # which would leave pages without figures
    first = lnlab("run", "01", "02_raises", "4", *options, "--jobs", 2)
    second = lnlab("run", "03_hangs.ipynb", *options, "--timeout", 3)
    os.environ.clear()
    os.environ.update(before)
    return first.stdout + second.stdout, (first.exit_code, second.exit_code), out


def outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return [output for cell in cells for output in cell.get("outputs", [])]


@pytest.mark.slow
def test_the_good_one_ran_with_its_parameters_where_it_lies(ran, workbook):
    said, _, out = ran
    assert re.search(r"^ran +01_good in [\d.]+ s$", said, re.M)
    (printed, figure) = outputs(out / "01_good.ipynb")
    place = str(workbook / "notebooks")
    assert printed["text"].strip().split("|") == ["smoke", "[0, 1]", place, sys.executable]
    assert len(figure["data"]["application/vnd.plotly.v1+json"]["frames"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("02_raises", r"in cell 4 \(1 / 0\) .*ZeroDivisionError: division by zero"),
        ("03_hangs", r"in cell 4 \(time.sleep\(600\)\) .*longer than 3 s .*--timeout"),
        ("04_dies", r"in cell 3 \(os.kill\(os.getpid\(\), 9\)\) .*kernel died"),
    ],
)
def test_a_bad_one_is_reported_with_its_cell_and_kept(ran, name, complaint):
    said, codes, out = ran
    assert codes == (1, 1)
    assert re.search(rf"^FAILED +{name} {complaint}", said, re.M)
    assert not (out / f"{name}.ipynb").exists()
    partial = nbformat.read(out / f"{name}.failed.ipynb", as_version=4)
    assert re.search(complaint.split(" .*")[0], partial.metadata.lnlab.place)
    assert "This run failed" in (out / f"{name}.html").read_text()


@pytest.mark.slow
def test_nothing_half_written_is_left_and_the_sources_are_as_they_were(ran, workbook):
    *_, out = ran
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
    for path in (workbook / "notebooks").glob("*.ipynb"):
        assert not outputs(path)


@pytest.mark.slow
def test_pages_need_no_network_and_follow_each_other(ran):
    said, _, out = ran
    assert f"pages: {out / 'index.html'}" in said
    pages = {path.stem: path.read_text() for path in out.glob("*.html")}
    notebooks = {"01_good", "02_raises", "03_hangs", "04_dies"}
    assert set(pages) == {"index", "playground", "claims", *notebooks}
    for page in pages.values():
        loaded = re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', page)
        assert all((out / target).is_file() for target in loaded), loaded
    assert '<a rel="next" href="02_raises.html">' in pages["01_good"]
    assert '<a rel="prev" href="03_hangs.html">' in pages["04_dies"]
    assert 'rel="next"' not in pages["04_dies"]
    assert pages["index"].count("failed") >= 3


@pytest.mark.slow
def test_a_notebook_that_runs_again_loses_its_failure(ran, workbook, tmp_path):
    *_, out = ran
    write(workbook / "notebooks" / "02_raises.ipynb", "02 · It raises", "x = 1")
    assert lnlab("run", 2, "--out", out).exit_code == 0
    assert (out / "02_raises.ipynb").exists()
    assert not (out / "02_raises.failed.ipynb").exists()
    assert "This run failed" not in (out / "02_raises.html").read_text()
    assert "This run failed" in (out / "03_hangs.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["7"], "no notebook '7'.*01_good, 02_raises, 03_hangs, 04_dies"),
        (["02", "x"], "no notebook 'x'"),
        (["01", "-p", "sedes", "3"], "no.*parameter 'sedes'.*01_good: budget, seeds"),
        (["--jobs", "0"], "0 is not in the range"),
        (["01", "-p", "seeds", "3;4"], "seeds '3;4': write how many"),
        (["01", "-p", "seeds=3"], "-p seeds=3: write the name and the value apart"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(workbook, tmp_path, arguments, complaint):
    result = lnlab("run", *arguments, "--out", tmp_path / "out")
    assert result.exit_code != 0
    assert re.search(f"(?is){complaint}", result.output)
    assert not (tmp_path / "out").exists()


def test_a_value_that_is_missing_at_the_end_is_asked_for(workbook):
    result = lnlab("run", "01", "-p", "seeds")
    assert result.exit_code == 1
    assert "-p seeds: write the name and the value apart" in result.output


def test_the_workbook_cannot_be_written_over(workbook):
    result = lnlab("run", "01", "--out", workbook / "notebooks")
    assert result.exit_code == 1
    assert "would replace" in result.output
    assert not outputs(workbook / "notebooks" / "01_good.ipynb")


def test_list_shows_numbers_titles_and_parameters(workbook):
    lines = lnlab("list").output.splitlines()
    assert re.fullmatch(r"01  It runs +budget  seeds", lines[0])
    assert len(lines) == 4
    title, *values = lnlab("list", "1").output.splitlines()
    assert (title, values[-1]) == ("01  It runs", "    seeds = 3  # how many")
    assert "import os" not in values[0]


@pytest.mark.parametrize("command", ["run", "list", "bench x"])
def test_outside_a_checkout_it_says_so(monkeypatch, tmp_path, command):
    monkeypatch.setattr(checkout, "root", ROOT)
    monkeypatch.setattr(checkout.lnlab, "__file__", str(tmp_path / "lnlab" / "__init__.py"))
    result = lnlab(*command.split())
    assert result.exit_code == 1
    assert "without its checkout" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_and_leaves_no_kernel(by, workbook):
    """Ctrl-C, or an end that was asked for, while a cell sleeps for ten minutes."""
    out = workbook / f"interrupted by {by}"
    program = (
        # what a shell runs in the background is started deaf to Ctrl-C
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path\nfrom lnlab import paths as checkout\n"
        "from lnlab.cli import app\n"
        f"checkout.root = lambda: Path({str(workbook)!r})\n"
        f"app(['run', '03', '--out', {str(out)!r}])"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as run:
        while not any(os.path.getsize(p) > 0 for p in out.glob(".03_hangs.*.ipynb")):
            time.sleep(0.1)
            assert run.poll() is None
        kernels = children(run.pid)
        run.send_signal(by)
        try:
            assert run.wait(60) == 128 + by  # and not when the cell ends
        finally:
            run.kill()  # else a run that does not stop would be waited for
    assert gone(kernels)
    assert not list(out.glob(".*"))


def children(pid: int) -> set[psutil.Process]:
    """The processes that a process has begun."""
    return set(psutil.Process(pid).children())


def gone(processes: set[psutil.Process]) -> bool:
    """True once some processes have ended, within 20 seconds."""
    return not psutil.wait_procs(processes, timeout=20)[1]


def program(root: Path, *arguments: object) -> list[str]:
    """The command that runs notebooks of another checkout."""
    code = (
        "from pathlib import Path\nfrom lnlab import paths as checkout\n"
        "from lnlab.cli import app\n"
        f"checkout.root = lambda: Path({str(root)!r})\napp({[*map(str, arguments)]!r})"
    )
    return [sys.executable, "-c", code]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A checkout with two quick notebooks."""
    root = tmp_path_factory.mktemp("two")
    first_page_of(root)
    for number in ("01", "02"):
        cell = f"print({number!r}, budget)"
        write(root / "notebooks" / f"{number}_quick.ipynb", f"{number} · Quick", cell, FIGURE)
    return root


@pytest.mark.slow
def test_killed_at_any_moment_it_has_published_nothing_half_written(two, full):
    """``--full``: 20 kills at random, else one within a notebook. What is there can be read;
    the next run sweeps up and finishes."""
    out, chance, kernels = two / "killed", random.Random(0), set()
    for _ in range(20 if full else 1):
        run = subprocess.Popen(program(two, "run", "--out", out), stdout=subprocess.DEVNULL)
        if full:
            time.sleep(chance.uniform(2, 12))
        while not full and run.poll() is None and not list(out.glob(".*_quick.*.ipynb")):
            time.sleep(0.05)
        kernels |= children(run.pid)
        run.kill()
        run.wait()
        for path in out.glob("[!.]*.ipynb"):
            assert nbformat.read(path, as_version=4).metadata["lnlab"]["error"] is None
        for path in out.glob("[!.]*.html"):
            assert path.read_text().rstrip().endswith("</html>")
        if chance.random() < 0.5:
            shutil.rmtree(out, ignore_errors=True)
    assert gone(kernels), "orphans"
    assert subprocess.run(program(two, "run", "--out", out, "--jobs", 2)).returncode == 0
    assert len(list(out.glob("[!.]*.ipynb"))) == 2
    assert not list(out.glob(".*"))


def test_drafts_of_the_dead_are_swept_up_and_of_nobody_else(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    left = [f".01_quick.{dead.pid}.ipynb", f".index.{dead.pid}.html"]
    others = [f".01_quick.{os.getpid()}.ipynb", f".plotly.min.{os.getpid()}.js", "a.1.ipynb"]
    (tmp_path / "handout").mkdir()
    for name in [*left, *others, f"handout/.01_quick.{dead.pid}.html"]:
        (tmp_path / name).touch()
    sweep_drafts(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*others, "handout"}
    assert not list((tmp_path / "handout").iterdir())


@pytest.mark.parametrize("page", ["index.html", "handout/01_quick.html"])
def test_a_stop_while_a_page_is_written_leaves_no_draft(page, tmp_path):
    path = tmp_path / page
    path.parent.mkdir(exist_ok=True)
    program = (
        "import os\nfrom pathlib import Path\n"
        "from lnlab.cli.notebooks import stop\nfrom lnlab.book.html import put\n"
        f"os.replace = lambda *_: stop(Path({str(tmp_path)!r}), {{}}, 15)\n"
        f"put(Path({str(path)!r}), b'page')"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 128 + 15
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [UNFINISHED]


@pytest.mark.slow
def test_two_at_a_time_make_the_same_pages_in_any_folder(two, monkeypatch):
    """Also where the path is long, and has spaces and accents."""
    monkeypatch.setattr(checkout, "root", lambda: two)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # to be put back, as a run sets them
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    folders = [two / "serial", two / "à côté de l'été" / ("name " * 40)[:200].strip()]
    for jobs, out in enumerate(folders, start=1):
        assert lnlab("run", "--out", out, "--jobs", jobs).exit_code == 0
    serial, parallel = (
        {
            path.name: bare(path.read_bytes())
            for path in out.iterdir()
            if path.suffix != ".ipynb"
        }
        for out in folders
    )
    assert len(serial) > 3
    assert serial == parallel


def bare(page: bytes) -> bytes:
    """A page without what is another on every run: how long it took, and when."""
    when = rb"(\d{4}-\d\d-\d\d|\d+ \w+ \d{4},) \d\d:\d\d( \w+)?"
    return re.sub(rb"\d+(\.\d+)? s\b|" + when, b"", page)


def test_what_was_stopped_is_continued_and_nothing_else(tmp_path):
    paths = [Path(f"{name}.ipynb") for name in ("01_a", "02_b", "03_c")]
    wanted = {path: {"seeds": 1} for path in paths}
    asked = {"01_a": "print a", "02_b": "print b", "03_c": "print c"}
    plan = {"asked": asked, "parameters": {"seeds": 1}}
    assert remaining(plan, wanted, tmp_path) == wanted
    (tmp_path / UNFINISHED).write_text(json.dumps(plan | {"done": ["02_b", "03_c"]}))
    assert [path.stem for path in remaining(plan, wanted, tmp_path)] == ["01_a"]
    edited = plan | {"asked": asked | {"02_b": "print d"}}
    assert [path.stem for path in remaining(edited, wanted, tmp_path)] == ["01_a", "02_b"]
    for other in ({"asked": {"01_a": "print a"}}, {"parameters": {"seeds": 2}}):
        assert remaining(plan | other, wanted, tmp_path) == wanted
    (tmp_path / UNFINISHED).write_text('{"asked": ["01_a"], "done": ["01_a"]}')
    assert remaining(plan, wanted, tmp_path) == wanted, "of a version that knew names only"


def test_a_fingerprint_is_of_a_notebook_and_of_the_code(tmp_path, monkeypatch):
    source = tmp_path / "lnlab" / "room" / "part.py"
    source.parent.mkdir(parents=True)
    source.write_text("x = 1")
    monkeypatch.setattr("lnlab.__file__", str(tmp_path / "lnlab" / "__init__.py"))
    path = tmp_path / "01_n.ipynb"
    path.write_text("{}")
    first = fingerprint(path)
    assert fingerprint(path) == first
    source.write_text("x = 2")
    second = fingerprint(path)
    path.write_text("{ }")
    assert len({first, second, fingerprint(path)}) == 3


@pytest.mark.slow
def test_an_interrupted_run_is_continued(tmp_path):
    """Ctrl-C in the second of two notebooks; again, then again with the first one edited."""
    notebooks, out = tmp_path / "notebooks", tmp_path / "pages"
    first_page_of(tmp_path)
    write(notebooks / "01_quick.ipynb", "01 · Quick\n\n1 second", "1 + 1")
    waits = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.1)"
    write(notebooks / "02_waits.ipynb", "02 · Waits\n\n2 minutes", waits)
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    python, option, code = program(tmp_path, "run", "--out", out, "--jobs", 1)
    command = [python, option, listening + code]

    def begun():
        return any(path.stat().st_size for path in out.glob(".02_waits.*.ipynb"))

    def interrupted():
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
            try:
                # its page is written when it is known to be done
                while not (out / "01_quick.html").exists() or not begun():
                    time.sleep(0.1)
                    assert run.poll() is None
                run.send_signal(signal.SIGINT)
                _, said = run.communicate(timeout=60)
            finally:
                run.kill()
        assert run.returncode == 128 + signal.SIGINT
        return said

    assert "the same command again" in interrupted()
    first = (out / "01_quick.ipynb").stat().st_mtime_ns
    assert "continued: 1 of 2 were done" in interrupted()
    assert (out / "01_quick.ipynb").stat().st_mtime_ns == first
    write(notebooks / "01_quick.ipynb", "01 · Quick\n\n1 second", "2 + 2")
    (notebooks / "go").touch()
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0
    assert "continued: 0 of 2" in ended.stderr
    assert "4" in outputs(out / "01_quick.ipynb")[0]["data"]["text/plain"]
    assert (out / "02_waits.ipynb").exists()
    assert not (out / UNFINISHED).exists()


WORKS = "import time\nwhile time.process_time() < 1:\n    pass"


@pytest.mark.slow
def test_quick_notebooks_run_first_and_times_are_told(tmp_path, monkeypatch):
    out, folder = tmp_path / "build", tmp_path / "notebooks"
    first_page_of(tmp_path)
    for number, seconds in ((1, 90), (2, 30), (3, 60)):
        write(folder / f"0{number}_n.ipynb", f"0{number} · N\n\n{seconds} seconds", WORKS)
    monkeypatch.setattr(checkout, "root", lambda: tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    said = lnlab("run", "--out", out, "--jobs", 1, "-p", "seeds", 4).stdout
    assert re.findall(r"^ran +(\w+)", said, re.M) == ["02_n", "03_n", "01_n"]
    run = nbformat.read(out / "01_n.ipynb", as_version=4).metadata.lnlab
    assert run.parameters == {"budget": "notebook", "seeds": [0, 1, 2, 3]}
    assert re.search(r", (1 core|\d+ cores)$", run.hardware)
    times = lnlab("run", "--times", "--out", out).stdout.splitlines()
    assert [line.split()[0] for line in times] == ["01_n", "02_n", "03_n", "all,"]
    assert f"{run.seconds:.1f} s" in times[0]
    assert run.cpu_seconds >= 1
    assert f"{run.cpu_seconds:.1f} CPU-s" in times[0]


HEAVY = {"torch", "pandas", "papermill", "nbformat", "nbconvert", "plotly"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--help", "claims"),
        ("list", "Start here"),
        ("run 77", "no notebook '77'"),
        ("train mnits", "no task 'mnits'. There are: mnist"),
        ("results list", "older runs"),
    ],
)
def test_what_is_asked_in_passing_is_light(command, said):
    program = f"import sys\nfrom lnlab.cli import app\ntry: app({command.split()!r})\n"
    program += "finally: print('modules:', *sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    shown, _, modules = run.stdout.partition("modules:")
    assert said in shown + run.stderr
    assert not HEAVY & set(modules.split())
