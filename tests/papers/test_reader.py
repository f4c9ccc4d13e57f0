"""The attentive reader: its formula, padding, statistics, batches and what is measured."""

import copy
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
from torch.nn import functional as F

from lnlab.data import Vocabulary
from lnlab.nn import BatchNorm, Identity, LayerNorm, Mode, RecurrentBatchNorm
from lnlab.nn.batch import OverCases
from lnlab.papers import AttentiveReading
from lnlab.papers.attentive_reader import evaluate
from lnlab.papers.attentive_reader.data import BLANK, EncodedQuestions, Question
from lnlab.papers.attentive_reader.model import (
    AttentiveReader,
    QuestionBatch,
    glorot,
    reseeded,
)
from lnlab.training import Evaluation
from lnlab.training.optim import clip_like_attentive_reader_

H, E = 6, 5
KNOWN = Vocabulary([BLANK, *(f"@entity{k}" for k in range(4)), "met", "saw", "and", "."])
SMOKE = AttentiveReading.budget("smoke", seeds=(0,))
NORMS = {
    "none": Identity, "layer": LayerNorm, "batch": partial(RecurrentBatchNorm, steps=9),
}  # fmt: skip
NAMES = tuple(f"@entity{k}" for k in range(4))
TEXTS = [
    ("@entity0 met @entity1 and @entity2 .", f"{BLANK} met @entity1 .", NAMES[:3], "@entity0"),
    ("@entity1 saw @entity3 .", f"@entity1 saw {BLANK}", NAMES, "@entity3"),
    ("@entity2 met @entity0", f"{BLANK} met", (NAMES[0], NAMES[2]), "@entity2"),
]
QUESTIONS = [Question(str(k), (text,), *rest) for k, (text, *rest) in enumerate(TEXTS)]


def make_model(norm="layer", everywhere=Identity, start="modern", **settings):
    torch.manual_seed(3)
    norms = (NORMS[norm], NORMS[norm])
    return AttentiveReader(KNOWN, H, E, norms, everywhere, start, **settings).double()


def three_questions():
    return EncodedQuestions(QUESTIONS, KNOWN).batch([0, 1, 2])[0]


def padded(x, more):
    """The same questions with more padding."""
    names = ("passage", "query", "candidates")
    return x._replace(**{name: F.pad(getattr(x, name), (0, more)) for name in names})


# --- the model -------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_the_reader_is_its_formula_question_by_question(norm):
    model, x = make_model(norm), three_questions()
    logits, alphas = model.logits_and_attention(x)
    for row in range(3):
        T, U = int(x.passage_lengths[row]), int(x.query_lengths[row])
        y = model.passage(model.word[x.passage[row, :T]].unsqueeze(1))[0][:, 0]
        u = model.question(model.word[x.query[row, :U]].unsqueeze(1))[0][-1, 0]
        W, key = model.attention.query, model.attention.key.W
        e = torch.tanh(y @ key.T + W.W @ u + W.b_inside) @ model.attention.v.W[0]
        alpha = e.softmax(0)
        r, m = alpha @ y, y.mean(0)
        s = model.W_r.W @ r + model.W_r.b_inside + model.W_s.W @ u + model.W_m.W @ m
        expected = model.answer.W @ torch.tanh(s) + model.answer.b_inside
        other = sorted({*range(len(KNOWN))} - {*x.candidates[row].tolist()} | {0})
        expected[other] = -torch.inf
        torch.testing.assert_close(alphas[row, :T], alpha)
        torch.testing.assert_close(logits[row], expected)
    every = make_model(norm, any_word=True)(x)
    assert every.isfinite().all()
    torch.testing.assert_close(every[logits.isfinite()], logits[logits.isfinite()])


ALL = {**{name: (name, Identity) for name in NORMS}, "everywhere": ("batch", BatchNorm)}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("arm", ALL)
def test_longer_padding_changes_nothing(arm, training):
    """Neither answers nor attention nor running statistics, but for the order of sums."""
    model, x = make_model(*ALL[arm]).train(training), three_questions()
    T, outputs = x.passage.shape[1], []
    for batch in (x, padded(x, 5)):
        one = copy.deepcopy(model)
        logits, alpha = one.logits_and_attention(batch)
        outputs.append([logits, alpha[:, :T], *one.buffers()])
        assert not alpha[:, T:].any()
    for one, other in zip(*outputs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("padding", ["cyclic", "zeros"])
def test_careless_padding_enters_the_statistics_of_batch_norm_alone(padding):
    x = three_questions()
    for norm in NORMS:
        careful, careless = (
            make_model(norm, **settings).logits_and_attention(x)[1]
            for settings in ({}, {"padding": padding})
        )
        assert torch.allclose(careful, careless, rtol=0, atol=1e-9) == (norm != "batch")


@torch.no_grad()
def test_reseeding_makes_the_gates_the_same_and_glorot_does_not():
    cells = {
        start: make_model(start=start).passage.cells[0] for start in ("published", "paper")
    }
    gates = {start: cell.W_h.split(H) for start, cell in cells.items()}
    assert all(torch.equal(gates["published"][0], gate) for gate in gates["published"])
    assert not any(torch.equal(gates["paper"][0], gate) for gate in gates["paper"][1:])
    U = gates["paper"][0]
    torch.testing.assert_close(U @ U.T, 0.05**2 * torch.eye(H))
    W = torch.empty(300, 10)
    glorot(W)
    assert 0.98 * (6 / 311) ** 0.5 < float(W.max()) < (6 / 311) ** 0.5
    state = torch.get_rng_state()
    reseeded(W)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(("norm", "becomes"), [(9.9, 9.9), (101, 100.4988), (1e4, 1000)])
def test_the_published_clip_divides_by_a_root(norm, becomes):
    p = torch.nn.Parameter(torch.zeros(2, 3))  # two models
    p.grad = torch.zeros(2, 3)
    p.grad[0, 0], p.grad[1] = norm, torch.tensor([0.0, 3, 4])
    clip_like_attentive_reader_(torch.optim.SGD([p], 0.1), 10.0, 2)
    assert float(p.grad[0].norm()) == pytest.approx(becomes, rel=1e-5)
    assert float(p.grad[1].norm()) == pytest.approx(5)


@pytest.mark.parametrize("norm", ["none", "layer", "batch", "batch everywhere"])
def test_fused_it_is_the_same_function_with_the_same_gradients(norm):
    dataset, both = SMOKE.dataset(), {}
    for fused in (True, False):
        task = replace(SMOKE, norm=norm, fused=fused, initialisation="modern")
        model = task.model(0, dataset).double()
        x, y = next(task.batches(dataset, dtype=torch.float64).epoch(0))
        loss = F.cross_entropy(model(QuestionBatch(*(part[0] for part in x))), y[0])
        loss.backward()
        both[fused] = {"loss": loss} | {n: p.grad for n, p in model.named_parameters()}
        both[fused] |= dict(model.named_buffers())
    for name, expected in both[False].items():
        torch.testing.assert_close(both[True][name], expected, rtol=1e-7, atol=1e-9, msg=name)


# --- batches ---------------------------------------------------------------------------------


def test_entities_are_renamed_alike_in_passage_question_and_answer():
    task = replace(SMOKE, seeds=(0, 1))
    dataset = task.dataset()
    batches = task.batches(dataset)
    x, y = dataset.encoded("train").batch(range(len(dataset.train)))
    plain = {pattern(x, y, k, dataset): k for k in range(len(y))}
    seen = set()
    for x, y in batches.epoch(0):
        for seed, row in product(range(2), range(task.batch_size)):
            one = QuestionBatch(*(part[seed] for part in x))
            seen.add((seed, plain[pattern(one, y[seed], row, dataset)]))
            assert int(y[seed, row]) in x.candidates[seed, row]
    assert len(seen) > 0.9 * 2 * len(dataset.train)  # some questions are alike but for names
    again = [next(batches.epoch(epoch))[0].passage for epoch in (0, 0, 1)]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])
    *_, last = batches.epoch(2)
    (resumed,) = batches.epoch(2, start=len(batches) - 1)
    assert torch.equal(last[0].passage, resumed[0].passage)


def pattern(x, y, row, dataset):
    """A question whose entities are called by the order in which they come."""
    T, U = x.passage_lengths[row], x.query_lengths[row]
    words = [*x.passage[row, :T].tolist(), *x.query[row, :U].tolist(), int(y[row])]
    names: dict = {}
    return tuple(
        f"e{names.setdefault(w, len(names))}" if w in dataset.entity_ids else w for w in words
    )


# --- what is measured ------------------------------------------------------------------------


def test_the_population_is_of_each_time_step_and_the_last_serves_those_past_it():
    dataset = SMOKE.dataset()
    model = replace(SMOKE, norm="batch everywhere").model(0, dataset)
    questions = dataset.encoded("train")
    evaluate.recompute_statistics(model, questions, 16)
    cell = model.passage.cells[0]
    means = cell.norm_x.running_mean
    assert means.shape == (dataset.longest[0], 4 * 8)
    x, _ = questions.batch(range(len(questions)))
    a = F.embedding(x.passage[:, 2], model.word) @ cell.W_x.T
    torch.testing.assert_close(means[2], a.mean(0), rtol=1e-4, atol=1e-6)  # float32
    assert not torch.equal(means[2], means[3])
    longer = padded(x, 3)._replace(passage_lengths=x.passage_lengths + 3)
    assert model.eval()(longer)[:, dataset.entity_ids.start :].isfinite().any()


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_what_is_measured_is_what_the_model_answers(norm):
    task = replace(SMOKE, norm=norm)
    dataset = task.dataset()
    model, size = task.model(0, dataset), task.batch_size
    splits = {split: dataset.encoded(split) for split in ("train", "valid")}
    values = evaluate.measure(copy.deepcopy(model), splits, size, test=False)
    if norm == "layer":
        assert values["valid_nll"] == values["valid_nll_batch"]
        x, y = splits["valid"].batch(range(len(dataset.valid)))
        with torch.no_grad():
            logits = model.eval()(x)
        assert values["valid_error"] == float((logits.argmax(1) != y).double().mean())
        assert values["valid_nll"] == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-4)
    else:
        assert values["valid_nll"] != values["valid_nll_batch"]
        answers = evaluate.answer(model, splits["valid"], size, Mode.BATCH)
        assert answers.metrics("valid")["valid_nll"] == values["valid_nll_batch"]
        assert all(part.mode is None for part in model.modules() if isinstance(part, OverCases))
    for k, question in enumerate(dataset.valid[:4]):
        assert values[f"attention {k}"].shape == (len(question.passage.split()) + 1,)
        assert float(values[f"attention {k}"].sum()) == pytest.approx(1, abs=0.01)  # half
        assert sum(values["candidate_probabilities"][k]) == pytest.approx(1, abs=0.01)


def test_only_the_end_looks_at_the_test():
    dataset = SMOKE.dataset()
    model = torch.nn.Module()
    model.unstack = lambda: [SMOKE.model(0, dataset)]
    for evaluation in Evaluation:
        names = SMOKE.evaluate(model, dataset, evaluation)
        final = evaluation is Evaluation.FINAL
        assert any(name.startswith("test") for name in names) == final
