"""The code of a run is all that its task leads to, and nothing else."""

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import lnlab
from lnlab.runs.closure import closure
from lnlab.runs.environment import code

TRAINING = "lnlab.training.course"
DIGITS, ROWS, SPEECH = "lnlab.tasks.mnist", "lnlab.tasks.sequences", "lnlab.tasks.las.task"


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    """Tells which of the three tasks have other code when a file of lnlab is edited."""
    copy = tmp_path_factory.mktemp("copy") / "lnlab"
    shutil.copytree(Path(lnlab.__file__).parent, copy)
    program = f"""
    import sys
    from pathlib import Path
    from lnlab.runs.environment import code
    tasks = {[DIGITS, ROWS, SPEECH]}
    def codes():
        code.cache_clear()
        return [code(task, {TRAINING!r}) for task in tasks]
    before = codes()
    for line in sys.stdin:
        path = Path(line.strip())
        whole = path.read_bytes()
        path.write_bytes(whole + b"\\n")
        print(*(b != a for b, a in zip(before, codes())), flush=True)
        path.write_bytes(whole)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=copy.parent,  # from where lnlab is imported
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        asked, answered = process.stdin, process.stdout
        assert asked is not None
        assert answered is not None

        def edit(name: str) -> str:
            print(copy / name, file=asked, flush=True)
            told = answered.readline().split()
            return " ".join(
                t
                for t, e in zip(("mnist", "sequences", "las"), told, strict=True)
                if e == "True"
            )

        yield edit
        asked.close()


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("tasks/mnist.py", "mnist"),
        ("tasks/sequences.py", "sequences"),
        ("tasks/las/task.py", "las"),
        ("tasks/las/speller.py", "las"),
        ("tasks/classification.py", "mnist sequences"),
        ("tasks/__init__.py", ""),  # a task more
        ("probes/loss/smoothness.py", "las"),  # measured at each evaluation
        ("probes/loss/hessian.py", ""),  # measured by none
        ("norms/layer.py", "mnist sequences las"),
        ("kernels/cpp/lstm.h", "mnist sequences las"),
        ("kernels/cpp/recurrence.cpp", "mnist sequences las"),
        ("training/course.py", "mnist sequences las"),  # which no task imports
        ("data/images.py", "mnist sequences"),
        ("data/speech.py", "las"),
        ("data/captioned.py", ""),  # which the door of the data passes on
        ("data/vocabulary.py", ""),
        ("runs/store.py", ""),
        ("figures/curves.py", ""),
        ("panels/__init__.py", ""),
        ("pages/__init__.py", ""),
    ],
)
def test_an_edit_changes_the_code_of_those_that_it_reaches(name, whose, edited):
    assert edited(name) == whose


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes the files of a package that is importable as ``house``, and never imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(files: dict[str, str]) -> None:
        for name, text in {"__init__.py": "", **files}.items():
            path = tmp_path / "house" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    return write


def reached(module: str) -> set[str]:
    return {name for name in closure([module]) if name.startswith("house")}


def test_a_package_that_passes_a_name_on_is_seen_through(package):
    package(
        {
            "task.py": "from house.room import chair",
            "room/__init__.py": "from .wood import seat as chair\nfrom .glass import table",
            "room/wood.py": "from .tree import oak\ndef seat(): ...",
            "room/tree.py": "oak = 1",
            "room/glass.py": "table = 1",
        }
    )
    assert reached("house.task") == {"house.task", "house.room.wood", "house.room.tree"}


def test_what_a_package_defines_itself_leads_to_all_of_it(package):
    package(
        {
            "task.py": "from . import room",
            "room/__init__.py": "from .glass import table",
            "room/glass.py": "table = 1",
        }
    )
    assert reached("house.task") == {"house.task", "house.room", "house.room.glass"}


def test_imports_inside_functions_count_and_those_of_a_type_checker_do_not(package):
    package(
        {
            "task.py": """
                from typing import TYPE_CHECKING
                if TYPE_CHECKING:
                    from house.types import T
                else:
                    import house.values
                def load():
                    import house.lazy as lazy
            """,
            "types.py": "",
            "values.py": "",
            "lazy.py": "import house.task",
        }
    )
    assert reached("house.task") == {"house.task", "house.values", "house.lazy"}


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("importlib.import_module('house.data.images')", {"images"}),
        ("import_module('.data.images', __package__)", {"images"}),
        ("import_module(f'house.data.{kind}')", {"images", "speech", ""}),
        ("import_module(KINDS[kind])", None),
    ],
)
def test_imports_by_a_computed_name_lead_to_the_whole_room(call, found, package):
    package(
        {
            "task.py": call,
            "data/__init__.py": "",
            "data/images.py": "",
            "data/speech.py": "",
            "other.py": "",
        }
    )
    everything = {"", ".other", ".data", ".data.images", ".data.speech", ".task"}
    ends = (
        everything if found is None else {".task", *(f".data.{n}".rstrip(".") for n in found)}
    )
    assert reached("house.task") == {f"house{end}" for end in ends}


def test_own_package_and_lnlab_are_followed_and_nothing_else(package):
    package({"task.py": "import json, torch\nfrom lnlab.norms import LayerNorm"})
    names = set(closure(["house.task"]))
    assert {"house.task", "lnlab.norms.layer"} <= names
    assert not [name for name in names if name.partition(".")[0] not in ("house", "lnlab")]
    assert code("house.task") != code("lnlab.norms.layer")


def test_a_class_without_a_file_may_use_all_of_lnlab(monkeypatch):
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    everything = closure([])
    assert closure(["__main__", DIGITS]) == everything == closure(["nowhere.at.all"])
    files = {
        path.relative_to(Path(lnlab.__file__).parent).as_posix() for path in everything.values()
    }
    assert {"tasks/mnist.py", "kernels/cpp/lstm.h", "figures/curves.py"} <= files


@pytest.mark.parametrize(
    ("task", "kinds"),
    [
        ("from house.data import load\nload('x')", {"images"}),
        ("from house.data import load\nload('x', 'speech')", {"speech"}),
        ("def data():\n  from .data import load as get\n  get('x', what='speech')", {"speech"}),
        ("import house.other", {"speech"}),
        ("from house.data import load\nload('x', kind)", {"images", "speech"}),
        ("from house.data import load\nload('x', **options)", {"images", "speech"}),
        ("from house.data import load\nload(*given)", {"images", "speech"}),
        ("from house.data import load\nhand_on(load)", {"images", "speech"}),
        ("from house import data\ndata.load('x')", {"images", "speech"}),
        ("import house.data", {"images", "speech"}),
        ("from house.data.speech import Speech", {"speech"}),
    ],
)
def test_of_the_data_the_kind_counts_that_is_asked_for(task, kinds, package, monkeypatch):
    monkeypatch.setattr("lnlab.runs.closure.DOOR", "house.data")
    package(
        {
            "task.py": task,
            "other.py": "from house.data import load\nload('x', what='speech')",
            "data/__init__.py": """
                from house.data import images, speech
                from house.data.speech import Speech
                ROOMS = {"images": images, "speech": speech}
                def load(spec, what="images"): ...
            """,
            "data/images.py": "",
            "data/speech.py": "Speech = 1",
        }
    )
    found = {name.removeprefix("house.data.") for name in reached("house.task")}
    assert found & {"images", "speech"} == kinds
