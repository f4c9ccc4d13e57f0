"""Handwriting: the mixture, the window, lines of different lengths, and what a net writes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import distributions as dist
from torch.nn import functional as F

from lnlab.nn import Identity, LayerNorm
from lnlab.papers import handwriting
from lnlab.papers.handwriting import pen
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.evaluate import score_lines, window_errors, write
from lnlab.papers.handwriting.model import (
    EncodedLines,
    Gaussians,
    HandwritingNet,
    LineBatch,
    make_mixture,
    negative_log_likelihood,
    output_size,
    sample_points,
)
from lnlab.training import Evaluation, stack, train

M, H = 3, 6
ABC = Alphabet("abc ")
SMOKE = handwriting.Experiment.budget("smoke", seeds=(0,))
NORMS = {"none": Identity, "layer": LayerNorm}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pen, "SIZES", {"train": 32, "valid": 6, "test": 6})


def net(norm="layer", **settings):
    torch.manual_seed(3)
    return HandwritingNet(ABC, H, M, 2, NORMS[norm], **settings).double()


def written(B=2, T=7):
    x = torch.randn(B, T, 3, generator=torch.Generator().manual_seed(0))
    return LineBatch(x, torch.tensor([[1, 2, 4, 3], [3, 3, 1, -1]])[:B])


def some_outputs(*shape, scale=1.0):
    random = torch.Generator().manual_seed(1)
    return scale * torch.randn(*shape, output_size(M), generator=random)


# --- sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("peepholes", "weights"), [(False, 3_650_151), (True, 3_653_751)])
def test_the_papers_model_has_about_3_7_million_weights(peepholes, weights):
    paper = handwriting.Experiment.budget("paper")
    made = HandwritingNet(
        Alphabet(ALPHABETS["iam"]), paper.units[0], paper.components, paper.window_components,
        layers=paper.layers, peepholes=peepholes,
    )  # fmt: skip
    assert sum(p.numel() for p in made.parameters()) == weights
    assert output_size(paper.components) == 121


# --- the mixture -----------------------------------------------------------------------------


def by_torch(of: Gaussians, points):
    """The log loss by torch.distributions."""
    sigma, rho = of.log_sigma.exp(), of.r.tanh()
    off = rho * sigma.prod(-1)
    covariance = torch.stack(
        [
            torch.stack([sigma[..., 0] ** 2, off], -1),
            torch.stack([off, sigma[..., 1] ** 2], -1),
        ],
        -1,
    )
    parts = dist.MultivariateNormal(of.mu, covariance)
    whole = dist.MixtureSameFamily(dist.Categorical(logits=of.log_pi), parts)
    pen_up = dist.Bernoulli(logits=of.pen).log_prob(points[..., 2])
    return -whole.log_prob(points[..., :2]) - pen_up


@pytest.mark.parametrize("floor", [0.0, 0.3])
@pytest.mark.parametrize("bias", [0.0, 0.7])
def test_the_log_loss_is_that_of_torch(floor, bias):
    y = some_outputs(4, 5)
    points = torch.randn(4, 5, 3)
    points[..., 2] = (points[..., 2] > 0).double()
    of = make_mixture(y, floor=floor, bias=bias)
    torch.testing.assert_close(negative_log_likelihood(of, points), by_torch(of, points))


@pytest.mark.parametrize(("scale", "floor"), [(30.0, 0.0), (30.0, 0.01), (200.0, 0.0)])
def test_outputs_of_any_size_have_a_finite_loss_and_gradient(scale, floor):
    """In float32, where a density underflows and a correlation rounds to 1."""
    y = some_outputs(50, scale=scale).float().requires_grad_()
    points = torch.randn(50, 3).float().clamp(0, 1)
    loss = negative_log_likelihood(make_mixture(y, floor=floor), points).sum()
    (slope,) = torch.autograd.grad(loss, y)
    assert loss.isfinite()
    assert slope.isfinite().all()


def test_what_is_drawn_has_the_covariance_that_is_said():
    """The covariance itself in place of its Cholesky factor would give its square."""
    mu = torch.tensor([[2.0, -1.0]])
    of = Gaussians(
        torch.tensor(1.0), torch.zeros(1), mu, torch.tensor([[math.log(0.5), math.log(3)]]),
        torch.atanh(torch.tensor([0.8])),
    )  # fmt: skip
    many = Gaussians(*(part.expand(200_000, *part.shape) for part in of))
    points = sample_points(many, torch.Generator().manual_seed(0))
    covariance = torch.cov(points[:, :2].T)
    expected = torch.tensor([[0.25, 0.8 * 1.5], [0.8 * 1.5, 9.0]])
    torch.testing.assert_close(covariance, expected, rtol=0.02, atol=0.0)  # 200,000 draws
    assert points[:, 2].mean() == pytest.approx(1 / (1 + math.exp(-1)), abs=0.005)


# --- the net ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["exp", "softplus"])
@pytest.mark.parametrize("norm", NORMS)
def test_the_net_is_its_formula_point_by_point(norm, form):
    made, batch = net(norm, form=form), written()
    with torch.no_grad():
        made.move.W.mul_(20)  # else the window hardly depends on anything
    y, phi, _ = made.advance(batch.x, batch.text, made.start(2))
    for row, U in enumerate((4, 3)):
        c = torch.eye(len(ABC))[batch.text[row, :U]]
        states = [[torch.zeros(1, H), torch.zeros(1, H)] for _ in made.lstms]
        kappa, w = torch.zeros(2), torch.zeros(len(ABC))
        for t in range(7):
            x, hs = batch.x[row, t], []
            for layer, lstm in enumerate(made.lstms):
                given = torch.cat([x, w, *hs[-1:]])[None]
                states[layer] = lstm.cells[0](given, tuple(states[layer]))
                hs.append(states[layer][0][0])
                if layer:
                    continue
                a, b, k = (made.move.W @ hs[0] + made.move.b_inside).chunk(3)
                if form == "exp":
                    a, b, k = a.exp(), b.exp(), k.exp()
                else:
                    a, b, k = F.softplus(a), F.softplus(b), F.softplus(k) / 25
                    a, b = a.clamp(min=0.01), b.clamp(min=0.01)
                kappa = kappa + k
                places = [(a * torch.exp(-b * (kappa - u) ** 2)).sum() for u in range(1, U + 1)]
                expected = torch.stack(places)
                torch.testing.assert_close(phi[row, t, :U], expected)
                w = expected @ c
            torch.testing.assert_close(y[row, t], made.out(torch.cat(hs)[None])[0])


def test_the_window_starts_at_the_pace_that_it_is_given():
    for form in ("exp", "softplus"):
        made, batch = net("none", pace=0.3, form=form), written(1, 20)
        with torch.no_grad():
            made.move.W.zero_()
        _, _, memory = made.advance(batch.x, batch.text, made.start(1))
        torch.testing.assert_close(memory.kappa, torch.full((1, 2), 20 * 0.3))


@pytest.mark.parametrize("peepholes", [False, True])
def test_point_by_point_is_what_it_is_at_once(peepholes):
    made, batch = net(peepholes=peepholes), written()
    whole, windows, _ = made.advance(batch.x, batch.text, made.start(2))
    memory = made.start(2)
    for t in range(7):
        y, phi, memory = made.advance(batch.x[:, t : t + 1], batch.text, memory)
        torch.testing.assert_close(y[:, 0], whole[:, t])
        torch.testing.assert_close(phi[:, 0], windows[:, t])


def test_peepholes_of_0_are_an_lstm_and_others_are_none():
    plain, peeping, batch = net(), net(peepholes=True), written()
    torch.testing.assert_close(plain(batch), peeping(batch))
    with torch.no_grad():
        for lstm in peeping.lstms:
            lstm.cells[0].peep.fill_(0.5)
    assert (plain(batch) - peeping(batch)).abs().max() > 1e-4


def test_weights_of_another_alphabet_are_refused():
    other = HandwritingNet(Alphabet("abd "), H, M, 2).double()
    with pytest.raises(ValueError, match="another alphabet"):
        net().load_state_dict(other.state_dict())


# --- lines -----------------------------------------------------------------------------------


def test_only_the_first_points_of_a_line_are_read_where_points_says_so():
    dataset = SMOKE.dataset()
    whole, first = EncodedLines(dataset, "train"), EncodedLines(dataset, "train", 40)
    assert first.lengths == [min(T, 40) for T in whole.lengths]
    assert max(whole.lengths) > 40
    (x, y), (x_40, y_40) = whole.batch([0, 1]), first.batch([0, 1])
    assert torch.equal(x_40.x, x.x[:, :40])
    assert torch.equal(y_40[0], y[0][:, :40])
    assert torch.equal(x_40.text, x.text)
    assert len(first.lines[0].places) == len(first.lines[0].offsets)
    task = replace(SMOKE, max_points=40)
    (_, (_, lengths)), *_ = task.batches(dataset).epoch(0)
    assert lengths.max() == 40
    found = task.evaluate(stack([task.model(0, dataset)]), dataset)
    assert found["valid_nll_per_line"][0] / found["valid_nll"][0] <= 40  # points a line


def test_longer_company_changes_no_line():
    """Neither padding of points nor of text enters a line's loss."""
    dataset = SMOKE.dataset()
    lines, made = EncodedLines(dataset, "train"), SMOKE.model(0, dataset)
    order = sorted(range(len(lines)), key=lambda place: lines.lengths[place])
    both, (points, lengths) = lines.batch([order[0], order[-1]])
    alone, (own, _) = lines.batch([order[0]])
    assert both.text.shape[1] >= alone.text.shape[1]
    T = int(lengths[0])
    assert T == len(own[0]) < points.shape[1]
    torch.testing.assert_close(made(both)[0, :T], made(alone)[0], rtol=1e-4, atol=1e-5)
    task = replace(SMOKE, max_output_grad=0.0)
    found = task.loss(made(both)[None], (points[None], lengths[None]))
    each = [task.loss(made(x)[None], (y[None], n[None]))
            for x, (y, n) in (lines.batch([k]) for k in (order[0], order[-1]))]  # fmt: skip
    mean = sum(n * one for n, one in zip(lengths, each, strict=True)) / lengths.sum()
    torch.testing.assert_close(found, mean.to(found), rtol=1e-4, atol=1e-4)


def test_slopes_by_outputs_are_cut_where_the_loss_is_a_sum():
    y = some_outputs(1, 1, 4).requires_grad_()
    points = 1e4 * torch.ones(1, 1, 4, 3)
    points[..., 2] = 0
    slopes = {}
    for most in (0.0, 100.0):
        task = replace(SMOKE, max_output_grad=most)
        out = y * 1.0
        task.loss(out, (points, torch.tensor([[4]]))).sum().backward()
        slopes[most], y.grad = 4 * y.grad, None
    assert slopes[0.0].abs().max() > 1e4
    torch.testing.assert_close(slopes[100.0], slopes[0.0].clamp(-100, 100))


# --- what it says and writes -----------------------------------------------------------------


def test_judged_line_by_line_is_the_loss():
    dataset = SMOKE.dataset()
    lines, made = EncodedLines(dataset, "valid"), SMOKE.model(0, dataset)
    found = score_lines(made, lines, SMOKE.std_floor)
    for place in range(len(lines)):
        x, (y, n) = lines.batch([place])
        one = replace(SMOKE, max_output_grad=0.0).loss(made(x)[None], (y[None], n[None]))
        assert found.nats[place] / found.points[place] == pytest.approx(
            float(one.detach()), abs=1e-4
        )
    assert found.per_point() == pytest.approx(float(found.nats.sum() / found.points.sum()))
    assert found.per_point([1]) == pytest.approx(float(found.nats[1] / found.points[1]))


def test_a_window_on_the_true_character_is_no_error():
    line = SMOKE.dataset().valid[0]
    right = F.one_hot(torch.tensor(line.places[1:]).long(), len(line.text))
    assert not window_errors(right, line).any()
    late = torch.tensor(line.places[1:]).long().add(1).clamp(max=len(line.text) - 1)
    off = window_errors(F.one_hot(late, len(line.text)), line)
    assert set(off.tolist()) == {0, 1}


def test_a_text_is_written_and_again_the_same():
    dataset = SMOKE.dataset()
    made = SMOKE.model(0, dataset)
    ink = write(made, "the fox", dataset.scale, bias=1.0, seed=4)
    assert ink.phi.shape == (len(ink.offsets) - 1, len("the fox"))
    assert set(np.unique(ink.offsets[:, 2])) <= {0.0, 1.0}
    again = write(made, "the fox", dataset.scale, bias=1.0, seed=4)
    np.testing.assert_array_equal(ink.offsets, again.offsets)
    other = write(made, "the fox", dataset.scale, bias=1.0, seed=5)
    assert not np.array_equal(ink.offsets[:5], other.offsets[:5])
    assert len(write(made, "the fox", dataset.scale, most=9).offsets) <= 10


def test_it_ends_where_the_window_has_left_the_text():
    dataset = SMOKE.dataset()
    made = replace(SMOKE, pace=1.0).model(0, dataset)
    with torch.no_grad():
        made.move.W.zero_()
    ink = write(made, "fox", dataset.scale)
    # kappa is t; the fourth place is nearest from t = 4 on, which is the point not written
    assert ink.ended
    assert len(ink.offsets) - 1 == 3
    assert ink.phi.argmax(1).tolist() == [0, 1, 2]


def test_a_line_before_changes_the_hand_and_is_not_written_again():
    dataset = SMOKE.dataset()
    made = SMOKE.model(0, dataset)
    line = dataset.valid[0]
    alone, like = (
        write(made, "fox", dataset.scale, like=prime, most=5) for prime in (None, line)
    )
    assert not np.allclose(alone.offsets[1], like.offsets[1])
    assert like.phi.shape[1] == 3


@pytest.mark.parametrize(
    ("text", "bias", "message"),
    [("the Fox", 0.0, "'F', which this net never learned"), ("", 0.0, "no text"),
     ("fox", -1.0, "bias is -1.0: give 0 or more")],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(text, bias, message):
    dataset = SMOKE.dataset()
    with pytest.raises(ValueError, match=message):
        write(SMOKE.model(0, dataset), text, dataset.scale, bias=bias)


def test_it_measures_validation_on_the_way_and_the_test_at_the_end():
    dataset = SMOKE.dataset()
    model = stack([SMOKE.model(0, dataset)])
    way, end = (
        SMOKE.evaluate(model, dataset, evaluation)
        for evaluation in (Evaluation.FULL, Evaluation.FINAL)
    )
    assert "test_nll" not in way
    assert {"test_nll", "test_nll_unseen", "window_error", "window_hit"} <= end.keys()
    assert way["window 0"][0].shape == (
        dataset.valid[0].steps, len(dataset.valid[0].text),
    )  # fmt: skip


@pytest.mark.slow
def test_layer_norm_learns_to_write(tmp_path, monkeypatch):
    """The log loss falls by more than a nat a point and a half."""
    monkeypatch.setattr(pen, "SIZES", {"train": 200, "valid": 8, "test": 8})
    few = {"units": (24,), "max_points": 120, "updates": 60, "eval_every": 60}
    task = handwriting.Experiment.budget("notebook", **few, seeds=(0,))
    metrics = train(task, "layer", root=tmp_path).metrics()
    assert metrics.valid_nll.iloc[0] - metrics.valid_nll.iloc[-1] > 1.5  # nats a point
