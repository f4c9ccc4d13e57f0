"""`lnlab train | results | data | claims | bench`, and wrong input, which ends in one line."""

import json
import re
import sys

import pytest
import torch
from click.testing import CliRunner

from lnlab import checkout, ledger
from lnlab.cli import app
from lnlab.ledger import Verdict
from lnlab.runs import read
from lnlab.tasks import PermutationInvariantMNIST
from lnlab.training import train

SMOKE = ["train", "mnist", "--budget", "smoke", "--set", "epochs=1", "--set", "seeds=0"]
BATCH = ["--budget", "smoke", "--set", "norm=batch"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty checkout in which everything lands."""
    monkeypatch.setattr(checkout, "root", lambda: tmp_path)
    return tmp_path


def lnlab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def only_run(folder):
    (path,) = folder.glob("mnist/*/")
    return path


def test_train_then_find_it_done(root):
    first = lnlab(*SMOKE)
    assert first.exit_code == 0, first.output
    run = only_run(root / "runs")
    assert f"{run}  done" in first.output
    begun = (run / "result.json").stat().st_mtime_ns
    again = lnlab(*SMOKE)
    assert again.stdout.splitlines()[-3:] == first.stdout.splitlines()[-3:]
    assert (run / "result.json").stat().st_mtime_ns == begun


def test_settings_reach_the_task(root):
    settings = ["--set", "norm=batch hidden", "--set", "batch_size=64", "--set", "units=8,4"]
    assert lnlab(*SMOKE, *settings, "--out", root / "elsewhere").exit_code == 0
    config = json.loads((only_run(root / "elsewhere") / "config.json").read_text())["config"]
    assert config["norm"] == "batch hidden"
    assert config["batch_size"] == 64
    assert config["units"] == [8, 4]
    assert config["seeds"] == [0]


def test_sweep_trains_every_combination_and_shows_them(root):
    sweep = ["sweep", "mnist", "--budget", "smoke", "--norm", "none,layer", "--seeds", "2"]
    sweep += ["--set", "units=8,8;4", "--set", "epochs=1", "--jobs", "1"]
    said = lnlab(*sweep)
    assert said.exit_code == 0, said.output
    runs = read(root / "runs")
    assert all(run.done and run.config["seeds"] == [0, 1] for run in runs)
    told = {(run.config["norm"], tuple(run.config["units"])) for run in runs}
    assert told == {(norm, units) for norm in ("none", "layer") for units in ((8, 8), (4,))}
    assert re.search(r"key +done +norm +units +update", said.output)
    assert lnlab(*sweep, "--apart").exit_code == 0
    assert len(read(root / "runs")) == 4 + 8


def test_sweep_in_which_a_run_fails_says_so_at_the_end(root):
    settings = ["--set", "learning_rate=1e30,1e-3", "--set", "epochs=1", "--jobs", "1"]
    said = lnlab("sweep", "mnist", "--budget", "smoke", *settings)
    assert said.exit_code == 1
    assert re.search(r"FAILED .*learning_rate=1e\+30.*FloatingPointError", said.output)
    assert [run.config["learning_rate"] for run in read(root / "runs") if run.done] == [1e-3]


def test_results_are_listed_shown_and_kept_small(root):
    lnlab(*SMOKE)
    run = only_run(root / "runs")
    assert re.search(rf"^{run.name} +mnist +done +embedded", lnlab("results", "list").output)
    assert "data licence:" in lnlab("results", "show", run.name[:5]).output
    assert lnlab("results", "keep", run.name).exit_code == 0
    kept = {path.name for path in (root / "results" / "mnist" / run.name).iterdir()}
    assert {"config.json", "metrics.jsonl", "result.json"} <= kept
    assert not {"weights.safetensors", "state.pt"} & kept


def test_results_are_compared_resumed_and_removed(root):
    task = PermutationInvariantMNIST.budget("smoke", norm="batch", epochs=1, seeds=(0,))
    lnlab(*SMOKE)
    steps = train(task, root=root / "runs")
    next(steps)
    steps.close()
    (key,) = (run.key for run in read(root / "runs") if not run.done)
    assert re.search(
        rf"^{key} +mnist +at update 1, \d+ s ago +emb", lnlab("results", "list").output
    )
    compared = lnlab("results", "compare", "--csv").output.splitlines()
    assert compared[0].startswith("key,done,norm,update,")
    assert [line.split(",")[2] for line in compared[1:]].count("batch") == 1
    assert f"{key}  done" in lnlab("results", "resume", key).output
    assert lnlab("results", "rm", key[:6], "--yes").exit_code == 0
    assert [run.config["norm"] for run in read(root / "runs")] == ["layer"]


def test_changed_code_is_shown_and_bars_a_resume(root, monkeypatch):
    task = PermutationInvariantMNIST.budget("smoke", norm="batch", epochs=1, seeds=(0,))
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["lnlab.runs.environment"], "code", lambda: "0123")
        lnlab(*SMOKE)
        steps = train(task, root=root / "runs")
        next(steps)
        steps.close()
    assert "changed since: code was 0123, is" in lnlab(*SMOKE).output
    (key,) = (run.key for run in read(root / "runs") if not run.done)
    said = lnlab("results", "resume", key)
    assert said.exit_code == 1
    assert "code 0123" in said.output
    assert "is not resumed across versions" in said.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "mnits"], r"no task 'mnits'.*mnist"),
        (["train", "mnist", "--budget", "huge"], r"'huge'.*smoke, notebook, paper"),
        (["train", "mnist", "--set", "nrom=layer"], r"'nrom=layer'.*'norm', 'batch_size'"),
        (["train", "mnist", "--set", "norm"], "write FIELD=VALUE"),
        (["train", "mnist", "--set", "epochs=many"], "epochs=many.*like its default"),
        (["train", "mnist", "--set", "norm=lyaer"], "lyaer.*layer"),
        (["train", "mnist", "--data", "mnist=/no/such/folder"], "/no/such/folder"),
        (["train", "mnist", "--nproc", "2", *BATCH], "SyncBatchNorm on GPUs"),
        (["train", "mnist", "--nproc", "3", *BATCH], "cannot be shared evenly by 3 ranks"),
        (["sweep", "mnist", "--set", "epochs=1,many"], "epochs=many.*like its default"),
        (["sweep", "mnist", "--set", "nrom=a,b"], r"'nrom=a'.*'norm', 'batch_size'"),
        (["results", "show", "abc"], r"'abc'. There are: none"),
        (["data", "fetch", "nmist"], "unknown data 'nmist'.*mnist"),
    ],
)
def test_wrong_input_ends_in_one_line_that_helps(root, arguments, complaint):
    result = lnlab(*arguments)
    assert result.exit_code == 1
    assert re.search(f"(?s)^Error: .*{complaint}", result.output)
    assert "Traceback" not in result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_says_so(root):
    result = lnlab(*SMOKE, "--device", "cuda")
    assert result.exit_code == 1
    assert "cuda" in result.output


def test_traceback_on_demand(root, monkeypatch):
    monkeypatch.setenv("LNLAB_TRACEBACK", "1")
    assert isinstance(lnlab("train", "x").exception, ValueError)


def test_data_lists_kind_and_licence():
    said = lnlab("data", "list").output
    assert re.search(r"^mnist +official ", said, re.M)
    assert said.count("licence:") >= 2


@pytest.mark.slow
def test_claims_as_json(root):
    claims = json.loads(lnlab("claims", "--json").output)
    fields = {"id", "source", "statement", "verdict", "interval", "data", "command"}
    assert all(fields <= set(claim) for claim in claims)
    assert {claim["verdict"] for claim in claims} <= {verdict.value for verdict in Verdict}
    assert len({claim["id"] for claim in claims}) == len(claims)
    source = r"[A-Z][\w &çãé]+ (et al\. )?\(\d{4}\), \S"
    assert all(re.match(source, claim["source"]) for claim in claims)
    for claim in claims:
        kinds = ("official", "embedded", "synthetic")
        assert claim["data"].startswith(kinds) or claim["verdict"] == "not yet run"


def test_claims_are_written_between_the_marks(root, monkeypatch):
    monkeypatch.setattr(ledger, "markdown", lambda: "| a \\1 |")
    readme = root / "README.md"
    readme.write_text("before\n<!-- claims -->\nold\n<!-- /claims -->\nafter\n")
    for _ in range(2):
        assert lnlab("claims", "--readme").exit_code == 0
        wanted = "before\n<!-- claims -->\n\n| a \\1 |\n\n<!-- /claims -->\nafter\n"
        assert readme.read_text() == wanted
    readme.write_text("no marks")
    assert "needs <!-- claims -->" in lnlab("claims", "--readme").output
    assert readme.read_text() == "no marks"


def test_bench_runs_the_named_one(root):
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "step.py").write_text("def main(json):\n    print('json', json)\n")
    (root / "benchmarks" / "_shared.py").write_text("")
    assert lnlab("bench", "step", "--json").output == "json True\n"
    assert "There are: step\n" in lnlab("bench", "panel").output
