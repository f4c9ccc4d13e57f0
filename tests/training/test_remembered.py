"""What is remembered is found by what made it, and by nothing else."""

import linecache
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from lnlab.training.cache import remembered

CELL = """
def scaled(x):
    return x * factor


def made(task, times=1):
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


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))


@pytest.fixture
def calls():
    return Calls()


class Calls(list):
    """A list of a checksum of its own, as data have: what it holds decides nothing."""

    checksum = "data"


def cell(calls, source=CELL, **values):
    """The functions of a cell of a notebook."""
    name = f"<cell {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    notebook = {"pd": pd, "torch": torch, "factor": 2.0, "calls": calls, **values}
    exec(compile(source, name, "exec"), notebook)
    return SimpleNamespace(**notebook)


def test_second_call_gives_the_same_bytes_and_makes_nothing(calls):
    for make in (cell(calls).made, cell(calls).made):
        frame = remembered(make, Task())
        pd.testing.assert_frame_equal(frame, make(Task()), check_exact=True)
        calls.pop()
    assert len(calls) == 1
    first, again = (remembered(cell(calls).weights, Task(0.3)) for _ in range(2))
    assert len(calls) == 2
    assert first.keys() == again.keys() == {"W", "n"}
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert again["n"].dtype == torch.int64
    assert bool((again["W"] == 0.3).all())


@pytest.mark.parametrize(
    ("source", "values", "given"),
    [
        (CELL, {}, Task(0.2)),
        (CELL, {"factor": 3.0}, Task()),
        (CELL.replace("x * factor", "x + factor"), {}, Task()),
        (CELL.replace("times=1", "times=2"), {}, Task()),
    ],
    ids=["what is given", "a value", "a function beside it", "a default"],
)
def test_anything_that_decides_it_makes_it_again(calls, source, values, given):
    remembered(cell(calls).made, Task())
    make = cell(calls, source, **values).made
    frame = remembered(make, given)
    assert len(calls) == 2
    pd.testing.assert_frame_equal(frame, make(given), check_exact=True)


def test_other_data_makes_it_again(calls):
    remembered(cell(calls).made, Task())
    calls.checksum = "other data"
    remembered(cell(calls).made, Task())
    assert len(calls) == 2


def test_a_field_of_a_task_is_no_value_beside_the_function_that_asks_for_it(calls):
    remembered(cell(calls).made, Task())
    remembered(cell(calls, rate=torch.ones(2)).made, Task())
    assert len(calls) == 1


def test_tasks_beside_a_function_decide_it_too(calls):
    source = CELL + "\n\ndef named(name):\n    return weights(tasks[name])\n"
    for rate in (0.1, 0.2, 0.1):
        found = remembered(cell(calls, source, tasks={"layer": Task(rate)}).named, "layer")
        assert bool((found["W"] == rate).all())
    assert len(calls) == 2


def test_what_cannot_be_told_apart_is_refused(calls):
    with pytest.raises(TypeError, match=r"given .*give plain values, or a task"):
        remembered(cell(calls).made, torch.ones(2))
    with pytest.raises(TypeError, match="scaled reads factor, a Tensor"):
        remembered(cell(calls, factor=torch.ones(2)).made, Task())
    with pytest.raises(TypeError, match="numbers and words by column"):
        remembered(cell(calls, CELL.replace('"d"]})', '"d"]}).set_index("n")')).made, Task())
    own = CELL + "\n\nclass Own:\n    x = 1\n\n\ndef asks(task):\n    return Own.x\n"
    with pytest.raises(TypeError, match="asks reads Own, a type"):
        remembered(cell(calls, own, __name__="__main__").asks, Task())
    part = partial(torch.mul, 2.0)
    with pytest.raises(TypeError, match="made reads scaled, a partial"):
        remembered(
            cell(calls, CELL.replace("def scaled", "def other"), scaled=part).made, Task()
        )
    around = "\n\ndef outer(n):\n    def inner():\n        return n\n    return inner\n"
    with pytest.raises(TypeError, match="inner has something from around it"):
        remembered(cell(calls, CELL + around).outer(1))
    default = CELL.replace("times=1", "times=torch.arange(2000.0)")
    with pytest.raises(TypeError, match="a default that is not plain"):
        remembered(cell(calls, default).made, Task())
    with pytest.raises(TypeError, match="a list is not kept"):
        remembered(cell(calls, CELL + "\n\ndef listed():\n    return []\n").listed)
