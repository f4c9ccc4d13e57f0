"""Each exact check gives the known word, and another one for a wrong formula."""

import pytest

from lnlab.papers.claims import equations
from lnlab.papers.claims.entries import Statement, read
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
        "of the inputs: wrong (up to 0.97); of the sums: right (nothing but rounding)"
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
