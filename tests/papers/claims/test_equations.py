"""Each exact check gives the known word, and another one for a wrong formula."""

import re
from pathlib import Path

import pytest
import torch
from torch.distributions import Bernoulli

from lnlab.analysis import fisher
from lnlab.nn import Identity, LayerNorm, MuSigma, RMSNorm
from lnlab.nn.table1 import ROWS
from lnlab.papers.claims import equations
from lnlab.papers.claims.entries import Statement, load_statements
from lnlab.papers.claims.judge import AMBIGUOUS, CORRECT, WRONG
from lnlab.papers.transformer.model import ARMS


def statement(**given):
    """A statement that only has what its check needs."""
    return Statement(
        paper="p", id="i", place_in_paper="1", theme="Formulas", quote="q", says="s",
        compared_quantities=["the output", "that before"], **given,
    )  # fmt: skip


def test_the_command_of_an_exact_statement_names_its_numbers(capsys):
    equations.print_check_value_per_draw("ba2016-table1")
    first, batch, drawn, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("Table 1: under which of six changes")
    assert batch.startswith(
        "the row of batch norm: table_1_row_error(batch) is at most 1e-12 in"
    )
    assert len(drawn.split()) == 11
    equations.print_check_value_per_draw("ba2016-5.2-half")
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("Right: it becomes a quarter, also by the paper's eq. 13; what")


def test_readings_that_disagree_are_ambiguous_and_say_which_is_right():
    readings = [
        {"says": says, "check_call": f"transformation_output_change({column}, layer)"}
        | {"check_upper_bound": 1e-12}
        for says, column in (("for the inputs", 9), ("for the sums", 7))
    ]
    exact = equations.judge_formula(statement(interpretations=readings))
    assert exact.verdict == AMBIGUOUS
    wrong = "the output differs from that before by up to 97 % of the largest value"
    assert exact.explanation == f"Right for the sums. Wrong for the inputs ({wrong})"
    wrong_alone = statement(interpretations=readings[:1], correction="of the sums.")
    exact = equations.judge_formula(wrong_alone)
    assert (exact.verdict, exact.explanation) == (WRONG, f"{wrong}. Right: of the sums.")


def test_a_draw_that_is_no_number_is_never_right(monkeypatch):
    values = iter([0.0, float("nan"), *[0.0] * 8] * 2)
    monkeypatch.setitem(equations.CHECKS, "eq_8_divergence_error", lambda seed: next(values))
    for bound in ("check_upper_bound", "check_lower_bound"):
        one = statement(check_call="eq_8_divergence_error", **{bound: 0.0})
        assert equations.judge_formula(one).verdict == WRONG


EXACT = {
    claim.id: claim for claim in load_statements() if claim.check_call or claim.interpretations
}
WRONG_AS_PRINTED = {
    "ba2016-5.1-eq2-eq3", "ba2016-5.1-all-rescaling", "ba2016-5.2-eq10", "ba2016-5.2-eq13",
    "ba2016-5.2-half", "ba2016-5.2-gain", "ba2016-supplement-eq35",
    "benothman2018-2.1-serve", "benothman2018-2.2-eq6", "ziaee2022-3-layer-norm",
    "ziaee2022-eq19", "ziaee2022-5-2", "wdblog-invariant",
}  # fmt: skip
TWO_READINGS = {id for id, claim in EXACT.items() if claim.interpretations} - {
    "ba2016-5.2-gain", "ba2016-table1", "ziaee2022-eq16", "ziaee2022-eq19",
    "ba2016-1-independence", "ba2016-3.1-rescaling", "ba2016-eq6",
}  # fmt: skip


def known(id):
    return WRONG if id in WRONG_AS_PRINTED else AMBIGUOUS if id in TWO_READINGS else CORRECT


@pytest.mark.parametrize("id", EXACT)
def test_the_words_are_those_that_were_derived_by_hand(id):
    assert equations.judge_formula(EXACT[id]).verdict == known(id)


def rows(**others):
    """Table 1's rows with other normalizers in their place."""
    return {"ROWS": {**ROWS, **{name: ROWS[other] for name, other in others.items()}}}


def plain(units, *args, **kwargs):
    return Identity(units)


def one_sigma(self, a, W, t=None):
    """Weight norm with one sigma for all units."""
    return MuSigma(torch.zeros(len(W)), W.norm().expand(len(W)))


def weights(batch, features):
    return {"BatchLayerNorm.term_weights": lambda self, m: (batch, features)}


NO_METRIC = {"fisher.fisher_metric": lambda glm, f=fisher.fisher_metric: 2 * f(glm)}
ALWAYS_CURRENT = {"BatchLayerNorm._is_from_population": lambda self: [False] * 4}
WITH_A_MISTAKE = {
    "ba2016-abstract-batch-size": rows(batch="layer"),
    "ba2016-abstract-train-test": rows(layer="batch"),
    "ba2016-1-independence": rows(batch="layer"),
    "ba2016-3-correlated": {"FUNCTIONS": {"relu": torch.sign, "tanh": torch.tanh}},
    "ba2016-3.1-rescaling": {"LayerNorm": RMSNorm},
    "ba2016-3.1-grow": {"FUNCTIONS": {"identity": torch.tanh, "tanh": torch.tanh}},
    "ba2016-4-reparameterization": rows(weight="layer"),
    "ba2016-table1": rows(layer="rms"),
    "ba2016-eq6": {"WeightNorm.stats": one_sigma},
    "ba2016-5.1-input-only": rows(none="layer"),
    "ba2016-5.2-eq8": NO_METRIC,
    "ba2016-5.2-eq11": {"Bernoulli": lambda logits: Bernoulli(logits=2 * logits)},
    "ba2016-5.2-eq12": NO_METRIC,
    "ba2016-5.2-orientation": rows(layer="none"),
    "ba2016-supplement-eq33": NO_METRIC,
    "ba2016-5.2-robust": {
        "fisher.gain_metric": lambda glm: glm.x.sum() + glm.W * (glm.g is not None)
    },
    "ba2016-supplement-initial": {"standardize": lambda a, axis: 0 * a},
    "ba2016-7-shifting": rows(layer="batch"),
    "brody2023-projection": {"LayerNorm": plain},
    "brody2023-selectable": {"LayerNorm": plain},
    "kim2025-variance": {"ARMS": ARMS | {"sandwich": ARMS["post"]}},
    "sun2025-variance": {"ARMS": ARMS | {"lns": ARMS["pre"]}},
    "chen2026-keel": {"ARMS": ARMS | {"keel": ARMS["post"]}},
    "chen2026-post": {"ARMS": ARMS | {"post": ARMS["keel"]}},
    "li2024-pre": {"ARMS": ARMS | {"pre": ARMS["keel"]}},
    "chen2026-sinks-jacobian": {"RMSNorm": plain},
    "cai2025-discards": {"RMSNorm": plain},
    "kanavalau2026-anchor": {"ARMS": ARMS | {"pre": ARMS["none"]}},
    "ziaee2022-2-gaussian": {"BatchNorm": plain},
    "ziaee2022-2-variance": {"product": lambda population, repeat: [[0] * repeat]},
    "ziaee2022-2-bad-input": {"BatchNorm": LayerNorm},
    "ziaee2022-eq16": {"BatchLayerNorm.term_weights": lambda self, m: (1 / m, 1 - 1 / m)},
    "ziaee2022-3-single": ALWAYS_CURRENT,
    "ziaee2022-4-m1-differs": {"EPS": 0.5},
    "ziaee2022-abstract-inference": ALWAYS_CURRENT,
    "ziaee2022-abstract-independent": weights(0.0, 1.0),
}


@pytest.mark.parametrize("id", WITH_A_MISTAKE)
def test_a_mistake_changes_the_word(id, monkeypatch):
    for name, value in WITH_A_MISTAKE[id].items():
        monkeypatch.setattr(f"{equations.__name__}.{name}", value)
    assert equations.judge_formula(EXACT[id]).verdict != known(id)


ERRATA = (Path(__file__).parents[3] / "docs" / "errata.md").read_text()
PRINTED, RIGHT = (re.findall(rf"{word} `([^`]+)`", ERRATA) for word in ("printed", "right"))


def readings(call):
    return [
        one
        for claim in EXACT.values()
        for one in claim.all_interpretations
        if one["check_call"] == call
    ]


@pytest.mark.parametrize("call", PRINTED)
def test_an_erratum_is_wrong_as_printed(call):
    wide = {"check_call": call, "compared_quantities": ["the formula"]}
    wide |= {"check_upper_bound": equations.VISIBLE}
    assert not any(equations.check_interpretation(one)[0] for one in readings(call) or [wide])


@pytest.mark.parametrize("call", RIGHT)
def test_what_an_erratum_gives_instead_is_right(call):
    held = [equations.check_interpretation(one)[0] for one in readings(call)]
    assert max(equations.run_check_draws(call)) < equations.ROUNDING or (held and all(held))


def test_an_erratum_links_to_the_claims_that_have_its_checks():
    for erratum in ERRATA.split("\n\n**")[1:]:
        calls = {*re.findall("(?:printed|right) `([^`]+)`", erratum)}
        of_claims = {
            id
            for id, claim in EXACT.items()
            for one in claim.all_interpretations
            if one["check_call"] in calls and known(id) in (WRONG, AMBIGUOUS)
        }
        linked = {*re.findall(r"\(claims\.md#([\w.-]+)\)", erratum)}
        assert of_claims <= linked, erratum.splitlines()[0]


def test_every_statement_that_is_wrong_has_an_erratum():
    for id in WRONG_AS_PRINTED:
        calls = [one["check_call"] for one in EXACT[id].all_interpretations]
        assert any(call.split("(")[0] in ERRATA for call in calls), id
        assert f"claims.md#{id})" in ERRATA, id
        assert EXACT[id].correction, id
