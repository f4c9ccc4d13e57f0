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
from lnlab.papers.attentive_reader.batches import NumberedQuestions, rename
from lnlab.papers.attentive_reader.data import BLANK, Question
from lnlab.papers.attentive_reader.evaluate import answered, batches, measured, remembered
from lnlab.papers.attentive_reader.model import Asked, AttentiveReader, glorot, reseeded
from lnlab.training import Evaluation
from lnlab.training.optim import clip_like_attentive_reader_

H, E = 6, 5
KNOWN = Vocabulary([BLANK, *(f"@entity{k}" for k in range(4)), "met", "saw", "and", "."])
SMOKE = AttentiveReading.budget("smoke", seeds=(0,))
BATCH = partial(RecurrentBatchNorm, steps=9)
NORMS = {"none": Identity, "layer": LayerNorm, "batch": BATCH}
NAMES = tuple(f"@entity{k}" for k in range(4))
TEXTS = [
    ("@entity0 met @entity1 and @entity2 .", f"{BLANK} met @entity1 .", NAMES[:3], "@entity0"),
    ("@entity1 saw @entity3 .", f"@entity1 saw {BLANK}", NAMES, "@entity3"),
    ("@entity2 met @entity0", f"{BLANK} met", (NAMES[0], NAMES[2]), "@entity2"),
]
QUESTIONS = [Question(str(k), (text,), *rest) for k, (text, *rest) in enumerate(TEXTS)]


def net(norm="layer", everywhere=Identity, start="modern", **settings):
    torch.manual_seed(3)
    norms = (NORMS[norm], NORMS[norm])
    return AttentiveReader(KNOWN, H, E, norms, everywhere, start, **settings).double()


def asked():
    return NumberedQuestions(QUESTIONS, KNOWN).asked([0, 1, 2])


def longer(x, more):
    """The same questions with more padding."""
    wide = {
        name: F.pad(getattr(x, name), (0, more)) for name in ("passage", "query", "candidates")
    }
    return x._replace(**wide)


# --- the net ---------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_the_reader_is_its_formula_question_by_question(norm):
    made, (x, _) = net(norm), asked()
    logits, alphas = made.read(x)
    for row in range(3):
        T, U = int(x.lengths[row]), int(x.counts[row])
        y = made.passage(made.word[x.passage[row, :T]].unsqueeze(1))[0][:, 0]
        u = made.question(made.word[x.query[row, :U]].unsqueeze(1))[0][-1, 0]
        W, key = made.attention.query, made.attention.key.W
        e = torch.tanh(y @ key.T + W.W @ u + W.b_inside) @ made.attention.v.W[0]
        alpha = e.softmax(0)
        r, m = alpha @ y, y.mean(0)
        s = torch.tanh(made.W_r.W @ r + made.W_r.b_inside + made.W_s.W @ u + made.W_m.W @ m)
        expected = made.answer.W @ s + made.answer.b_inside
        may = {*x.candidates[row].tolist()} - {0}
        torch.testing.assert_close(alphas[row, :T], alpha)
        for word in range(len(KNOWN)):
            if word in may:
                torch.testing.assert_close(logits[row, word], expected[word])
            else:
                assert logits[row, word] == -torch.inf


def test_with_the_whole_vocabulary_every_word_may_be_the_answer():
    made, (x, _) = net(open=True), asked()
    assert made(x).isfinite().all()
    may = net()(x).isfinite()
    torch.testing.assert_close(net()(x)[may], made(x)[may])


ALL = {**{name: (name, Identity) for name in NORMS}, "everywhere": ("batch", BatchNorm)}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("arm", ALL)
def test_longer_padding_changes_nothing(arm, training):
    """Neither answers nor attention nor what is remembered, to the last bit."""
    made, (x, _) = net(*ALL[arm]).train(training), asked()
    found = []
    for given in (x, longer(x, 5)):
        one = copy.deepcopy(made)
        logits, alpha = one.read(given)
        found.append([logits, alpha[:, : x.passage.shape[1]], *one.buffers()])
        assert not alpha[:, x.passage.shape[1] :].any()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)  # sums of other lengths


@pytest.mark.parametrize("padding", ["cyclic", "zeros"])
def test_careless_padding_enters_the_statistics_of_batch_norm_alone(padding):
    x, _ = asked()
    for norm in NORMS:
        careful, careless = net(norm), net(norm, padding=padding)
        same = torch.allclose(careful.read(x)[1], careless.read(x)[1], rtol=0, atol=1e-9)
        assert same == (norm != "batch")
    remember = [net("batch", padding=padding) for _ in range(2)]
    for one, given in zip(remember, (x, longer(x, 2)), strict=True):
        one(given)
    wide = [one.passage.cells[0].norm_x.running_mean for one in remember]
    assert not torch.equal(*wide)


def test_weights_of_another_vocabulary_are_refused():
    others = AttentiveReader(
        Vocabulary([BLANK, "met", "saw", "and", ".", *NAMES]), H, E, (Identity,) * 2
    )
    with pytest.raises(ValueError, match="another vocabulary"):
        net("none").load_state_dict(others.double().state_dict())


# --- the published code's start and its clip --------------------------------------------------


@torch.no_grad()
def test_reseeding_makes_the_gates_the_same_and_glorot_does_not():
    cells = {start: net(start=start).passage.cells[0] for start in ("published", "paper")}
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


def test_two_seeds_differ_though_every_call_is_reseeded():
    dataset = SMOKE.dataset()
    one, other = (SMOKE.model(seed, dataset).passage.cells[0].W_h for seed in (0, 1))
    assert not torch.equal(one, other)


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
        made = task.model(0, dataset).double()
        x, y = next(task.batches(dataset, dtype=torch.float64).epoch(0))
        loss = F.cross_entropy(made(Asked(*(part[0] for part in x))), y[0])
        loss.backward()
        both[fused] = {"loss": loss} | {n: p.grad for n, p in made.named_parameters()}
        both[fused] |= dict(made.named_buffers())
    for name, expected in both[False].items():
        torch.testing.assert_close(both[True][name], expected, rtol=1e-7, atol=1e-9, msg=name)


def test_gains_are_those_that_are_said():
    dataset = SMOKE.dataset()
    for norm, gain, expected in (("layer", 0.0, 1.0), ("batch", 0.0, 0.1), ("layer", 0.1, 0.1)):
        made = replace(SMOKE, norm=norm, gain=gain).model(0, dataset)
        for cell in (*made.passage.cells, *made.question.cells):
            for part in (cell.norm_h, cell.norm_x, cell.norm_c):
                assert (part.g == expected).all()


# --- batches ---------------------------------------------------------------------------------


def test_entities_are_renamed_alike_in_passage_question_and_answer():
    task = replace(SMOKE, seeds=(0, 1))
    dataset = task.dataset()
    made = task.batches(dataset)
    plain = {}
    for k, q in enumerate(dataset.train):
        x, y = NumberedQuestions([q], dataset.vocabulary).asked([0])
        plain[pattern(x, y, 0, dataset)] = k
    seen = set()
    for x, y in made.epoch(0):
        for seed, row in product(range(2), range(task.batch_size)):
            one = Asked(*(part[seed] for part in x))
            assert pattern(one, y[seed], row, dataset) in plain
            assert int(y[seed, row]) in x.candidates[seed, row]
            seen.add((seed, plain[pattern(one, y[seed], row, dataset)]))
    assert len(seen) > 0.9 * 2 * len(dataset.train)  # some questions are alike but for names
    again = [next(made.epoch(epoch))[0].passage for epoch in (0, 0, 1)]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])
    *_, last = made.epoch(2)
    (resumed,) = made.epoch(2, start=len(made) - 1)
    assert torch.equal(last[0].passage, resumed[0].passage)


def pattern(x, y, row, dataset):
    """A question whose entities are called by the order in which they come."""
    words = [*x.passage[row, : x.lengths[row]], *x.query[row, : x.counts[row]], y[row]]
    names: dict = {}
    return tuple(
        f"e{names.setdefault(int(w), len(names))}" if int(w) in dataset.anonymous else int(w)
        for w in words
    )


def test_renaming_leaves_other_words_alone():
    names = torch.tensor([[2, 0, 1]])
    found = rename(names, range(3, 6), torch.tensor([[0, 3, 4, 5, 6, 2]]))
    assert found.tolist() == [[0, 5, 3, 4, 6, 2]]


# --- what is measured ------------------------------------------------------------------------


def test_the_population_is_of_each_time_step_and_the_last_serves_those_past_it():
    dataset = SMOKE.dataset()
    made = replace(SMOKE, norm="batch everywhere").model(0, dataset)
    numbered = NumberedQuestions(dataset.train, dataset.vocabulary)
    remembered(made, numbered, 16)
    cell = made.passage.cells[0]
    means = cell.norm_x.running_mean
    steps = dataset.longest[0]
    assert means.shape == (steps, 4 * 8)
    x, _ = numbered.asked(range(len(numbered)))
    a = torch.nn.functional.embedding(x.passage[:, 2], made.word) @ cell.W_x.T
    torch.testing.assert_close(means[2], a.mean(0), rtol=1e-4, atol=1e-6)  # float32
    assert not torch.equal(means[2], means[3])
    long = longer(x, 3)._replace(lengths=x.lengths + 3)
    assert made.eval()(long)[:, dataset.anonymous.start :].isfinite().any()


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_what_is_measured_is_what_the_net_answers(norm):
    task = replace(SMOKE, norm=norm)
    dataset = task.dataset()
    made = task.model(0, dataset)
    valid = NumberedQuestions(dataset.valid, dataset.vocabulary)
    parts = {"train": NumberedQuestions(dataset.train, dataset.vocabulary), "valid": valid}
    found = measured(copy.deepcopy(made), parts, task.batch_size, test=False)
    if norm == "layer":
        assert found["valid_nll"] == found["valid_nll_batch"]
        x, y = valid.asked(range(len(valid)))
        with torch.no_grad():
            logits = made.eval()(x)
        assert found["valid_error"] == float((logits.argmax(1) != y).double().mean())
        assert found["valid_nll"] == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-4)
    else:
        assert found["valid_nll"] != found["valid_nll_batch"]
        by_batch = answered(made, valid, task.batch_size, Mode.BATCH)
        assert by_batch.named("valid", "_batch")["valid_nll_batch"] == found["valid_nll_batch"]
        assert all(part.mode is None for part in made.modules() if isinstance(part, OverCases))
    for k, question in enumerate(dataset.valid[:4]):
        assert found[f"attention {k}"].shape == (len(question.passage.split()) + 1,)
        assert float(found[f"attention {k}"].sum()) == pytest.approx(1, abs=0.01)  # half
        assert sum(found["candidate_probabilities"][k]) == pytest.approx(1, abs=0.01)


def test_chances_are_those_of_a_question_s_own_candidates():
    found = answered(net(open=True), NumberedQuestions(QUESTIONS, KNOWN), 4)
    assert [len(each) for each in found.chances] == [len(q.candidates) for q in QUESTIONS]


def test_batches_of_questions_are_all_of_like_size():
    found = batches(NumberedQuestions(QUESTIONS * 7, KNOWN), 4)
    assert {len(part) for part in found} == {4, 5}
    assert sorted(place for part in found for place in part) == [*range(21)]
    assert len(batches(NumberedQuestions(QUESTIONS, KNOWN), 8)) == 1


def test_only_the_end_looks_at_the_test():
    dataset = SMOKE.dataset()
    model = torch.nn.Module()
    model.unstack = lambda: [SMOKE.model(0, dataset)]
    for evaluation in Evaluation:
        names = SMOKE.evaluate(model, dataset, evaluation)
        assert any(name.startswith("test") for name in names) == (
            evaluation is Evaluation.FINAL
        )


def test_a_batch_has_two_questions_or_more():
    assert AttentiveReading.budget("smoke", batch_size=2).batch_size == 2
    with pytest.raises(ValueError, match="batch_size is 1"):
        AttentiveReading.budget("smoke", batch_size=1)
