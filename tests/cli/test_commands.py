"""`lnlab train | results | data | claims | bench`, and wrong input, which ends in one line."""

import json
import re
import subprocess
import sys
from importlib import import_module
from textwrap import wrap

import pytest
import torch
from click.testing import CliRunner

from lnlab import paths
from lnlab.book.claims_page import LEGEND
from lnlab.cli import app
from lnlab.cli.tables import MOST_LETTERS, MOST_RUNS, brief, main_number
from lnlab.cli.train import describe_fields
from lnlab.papers import EXPERIMENTS, mnist
from lnlab.training import train_steps
from lnlab.training.runs import Run, read
from tests.data.layouts import librispeech, put, tone

SMOKE = ["train", "mnist", "--budget", "smoke", "--set", "epochs=1", "--set", "seeds=0,"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty checkout in which everything lands, seen on a wide terminal."""
    import_module("lnlab.papers.claims.results")  # claims are those of the true checkout
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
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


def test_faulty_recordings_are_mixed_and_left_out_where_it_is_asked(root):
    folder = librispeech(root / "speech")
    first, second = sorted(folder.rglob("103-7-*.flac"))
    put(first, tone(channels=2))
    put(second, tone(0.02))
    las = ["train", "las", "--budget", "smoke", "--data", f"librispeech={folder}"]
    refused = lnlab(*las)
    assert refused.exit_code == 1
    assert "2 of 6 recordings cannot be used" in refused.output
    mended = lnlab(*las, "--set", "mix_channels=True", "--set", "skip_faulty=True")
    assert mended.exit_code == 0, mended.output
    (run,) = (run for run in read(root / "runs") if run.done)
    assert run.config["mix_channels"] is run.config["skip_faulty"] is True
    noted = "1 of 6 recordings mixed to one channel, 1 of 6 recordings left out"
    assert run.data["name"] == f"librispeech, {noted}"
    assert run.data["checksum_of"] == "source"


def test_sweep_trains_every_combination_and_shows_them(root):
    sweep = ["sweep", "mnist", "--budget", "smoke", "--norm", "none,layer", "--seeds", "2"]
    sweep += ["--set", "units=8,8;4", "--set", "epochs=1", "--jobs", "1"]
    said = lnlab(*sweep)
    assert said.exit_code == 0, said.output
    runs = read(root / "runs")
    assert all(run.done and run.config["seeds"] == [0, 1] for run in runs)
    told = {(run.config["norm"], tuple(run.config["units"])) for run in runs}
    assert told == {(norm, units) for norm in ("none", "layer") for units in ((8, 8), (4,))}
    assert re.search(r"(?m)^all: task mnist; .*state done; data \w+", said.output)
    assert re.search(r"(?m)^key +norm .*number +units$", said.output)
    assert (
        len(re.findall(r"(?m)^\w+ +(none|layer) .*test_error 0\.\d+ +(8,8|4)$", said.output))
        == 4
    )
    assert "read back" not in said.output
    assert "4 of 4 read back" in lnlab(*sweep).output
    assert lnlab(*sweep, "--apart").exit_code == 0
    assert len(read(root / "runs")) == 4 + 8


def test_sweep_takes_any_field_for_an_arm(root):
    sweep = ["sweep", "sequential_digits", "--budget", "smoke", "--seeds", "1", "--jobs", "1"]
    assert lnlab(*sweep, "--arm", "initialisation", "--arm", "gain=0.1,1.0").exit_code == 0
    arms = {(r.config["initialisation"], r.config["gain"]) for r in read(root / "runs")}
    assert arms == {(i, g) for i in ("paper", "modern") for g in (0.1, 1.0)}


def test_sweep_in_which_a_run_fails_says_so_at_the_end(root):
    settings = ["--set", "pixels_per_step=7,8", "--jobs", "1"]
    said = lnlab("sweep", "sequential_digits", "--budget", "smoke", *settings)
    assert said.exit_code == 1
    assert re.search(
        r"FAILED .*pixels_per_step=7.*must divide the 64 of a picture", said.output
    )
    assert [run.config["pixels_per_step"] for run in read(root / "runs") if run.done] == [8]


def test_sweep_in_which_a_run_diverges_goes_on_and_shows_it(root):
    settings = ["--set", "learning_rate=1e30,1e-3", "--set", "epochs=1", "--jobs", "1"]
    said = lnlab("sweep", "mnist", "--budget", "smoke", *settings)
    assert said.exit_code == 0
    assert re.search(r"(?m)^\w+ .*done, 2 of 2 diverged .* 1e\+30$", said.output)
    ends = {
        run.config["learning_rate"]: run.result["outcomes"]["0"] for run in read(root / "runs")
    }
    assert ends[1e30]["outcome"] == "diverged"
    assert ends[1e-3] == {"outcome": "finished", "update": 9}


def test_results_are_listed_shown_and_kept_small(root):
    lnlab(*SMOKE)
    run = only_run(root / "runs")
    listed = lnlab("results", "list").output
    assert re.search(
        rf"(?m)^{run.name} +mnist +layer +\d{{4}}-\S+ \S+ +done +test_error 0\.\d+ +embedded ",
        listed,
    )
    assert "data licence:" in lnlab("results", "show", run.name[:5]).output
    assert lnlab("results", "keep", run.name).exit_code == 0
    assert [kept.key for kept in read(root / "results")] == [run.name]
    assert re.search(rf"{run.name} .* kept +test_error", lnlab("results", "list").output)
    assert "test_error" in lnlab("results", "resume", run.name).output


def test_results_are_compared_resumed_and_removed(root):
    task = mnist.Experiment.budget("smoke", norm="batch", epochs=1, seeds=(0,))
    lnlab(*SMOKE)
    steps = train_steps(task, root=root / "runs")
    next(steps)
    steps.close()
    (key,) = (run.key for run in read(root / "runs") if not run.done)
    listed = lnlab("results", "list").output.splitlines()
    assert listed[1].startswith("all: task mnist; data embedded")
    assert re.match(rf"{key} +batch +- +at update 1, \d+ s ago +test_error \S+", listed[3])
    compared = lnlab("results", "compare", "mnist", "--csv").output.splitlines()
    assert len(compared) > 1
    compared = lnlab("results", "compare", "--csv").output.splitlines()
    assert compared[0].startswith("key,done,finished,norm,update,")
    assert [line.split(",")[3] for line in compared[1:]].count("batch") == 1
    assert f"{key}  done" in lnlab("results", "resume", key).output
    assert lnlab("results", "rm", key[:6], "--yes").exit_code == 0
    assert [run.config["norm"] for run in read(root / "runs")] == ["layer"]


def test_a_damaged_run_is_in_nobodys_way_and_can_be_removed(root):
    lnlab(*SMOKE)
    whole = only_run(root / "runs")
    lnlab(*SMOKE, "--set", "norm=batch")
    (bad,) = (path for path in (root / "runs" / "mnist").iterdir() if path != whole)
    (bad / "config.json").write_text("{")
    listed = lnlab("results", "list")
    assert listed.exit_code == 0
    assert re.search(rf"(?m)^{bad.name} +mnist +damaged: .*config\.json", listed.output)
    assert f"{whole.name}  mnist" in listed.output
    assert lnlab("results", "show", whole.name).exit_code == 0
    compared = lnlab("results", "compare")
    assert f"left out: {bad}" in compared.output
    assert whole.name in compared.output
    said = lnlab("results", "show", bad.name)
    assert said.exit_code == 1
    assert f"lnlab results rm {bad.name}" in said.output
    assert lnlab("results", "rm", bad.name, "--yes").exit_code == 0
    assert not bad.exists()
    assert whole.exists()


def test_a_run_with_damaged_metrics_is_listed_as_such(root):
    lnlab(*SMOKE)
    run = only_run(root / "runs")
    (run / "metrics.jsonl").write_text("{}")
    for damage in (lambda: None, (run / "metrics.jsonl").unlink):
        damage()
        listed = lnlab("results", "list")
        assert listed.exit_code == 0
        assert re.search(r"mnist +layer +- +damaged", listed.output)
    assert "metrics.jsonl is missing" in lnlab("results", "show", run.name).output


def test_your_own_runs_are_listed_before_those_kept_in_git(root):
    lnlab(*SMOKE)
    (key,) = (run.key for run in read(root / "runs"))
    assert lnlab("results", "keep", key).exit_code == 0
    lnlab(*SMOKE, "--set", "norm=batch")
    own, kept = lnlab("results", "list").output.strip().split("\n\n")
    title, common, _, *lines = own.splitlines()
    assert title == f"Your own runs, in {root / 'runs'}: 2"
    assert "state done" in common
    assert {line.split()[1] for line in lines} == {"batch", "layer"}
    assert kept.startswith(f"Kept in git, in {root / 'results'}: 1\n")
    assert re.search(rf"{key} .* kept ", kept)


def test_runs_without_a_terminal_fit_a_page_the_latest_first(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    common, head, *lines, no_room, older = lnlab(
        "results", "compare", "--root", "nowhere"
    ).output.splitlines()
    assert common == "all: state kept"
    assert max(map(len, [head, *lines])) <= 100
    assert head.split()[:5] == ["key", "task", "norm", "finished", "number"]
    assert re.fullmatch(
        r"no room for \d+ more columns: `lnlab results compare --csv` .*", no_room
    )
    assert re.fullmatch(r"and \d\d\d older runs: --all shows them", older)
    dates = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", "\n".join(lines))
    assert dates == sorted(dates, reverse=True)
    assert len(dates) == MOST_RUNS
    assert all(re.search(r" (valid|test)_\w+ -?[\d.]+$", line) for line in lines)


def test_what_compared_runs_have_in_common_is_said_once(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    compare = ["results", "compare", "--root", "nowhere"]
    common, head, *lines = lnlab(*compare, "order_embeddings").output.splitlines()
    assert common == "all: task order_embeddings; state kept; data coco-boxes, official"
    assert head.split()[:5] == ["key", "norm", "finished", "number", "seeds"]
    assert "learning_rate" in head
    assert not any("done" in line or "order_embeddings" in line for line in lines)
    alone = lnlab(*compare, lines[0].split()[0]).output
    assert alone.split()[:5] == ["key", "task", "norm", "finished", "state"]


def test_settings_are_written_in_few_letters():
    assert brief([100, 101, 102, 103]) == "100 to 103"
    assert brief([0, 2, 3]) == "0,2,3"
    assert brief([32, 32]) == "32,32"
    assert len(brief("x" * 100)) == MOST_LETTERS
    assert brief("x" * 100).endswith("…")


def test_an_unknown_key_is_answered_in_few_lines():
    said = lnlab("results", "show", "zzz", "--root", "nowhere")
    assert said.exit_code == 1
    assert "0 runs have a key like 'zzz'" in said.output
    assert re.search(r"and \d+ more, which `lnlab results list` shows", said.output)
    assert len(said.output) < 400


def test_the_number_of_a_run_is_what_chose_its_weights_or_what_judges_it(root):
    lnlab(*SMOKE)
    lnlab(*SMOKE, "--set", "best_metric=test_nll")
    (run,) = (run for run in read(root / "runs") if run.config["best_metric"])
    listed = lnlab("results", "list").output.splitlines()
    for line in listed[3:5]:
        assert re.search(f"test_{'nll' if line.startswith(run.key) else 'error'} ", line)


def test_a_run_of_an_experiment_elsewhere_shows_what_is_there(root):
    config = {"units": 3}
    with Run.open("own", config, {"name": "d", "kind": "own", "checksum": "0"}, root) as run:
        run.log({"update": 1, "seed": 0, "loss": 2.5})
        assert main_number(run) == "loss 2.5"
        run.log({"update": 2, "seed": 0, "loss": 2.0, "recall": 0.25, "rank": 4.0})
        run.finish({"main_metrics": ["rank", "recall", "unmeasured"]}, {})
    assert main_number(run) == "recall 0.25"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_field_of_a_task_is_said_in_words(name):
    for field, about in describe_fields(EXPERIMENTS[name]):
        _, _, words = about.partition("] ")
        assert words, field
        assert not re.search(r":\w+:`|``", words), field
        assert not re.fullmatch(r"One of [^.]*\.", words), field


def test_help_of_a_task_lists_its_fields(root):
    said = lnlab("train", "mnist", "--help").output
    assert re.search(r"batch_size: int +\[128\] 128 and 4 in the paper", said)
    assert re.search(r"norm: str +\[layer\] The normalizer", said)
    units = "units: tuple[int, ...] [smoke: 32,32; notebook: 128,128; paper: 1000,1000]"
    assert units in " ".join(said.split())
    for command in ("train", "sweep"):
        tasks = " ".join(lnlab(command, "--help").output.split()).partition("Tasks:")[2]
        assert re.search("mnist .*sequential_digits .*las ", tasks)
        assert "mnist Permutation-invariant MNIST: Ba et al. (2016), section 6.6" in tasks
        assert "las Layer norm in parts of a recognizer of speech: Ben Othman" in tasks


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_of_a_task_that_there_is_not_is_an_error(root, command):
    said = lnlab(command, "mnits", "--help")
    assert said.exit_code == 2
    assert "There is no task 'mnits'. There are: mnist, " in said.output
    for there in (["--set", "norm=batch", "mnist"], ["mnist", "--set", "norm=mnits"]):
        assert "Fields of mnist" in lnlab(command, *there, "--help").output


def test_changed_code_is_shown_and_bars_a_resume(root, monkeypatch):
    task = mnist.Experiment.budget("smoke", norm="batch", epochs=1, seeds=(0,))
    with monkeypatch.context() as patch:
        patch.setattr("lnlab.training.runs.code", lambda: "0123")
        lnlab(*SMOKE)
        steps = train_steps(task, root=root / "runs")
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
        (["train", "mnist", "--set", "nrom=layer"], r"'nrom=layer'.* field of norm, seeds, "),
        (["train", "mnist", "--set", "epochs=many"], "epochs is 'many': give a whole number"),
        (
            ["train", "mnist", "--set", "units=()"],
            r"units is \(\): give a tuple of at least one",
        ),
        (["train", "mnist", "--set", "norm=lyaer"], "lyaer.*layer"),
        (["train", "mnist", "--data", "mnist=/no/such/folder"], "/no/such/folder"),
        (["sweep", "mnist", "--set", "epochs=1,many"], "epochs is 'many': give"),
        (["sweep", "mnist", "--arm", "nrom"], "no field 'nrom': choose from norm, seeds"),
        (["sweep", "mnist", "--arm", "epochs"], "epochs has no list to choose from"),
        (["train", "mnist", "--set", "seeds=[1"], r"seeds .\[1.: write how many"),
        (["results", "show", "abc"], r"'abc'. There are: none"),
        (["data", "fetch", "nmist"], "unknown data 'nmist'.*mnist"),
        (["data", "fetch", "fsdd"], "fsdd has no files.* get it from its authors.* fsdd=PATH"),
        (["data", "fetch", "digits"], "digits has no files.* nothing to fetch"),
        (["claims", "--paper", "nobody"], "no statement has paper 'nobody': Ba .*Ben Othman"),
        (["claims", "show", "nothing"], "no claim 'nothing'.*`lnlab claims` lists all"),
        (["claims", "show", "ba2016-6.6-fastr-128"], "Like it: ba2016-6.6-faster-128"),
        (["claims", "show", "ba2016"], r"Like it: ba2016\S* .* and \d+ more\. `lnlab claims`"),
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


def test_data_lists_what_is_here_and_what_a_fetch_brings(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    said = lnlab("data", "list").output
    assert re.search(r"not here: lnlab data fetch mnist brings 11\.\d MB", said)
    assert "then name it, timit=PATH" in said
    (tmp_path / "mnist").mkdir()
    assert "lnlab data fetch mnist" in lnlab("data", "list").output
    (tmp_path / "mnist" / "a").write_bytes(bytes(2_000_000))
    assert f"here: {tmp_path / 'mnist'}, 2.0 MB" in lnlab("data", "list").output


def test_data_are_listed_in_columns_of_a_page(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    lines = lnlab("data", "list").output.splitlines()
    assert any(re.match("mnist +official ", line) for line in lines)
    assert max(map(len, lines)) <= 100
    first = lines[0].index("embedded")
    rows = [line for line in lines if line[0] != " "]
    assert {len(re.match(r"\S+ +", row)[0]) for row in rows} == {first}
    words = {len(re.match(r"\S+ +\S+ +", row)[0]) for row in rows}
    assert words == {len(line) - len(line.lstrip()) for line in lines if line[0] == " "}


def test_claims_as_json():
    claims = json.loads(lnlab("claims", "--json").stdout)
    fields = "id source quote says word size effect interval unit q n setting nearness declared"
    assert all({*fields.split(), "command"} <= set(claim) for claim in claims)
    assert len({claim["id"] for claim in claims}) == len(claims) > 100
    mixed = json.loads(lnlab("claims", "--json", "--word", "Mixed").stdout)
    assert mixed == [claim for claim in claims if claim["word"] == "mixed"]


def test_a_claim_is_shown_in_sentences():
    shown = " ".join(lnlab("claims", "show", "ba2016-6.5-faster").stdout.split())
    assert "“layer normalization converges to a comparable log likelihood" in shown
    assert (
        "on UNIPEN: 27 % fewer updates with LN than without normalization (21 to 32)." in shown
    )
    assert "lnlab train handwriting --budget paper --set norm=layer" in shown


def test_claims_are_listed_at_a_glance(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    *lines, total = lnlab("claims", "--paper", "ben othman").stdout.splitlines()
    lines = lines[len(wrap(LEGEND, 100)) :]
    assert max(map(len, lines)) <= 100
    assert all(re.match(r"\S.*  benothman2018-\S+", line) for line in lines[::2])
    assert total.startswith(f"{len(lines) // 2} statements: ")


def test_the_page_of_claims_is_written(tmp_path):
    for name, begin in (("a.html", "<!doctype"), ("a.csv", "id,paper"), ("a.json", "[{")):
        assert lnlab("claims", "page", str(tmp_path / name)).exit_code == 0
        assert (tmp_path / name).read_text().startswith(begin)


def test_claims_are_read_without_torch():
    code = (
        "import sys; from click.testing import CliRunner; from lnlab.cli import app;"
        "out = CliRunner().invoke(app, ['claims', '--json']); assert out.exit_code == 0;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bench_runs_the_named_one(root):
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "step.py").write_text("def main(json):\n    print('json', json)\n")
    (root / "benchmarks" / "_shared.py").write_text("")
    assert lnlab("bench", "step", "--json").output == "json True\n"
    assert "There are: step\n" in lnlab("bench", "panel").output
    assert "leave --device out" in lnlab("bench", "step", "--device", "cuda").output
