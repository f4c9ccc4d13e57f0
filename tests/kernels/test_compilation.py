"""Building the kernel: no compiler, a failing one, old builds, shared and read-only caches."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lnlab.kernels.compilation
from lnlab.kernels import recurrent
from lnlab.kernels.compilation import (
    NoKernelWarning,
    build_library,
    library,
)
from lnlab.nn import LSTMCell
from lnlab.nn.recurrent import unroll

TINY = 'extern "C" { int forward() { return 42; } }\n'


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A library of one line, which is compiled at once."""
    folder = tmp_path / "cpp"
    folder.mkdir()
    (folder / "recurrence.cpp").write_text(TINY)
    monkeypatch.setattr(lnlab.kernels.compilation, "SOURCES", folder)
    return folder


@pytest.fixture
def anew():
    """The library is looked for again, during and after the test."""
    library.cache_clear()
    yield
    library.cache_clear()


def test_a_build_is_made_once_and_says_so(sources, tmp_path, capsys):
    first = build_library(tmp_path / "cache")
    stamp = first.stat().st_mtime_ns
    assert "compiling the kernels of recurrent layers, once" in capsys.readouterr().err
    assert build_library(tmp_path / "cache") == first
    assert capsys.readouterr().err == ""
    assert first.stat().st_mtime_ns == stamp
    assert [p.suffix for p in (tmp_path / "cache").iterdir()] == [".so"]
    (sources / "recurrence.cpp").write_text(TINY.replace("42", "43"))
    assert build_library(tmp_path / "cache") != first
    (tmp_path / "file").write_text("not a folder")
    path = build_library(tmp_path / "file" / "cache")  # which cannot be written
    assert path.is_file()
    assert tmp_path not in path.parents


@pytest.mark.slow
def test_the_sources_compile_without_a_warning(tmp_path, monkeypatch):
    """Compilers warn of loops that leave their array, which no number may show."""
    monkeypatch.setenv("CXX", "c++ -Werror")
    build_library(tmp_path)


def test_two_processes_build_at_once(sources, tmp_path):
    # the module by itself: it needs neither torch nor the rest of lnlab, which takes seconds
    program = (
        "import sys; from importlib.util import module_from_spec as made;"
        "from importlib.util import spec_from_file_location as at; from pathlib import Path;"
        f"spec = at('compilation', {lnlab.kernels.compilation.__file__!r}); m = made(spec);"
        "spec.loader.exec_module(m);"
        f"m.SOURCES = Path({str(sources)!r}); print(m.build_library(Path(sys.argv[1])))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "cache")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    paths = {p.communicate(timeout=120)[0].strip() for p in both}
    assert [p.returncode for p in both] == [0, 0]
    (path,) = paths
    assert Path(path).is_file()


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (None, "No C.. compiler was found.*set CXX"),
        ("/nowhere/c++", "cannot be run"),
        ("false", "compiler failed"),
    ],
)
def test_without_a_kernel_torch_does_the_work(compiler, message, tmp_path, monkeypatch, anew):
    monkeypatch.setenv("LNLAB_CACHE", str(tmp_path))
    if compiler is None:
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setenv("CXX", compiler)
    cell, x = LSTMCell(3, 5), torch.randn(4, 2, 3)
    with pytest.warns(NoKernelWarning, match=f"(?s){message}.*several times slower"):
        y, _ = recurrent.unroll(cell, x)
    recurrent.unroll(cell, x)  # a second warning would be an error
    torch.testing.assert_close(y, unroll(cell, x)[0])
