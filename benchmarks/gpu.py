"""Test and time everything on a GPU in at most 20 minutes: ``make gpu``.

Each step is timed and recorded in one small JSON file as soon as it ends. A step that fails is
recorded with its message, the others go on, and the exit status is 1. docs/speed.md shows the
file; the same program writes that part of the page.

Without a GPU all of it is tried at small sizes: tests and layers on the device that
tests/pretend.py makes up, notebooks and trainings on the CPU. That report goes to ``build/``
and is no measurement.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import torch

from benchmarks import _device
from lnlab.data import data_folder
from lnlab.training.runs import device_name, git_commit, read

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "benchmarks" / "gpu.json"
PAGE = ROOT / "docs" / "speed.md"
BETWEEN_MARKS = re.compile(r"(?s)(?<=<!-- gpu -->\n).*?(?=<!-- /gpu -->)")
MINUTES = 20
"""What all steps may take together."""


class Plan(NamedTuple):
    """What is run, and how large."""

    device: str
    """The device of tests and layers."""
    processes: str
    """The device of notebooks and trainings, which are processes of their own."""
    tests: list[str]
    sizes: list[tuple[int, ...]]
    """Of recurrent layers: T, B, inputs, H."""
    seconds: float
    """What one time is measured for."""
    notebooks: list[str]
    budget: str
    mnist: list[str]
    """Options of `lnlab train mnist`."""
    patience: float = 1.0
    """What limits of time are multiplied by."""


def on_gpu() -> Plan:
    """The steps that are measured."""
    return Plan(
        device="cuda",
        processes="cuda",
        tests=gpu_tests(),
        sizes=_device.SIZES,
        seconds=0.5,
        notebooks=["04", "06", "13", "16"],
        budget="notebook",
        mnist=["--budget", "paper"],
    )


def without_gpu() -> Plan:
    """The same steps in small, to try this program."""
    mnist = ["--budget", "smoke", "--set", "epochs=1", "--set", "seeds=1"]
    size = [(3, 2, 4, 5)]
    return on_gpu()._replace(
        device="pretend",
        processes="cpu",
        sizes=size,
        seconds=0.01,
        budget="smoke",
        mnist=mnist,
        patience=5.0,  # the device that is made up is slow
    )


def gpu_tests() -> list[str]:
    """The files with tests for a GPU."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(f.relative_to(ROOT)) for f in files if "mark.gpu" in f.read_text("utf-8")]


class StepFailed(Exception):
    """A step that did not do all of its work, with the figures that there are."""

    def __init__(self, message: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


class Step(NamedTuple):
    """A part of the report."""

    limit: float
    """The seconds that it may take."""
    run: Callable[[float], dict[str, Any]]
    """From its limit to its figures; raises StepFailed."""


def steps(plan: Plan) -> dict[str, Step]:
    """Every step by its name, in order."""
    layers = {
        f"recurrent {', '.join(map(str, size))}": Step(
            120, lambda limit, size=size: time_layers(plan, size, limit)
        )
        for size in plan.sizes
    }
    notebooks = {
        f"notebook {number}": Step(
            180, lambda limit, number=number: run_notebook(plan, number, limit)
        )
        for number in plan.notebooks
    }
    return {
        "tests": Step(300, lambda limit: run_tests(plan, limit)),
        **layers,
        "mnist": Step(180, lambda limit: train_mnist(plan, limit)),
        **notebooks,
    }


def run_tests(plan: Plan, limit: float) -> dict[str, Any]:
    """Return how many of the tests for a GPU passed, failed and were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--device", plan.device]
        command += ["-p", "no:cacheprovider", "-p", "no:nbval", f"--junitxml={results}"]
        command += ["--numprocesses", str(min(4, os.cpu_count() or 1)), "--dist", "worksteal"]
        try:
            call([*command, *plan.tests], limit)
            message = ""
        except StepFailed as failure:
            message = str(failure)
        if not results.is_file():
            raise StepFailed(message or "pytest wrote no results")
        cases = list(ElementTree.parse(results).iter("testcase"))

    def having(*tags: str) -> list[str]:
        return [c.get("name", "") for c in cases if any(c.find(t) is not None for t in tags)]

    failed, skipped = having("failure", "error"), having("skipped")
    passed = len(cases) - len(failed) - len(skipped)
    figures = {"passed": passed, "failed": len(failed), "skipped": len(skipped)}
    if failed or message or not passed:
        parts = filter(None, ["; ".join(failed[:20]), message])
        raise StepFailed("; ".join(parts) or "no test ran", figures)
    return figures


def time_layers(plan: Plan, size: tuple[int, ...], limit: float) -> dict[str, Any]:
    """Return the times of recurrent layers of one size, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows"
        out.touch()
        arguments = f"{plan.device!r}, {size!r}, {plan.seconds!r}, Path({str(out)!r})"
        code = "from pathlib import Path; from benchmarks._device import write_rows; "
        try:
            call([sys.executable, "-c", f"{code}write_rows({arguments})"], limit)
            message = ""
        except StepFailed as failure:
            message = str(failure)
        measured = [json.loads(line) for line in out.read_text().splitlines()]
    figures = {"rows": _device.compare(measured)}
    errors: dict[str, list[str]] = {}
    for one in measured:
        if "error" in one:
            who = f"{one['contender']} ({one['cell']}, {one['phase']})"
            errors.setdefault(one["error"], []).append(who)
    failures = [f"{', '.join(who)}: {error}" for error, who in errors.items()]
    if message or failures:
        raise StepFailed("; ".join([*failures, message] if message else failures), figures)
    return figures


def run_notebook(plan: Plan, number: str, limit: float) -> dict[str, Any]:
    """Return the seconds that a notebook takes where none of its trainings is there yet."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        environment = fresh_checkout(here)
        command = [sys.executable, "-m", "lnlab.cli", "run", number, "--jobs", "1"]
        command += ["-p", "device", plan.processes, "-p", "budget", plan.budget]
        call([*command, "--out", str(here / "build")], limit, here, environment)
        (notebook,) = (here / "build").glob(f"{number}_*.ipynb")
        seconds = json.loads(notebook.read_text("utf-8"))["metadata"]["lnlab"]["seconds"]
    return {"notebook_seconds": round(seconds, 1)}


def fresh_checkout(folder: Path) -> dict[str, str]:
    """Make a checkout without runs in a folder; return the environment of its processes."""
    for path in ROOT.iterdir():
        if path.name not in ("lnlab", "runs", "build") and not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    # copied, as the checkout is found by where this package really lies
    shutil.copytree(ROOT / "lnlab", folder / "lnlab")
    return {"PYTHONPATH": str(folder), "LNLAB_DATA": str(data_folder().resolve())}


def train_mnist(plan: Plan, limit: float) -> dict[str, Any]:
    """Return seconds and test errors of the network without norm and with layer norm."""
    until = time.monotonic() + limit
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        lnlab = [sys.executable, "-m", "lnlab.cli"]
        if "paper" in plan.mnist:
            call([*lnlab, "data", "fetch", "mnist"], limit)
        for norm in ("none", "layer"):
            command = [*lnlab, "train", "mnist", *plan.mnist, "--set", f"norm={norm}"]
            command += ["--device", plan.processes, "--root", folder]
            try:
                call(command, until - time.monotonic())
            except StepFailed as failure:
                raise StepFailed(f"{norm}: {failure}", figures) from failure
            (run,) = (run for run in read(Path(folder)) if run.config["norm"] == norm)
            figures[norm] = {
                "data": run.data["name"],
                "units": list(run.config["units"]),
                "updates": run.result["updates"],
                "training_seconds": round(run.result["seconds"], 1),
                "test_errors": [
                    round(row["test_error"], 4) for row in run.rows_of_last_update()
                ],
            }
    return figures


def call(
    command: list[str],
    limit: float,
    folder: Path = ROOT,
    environment: dict[str, str] | None = None,
) -> None:
    """Run a command in a process group of its own, without its output.

    Raises:
        StepFailed: it failed or took too long; the message ends as its output does.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(max(limit, 1))
            reason = f"exit status {status}" if status else ""
        except subprocess.TimeoutExpired:
            reason = f"not finished after {limit:.0f} s"
        finally:
            stop(process)
        output.seek(0)
        end = output.read().strip()[-600:]
    if reason:
        # what is committed names no folder of this machine
        end = (
            end.replace(str(folder), ".").replace(str(ROOT), ".").replace(str(Path.home()), "~")
        )
        raise StepFailed(f"{reason}: {end}")


def stop(process: subprocess.Popen) -> None:
    """End a process with its group: at first by Ctrl-C, at which pytest writes its results and
    notebooks end their kernels."""
    orders = (signal.SIGINT, 30), (signal.SIGTERM, 10), (signal.SIGKILL, None)
    for order, patience in orders:
        if process.poll() is not None:
            return
        os.killpg(process.pid, order)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def describe(plan: Plan) -> dict[str, Any]:
    """Return what was measured on; nothing names the machine or its user."""
    gpu = plan.device == "cuda"
    return {
        "name": device_name(torch.device(plan.device if gpu else "cpu")),
        "gpu": gpu,
        "driver": driver() if gpu else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def driver() -> str | None:
    """Return the version of NVIDIA's driver, None where nobody tells."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        output = subprocess.run(query, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return output.strip().partition("\n")[0] or None


def run_steps(plan: Plan, out: Path, chosen: list[str], resume: bool = False) -> list[str]:
    """Run steps and write the report after each; return the names of those that failed.

    What the file holds of other steps stays, if it was measured on the same device.

    Args:
        chosen: beginnings of the names of steps, none for all: "tests", "recurrent".
        resume: leave out the steps that the file has, at this commit, without a failure.
    """
    report: dict[str, Any] = {"device": describe(plan), "steps": {}}
    if out.is_file() and (before := json.loads(out.read_text()))["device"] == report["device"]:
        report = before
    known = steps(plan)
    names = [name for name in known if name.startswith(tuple(chosen) or "")]
    if not names:
        raise SystemExit(
            f"There is no step {' '.join(chosen)!r}. There are: {'; '.join(known)}"
        )
    if resume:
        done = report["steps"]
        now = git_commit()
        names = [
            name
            for name in names
            if name not in done or "failure" in done[name] or done[name]["commit"] != now
        ]
    until = time.monotonic() + 60 * MINUTES * plan.patience
    failed = []
    for name in names:
        began = time.monotonic()
        limit = min(known[name].limit * plan.patience, until - began)
        figures: dict[str, Any] = {"date": date.today().isoformat(), "commit": git_commit()}
        try:
            if limit < 1:
                raise StepFailed(f"not begun: the {MINUTES} minutes were over")
            figures |= known[name].run(limit)
        except StepFailed as failure:
            figures |= {**failure.figures, "failure": str(failure)}
        except Exception as error:  # a fault of this program must not cost the other steps
            figures["failure"] = f"{type(error).__name__}: {error}"
        if "failure" in figures:
            failed.append(name)
        figures["seconds"] = round(time.monotonic() - began, 1)
        report["steps"] = {
            n: report["steps"].get(n, {}) if n != name else figures
            for n in known if n == name or n in report["steps"]
        }  # fmt: skip
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        word = f"FAILED {figures['failure']}" if "failure" in figures else "done"
        print(f"{name}: {word} ({figures['seconds']} s)", flush=True)
    return failed


def markdown(report: dict[str, Any] | None) -> str:
    """The part of docs/speed.md that shows the report, or says that there is none."""
    if report is None:
        return (
            "**Not yet measured on a GPU.** If you have one, run `make gpu` and commit\n"
            "`benchmarks/gpu.json` and this page, which the command rewrites.\n"
        )
    device, done = report["device"], report["steps"]
    made = sorted({(one["date"], one["commit"] or "no commit") for one in done.values()})
    when = ", ".join(f"{day} at commit {commit[:12]}" for day, commit in made)
    lines = [
        f"Measured by `make gpu` on one {device['name']}, driver {device['driver']}, torch "
        f"{device['torch']}, cuDNN {device['cudnn']}; {when}.",
        "",
    ]
    if "passed" in (tests := done.get("tests", {})):
        lines += [
            f"Tests on the GPU: {tests['passed']} passed, {tests['failed']} failed, "
            f"{tests['skipped']} skipped.",
            "",
        ]
    lines += layer_table([row for one in done.values() for row in one.get("rows", [])])
    lines += notebook_table(done) + mnist_table(done.get("mnist", {}))
    failures = [f"- {name}: {one['failure']}" for name, one in done.items() if "failure" in one]
    if failures:
        lines += ["Failed:", "", *(" ".join(line.split()) for line in failures), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def layer_table(rows: list[dict]) -> list[str]:
    """Times of recurrent layers as Markdown; in brackets over the first contender."""
    if not rows:
        return []
    names = [n for n in _device.CONTENDERS if any(n in row.get("ms", {}) for row in rows)]
    heads = " | ".join(_device.CONTENDERS[name] for name in names)
    lines = [
        "Medians in ms, float32 without TF32; in brackets, multiples of torch's layer without",
        "layer norm.",
        "",
        f"| | | T, B, inputs, H | {heads} |",
        "|---" * (3 + len(names)) + "|",
    ]
    for row in rows:
        cells = [row["cell"], row["phase"], ", ".join(map(str, row["size"]))]
        for name in names:
            ms, ratio = (row.get(part, {}).get(name) for part in ("ms", "ratio"))
            cell = "" if ms is None else f"{ms:.2f}"
            cells.append(cell if ratio is None else f"{cell} ({ratio:.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def notebook_table(done: dict[str, Any]) -> list[str]:
    """Seconds of the notebooks on the GPU as Markdown."""
    seconds = {
        name.removeprefix("notebook "): one["notebook_seconds"]
        for name, one in done.items()
        if "notebook_seconds" in one
    }
    if not seconds:
        return []
    return [
        f"| notebook, nothing trained before | {' | '.join(seconds)} |",
        "|---" * (1 + len(seconds)) + "|",
        f"| seconds | {' | '.join(map(str, seconds.values()))} |",
        "",
    ]


def mnist_table(figures: dict[str, Any]) -> list[str]:
    """MNIST at the paper's size as Markdown."""
    arms = {norm: figures[norm] for norm in ("none", "layer") if norm in figures}
    if not arms:
        return []
    lines = [
        "| MNIST, the paper's size | updates | seconds | test errors |",
        "|---|---|---|---|",
    ]
    for norm, arm in arms.items():
        errors = ", ".join(f"{100 * e:.2f} %" for e in arm["test_errors"])
        lines.append(f"| {norm} | {arm['updates']} | {arm['training_seconds']} | {errors} |")
    return [*lines, ""]


def write_page(report: dict[str, Any] | None, page: Path = PAGE) -> None:
    """Put the report between the marks of docs/speed.md."""
    text = page.read_text("utf-8")
    page.write_text(BETWEEN_MARKS.sub(lambda _: f"\n{markdown(report)}\n", text), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("steps", nargs="*", help="beginnings of their names; none: all")
    parser.add_argument("--resume", action="store_true", help="only those that are not done")
    parser.add_argument("--out", type=Path, help="another file for the report")
    parser.add_argument("--page", action="store_true", help="only rewrite docs/speed.md")
    options = parser.parse_args()
    if options.page:
        write_page(json.loads(REPORT.read_text("utf-8")) if REPORT.is_file() else None)
        return
    plan, out = (on_gpu(), REPORT) if torch.cuda.is_available() else (
        without_gpu(), ROOT / "build" / "gpu.json"
    )  # fmt: skip
    if plan.device == "pretend":
        print("No GPU here: all of it is tried at small sizes, and nothing is a measurement.")
    out = options.out or out
    failed = run_steps(plan, out, options.steps, options.resume)
    if out == REPORT:
        write_page(json.loads(REPORT.read_text("utf-8")))
    print(f"report: {out}")
    if failed:
        raise SystemExit(f"failed: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
