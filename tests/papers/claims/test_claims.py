"""The ledger's rows: well-formed, declared before they run, and judged as is known."""

import re
import shlex
from collections import Counter

import pytest

import lnlab.papers.claims
from lnlab import paths
from lnlab.cli import app
from lnlab.cli.train import parse_settings
from lnlab.papers import TASKS
from lnlab.papers.claims import benothman2018, kept
from lnlab.papers.claims.claim import Evidence
from lnlab.papers.claims.judging import CLAIMS, entries, together
from lnlab.papers.claims.kept import found
from lnlab.papers.claims.rule import Kind, Verdict
from lnlab.training.runs import read

WRONG = {
    "ba2016-5.1-all-rescaling",  # Table 1 says No of weight norm
    "ba2016-5.2-eq13-layer",  # mu and sigma are shared
    "ba2016-5.2.2-error",  # eq. 33 has (a - mu)/sigma of the case
    "ba2016-5.2-gain",  # eq. 32 needs outputs whose covariance does not depend on x
    "ba2016-supplement-eq35-sides",  # four elements on the left, one on the right
    "ba2016-supplement-initial",  # alpha and beta are swapped
    "benothman2018-2.2-eq6",  # a factor c too many
    "benothman2018-2.1-standard",  # to mean b and deviation g
    "ziaee2022-eq19",  # the factor is of the variance
    "ziaee2022-eq21",  # and m counts no features
    "ziaee2022-3-layer-norm",  # each case has its own statistics
    "ziaee2022-3-range",  # 1 - (1/1 + eps) = -eps
    "ziaee2022-5-2-features",  # Table 2 A has E_F = True
    "ba2016-5.2-eq10",  # c has no a in it
    "benothman2018-4.1-eq10",  # of an epoch
}
"""What the papers say of their equations and tables and is not so."""

OPEN = {
    "ba2016-3-correlated",  # more than chance, by .05; not above 1/2, nor always above tanh
    "benothman2018-4.1-up-to-librispeech",  # 2.5 points are 2 or 3
    "ba2016-5.2-robust-weight",  # eq. 34, of weight norm, has the form of eq. 35
    "ba2016-5.2-half",  # the block scales by 1/4, as by eq. 13, its root by 1/2
    "benothman2018-4.1-up-to-timit",  # 2.3 points, 8.6 %
    "ba2016-3.1-grow",  # not where inputs go on
    "benothman2018-2.1-serve",  # together they do
    "ziaee2022-4-m1-differs",  # but for its scale it is 0.9999 LN / sqrt(d)
    "ba2016-7-shifting",  # of summed inputs, not of inputs
    "ziaee2022-abstract-inference",  # exact with the batch's statistics, not with others
    "ziaee2022-3-single",  # linear in 2 of 16 configurations
    "ziaee2022-abstract-independent",  # of other cases at batch size 1
    "ziaee2022-5-time",  # 16 trainings, or 16 evaluations of one
    "ziaee2022-2-gaussian",  # mean and variance, not the shape
    "ziaee2022-2-bad-input",  # it is bounded, and takes all of sigma
}
"""Where it depends on how the text is read."""

PAPERS = (
    "ba2016|benothman2018|ziaee2022|"
    "xiong2020|zhang2019|zhu2025|kim2025|wortsman2023|kosson2023|sun2024|brody2023"
)
DECLARED = [claim for claim in CLAIMS if claim.test]


@pytest.fixture(scope="module")
def fresh():
    return entries(read(paths.place("results")))


def test_rows_have_a_name_a_source_and_a_statement():
    assert Counter(claim.id for claim in CLAIMS).most_common(1)[0][1] == 1
    for claim in CLAIMS:
        assert re.fullmatch(rf"({PAPERS})-[\w.-]+", claim.id)
        assert re.match(r"[A-Z][\w &.Ççñ]+ \(\d{4}\), \S", claim.source)
        assert claim.id.partition("-")[0][-4:] in claim.source
        assert claim.id[:2].lower() == claim.source[:2].lower()
        assert len(claim.statement) > 20
        assert not re.search(r"[|\n]", claim.statement + claim.source)
        assert (claim.judge is not None) == (claim.kind is not Kind.MEASUREMENT)


def test_what_is_not_judged_says_what_would_test_it_and_why_not_yet():
    for claim in CLAIMS:
        if claim.kind is Kind.MEASUREMENT and not (claim.same or claim.parts):
            assert claim.waits, claim.id
            assert claim.would or (claim.declared and claim.command), claim.id


def test_measurements_are_declared_whole():
    for claim in CLAIMS:
        if declared := claim.declared:
            words = (declared.measure, declared.window, declared.split, declared.reason)
            assert all(words), claim.id
            assert declared.margin > 0
            assert min(declared.seeds) >= 100, "seeds that nobody has seen"
        if claim.test:
            assert declared.seeds == tuple(claim.test.task.seeds)
            assert (claim.test.tuning is not None) == bool(declared.tuning)
            assert not claim.test.tuning or claim.test.tuning.seed not in declared.seeds


def test_equations_are_judged_as_is_known(fresh):
    for entry in fresh:
        if entry["kind"] != "measurement":
            wrong, unsure = entry["id"] in WRONG, entry["id"] in OPEN
            expected = "fails" if wrong else "inconclusive" if unsure else "holds"
            assert entry["verdict"] == expected, entry["id"]
            assert entry["data"].startswith("synthetic: ")
            assert not (wrong or unsure) or entry["note"], entry["id"]


def test_what_says_the_same_has_the_same_findings(fresh):
    named = {entry["id"]: entry for entry in fresh}
    twice = [claim for claim in CLAIMS if claim.same]
    assert {named[claim.id]["verdict"] for claim in twice} > {"holds", "also seen"}
    for claim in twice:
        own, other = named[claim.id], named[claim.same]
        assert own["would"] == f"judged as {claim.same}"
        assert not other["would"].startswith("judged as ")
        assert (own["statement"], own["source"]) != (other["statement"], other["source"])
        apart = {"id", "source", "statement", "would", "paper"}
        assert {own[name] == other[name] for name in own.keys() - apart} == {True}


def test_what_says_several_things_is_as_sure_as_the_least_of_them(fresh):
    named = {entry["id"]: entry for entry in fresh}
    several = [claim for claim in CLAIMS if claim.parts]
    assert several
    for claim in several:
        own, parts = named[claim.id], {named[part]["verdict"] for part in claim.parts}
        assert len(parts) == 1 or own["verdict"] != "also seen"
        assert own["verdict"] in parts
        assert own["would"] == f"judged as all of {', '.join(claim.parts)}"
        assert found(own).startswith(f"of {len(claim.parts)} claims ")
        assert own["interval"] is own["declared"] is None


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ("also seen, also seen", "also seen"),
        ("reproduced, also seen, holds", "also seen"),
        ("also seen, inconclusive, also seen", "inconclusive"),
        ("inconclusive, not yet run", "not yet run"),
        ("not yet run, not seen, also seen", "not seen"),
        ("not seen, fails", "fails"),
    ],
)
def test_a_statement_of_parts_is_denied_by_one_and_supported_by_all(parts, whole):
    verdicts = [Verdict(one) for one in parts.split(", ")]
    told = together([Evidence(one, data=f"official: {one.value}") for one in verdicts])
    assert told.data.split("; ") == [
        f"official: {one.value}" for one in dict.fromkeys(verdicts)
    ]
    assert told.verdict is Verdict(whole)
    for one in verdicts:
        assert f"{verdicts.count(one)} {one.value}" in told.quantity


def test_declared_seeds_alone_give_a_verdict(fresh):
    measured = [entry for entry in fresh if entry["kind"] == "measurement"]
    judged = [e for e in measured if e["verdict"] != Verdict.NOT_YET_RUN.value and e["seeds"]]
    assert judged
    for entry in judged:
        assert list(entry["seeds"]) == list(entry["declared"]["seeds"])


def test_what_was_trained_before_the_declarations_decides_nothing():
    (claim,) = (c for c in CLAIMS if c.id == "ba2016-abstract-mlp-4")
    declared = {*claim.declared.seeds}
    runs = read(paths.place("results"), claim.test.task.name)
    before = [run for run in runs if declared.isdisjoint(run.config["seeds"])]
    assert claim.test.differences(runs) is not None
    assert claim.test.differences(before) is None
    shown = claim.test.exploratory(before)
    assert shown.endswith("by seeds 0, 1, 2, which were not declared")


def test_the_kept_verdicts_are_those_of_today(fresh):
    kept = {
        entry["id"]: entry for entry in lnlab.papers.claims.entries((paths.place("results"),))
    }
    assert kept.keys() == {entry["id"] for entry in fresh}
    for entry in fresh:
        for name, value in entry.items():
            assert kept[entry["id"]][name] == _of_json(value), (entry["id"], name)


def _of_json(value):
    import json

    return json.loads(json.dumps(value))


def test_the_table_in_docs_is_that_of_the_kept_verdicts():
    written = (paths.root() / "docs" / "ledger.md").read_text(encoding="utf-8")
    assert written == lnlab.papers.claims.table((paths.place("results"),))


def test_what_was_found_is_told_in_one_form():
    claims = lnlab.papers.claims.frame()
    judged = claims[claims.interval.notna()]
    assert len(judged) > 20
    for claim in judged.itertuples():
        assert claim.found.startswith(f"{lnlab.papers.claims.ends(claim.interval)} (margin ")
        assert claim.found.endswith(claim.quantity)  # its unit
    mute = claims[claims.interval.isna() & (claims.kind == "measurement")]
    assert mute.found.all(), "a cell is empty"


def test_a_claim_without_an_interval_says_how_many_seeds_have_no_number():
    claim = {"interval": None, "worst": None, "values": [None, 0.2, None], "quantity": "r"}
    assert found(claim) == "no number of 2 of 3 seeds, and so no interval; r"
    assert found({**claim, "values": None, "waits": "not run"}) == "not run"


def test_table_1_is_there_once_and_whole():
    table = [claim for claim in CLAIMS if claim.id.startswith("ba2016-table1-")]
    said = Counter((claim.id.split("-")[2], claim.paper) for claim in table)
    assert len(table) == 18
    assert said == {
        ("batch", "Invariant"): 4,
        ("batch", "No"): 2,
        ("weight", "Invariant"): 2,
        ("weight", "No"): 4,
        ("layer", "Invariant"): 4,
        ("layer", "No"): 2,
    }
    for claim in table:
        assert ("is not invariant" in claim.statement) == (claim.paper == "No")


def test_every_command_says_where_data_are_that_cannot_be_fetched():
    said = [
        part
        for line in lnlab.papers.claims.frame().command
        for part in (line or "").split(" && ")
    ]
    assert sum(" --data " in part for part in said) > 100
    assert not [part for part in said if "--set data=" in part]


@pytest.mark.parametrize("claim", DECLARED, ids=lambda claim: claim.id)
def test_commands_train_what_was_declared(claim):
    for part in claim.command.split(" && "):
        program, name, *rest = shlex.split(part)
        assert program == "lnlab"
        params = app.commands[name].make_context(name, rest).params
        if name == "train":
            kind = TASKS[params["name"]]
            settings = parse_settings(kind, params["settings"], params["data"])
            config = kind.budget(params["budget"], **settings).config()
            tuned = claim.test.tuning
            assert {*config["seeds"]} <= {*claim.declared.seeds} or (
                tuned and config["seeds"] == (tuned.seed,)
            )


def test_the_points_of_error_are_those_of_the_study():
    points = benothman2018.points
    assert points(benothman2018.STUDY) == pytest.approx(2.3)  # .268 - .245
    assert points(benothman2018.STUDY_LIBRISPEECH) == pytest.approx(2.5)  # .426 - .401


@pytest.mark.parametrize("part", ["nn/", "papers/", "training/runs.py"])
def test_verdicts_follow_from_the_code_that_judges(part, monkeypatch):
    whole = kept.source(())
    monkeypatch.setattr(kept, "JUDGES", tuple(one for one in kept.JUDGES if one != part))
    assert kept.source(()) != whole
