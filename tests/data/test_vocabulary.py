"""Words by number, and what is said of the end, the padding and the unknown."""

from collections import Counter

import pytest
import torch

from lnlab.data import Vocabulary
from lnlab.data.vocabulary import END, UNKNOWN, frequent_words


def test_the_most_frequent_come_first_and_equals_in_order_of_letters():
    counts = Counter(["b", "a", "c", "b", "a", "b", "d"])
    assert frequent_words(counts) == ["b", "a", "c", "d"]
    assert frequent_words(counts, min_count=2) == ["b", "a"]


def test_a_sentence_ends_is_padded_and_loses_nothing():
    known = Vocabulary(["a", "dog", "barks"])
    words, lengths = known.encode_batch(["a dog barks", "dog", "a cat barks"])
    expected = [[2, 3, 4, END], [3, END, END, END], [2, UNKNOWN, 4, END]]
    assert torch.equal(words, torch.tensor(expected))
    assert torch.equal(lengths, torch.tensor([4, 2, 4]))
    assert ("dog" in known, "cat" in known) == (True, False)
    with pytest.raises(ValueError, match="without words"):
        known.encode_batch(["a", " "])


def test_vocabularies_of_other_words_or_orders_have_another_digest():
    digests = {Vocabulary(words).digest for words in (["a", "b"], ["b", "a"], ["a"], [])}
    assert len(digests) == 4
    assert Vocabulary(["a", "b"]).digest == Vocabulary(["a", "b"]).digest
