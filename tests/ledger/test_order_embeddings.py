"""Table 2 of section 6.1 beside our own numbers."""

import pytest

from lnlab.ledger import ba2016_order_embeddings
from lnlab.ledger.ba2016_order_embeddings import TABLE_2, beside_table_2


def test_the_table_shows_layer_less_none_over_the_splits(monkeypatch):
    monkeypatch.setattr(ba2016_order_embeddings, "numbers", lambda runs, number: {0: runs})
    splits = {0: {"none": 1.0, "layer": 3.0}, 1: {"none": 2.0, "layer": 3.5}}
    found = beside_table_2(splits)  # pyright: ignore[reportArgumentType]
    assert len(found) == len(TABLE_2)
    for _, row in found.iterrows():
        assert (row["none"], row["layer"]) == (1.5, pytest.approx(3.25))
        # t(1) = 12.7 times sqrt(0.125 (1/2 + 1,000/2,952)): splits have pictures in common
        assert row["layer − none"] == "1.75 (-2.4 to 5.9)"
