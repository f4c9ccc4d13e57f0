"""A real JupyterLab in a headless Chromium, for the browser tests and benchmarks."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as NotInTime

ROOT = Path(__file__).resolve().parents[1]
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-precise-memory-info",
    "--js-flags=--expose-gc",
]
PATIENCE = 300_000
"""How long to wait for what a notebook draws, in milliseconds: its kernel may have torch to
import and kernels to compile, on cores that others use."""
START = 180
"""Seconds that the server has to start, beside other tests and without compiled bytecode."""
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}


def find_chromium() -> str | None:
    """The path of the system's Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's browser, headless."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """A JupyterLab server on `folder` with settings of its own; yields the address of a page.

    It has a token and listens on loopback only, as the one of `make lab`.

    Raises:
        RuntimeError: the server did not start; the message ends with its log.
    """
    with TemporaryDirectory(prefix="lnlab-jupyter-") as own:
        token = secrets.token_hex()
        settings = Path(own, "settings/@jupyterlab/apputils-extension")
        settings.mkdir(parents=True)
        # The toast that offers news would lie over the page.
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(NO_NEWS))
        extend(Path(own, "share"))
        log = Path(own, "log")
        with log.open("w") as stream:
            server = subprocess.Popen(
                command(folder), env=environment(own, token), stdout=stream, stderr=stream
            )
        try:
            root = address(server, Path(own, "runtime"), log)
            yield f"{root}lab/tree/{{}}?reset&token={token}"
        finally:
            server.terminate()
            server.wait(20)


def extend(share: Path) -> None:
    """Put into ``share`` what an installation of this checkout adds to JupyterLab."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for place, files in project["tool"]["setuptools"]["data-files"].items():
        folder = share / Path(place).relative_to("share")
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(ROOT / file, folder)


def command(folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={folder}"),
        "--LabApp.expose_app_in_browser=True",
    ]


def environment(own: str, token: str) -> dict[str, str]:
    places = {
        "JUPYTER_PATH": "share/jupyter",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    return os.environ | {
        **{name: str(Path(own, place)) for name, place in places.items()},
        "JUPYTER_TOKEN": token,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",
    }


def address(server: subprocess.Popen, runtime: Path, log: Path) -> str:
    until = time.monotonic() + START
    while time.monotonic() < until and server.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            with suppress(json.JSONDecodeError):  # the server may be writing it just now
                return json.loads(file.read_text())["url"]
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


def write_notebook(path: Path, cells: Sequence[str]) -> Path:
    """A notebook of code cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}},
    )
    nbformat.write(notebook, path)
    return path


@contextmanager
def opened(browser: Browser, address: str, name: str) -> Iterator[Page]:
    """A page on the notebook `name`, its cells running, its kernel shut down at the end."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(PATIENCE)
    try:
        page.goto(address.format(name))
        page.wait_for_selector(".jp-Notebook")
        run_all(page)
        yield page
    finally:
        page.evaluate(
            "window.jupyterapp?.shell.currentWidget?.context.sessionContext.shutdown()"
        )
        page.close()


def run_all(page: Page) -> None:
    """Start all cells of the open notebook."""
    # A command that is given before the kernel is known only asks for one.
    page.wait_for_function(
        """() => window.jupyterapp?.shell.currentWidget?.context?.sessionContext
              .session?.kernel?.status === 'idle'"""
    )
    # Not awaited: the promise is kept when the last cell is done.
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")


def plotted(page: Page, plots: int = 1) -> None:
    """Wait until so many plots of a panel are drawn, and patched where they were.

    Raises:
        AssertionError: they never came; the message has what the notebook says instead.
    """
    try:
        page.wait_for_selector(f".lnlab-plot >> nth={plots - 1} >> .main-svg >> nth=0")
        page.wait_for_selector(".lnlab-plot[data-frames] >> nth=0")
    except NotInTime:
        notebook = page.locator(".jp-Notebook").first.inner_text()[-3000:]
        kernel = page.evaluate(
            """window.jupyterapp?.shell.currentWidget?.context?.sessionContext
                 .session?.kernel?.status"""
        )
        message = f"no {plots} plots came. The kernel is {kernel}; the notebook:\n{notebook}"
        raise AssertionError(message) from None


def rested(page: Page) -> str:
    """Wait until a panel's sentence stays what it is for a second; return it.

    Raises:
        AssertionError: it went on changing.
    """
    sentence = page.locator(".lnlab-sentence")
    seen = [sentence.text_content() or ""]
    for _ in range(30):
        page.wait_for_timeout(1000)
        seen.append(sentence.text_content() or "")
        if seen[-1] == seen[-2]:
            return seen[-1]
    raise AssertionError(f"it never rests: {seen[-3:]}")


def settled(page: Page, words: str) -> str:
    """Wait until a panel's sentence says ``words`` and the picture has followed; return it."""
    sentence = page.locator(".lnlab-sentence")
    page.wait_for_function(
        "words => document.querySelector('.lnlab-sentence').textContent.includes(words)",
        arg=words,
    )
    page.wait_for_timeout(300)
    return sentence.text_content() or ""


def commanded(page: Page, words: str) -> None:
    """Wait until a panel's command has ``words`` and the picture has followed."""
    page.wait_for_function(
        "words => document.querySelector('.lnlab-command code').textContent.includes(words)",
        arg=words,
    )
    page.wait_for_timeout(300)


def slider(page: Page, name: str) -> Locator:
    """The handle of a panel's slider."""
    return page.get_by_role("slider", name=name, exact=True)


def choose(page: Page, name: str, value: str) -> None:
    """Take a value of a panel's list."""
    page.get_by_label(name, exact=True).select_option(value)
