"""Questions: files in their layouts, whole and damaged; the cloze and its shortcuts."""

import random
from collections import Counter

import pytest

from lnlab import data
from lnlab.papers.attentive_reader import data as questions
from lnlab.papers.attentive_reader.data import (
    BLANK,
    GUESSERS,
    Question,
    nearest_sentences,
    shortcuts,
)
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "questions", **options)


@pytest.fixture(autouse=True)
def few_common(monkeypatch):
    monkeypatch.setattr(questions, "COMMON", 4)


FIELDS = {
    "name": "one",
    "sentences": ("@entity0 met @entity1 .", "@entity1 left @entity2 ."),
    "query": f"who met {BLANK} ?",
    "candidates": ("@entity0", "@entity1", "@entity2"),
    "answer": "@entity1",
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "@entity9"}, "one: '@entity9' is no candidate, they are @entity0"),
        ({"query": f"{BLANK} met @entity7"}, "one: '@entity7' is no candidate"),
        ({"query": "who met who ?"}, f"one: the question has no {BLANK}"),
        ({"sentences": ("", " ")}, "one: the passage has no words"),
    ],
)
def test_what_cannot_be_asked_is_said(changes, message):
    with pytest.raises(ValueError, match=message):
        Question(**{**FIELDS, **changes})


def test_the_sentences_most_like_the_question_stay_in_their_order():
    sentences = ("a b .", "c d e .", ". . .", "e f a .", "d c .")
    question = Question(**{**FIELDS, "sentences": sentences, "query": f"c d {BLANK} e a ."})
    assert nearest_sentences(question, 2).sentences == ("c d e .", "e f a .")
    assert nearest_sentences(question, 3).sentences == ("c d e .", "e f a .", "d c .")
    assert nearest_sentences(question, 9).sentences == sentences


# --- CNN's files -----------------------------------------------------------------------------


def test_articles_are_read_when_they_are_asked_for(tmp_path, monkeypatch):
    cnn = load(f"cnn={layouts.cnn(tmp_path)}")
    assert [len(part) for part in (cnn.train, cnn.valid, cnn.test)] == [5, 2, 3]
    question = cnn.train[2]
    assert question.sentences == (
        "@entity1 ( @entity0 ) said 2 words .", "@entity10 , and training , said nothing !",
        "the end",
    )  # fmt: skip
    assert question.query == f"@entity0 heard {BLANK} in 2 words"
    assert question.candidates == ("@entity0", "@entity1", "@entity10")
    assert (question.answer, question.entity_names["@entity10"]) == ("@entity10", "A : B")
    assert cnn.vocabulary.words[2:14] == (BLANK, *(f"@entity{k}" for k in range(11)))
    assert [*cnn.entity_ids] == [*range(3, 14)]
    assert {"training", "validation"} < {*cnn.vocabulary.words}
    assert "test" not in cnn.vocabulary
    assert cnn.longest == (19, 7)
    read = []
    monkeypatch.setattr(questions, "read_article", lambda file: read.append(file.name))
    cnn.train[3]
    assert len(read) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[: len(t) // 2], "has [1-4] parts, expected the address, the passage"),
        (lambda t: t.replace("@entity10:A : B\n", ""), "'@entity10' is no candidate"),
        (lambda t: t.replace("@entity0:", "@entityX:"), "names no entity: it is cut off"),
        (lambda t: t.replace(BLANK, "who"), f"has no {BLANK}"),
        (lambda t: t.encode("utf-8") + b"\xff", "is no text in utf-8"),
        (lambda t: t + "x" * 2**20, "is larger than any question"),
    ],
)
def test_a_damaged_article_is_named(tmp_path, change, message):
    folder = layouts.cnn(tmp_path)
    file = sorted((folder / "questions" / "test").iterdir())[1]
    text = change(file.read_text("utf-8"))
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"{file.name}.*{message}"):
        [*load(f"cnn={folder}").test]


# --- books -----------------------------------------------------------------------------------


def test_books_give_questions_by_the_rule(tmp_path):
    cbt = load(f"cbt={layouts.cbt(tmp_path)}", sentences=6)
    books = questions.read_cbt_books(tmp_path)
    titles = [{q.name.split(",")[0] for q in part} for part in (cbt.train, cbt.valid, cbt.test)]
    assert [*map(len, titles)] == [6, 2, 2]
    assert not titles[0] & titles[2]
    for question in (*cbt.train, *cbt.test):
        title, line, kind = question.name.split(", ")
        index = int(line.removeprefix("line ")) - 1
        text = [word for line in books[title][index - 6 : index] for word in line]
        names = question.entity_names
        word = names[question.answer]
        assert len(question.sentences) == 6
        assert len({*question.candidates}) == 10
        assert books[title][index].count(word) == 1
        assert {*names.values()} <= {*text}
        assert not ({*names.values()} - {word}) & {*books[title][index]}
        assert all(one[0].isupper() == (kind == "name") for one in names.values())
        plain = [names.get(w, w).lower() for w in question.passage.split()]
        assert plain == [w.lower() for w in text]
        assert question.answer not in question.query.split()
    other = load(f"cbt={tmp_path}", split=1, sentences=6)
    assert {q.name for q in other.test} != {q.name for q in cbt.test}
    assert other.checksum != cbt.checksum


def test_names_stand_inside_sentences_and_words_are_neither_rare_nor_common():
    book = [line.split() for line in ["Then Tom saw the cat .", "Tom ran and Then sat ."] * 9]
    book += [["tom", "is", "no", "name", ",", "Tom", "is", "."], ["Nobody", "saw", "Nobody"]]
    words = questions.answer_words(book, {"the", "and"})
    assert words == {"name": {"Tom", "Then"}, "word": {"saw"}}  # cat, ran and sat: nine times
    assert questions.answer_words(book, {"then", "saw"})["name"] == {"Tom"}


def test_books_that_are_not_whole_are_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="cbt is not whole"):
        load(f"cbt={tmp_path}")
    folder = layouts.cbt(tmp_path)
    first, second = (folder / name for name in questions.CBT_FILES)
    first.write_text("no title\n" + first.read_text())
    with pytest.raises(ValueError, match="line 1: expected _BOOK_TITLE_"):
        len(load(f"cbt={folder}").train)
    first.write_text("\n".join(first.read_text().split("\n")[1:100]))
    second.write_text("")
    with pytest.raises(ValueError, match="books that train in split 0 give no question"):
        len(load(f"cbt={folder}").train)


# --- generated questions ---------------------------------------------------------------------


def test_everybody_is_named_twice_and_who_is_asked_about_acts_once():
    rng = random.Random(3)
    for number in range(50):
        question = questions.random_question(rng, str(number))
        deeds = [tuple(sentence.split()[:3]) for sentence in question.sentences]
        named = Counter(one for who, _, whom in deeds for one in (who, whom))
        assert named == dict.fromkeys(question.candidates, 2)
        who, verb, blank, _ = question.query.split()
        (asked,) = [deed for deed in deeds if questions.SYNONYMS[deed[1]] == verb]
        assert (who, blank) == (asked[0], BLANK)
        assert question.answer == asked[2] != who
        assert len([deed for deed in deeds if deed[0] == who]) == 1


def test_no_shortcut_answers_the_cloze():
    """A model that is right in more than half of the questions has read."""
    test = questions.make_cloze(None, (("test", 2000),))["test"]
    scores = shortcuts(test)
    assert scores.pop("ceiling") == 1
    assert set(scores) == {*GUESSERS}
    assert scores.pop("any candidate") == pytest.approx(1 / 3)
    assert all(0.4 < score < 0.55 for score in scores.values()), scores
    counts = Counter(question.answer for question in test)
    assert max(counts.values()) / len(test) < 0.16, "a constant number"


def test_guessers_look_where_they_say():
    question = Question(
        "q", ("@entity2 met @entity0 twice .", "@entity0 saw @entity1 and @entity3 ."),
        f"@entity3 saw {BLANK} and", tuple(f"@entity{k}" for k in range(4)), "@entity1",
    )  # fmt: skip
    assert {name: [*guess(question)] for name, guess in GUESSERS.items()} == {
        "any candidate": [f"@entity{k}" for k in range(4)],
        "one that is there and not asked about": ["@entity2", "@entity0", "@entity1"],
        "the most frequent": ["@entity0"],
        "the first": ["@entity2"],
        "the last": ["@entity1"],
        "the nearest to who is asked about": ["@entity1"],
        "one of the sentence most like the question": ["@entity0", "@entity1"],
    }
    assert shortcuts([question])["one of the sentence most like the question"] == 0.5


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("cloze", {"most": 0}, "most is 0"),
        ("cbt=.", {"split": -1}, "split is -1: which books train"),
        ("cnn=.", {"sentences": 0}, "sentences is 0: how many sentences of an article"),
    ],
)
def test_what_a_source_does_not_take_is_said(spec, options, message):
    with pytest.raises(ValueError, match=message):
        load(spec, **options)
