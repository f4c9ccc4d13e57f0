"""Seeds draw the same numbers for everyone, and what has no numbers is refused."""

import re
from pathlib import Path

import pytest
import torch

from lnlab import analysis
from lnlab.analysis.arguments import normal, uniform

both = pytest.mark.parametrize("draw", [normal, uniform])


@both
def test_more_numbers_begin_with_the_fewer(draw):
    assert torch.equal(draw(3, 1, 4, 5).flatten()[:7], draw(3, 1, 7))
    assert draw(3, 1, 7).dtype == torch.float64


@both
def test_seeds_and_streams_differ_from_one_another(draw):
    drawn = [draw(*which, 3) for which in ((0, 1), (1, 0), (1, 1), (0, (1, 1)), (0, (1, 2)))]
    assert len({tuple(numbers.tolist()) for numbers in drawn}) == len(drawn)
    assert torch.equal(draw(2, (1,), 3), draw(2, 1, 3))


@both
def test_the_random_state_of_the_program_has_no_part_in_it(draw):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = draw(0, 0, 3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(draw(0, 0, 3), first)


@pytest.mark.parametrize("which", [(-1, 0), (0, -1), (0, (1, -2))])
def test_negative_seeds_are_refused(which):
    with pytest.raises(ValueError, match="non-negative"):
        normal(*which, 3)


def test_uniform_numbers_fill_the_unit_interval():
    numbers = uniform(0, 0, 1000)
    assert 0 <= numbers.min() < 0.01
    assert 0.99 < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.03


def test_the_room_seeds_in_no_other_way():
    (room,) = analysis.__path__
    seeded = re.compile(r"torch\.Generator\(|default_rng\(|RandomState\(")
    found = {path.name for path in Path(room).rglob("*.py") if seeded.search(path.read_text())}
    assert found == {"arguments.py"}
