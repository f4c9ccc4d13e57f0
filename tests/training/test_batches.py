"""The order of the data is a function of seed and epoch, and of nothing else."""

import hashlib

import pytest
import torch

from lnlab.training import Batches, Bucketed, batches

x = torch.arange(23.0).unsqueeze(1)
y = torch.arange(23)


def test_order_is_the_permutation_of_seed_and_epoch():
    digest = hashlib.sha256(b"order of seed 7 in epoch 2").digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") // 2)
    order = torch.randperm(23, generator=generator)[:20]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    seen = [targets for _, targets in Batches(x, y, 5, [7]).epoch(2)]
    assert torch.equal(torch.cat(seen, 1)[0], order)
    assert torch.equal(torch.get_rng_state(), before)


def test_each_seed_sees_what_it_would_see_alone_and_no_case_twice():
    together = list(Batches(x, y, 5, (1, 2, 3)).epoch(4))
    assert len(together) == 4 == len(Batches(x, y, 5, (1,)))
    for index, seed in enumerate((1, 2, 3)):
        alone = Batches(x, y, 5, (seed,)).epoch(4)
        for (cases, targets), (one_x, one_y) in zip(together, alone, strict=True):
            assert torch.equal(cases[index], one_x[0])
            assert torch.equal(targets[index], one_y[0])
            assert torch.equal(cases[index, :, 0].long(), targets[index])
    orders = torch.cat([targets for _, targets in together], 1)
    assert [len(order.unique()) for order in orders] == [20] * 3
    assert len({tuple(order.tolist()) for order in orders}) == 3


@pytest.mark.parametrize("ahead", [1, 100, 10**6])
@pytest.mark.parametrize("start", [0, 3, 4])
def test_an_epoch_can_be_entered_anywhere(start, ahead, monkeypatch):
    made = Batches(x, y, 5, (1, 2))
    whole = list(made.epoch(1))[start:]
    monkeypatch.setattr(batches, "AHEAD", ahead)
    tail = list(made.epoch(1, start))
    assert len(tail) == 4 - start
    for one, other in zip(whole, tail, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((x, y[:-1], 5, (1,)), "x and y hold 23, 22 cases"),
        ((x, y, 24, (1,)), "a batch of 24 cases cannot be taken from 23"),
        ((x, y, 5, ()), "no seeds"),
    ],
)
def test_impossible_batches_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Batches(*arguments)


def test_cases_may_be_of_several_tensors():
    trees = Batches(({"words": y + 100}, x), y, 5, (1, 2)).epoch(1)
    for (inputs, targets), (plain, order) in zip(
        trees, Batches(x, y, 5, (1, 2)).epoch(1), strict=True
    ):
        assert torch.equal(inputs[1], plain)
        assert torch.equal(inputs[0]["words"], order + 100)
        assert torch.equal(targets, order)


# cases of like length

LENGTHS = [3, 9, 1, 4, 7, 2, 8, 5, 6, 10, 11, 12]


def gathered(places):
    """Each case is its number, as often as it is long."""
    counts = torch.tensor([LENGTHS[place] for place in places])
    x = torch.full((len(places), int(counts.max())), -1)
    for row, place in zip(x, places, strict=True):
        row[: LENGTHS[place]] = place
    return {"x": x, "counts": counts}, torch.tensor(places)


def bucketed(seeds=(0,), size=5):
    return Bucketed(LENGTHS, gathered, size, seeds, torch.device("cpu"), fill=-1)


def orders(epoch, start=0, **given):
    return [y.tolist() for _, y in bucketed(**given).epoch(epoch, start)]


def test_cases_of_a_batch_are_of_like_length_and_come_once():
    found = orders(0)
    assert len(found) == len(bucketed()) == 3
    lengths = [sorted(LENGTHS[place] for place in batch) for (batch,) in found]
    assert sorted(lengths) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12]]
    assert lengths[-1] == [11, 12]  # what is left comes last


def test_their_order_is_of_the_seed_and_the_epoch_alone():
    assert any(orders(1) != orders(epoch) for epoch in range(2, 5))
    assert orders(1, start=2) == orders(1)[2:]
    together = orders(1, seeds=(0, 7))
    for index, seed in enumerate((0, 7)):
        assert [[batch[index]] for batch in together] == orders(1, seeds=(seed,))


def test_seeds_side_by_side_are_filled_up():
    for x, y in bucketed(seeds=(0, 7), size=2).epoch(0):
        assert x["x"].shape[:2] == y.shape == x["counts"].shape
        for row, count, place in zip(
            x["x"].flatten(0, 1), x["counts"].flatten(), y.flatten(), strict=True
        ):
            assert (row[:count] == place).all()
            assert (row[count:] == -1).all()
    with pytest.raises(ValueError, match="there are no cases to train on"):
        Bucketed([], gathered, 5, [0], torch.device("cpu"))
