"""A result is found by what decides it, computed again if damaged, and never half there."""

import linecache
import os
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from lnlab import data
from lnlab.data import cache
from lnlab.data.cache import cache_arrays, cached_call
from tests.data.test_images import write_idx


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "cache"


def arrays():
    return {"a": np.arange(6.0).reshape(2, 3), "none": np.zeros(0), "number": np.array(3)}


def never():
    raise AssertionError("it is computed again")


def same(values):
    return values.keys() == arrays().keys() and all(
        np.array_equal(values[name], array) and values[name].dtype == array.dtype
        for name, array in arrays().items()
    )


def test_arrays_are_found_by_their_key_and_made_again_with_other_code(monkeypatch, folder):
    assert same(cache_arrays("some", "one", arrays))
    assert same(cache_arrays("some", "one", never))
    with pytest.raises(AssertionError):
        cache_arrays("some", "another", never)
    monkeypatch.setattr(cache, "_hash_code_and_versions", lambda: "other code")
    with pytest.raises(AssertionError):
        cache_arrays("some", "one", never)
    assert same(cache_arrays("some", "one", arrays))
    assert len(list(folder.glob("some-*.npz"))) == 1  # in the place of the old ones


DAMAGES = {
    "cut off": lambda content: content[: len(content) // 2],
    "a bit": lambda content: content.replace(
        np.array([5.0]).tobytes(), np.array([5.5]).tobytes()
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_made_again(damage, folder):
    cache_arrays("some", "", arrays)
    (path,) = folder.glob("*.npz")
    path.write_bytes(damage(path.read_bytes()))
    assert same(cache_arrays("some", "", arrays))
    assert same(cache_arrays("some", "", never))
    assert not list(folder.glob("*.part"))


def test_a_file_that_changed_unnoticed_is_noticed_when_it_is_read(tmp_path):
    """Other bytes of the same size and time: no stamp can tell, the checksum does."""
    spec = f"idx={write_idx(tmp_path)}"
    data.load(spec).checksum  # noqa: B018
    path = tmp_path / "t10k-images-idx3-ubyte"
    before = path.stat()
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(
        ValueError, match=r"idx: its examples have checksum .* of this size and ti"
    ):
        _ = data.load(spec).test


# Calls of a notebook's own functions.

CELL = """
def scaled(x):
    return x * factor


def table(task, times=1):
    calls.append(1)
    numbers = [scaled(task.rate * times), 1 / 3, float("nan")]
    return pd.DataFrame({"x": numbers, "n": [1, 2, 3], "name": ["a", "b, c", "d"]})


def weights(task):
    calls.append(1)
    return {"W": torch.full((2, 3), task.rate), "n": torch.tensor(7)}
"""


@dataclass(frozen=True)
class Task:
    rate: float = 0.1


class Calls(list):
    """A list with a checksum, as data have: what it holds decides nothing."""

    checksum = "data"


@pytest.fixture
def calls():
    return Calls()


def cell(calls, source=CELL, **values):
    """The functions of a cell of a notebook."""
    name = f"<cell {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    notebook = {"pd": pd, "torch": torch, "factor": 2.0, "calls": calls, **values}
    exec(compile(source, name, "exec"), notebook)
    return SimpleNamespace(**notebook)


def test_the_second_call_gives_the_same_and_computes_nothing(calls):
    for function in (cell(calls).table, cell(calls).table):
        frame = cached_call(function, Task())
        pd.testing.assert_frame_equal(frame, function(Task()), check_exact=True)
        calls.pop()
    assert len(calls) == 1
    first, again = (cached_call(cell(calls).weights, Task(0.3)) for _ in range(2))
    assert len(calls) == 2
    assert first.keys() == again.keys() == {"W", "n"}
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert (again["n"].dtype, again["n"].shape) == (torch.int64, ())


LOOKED_UP = CELL + "\n\ndef named(name):\n    return weights(tasks[name])\n"


@pytest.mark.parametrize(
    ("source", "values"),
    [
        (LOOKED_UP, {"tasks": {"layer": Task(0.2)}}),
        (LOOKED_UP.replace("(2, 3)", "(3, 2)"), {}),
        (LOOKED_UP.replace("(name)", "(name, unused=0)"), {}),
    ],
    ids=["a value", "a function beside it", "a default"],
)
def test_anything_that_decides_it_computes_it_again(calls, source, values):
    tasks = {"layer": Task(0.1), "none": Task(0.3)}
    cached_call(cell(calls, LOOKED_UP, tasks=tasks).named, "layer")
    named = cell(calls, source, **{"tasks": tasks, **values}).named
    weights = cached_call(named, "layer")
    assert len(calls) == 2
    assert torch.equal(weights["W"], named("layer")["W"])
    cached_call(cell(calls, LOOKED_UP, tasks=tasks).named, "layer")
    assert len(calls) == 3, "named('layer') alone has computed since"
    cached_call(cell(calls, LOOKED_UP, tasks=tasks).named, "none")
    assert len(calls) == 4, "an argument"
    calls.checksum = "other data"
    cached_call(cell(calls, LOOKED_UP, tasks=tasks).named, "layer")
    assert len(calls) == 5


def test_what_cannot_be_told_apart_is_refused(calls):
    around = CELL + "\n\ndef outer(n):\n    def inner():\n        return n\n    return inner\n"
    listed = CELL + "\n\ndef listed(task):\n    return []\n"
    for function, message in [
        (cell(calls, factor=torch.ones(2)).table, "factor is tensor"),
        (cell(calls, listed).listed, "a list is not ca"),
        (cell(calls, around).outer(1), "inner reads variables of a function around it"),
    ]:
        with pytest.raises(TypeError, match=message):
            cached_call(function, Task())
    with pytest.raises(TypeError, match="an argument is"):
        cached_call(cell(calls).table, torch.ones(2))
