"""Where nobody watches, progress is a few plain lines; elsewhere it is tqdm's bar."""

import sys
import time

import pytest

from lnlab.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when the test says so, and nobody who watches."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    return now


def ticking(clock, count, seconds):
    for item in range(count):
        clock[0] += seconds
        yield item


def test_headless_says_a_tenth_every_ten_seconds_and_the_end(clock, capsys):
    assert list(progress(ticking(clock, 100, 0.5), 100, "training")) == list(range(100))
    for item in (items := progress(ticking(clock, 5, 1.0), 5, "training")):
        if item == 2:
            break
    items.close()
    assert list(progress([], 0, "training")) == []
    assert list(progress(ticking(clock, 3, 60), 3, "training", shown=False)) == [0, 1, 2]
    assert capsys.readouterr().out.splitlines() == [
        "training: 20 of 100, 10 s",
        "training: 40 of 100, 20 s",
        "training: 60 of 100, 30 s",
        "training: 80 of 100, 40 s",
        "training: 100 of 100 in 50.0 s",
        "training: 3 of 5 in 3.0 s",
        "training: 0 of 0 in 0.0 s",
    ]


def test_terminal_gets_a_bar(monkeypatch, capsys):
    monkeypatch.delenv("LNLAB_HEADLESS", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(progress(range(3), 3, "training")) == [0, 1, 2]
    captured = capsys.readouterr()
    assert "training: 100%" in captured.err
    assert captured.out == ""


def test_a_live_notebook_keeps_its_bar_in_letters(monkeypatch, capsys):
    monkeypatch.delenv("LNLAB_HEADLESS", raising=False)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert list(progress([1, 2], 2, "training")) == [1, 2]
    captured = capsys.readouterr()
    assert "training: 100%" in captured.out
    assert "2/2" in captured.out
    assert captured.err == ""  # which a notebook shows on red
