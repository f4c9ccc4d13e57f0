"""Random numbers that are lent: they go on inside, and nothing is seen of them outside."""

import pytest
import torch

from lnlab.training.machine import Noise


@pytest.mark.parametrize("library", ["torch", "numpy", "Python"])
def test_numbers_go_on_from_block_to_block(library, draw):
    noise, drawn = Noise("test", torch.device("cpu")), []
    for _ in range(5):
        with noise:
            drawn.append(draw(library))
        draw(library)
    assert len({*drawn}) == 5

    again = Noise("test", torch.device("cpu"))
    with again:
        assert draw(library) == drawn[0]
    noise.state = again.state
    with noise:
        assert draw(library) == drawn[1]


def test_state_has_one_size_whatever_was_drawn(draw):
    """Ranks gather each other's."""
    noise = Noise("test", torch.device("cpu"))
    before = [(part.shape, part.dtype) for part in noise.state]
    with noise:
        for library in ("torch", "numpy", "Python"):
            draw(library)
    assert [(part.shape, part.dtype) for part in noise.state] == before
