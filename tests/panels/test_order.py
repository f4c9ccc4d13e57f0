"""The panel of notebook 08: what it says of a caption is what nets and scenes say."""

import re

import nbformat
import numpy as np
import pytest

from lnlab import paths
from lnlab.data import Vocabulary
from lnlab.nn import LayerNorm
from lnlab.papers import order_embeddings
from lnlab.papers.order_embeddings.data import parse
from lnlab.papers.order_embeddings.evaluate import embed_captions, embed_images
from lnlab.papers.order_embeddings.model import OrderEmbedding, order_violation
from lnlab.papers.order_embeddings.panel import (
    EXAMPLES,
    OUTLINES,
    CaptionLocator,
    OrderState,
    Thing,
    order_figure,
    outline,
)
from lnlab.papers.order_embeddings.panel import order as order_panel
from tests.golden.write import untrained


@pytest.fixture(scope="module")
def there():
    return CaptionLocator(*untrained("order_embeddings"))


def test_the_nearest_are_those_of_least_violation_and_their_truth_is_the_scenes(there):
    state, net = OrderState("a heart left of a thing", "layer"), there.nets["layer"]
    found = there.locate(state)
    own = embed_captions(net, (state.caption,), there.dataset.vocabulary)
    expected = order_violation(own, embed_images(net, there.dataset.test))[0].numpy()
    np.testing.assert_allclose(found.violations, expected, rtol=1e-5)  # float32
    shown = found.violations[found.nearest].tolist()
    assert shown == sorted(shown) == pytest.approx(sorted(expected)[:8], rel=1e-5)
    assert np.array_equal(found.true, there.dataset.truth([state.caption])[0])
    kinds = there.dataset.test.boxes[found.nearest[0]].categories
    names = [thing.name for thing in found.things[0]]
    assert names == [there.dataset.categories[kind] for kind in kinds]


def test_captions_above_say_less_and_those_below_say_more(there):
    found = there.locate(OrderState("a heart and a polygon", "none"))
    meaning = parse(found.caption)
    assert found.above
    assert found.below
    assert all(meaning.entails(parse(one.text)) for one in found.above)
    assert all(parse(one.text).entails(meaning) for one in found.below)


def test_what_cannot_be_understood_is_said_in_the_panel_and_changes_no_picture(there):
    panel = order_panel(there.nets, there.dataset)
    sentence = panel.bar.sentence
    panel.controls["caption"].value = "two dogs"
    assert "'two dogs' is not understood: say it like" in panel.bar.error
    assert panel.bar.sentence == sentence
    panel.controls["caption"].value = "a ring"
    assert panel.bar.error == ""
    assert panel.bar.sentence.startswith("“a ring”, read by none.")


def test_captions_to_predict_are_on_the_list_and_true_of_a_scene():
    book = paths.root() / "notebooks" / "08_order_embeddings.ipynb"
    prose = "\n".join(cell.source for cell in nbformat.read(book, as_version=4).cells)
    (asked,) = re.findall(r"\*\*Predict\*\*: (.*first eight.*)", prose)
    captions = re.findall(r'"(.*?)"', asked)
    dataset = order_embeddings.Experiment.budget("notebook").dataset()
    assert len(captions) == 2
    assert set(captions) <= set(EXAMPLES), "a page has no others"
    assert dataset.truth(captions).any(axis=1).all(), "or none could be right"


def test_a_net_of_another_vocabulary_is_refused(there):
    other = OrderEmbedding(Vocabulary(["a"]), 144, 8, 6, LayerNorm)
    with pytest.raises(ValueError, match="layer was trained with another vocabulary"):
        order_panel({"layer": other}, there.dataset)
    with pytest.raises(ValueError, match="there are no nets"):
        order_panel({}, there.dataset)


def test_every_thing_is_drawn_inside_its_box():
    for shape, unit in OUTLINES.items():
        drawn = outline(Thing(shape, shape, "red", (0.2, 0.4, 0.5, 0.6)))
        inside = np.clip(drawn, [0.2, 0.4], [0.5, 0.6])
        np.testing.assert_allclose(drawn, inside, atol=1e-12)
        np.testing.assert_allclose(unit[0], unit[-1], atol=1e-12)  # closed


def test_pictures_that_it_is_true_of_stand_before_those_that_it_is_not(there):
    figure = order_figure(there.locate(OrderState("a heart and a polygon", "none")))
    names = [trace["name"] for trace in figure["data"]]
    assert names.index("pictures true") > names.index("pictures false")
