"""The seconds from "run all cells" to a notebook's first panel, in a real JupyterLab.

Notebooks lie beside the runs that they show, so `make run` comes first; without it this is the
time of their trainings. Nothing else should run on the machine.
"""

import os
import sys
import time
from contextlib import redirect_stdout
from json import dumps

from benchmarks._jupyterlab import chromium, find_chromium, jupyterlab, opened
from lnlab.paths import checkout_folder
from lnlab.progress import progress


def seconds() -> dict[str, float]:
    """Those of each notebook that has a panel, and the load of the machine before."""
    folder = checkout_folder() / "notebooks"
    found = {"load": os.getloadavg()[0]}
    paths = [
        path
        for path in sorted(folder.glob("*.ipynb"))
        if "panels." in path.read_text(encoding="utf-8")
    ]
    with jupyterlab(folder) as address, chromium() as browser:
        for path in progress(paths, len(paths), "notebooks in JupyterLab"):
            with opened(browser, address, path.name) as page:
                began = time.monotonic()
                page.wait_for_selector(".lnlab-plot .main-svg >> nth=0")
                found[path.stem] = time.monotonic() - began
    return found


def main(json: bool = False) -> None:
    """Measure and print; it fails where there is no browser, never for a time."""
    if find_chromium() is None:
        raise FileNotFoundError("no Chromium or Chrome was found on PATH: install one.")
    with redirect_stdout(sys.stderr):  # stdout is for the result, which may be JSON
        figures = seconds()
    if json:
        print(dumps(figures, indent=1))
    else:
        print("\n".join(f"{name:42} {value:6.1f}" for name, value in figures.items()))
