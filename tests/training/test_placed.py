"""Trees of tensors on a device: what goes there, as what, and that nobody waits for a GPU."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lnlab.training import random_state
from lnlab.training.random_state import placed

META = torch.device("meta")


class Spoken(NamedTuple):
    words: Tensor
    sounds: Tensor
    lengths: Tensor
    on_cpu = ("lengths",)


@pytest.fixture
def batch():
    return Spoken(torch.arange(3), torch.ones(3, 2), torch.tensor([2, 1, 1])), torch.ones(3)


def test_numbers_become_a_dtype_and_lengths_stay(batch):
    x, y = placed(batch, META, torch.float64)
    assert x.words.device == x.sounds.device == y.device == META
    assert x.lengths is batch[0].lengths
    assert (x.words.dtype, x.sounds.dtype, y.dtype) == (torch.int64, *[torch.float64] * 2)
    assert placed(batch, META)[1].dtype == batch[1].dtype


def test_a_gpu_fetches_from_pinned_memory_and_nobody_waits(batch, monkeypatch):
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
    x, _ = placed(batch, META, torch.float64)
    assert sent == [(True, True)] * 3
    assert x.sounds.dtype == torch.float64
    placed(x.words, META)  # it is there
    assert sent[3:] == [(False, False)]
