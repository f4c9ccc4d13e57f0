"""The ledger's rows: well-formed, judged as is known, and reproducible by their command."""

import json
import re
import shlex
from collections import Counter
from dataclasses import replace

import pytest

from lnlab import checkout, ledger
from lnlab.cli import app
from lnlab.cli.train import changed
from lnlab.data import sources
from lnlab.ledger import CLAIMS, Verdict
from lnlab.ledger.ba2016 import TRAINING
from lnlab.ledger.ba2016_recurrent import RECURRENT
from lnlab.runs import read
from lnlab.tasks import TASKS

SOURCE = re.compile(
    r"(Ba et al\. \(2016\)|Ben Othman \(2018\)|Ziaee & Çano \(2022\)), "
    r"(abstract|\d(\.\d){0,2})( and (\d(\.\d){0,2}|supplement))?"
    r"(, (eq\. \d+|Table \d|Tables \d and \d|Fig\. \d+( to \d+)?|Table \d and Fig\. \d))?"
)
WRONG = {
    "ba2016-5.1-all-rescaling",  # Table 1 says No of weight norm
    "ba2016-5.2-half",  # by eq. 13 the block scales by 1/4
    "ba2016-5.2-eq13-layer",  # mu and sigma are shared
    "ba2016-5.2-gain",  # eq. 32 needs outputs whose covariance does not depend on x
    "ba2016-5.2-robust-weight",  # eq. 34 has the form of eq. 35
    "ba2016-7-shifting",  # W turns a shift of the inputs into one of each unit
    "ziaee2022-3-range-1",  # 1 - (1/1 + eps) = -eps
    "ziaee2022-4-m1-differs",  # 0.9999 LN / sqrt(d)
}
"""What the papers say of their equations and is not so."""

WATCHED = {
    "ba2016-5.2-learning-rate": Verdict.SAME_DIRECTION,
    "ba2016-3-covariate-drift": Verdict.SAME_DIRECTION,
    "ba2016-3-covariate-gradients": Verdict.SAME_DIRECTION,
    "benothman2018-4.3-ics-drift": Verdict.NOT_REPRODUCED,
    "benothman2018-4.3-ics-gradients": Verdict.NOT_REPRODUCED,
    "benothman2018-4.3-lipschitz": Verdict.SAME_DIRECTION,
}
"""What is seen in nets that learn while the ledger is made."""

MEASURED = [claim for claim in CLAIMS if claim.command == "lnlab claims"]


@pytest.fixture(scope="module")
def entries():
    return ledger.entries([])


def test_rows_have_a_name_a_source_and_a_statement():
    assert Counter(claim.id for claim in CLAIMS).most_common(1)[0][1] == 1
    for claim in CLAIMS:
        assert re.fullmatch(r"(ba2016|benothman2018|ziaee2022)-[\w.-]+", claim.id)
        assert SOURCE.fullmatch(claim.source), claim.source
        assert claim.id[:2].lower() == claim.source[:2].lower()
        assert len(claim.statement) > 20
        # one row of the table in the README
        assert not re.search(r"[|\n]", claim.statement + claim.source)
        assert bool(claim.command) == (claim.test is not None)


@pytest.mark.parametrize("claim", MEASURED, ids=lambda claim: claim.id)
def test_equations_are_judged_as_is_known(claim):
    evidence = claim.judge([])
    expected = Verdict.NOT_REPRODUCED if claim.id in WRONG else Verdict.REPRODUCED
    assert evidence.verdict is WATCHED.get(claim.id, expected)
    assert evidence.data.startswith("embedded: " if claim.id in WATCHED else "synthetic: ")
    assert claim.id not in WRONG or claim.note


def test_table_1_is_there_once_and_whole():
    cells = [claim for claim in CLAIMS if claim.source.endswith("Table 1")]
    table = [claim for claim in cells if claim.id.startswith("ba2016-table1-")]
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


def test_entries_are_what_the_command_line_promises(entries):
    again = json.loads(json.dumps(entries, allow_nan=False))
    assert again == entries
    assert [entry["id"] for entry in entries] == [claim.id for claim in CLAIMS]
    for entry in entries:
        assert entry["verdict"] in {verdict.value for verdict in Verdict}
        measured = entry["verdict"] != Verdict.NOT_YET_RUN.value
        assert measured == bool(re.match("(official|embedded|synthetic): ", entry["data"]))
        assert measured == bool(entry["interval"])
        assert measured == bool(entry["hardware"])
        if measured:
            low, high = entry["interval"]
            assert low <= high


def test_the_table_of_the_readme_holds_what_was_measured(entries, monkeypatch):
    monkeypatch.setattr(ledger, "CLAIMS", [claim for claim in CLAIMS if claim.id[0] == "z"])
    *head, last = ledger.markdown([]).splitlines()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in head if row]
    ours = [entry for entry in entries if entry["id"][0] == "z"]
    measured = [entry for entry in ours if entry["data"]]
    assert rows[0] == ["source", "claim", "verdict", "interval", "data"]
    assert [row[:3] + row[4:] for row in rows[2:]] == [
        [e["source"], e["statement"], f"**{e['verdict']}**", e["data"]] for e in measured
    ]
    assert last.startswith(f"{len(ours) - len(measured)} further claims are not yet run")


def test_a_comparison_without_a_number_has_its_row_too(made, monkeypatch):
    monkeypatch.setattr(ledger, "CLAIMS", TRAINING)
    lost = {0: float("nan"), 1: 1.0}
    runs = [made("layer", {0: 1.0, 1: 1.0}), made("batch", lost)]
    assert "| **not comparable** | none | official: mnist" in ledger.markdown(runs)
    json.dumps(ledger.entries(runs), allow_nan=False)


def test_what_is_not_reproduced_says_why():
    kept = ledger.entries(read(checkout.place("results")))
    assert [e["id"] for e in kept if e["verdict"] == "not reproduced" and not e["note"]] == []


def tasks(command):
    """The task of each ``lnlab train`` in a command, and that the rest are commands too."""
    for part in command.split(" && "):
        program, name, *rest = shlex.split(part)
        assert program == "lnlab"
        params = app.commands[name].make_context(name, rest).params
        if name == "train":
            task = TASKS[params["name"]]
            settings = changed(task, params["settings"], params["data"])
            yield task.budget(params["budget"], **settings)
        elif name == "data":
            assert rest == ["fetch", "mnist"]
            assert "mnist" in {source.name for source in sources()}
        else:
            assert (name, rest) == ("claims", [])


@pytest.mark.parametrize(
    "command", sorted({claim.command for claim in CLAIMS if claim.command})
)
def test_commands_are_ones_that_run(command):
    assert {task.config()["data"] for task in tasks(command)} <= {"mnist", "embedded", "fsdd"}


@pytest.mark.parametrize("claim", TRAINING, ids=lambda claim: claim.id)
def test_what_its_command_trains_judges_a_claim_either_way(claim, made):
    trained = list(tasks(claim.command))
    metric = "test_error" if claim.id.endswith("error") else "train_nll"
    smallest = min(task.batch_size for task in trained)
    low, high = {0: 0.1, 1: 0.11, 2: 0.12}, {0: 0.3, 1: 0.31, 2: 0.33}

    def judged(first, second, kind):
        # robustness is judged by four runs, of which those at the large batch are alike
        runs = []
        for task in trained:
            turned = task.batch_size == smallest and task.norm != trained[0].norm
            values, size = second if turned else first, task.batch_size
            runs.append(made(task.norm, values, batch_size=size, metric=metric, kind=kind))
        return claim.judge(runs)

    assert claim.judge([]).verdict is Verdict.NOT_YET_RUN
    assert judged(low, high, "official").verdict is Verdict.REPRODUCED
    assert judged(low, high, "embedded").verdict is Verdict.SAME_DIRECTION
    assert judged(high, low, "synthetic").verdict is Verdict.NOT_REPRODUCED


@pytest.mark.parametrize("claim", RECURRENT, ids=lambda claim: claim.id)
def test_what_its_command_trains_judges_a_recurrent_claim(claim, ran):
    trained = list(tasks(claim.command))
    metric = "test_nll" if claim.id in ON_TEST_CASES else "train_nll"
    # of these the claim says that the number is low; of the others, that of the first
    lower = {"ba2016-4-recurrent-gain": 1, "ba2016-7-recurrent-batch": 2}.get(claim.id, 0)

    def judged(value, checksum):
        values = [1.0] * len(trained)
        values[lower] = value
        runs = [
            ran(
                replace(task, seeds=(0, 1, 2), epochs=2),
                {0: v, 1: 1.01 * v, 2: 0.99 * v},
                metric=metric,
                kind="embedded",
                checksum=checksum,
            )
            for task, v in zip(trained, values, strict=True)
        ]
        return claim.judge(runs).verdict

    assert claim.judge([]).verdict is Verdict.NOT_YET_RUN
    assert judged(0.5, "a") is Verdict.SAME_DIRECTION
    assert judged(2.0, "b") is Verdict.NOT_REPRODUCED


ON_TEST_CASES = "ba2016-1-rnn-test", "ba2016-4-recurrent-bn"
