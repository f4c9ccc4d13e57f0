"""Batch layer normalization between LSTMs: the net, its dropout, its threshold."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.papers import batch_layer_norm
from lnlab.papers.batch_layer_norm.evaluate import asking, score, scores
from lnlab.papers.batch_layer_norm.experiment import Part
from lnlab.papers.batch_layer_norm.model import ARMS, ReviewReader, mixtures_of

M = 5


def task(norm="batch layer", **settings):
    return batch_layer_norm.ReviewExperiment.budget(
        "smoke", norm=norm, batch_size=M, seeds=(0,), **settings
    )


def reviews(count=4 * M, steps=8):
    x = torch.randint(0, 300, (count, steps), generator=torch.Generator().manual_seed(1))
    return Part(x, torch.arange(count) % 2)


def net(norm="batch layer"):
    made = task(norm)
    model = made.model(0, SimpleNamespace(train=reviews())).double()
    for _ in range(3):
        model.train()(torch.randint(0, 300, (M, 8)))
    return model.eval()


@pytest.mark.parametrize("norm", ARMS)
def test_the_net_has_as_many_parameters_as_the_published_one(norm):
    made = batch_layer_norm.ReviewExperiment(
        norm=norm, data="opinions", batch_size=2, train_size=4
    )
    with torch.device("meta"):
        model = ReviewReader(
            made.vocab_size, made.embedding_size, (128, 64), lambda H: nn.LayerNorm(H)
        )
    assert sum(p.numel() for p in model.parameters()) == 10_620_161


def test_the_net_is_torchs_layer_by_layer():
    model = net("layer")
    x = torch.randint(0, 300, (M, 8))

    def lstm(cell, h):
        """torch has the gates i, f, g, o; the cell f, i, o, g."""
        theirs = nn.LSTM(cell.input_size, cell.hidden_size, batch_first=True).double()
        order = [1, 0, 3, 2]

        def turned(v):
            return torch.cat([v.chunk(4)[k] for k in order])

        with torch.no_grad():
            theirs.weight_ih_l0.copy_(turned(cell.W_x))
            theirs.weight_hh_l0.copy_(turned(cell.W_h))
            theirs.bias_ih_l0.copy_(turned(cell.b))
            theirs.bias_hh_l0.zero_()
        return theirs(h)[0]

    def norm(h, place):
        g, b = model.norms[place].g, model.norms[place].b
        return F.layer_norm(h, h.shape[-1:], g, b, eps=1e-3)

    h = norm(lstm(*model.layers[0].cells, model.word[x]), 0)
    h = norm(lstm(*model.layers[1].cells, h)[:, -1], 1)
    hidden, readout = model.dense
    h = norm((h @ hidden.W.T + hidden.b_inside).tanh(), 2)
    expected = (h @ readout.W.T + readout.b_inside).squeeze(1)
    torch.testing.assert_close(model(x), expected)


def test_forget_gates_start_open_and_weights_as_glorot_has_them():
    model = net("layer")
    fresh = task("layer").model(0, SimpleNamespace(train=reviews()))
    for (cell,) in (layer.cells for layer in fresh.layers):
        b = cell.b.detach().chunk(4)
        assert torch.equal(b[0], torch.ones(cell.hidden_size).float())
        assert not any(part.any() for part in b[1:])
        bound = (6 / (cell.input_size + 4 * cell.hidden_size)) ** 0.5
        assert 0.8 * bound < cell.W_x.abs().max() <= bound
    assert len(model.norms) == 3


def test_dropout_is_drawn_once_for_each_case_and_not_in_evaluation():
    model = net("layer")
    x = torch.randint(0, 300, (200, 8))
    assert torch.equal(model(x), model(x))
    model.train()
    factors = model.kept(torch.zeros(4000))
    assert {*factors.tolist()} == {0.0, 1.25}
    assert factors.mean().item() == pytest.approx(1, abs=0.05)


def test_an_lstm_is_its_cell_step_by_step_with_the_same_units_dropped_at_each():
    model = net("layer").train()
    (layer, _), every = model.layers, torch.Generator().manual_seed(2)
    (cell,) = layer.cells
    x = torch.randn(M, 8, cell.input_size, generator=every).double().requires_grad_()
    weights = [x, cell.W_x, cell.W_h, cell.b]

    torch.manual_seed(3)
    found = model.read(layer, x)
    torch.manual_seed(3)
    h, c = cell.initial_state(x.transpose(0, 1))
    keep_x, keep_h = model.kept(x[:, 0]), model.kept(h)
    assert {*keep_x.flatten().tolist(), *keep_h.flatten().tolist()} == {0.0, 1.25}
    states = []
    for t in range(8):
        h, c = cell(x[:, t] * keep_x, (h * keep_h, c), t)
        states.append(h)
    expected = torch.stack(states, 1)

    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    weighed = torch.randn(expected.shape, generator=every).double()
    gradients = (torch.autograd.grad((y * weighed).sum(), weights) for y in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


def test_what_no_normalizer_has_seen_is_computed_once_for_all_configurations(monkeypatch):
    model, cases = net(), reviews()
    one_by_one = {}
    for letters in ("FFFF", "TTFF", "TTTT"):
        with asking(mixtures_of(model), letters):
            one_by_one[letters] = score(model, cases, M, task().judge)
    read, seen = model.read, []
    monkeypatch.setattr(model, "read", lambda layer, x: seen.append(layer) or read(layer, x))
    assert scores(model, cases, M, task().judge, one_by_one) == one_by_one
    assert seen.count(model.layers[0]) == 1
    assert seen.count(model.layers[1]) == 3
    assert len({found.nll for found in one_by_one.values()}) == 3


@pytest.mark.parametrize("norm", ["batch layer", "batch"])
def test_a_score_is_of_batches_by_themselves(norm):
    model, cases = net(norm), reviews()
    found = score(model, cases, M, task().judge)
    logits = torch.cat([model(x) for x in cases.x.split(M)])
    loss = F.binary_cross_entropy_with_logits(logits, cases.y.double())
    assert found.nll == pytest.approx(loss.item(), rel=1e-12)
    assert found.accuracy == ((logits > 0.5) == (cases.y == 1)).double().mean().item()


def test_the_coded_threshold_is_half_a_logit():
    output, y = torch.tensor([-0.1, 0.2, 0.2, 0.7]), torch.tensor([0, 1, 0, 1])
    assert task().judge(output, y)[1].tolist() == [True, False, True, True]
    assert task(threshold=0.0).judge(output, y)[1].tolist() == [True, True, False, True]


def test_statistics_are_of_each_step_by_itself():
    model = net()
    assert model.norms[0].over_cases.mu.shape == (1, 8, 6)
    assert model.norms[0].over_features.mu.shape == (M, 8, 1)
    assert model.norms[1].over_cases.mu.shape == (1, 4)
