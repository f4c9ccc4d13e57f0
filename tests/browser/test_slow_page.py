"""A widget whose script comes late, on a page that is busy, still hears its kernel."""

from benchmarks._jupyterlab import opened, write_notebook

LATE = '''
import anywidget, traitlets

class Late(anywidget.AnyWidget):
    """Its script takes three seconds; anywidget waits for two and then hears nothing."""

    _esm = """
    await new Promise((done) => setTimeout(done, 3000));
    function render({ model, el }) {
      const show = () => (el.textContent = `heard ${model.get("said")}`);
      model.on("change:said", show);
      show();
    }
    export default { render };
    """
    said = traitlets.Unicode("nothing").tag(sync=True)

late = Late()
late
'''


def test_what_the_kernel_says_reaches_a_widget_whose_script_is_late(folder, address, browser):
    write_notebook(folder / "late.ipynb", [LATE, "late.said = 'the kernel'"])
    with opened(browser, address, "late.ipynb") as page:
        page.get_by_text("heard the kernel", exact=True).wait_for(timeout=60_000)
