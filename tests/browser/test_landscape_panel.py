"""The panel of notebook 16 in a real JupyterLab: a plane that can be turned."""

from benchmarks._jupyterlab import opened, plotted, write_notebook

PANEL = """
from lnlab import panels
from lnlab.papers.mnist import train_landscape_networks
panels.landscape(*train_landscape_networks())
"""
CAMERA = """() => {
  const { scene } = document.querySelectorAll(".lnlab-plot")[1]._fullLayout;
  const { eye } = scene._scene.getCamera();
  return [eye.x, eye.y, eye.z].map((place) => place.toFixed(3));
}"""
TOP = "document.querySelector('.lnlab-plot canvas').getBoundingClientRect().top"


def test_over_the_surface_the_notebook_scrolls_and_reset_turns_it_back(
    browser, address, folder
):
    write_notebook(folder / "landscape.ipynb", [PANEL])
    with opened(browser, address, "landscape.ipynb") as page:
        plotted(page, 2)
        page.wait_for_selector(".lnlab-plot[data-frames] >> nth=1")
        before = page.evaluate(CAMERA)
        assert before == ["1.500", "-1.600", "1.000"]
        canvas = page.locator(".gl-container canvas").first
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        x = box["x"] + box["width"] / 2
        page.mouse.move(x, box["y"] + box["height"] / 2)
        page.mouse.wheel(0, -120)
        page.wait_for_function(f"top => {TOP} > top", arg=box["y"] + 40)
        assert page.evaluate(CAMERA) == before
        y = canvas.bounding_box()["y"] + 60
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y + 20, steps=5)
        page.mouse.up()
        assert page.evaluate(CAMERA) != before
        page.get_by_role("button", name="Reset", exact=True).click()
        page.wait_for_function(f"before => String(({CAMERA})()) === String(before)", arg=before)
