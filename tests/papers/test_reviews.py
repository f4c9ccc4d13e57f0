"""Reviews: numbers as Keras gives them, IMDB in its layout, opinions whose class is known."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from lnlab import data
from lnlab.papers.batch_layer_norm.data import (
    BLAME,
    PRAISE,
    WEIGHTS,
    encode,
    make_reviews,
    rank_words,
    split_words,
)
from tests.data import layouts


def test_words_are_cut_as_keras_cuts_them():
    text = "It's GREAT -- really (very_good)!<br /><br />10/10, \"isn't\" it?\ttab"
    expected = "it's great really very good br br 10 10 isn't it tab"
    assert split_words(text) == expected.split()


def test_numbers_are_those_of_keras():
    """imdb.load_data: ranks from 4 on, 1 begins, 2 is unknown; pad_sequences: both in front."""
    known = rank_words(["b a b c b", "a d"])
    assert known == ["b", "a", "c", "d"]
    cases = encode(["a b", "x b a b c b", "d c b a"], known, 4)
    assert cases.tolist() == [[0, 1, 5, 4], [5, 4, 6, 4], [7, 6, 4, 5]]


def test_imdb_is_read_from_folder_and_archive(tmp_path):
    above = layouts.imdb(tmp_path / "files")
    packed = layouts.imdb_archive(tmp_path / "archive")
    places = [above, above / "aclImdb", packed.parent, packed]
    found = [
        data.load(f"imdb={place}", "reviews", max_length=6, vocab_size=12) for place in places
    ]
    assert len({one.checksum for one in found}) == 1
    for one in found:
        assert (len(one.train), len(one.valid), len(one.test)) == (16, 4, 20)
        assert torch.equal(one.test.x, found[0].test.x)
        assert one.kind == "official"
        assert one.classes == 2


def test_examples_have_the_class_of_their_folder_in_an_order_that_mixes_them(tmp_path):
    found = data.load(f"imdb={layouts.imdb(tmp_path, each=40)}", "reviews", max_length=20)
    great = 4 + found.known.index("great")
    for split in (found.train, found.valid, found.test):
        assert torch.equal((split.x == great).any(1).long(), split.y)
    assert 0.2 < found.test.y[:20].double().mean() < 0.8
    assert found.train.x[0, 0] == 0  # filled up in front
    assert found.train.x[:, -1].min() >= 4
    assert found.train.x.max() < 20_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: [p.unlink() for p in (f / "train" / "neg").iterdir()], "no reviews in .*neg"
         ),
        (lambda f: (f / "test" / "pos").rename(f / "test" / "good"), "both classes"),
        (lambda f: (f / "test" / "pos" / "0_9.txt").rename(f / "test" / "pos" / "a.txt"),
         "no review of this class"),
        (lambda f: (f / "test" / "pos" / "0_9.txt").rename(f / "test" / "pos" / "0_1.txt"),
         "more than 5 stars in pos"),
        (lambda f: (f / "test" / "neg" / "3_2.txt").write_bytes(b"bad \xff"), "at byte 4"),
        (lambda f: (f / "test" / "neg" / "3_2.txt").write_bytes(b""), "has 0 bytes"),
    ],
)  # fmt: skip
def test_folders_that_are_no_reviews_are_refused(change, words, tmp_path):
    above = layouts.imdb(tmp_path)
    change(above / "aclImdb")
    found = data.load(f"imdb={above}", "reviews")
    with pytest.raises(ValueError, match=words):
        found.train  # noqa: B018


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="read at least one word"):
        data.load("opinions", "reviews", max_length=-1)
    with pytest.raises(ValueError, match="give more than 4"):
        data.load("opinions", "reviews", vocab_size=4)


def judged(text):
    """The class of an opinion, read by rules that were written for this test."""
    total = 0
    for sentence in text.rstrip(".").split(". "):
        part = re.search(r"the (\w+)(?= is| to be)(?!.*, the )", sentence)
        if "although" in sentence:
            part = re.search(r", the (\w+) is", sentence)
        if part is None or part[1] not in WEIGHTS:
            continue
        mood = [word for word in re.findall(r"\w+", sentence) if word in PRAISE + BLAME]
        sign = 1 if mood[-1] in PRAISE else -1
        turned = " is not " in sentence or "which is wrong" in sentence
        total += (-sign if turned else sign) * WEIGHTS[part[1]]
    return int(total > 0)


def test_an_opinion_is_what_it_says():
    made = make_reviews(300, seed=7)
    assert all(judged(text) == label for text, label in made)
    assert Counter(label for _, label in made) == {0: 150, 1: 150}
    assert make_reviews(20, seed=7) == made[:20]
    assert make_reviews(20, seed=8) != made[:20]
    lengths = [len(split_words(text)) for text, _ in made]
    assert max(lengths) <= 130
    assert 35 < sum(lengths) / len(lengths) < 75


def test_single_words_do_not_give_an_opinion_away():
    """Counting praise and blame is right far less often than reading."""
    right = 0
    for text, label in make_reviews(1000, seed=3):
        said = split_words(text)
        mood = sum(word in PRAISE for word in said)
        mood -= sum(word in BLAME for word in said)
        right += (mood > 0) == (label == 1) if mood else 0.5
    assert 550 < right < 850


def test_opinions_of_the_splits_are_different():
    found = data.load("opinions")
    assert (len(found.train), len(found.valid), len(found.test)) == (4_000, 1_000, 2_000)
    rows = [{tuple(row) for row in part.x.tolist()} for part in (found.train, found.test)]
    assert not rows[0] & rows[1]
    assert 200 < len(found.known) < 300


REAL = Path(__file__).parents[2] / "data" / "imdb"


@pytest.mark.skipif(not REAL.exists(), reason="IMDB has not been fetched")
def test_the_real_imdb_has_the_words_of_keras():
    found = data.load("imdb", "reviews")
    assert (len(found.train), len(found.valid), len(found.test)) == (20_000, 5_000, 25_000)
    assert found.known[:6] == ("the", "and", "a", "of", "to", "is")
