"""Skip-thoughts: the formula, batches of one length, the authors' Adam, scores of vectors."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score
from torch.nn import functional as F

from lnlab.data.vocabulary import END, UNKNOWN
from lnlab.papers import skip_thoughts
from lnlab.papers.skip_thoughts import evaluate
from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.papers.skip_thoughts.downstream import (
    FOLDS,
    TEST,
    TRAIN,
    TRIAL,
    SentenceTask,
    assign_folds_by_hash,
    nested_fold_train_and_test_masks,
)
from lnlab.papers.skip_thoughts.evaluate import (
    BEST,
    CS,
    NESTED,
    score_baseline,
    score_frozen_vectors,
    select_and_strip_suffix,
)
from lnlab.papers.skip_thoughts.experiment import TripleBatches
from lnlab.papers.skip_thoughts.model import (
    ARMS,
    CONDITIONS,
    SkipThoughts,
    batch_indices_by_length,
)
from lnlab.training import train
from tests.papers.test_skip_thoughts_data import random_books

H, E = 6, 5
SMALL = skip_thoughts.Experiment(
    units=(H,), embedding_size=E, vocab_size=40, updates=2, initialisation="modern"
)
every_form = pytest.mark.parametrize(("norm", "condition"), [*product(ARMS, CONDITIONS)])


@pytest.fixture(scope="module")
def books():
    return EncodedBooks(random_books(), 40)


def make_model(books, norm="layer", condition="start"):
    torch.manual_seed(3)
    return SkipThoughts(
        replace(SMALL, norm=norm, condition=condition), books.vocabulary
    ).double()


# --- the model --------------------------------------------------------------------------------


@every_form
def test_the_nats_are_the_formula_word_by_word(books, norm, condition):
    model = make_model(books, norm, condition)
    triples = books.sentence_triples(books.train[books.lengths[books.train] == 4][:3])
    expected = torch.zeros(2)
    for row, side in product(range(3), range(2)):
        encoder, decoder = model.encoder.cells[0], model.decoders[side].cells[0]
        h = torch.zeros(1, H)
        for t, word in enumerate(triples.middle[row]):
            (h,) = encoder(model.word[word][None], (h,), t)
        state = h if condition == "start" else torch.zeros(1, H)
        last = torch.zeros(1, E)
        length = triples.neighbour_lengths[row, side]
        for t, word in enumerate(triples[1 + side][row, :length]):
            x = last if condition == "start" else torch.cat([last, h], 1)
            (state,) = decoder(x, (state,), t)
            p = (model.v @ state[0] + model.b).softmax(0)
            expected[side] -= p[word].log()
            last = model.word[word][None]
    torch.testing.assert_close(model(triples), expected)
    before, after = F.pad(triples.before, (0, 4)), F.pad(triples.after, (0, 4))
    torch.testing.assert_close(model(triples._replace(before=before, after=after)), expected)


def test_vectors_are_those_of_each_sentence_alone(books):
    model = make_model(books)
    sentences = [[3, 4, 5], [6], [7, 8, 9], [2, 3]]
    for row, sentence in zip(model.encode_sentences(sentences), sentences, strict=True):
        torch.testing.assert_close(row, model.encode_equal_lengths(torch.tensor([sentence]))[0])
    with pytest.raises(ValueError, match="sentence 1 has no words"):
        model.encode_sentences([[3], []])
    batches = batch_indices_by_length([[0] * n for n in (3, 1, 3, 2, 3, 1)], max_batch_size=2)
    assert batches == [[1, 5], [3], [0, 2], [4]]


def test_the_likeliest_word_is_generated_each_time(books):
    model = make_model(books)
    h = model.encode_sentences([[3, 4, 5]])[0]
    generated = model.generate_neighbour_greedily(h, "after", max_length=5)
    assert not {UNKNOWN, END} & {*generated}
    words = torch.tensor([[*generated, END]])
    for t, word in enumerate(generated):
        nats = {}
        for other in {*range(len(books.vocabulary))} - {UNKNOWN}:
            words[0, t] = other
            count = torch.tensor([t + 1])
            nats[other] = model.nats_of_each_neighbour_word(
                model.decoders[1], h[None], words, count
            )[-1].item()
        assert min(nats, key=nats.get) == word
        words[0, t] = word


def test_the_published_adam_takes_its_own_rate():
    for adam, rate in (("published", 2e-4), ("standard", 0.01)):
        experiment = replace(SMALL, adam=adam, learning_rate=0.01)
        optimizer = experiment.optimizer(iter([torch.nn.Parameter(torch.zeros(1))]))
        assert optimizer.param_groups[0]["lr"] == rate


def test_batches_are_of_one_length_and_an_epoch_is_every_sentence_once(books):
    def batches(*seeds):
        return TripleBatches(books, books.train, 16, seeds, torch.device("cpu"))

    seen: list[list] = [[], []]
    both = [*batches(0, 1).batches_of_epoch(0)]
    for x, y in both:
        assert x.middle.shape[1] <= 16
        assert torch.equal(y, x.neighbour_lengths.sum(-1))
        for seed in range(2):
            assert (x.middle[seed, :, -1] == END).all()
            assert (x.middle[seed, :, :-1] != END).all()
            seen[seed] += [tuple(row) for row in x.middle[seed].tolist()]
    assert len(both) == len(batches(0))
    assert sorted(seen[0]) == sorted(seen[1])
    assert seen[0] != seen[1]
    assert len(seen[0]) == len(books.train)
    alone = batches(1)
    for one, two in zip(alone.batches_of_epoch(0), both, strict=True):
        assert torch.equal(one[0].middle[0], two[0].middle[1])
    assert not torch.equal(
        next(alone.batches_of_epoch(0))[0].middle, next(alone.batches_of_epoch(1))[0].middle
    )
    (resumed,) = alone.batches_of_epoch(0, start=len(alone) - 1)
    assert torch.equal(both[-1][0].middle[1], resumed[0].middle[0])


# --- metrics ----------------------------------------------------------------------------------


def test_held_out_nats_are_those_of_the_words(books):
    model = make_model(books)
    nats, words = torch.zeros(2), 0
    for index in books.valid:
        triples = books.sentence_triples(index[None])
        nats += model(triples).detach()
        words += triples.neighbour_lengths[0]
    nats_per_word = evaluate.held_out_nats_per_word(model, books)
    assert nats_per_word == pytest.approx(float(nats.sum() / words.sum()))


def test_scores_have_the_names_of_their_tasks(tmp_path, monkeypatch):
    sentences = [["w1"] * (1 + k % 2) + [f"w{2 + k % 5}"] for k in range(60)]
    targets, index = np.arange(60) % 2.0, np.arange(60)
    long = SentenceTask("Long", sentences, [], targets, index // 2 % 10)
    near = SentenceTask("Near", sentences, sentences[::-1], 1 + 4 * targets, index % 3)
    books = EncodedBooks(random_books(), 40, tasks={"Long": long, "Near": near})
    assert books.checksum != EncodedBooks(random_books(), 40, tasks={"Long": long}).checksum
    model = make_model(books)
    values = evaluate.downstream_scores_by_metric(model, books)
    assert select_and_strip_suffix(values, NESTED).keys() == {
        "long",
        "near_r",
        "near_rho",
        "near_mse",
    }
    scores = score_frozen_vectors(
        long, evaluate.sentence_vectors(model, books.vocabulary, long)
    )
    for C, score in scores.scores_by_C.items():
        assert values[f"long_C{C:g}"] == score["accuracy"]
    assert values["long_nested"] == scores.scores_at_chosen_C["accuracy"]
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    baselines = evaluate.bag_of_words_scores_by_metric(books)
    assert "long_words_C1" in baselines
    expected = score_baseline(near, evaluate.BASELINES["_tfidf"]).scores_at_chosen_C["pearson"]
    assert baselines["near_r_tfidf" + BEST] == expected
    monkeypatch.setattr(evaluate, "score_baseline", None)
    assert evaluate.bag_of_words_scores_by_metric(books) == baselines  # once on a machine


def test_snapshots_are_the_models_at_each_moment(tmp_path):
    small = skip_thoughts.Experiment.budget("smoke", downstream_tasks="none")
    dataset, run = small.dataset(), train(small, root=tmp_path)
    models = evaluate.load_first_seed_snapshots(small, run, dataset)
    assert [*models] == [0, 3, 6]
    weights = run.weights()
    for name, p in models[6].named_parameters():
        assert torch.equal(p.float(), weights[f"0.{name}"].half().float())
    with pytest.raises(ValueError, match="stored no weights"):
        evaluate.load_first_seed_snapshots(
            small, SimpleNamespace(pictures=lambda seed: {0: {}}), dataset
        )
    config = replace(small, downstream_tasks="sentence-tasks=/somewhere").config()
    assert config["downstream_tasks"] == "sentence-tasks"


# --- scores -----------------------------------------------------------------------------------

N = 120


def make_classes(count=N):
    """Different sentences with random classes."""
    targets = np.random.default_rng(0).permutation(np.arange(count) % 2).astype(float)
    sentences = [[f"w{n}", "and", "so", "on"] for n in range(count)]
    return SentenceTask(
        "classes", sentences, [], targets, assign_folds_by_hash("classes", count)
    )


def make_pairs(count=N):
    splits = np.repeat([TRAIN, TRIAL, TEST], [count // 2, count // 4, count // 4])
    u, v = ([[f"w{n}", side] for n in range(count)] for side in "uv")
    targets = np.random.default_rng(0).uniform(1, 5, count).round(1)
    return SentenceTask("pairs", u, v, targets, splits)


def make_vectors(task):
    """Noise (N, 8) that holds the class."""
    vectors = np.random.default_rng(5).normal(size=(len(task), 8))
    vectors[:, 0] += task.targets
    return vectors


def normalize(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_folds_are_scored_and_c_is_selected_as_scikit_learn_does(monkeypatch):
    monkeypatch.setattr(evaluate, "CS", (1.0, 256.0))
    task = make_classes()
    vectors = make_vectors(task)
    units, scores = normalize(vectors), score_frozen_vectors(task, vectors)
    for C in evaluate.CS:
        model = LogisticRegression(C=C, tol=1e-8, max_iter=9000)
        split = PredefinedSplit(task.split_or_fold_numbers)
        expected = 100 * cross_val_score(model, units, task.targets, cv=split)
        assert scores.scores_by_C[C]["accuracy"] == pytest.approx(expected.mean())
    correct = 0.0
    for fold in range(FOLDS):
        rows, test = (
            np.flatnonzero(task.split_or_fold_numbers != fold),
            task.split_or_fold_numbers == fold,
        )
        split = PredefinedSplit(assign_folds_by_hash(f"classes within {fold}", len(rows)))
        model = LogisticRegression(tol=1e-6, solver="newton-cholesky")
        search = GridSearchCV(model, {"C": evaluate.CS}, cv=split)
        search.fit(units[rows], task.targets[rows])
        correct += float(search.score(units[test], task.targets[test])) * test.sum()  # pyright: ignore
    assert scores.scores_at_chosen_C["accuracy"] == pytest.approx(100 * correct / N)


@pytest.mark.parametrize(("shift", "steps"), [(0, 1), (40, evaluate.NEWTON_STEPS)])
def test_each_model_of_each_c_has_its_optimum(monkeypatch, shift, steps):
    """Shifted vectors are nearly parallel. Models that do not converge are fitted alone."""
    monkeypatch.setattr(evaluate, "NEWTON_STEPS", steps)
    task = make_classes(count=200)
    X, y = normalize(make_vectors(task) + shift), task.targets
    train, test = nested_fold_train_and_test_masks(task)
    assert not (train & test).any()
    assert (test.sum(1) == 1 + (FOLDS - 1)).all()
    some = train[:, [0, 7, FOLDS, 2 * FOLDS + 3, -1]]
    for C, W in zip(
        CS, evaluate.logistic_regression_weights_per_C(X, y, some, CS), strict=True
    ):
        for rows, w in zip(some.T, W.T, strict=True):
            error = 1 / (1 + np.exp(-evaluate.logits(X[rows], w))) - y[rows]
            gradient = np.append(X[rows].T @ error + w[:-1] / C, error.sum())
            assert np.abs(gradient).max() / rows.sum() < 2 * evaluate.TOLERANCE


def test_relatedness_that_vectors_hold_is_predicted():
    """v is u turned by an angle that gives the relatedness."""
    task = make_pairs(count=600)
    angle = np.arccos((task.targets - 1) / 4)
    u = np.stack([np.ones(600), np.zeros(600)], 1)
    v = np.stack([np.cos(angle), np.sin(angle)], 1)
    score = score_frozen_vectors(task, np.concatenate([u, v])).scores_at_chosen_C
    assert min(score["pearson"], score["spearman"]) > 0.99
    assert score["mse"] < 0.05
    targets = np.array([1.0, 5.0, 3.6, 2.0, 4.9])
    examples, labels, weights = evaluate.soft_label_rows_classes_weights(targets)
    assert np.bincount(examples, weights) == pytest.approx(np.ones(5))
    assert np.bincount(examples, weights * labels) == pytest.approx(targets)
    assert (weights > 0).all()
    assert {*labels.tolist()} <= {1.0, 2.0, 3.0, 4.0, 5.0}


@pytest.mark.parametrize("task", [make_classes(), make_pairs()], ids=["classes", "pairs"])
def test_nothing_is_learned_from_test_examples(task):
    """Vectors that hold the targets of the training examples, and no others."""
    known = []

    def cheat(task, rows):
        known.append({*rows.tolist()})
        vectors = np.full((len(task.first_and_second_sentences), 2), 1e-3)
        both = np.concatenate([rows, rows + len(task)]) if task.has_pairs else rows
        vectors[both, 0] = np.tile(task.targets[rows], 1 + task.has_pairs) - 0.5
        return vectors

    for score in score_baseline(task, cheat).scores_by_C.values():
        assert 30 < score.get("accuracy", 50) < 70
        assert abs(score.get("pearson", 0)) < 0.5
    if task.has_pairs:
        assert known == [{*np.flatnonzero(task.split_or_fold_numbers == TRAIN).tolist()}]
        return
