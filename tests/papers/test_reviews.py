"""Reviews: numbers as Keras gives them, IMDB in its layout, opinions whose class is known."""

import re
from collections import Counter

import pytest
import torch

from lnlab import data
from lnlab.papers.batch_layer_norm.data import (
    BLAME,
    PRAISE,
    WEIGHTS,
    encode_last_words,
    make_reviews,
    rank_words_by_frequency,
    split_words_like_keras,
)
from tests.data import layouts


def test_words_and_their_numbers_are_those_of_keras():
    text = "It's GREAT -- really (very_good)!<br /><br />10/10, \"isn't\" it?\ttab"
    expected = "it's great really very good br br 10 10 isn't it tab"
    assert split_words_like_keras(text) == expected.split()
    # imdb.load_data: ranks from 4 on, 1 begins, 2 is unknown; pad_sequences: both in front
    known = rank_words_by_frequency(["b a b c b", "a d"])
    assert known == ["b", "a", "c", "d"]
    numbers = encode_last_words(["a b", "x b a b c b", "d c b a"], known, 4)
    assert numbers.tolist() == [[0, 1, 5, 4], [5, 4, 6, 4], [7, 6, 4, 5]]


def test_imdb_is_read_from_folder_and_archive(tmp_path):
    above = layouts.imdb(tmp_path / "files")
    archive = layouts.imdb_archive(tmp_path / "archive")
    paths = [above, above / "aclImdb", archive.parent, archive]
    sets = [data.load(f"imdb={p}", "reviews", max_length=6, vocab_size=12) for p in paths]
    assert len({one.checksum for one in sets}) == 1
    for one in sets:
        assert (len(one.train), len(one.valid), len(one.test)) == (16, 4, 20)
        assert torch.equal(one.test.x, sets[0].test.x)
        assert (one.kind, one.classes) == ("official", 2)


def test_reviews_have_the_class_of_their_folder_in_a_mixed_order(tmp_path):
    dataset = data.load(f"imdb={layouts.imdb(tmp_path, each=40)}", "reviews", max_length=20)
    great = 4 + dataset.known_words.index("great")
    for split in (dataset.train, dataset.valid, dataset.test):
        assert torch.equal((split.x == great).any(1).long(), split.y)
    assert 0.2 < dataset.test.y[:20].double().mean() < 0.8
    assert dataset.train.x[0, 0] == 0  # padded in front
    assert dataset.train.x[:, -1].min() >= 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "test/pos").rename(f / "test/good"), "both classes"),
        (lambda f: (f / "test/neg/3_2.txt").write_bytes(b"bad \xff"), "no text in utf-8"),
    ],
)
def test_damaged_folders_are_refused(change, message, tmp_path):
    above = layouts.imdb(tmp_path)
    change(above / "aclImdb")
    with pytest.raises(ValueError, match=message):
        _ = data.load(f"imdb={above}", "reviews").train


def classify(text):
    """The class of an opinion, read by rules that were written for this test."""
    total = 0
    for sentence in text.rstrip(".").split(". "):
        part = re.search(r"the (\w+)(?= is| to be)(?!.*, the )", sentence)
        if "although" in sentence:
            part = re.search(r", the (\w+) is", sentence)
        if part is None or part[1] not in WEIGHTS:
            continue
        words = [word for word in re.findall(r"\w+", sentence) if word in PRAISE + BLAME]
        sign = 1 if words[-1] in PRAISE else -1
        if " is not " in sentence or "which is wrong" in sentence:
            sign = -sign
        total += sign * WEIGHTS[part[1]]
    return int(total > 0)


def test_opinions_have_the_class_that_they_express():
    reviews = make_reviews(300, seed=7)
    assert all(classify(text) == label for text, label in reviews)
    assert Counter(label for _, label in reviews) == {0: 150, 1: 150}
    assert make_reviews(20, seed=7) == reviews[:20]
    assert make_reviews(20, seed=8) != reviews[:20]
    correct = 0.0
    for text, label in make_reviews(1000, seed=3):  # counting words is far worse than reading
        words = split_words_like_keras(text)
        score = sum((word in PRAISE) - (word in BLAME) for word in words)
        correct += (score > 0) == (label == 1) if score else 0.5
        assert len(words) <= 130
    assert 550 < correct < 850
