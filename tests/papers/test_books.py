"""Books: what follows what, in stories made here and in files, whole and damaged."""

import os
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from lnlab import data
from lnlab.papers.skip_thoughts import data as books
from lnlab.papers.skip_thoughts.data import SUBJECTS, Deed
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "books", **options)


# --- what follows what -----------------------------------------------------------------------


def test_a_folder_of_books_is_read_line_by_line(tmp_path):
    found = load(f"bookcorpus={layouts.bookcorpus(tmp_path)}")
    assert found.titles == ("a.txt", "b.txt", "more/c.txt")
    expected = [line.split() for line in layouts.sentences(2)]
    expected[3] = []
    assert found.books[2] == expected
    assert found.left_out == 3
    assert found.name == "bookcorpus, 3 of 24 sentences of more than 29 words left out"
    assert len(found.sentences) == 21
    assert "3 books, 24 sentences, 9 of them between two others" in str(found)


def test_nobody_jumps_over_a_sentence_that_was_left_out(tmp_path):
    found = load(f"bookcorpus={layouts.bookcorpus(tmp_path)}")
    places = found.triples()
    assert places.tolist() == [[book, place] for book in range(3) for place in (1, 5, 6)]
    for book, place in places:
        before, middle, after = found.books[book][place - 1 : place + 2]
        assert int(before[4]) + 1 == int(middle[4]) == int(after[4]) - 1
        assert before[2] == middle[2] == after[2] == str(book)


def test_a_longer_limit_leaves_out_less(tmp_path):
    folder = layouts.bookcorpus(tmp_path)
    short, long = (load(f"bookcorpus={folder}", longest=n) for n in (40, 41))
    assert (short.left_out, long.left_out) == (3, 0)
    assert len(long.triples()) == 18
    assert long.name == "bookcorpus"
    assert short.checksum != long.checksum


def test_blank_lines_and_large_letters_count_for_nothing(tmp_path):
    layouts.put(tmp_path / "a.txt", text="One two .\n\n \nThree .\r\nFOUR .")
    assert load(f"bookcorpus={tmp_path}").books == [[["one", "two", "."], ["three", "."],
                                                     ["four", "."]]]  # fmt: skip


def test_the_vocabulary_has_the_most_frequent_words(tmp_path):
    layouts.put(tmp_path / "a.txt", text="b b b a\nc a d\ne e e e")
    found = load(f"bookcorpus={tmp_path}")
    assert found.vocabulary(5).words[2:] == ("e", "b", "a")
    assert len(found.vocabulary(5)) == 5
    assert len(found.vocabulary(100)) == 7


# --- novels ----------------------------------------------------------------------------------


def test_a_novel_is_its_text_in_sentences(tmp_path):
    found = load(f"gutenberg={layouts.gutenberg(tmp_path)}")
    asked = (
        "`` did mr. {} go ? ''|asked dr. bell .|`` no -- never ; she ca n't do it , '' said i ."
    )
    for number, name in enumerate(("ann", "zoë")):
        told = [" ".join(words) for words in found.books[number]]
        assert told[:4] == [
            *asked.format(name).split("|"),
            f"it was 0 o'clock in book {number} .",
        ]
        assert len(told) == 20
        assert not {"licence", "ebook", "volunteers"} & {
            w for line in told for w in line.split()
        }


def test_a_novel_is_cut_once_on_a_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "kept"))
    folder = layouts.gutenberg(tmp_path / "files")
    one = load(f"gutenberg={folder}").books
    monkeypatch.setattr(books, "split_sentences", None)
    assert load(f"gutenberg={folder}", longest=5).titles == ("0.txt", "1.txt")
    os.utime(folder / "0.txt", ns=(1, 1))
    assert load(f"gutenberg={folder}").books == one


def test_a_sentence_ends_with_its_paragraph_and_not_behind_a_title():
    text = "Chapter 1\n\nMrs. Hill saw\nSt. Paul's. It rained! (Twice.)\n\n\nWell"
    assert [" ".join(words) for words in books.split_sentences(text)] == [
        "chapter 1", "mrs. hill saw st. paul 's .", "it rained !", "( twice . )", "well",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.replace(b"*** START", b"START"), "no whole book of Project Gutenberg"),
        (lambda b: b[: b.index(b"End of the Project")], "no whole book of Project Gutenberg"),
        (
            lambda b: b.replace(b"ASCII", b"EBCDIC-0") + b"\xe9",
            "no UTF-8 at .*; it says EBCDIC-0",
        ),
        (lambda b: b.replace(b"Character set", b"") + b"\xe9", "no UTF-8 at .* names no other"),
    ],
)
def test_a_damaged_novel_is_named(change, message, tmp_path):
    file = layouts.gutenberg(tmp_path) / "0.txt"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"0\.txt.*{message}"):
        load(f"gutenberg={tmp_path}").books  # noqa: B018


def test_novels_are_both_kinds_of_books(tmp_path):
    found = load(f"novels={layouts.novels(tmp_path)}")
    assert len(found.books) == 12
    assert found.books[:2] == load(f"gutenberg={tmp_path / 'gutenberg'}").books
    assert found.books[2:] == load(f"cbt-books={tmp_path / 'cbt' / 'CBTest'}").books
    assert found.titles[2] == "Author___Book_0.txt"


def test_brackets_of_the_childrens_books_are_those_of_the_others(tmp_path):
    file = layouts.cbt(tmp_path) / "data" / "cbt_valid.txt"
    file.write_text("_BOOK_TITLE_ : A\n" + "He -LRB- Tom -RRB- ran .\n" * 3)
    assert load(f"cbt-books={tmp_path}").books[0][0] == ["he", "(", "tom", ")", "ran", "."]


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one sentence .\n", r"bookcorpus: a\.txt has 1 sentence, and a book needs .*: take"),
        (b"one .\ntwo .\n", r"a\.txt has 2 sentences, and a book needs three"),
        (b"one .\ntwo .\n<end> .\n", r"a\.txt has the word '<end>', which stands for"),
        (b"one .\ntwo\0.\nthree .\n", r"a\.txt is no text"),
        (b"", r"a\.txt has 0 sentences"),
        (b"one .\ncaf\xe9 .\nthree .", r"a\.txt is no UTF-8 at byte 9"),
        ((b"word " * 30 + b"\n") * 3, "all 3 sentences have more than 29 words"),
    ],
)
def test_what_is_no_book_is_named(content, message, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load(f"bookcorpus={tmp_path}").books  # noqa: B018


def test_a_gutenberg_book_without_text_has_no_sentence(tmp_path):
    lines = (f"*** {at} OF THIS PROJECT GUTENBERG EBOOK A ***\n" for at in ("START", "END"))
    (tmp_path / "a.txt").write_text("".join(lines))
    with pytest.raises(ValueError, match=r"gutenberg: a\.txt has 0 sentences"):
        load(f"gutenberg={tmp_path}").books  # noqa: B018


def test_a_file_in_the_place_of_a_folder_and_a_folder_in_that_of_a_file(tmp_path):
    (tmp_path / "a.txt").write_text("one .\ntwo .\nthree .\n")
    with pytest.raises(NotADirectoryError, match="is a file: name the folder that it is in"):
        load(f"bookcorpus={tmp_path / 'a.txt'}")
    (tmp_path / "b.txt").mkdir()
    (tmp_path / "c.txt").symlink_to(tmp_path / "nowhere")
    assert load(f"bookcorpus={tmp_path}").titles == ("a.txt",)


@pytest.mark.parametrize("name", ["bookcorpus", "gutenberg", "cbt-books", "novels"])
def test_a_folder_without_books_says_what_it_needs(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"it needs (\.txt files|data/cbt_valid)"):
        load(f"{name}={tmp_path}")


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is synthetic, give no path"):
        load(f"stories={tmp_path}")
    with pytest.raises(ValueError, match="longest is -1: words of a sentence at most"):
        load("stories", longest=-1)
    with pytest.raises(ValueError, match=r"vocabulary is empty: \d+ different words .* for 2"):
        load("stories").vocabulary(2)
    with pytest.raises(ValueError, match="vocabulary is empty: 0 different words"):
        books.frequent([], 100)


# --- made here -------------------------------------------------------------------------------


def told(number=200):
    return [[" ".join(line) for line in story] for story in books.books(number, 3)]


def test_stories_are_always_the_same_and_differ():
    assert books.books(30, 1)[:10] == books.books(10, 1) != books.books(10, 2)
    assert len({"\n".join(story) for story in told()}) == 200
    assert all(5 <= len(story) <= 14 for story in told())
    assert max(len(line.split()) for story in told() for line in story) < 20


def test_subject_people_and_mood_stay():
    everything = {thing for things in SUBJECTS.values() for thing in things}
    for story in told():
        opening = story[0].removesuffix(" .").split()
        subject, people = opening[-1], {opening[-6], opening[-4]}
        found = {word for line in story for word in line.split()}
        assert found & everything <= {*SUBJECTS[subject]}
        names = {name for names in books.CHARACTERS.values() for name in names}
        assert found & names <= people
        moods = (
            found & {*books.GLAD},
            found & {*books.SAD},
        )
        assert bool(moods[0]) != bool(moods[1])


def test_what_follows_depends_on_more_than_words():
    """The same words in another order have other consequences."""
    one = Deed("anna", "gave", "lamp", "ben")
    assert one.ways[1] == "anna gave the lamp to ben"
    assert one.turned.ways[1] == "ben gave the lamp to anna"
    assert (one.follows, one.turned.follows) == (
        "now ben had the lamp and anna had nothing",
        "now anna had the lamp and ben had nothing",
    )  # fmt: skip
    bags = [
        Counter(" ".join(way).split())
        for way in (books.silent("ben", Deed("anna", "broke", "lamp")),
                    books.denies("ben", Deed("anna", "broke", "lamp")))
    ]  # fmt: skip
    assert bags[0] == bags[1]
    follows = Counter()
    for story in told():
        for line, after in pairwise(story):
            if " did not say" in line:
                follows["silent"] += after.startswith("nobody")
            elif " did say" in line:
                follows["denied"] += after.startswith("everybody")
            if line.startswith(("luckily", "sadly")):
                follows["teller"] += after.startswith("i was")
            if " after the " in line:
                last = line.split(" after ")[0].split()[-1]
                assert story[story.index(line) + 2] == f"the last thing was the {last} ."
    assert min(follows.values()) > 20


def test_every_verb_has_its_forms():
    for things in SUBJECTS.values():
        for thing, verbs in things.items():
            for verb in verbs.split():
                one = Deed("anna", verb, thing)
                assert one.ways[1].endswith(f"{books.FORMS[verb][1]} by anna")
                assert (
                    f"anna did not {books.FORMS[verb][0]} the {thing}"
                    in (books.denies("ben", one)[0])
                )


REAL = data.data_folder()  # when tests are collected: it is another while they run


@pytest.mark.slow
@pytest.mark.skipif(
    not all((REAL / name).is_dir() for name in ("gutenberg", "cbt")),
    reason="the novels are not in the data folder",
)
def test_the_real_novels_follow_each_other():
    found = load(f"novels={REAL}")
    assert len(found.books) == 18
    assert sum(map(len, found.books)) == 115_317
    assert found.left_out == 28_011
    assert np.unique(found.triples(), axis=0).shape == (57_985, 2)
    assert not {"gutenberg", "gutenberg-tm"} & {*found.vocabulary(20_000).words}
