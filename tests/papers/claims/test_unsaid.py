"""What the ledger refuses to forget of claims that had a verdict."""

import json
from copy import deepcopy

import pytest

from lnlab.papers.claims import judging, kept
from lnlab.papers.claims.claim import unsaid

OLD = {
    "id": "study2026-1-faster",
    "verdict": "also seen",
    "interval": [-0.4, -0.1],
    "values": [-0.2, -0.3, None],
    "declared": {
        "seeds": [100, 101, 102], "margin": 0.1, "family": "nets", "exact": False,
        "says": "less than 0", "failed": None, "shared": 0.0, "version": 1,
    },
    "history": [],
}  # fmt: skip


def changed(version=1, verdict="also seen", values=None, history=(), **declared):
    new = deepcopy(OLD) | {"verdict": verdict, "history": list(history)}
    new["values"] = OLD["values"] if values is None else values
    new["declared"] |= declared | {"version": version}
    return new


def before(verdict="also seen", interval="-0.4 to -0.1"):
    return {"verdict": verdict, "reason": "a slip", "interval": interval}


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (changed(), ""),
        (changed(values=[-0.2, -0.30001, None]), ""),
        (changed(values=[-0.2, -0.31, None]), "values changed"),
        (changed(values=[-0.2, -0.3, -0.1]), "values changed"),
        (changed(verdict="not yet run", values=[]), "values changed"),
        (changed(margin=0.05), "margin changed"),
        (changed(seeds=[100, 101], family="net"), "seeds, family changed"),
        (changed(2, margin=0.05), "no Before has what was there (also seen, -0.4 to -0.1)"),
        (changed(2, history=[before(interval="-0.5 to -0.1")]), "no Before"),
        (changed(2, history=[before(verdict="not seen")]), "no Before"),
        (changed(2, margin=0.05, history=[before()]), ""),
        (changed(3, history=[before("not seen", "0.1 to 0.2"), before()]), ""),
    ],
)
def test_a_verdict_changes_only_with_a_version_and_a_history(new, said):
    found = list(unsaid([OLD], [new]))
    assert len(found) == bool(said)
    assert not said or (found[0].startswith("study2026-1-faster: ") and said in found[0])


def test_no_claim_that_had_a_verdict_goes_away():
    assert "is gone" in next(unsaid([OLD], []))
    assert not list(unsaid([OLD | {"verdict": "not yet run"}], []))


def test_where_something_is_unsaid_the_kept_verdicts_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "entries", lambda runs: [changed(margin=0.05)])
    path = tmp_path / kept.NAME
    path.write_text(json.dumps({"source": "", "claims": [OLD]}))
    there = path.read_bytes()
    with pytest.raises(ValueError, match="margin changed"):
        kept.judge([tmp_path])
    assert path.read_bytes() == there
    kept.judge([tmp_path], withdrawn=["study2026-1-faster"])
    assert json.loads(path.read_text())["claims"][0]["declared"]["margin"] == 0.05


def test_ones_own_runs_are_judged_freely(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "entries", lambda runs: [changed(margin=0.05)])
    ours, own = tmp_path / "results", tmp_path / "runs"
    (own / "mnist" / "abc").mkdir(parents=True)
    (own / "mnist" / "abc" / "result.json").write_text("{}")
    for root in (ours, own):
        root.mkdir(exist_ok=True)
        (root / kept.NAME).write_text(json.dumps({"source": "", "claims": [OLD]}))
    monkeypatch.setattr("lnlab.training.runs.read", lambda roots: [])
    assert kept.judge([ours, own]) == own / kept.NAME
