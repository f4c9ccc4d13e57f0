"""What is kept in results/ is small, and reads as it did before it was packed."""

import hashlib
import json
import math
from pathlib import Path

import pytest

from lnlab import checkout
from lnlab.runs import Run, keep, read
from lnlab.runs.store import PACKED

RESULTS = checkout.root() / "results"
BEFORE = json.loads(Path(__file__).with_name("kept.json").read_text())
"""The digest of each run, by task and key, as it was when its metrics lay there unpacked."""


def digest(run: Run) -> str:
    """A hash of all that a run has; that its rows read as before is held in ``tests/tasks``."""
    rows = hashlib.sha256(run.content("metrics.jsonl")).hexdigest()
    whole = [run.config, run.data, run.environment, run.result, rows]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def test_every_kept_run_reads_as_before():
    now = {f"{run.task}/{run.key}": digest(run) for run in read(RESULTS)}
    assert {name: now.get(name) for name in BEFORE} == BEFORE


def test_nothing_lies_there_unpacked_and_all_of_it_is_small():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert not [path for path in files if path.name in (*PACKED, "config.json")]
    on_disk = sum(math.ceil(path.stat().st_size / 4096) * 4096 for path in files)
    experiments = sum(path.is_dir() for path in RESULTS.iterdir())
    assert on_disk <= (4 + max(0, experiments - 3)) * 2**20  # 1 MB for each that came later


def test_packing_again_changes_no_byte(tmp_path):
    run = read(RESULTS, "mnist")[0]
    folder = keep(run, tmp_path).folder
    once = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "metrics.jsonl").write_bytes(run.content("metrics.jsonl"))
    keep(Run(folder), tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == once
    assert once["metrics.jsonl.xz"] == (run.folder / "metrics.jsonl.xz").read_bytes()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b[41:]])
def test_damaged_packed_metrics_are_refused(damage, tmp_path):
    run = keep(read(RESULTS, "mnist")[0], tmp_path)
    path = run.folder / "metrics.jsonl.xz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"metrics\.jsonl\.xz is damaged"):
        run.metrics()
    path.unlink()
    with pytest.raises(ValueError, match=r"metrics\.jsonl is missing"):
        run.metrics()
