"""Table 2 of section 6.1 beside our own numbers."""

from dataclasses import replace

import pytest

from lnlab.papers.claims import ba2016_order_embeddings
from lnlab.papers.claims.ba2016_order_embeddings import (
    BOXES,
    TABLE_2,
    beside_table_2,
    paired_splits,
)


def test_the_table_shows_layer_less_none_over_the_splits(monkeypatch):
    monkeypatch.setattr(ba2016_order_embeddings, "numbers", lambda runs, number: {0: runs})
    splits = {0: {"none": 1.0, "layer": 3.0}, 1: {"none": 2.0, "layer": 3.5}}
    found = beside_table_2(splits)  # pyright: ignore[reportArgumentType]
    assert len(found) == len(TABLE_2)
    for _, row in found.iterrows():
        assert (row["none"], row["layer"]) == (1.5, pytest.approx(3.25))
        # t(1) = 12.7 times sqrt(0.125 (1/2 + 1,000/2,952)): splits have pictures in common
        assert row["layer − none"] == "1.75 (-2.4 to 5.9)"


def test_a_seed_that_chose_a_rate_is_in_no_table(ran):
    runs = [
        ran(replace(BOXES, norm=norm, seeds=(seed,), split=split), {seed: 1.0})
        for norm in ("none", "layer")
        for split, seed in ((0, 99), (0, 100), (1, 101), (2, 100))  # 102 is that of split 2
    ]
    splits = paired_splits(runs)
    seeds = {
        k: {norm: [*by_seed] for norm, by_seed in arms.items()} for k, arms in splits.items()
    }
    assert seeds == {0: {"none": [100], "layer": [100]}, 1: {"none": [101], "layer": [101]}}
