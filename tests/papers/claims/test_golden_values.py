"""Every number of the earlier ledger is a number of an entry, seed by seed."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lnlab.papers.claims.entries import load
from lnlab.papers.claims.pairs import PairedRuns, Runs
from lnlab.training.runs import read

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "claims.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_every_measured_value_is_read_again():
    """Signs may be turned, and fractions be told as points; nothing else may differ."""
    runs = Runs(read(ROOT / "results"))
    compared = [s for claim in load() for s in claim.settings if not s.numbers]
    measured = []
    for setting in compared:
        one = PairedRuns(setting, runs)
        values = np.array(one.effects) - one.expected * (setting.effect == "ratio")
        measured.append((setting.seeds[0], setting.scale, values))
    missing = [
        id
        for id, golden in GOLDEN.items()
        if golden["kind"] == "measurement" and is_measured(golden)
        if not any(agrees(golden, *one) for one in measured)
    ]
    assert missing == []


def is_measured(golden):
    # a score that says nothing of a seed has no number; two statements repeat an equation
    values = golden.get("values", ())
    return any(isinstance(v, float) and v == v for v in values) and golden["seeds"][0] >= 99


def agrees(golden, seed, scale, values):
    if (seed, len(values)) != (golden["seeds"][0], len(golden["values"])):
        return False
    wanted = np.array([v if isinstance(v, float) else math.nan for v in golden["values"]])
    there = np.isfinite(wanted)
    return any(
        np.allclose(factor * values[there], wanted[there], rtol=1e-5, atol=1e-7)
        for factor in (1, -1, 1 / scale, -1 / scale)
    )
