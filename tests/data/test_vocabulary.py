"""Words by number, and what is said of the end, the padding and the unknown."""

import pytest
import torch

from lnlab.data import Vocabulary
from lnlab.data.vocabulary import END, UNKNOWN


def test_the_most_frequent_come_first_and_equals_in_order_of_letters():
    known = Vocabulary.of(["b a", "c b", "a b d"])
    assert known.words == ("<end>", "<unknown>", "b", "a", "c", "d")
    assert len(known) == 6
    assert Vocabulary.of(["b a", "c b", "a b d"], least=2).words[2:] == ("b", "a")


def test_a_sentence_ends_is_filled_up_and_loses_nothing():
    known = Vocabulary(["a", "dog", "barks"])
    words, lengths = known.encoded(["a dog barks", "dog", "a cat barks"])
    expected = [[2, 3, 4, END], [3, END, END, END], [2, UNKNOWN, 4, END]]
    assert torch.equal(words, torch.tensor(expected))
    assert torch.equal(lengths, torch.tensor([4, 2, 4]))
    assert known.unknown(["a cat", "a dog"]) == 0.25
    assert "dog" in known
    assert "cat" not in known


def test_vocabularies_of_other_words_or_orders_are_told_apart():
    digests = {Vocabulary(words).digest for words in (["a", "b"], ["b", "a"], ["a"], [])}
    assert len(digests) == 4
    assert Vocabulary(["a", "b"]).digest == Vocabulary(["a", "b"]).digest


@pytest.mark.parametrize(
    ("words", "says"),
    [(["a", "a"], "'a' is there twice"), (["a b"], "no word"), ([""], "no word"),
     (["<end>"], "'<end>' is there twice")],
)  # fmt: skip
def test_what_is_no_list_of_words_is_refused(words, says):
    with pytest.raises(ValueError, match=says):
        Vocabulary(words)


def test_a_sentence_without_words_is_refused():
    with pytest.raises(ValueError, match="without words"):
        Vocabulary(["a"]).encoded(["a", " "])
