"""nbformat is imported without a grammar that takes longer to build than all else."""

import sys
from importlib import reload

from lnlab.workbook import addresses


def test_the_grammar_of_international_addresses_is_not_built(monkeypatch):
    monkeypatch.delitem(sys.modules, "rfc3987_syntax", raising=False)
    reload(addresses)
    assert sys.modules["rfc3987_syntax"] is None
    monkeypatch.delitem(sys.modules, "rfc3987_syntax")


def test_one_that_is_there_already_is_left(monkeypatch):
    there = object()
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", there)
    reload(addresses)
    assert sys.modules["rfc3987_syntax"] is there
