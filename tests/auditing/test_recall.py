"""The audit finds the faults of the gallery, and says nothing bad of its healthy networks."""

import pytest

from benchmarks import audit as benchmark
from lnlab.auditing import RULES, Severity, audit
from tests.auditing import gallery

SAMPLE = (
    "eps outside the root",
    "momentum 1",
    "dropout of 1",
    "a part of the input is ignored",
    "a loss that broadcasts",
    "a causal mask one step late",
    "cosine logits without a scale",
    "running statistics that one batch has poisoned",
    "layers that are not registered",
)


def test_every_fault_of_the_gallery_has_rules_that_exist():
    assert set(benchmark.ACCEPTED) == set(gallery.FAULTS)
    named = {rule for rules in benchmark.ACCEPTED.values() for rule in rules}
    assert named <= set(RULES)


@pytest.mark.parametrize("host", gallery.HOSTS)
def test_healthy_networks_get_no_fault_and_no_risk(host):
    problem = next(p for p in gallery.healthy() if p.name == host)
    report = audit(*problem[1:], skip=benchmark.FACTS_ALONE)
    assert not [f for f in report.findings if f.severity < Severity.FACT]


@pytest.mark.parametrize("fault", SAMPLE)
def test_a_fault_is_named_in_a_network_of_the_gallery(fault):
    host = next(iter(gallery.FAULTS[fault]))
    report = audit(*gallery.plant(fault, host)[1:], skip=benchmark.FACTS_ALONE)
    assert {f.rule for f in report.findings} & set(benchmark.ACCEPTED[fault])


@pytest.mark.slow
def test_recall_over_one_in_ten_faults():
    """The whole gallery takes a minute or two of CPU time: ``lnlab bench audit``."""
    names = list(gallery.FAULTS)[:99:10]  # the later faults measure what is not found
    found = [
        measure()["found"]
        for pair, measure in benchmark.faults().items()
        if pair.rpartition(" in ")[0] in names
    ]
    assert sum(found) / len(found) >= 0.9
