"""Vectors of words: both layouts of word2vec, whole and damaged, and vectors counted here."""

import tarfile

import numpy as np
import pytest

from lnlab.data import lambada, wordvectors
from lnlab.data.wordvectors import WordVectors, beside, counted, informed, read, write
from tests.data import layouts

WORDS = ("the", "café", "of", "1")
VECTORS = np.array([[0.5, -1.25, 3], [1e-3, 2, 7], [0, 0, 1], [32.0, 10.0, 2.5]], np.float32)
TEXT = "4 3\nthe 0.5 -1.25 3\ncafé 1e-3 2 7\nof 0 0 1\n1 32.0 10.0 2.5\n"


def binary(newlines=True):
    """As word2vec writes it, with a newline behind each vector; Google's file has none."""
    rows = (
        word.encode() + b" " + vector.astype("<f4").tobytes() + b"\n" * newlines
        for word, vector in zip(WORDS, VECTORS, strict=True)
    )
    return b"4 3\n" + b"".join(rows)


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(), TEXT.replace("\n", " \n").encode(), TEXT.strip().encode(), binary(),
        binary(newlines=False),
    ],
)  # fmt: skip
def test_both_layouts_are_read(content, tmp_path):
    (tmp_path / "v").write_bytes(content)
    found = read(tmp_path / "v")
    assert found.words == WORDS
    assert found.vectors.dtype == np.float32
    assert np.array_equal(found.vectors, VECTORS)
    some = read(tmp_path / "v", {"1", "café", "no"})
    assert some.words == ("café", "1")
    assert np.array_equal(some.vectors, VECTORS[[1, 3]])


@pytest.mark.parametrize("binary", [True, False])
def test_what_is_written_is_read(binary, tmp_path):
    random = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    write(tmp_path / "v", WordVectors(WORDS, random), binary=binary)
    assert np.array_equal(read(tmp_path / "v").vectors, random)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin with the number of its words"),
        (b"the 0.5 1 2\n", "does not begin with the number"),
        (b"0 3\n", "does not begin with the number"),
        (b"3 999999999999\nthe 1\n", "does not begin with the number .* width, 1 to 100000"),
        (TEXT.encode()[:-9], "is cut off or damaged at word 4 of 4"),
        (TEXT.replace("2 7", "2 x").encode(), "damaged at word 2 of 4"),
        (binary()[:-3], "cut off or damaged at word 4 of 4"),
        (TEXT.replace("2 7", "2 nan").encode(), "v: a vector of a word is not finite"),
        (
            TEXT.replace("café", "caf").encode().replace(b"caf", b"caf\xe9"),
            "word 2 is no UTF-8",
        ),
    ],
)
def test_a_damaged_file_is_named(content, message, tmp_path):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "v")


def test_words_that_are_not_there_are_said(tmp_path):
    (tmp_path / "v").write_text(TEXT)
    with pytest.raises(ValueError, match="none of the words that are asked for is among its 4"):
        read(tmp_path / "v", {"xyz"})
    with pytest.raises(ValueError, match="2 words, 1 of them different"):
        WordVectors(("a", "a"), np.zeros((2, 3)))


# --- counted ---------------------------------------------------------------------------------


def test_pairs_are_counted_by_nearness_within_sentences(monkeypatch):
    texts = [["a", "b", "x", "a"], ["b"], ["b", "a"]]
    expected = {("a", "b"): 1 + 1 / 2 + 1, ("a", "a"): 2 / 3, ("b", "b"): 0}
    for block in (wordvectors.BLOCK, 1):
        monkeypatch.setattr(wordvectors, "BLOCK", block)
        found = beside(texts, ["a", "b"], 3).toarray()
        assert found[0, 1] == found[1, 0] == pytest.approx(expected["a", "b"])
        assert found[0, 0] == pytest.approx(expected["a", "a"])
        assert found[1, 1] == expected["b", "b"]


def test_information_is_that_of_the_definition():
    from scipy import sparse

    counts = np.random.default_rng(1).integers(0, 9, (5, 5)).astype(float)
    counts += counts.T
    smooth = counts.sum(0) ** 0.75
    chance = counts.sum(1)[:, None] * smooth / smooth.sum()
    with np.errstate(divide="ignore"):
        expected = np.maximum(0, np.log(counts / chance))
    found = informed(sparse.csr_matrix(counts)).toarray()
    assert found == pytest.approx(expected)


def texts():
    random = np.random.default_rng(0)
    groups = [["cat", "dog", "cow"], ["red", "green", "blue"], ["one", "two", "three"]]
    for _ in range(3000):
        group = groups[random.integers(3)]
        yield [*random.permutation([*group, f"near{groups.index(group)}"]).tolist()]


def test_words_that_stand_beside_the_same_words_are_alike():
    found = counted(texts(), 4)
    again = counted(texts(), 4)
    assert np.array_equal(found.vectors, again.vectors)
    assert found.words[:2] == again.words[:2]
    units = found.vectors / np.linalg.norm(found.vectors, axis=1, keepdims=True)
    alike = units @ units.T
    place = {word: n for n, word in enumerate(found.words)}
    assert alike[place["cat"], place["cow"]] > alike[place["cat"], place["red"]] + 0.5
    assert alike[place["two"], place["three"]] > alike[place["two"], place["dog"]] + 0.5
    with pytest.raises(
        ValueError, match="12 words occur 5 times or more: vectors of 12 numbers"
    ):
        counted(texts(), 12)


def test_a_word_that_occurs_just_often_enough_has_a_vector():
    assert {*counted([["a", "b", "c"], ["c", "b", "a"]], 2, least=2).words} == {*"abc"}


# --- texts -----------------------------------------------------------------------------------


def test_texts_are_read_from_folders_and_archives(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "kept"))
    place = tmp_path / "lambada"
    for name in lambada.FILES.values():
        layouts.put(place / "any" / name, text="One passage , it 's\n\nthe end\n")
    expected = [["one", "passage", ",", "it", "'s"], ["the", "end"]] * 2
    assert lambada.passages(place) == expected
    packed = tmp_path / "packed" / "lambada_dev_test.tar.gz"
    packed.parent.mkdir()
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(place / "any", "lambada")
    assert lambada.passages(packed.parent) == expected
    for folder in (
        layouts.imdb(tmp_path / "i", each=2),
        layouts.imdb_archive(tmp_path / "a", 2),
    ):
        found = wordvectors.imdb_training(folder)
        assert [" ".join(words) for words in found[:2]] == [
            "a dull film , train 0 .", "it is n't neg !",
        ]  # fmt: skip
        assert len(found) == 8
    for read_them in (lambada.passages, wordvectors.imdb_training):
        with pytest.raises(FileNotFoundError, match="name the folder of"):
            read_them(tmp_path / "nothing")
