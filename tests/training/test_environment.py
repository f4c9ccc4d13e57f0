"""What decides the bits of a run is written down, and nothing about whose machine it is."""

import getpass
import json
import platform
import subprocess
from pathlib import Path

import torch

import lnlab
from lnlab.training.runs import environment


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
