"""How fast and how lean the panel of notebook 02 is, in a real JupyterLab.

From key press to painted frame, redraws while a slider is being dragged, what is still to
come after its release, and what 1,000 steps and 20 runs of the cell leave in memory.
"""

import os
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from playwright.sync_api import CDPSession, Page

from benchmarks._jupyterlab import (
    chromium,
    find_chromium,
    jupyterlab,
    opened,
    run_all,
    write_notebook,
)

CELL = "from lnlab import panels\npanels.invariance()"
PLOT, HANDLE = ".lnlab-plot", ".lnlab-controls [role=slider]"
SWEEP = 40
"""Mouse moves from one end of a drag to the other."""

# Times at which what has moved in the first plot has been painted: a task that is posted
# in the last callback before a paint runs after it.
WATCH = """() => {
  window.pressed = []; window.painted = []; window.frames = [];
  document.addEventListener('keydown', () => pressed.push(performance.now()), true);
  let coming = false;
  const seen = () => {
    coming = false;
    frames.push(performance.now());
    if (painted.length < pressed.length) painted.push(performance.now());
  };
  const moved = () => {
    if (coming) return;
    coming = true;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = seen;
      port2.postMessage(null);
    });
  };
  const plot = document.querySelector('.lnlab-plot');
  new MutationObserver((changes) => changes.some(({ target }) => target !== plot) && moved())
    .observe(plot, { attributes: true, childList: true, subtree: true });
}"""


def presses(page: Page, count: int) -> list[float]:
    """Milliseconds from each of ``count`` key presses on the slider to its painted frame."""
    page.evaluate("painted.length = pressed.length = 0")
    page.locator(HANDLE).first.focus()
    for n in range(count):
        page.keyboard.press("ArrowRight" if n % 20 < 10 else "ArrowLeft")
        page.wait_for_function(f"painted.length > {n}", polling=20)
        page.wait_for_timeout(40)
    pressed, painted = page.evaluate("[pressed, painted]")
    return [b - a for a, b in zip(pressed, painted, strict=True)]


def drag(page: Page, seconds: float) -> dict[str, float]:
    """Redraws a second while the slider is dragged to and fro, and what comes after that."""
    handle = page.locator(HANDLE).first
    box, track = handle.bounding_box(), handle.locator("xpath=../..").bounding_box()
    assert box is not None
    assert track is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    page.evaluate("frames.length = 0")
    start = now = page.evaluate("performance.now()")
    share, sweeps = 0.8, 0
    while now - start < 1000 * seconds:
        page.mouse.move(track["x"] + share * track["width"], y, steps=SWEEP)
        share, sweeps = 1 - share, sweeps + 1
        now = page.evaluate("performance.now()")
    page.mouse.up()
    page.wait_for_timeout(1500)
    frames = np.array(page.evaluate("frames"))
    return {
        "mouse moves a second": SWEEP * sweeps / (now - start) * 1000,
        "redraws a second while dragging": float((frames < now).sum()) / (now - start) * 1000,
        "redraws after release": int((frames >= now).sum()),
        "last redraw after release, ms": max(0.0, float(frames.max() - now)),
    }


def heap(session: CDPSession) -> float:
    """MB of the page's JavaScript heap after collecting garbage."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    return session.send("Runtime.getHeapUsage")["usedSize"] / 1e6


def kernel(page: Page) -> float:
    """MB that the notebook's kernel holds."""
    return page.evaluate(
        """async () => {
          const { kernel } = jupyterapp.shell.currentWidget.context.sessionContext.session;
          const rss = "__import__('psutil').Process().memory_info().rss";
          const question = { code: '', user_expressions: { rss } };
          const reply = await kernel.requestExecute(question).done;
          return Number(reply.content.user_expressions.rss.data['text/plain']) / 1e6;
        }"""
    )


def steps(page: Page, count: int) -> None:
    """``count`` steps of the slider, each drawn before the next, from where it starts."""
    page.get_by_role("button", name="Reset", exact=True).click()
    page.wait_for_timeout(500)
    for done in range(0, count, 40):
        presses(page, min(40, count - done))


def wait_for_panel(page: Page) -> None:
    page.wait_for_selector(f"{PLOT} >> nth=1 >> .main-svg >> nth=0", timeout=120_000)
    page.wait_for_timeout(1500)


def rerun(page: Page) -> None:
    """Run the cell again and wait for the new panel."""
    page.evaluate(
        "document.querySelectorAll('.lnlab-plot').forEach((p) => (p.dataset.old = 1))"
    )
    run_all(page)
    page.wait_for_selector(f"{PLOT}:not([data-old]) >> nth=1 >> .main-svg >> nth=0")
    page.wait_for_timeout(700)


def measure(count: int, long: int, reruns: int) -> dict[str, float]:
    """All figures by name; the load is that of the machine before and after."""
    load = os.getloadavg()[0]
    with TemporaryDirectory() as folder, jupyterlab(Path(folder)) as address:
        write_notebook(Path(folder, "panel.ipynb"), [CELL])
        with chromium() as browser, opened(browser, address, "panel.ipynb") as page:
            wait_for_panel(page)
            page.evaluate(WATCH)
            session = page.context.new_cdp_session(page)
            presses(page, 20)  # the first ones compile
            latency = np.percentile(presses(page, count), (50, 95, 100))
            dragged = drag(page, 3.0)
            before = heap(session), kernel(page)
            steps(page, long)
            stepped = heap(session) - before[0], kernel(page) - before[1]
            for _ in range(2):
                rerun(page)
            few = heap(session)
            for _ in range(reruns):
                rerun(page)
            rerun_once = (heap(session) - few) / reruns
    names = ("p50", "p95", "longest")
    return {
        **{f"key to painted frame, {q}, ms": t for q, t in zip(names, latency, strict=True)},
        **dragged,
        f"heap after {long} steps, MB more": stepped[0],
        f"kernel after {long} steps, MB more": stepped[1],
        "heap of one more run of the cell, MB": rerun_once,
        "load of the machine before": load,
        "load of the machine after": os.getloadavg()[0],
    }


def main(json: bool = False, count: int = 120, long: int = 1000, reruns: int = 20) -> None:
    """Measure and print; it fails where there is no browser, never for a time."""
    if find_chromium() is None:
        raise FileNotFoundError("no Chromium or Chrome was found on PATH: install one.")
    figures = measure(count, long, reruns)
    if json:
        print(dumps(figures, indent=2))
    else:
        print("\n".join(f"{name:42} {value:10.2f}" for name, value in figures.items()))
