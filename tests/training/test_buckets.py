"""Batches of like length: each case once an epoch, the order of seed and epoch alone."""

import pytest
import torch

from lnlab.training import Bucketed

LENGTHS = [3, 9, 1, 4, 7, 2, 8, 5, 6, 10, 11, 12]
CPU = torch.device("cpu")


def gathered(places):
    """Each case is its number, as often as it is long."""
    counts = torch.tensor([LENGTHS[place] for place in places])
    x = torch.full((len(places), int(counts.max())), -1)
    for row, place in zip(x, places, strict=True):
        row[: LENGTHS[place]] = place
    return {"x": x, "counts": counts}, torch.tensor(places)


def bucketed(seeds=(0,), size=5):
    return Bucketed(LENGTHS, gathered, size, seeds, CPU, fill=-1)


def orders(epoch, start=0, **given):
    return [y.tolist() for _, y in bucketed(**given).epoch(epoch, start)]


def test_every_case_comes_once_in_an_epoch():
    found = orders(0)
    assert len(found) == len(bucketed()) == 3
    assert sorted(place for (batch,) in found for place in batch) == [*range(12)]


def test_cases_of_a_batch_are_of_like_length():
    lengths = [sorted(LENGTHS[place] for place in batch) for (batch,) in orders(0)]
    assert sorted(lengths) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12]]
    assert lengths[-1] == [11, 12]  # what is left comes last


def test_the_order_is_of_the_seed_and_the_epoch_alone():
    assert orders(1) == orders(1)
    assert any(orders(1) != orders(epoch) for epoch in range(2, 5))
    assert orders(1, start=2) == orders(1)[2:]
    together = orders(1, seeds=(0, 7))
    for place, seed in enumerate((0, 7)):
        assert [[batch[place]] for batch in together] == orders(1, seeds=(seed,))


def test_seeds_side_by_side_are_filled_up():
    for x, y in bucketed(seeds=(0, 7), size=2).epoch(0):
        assert x["x"].shape[:2] == y.shape == x["counts"].shape
        for row, count, place in zip(
            x["x"].flatten(0, 1), x["counts"].flatten(), y.flatten(), strict=True
        ):
            assert (row[:count] == place).all()
            assert (row[count:] == -1).all()


def test_nothing_to_train_on_is_said():
    with pytest.raises(ValueError, match="there are no cases to train on"):
        Bucketed([], gathered, 5, [0], CPU)
