"""`make lab` starts a server for this machine only, which asks for its token."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

ROOT = Path(__file__).parents[1]


def recipe(arguments: str) -> list[str]:
    """What `make lab LAB_ARGS=...` passes to JupyterLab, where everything is installed."""
    command = ["make", "--dry-run", "--old-file=setup", "lab", f"LAB_ARGS={arguments}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in said.splitlines() if line.startswith(".venv/bin/jupyter lab")]
    return shlex.split(line)[2:]


def listening(port: int) -> bool:
    """Whether somebody answers; the server describes itself before it listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def server(tmp_path):
    """The server's own description of itself: its address and its token."""
    own = [tmp_path / name for name in ("config", "data", "runtime")]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environment = os.environ | dict(zip(names, map(str, own), strict=True))
    arguments = recipe("--no-browser --allow-root --port=0")
    command = [sys.executable, "-m", "jupyterlab", *arguments]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 90
        described: dict = {}
        while not (described and listening(described["port"])):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.2)
            for found in own[2].glob("jpserver-*.json"):
                described = json.loads(found.read_text() or "{}")
        yield described | {"log": (tmp_path / "log").read_text}
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_lab_is_local_and_asks_for_its_token(server):
    assert server["url"].startswith("http://127.0.0.1:")
    assert len(server["token"]) >= 32
    contents = server["url"] + "api/contents/00_start_here.ipynb?content=0"
    assert requests.get(contents, timeout=30).status_code == 403
    kernels = requests.post(server["url"] + "api/kernels", timeout=30)
    assert kernels.status_code == 403
    elsewhere = requests.get(contents, headers={"Host": "example.org"}, timeout=30)
    assert elsewhere.status_code == 403
    allowed = requests.get(
        contents, headers={"Authorization": f"token {server['token']}"}, timeout=30
    )
    assert allowed.json()["name"] == "00_start_here.ipynb"


@pytest.mark.slow
def test_the_printed_address_opens_the_first_notebook_and_nothing_about_news(server):
    printed = re.findall(r"http://127\S+token=\w+", server["log"]())
    assert printed
    assert {url.partition("?")[0] for url in printed} == {
        server["url"] + "lab/tree/00_start_here.ipynb"
    }
    page = requests.get(printed[0], timeout=30)
    (config,) = re.findall(
        r'(?s)<script id="jupyter-config-data"[^>]*>(.*?)</script>', page.text
    )
    assert (
        "@jupyterlab/apputils-extension:announcements"
        in json.loads(config)["disabledExtensions"]
    )
