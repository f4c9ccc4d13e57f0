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
FIRST = "notebooks/00_start_here.ipynb"


def recipe(arguments: str) -> list[str]:
    """What `make lab LAB_ARGS=...` passes to JupyterLab, where everything is installed."""
    command = ["make", "--dry-run", "--old-file=setup", "lab", f"LAB_ARGS={arguments}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = re.findall(r"(?m)^\.venv/bin/jupyter lab.*$", run.stdout)
    return shlex.split(line)[2:]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The server's own description of itself: its address and its token."""
    folder = tmp_path_factory.mktemp("lab")
    environment = os.environ | {
        f"JUPYTER_{name.upper()}_DIR": str(folder / name)
        for name in ("config", "data", "runtime")
    }
    command = [sys.executable, "-m", "jupyterlab"]
    command += recipe("--no-browser --allow-root --port=0")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 90
        described: dict = {}
        # it describes itself before it listens
        while not (described and listens(described["port"])):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
            for path in (folder / "runtime").glob("jpserver-*.json"):
                described = json.loads(path.read_text() or "{}")
        yield described | {"log": (folder / "log").read_text}
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_lab_is_local_and_asks_for_its_token(server):
    assert server["url"].startswith("http://127.0.0.1:")
    assert len(server["token"]) >= 32
    contents = f"{server['url']}api/contents/{FIRST}?content=0"
    assert requests.get(contents, timeout=30).status_code == 403
    kernels = requests.post(server["url"] + "api/kernels", timeout=30)
    assert kernels.status_code == 403
    elsewhere = requests.get(contents, headers={"Host": "example.org"}, timeout=30)
    assert elsewhere.status_code == 403
    token = {"Authorization": f"token {server['token']}"}
    assert requests.get(contents, headers=token, timeout=30).json()["path"] == FIRST
    documents = requests.get(f"{server['url']}api/contents/docs", headers=token, timeout=30)
    assert "install.md" in {entry["name"] for entry in documents.json()["content"]}


@pytest.mark.slow
def test_the_printed_address_opens_the_first_notebook_and_nothing_about_news(server):
    printed = re.findall(r"http://127\S+token=\w+", server["log"]())
    assert {url.partition("?")[0] for url in printed} == {f"{server['url']}lab/tree/{FIRST}"}
    page = requests.get(printed[0], timeout=30).text
    (config,) = re.findall(r'(?s)<script id="jupyter-config-data"[^>]*>(.*?)</script>', page)
    disabled = json.loads(config)["disabledExtensions"]
    assert "@jupyterlab/apputils-extension:announcements" in disabled
