"""The order of the data is a function of seed and epoch, and of nothing else."""

import hashlib

import pytest
import torch

from lnlab.training import Batches, BucketedBatches, batches

x = torch.arange(23.0).unsqueeze(1)
y = torch.arange(23)


def test_order_is_the_permutation_of_seed_and_epoch():
    digest = hashlib.sha256(b"order of seed 7 in epoch 2").digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") // 2)
    order = torch.randperm(23, generator=generator)[:20]
    before = torch.get_rng_state()
    batches_of_seeds = list(Batches(({"words": y + 100}, x), y, 5, (1, 7)).batches_of_epoch(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert len(batches_of_seeds) == 4
    targets = torch.cat([targets for _, targets in batches_of_seeds], 1)
    assert torch.equal(targets[1], order)
    assert [len(row.unique()) for row in targets] == [20, 20]
    assert not torch.equal(targets[0], targets[1])
    for (inputs, plain), targets in batches_of_seeds:  # cases may be of several tensors
        assert torch.equal(plain[..., 0].long(), targets)
        assert torch.equal(inputs["words"], targets + 100)


@pytest.mark.parametrize("ahead", [1, 100, 10**6])
def test_an_epoch_can_be_entered_anywhere(ahead, monkeypatch):
    made = Batches(x, y, 5, (1, 2))
    whole = list(made.batches_of_epoch(1))
    monkeypatch.setattr(batches, "GATHER_BYTES", ahead)
    for start in (0, 3, 4):
        tail = list(made.batches_of_epoch(1, start))
        assert len(tail) == 4 - start
        for batch, expected in zip(tail, whole[start:], strict=True):
            assert all(map(torch.equal, batch, expected))


# cases of like length

LENGTHS = [3, 9, 1, 4, 7, 2, 8, 5, 6, 10, 11, 12]


def collate(indices):
    """Return a batch in which each example is its index, as often as it is long."""
    counts = torch.tensor([LENGTHS[index] for index in indices])
    x = torch.full((len(indices), int(counts.max())), -1)
    for row, index in zip(x, indices, strict=True):
        row[: LENGTHS[index]] = index
    return {"x": x, "counts": counts}, torch.tensor(indices)


def bucketed(seeds=(0,), size=5):
    return BucketedBatches(LENGTHS, collate, size, seeds, torch.device("cpu"), fill=-1)


def orders(epoch, start=0, **settings):
    return [y.tolist() for _, y in bucketed(**settings).batches_of_epoch(epoch, start)]


def test_cases_of_a_batch_are_of_like_length_and_come_once():
    lengths = [sorted(LENGTHS[index] for index in batch) for (batch,) in orders(0)]
    assert len(lengths) == len(bucketed()) == 3
    assert sorted(lengths) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12]]
    assert lengths[-1] == [11, 12]  # what is left comes last
    assert any(orders(1) != orders(epoch) for epoch in range(2, 5))
    assert orders(1, start=2) == orders(1)[2:]


def test_seeds_side_by_side_see_what_they_would_alone_padded():
    together = orders(1, seeds=(0, 7), size=2)
    for index, seed in enumerate((0, 7)):
        assert [[row[index]] for row in together] == orders(1, seeds=(seed,), size=2)
    for x, y in bucketed(seeds=(0, 7), size=2).batches_of_epoch(1):
        rows = zip(x["x"].flatten(0, 1), x["counts"].flatten(), y.flatten(), strict=True)
        for row, count, index in rows:
            assert (row[:count] == index).all()
            assert (row[count:] == -1).all()
    with pytest.raises(ValueError, match="there are no examples to train on"):
        BucketedBatches([], collate, 5, [0], torch.device("cpu"))
