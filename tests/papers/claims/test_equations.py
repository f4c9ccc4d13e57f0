"""Each exact check gives the known word, and another one for a wrong formula."""

import re
from pathlib import Path

import pytest

from lnlab.papers.claims import equations
from lnlab.papers.claims.entries import Statement, load, read
from lnlab.papers.claims.judge import AMBIGUOUS, CORRECT, WRONG


def statement(**given):
    """A statement that only has what its check needs."""
    return Statement(
        paper="p", id="i", source="1", theme="Formulas", quote="q", says="s", **given
    )


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"check": "invariant(7, layer)", "within": 1e-12}, CORRECT),
        ({"check": "invariant(9, layer)", "within": 1e-12}, WRONG),
        ({"check": "invariant(9, layer)", "beyond": 0.01}, CORRECT),
        ({"check": "invariant(7, layer)", "beyond": 0.01}, WRONG),
    ],
)
def test_the_bound_decides(given, word):
    assert equations.judge(statement(**given)).word == word


def test_readings_that_disagree_are_ambiguous_and_say_which_is_right():
    readings = [
        {"says": "of the inputs", "check": "invariant(9, layer)", "within": 1e-12},
        {"says": "of the sums", "check": "invariant(7, layer)", "within": 1e-12},
    ]
    exact = equations.judge(statement(readings=readings))
    assert exact.word == AMBIGUOUS
    assert exact.found == (
        "of the inputs: wrong (largest 0.97); of the sums: right (largest 0 but for rounding)"
    )
    assert equations.judge(statement(readings=readings[:1])).word == WRONG


def test_a_draw_that_is_no_number_is_never_right(monkeypatch):
    values = iter([0.0, float("nan"), *[0.0] * 8] * 2)
    monkeypatch.setitem(equations.CHECKS, "eq_8", lambda seed: next(values))
    for bound in ("within", "beyond"):
        assert equations.judge(statement(check="eq_8", **{bound: 0.0})).word == WRONG


def test_a_check_without_a_bound_is_refused(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(
        'paper = "p"\n[[claim]]\nid = "i"\nsource = "1"\ntheme = "Formulas"\nquote = "q"\n'
        'says = "s"\ncheck = "eq_8"\n'
    )
    with pytest.raises(ValueError, match=r"p.toml, i: .*within and beyond"):
        read(path)


EXACT = {claim.id: claim for claim in load() if claim.check or claim.readings}
WRONG_AS_PRINTED = {
    "ba2016-5.1-eq2-eq3", "ba2016-5.1-all-rescaling", "ba2016-5.2-eq10", "ba2016-5.2-eq13",
    "ba2016-5.2-half", "ba2016-5.2-gain", "ba2016-5.2.2-error", "ba2016-supplement-eq35",
    "benothman2018-2.1-serve", "benothman2018-2.2-eq6", "ziaee2022-3-layer-norm",
    "ziaee2022-eq19", "ziaee2022-5-2",
}  # fmt: skip
TWO_READINGS = {id for id, claim in EXACT.items() if claim.readings} - {"ziaee2022-eq19"}


@pytest.mark.parametrize("id", EXACT)
def test_the_words_are_those_that_were_derived_by_hand(id):
    known = WRONG if id in WRONG_AS_PRINTED else AMBIGUOUS if id in TWO_READINGS else CORRECT
    assert equations.judge(EXACT[id]).word == known


ERRATA = (Path(__file__).parents[3] / "docs" / "errata.md").read_text()
PRINTED, RIGHT = (re.findall(rf"{word} `([^`]+)`", ERRATA) for word in ("printed", "right"))


@pytest.mark.parametrize("call", PRINTED)
def test_an_erratum_is_wrong_as_printed(call):
    assert min(equations.draws(call)) > equations.VISIBLE
    readings = [one for claim in EXACT.values() for one in claim.ways if one["check"] == call]
    assert all(not equations.holds(one)[0] for one in readings)


@pytest.mark.parametrize("call", RIGHT)
def test_what_an_erratum_gives_instead_is_right(call):
    assert max(equations.draws(call)) < equations.ROUNDING


def test_every_statement_that_is_wrong_has_an_erratum():
    for id in WRONG_AS_PRINTED:
        calls = [one["check"] for one in EXACT[id].ways]
        assert any(call.split("(")[0] in ERRATA for call in calls), id
