"""The order of the data is a function of seed and epoch."""

import hashlib

import pytest
import torch

from lnlab.training import Batches, batches

x = torch.arange(23.0).unsqueeze(1)
y = torch.arange(23)


def test_order_is_the_permutation_of_seed_and_epoch():
    digest = hashlib.sha256(b"order of seed 7 in epoch 2").digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") // 2)
    order = torch.randperm(23, generator=generator)[:20]
    seen = [targets for _, targets in Batches(x, y, 5, [7]).epoch(2)]
    assert torch.equal(torch.cat(seen, 1)[0], order)


def test_each_seed_sees_what_it_would_see_alone():
    together = list(Batches(x, y, 5, (1, 2, 3)).epoch(4))
    assert len(together) == 4 == len(Batches(x, y, 5, (1,)))
    for index, seed in enumerate((1, 2, 3)):
        alone = Batches(x, y, 5, (seed,)).epoch(4)
        for (cases, targets), (one_x, one_y) in zip(together, alone, strict=True):
            assert cases.shape == (3, 5, 1)
            assert torch.equal(cases[index], one_x[0])
            assert torch.equal(targets[index], one_y[0])
            assert torch.equal(cases[index, :, 0].long(), targets[index])


def test_no_case_comes_twice_in_an_epoch_and_orders_differ():
    made = Batches(x, y, 5, (1, 2))
    epochs = [torch.cat([targets for _, targets in made.epoch(e)], 1) for e in range(3)]
    for epoch in epochs:
        for order in epoch:
            assert len(order.unique()) == 20
    orders = {tuple(order.tolist()) for epoch in epochs for order in epoch}
    assert len(orders) == 6


@pytest.mark.parametrize("start", range(5))
def test_epoch_can_be_entered_anywhere(start):
    made = Batches(x, y, 5, (1, 2))
    whole = list(made.epoch(1))[start:]
    tail = list(made.epoch(1, start))
    assert len(tail) == len(whole) == 4 - start
    for one, other in zip(whole, tail, strict=True):
        assert torch.equal(one[0], other[0])


def test_order_neither_reads_nor_moves_the_common_generator():
    made = Batches(x, y, 5, (1,))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = [targets for _, targets in made.epoch(0)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(torch.cat(first), torch.cat([targets for _, targets in made.epoch(0)]))


@pytest.mark.parametrize("ahead", [1, 100, 10**6])
def test_how_much_is_gathered_at_once_does_not_show(ahead, monkeypatch):
    expected = list(Batches(x, y, 5, (1, 2)).epoch(0))
    monkeypatch.setattr(batches, "AHEAD", ahead)
    for one, other in zip(expected, Batches(x, y, 5, (1, 2)).epoch(0), strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((x, y[:-1], 5, (1,)), "x and y hold 23, 22 cases"),
        ((x, y, 24, (1,)), "a batch of 24 cases cannot be taken from 23"),
        ((x, y, 0, (1,)), "a batch of 0 cases"),
        ((x, y, 5, ()), "no seeds"),
    ],
)
def test_impossible_batches_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Batches(*arguments)


def test_cases_may_be_of_several_parts_and_words_remain_whole():
    parts = {"words": y + 100, "lengths": y + 1}, x
    trees = Batches(*parts, 5, (1, 2)).epoch(1)
    for (tree, cases), (plain, places) in zip(
        trees, Batches(x, y, 5, (1, 2)).epoch(1), strict=True
    ):
        assert torch.equal(cases, plain)
        assert torch.equal(tree["words"], places + 100)
        assert torch.equal(tree["lengths"], places + 1)
        assert tree["words"].dtype == torch.int64
    with pytest.raises(ValueError, match="x and y hold 3, 23, 23 cases"):
        Batches({"words": y[:3], "lengths": y}, x, 5, (1,))
