"""Every kept run is still a run of its experiment."""

import json

import pytest

from lnlab import paths
from lnlab.papers import EXPERIMENTS
from lnlab.training.runs import KEPT, read, run_key

RESULTS = paths.folder_in_checkout_or_cwd("results")
NAMES = sorted(path.name.removesuffix(KEPT) for path in RESULTS.glob(f"*{KEPT}"))


def test_every_experiment_has_kept_runs():
    assert {*NAMES} == {*EXPERIMENTS}


@pytest.mark.parametrize("name", NAMES)
def test_kept_runs_have_the_configuration_the_key_and_the_metrics_of_their_experiment(name):
    runs = read(RESULTS, name)
    assert runs
    for run in runs:
        task = EXPERIMENTS[name].from_config_ignoring_unknown(run.config)
        assert run_key(run.config, run.data["checksum"]) == run.key
        config = json.loads(json.dumps(task.config()))
        # the fields that there were then, and still are
        assert all(run.config[name] == config[name] for name in run.config.keys() & config)
        assert {*task.lower_is_better, *task.higher_is_better} <= {*run.metrics()}


@pytest.mark.parametrize(
    ("name", "data"), [("attentive_reader", "cloze"), ("skip_thoughts", "stories")]
)
def test_generated_data_are_those_of_kept_runs(name, data):
    runs = [run for run in read(RESULTS, name) if run.config["data"] == data]
    dataset = EXPERIMENTS[name].from_config_ignoring_unknown(runs[0].config).dataset()
    assert dataset.checksum in {run.data["checksum"] for run in runs}
