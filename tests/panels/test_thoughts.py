"""The panel of notebook 10: what it shows of a sentence is what the nets make of it."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.papers.skip_thoughts.panel import (
    LONG,
    NEIGHBOURS,
    SLOTS,
    SentenceMap,
)
from lnlab.papers.skip_thoughts.panel import thoughts as thoughts_panel
from lnlab.training.random_state import default_dtype
from tests.papers.test_books import Written, random_books
from tests.papers.test_skip_thoughts import SMALL


def thinkers(*names, words=None):
    """Nets that never learned, at two moments, and a few held-out sentences."""
    written = random_books() if words is None else Written([[words, ["b"]] * 600])
    numbered = EncodedBooks(written, 40)
    names = names or ("none", "layer")
    with default_dtype(torch.float32):
        nets = {
            name: {
                update: replace(SMALL, norm=norm).model(update, numbered).eval()
                for update in (0, 10)
            }
            for name, norm in zip(names, ("none", "layer"), strict=False)
        }
    return nets, numbered


@pytest.fixture(scope="module")
def there():
    return SentenceMap(*thinkers())


def test_the_nearest_are_those_of_the_greatest_cosine(there):
    sentence = "w3 w5 w7"
    found = there.thought("layer", 10, sentence)
    net, encode = there.nets["layer"][10], there.numbered.vocabulary.encode
    own = net.vectors([encode(sentence)])
    cosine = F.cosine_similarity(net.vectors([*map(encode, there.texts)]), own).numpy()
    shown = [c for _, c in found.near]
    assert shown == sorted(shown, reverse=True)
    assert len({text for text, _ in found.near}) == len(found.near) == NEIGHBOURS
    assert shown[0] == pytest.approx(cosine.max(), abs=1e-6)  # float32
    for text, c in found.near:
        assert cosine[there.texts.index(text)] == pytest.approx(c, abs=1e-6)


def test_a_sentence_of_the_book_is_not_its_own_neighbour_and_lies_on_its_path(there):
    first = there.books[1][0]
    for name in there.nets:
        one = there.thought(name, 10, there.texts[first])
        assert there.texts[first] not in [text for text, _ in one.near]
        np.testing.assert_allclose(one.points[first], one.here, atol=1e-9)


def test_the_map_has_the_directions_of_greatest_spread_at_every_moment(there):
    for update in there.updates:
        vectors = there.vectors("none", update)
        mean, axes = there.plane("none", update)
        torch.testing.assert_close(axes.T @ axes, torch.eye(2, dtype=torch.float64))
        spread = torch.linalg.svdvals(vectors - vectors.mean(0))[:2].square().sum()
        torch.testing.assert_close(((vectors - mean) @ axes).square().sum(), spread)


def test_a_map_is_turned_towards_that_of_the_last_update(there):
    def apart(update, axes):
        vectors, last = (there.vectors("none", u) for u in (update, there.updates[-1]))
        mean, final = there.plane("none", there.updates[-1])
        return ((vectors - vectors.mean(0)) @ axes - (last - mean) @ final).norm()

    _, axes = there.plane("none", 0)
    for angle in np.linspace(0, 6, 13):
        c, s = np.cos(angle), np.sin(angle)
        turned = axes @ torch.tensor([[c, -s], [s, c]])
        assert apart(0, axes) <= apart(0, turned) + 1e-9


def test_what_is_typed_is_cut_into_words_as_books_are(there):
    panel = thoughts_panel(there.nets, there.numbered)
    panel.controls["sentence"].value = "W3 isn't <end>."
    assert panel.bar.sentence.startswith("“w3 is n't < end > .” after")
    text = there.texts[0]
    panel.controls["sentence"].value = text
    assert panel.bar.sentence.startswith(f"“{text}” after")


def test_the_words_say_what_the_nets_say(there):
    panel = thoughts_panel(there.nets, there.numbered, book=1)
    first = there.books[1][0]
    for name in there.nets:
        one = there.thought(name, 10, there.texts[first])
        (text, cosine) = one.near[0]
        assert f"{name}: nearest is “{text}” (cosine {cosine:.2f})" in panel.bar.sentence
        said = re.search(f"{name}: nearest .*?, and “(.*?)” would follow", panel.bar.sentence)
        assert said
        assert len(said[1]) <= LONG
        assert one.follows.startswith(said[1].removesuffix(" …"))
        assert (said[1] == one.follows) == (len(one.follows) <= LONG)
    assert f"there follows “{there.texts[first + 1]}”" in panel.bar.sentence


def test_nets_that_cannot_be_shown_are_refused(there):
    with pytest.raises(ValueError, match=f"there are 0 nets: give 1 to {SLOTS}"):
        thoughts_panel({}, there.numbered)
    with pytest.raises(ValueError, match="none: no weights were kept"):
        thoughts_panel({"none": {}}, there.numbered)
    few = SimpleNamespace(
        name="written", passages=lambda least: [], vocabulary=there.numbered.vocabulary
    )
    with pytest.raises(ValueError, match="written holds out no 5 sentences in a row"):
        thoughts_panel(there.nets, few)
    other = EncodedBooks(random_books(words=12), 40)
    with pytest.raises(ValueError, match="none was trained with another vocabulary"):
        thoughts_panel({"none": there.nets["none"]}, other)
