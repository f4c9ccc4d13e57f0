"""The scripts of the playground are checked by TypeScript, from their comments."""

import shutil
import subprocess

import pytest

from lnlab.live.bundle import HERE


@pytest.mark.skipif(shutil.which("tsc") is None, reason="needs apt install node-typescript")
def test_types_are_right():
    command = ["tsc", "--project", str(HERE / "jsconfig.json")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
