"""The kept runs of the attentive reader: what stands beside Fig. 2, and who reads."""

from lnlab import paths
from lnlab.papers.attentive_reader.data import shortcuts
from lnlab.papers.claims.ba2016_attentive_reader import CLOZE, SEEDS, beside
from lnlab.training.runs import read

KEPT = read(paths.place("results"), "attentive_reader")


def test_the_table_has_the_declared_seeds_and_no_seed_of_tuning():
    table = beside(KEPT, CLOZE)
    assert {*table["seeds"]} == {len(SEEDS)}
    assert len(table) == 5
    kept = {seed for run in KEPT for seed in run.config["seeds"]}
    assert kept > {*SEEDS}, "a seed that chose rates is among the runs"


def test_three_arms_leave_the_shortcuts():
    found = shortcuts(CLOZE.dataset().valid)
    guessing = 100 * (1 - max(part for name, part in found.items() if name != "ceiling"))
    errors = beside(KEPT, CLOZE)["error %, batch"]
    assert guessing > 40
    assert (errors < 0.9 * guessing).sum() >= 3
