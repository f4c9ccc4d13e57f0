"""The playground in a headless Chromium: frames, updates, and the time to the first one.

Asked for are 30 frames a second of 15 networks of 2-8-8-8-2 (here 3-8-8-8-2), 100 updates a
second of 64-64-64-10 (here of three at once, one with each normalizer), and the first update
within 0.5 s of opening the file. Nothing else should run on the machine.
"""

import os
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._jupyterlab import chromium, find_chromium
from lnlab.live.bundle import playground_module_source, playground_page_html

OPENED = "performance.getEntriesByName('lnlab: first update')[0]?.startTime"
"""Milliseconds from the start of the navigation to the first update."""

SECONDS = 4

FRAMES = """async (seconds) => {
  const update = () => +document.querySelector(".counter").textContent.slice(7);
  const before = update();
  await new Promise((done) => setTimeout(done, 1000 * seconds));
  return (update() - before) / seconds;
}"""

ENGINE = """([settings, seconds]) => {
  const run = new live.Run(live.read(settings).state);
  const start = performance.now();
  while (performance.now() - start < 1000 * seconds) run.step();
  return run.updates / seconds;
}"""

DIGITS = {"dataset": "digits", "depth": 2, "units": 64, "activation": "relu", "seeds": 1}


def measure() -> dict[str, float]:
    """Return every figure; frames are those of the page as it opens, one update in each."""
    figures = {"load of the machine": os.getloadavg()[0]}
    with TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder, "playground.html")
        file.write_text(playground_page_html({}), encoding="utf-8")
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(file.as_uri())
        tab.wait_for_function(OPENED)
        figures["first update, s after opening"] = tab.evaluate(OPENED) / 1000
        frames = tab.evaluate(FRAMES, SECONDS)
        figures["frames a second, 15 networks of 3-8-8-8-2"] = frames
        tab.goto("about:blank")
        exposed = f"{playground_module_source()}\nwindow.live = {{ Run, read }};"
        tab.add_script_tag(content=exposed, type="module")
        tab.wait_for_function("window.live")
        small = tab.evaluate(ENGINE, [{"seeds": 5}, SECONDS])
        figures["updates a second without pictures, the same 15"] = small
        for norms in (["none", "batch", "layer"], ["layer", "rms", "weight"]):
            large = tab.evaluate(ENGINE, [DIGITS | {"norms": norms}, SECONDS])
            figures[f"updates a second of three 64-64-64-10: {', '.join(norms)}"] = large
    return figures


def main(json: bool = False) -> None:
    """Measure and print; it fails where there is no browser, never for a time."""
    if find_chromium() is None:
        raise FileNotFoundError("no Chromium or Chrome was found on PATH: install one.")
    figures = measure()
    if json:
        print(dumps(figures, indent=1))
    else:
        print("\n".join(f"{name:60} {value:8.2f}" for name, value in figures.items()))
