"""Notebooks begin in an order in which the quick ones are early and none ends alone."""

from pathlib import Path

from lnlab.workbook.running import turns

SECONDS = {
    Path(name): float(seconds) for name, seconds in zip("abcd", (40, 275, 8, 20), strict=True)
}


def begun(jobs):
    return "".join(map(str, turns(SECONDS, jobs)))


def test_quick_notebooks_are_first():
    assert begun(1) == "cdab"


def test_the_longest_begins_beside_the_quickest():
    assert begun(2) == "cbda"
    assert begun(3) == "cdba"


def test_as_many_at_a_time_as_there_are_begin_at_once():
    assert begun(4) == begun(9) == "cdab"
