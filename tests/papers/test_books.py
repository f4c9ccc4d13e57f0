"""Books: what follows what, in stories generated here and in files, whole and damaged."""

import os
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch

from lnlab import data
from lnlab.data.vocabulary import END, UNKNOWN
from lnlab.papers.skip_thoughts import data as books
from lnlab.papers.skip_thoughts.data import EACH, STRETCH, SUBJECTS, EncodedBooks, Event
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "books", **options)


# --- files -----------------------------------------------------------------------------------


def test_a_folder_of_books_is_read_line_by_line(tmp_path):
    folder = layouts.bookcorpus(tmp_path)
    corpus, longer = (load(f"bookcorpus={folder}", longest=n) for n in (29, 41))
    assert [*corpus.library] == ["a.txt", "b.txt", "more/c.txt"]
    expected = [line.split() for line in layouts.sentences(2)]
    assert longer.books[2] == expected
    expected[3] = []
    assert corpus.books[2] == expected
    assert (corpus.left_out, longer.left_out) == (3, 0)
    assert corpus.name == "bookcorpus, 3 of 24 sentences of more than 29 words left out"
    assert longer.name == "bookcorpus"
    assert corpus.checksum != longer.checksum


def test_a_novel_is_its_text_in_sentences(tmp_path):
    novels = load(f"gutenberg={layouts.gutenberg(tmp_path)}")
    opening = (
        "`` did mr. {} go ? ''|asked dr. bell .|`` no -- never ; she ca n't do it , '' said i ."
    )
    for number, name in enumerate(("ann", "zoë")):
        sentences = [" ".join(words) for words in novels.books[number]]
        assert sentences[:3] == opening.format(name).split("|")
        assert sentences[3] == f"it was 0 o'clock in book {number} ."
        assert len(sentences) == 20
        assert not {"licence", "ebook", "volunteers"} & {*" ".join(sentences).split()}


def test_a_novel_is_cut_once_on_a_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "kept"))
    folder = layouts.gutenberg(tmp_path / "files")
    first = load(f"gutenberg={folder}").books
    monkeypatch.setattr(books, "split_sentences", None)
    os.utime(folder / "0.txt", ns=(1, 1))
    assert load(f"gutenberg={folder}").books == first


def test_a_sentence_ends_with_its_paragraph_and_not_behind_a_title():
    text = "Chapter 1\n\nMrs. Hill saw\nSt. Paul's. It rained! (Twice.)\n\n\nWell"
    assert [" ".join(words) for words in books.split_sentences(text)] == [
        "chapter 1", "mrs. hill saw st. paul 's .", "it rained !", "( twice . )", "well",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[: b.index(b"End of the Project")], "no whole book of Project Gutenberg"),
        (lambda b: b.replace(b"ASCII", b"EBCDIC-0") + b"\xe9", "no text in utf-8 or EBCDIC-0"),
    ],
)
def test_a_damaged_novel_is_named(change, message, tmp_path):
    file = layouts.gutenberg(tmp_path) / "0.txt"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"0\.txt.*{message}"):
        load(f"gutenberg={tmp_path}").books  # noqa: B018


def test_novels_are_both_kinds_of_books(tmp_path):
    novels = load(f"novels={layouts.novels(tmp_path)}")
    assert len(novels.books) == 12
    assert novels.books[:2] == load(f"gutenberg={tmp_path / 'gutenberg'}").books
    assert novels.books[2:] == load(f"cbt-books={tmp_path / 'cbt' / 'CBTest'}").books
    file = tmp_path / "cbt" / "CBTest" / "data" / "cbt_valid.txt"
    file.write_text("_BOOK_TITLE_ : A\n" + "He -LRB- Tom -RRB- ran .\n" * 3)
    words = ["he", "(", "tom", ")", "ran", "."]
    assert load(f"novels={tmp_path}").library["A"] == [words] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one sentence .\n", r"bookcorpus: a\.txt has 1 sentence, and a book needs .*: take"),
        (b"one .\ntwo .\n<end> .\n", r"a\.txt has the word '<end>', which stands for"),
        (b"one .\ncaf\xe9 .\nthree .", r"a\.txt is no text in utf-8"),
        ((b"word " * 30 + b"\n") * 3, "all 3 sentences have more than 29 words"),
    ],
)
def test_what_is_no_book_is_named(content, message, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load(f"bookcorpus={tmp_path}").books  # noqa: B018


@pytest.mark.parametrize("name", ["bookcorpus", "gutenberg", "cbt-books", "novels"])
def test_a_folder_without_books_says_what_it_needs(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\.txt files, a book each|data/cbt_valid"):
        load(f"{name}={tmp_path}")


REAL = data.data_folder()  # when tests are collected: it is another while they run


@pytest.mark.slow
@pytest.mark.skipif(
    not all((REAL / name).is_dir() for name in ("gutenberg", "cbt")),
    reason="the novels are not in the data folder",
)
def test_the_real_novels_are_read():
    novels = load(f"novels={REAL}")
    assert len(novels.books) == 18
    assert sum(map(len, novels.books)) == 115_317
    assert novels.left_out == 28_011
    words = books.frequent_words((w for book in novels.books for w in book), 20_000).words
    assert not {"gutenberg", "gutenberg-tm"} & {*words}


# --- stories ---------------------------------------------------------------------------------


def stories(count=200):
    return [[" ".join(line) for line in story] for story in books.make_stories(count, 3)]


def test_stories_are_always_the_same_and_differ():
    make = books.make_stories
    assert make(30, 1)[:10] == make(10, 1) != make(10, 2)
    assert len({"\n".join(story) for story in stories()}) == 200
    assert all(5 <= len(story) <= 14 for story in stories())


def test_subject_people_and_mood_stay():
    everything = {thing for things in SUBJECTS.values() for thing in things}
    everybody = {name for names in books.CHARACTERS.values() for name in names}
    for story in stories():
        opening = story[0].removesuffix(" .").split()
        subject, people = opening[-1], {opening[-6], opening[-4]}
        words = {word for line in story for word in line.split()}
        assert words & everything <= {*SUBJECTS[subject]}
        assert words & everybody <= people
        assert bool(words & {*books.GLAD}) != bool(words & {*books.SAD})


def test_what_follows_depends_on_more_than_words():
    """The same words in another order have other consequences."""
    event = Event("anna", "gave", "lamp", "ben")
    assert event.paraphrases[1] == "anna gave the lamp to ben"
    assert event.swapped.paraphrases[1] == "ben gave the lamp to anna"
    assert event.consequence == "now ben had the lamp and anna had nothing"
    assert event.swapped.consequence == "now anna had the lamp and ben had nothing"
    broke = Event("anna", "broke", "lamp")
    not_said, said_not = (Counter(" ".join(make("ben", broke)).split())
                          for make in (books.not_said, books.said_not))  # fmt: skip
    assert not_said == said_not
    follows = Counter()
    for story in stories():
        for line, after in pairwise(story):
            if " did not say" in line:
                follows["not said"] += after.startswith("nobody")
            elif " did say" in line:
                follows["denied"] += after.startswith("everybody")
            if line.startswith(("luckily", "sadly")):
                follows["teller"] += after.startswith("i was")
            if " after the " in line:
                last = line.split(" after ")[0].split()[-1]
                assert story[story.index(line) + 2] == f"the last thing was the {last} ."
    assert min(follows.values()) > 20


# --- books by number -------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """Books, as they are loaded."""

    books: list
    name: str = "written"
    kind: str = "synthetic"
    licence: str = "none"
    checksum: str = "1"
    left_out: int = 7


def random_books(count=12, each=110, words=30, longest=9):
    """Books of random words; the same ones every time."""
    random = torch.Generator().manual_seed(1)

    def sentence():
        length = int(torch.randint(longest, (1,), generator=random))  # 0: one was left out
        return [f"w{int(k)}" for k in torch.randint(words, (length,), generator=random)]

    return Written([[sentence() for _ in range(each)] for _ in range(count)])


@pytest.fixture(scope="module")
def encoded():
    return EncodedBooks(random_books(), 40)


def test_triples_have_their_neighbours_in_their_book(encoded):
    flat = [sentence for book in encoded.books.books for sentence in book]
    book_of = [k for k, book in enumerate(encoded.books.books) for _ in book]

    def words(row):
        return [encoded.vocabulary.words[number] for number in row if number != END]

    for length in (1, 5, 8):
        indices = encoded.train[encoded.lengths[encoded.train] == length][:6]
        triples = encoded.triples(indices)
        assert triples.middle.shape == (6, length + 1)
        for row, index in enumerate(indices.tolist()):
            assert book_of[index - 1] == book_of[index] == book_of[index + 1]
            sides = (0, triples.middle), (-1, triples.before), (1, triples.after)
            assert all(words(part[row]) == flat[index + side] for side, part in sides)
            counts = [len(flat[index + side]) + 1 for side in (-1, 1)]
            assert triples.counts[row].tolist() == counts


def test_no_sentence_that_trains_is_held_out(encoded):
    def with_neighbours(indices):
        return {index + side for index in indices.tolist() for side in (-1, 0, 1)}

    train, valid = with_neighbours(encoded.train), with_neighbours(encoded.valid)
    assert train
    assert valid
    assert not train & valid
    assert {index // STRETCH % EACH for index in valid} == {EACH - 1}


def test_a_sentence_that_was_left_out_parts_its_neighbours(encoded):
    empty = encoded.lengths == 0
    assert empty.any()
    for indices in (encoded.train, encoded.valid):
        assert not any(empty[indices + side].any() for side in (-1, 0, 1))
    ends = encoded.ends - 1
    assert not torch.isin(encoded.train, torch.cat([ends, ends + 1])).any()


def test_a_passage_is_of_held_out_sentences_in_a_row(encoded):
    passages = encoded.passages(3)
    assert len(passages) > 1
    inner = [index for passage in passages for index in passage[1:-1]]
    held_out = set(encoded.valid.tolist())
    assert {*inner} <= held_out
    assert len(inner) == len({*inner})
    assert all(p[0] not in held_out and p[-1] not in held_out for p in passages)
    assert not encoded.passages(1 + max(map(len, passages)))


def test_the_vocabulary_is_the_most_frequent_words_that_train():
    sentences = [["held"] if k // 50 == 19 else ["b", "a", "b"][k % 3 :] for k in range(2000)]
    assert EncodedBooks(Written([sentences]), 4).vocabulary.words[2:] == ("b", "a")
    assert "held" not in EncodedBooks(Written([sentences]), 9).vocabulary
    few = EncodedBooks(random_books(), 7)
    assert len(few.vocabulary) == 7
    rows = few.triples(few.train[few.lengths[few.train] == 8][:20]).middle
    assert (rows == UNKNOWN).any()


def test_shuffled_sentences_are_the_same_ones_in_other_places(encoded):
    mixed, again = (EncodedBooks(random_books(), 40, shuffled=True) for _ in range(2))
    assert sorted(mixed.sentences) == sorted(encoded.sentences)
    assert mixed.sentences != encoded.sentences
    assert again.sentences == mixed.sentences
    assert mixed.vocabulary.words == encoded.vocabulary.words


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["a"], ["b"], []] * 500, "none to train on; 7 were too long.*max_length"),
        ([["a"]] * 100, "100 sentences in 1 books, none to validate on"),
        ([[], [], []], "the vocabulary is empty"),
    ],
)
def test_books_that_cannot_be_used_are_errors_that_say_so(sentences, message):
    with pytest.raises(ValueError, match=message):
        EncodedBooks(Written([sentences]), 10)
