"""Random numbers that are lent: they go on inside, and nothing is seen of them outside."""

import pytest
import torch

from lnlab.training.random_state import Noise, available, read_device


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


@pytest.mark.parametrize(("there", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_cuda_where_there_is_one(there, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert read_device("auto") == torch.device(chosen)
    assert read_device("cpu") == available("cpu") == torch.device("cpu")
