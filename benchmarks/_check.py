"""What ``lnlab check`` looks at on a machine: its tests, its tasks, its speed.

Every finding is a row: what it is about, whether it is right, wrong, slow or missing, and a
sentence. Tests run in a process of their own, as an accelerator that fails takes it along.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import torch

from benchmarks._device import rows
from lnlab import checkout
from lnlab.runs import environment
from lnlab.tasks import TASKS
from lnlab.training import Experiment, found, train
from lnlab.training.machine import available

ROOT = checkout.root()

SIZES = [(100, 32, 256, 256), (30, 64, 300, 1024)]
"""T, B, inputs, H."""

ALIKE = 1e-3
"""The largest difference from the CPU's numbers, as a part of them or of 1."""

SLOW = 2.0
"""Times torch's layer without normalization from which on ours is called slow."""


class Finding(NamedTuple):
    """One row."""

    about: str
    state: str
    """right, wrong, slow, or missing."""
    said: str


def checked(device: str, tests: str = "tests", seconds: float = 60, quick: bool = False):
    """The findings on a device, one after the other, and the report of them all at the end.

    Args:
        device: cuda, mps, or cpu, on which the tests meant for a GPU run on a pretended one.
        tests: where they are.
        seconds: how long they may take.
        quick: whether to leave out the times.

    Raises:
        ValueError: if there is no such device here.
    """
    where = available(device)
    report: dict[str, Any] = {"environment": surroundings(where), "findings": []}
    parts = [libraries(where), tested(where, tests, seconds), stepped(where)]
    for part in parts if quick else [*parts, timed(where, report)]:
        for finding in part:
            report["findings"].append(finding._asdict())
            yield finding
    return report


def surroundings(device: torch.device) -> dict[str, Any]:
    """Versions, and the names that processor and accelerator give themselves."""
    told = environment(device) | {"cuda": torch.version.cuda, "hip": torch.version.hip}
    told["cudnn"] = torch.backends.cudnn.version()
    if device.type == "cuda":
        told["capability"] = list(torch.cuda.get_device_capability(device))
        told["memory_gib"] = round(
            torch.cuda.get_device_properties(device).total_memory / 2**30
        )
    return told


def libraries(device: torch.device) -> Iterator[Finding]:
    """Whether the kernels of this device can be had."""
    from lnlab.kernels.library import library

    if device.type == "cuda":
        there = importlib.util.find_spec("triton") is not None
        said = "its programs serve recurrent layers" if there else "pip install lnlab[triton]"
        yield Finding("Triton", "right" if there else "missing", said)
    there = library() is not None
    said = "they serve the CPU" if there else "no C++ compiler: install g++ or clang++"
    yield Finding("compiled kernels", "right" if there else "missing", said)


def tested(device: torch.device, tests: str, seconds: float) -> Iterator[Finding]:
    """The tests marked gpu, on the device, or on a pretended one."""
    name = "pretend" if device.type == "cpu" else str(device)
    about = f"tests on {name}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--device", name]
        command += ["-p", "no:cacheprovider", "-p", "no:nbval", f"--junitxml={file}", tests]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            yield Finding(about, "slow", f"not done after {seconds:.0f} s: pytest {tests}")
            return
        if done.returncode > 1 or not file.is_file():  # not even begun
            yield Finding(about, "wrong", (done.stdout + done.stderr).strip()[-400:])
            return
        cases = list(ElementTree.parse(file).iter("testcase"))
    failed = [c.get("name", "") for c in cases if c.find("failure") is not None]
    failed += [c.get("name", "") for c in cases if c.find("error") is not None]
    skipped = sum(c.find("skipped") is not None for c in cases)
    passed = len(cases) - len(failed) - skipped
    said = f"{passed} passed, {skipped} skipped, {len(failed)} failed"
    state = "wrong" if failed else "right" if passed else "missing"
    yield Finding(about, state, ": ".join([said, *failed[:5]][:2]) if failed else said)


def stepped(device: torch.device) -> Iterator[Finding]:
    """One update of each task, measured before and after, beside the CPU's numbers."""
    for name, kind in TASKS.items():
        task = kind.budget("smoke", updates=1, seeds=(0,))
        began = time.perf_counter()
        try:
            here, there = (numbers(task, torch.device(d)) for d in ("cpu", device))
        except (RuntimeError, ValueError, NotImplementedError) as error:
            yield Finding(f"task {name}", "wrong", str(error).partition("\n")[0][:300])
            continue
        off = {n: abs(there[n] - v) / max(1.0, abs(v)) for n, v in here.items() if v == v}
        worst = max(off, key=lambda n: off[n])
        said = f"{len(off)} numbers, {worst} is off by {off[worst]:.1e}"
        state = "right" if off[worst] <= ALIKE else "wrong"
        yield Finding(f"task {name}", state, f"{said}, {time.perf_counter() - began:.1f} s")


def numbers(task: Experiment, device: torch.device) -> dict[str, float]:
    """What a run of a task measures, by name and moment."""
    with tempfile.TemporaryDirectory() as root:
        list(train(task, root=Path(root), device=device))
        run = found(task, root=Path(root), device=device)
        if run is None:
            raise RuntimeError("there is no run")
        frame = run.metrics().drop(columns=["seconds", "cpu_seconds"], errors="ignore")
    frame = frame.select_dtypes("number")
    return {f"{name} {i}": float(v) for name in frame for i, v in enumerate(frame[name])}


def timed(device: torch.device, report: dict[str, Any]) -> Iterator[Finding]:
    """Recurrent layers beside torch's without normalization."""
    report["recurrent"] = rows(device, SIZES, seconds=0.5)
    for row in report["recurrent"]:
        about = f"{row['cell']} {row['phase']} {', '.join(map(str, row['size']))}"
        said = f"{row['ours_ms']:.2f} ms, {row['ratio']:.2f} of torch's without normalization, "
        said += f"{row['loop']:.2f} of the loop"
        yield Finding(about, "right" if row["ratio"] <= SLOW else "slow", said)
