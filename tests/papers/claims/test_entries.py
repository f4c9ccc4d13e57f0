"""Entries are read from files, and what no entry may have is refused by name."""

import re
from dataclasses import replace

import pytest

from lnlab.papers.claims.entries import Statement, load_statements, read_statement_file
from lnlab.papers.claims.pairs import PairedRuns, RunSelector
from lnlab.training.runs import Run

ENTRY = """
paper = "A paper"
[[claim]]
id = "one"
place_in_paper = "1"
theme = "Results"
quote = "..."
says = "..."
arms = [{ norm = "layer" }, { norm = "none" }]
measure = "final_value(loss)"
smallest_relevant_effect = 0.1
smallest_effect_reason = "r"
quantity_and_unit = "nats"
common_config = { data = "x" }
settings = [
  { name = "digits", nearness = "same data", experiment = "mnist", seeds = [0, 1] },
]
"""


def test_every_entry_is_complete_and_quoted():
    claims = load_statements()
    assert {"ba2016-eq6", "ba2016-6.6-faster-128"} <= {claim.id for claim in claims}
    for claim in claims:
        assert claim.quote, claim.id
        assert claim.says[-1] == ".", claim.id
        assert len(claim.says.split()) <= 40, claim.id


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ('_unit = "nats"', '_unit = "nats"\ncolour = "red"', "one: field 'colour' is unknown"),
        (
            "smallest_relevant_effect = 0.1",
            "smallest_relevant_effect = 0.0",
            "one, digits: smallest_relevant_effect is 0.0",
        ),
        ('"same data"', '"other data"', "one, digits: data_name is missing"),
        ('experiment = "mnist", ', "", "one, digits: give experiment and common_config, or"),
        ('says = "..."', 'says = "..."\nneeded_to_test = "data"', "one: give one of check"),
        ("[[claim]]", "[[claim]", "a.toml: "),
    ],
)
def test_what_an_entry_may_not_have_is_refused_by_name(tmp_path, old, new, refused):
    path = tmp_path / "a.toml"
    path.write_text(ENTRY.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(refused)):
        read_statement_file(path)


def run_of(root, norm, seeds, losses, **changes):
    from lnlab.papers import EXPERIMENTS

    task = EXPERIMENTS["mnist"].budget("smoke", norm=norm, seeds=seeds, **changes)
    config = {**task.config(), "device": "cpu", "precision": "float32"}
    data = {"name": "digits", "kind": "embedded", "checksum": "c" * 64}
    with Run.open("mnist", config, data, root) as run:
        for update in (0, 10):
            for seed, loss in zip(seeds, losses, strict=True):
                run.log({"update": update, "epoch": update / 10, "seed": seed, "loss": loss})
        run.finish({}, {})
    return Run(run.folder)


@pytest.fixture
def comparison(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(ENTRY.replace('data = "x"', 'data = "embedded"'), encoding="utf-8")
    return read_statement_file(path)[0].settings[0]


def test_the_headline_is_chosen_by_rule(comparison):
    more = replace(comparison, seeds=(0, 1, 2))
    tuned = replace(comparison, learning_rates_tuned_on="training")
    nearest = [tuned, more, comparison, replace(tuned, nearness="other data")]
    assert (
        sorted([comparison, nearest[3], tuned, more], key=Statement.headline_sort_key)
        == nearest
    )


def test_runs_are_paired_by_seed(tmp_path, comparison):
    runs = [
        run_of(tmp_path, "layer", (0, 1), (1.0, 2.0)),
        run_of(tmp_path, "none", (1, 0), (4.0, 1.5)),
    ]
    effects = PairedRuns(comparison, RunSelector(runs)).pair_log_ratios_or_differences
    assert effects == [-0.5, -2.0]


def test_unpaired_seeds_and_other_differences_are_refused(tmp_path, comparison):
    layer = run_of(tmp_path, "layer", (0, 1), (1.0, 2.0))
    none = run_of(tmp_path, "none", (0,), (1.5,))
    with pytest.raises(ValueError, match=r"seed 1.*none; one is needed"):
        _ = PairedRuns(comparison, RunSelector([layer, none])).pair_log_ratios_or_differences
    more = run_of(tmp_path, "none", (0, 1), (1.0, 2.0), batch_size=7)
    with pytest.raises(ValueError, match=r"seed 0.*one is needed"):
        _ = PairedRuns(
            comparison, RunSelector([layer, none, more])
        ).pair_log_ratios_or_differences
    with pytest.raises(ValueError, match="differ in batch_size"):
        _ = PairedRuns(comparison, RunSelector([layer, more])).pair_log_ratios_or_differences
