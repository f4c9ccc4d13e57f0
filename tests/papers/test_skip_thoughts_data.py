"""Books and sentence tasks: files, whole and damaged, and what is generated."""

import os
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from lnlab import data
from lnlab.data.vocabulary import END, UNKNOWN
from lnlab.papers import skip_thoughts
from lnlab.papers.skip_thoughts import data as books
from lnlab.papers.skip_thoughts.data import EACH, STRETCH, EncodedBooks
from lnlab.papers.skip_thoughts.downstream import FOLDS, NAMES, assign_folds_by_hash
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "books", **options)


def load_tasks(spec, **options):
    return data.load(spec, "tasks", **options)


# --- books in files ---------------------------------------------------------------------------


def test_a_folder_of_books_is_read_line_by_line(tmp_path):
    folder = layouts.bookcorpus(tmp_path)
    limits = skip_thoughts.Experiment().max_length - 1, 30  # Kiros et al. leave out 30 words
    corpus, longer = (load(f"bookcorpus={folder}", max_length=n) for n in limits)
    assert [*corpus.sentences_by_title] == ["a.txt", "b.txt", "more/c.txt"]
    expected = [line.split() for line in layouts.sentences(2)]
    assert longer.sentences_per_book[2] == expected
    expected[3] = []
    assert corpus.sentences_per_book[2] == expected
    assert corpus.name == "bookcorpus, 3 of 24 sentences of more than 29 words left out"
    assert longer.name == "bookcorpus"
    assert corpus.checksum != longer.checksum


def test_novels_are_their_texts_in_sentences_cut_once_on_a_machine(tmp_path, monkeypatch):
    novels = load(f"novels={layouts.novels(tmp_path)}").sentences_per_book
    assert len(novels) == 12
    opening = (
        "`` did mr. {} go ? ''|asked dr. bell .|`` no -- never ; she ca n't do it , '' said i ."
    )
    for number, name in enumerate(("ann", "zoë")):
        sentences = [" ".join(words) for words in novels[number]]
        assert sentences[:3] == opening.format(name).split("|")
        assert sentences[3] == f"it was 0 o'clock in book {number} ."
        assert len(sentences) == 20
        assert not {"licence", "ebook", "volunteers"} & {*" ".join(sentences).split()}
    text = "Chapter 1\n\nMrs. Hill saw\nSt. Paul's. It rained! (Twice.)\n\n\nWell"
    lines = "|".join(" ".join(words) for words in books.split_into_tokenized_sentences(text))
    assert lines == "chapter 1|mrs. hill saw st. paul 's .|it rained !|( twice . )|well"
    monkeypatch.setattr(books, "split_into_tokenized_sentences", None)
    os.utime(tmp_path / "gutenberg" / "0.txt", ns=(1, 1))
    assert load(f"novels={tmp_path}").sentences_per_book == novels
    file = tmp_path / "cbt" / "CBTest" / "data" / "cbt_valid.txt"
    file.write_text("_BOOK_TITLE_ : A\n" + "He -LRB- Tom -RRB- ran .\n" * 3)
    words = ["he", "(", "tom", ")", "ran", "."]
    assert load(f"novels={tmp_path}").sentences_by_title["A"] == [words] * 3


def test_a_damaged_book_is_named(tmp_path):
    file = layouts.novels(tmp_path) / "gutenberg" / "0.txt"
    file.write_bytes(file.read_bytes().partition(b"End of the Project")[0])
    with pytest.raises(ValueError, match=r"0\.txt is no whole book of Project Gutenberg"):
        _ = load(f"novels={tmp_path}").sentences_per_book
    with pytest.raises(FileNotFoundError, match=r"\.txt files, a book each"):
        load(f"bookcorpus={tmp_path / 'corpus'}")


# --- books by number --------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """Books, as they are loaded."""

    sentences_per_book: list
    name: str = "written"
    kind: str = "synthetic"
    licence: str = "none"
    checksum: str = "1"


def random_books(count=12, each=110, words=30, longest=9):
    """Books of random words, always the same."""
    rng = torch.Generator().manual_seed(1)

    def sentence():
        length = int(torch.randint(longest, (1,), generator=rng))  # 0: one was left out
        return [f"w{int(k)}" for k in torch.randint(words, (length,), generator=rng)]

    return Written([[sentence() for _ in range(each)] for _ in range(count)])


@pytest.fixture(scope="module")
def encoded():
    return EncodedBooks(random_books(), 40)


def test_triples_are_neighbours_in_a_book_and_splits_share_none(encoded):
    flat = [sentence for book in encoded.books.sentences_per_book for sentence in book]
    book_of = [k for k, book in enumerate(encoded.books.sentences_per_book) for _ in book]

    def words(row):
        return [encoded.vocabulary.words[number] for number in row if number != END]

    for length in (1, 5, 8):
        indices = encoded.train[encoded.lengths[encoded.train] == length][:6]
        triples = encoded.sentence_triples(indices)
        assert triples.middle.shape == (6, length + 1)
        for row, index in enumerate(indices.tolist()):
            sides = (0, triples.middle), (-1, triples.before), (1, triples.after)
            assert all(words(part[row]) == flat[index + side] for side, part in sides)
            counts = [len(flat[index + side]) + 1 for side in (-1, 1)]
            assert triples.neighbour_lengths[row].tolist() == counts
    used = []
    for indices in (encoded.train.tolist(), encoded.valid.tolist()):
        assert indices
        assert all(flat[k - 1] and flat[k] and flat[k + 1] for k in indices)
        assert all(book_of[k - 1] == book_of[k + 1] for k in indices)
        used.append({k + side for k in indices for side in (-1, 0, 1)})
    assert not used[0] & used[1]
    assert {index // STRETCH % EACH for index in used[1]} == {EACH - 1}


def test_passages_are_held_out_and_shuffled_sentences_are_the_same_ones(encoded):
    passages = encoded.held_out_passages(3)
    inner = [index for passage in passages for index in passage[1:-1]]
    held_out = {*encoded.valid.tolist()}
    assert len(passages) > 1
    assert {*inner} <= held_out
    assert len(inner) == len({*inner})
    assert all(p[0] not in held_out and p[-1] not in held_out for p in passages)
    assert not encoded.held_out_passages(1 + max(map(len, passages)))
    mixed, again = (EncodedBooks(random_books(), 40, shuffled=True) for _ in range(2))
    assert sorted(mixed.sentences) == sorted(encoded.sentences)
    assert again.sentences == mixed.sentences != encoded.sentences
    assert mixed.vocabulary.words == encoded.vocabulary.words


def test_the_vocabulary_is_the_most_frequent_training_words():
    sentences = [["held"] if k // 50 == 19 else ["b", "a", "b"][k % 3 :] for k in range(2000)]
    assert EncodedBooks(Written([sentences]), 4).vocabulary.words[2:] == ("b", "a")
    assert "held" not in EncodedBooks(Written([sentences]), 9).vocabulary
    few = EncodedBooks(random_books(), 7)
    assert len(few.vocabulary) == 7
    rows = few.sentence_triples(few.train[few.lengths[few.train] == 8][:20]).middle
    assert (rows == UNKNOWN).any()


def test_books_that_cannot_be_used_are_errors_that_say_so():
    for sentences, message in (
        ([["a"], ["b"], []] * 500, "none to train on.*max_length"),
        ([["a"]] * 100, "100 sentences in 1 books, none to validate on"),
    ):
        with pytest.raises(ValueError, match=message):
            EncodedBooks(Written([sentences]), 10)


# --- tasks in files ---------------------------------------------------------------------------


def test_the_official_files_are_read_in_one_file_or_several(tmp_path):
    folder = layouts.sentence_tasks(tmp_path)
    tasks = load_tasks(f"sentence-tasks={folder}")
    assert tuple(tasks) == NAMES == tasks.names
    sick = tasks["SICK"]
    assert sick.first_sentences[5] == ["a", "trial", "dog", ",", "1"]
    assert sick.second_sentences[5] == ["the", "man", "is", "n't", "there"]
    assert sick.targets[4:8].tolist() == [1.5, 2.5, 3.5, 4.5]
    assert sick.split_or_fold_numbers.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    for name, accent in {
        "MR": "café …",
        "SUBJ": "café …",
        "CR": "cafe",
        "MPQA": "cafe",
    }.items():
        task = tasks[name]
        assert task.targets.tolist() == [0] * 12 + [1] * 13
        words = " ".join(task.first_sentences[14])
        assert words.startswith(accent), words
        assert words.endswith("2 , is n't it ?")
        assert {*task.split_or_fold_numbers.tolist()} == {*range(FOLDS)}
    assert "plot.tok.gt9.5000" in tasks["SUBJ"].first_sentences[0]  # objective is class 0
    checksum = tasks.checksum
    lines = ["sentence_A\tsentence_B\trelatedness_score\tSemEval_set"]
    for split, file in (("TRAIN", "train"), ("TRIAL", "trial"), ("TEST", "test_annotated")):
        rows = (folder / "sick" / f"SICK_{file}.txt").read_text().splitlines()[1:]
        lines += ["\t".join([*row.split("\t")[1:4], split]) for row in rows]
    layouts.put(folder / "SICK.txt", text="\n".join(lines) + "\n")
    assert load_tasks(f"sentence-tasks={folder}").checksum == checksum
    next(folder.rglob("custrev.pos")).unlink()
    with pytest.raises(FileNotFoundError, match=r"not whole in .* there is no custrev.pos"):
        load_tasks(f"sentence-tasks={folder}")


def test_damaged_tasks_are_named(tmp_path):
    for number, (file, old, new, message) in enumerate(
        [
            ("SICK_trial.txt", b"relatedness", b"", "expected the columns sentence_A, sent"),
            ("SICK_train.txt", b"\t2.5", b"\tnan", "SICK_train.txt: a related.* not from 1"),
            ("rt-polarity.pos", b"isn", b"\x81", "no text in utf-8 or windows-1252: convert"),
        ]
    ):
        folder = layouts.sentence_tasks(tmp_path / str(number))
        (path,) = folder.rglob(file)
        path.write_bytes(path.read_bytes().replace(old, new))
        with pytest.raises(ValueError, match=message):
            _ = load_tasks(f"sentence-tasks={folder}")["SICK"]


def test_folds_are_even_and_mix_the_classes():
    folds = assign_folds_by_hash("MR", 1003)
    assert sorted(np.bincount(folds)) == [100] * 7 + [101] * 3
    halves = [np.mean(np.flatnonzero(folds == fold) < 500) for fold in range(FOLDS)]
    assert 0.3 < min(halves) < max(halves) < 0.7
