"""Judges: official files, whole and damaged; sentences made here whose words do not tell."""

import re
from collections import Counter

import numpy as np
import pytest

from lnlab import data
from lnlab.papers.skip_thoughts import sentence_tasks
from lnlab.papers.skip_thoughts.sentence_tasks import FOLDS, NAMES, SentenceJudge, folds
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "judges", **options)


def checksums(judges):
    return {name: judge.checksum for name, judge in judges.items()}


# --- a judge ---------------------------------------------------------------------------------


def test_folds_are_even_and_mix_the_classes():
    found = folds("MR", 1003)
    assert sorted(Counter(found.tolist()).values()) == [100] * 7 + [101] * 3
    halves = [np.mean(np.flatnonzero(found == fold) < 500) for fold in range(FOLDS)]
    assert 0.3 < min(halves) < max(halves) < 0.7
    assert np.array_equal(found, folds("MR", 1003))
    assert not np.array_equal(found, folds("CR", 1003))


@pytest.mark.parametrize(
    ("count", "targets", "message"),
    [
        (9, lambda n: np.arange(n) % 2, "X has 9 cases and 10 folds: give a case to each"),
        (20, lambda n: np.ones(n), "X has cases of one class only: give both"),
    ],
)
def test_what_cannot_be_judged_is_said(count, targets, message):
    with pytest.raises(ValueError, match=message):
        SentenceJudge("X", [["a"]] * count, [], targets(count), folds("X", count))


# --- files -----------------------------------------------------------------------------------


def test_the_official_files_are_read(tmp_path):
    found = load(f"sentence-tasks={layouts.sentence_tasks(tmp_path)}")
    assert tuple(found) == NAMES == found.names
    assert found.name == "sentence-tasks, 8 blank lines left out"
    assert str(found).endswith("SICK 12, MR 25, CR 25, SUBJ 25, MPQA 25 cases")
    sick = found["SICK"]
    assert sick.pairs
    assert sick.sentences[5] == ["a", "trial", "dog", ",", "1"]
    assert sick.others[5] == ["the", "man", "is", "n't", "there"]
    assert sick.targets[4:8].tolist() == [1.5, 2.5, 3.5, 4.5]
    assert sick.parts.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    for name, accent in (
        ("MR", "café …"),
        ("SUBJ", "café …"),
        ("CR", "cafe"),
        ("MPQA", "cafe"),
    ):
        judge = found[name]
        assert judge.targets.tolist() == [0] * 12 + [1] * 13
        words = " ".join(judge.sentences[14])
        assert words.startswith(accent), words
        assert words.endswith("2 , is n't it ?")
        assert {*judge.parts.tolist()} == {*range(10)}
        assert judge.blank == 2
    assert "plot.tok.gt9.5000" in found["SUBJ"].sentences[0]  # objective is class 0


def test_other_names_and_other_encodings_of_the_same_files_are_the_same(tmp_path):
    first = load(
        f"sentence-tasks={layouts.sentence_tasks(tmp_path / 'one')}", only="MR,SUBJ,SICK"
    )
    place = layouts.sentence_tasks(tmp_path / "two")
    for old, new in (
        ("subj/rotten_imdb/plot.tok.gt9.5000", "subj.objective"),
        ("subj/rotten_imdb/quote.tok.gt9.5000", "subj.subjective"),
        ("mr/rt-polaritydata/rt-polarity.neg", "rt-polarity.neg.txt"),
        ("mr/rt-polaritydata/rt-polarity.pos", "MR.pos"),
    ):
        text = (place / old).read_bytes().decode("cp1252")
        (place / old).unlink()
        (place / new).write_text(text, "utf-8")
    pairs = [
        line.split("\t")
        for part in ("train", "trial", "test_annotated")
        for line in (place / "sick" / f"SICK_{part}.txt").read_text().splitlines()[1:]
    ]
    parts = ["TRAIN"] * 4 + ["TRIAL"] * 4 + ["TEST"] * 4
    lines = [
        "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set"
    ]
    lines += [
        "\t".join([*cells[:3], cells[4], cells[3], part])
        for cells, part in zip(pairs, parts, strict=True)
    ]
    layouts.put(place / "SICK.txt", text="\n".join(lines) + "\n")
    second = load(f"sentence-tasks={place}", only="MR,SUBJ,SICK")
    assert [*second] == ["MR", "SUBJ", "SICK"]
    assert {n: j.checksum for n, j in first.items()} == {
        n: j.checksum for n, j in second.items()
    }
    assert first.checksum == second.checksum


TRAIN = "SICK_train.txt"


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "SICK_trial.txt",
            lambda b: b.replace(b"relatedness_score", b"score"),
            "SICK_trial.txt has no column relatedness_score: it has pair_ID, sentence_A",
        ),
        (TRAIN, lambda b: b"", "SICK_train.txt has no column sentence_A: it has none"),
        (
            TRAIN,
            lambda b: b.replace(b"\t1.5", b"\tvery"),
            "2: relatedness_score is 'very', not",
        ),
        (TRAIN, lambda b: b.replace(b"\t2.5", b"\tnan"), "line 3: .*'nan', not a number"),
        (TRAIN, lambda b: b.replace(b"1.5\tNEUTRAL", b"1.5"), "line 2 has 4 columns"),
        (TRAIN, lambda b: b.replace(b"A train dog, 1", b" "), "line 3 has a sentence"),
        (
            "SICK_test_annotated.txt",
            lambda b: b[: len(layouts.HEADING) + 1],
            "no case in part 2 of 3",
        ),
        ("custrev.neg", lambda b: b + b"caf\xe9\n", "is no text in utf-8: convert it"),
        ("custrev.neg", lambda b: b.decode().encode("utf-16"), "is no text in utf-8: convert"),
        ("rt-polarity.pos", lambda b: b + b"\x81\n", "no text in utf-8 or windows-1252: con"),
        ("rt-polarity.pos", lambda b: b.decode("cp1252").encode("utf-16"), "or windows-1252"),
        ("mpqa.pos", lambda b: b"\n \n", "MPQA .* has cases of one class only"),
    ],
)
def test_a_damaged_file_is_named(file, change, message, tmp_path):
    place = layouts.sentence_tasks(tmp_path)
    (path,) = place.rglob(file)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load(f"sentence-tasks={place}")["SICK"]


def test_fewer_cases_than_folds_are_said_with_their_files(tmp_path):
    place = layouts.sentence_tasks(tmp_path, each=3)
    with pytest.raises(
        ValueError, match=r"MR \(.*rt-polarity.pos\): MR has 7 cases and 10 folds"
    ):
        load(f"sentence-tasks={place}", only="MR")["MR"]


def test_missing_files_are_named_and_may_be_left_out(tmp_path):
    place = layouts.sentence_tasks(tmp_path)
    (path,) = place.rglob("custrev.pos")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"CR is not whole .* no custrev.pos or cr.pos"):
        load(f"sentence-tasks={place}")
    assert [*load(f"sentence-tasks={place}", only="SICK, MPQA")] == ["SICK", "MPQA"]
    with pytest.raises(
        ValueError, match="sentence-tasks has no 'TREC': choose from SICK, MR, CR"
    ):
        load(f"sentence-tasks={place}", only="TREC")
    with pytest.raises(ValueError, match="is synthetic, give no path"):
        load(f"story-tasks={place}")
    with pytest.raises(KeyError):
        load("story-tasks", only="teller")["opinion"]


REAL = data.data_folder()  # when tests are collected: it is another while they run


@pytest.mark.slow
@pytest.mark.skipif(
    not all((REAL / name).is_dir() for name in ("sick", "mr", "cr", "subj", "mpqa")),
    reason="the judges are not in the data folder",
)
def test_the_real_judges_have_their_counts():
    found = load(f"sentence-tasks={REAL}")
    counts = {name: (len(judge), judge.blank) for name, judge in found.items()}
    assert counts == {
        "SICK": (9_927, 0), "MR": (10_662, 0), "CR": (3_771, 4), "SUBJ": (10_000, 0),
        "MPQA": (10_603, 3),
    }  # fmt: skip
    assert Counter(found["SICK"].parts.tolist()) == {0: 4_500, 1: 500, 2: 4_927}
    assert [int(found[name].targets.sum()) for name in NAMES[1:]] == [5331, 2405, 5000, 3311]


# --- made here -------------------------------------------------------------------------------


def test_judges_made_here_are_always_the_same():
    one, two = sentence_tasks.judges(), load("story-tasks")
    assert checksums(one) == checksums(two)
    assert {name: len(judge) for name, judge in one.items()} == {
        "relatedness": 1400, "teller": 600, "opinion": 600, "phrase": 600, "customer": 600,
    }  # fmt: skip
    for judge in [*one.values()][1:]:
        assert judge.targets.mean() == 0.5
        assert len({" ".join(words) for words in judge.sentences}) == 600
    stories = {w for book in data.load("stories", "books").books for line in book for w in line}
    strange = {w for judge in one.values() for line in judge.said for w in line} - stories
    assert strange <= {"a"}


def test_turned_sentences_have_the_same_words_as_those_that_mean_the_same():
    judge = sentence_tasks.judges()["relatedness"]
    shared = {score: [] for score in sentence_tasks.SCORES.values()}
    for first, second, score in zip(judge.sentences, judge.others, judge.targets, strict=True):
        common = sum((Counter(first) & Counter(second)).values())
        shared[float(score)].append(2 * common / (len(first) + len(second)))
        assert first != second
    means = {name: np.mean(shared[score]) for name, score in sentence_tasks.SCORES.items()}
    assert abs(means["turned"] - means["same"]) < 0.05
    assert means["near"] < means["same"]
    assert means["far"] < means["other"] < 0.5


def test_the_class_is_in_the_order_of_the_words():
    """Who feels it is said by the place of a word; the other words are the same."""
    judge = sentence_tasks.judges()["teller"]
    felt = ["," in words for words in judge.sentences]
    assert 0.6 < np.mean(felt) < 0.9
    for words, target in zip(judge.sentences, judge.targets, strict=True):
        assert words.count(",") <= 1
        if "," in words:
            assert (words[0] in ("luckily", "sadly")) == bool(target)


def test_who_got_the_thing_is_the_customer():
    """The mood that counts is that of the one who has it now."""
    praise, gave = {*sentence_tasks.GLAD, "liked"}, r"(\w+) gave (?:the \w+ to )?(\w+)"
    judge, both = sentence_tasks.judges()["customer"], 0
    for words, target in zip(judge.sentences, judge.targets, strict=True):
        got, *moods = " ".join(words).split(" , ")
        found = re.match(gave, got)
        customer = found[2] if found else got.split()[0]
        told = {mood.split()[0]: bool(praise & {*mood.split()}) for mood in moods}
        assert told.pop(customer) == bool(target)
        assert [*told.values()] == [not target] * len(told)
        both += len(told)
    assert 0.3 < both / len(judge) < 0.5


def test_denied_words_are_their_contrary():
    for name in ("opinion", "phrase"):
        judge = sentence_tasks.judges()[name]
        praise = {*sentence_tasks.GOOD, *sentence_tasks.GLAD}
        for words, target in zip(judge.sentences, judge.targets, strict=True):
            text = " ".join(words)
            if " although " in text:
                continue  # both are said
            told = bool(praise & {*words})
            denied = "not" in words
            if not text.startswith("although"):
                assert (told != denied) == bool(target), text
