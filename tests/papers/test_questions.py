"""Questions: files in their layouts, whole and damaged; the cloze and its shortcuts."""

import random
from collections import Counter

import pytest

import lnlab.papers.attentive_reader.data
from lnlab import data
from lnlab.data.vocabulary import END, UNKNOWN
from lnlab.papers.attentive_reader.data import (
    BLANK,
    GUESSES,
    Question,
    nearest,
    right,
    shortcuts,
)
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "questions", **options)


@pytest.fixture(autouse=True)
def few_common(monkeypatch):
    monkeypatch.setattr(lnlab.papers.attentive_reader.data, "COMMON", 4)


ASKED = {
    "name": "one",
    "sentences": ("@entity0 met @entity1 .", "@entity1 left @entity2 ."),
    "query": f"who met {BLANK} ?",
    "candidates": ("@entity0", "@entity1", "@entity2"),
    "answer": "@entity1",
}


# --- a question ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"answer": "@entity9"},
            "one: the answer '@entity9' is no candidate: they are @entity0",
        ),
        ({"query": "who met who ?"}, f"one: the question has no {BLANK}"),
        ({"sentences": ("", " ")}, "one: the passage has no words"),
        ({"query": f"{BLANK} met @entity7"}, "one: @entity7 is no candidate"),
    ],
)
def test_what_cannot_be_asked_is_said(changes, message):
    with pytest.raises(ValueError, match=message):
        Question(**{**ASKED, **changes})


def test_the_sentences_most_like_the_question_stay_in_their_order():
    sentences = ("a b .", "c d e .", ". . .", "e f a .", "d c .")
    question = Question(**{**ASKED, "sentences": sentences, "query": f"c d {BLANK} e a ."})
    assert nearest(question, 2).sentences == ("c d e .", "e f a .")
    assert nearest(question, 3).sentences == ("c d e .", "e f a .", "d c .")
    assert nearest(question, 9).sentences == sentences


# --- CNN's files -----------------------------------------------------------------------------


def test_articles_are_read_when_they_are_asked_for(tmp_path, monkeypatch):
    found = load(f"cnn={layouts.cnn(tmp_path)}")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [5, 2, 3]
    question = found.train[2]
    assert question.sentences == (
        "@entity1 ( @entity0 ) said 2 words .", "@entity10 , and training , said nothing !",
        "the end",
    )  # fmt: skip
    assert question.query == f"@entity0 heard {BLANK} in 2 words"
    assert question.candidates == ("@entity0", "@entity1", "@entity10")
    assert (question.answer, question.called["@entity10"]) == ("@entity10", "A : B")
    assert found.vocabulary.words[2:14] == (BLANK, *(f"@entity{k}" for k in range(11)))
    assert [*found.anonymous] == [*range(3, 14)]
    known = set(found.vocabulary.words)
    assert {"training", "validation"} < known
    assert "test" not in known
    assert found.longest == (19, 7)
    read = []
    monkeypatch.setattr(
        lnlab.papers.attentive_reader.data, "read", lambda file, n: read.append(file.name)
    )
    found.train[3]
    assert len(read) == 1


def test_the_words_are_counted_once_on_a_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "kept"))
    one, again = (load(f"cnn={layouts.cnn(tmp_path / 'files')}") for _ in range(2))
    known = one.vocabulary.words, one.anonymous, one.longest
    monkeypatch.setattr(again, "_count", None)
    assert (again.vocabulary.words, again.anonymous, again.longest) == known


def test_of_an_article_the_sentences_most_like_the_question_are_kept(tmp_path):
    folder = layouts.cnn(tmp_path)
    whole, cut = load(f"cnn={folder}"), load(f"cnn={folder}", sentences=1)
    assert [q.answerable for q in whole.test] == [True] * 3
    assert [len(q.sentences) for q in cut.test] == [1] * 3
    assert shortcuts(cut.test)["ceiling"] == 0
    assert cut.test[0].candidates == whole.test[0].candidates
    assert cut.checksum != whole.checksum


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[: len(t) // 2], "has [1-4] parts, expected the address, the passage"),
        (lambda t: t[:-11], "'@entity' names no entity: it is cut off"),
        (lambda t: t.replace("@entity10:A : B\n", ""), "answer '@entity10' is no candidate"),
        (lambda t: t.replace("\n@entity10\n", "\n@entity1\n").replace("@entity10:A : B\n", ""),
         "@entity10 is no candidate: name every entity"),
        (lambda t: t.replace("\n@entity10\n", "\n@entity3\n"), "'@entity3' is no candidate"),
        (lambda t: t.replace("@entity0:", "@entityX:"), "names no entity"),
        (lambda t: t.replace(BLANK, "who"), f"has no {BLANK}"),
        (lambda t: t.encode("utf-8") + b"\xff", "is not UTF-8 text"),
        (lambda t: t + "x" * 2**20, "is larger than any question"),
    ],
)  # fmt: skip
def test_a_damaged_article_is_named(tmp_path, change, message):
    folder = layouts.cnn(tmp_path)
    file = sorted((folder / "questions" / "test").iterdir())[1]
    text = change(file.read_text("utf-8"))
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"{file.name}.*{message}"):
        [*load(f"cnn={folder}").test]


def test_a_folder_without_articles_says_what_it_needs(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no .question files: name the folder"):
        load(f"cnn={tmp_path}")


# --- books -----------------------------------------------------------------------------------


def test_books_give_questions_by_the_rule(tmp_path):
    found = load(f"cbt={layouts.cbt(tmp_path)}", sentences=6)
    books = lnlab.papers.attentive_reader.data.read_cbt_books(tmp_path)
    titles = {
        s: {q.name.split(",")[0] for q in getattr(found, s)} for s in ("train", "valid", "test")
    }
    assert [len(titles[s]) for s in titles] == [6, 2, 2]
    assert not titles["train"] & titles["test"]
    for question in (*found.train, *found.test):
        title, line, kind = question.name.split(", ")
        place = int(line.removeprefix("line ")) - 1
        text = [word for line in books[title][place - 6 : place] for word in line]
        word = question.called[question.answer]
        assert len(question.sentences) == 6
        assert len({*question.candidates}) == 10
        assert books[title][place].count(word) == 1
        assert {*question.called.values()} <= {*text}
        others = {*question.called.values()} - {word}
        assert not others & {*books[title][place]}
        assert all(one[0].isupper() == (kind == "name") for one in question.called.values())
        told = [question.called.get(w, w) for s in question.sentences for w in s.split()]
        assert [w.lower() for w in told] == [w.lower() for w in text]
        assert question.answer not in question.query.split()


def test_other_splits_have_other_books(tmp_path):
    folder = layouts.cbt(tmp_path)
    one, other = (load(f"cbt={folder}", split=k, sentences=6) for k in (0, 1))
    assert {q.name for q in one.test} != {q.name for q in other.test}
    assert one.checksum != other.checksum


def test_names_stand_inside_sentences_and_words_are_neither_rare_nor_common():
    book = [line.split() for line in ["Then Tom saw the cat .", "Tom ran and Then sat ."] * 9]
    book += [["tom", "is", "no", "name", ",", "Tom", "is", "."], ["Nobody", "saw", "Nobody"]]
    found = lnlab.papers.attentive_reader.data.known(book, {"the", "and"})
    assert found["name"] == {"Tom", "Then"}
    assert found["word"] == {"saw"}  # cat, ran and sat: nine times each
    assert lnlab.papers.attentive_reader.data.known(book, {"then", "saw"})["name"] == {"Tom"}


def test_books_that_are_not_whole_are_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="cbt is not whole"):
        load(f"cbt={tmp_path}")
    folder = layouts.cbt(tmp_path)
    file = folder / lnlab.papers.attentive_reader.data.CBT_FILES[0]
    file.write_text("no title\n" + file.read_text())
    with pytest.raises(ValueError, match="line 1: expected _BOOK_TITLE_"):
        len(load(f"cbt={folder}").train)
    file.write_text("\n".join(file.read_text().split("\n")[1:100]))
    (folder / lnlab.papers.attentive_reader.data.CBT_FILES[1]).write_text("")
    with pytest.raises(ValueError, match="books that train in split 0 give no question"):
        len(load(f"cbt={folder}").train)


# --- made here -------------------------------------------------------------------------------


def test_everybody_is_named_twice_and_who_is_asked_about_acts_once():
    chance = random.Random(3)
    for number in range(50):
        question = lnlab.papers.attentive_reader.data.question(chance, str(number))
        parts = [tuple(sentence.split()[:3]) for sentence in question.sentences]
        named = Counter(one for who, _, whom in parts for one in (who, whom))
        assert named == dict.fromkeys(question.candidates, 2)
        assert len({deed for _, deed, _ in parts}) == 3
        who, asked, blank, _ = question.query.split()
        (told,) = [
            part for part in parts if lnlab.papers.attentive_reader.data.DEEDS[part[1]] == asked
        ]
        assert (who, blank) == (told[0], BLANK)
        assert question.answer == told[2] != who
        assert len([part for part in parts if part[0] == who]) == 1


def test_no_shortcut_answers_the_cloze():
    """A net that is right in more than half of the cases has read."""
    questions = lnlab.papers.attentive_reader.data.make_corpus(None, {"test": 2000})["test"]
    found = shortcuts(questions)
    assert found.pop("ceiling") == 1
    assert set(found) == {*GUESSES}
    assert found.pop("any candidate") == pytest.approx(1 / 3)
    assert all(0.4 < part < 0.55 for part in found.values()), found
    counts = Counter(question.answer for question in questions)
    assert max(counts.values()) / len(questions) < 0.16, "a constant number"
    assert len({len(question.passage.split()) for question in questions}) > 3


def test_guessers_look_where_they_say():
    question = Question(
        "q", ("@entity2 met @entity0 twice .", "@entity0 saw @entity1 and @entity3 ."),
        f"@entity3 saw {BLANK} and", tuple(f"@entity{k}" for k in range(4)), "@entity1",
    )  # fmt: skip
    found = {name: [*guess(question)] for name, guess in GUESSES.items()}
    assert found == {
        "any candidate": [f"@entity{k}" for k in range(4)],
        "one that is there and not asked about": ["@entity2", "@entity0", "@entity1"],
        "the most frequent": ["@entity0"],
        "the first": ["@entity2"],
        "the last": ["@entity1"],
        "the nearest to who is asked about": ["@entity1"],
        "one of the sentence most like the question": ["@entity0", "@entity1"],
    }
    assert right(GUESSES["one of the sentence most like the question"], [question]) == 0.5


# --- words by number -------------------------------------------------------------------------


def test_words_have_numbers_and_strangers_are_unknown():
    found = load("cloze", most=50)
    assert len(found.train) == 50
    known = found.vocabulary
    assert known.encode(f"{BLANK} was @entity0 xyz") == [
        2,
        known.encode("was")[0],
        3,
        UNKNOWN,
        END,
    ]
    assert [known.words[n] for n in found.anonymous] == [f"@entity{k}" for k in range(8)]
    assert found.longest == (
        1 + max(len(q.passage.split()) for q in found.train),
        1 + max(len(q.query.split()) for q in found.train),
    )


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("cloze=.", {}, "is synthetic, give no path"),
        ("cloze", {"most": 0}, "most is 0"),
        ("cbt=.", {"split": -1}, "split is -1: which books train"),
        ("cnn=.", {"sentences": 0}, "sentences is 0: how many sentences of an article"),
        ("cnn=.", {"split": 1}, "cnn has no option split: it has sentences"),
    ],
)
def test_what_a_source_does_not_take_is_said(spec, options, message):
    with pytest.raises(ValueError, match=message):
        load(spec, **options)
