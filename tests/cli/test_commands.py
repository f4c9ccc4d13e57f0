"""`lnlab train | sweep | results | data | claims | bench`, and wrong input."""

import io
import json
import os
import re
import subprocess
import sys
from importlib import import_module

import pandas as pd
import pytest
from click.testing import CliRunner

from lnlab import paths
from lnlab.cli import app
from lnlab.papers import mnist
from lnlab.training import train_steps
from lnlab.training.runs import read

SMOKE = ["train", "mnist", "--budget", "smoke", "--set", "epochs=1", "--set", "seeds=0,"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty checkout for runs and results."""
    import_module("lnlab.papers.claims.results")  # claims are those of the true checkout
    (tmp_path / "benchmarks").symlink_to(paths.checkout_folder() / "benchmarks")
    monkeypatch.setattr(paths, "checkout_folder", lambda: tmp_path)
    return tmp_path


def lnlab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def begin(root, **settings):
    """Begin a run and stop after its first update; its key."""
    task = mnist.Experiment.budget("smoke", epochs=1, seeds=(0,), **settings)
    steps = train_steps(task, root=root / "runs")
    next(steps)
    steps.close()
    (key,) = (run.key for run in read(root / "runs") if not run.done)
    return key


def test_settings_reach_a_run_which_is_done_once(root):
    settings = ["--set", "norm=batch hidden", "--set", "batch_size=64", "--set", "units=8,4"]
    command = [*SMOKE, *settings, "--root", root / "elsewhere"]
    first = lnlab(*command)
    assert first.exit_code == 0, first.output
    (run,) = read(root / "elsewhere")
    assert f"{run.folder}  done" in first.output
    assert run.key in lnlab("results", "list", *command[-2:]).output
    wanted = {"norm": "batch hidden", "batch_size": 64, "units": [8, 4], "seeds": [0]}
    assert {name: run.config[name] for name in wanted} == wanted
    before = (run.folder / "result.json").stat().st_mtime_ns
    assert (run.folder / "result.json").stat().st_mtime_ns == before


def test_sweep_trains_every_combination_and_shows_them(root):
    sweep = ["sweep", "mnist", "--budget", "smoke", "--norm", "none,layer", "--seeds", "2"]
    sweep += ["--set", "units=8,8;4", "--set", "epochs=1", "--jobs", "1"]
    output = lnlab(*sweep).output
    runs = read(root / "runs")
    assert all(run.done and run.config["seeds"] == [0, 1] for run in runs)
    trained = {(run.config["norm"], tuple(run.config["units"])) for run in runs}
    assert trained == {(norm, units) for norm in ("none", "layer") for units in ((8, 8), (4,))}
    for run in runs:
        error = sum(row["test_error"] for row in run.rows_of_last_update()) / 2
        units = ",".join(map(str, run.config["units"]))
        row = rf"{run.key} +mnist +{run.config['norm']} .*test_error {error:.4g} .* {units} *$"
        assert re.search(f"(?m)^ *{row}", output)
    assert "4 of 4 read back" in lnlab(*sweep).output


def test_sweep_goes_on_where_a_run_fails_or_diverges(root):
    sweep = ["sweep", "sequential_digits", "--budget", "smoke", "--jobs", "1"]
    failed = lnlab(*sweep, "--set", "pixels_per_step=7,8")
    assert failed.exit_code == 1
    assert re.search(r"FAILED .*pixels_per_step=7.*must divide the 64", failed.output)
    assert [run.config["pixels_per_step"] for run in read(root / "runs") if run.done] == [8]
    settings = ["--set", "learning_rate=1e30,1e-3", "--set", "epochs=1", "--jobs", "1"]
    diverged = lnlab("sweep", "mnist", "--budget", "smoke", *settings)
    assert diverged.exit_code == 0
    assert re.search(r"(?m)^ *\w+ .*done, 2 of 2 diverged .* 1e\+30 *$", diverged.output)


def test_runs_are_listed_shown_kept_resumed_and_removed(root):
    lnlab(*SMOKE)
    (run,) = read(root / "runs")
    assert "data licence:" in lnlab("results", "show", run.key[:5]).output
    assert lnlab("results", "keep", run.key).exit_code == 0
    assert [kept.key for kept in read(root / "results")] == [run.key]
    key = begin(root, norm="batch")
    own, kept = lnlab("results", "list").output.strip().split("\n\n")
    title, _, latest, _ = own.splitlines()
    assert title == f"Your own runs, in {root / 'runs'}: 2"
    assert re.match(rf" *{key} +mnist +batch +- +at update 1, \d+ s ago", latest)
    assert kept.startswith(f"Kept in git, in {root / 'results'}: 1\n")
    assert re.search(rf"{run.key} .* done ", kept)
    rows = pd.read_csv(io.StringIO(lnlab("results", "compare", "--csv").output))
    (row,) = rows.query("norm == 'batch'")[["key", "done", "update"]].to_numpy().tolist()
    assert row == [key, False, 1]
    assert f"{key}  done" in lnlab("results", "resume", key).output
    assert lnlab("results", "rm", key[:6], "--yes").exit_code == 0
    (run,) = read(root / "runs")
    assert run.config["norm"] == "layer"
    (run.folder / "config.json").write_text("{")
    with pytest.warns(UserWarning, match=rf"config\.json is damaged.*Delete {run.folder}"):
        assert "runs: none" in lnlab("results", "list").output


def test_help_lists_tasks_and_the_fields_of_one(root):
    fields = " ".join(lnlab("train", "mnist", "--help").output.split())
    assert "batch_size: int 128" in fields
    assert "units: tuple[int, ...] smoke: 32,32; notebook: 128,128; paper: 1000,1000" in fields
    tasks = " ".join(lnlab("sweep", "--help").output.split()).partition("Tasks:")[2]
    assert "mnist Permutation-invariant MNIST: Ba et al. (2016), section 6.6" in tasks


@pytest.mark.parametrize("group", [[], ["claims"], ["data"], ["results"]])
def test_help_shows_what_a_command_does_in_a_whole_sentence(group):
    lines = lnlab(*group, "--help").output.partition("Commands:\n")[2].split("\n\n")[0]
    assert not [line for line in lines.splitlines() if line.endswith("...")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "mnist", "--budget", "huge"], r"'huge'.*smoke, notebook, paper"),
        (
            ["train", "mnist", "--set", "nrom=layer"],
            r"'nrom=layer'.* there is no field 'nrom'; fields: norm, seeds, ",
        ),
        (["train", "mnist", "--data", "mnist=/no/such/folder"], "/no/such/folder"),
        (["train", "mnist", "--device", "cuda:77"], "cuda:77"),
        (["sweep", "mnist", "--set", "epochs=1,many"], "epochs is 'many': give"),
        (["results", "show", "abc"], r"0 runs have a key that begins with 'abc'"),
        (["data", "fetch", "fsdd"], "fsdd has no files.* get it from its authors.* fsdd=PATH"),
        (["claims", "--paper", "nobody"], "no statement has paper 'nobody': Ba .*Ben Othman"),
        (["claims", "show", "ba2016-6.6-fastr-128"], "Like it: ba2016-6.6-faster-128"),
        (["bench", "panel"], "There are: audit, draw, "),
        (
            ["bench", "first_panel", "--device", "cuda"],
            "first_panel takes no --device: leave it out",
        ),
    ],
)
def test_wrong_input_ends_in_one_line_that_helps(root, monkeypatch, arguments, complaint):
    result = lnlab(*arguments)
    assert result.exit_code == 1
    assert re.search(f"(?s)^Error: .*{complaint}", result.output)
    assert len(result.output) < 400 or "claims" in arguments
    monkeypatch.setenv("LNLAB_TRACEBACK", "1")
    assert not isinstance(lnlab(*arguments).exception, SystemExit)


def test_data_lists_what_is_here_and_what_a_fetch_brings(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    output = lnlab("data", "list").output
    assert max(map(len, output.splitlines())) <= 100
    assert re.search(r"not here: lnlab data fetch mnist brings 11\.\d MB", output)
    assert "then name it, timit=PATH" in output
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "a").write_bytes(bytes(2_000_000))
    assert f"here: {tmp_path / 'mnist'}, 2.0 MB" in lnlab("data", "list").output


def test_claims_are_listed_shown_and_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    printed = lnlab("claims", "--json").stdout
    records = json.loads(printed)
    assert "NaN" not in printed
    assert len({record["id"] for record in records}) == len(records) > 100
    mixed = json.loads(lnlab("claims", "--json", "--word", "Mixed").stdout)
    assert mixed == [record for record in records if record["word"] == "mixed"]
    listed = lnlab("claims", "--paper", "ben othman").stdout
    assert max(map(len, listed.splitlines()[:-1])) <= 100
    assert "benothman2018-" in listed
    assert "ba2016-" not in listed
    shown = " ".join(lnlab("claims", "show", "ba2016-6.5-faster").stdout.split())
    assert "6 % fewer updates to the same validation loss with LN than without" in shown
    assert "handwriting --budget paper --set norm=layer --set seeds=110-114 " in shown
    starts = {"html": "<!doctype", "csv": "id,paper", "json": "[{", "md": "# What became"}
    for suffix, start in starts.items():
        name = f"a.{suffix}"
        assert lnlab("claims", "page", str(tmp_path / name)).exit_code == 0
        assert (tmp_path / name).read_text().startswith(start)


HEAVY = {"torch", "pandas", "papermill", "nbformat", "nbconvert", "plotly"}


@pytest.mark.parametrize(
    ("command", "text", "heavy"),
    [
        ("--help", "claims", HEAVY),
        ("list", "Start here", HEAVY),
        ("run 77", "no notebook '77'", HEAVY),
        ("train mnits", "no task 'mnits'. There are: mnist", HEAVY),
        ("results list", "older runs", {"torch"}),
        ("claims --json", "ba2016-table1", {"torch"}),
    ],
)
def test_what_is_asked_in_passing_is_light(command, text, heavy):
    program = f"import sys\nfrom lnlab.cli import app\ntry: app({command.split()!r})\n"
    program += "finally: print('modules:', *sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    output, _, modules = run.stdout.partition("modules:")
    assert text in output + run.stderr
    assert not heavy & {*modules.split()}


def test_a_reader_that_leaves_is_no_error():
    """As ``head`` does."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "lnlab.cli", "list"]
    run = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    assert run.stderr == ""
