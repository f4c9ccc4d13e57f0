"""Random numbers that are lent to a run, and trees of tensors on its device."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lnlab.training import random_state
from lnlab.training.random_state import IsolatedTorchRandomState, move_to_device, read_device
from tests.training.conftest import random_numbers


def test_random_numbers_go_on_from_block_to_block():
    noise, numbers = IsolatedTorchRandomState("test", torch.device("cpu")), []
    for _ in range(4):
        with noise:
            numbers.append(random_numbers())
        random_numbers()
    assert len({number for row in numbers for number in row}) == 8
    again = IsolatedTorchRandomState("test", torch.device("cpu"))
    with again:
        assert random_numbers() == numbers[0]
    noise.state = again.state
    with noise:
        assert random_numbers() == numbers[1]


@pytest.mark.parametrize(("cuda", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_cuda_where_there_is_one(cuda, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    tried = []
    monkeypatch.setattr(torch, "empty", lambda *_, device: tried.append(device))
    assert read_device("auto") == torch.device(chosen)
    assert tried == [chosen]


class Speech(NamedTuple):
    words: Tensor
    sounds: Tensor
    lengths: Tensor
    on_cpu = ("lengths",)


def test_a_batch_is_sent_from_pinned_memory_but_for_its_lengths(monkeypatch):
    meta, pinned = torch.device("meta"), []
    monkeypatch.setattr(random_state, "PINNED", ("meta",))
    monkeypatch.setattr(Tensor, "pin_memory", lambda one: pinned.append(one) or one)
    lengths = torch.tensor([2, 1, 1])
    batch = Speech(torch.arange(3), torch.ones(3, 2), lengths), torch.ones(3)
    x, y = move_to_device(batch, meta, torch.float64)
    assert len(pinned) == 3
    assert x.words.device == x.sounds.device == y.device == meta
    assert (x.words.dtype, x.sounds.dtype, y.dtype) == (torch.int64, *[torch.float64] * 2)
    assert x.lengths is lengths
    move_to_device(x.words, meta)  # it is on the device already
    assert len(pinned) == 3
