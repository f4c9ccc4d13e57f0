"""What decides the bits of a run is written down, and nothing about whose machine it is."""

import getpass
import json
import platform
import subprocess
from pathlib import Path

import torch

import lnlab
from lnlab.training.runs import code, environment


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


def test_code_is_another_when_any_source_of_the_package_is(tmp_path, monkeypatch):
    monkeypatch.setattr("lnlab.__file__", str(tmp_path / "__init__.py"))
    sources = [tmp_path / "__init__.py", tmp_path / "papers" / "m.py", tmp_path / "k" / "f.cpp"]
    seen = [code.__wrapped__()]
    for path in sources:
        path.parent.mkdir(exist_ok=True)
        path.write_text("1")
        seen.append(code.__wrapped__())
    sources[1].write_text("2")
    seen.append(code.__wrapped__())
    sources[1].rename(sources[1].with_name("n.py"))
    seen.append(code.__wrapped__())
    assert len(set(seen)) == len(seen)
