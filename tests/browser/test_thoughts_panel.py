"""The panel of notebook 10 in a real JupyterLab: a sentence typed, a training dragged."""

import pytest

from benchmarks._jupyterlab import choose, opened, plotted, settled, slider, write_notebook
from lnlab.papers import skip_thoughts
from lnlab.papers.skip_thoughts.evaluate import load_snapshots
from lnlab.papers.skip_thoughts.panel import SentenceMap
from lnlab.papers.skip_thoughts.panel import thoughts as thoughts_panel
from lnlab.training import train

SOURCE = """
import tempfile
from pathlib import Path
from lnlab.papers.skip_thoughts.panel import thoughts as thoughts_panel
from lnlab.papers import skip_thoughts
from lnlab.papers.skip_thoughts.evaluate import load_snapshots
from lnlab.training import train

tasks = skip_thoughts.Experiment.arms("smoke", downstream_tasks="none")
numbered = tasks["none"].dataset()
root = Path(tempfile.mkdtemp())
runs = {name: train(task, root=root) for name, task in tasks.items()}
thoughts_panel(
    {name: load_snapshots(task, runs[name], numbered) for name, task in tasks.items()}, numbered
)
"""
TYPED = "Anna was glad about the dragon ."
PLOTTED = """() => JSON.stringify(document.querySelector('.lnlab-plot')._fullData.map(
    ({ name, x, y, text }) => [name, x ?? null, y ?? null, text ?? null]))"""
"""All that is drawn: the map, the path of the book, the star."""


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """The nets of the notebook, trained here."""
    root, tasks = (
        tmp_path_factory.mktemp("runs"),
        skip_thoughts.Experiment.arms("smoke", downstream_tasks="none"),
    )
    numbered = tasks["none"].dataset()
    nets = {
        name: load_snapshots(task, train(task, root=root), numbered)
        for name, task in tasks.items()
    }
    return nets, SentenceMap(nets, numbered)


def test_picture_and_words_follow_what_is_typed_chosen_and_dragged(
    browser, address, folder, there
):
    nets, of = there

    def said(**settings):
        return thoughts_panel(nets, of.numbered, **settings).bar.sentence

    write_notebook(folder / "thoughts.ipynb", [SOURCE])
    with opened(browser, address, "thoughts.ipynb") as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page)
        pictures = [page.evaluate(PLOTTED)]

        def moved(words):
            """It says this, and the picture is none that was there before."""
            assert settled(page, words) == words
            pictures.append(page.evaluate(PLOTTED))
            assert pictures[-1] not in pictures[:-1]

        assert settled(page, said()) == said()
        slider(page, "update").press("ArrowLeft")
        moved(said(update=3))
        slider(page, "update").press("ArrowRight")
        settled(page, said())
        assert page.evaluate(PLOTTED) == pictures[0]
        box = page.get_by_label("sentence", exact=True)
        box.fill(TYPED)
        box.press("Enter")
        typed = said(sentence=TYPED)
        assert "do not know, all read as one unknown word: dragon" in typed
        moved(typed)
        box.fill(of.texts[1])
        box.press("Enter")
        moved(said(sentence=of.texts[1]))
        choose(page, "book", f"2: {of.texts[of.books[1][0]]}")
        page.wait_for_function(
            f"was => ({PLOTTED})() !== was", arg=pictures[-1]
        )  # another path; the sentence says what follows in the book
        settled(page, said(sentence=of.texts[1], book=1))
        assert errors == []
