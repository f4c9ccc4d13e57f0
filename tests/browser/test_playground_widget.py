"""The playground in a real JupyterLab: it learns there, and shares its settings."""

from benchmarks._jupyterlab import opened, write_notebook

SOURCE = """
import lnlab
networks = lnlab.playground(dataset="xor")
networks
"""
ANEW = "networks.state = {'units': 4}"
TOLD = "print('the kernel has', networks.state)"
RUN_LAST = """() => {
  window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2;
  void window.jupyterapp.commands.execute('notebook:run-cell');
}"""
UPDATE = "+document.querySelector('.lnlab-playground .counter')?.textContent.slice(7)"
UNITS = "document.querySelector('[data-control=units] select')?.value"


def test_it_learns_and_shares_its_settings_with_the_kernel(browser, address, folder):
    write_notebook(folder / "playground.ipynb", [SOURCE, ANEW, TOLD])
    with opened(browser, address, "playground.ipynb") as page:
        page.get_by_text("the kernel has {'units': 4}").wait_for()
        page.wait_for_function(f"{UNITS} === '4' && {UPDATE} > 3")
        page.get_by_label("Batch size").select_option("2")
        page.get_by_text("each batch has 2 examples").wait_for()
        page.evaluate(RUN_LAST)
        page.get_by_text("the kernel has {'units': 4, 'batch': 2}").wait_for(timeout=60_000)
