"""What decides the bits of a run is written down, and nothing about whose machine it is."""

import getpass
import json
import platform
import subprocess
import sys
from pathlib import Path

import torch

import lnlab
from lnlab.runs import environment
from lnlab.runs.environment import code


def test_environment_is_complete_and_nobodys():
    here = environment()
    assert here["lnlab"] == lnlab.__version__
    assert here["device"] == "cpu"
    assert here["device_name"]
    assert here["threads"] == torch.get_num_threads() == 1
    text = json.dumps(here)
    for private in (platform.node(), str(Path.home()), f"/{getpass.getuser()}"):
        assert private not in text


def test_commit_is_that_of_the_checkout():
    folder = Path(lnlab.__file__).parents[1]
    head = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    expected = head.stdout.strip() or None
    commit = environment()["commit"]
    assert (commit.removesuffix("-dirty") if commit else None) == expected


def test_code_changes_with_the_sources_that_decide_and_with_no_others(tmp_path, monkeypatch):
    place = tmp_path / "lnlab" / "runs" / "environment.py"
    for name in ("norms/layer.py", "kernels/cpp/loop.cpp", "unroll.py", "figures/curves.py"):
        path = tmp_path / "lnlab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    module = sys.modules[code.__module__]
    monkeypatch.setattr(module, "__file__", str(place))
    before = code.__wrapped__()
    for name, decides in (
        ("figures/curves.py", False),
        ("norms/layer.py", True),
        ("kernels/cpp/loop.cpp", True),
        ("unroll.py", True),
    ):
        (tmp_path / "lnlab" / name).write_text("2")
        assert (code.__wrapped__() != before) == decides, name
        before = code.__wrapped__()
