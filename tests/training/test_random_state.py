"""Random numbers that are lent to a run, and trees of tensors on its device."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lnlab.training import random_state
from lnlab.training.random_state import Noise, available, placed, read_device


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


@pytest.mark.parametrize(("cuda", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_cuda_where_there_is_one(cuda, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    assert read_device("auto") == torch.device(chosen)
    assert read_device("cpu") == available("cpu") == torch.device("cpu")


META = torch.device("meta")


class Spoken(NamedTuple):
    words: Tensor
    sounds: Tensor
    lengths: Tensor
    on_cpu = ("lengths",)


def test_a_batch_is_pinned_and_sent_but_for_its_lengths(monkeypatch):
    pinned, sent, to = [], [], Tensor.to

    def pin_memory(tensor):
        pinned.append(tensor)
        return tensor

    def watched(tensor, *place, **how):
        if META in place:
            sent.append((any(tensor is one for one in pinned), how.get("non_blocking", False)))
        return to(tensor, *place, **how)

    monkeypatch.setattr(random_state, "PINNED", ("meta",))
    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(Tensor, "to", watched)
    lengths = torch.tensor([2, 1, 1])
    batch = Spoken(torch.arange(3), torch.ones(3, 2), lengths), torch.ones(3)
    x, y = placed(batch, META, torch.float64)
    assert sent == [(True, True)] * 3
    assert x.words.device == x.sounds.device == y.device == META
    assert (x.words.dtype, x.sounds.dtype, y.dtype) == (torch.int64, *[torch.float64] * 2)
    assert x.lengths is lengths
    placed(x.words, META)  # it is there
    assert sent[3:] == [(False, False)]
