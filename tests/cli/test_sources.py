"""What is read of a task is what it has."""

import dataclasses

import pytest

from lnlab.cli.train import defaults, subject
from lnlab.papers import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_the_fields_that_are_read_are_those_of_the_class(name):
    there = {field.name: field.default for field in dataclasses.fields(TASKS[name])}
    assert list(defaults(name).items()) == list(there.items())


def test_the_subject_is_the_first_line_of_the_module():
    assert subject("handwriting") == (
        "Layer norm in a net that writes by hand: Ba et al. (2016), section 6.5 and Fig. 5."
    )


def test_a_task_that_is_not_there_is_told():
    with pytest.raises(ValueError, match=r"no task 'mnits'\. There are: mnist, "):
        defaults("mnits")
