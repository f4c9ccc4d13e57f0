"""Skip-thoughts: the formula, batches of one length, the authors' Adam, what is measured."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lnlab.data.vocabulary import END, UNKNOWN
from lnlab.nn import Identity, LayerNorm
from lnlab.papers import skip_thoughts
from lnlab.papers.skip_thoughts import evaluate
from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.papers.skip_thoughts.downstream import SentenceTask
from lnlab.papers.skip_thoughts.evaluate import BEST, NESTED, with_ending
from lnlab.papers.skip_thoughts.experiment import TripleBatches
from lnlab.papers.skip_thoughts.model import CONDITIONS, SkipThoughts, group_by_length
from lnlab.training import train
from tests.papers.test_books import random_books

NORMS = {"none": Identity, "layer": LayerNorm}
H, E = 6, 5
SMALL = skip_thoughts.Experiment(
    units=(H,), embedding_size=E, vocab_size=40, updates=2, initialisation="modern"
)
CPU = torch.device("cpu")
every_form = pytest.mark.parametrize(("norm", "condition"), [*product(NORMS, CONDITIONS)])


@pytest.fixture(scope="module")
def books():
    return EncodedBooks(random_books(), 40)


def make_model(books, norm="layer", condition="start"):
    torch.manual_seed(3)
    return SkipThoughts(books.vocabulary, H, E, NORMS[norm], "modern", condition).double()


def of_length(books, length, count):
    return books.triples(books.train[books.lengths[books.train] == length][:count])


# --- the model -------------------------------------------------------------------------------


@every_form
def test_the_nats_are_the_formula_word_by_word(books, norm, condition):
    model = make_model(books, norm, condition)
    triples = of_length(books, 4, 3)
    expected = torch.zeros(2)
    for row, side in product(range(3), range(2)):
        encoder, decoder = model.encoder.cells[0], model.decoders[side].cells[0]
        h = torch.zeros(1, H)
        for t, word in enumerate(triples.middle[row]):
            (h,) = encoder(model.word[word][None], (h,), t)
        state = h if condition == "start" else torch.zeros(1, H)
        last = torch.zeros(1, E)
        for t, word in enumerate(triples[1 + side][row, : triples.counts[row, side]]):
            x = last if condition == "start" else torch.cat([last, h], 1)
            (state,) = decoder(x, (state,), t)
            p = (model.v @ state[0] + model.b).softmax(0)
            expected[side] -= p[word].log()
            last = model.word[word][None]
    torch.testing.assert_close(model(triples), expected)


def test_neighbours_that_are_padded_more_cost_the_same(books):
    model, triples = make_model(books), of_length(books, 3, 5)
    before, after = F.pad(triples.before, (0, 4)), F.pad(triples.after, (0, 4))
    wider = triples._replace(before=before, after=after)
    torch.testing.assert_close(model(wider), model(triples))


@every_form
def test_fused_it_is_the_same_function_with_the_same_gradients(books, norm, condition):
    both = {}
    for fused in (True, False):
        task = replace(SMALL, norm=norm, condition=condition, fused=fused)
        model = task.model(0, books).double()
        x, _ = next(task.batches(books).epoch(0))
        loss = model(type(x)(*(part[0] for part in x))).sum()
        loss.backward()
        both[fused] = {"loss": loss} | {n: p.grad for n, p in model.named_parameters()}
    for name, expected in both[False].items():
        torch.testing.assert_close(both[True][name], expected, msg=name)


def test_vectors_are_those_of_each_sentence_alone(books):
    model = make_model(books)
    sentences = [[3, 4, 5], [6], [7, 8, 9], [2, 3]]
    for row, sentence in zip(model.vectors(sentences), sentences, strict=True):
        torch.testing.assert_close(row, model.encode(torch.tensor([sentence]))[0])
    with pytest.raises(ValueError, match="sentence 1 has no words"):
        model.vectors([[3], []])
    batches = group_by_length([[0] * n for n in (3, 1, 3, 2, 3, 1)], most=2)
    assert batches == [[1, 5], [3], [0, 2], [4]]


def test_what_is_generated_is_the_likeliest_word_each_time(books):
    model = make_model(books)
    h = model.vectors([[3, 4, 5]])[0]
    generated = model.generate(h, "after", max_length=5)
    assert not {UNKNOWN, END} & {*generated}
    words = torch.tensor([[*generated, END]])
    for t, word in enumerate(generated):
        nats = {}
        for other in {*range(len(books.vocabulary))} - {UNKNOWN}:
            words[0, t] = other
            count = torch.tensor([t + 1])
            nats[other] = model.nats(model.decoders[1], h[None], words, count)[-1].item()
        assert min(nats, key=nats.get) == word
        words[0, t] = word


# --- the authors' Adam -----------------------------------------------------------------------


def steps(adam, rate, count=3):
    """How far a weight moves in its first updates, at a gradient of 1."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = replace(SMALL, adam=adam, learning_rate=rate).optimizer(iter([p]))
    moved = []
    for _ in range(count):
        before, rate_now = p.item(), optimizer.param_groups[0]["lr"]
        p.grad = torch.ones(1)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = rate_now  # as a training does before each update
        moved.append(before - p.item())
    return moved


def test_the_published_adam_takes_its_own_rate_and_larger_steps_at_first():
    assert steps("published", 0.01) == steps("published", 0.5)
    m = v = 0.0
    for t, step in enumerate(steps("published", 0.01), start=1):
        m, v = 0.9 * m + 0.1, 0.999 * v + 0.001  # optim.py: b1 = 0.1, b2 = 0.001
        rate = 2e-4 * (1 - 0.001**t) ** 0.5 / (1 - 0.1**t)
        assert step == pytest.approx(rate * m / (v**0.5 + 1e-8), rel=1e-4)
    assert steps("standard", 0.01) == pytest.approx([0.01] * 3, rel=1e-5)


# --- batches ---------------------------------------------------------------------------------


def test_batches_are_of_one_length_and_an_epoch_is_every_sentence_once(books):
    batches = TripleBatches(books, books.train, 16, (0, 1), CPU)
    seen: list[list] = [[], []]
    count = 0
    for x, y in batches.epoch(0):
        count += 1
        assert x.middle.shape[1] <= 16
        assert torch.equal(y, x.counts.sum(-1))
        for seed in range(2):
            assert (x.middle[seed, :, -1] == END).all()
            assert (x.middle[seed, :, :-1] != END).all()
            seen[seed] += [tuple(row) for row in x.middle[seed].tolist()]
    assert count == len(batches)
    assert sorted(seen[0]) == sorted(seen[1])
    assert seen[0] != seen[1]
    assert len(seen[0]) == len(books.train)


def test_the_order_is_of_seed_and_epoch_alone_and_is_resumed(books):
    alone, both = (TripleBatches(books, books.train, 16, s, CPU) for s in ((1,), (0, 1)))
    for one, two in zip(alone.epoch(2), both.epoch(2), strict=True):
        assert torch.equal(one[0].middle[0], two[0].middle[1])
    first, other = (next(alone.epoch(k))[0].middle for k in (0, 1))
    assert not torch.equal(first, other)
    *_, last = alone.epoch(2)
    (resumed,) = alone.epoch(2, start=len(alone) - 1)
    assert torch.equal(last[0].middle, resumed[0].middle)


# --- what is measured ------------------------------------------------------------------------


def test_held_out_nats_are_those_of_the_words(books):
    model = make_model(books)
    nats, words = torch.zeros(2), 0
    for index in books.valid:
        triples = books.triples(index[None])
        nats += model(triples).detach()
        words += triples.counts[0]
    values = evaluate.held_out_nats(model, books)
    assert values["valid_nll"] == pytest.approx(float(nats.sum() / words.sum()))
    assert values["valid_nll_before"] == pytest.approx(float(nats[0] / words[0]))
    assert values["valid_nll_after"] == pytest.approx(float(nats[1] / words[1]))


def make_task(name, pairs):
    """Sentences of one word or two, and whether there are two."""
    sentences = [["w1"] * (1 + k % 2) + [f"w{2 + k % 5}"] for k in range(60)]
    targets = np.array([float(k % 2) for k in range(60)])
    splits = np.arange(60) % 3 if pairs else np.arange(60) // 2 % 10
    others = sentences[::-1] if pairs else []
    return SentenceTask(name, sentences, others, 1 + 4 * targets if pairs else targets, splits)


def test_scores_have_the_names_of_their_tasks(tmp_path, monkeypatch):
    long, near = make_task("Long", False), make_task("Near", True)
    books = EncodedBooks(random_books(), 40, tasks={"Long": long, "Near": near})
    model = make_model(books)
    values = evaluate.vector_scores(model, books)
    assert with_ending(values, NESTED).keys() == {"long", "near_r", "near_rho", "near_mse"}
    vectors = evaluate.sentence_vectors(model, books.vocabulary, long)
    scores = evaluate.score_vectors(long, vectors)
    for C, score in scores.by_C.items():
        assert values[f"long_C{C:g}"] == score.metrics["accuracy"]
    assert values["long_nested"] == scores.chosen.metrics["accuracy"]
    assert values["long_within"] == scores.chosen.margin
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    baselines = evaluate.bag_of_words_scores(books)
    assert "long_words_C1" in baselines
    expected = evaluate.score_baseline(near, evaluate.tf_idf).chosen.metrics["pearson"]
    assert baselines["near_r_tfidf" + BEST] == expected
    monkeypatch.setattr(evaluate, "score_baseline", None)
    assert evaluate.bag_of_words_scores(books) == baselines  # once on a machine
    assert evaluate.unknown_words(books) == {"long_unknown": 0.0, "near_unknown": 0.0}


def test_snapshots_are_the_models_at_each_moment(tmp_path):
    task = replace(skip_thoughts.Experiment.budget("smoke", downstream_tasks="none"), updates=6)
    dataset = task.dataset()
    run = train(task, root=tmp_path)
    models = evaluate.load_snapshots(task, run, dataset)
    assert [*models] == [0, 3, 6]
    weights = run.weights()
    for name, p in models[6].named_parameters():
        assert torch.equal(p.float(), weights[f"0.{name}"].half().float())
    with pytest.raises(ValueError, match="kept no weights"):
        evaluate.load_snapshots(task, SimpleNamespace(pictures=lambda seed: {0: {}}), dataset)


def test_configuration_and_checksum_are_of_the_tasks_wherever_they_lie(books):
    task = replace(SMALL, downstream_tasks="sentence-tasks=/somewhere", data="novels=/else")
    assert task.config()["downstream_tasks"] == "sentence-tasks"
    both = [
        EncodedBooks(random_books(), 40, tasks={"Long": make_task(name, False)}).checksum
        for name in ("Long", "Other")
    ]
    assert len({books.checksum, *both}) == 3
    assert books.checksum == "1"
