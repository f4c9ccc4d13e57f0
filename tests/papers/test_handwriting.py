"""Handwriting: the mixture, the window, lines of different lengths, and written texts."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import distributions as dist

from lnlab.papers.handwriting import Experiment, pen
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.evaluate import score_lines, write
from lnlab.papers.handwriting.model import (
    ARMS,
    BatchableLines,
    HandwritingNet,
    LineBatch,
    PointMixture,
    make_mixture,
    negative_log_likelihood,
    sample_points,
)

M, H = 3, 6
ABC = Alphabet("abc ")
SMOKE = Experiment(preset="smoke", seeds=(0,))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pen, "SIZES", {"train": 32, "valid": 6, "test": 6})


def make_net(norm="layer", alphabet=ABC, pace=0.05):
    torch.manual_seed(3)
    sizes = {"units": (H,), "components": M, "window_components": 2}
    return HandwritingNet(Experiment(norm=norm, **sizes), alphabet, pace).double()


def make_batch(B=2, T=7):
    x = torch.randn(B, T, 3, generator=torch.Generator().manual_seed(0))
    return LineBatch(x, torch.tensor([[1, 2, 4, 3], [3, 3, 1, -1]])[:B])


def random_outputs(*shape, scale=1.0):
    generator = torch.Generator().manual_seed(1)
    return scale * torch.randn(*shape, 1 + 6 * M, generator=generator)


def test_the_papers_model_has_about_3_7_million_weights():
    net = Experiment(norm="none").make_net(Alphabet(ALPHABETS["iam"]), pace=0.05)
    assert sum(p.numel() for p in net.parameters()) == 3_650_151


@pytest.mark.parametrize("floor", [0.0, 0.3])
@pytest.mark.parametrize("bias", [0.0, 0.7])
def test_the_loss_is_that_of_torch_distributions(floor, bias):
    points = torch.randn(4, 5, 3)
    points[..., 2] = (points[..., 2] > 0).double()
    mixture = make_mixture(random_outputs(4, 5), std_floor=floor, bias=bias)
    sigma, rho = mixture.log_sigma.exp(), mixture.atanh_rho.tanh()
    L = torch.zeros(*sigma.shape, 2)  # the Cholesky factor of the covariance
    L[..., 0, 0] = sigma[..., 0]
    L[..., 1, 0] = rho * sigma[..., 1]
    L[..., 1, 1] = (1 - rho**2).sqrt() * sigma[..., 1]
    normals = dist.MultivariateNormal(mixture.mu, scale_tril=L)
    density = dist.MixtureSameFamily(dist.Categorical(logits=mixture.log_pi), normals)
    lifted = dist.Bernoulli(logits=mixture.pen_lift_logit).log_prob(points[..., 2])
    expected = -density.log_prob(points[..., :2]) - lifted
    torch.testing.assert_close(negative_log_likelihood(mixture, points), expected)


@pytest.mark.parametrize(("scale", "floor"), [(30.0, 0.01), (200.0, 0.0)])
def test_outputs_of_any_size_have_a_finite_loss_and_gradient(scale, floor):
    """In float32, where a density underflows and a correlation rounds to 1."""
    y = random_outputs(50, scale=scale).float().requires_grad_()
    points = torch.randn(50, 3).float().clamp(0, 1)
    loss = negative_log_likelihood(make_mixture(y, std_floor=floor), points).sum()
    assert loss.isfinite()
    assert torch.autograd.grad(loss, y)[0].isfinite().all()


def test_samples_have_the_covariance_of_the_mixture():
    """With the covariance in place of its Cholesky factor, they would have its square."""
    mixture = PointMixture(
        torch.tensor(1.0), torch.zeros(1), torch.tensor([[2.0, -1.0]]),
        torch.tensor([[math.log(0.5), math.log(3)]]), torch.atanh(torch.tensor([0.8])),
    )  # fmt: skip
    many = PointMixture(*(tensor.expand(200_000, *tensor.shape) for tensor in mixture))
    points = sample_points(many, torch.Generator().manual_seed(0))
    expected = torch.tensor([[0.25, 0.8 * 1.5], [0.8 * 1.5, 9.0]])
    torch.testing.assert_close(torch.cov(points[:, :2].T), expected, rtol=0.02, atol=0.0)
    torch.testing.assert_close(points[:, :2].mean(0), mixture.mu[0], rtol=0, atol=0.03)
    assert points[:, 2].mean() == pytest.approx(1 / (1 + math.exp(-1)), abs=0.005)


@pytest.mark.parametrize("norm", ARMS)
def test_the_network_is_its_formula_point_by_point(norm):
    net, batch = make_net(norm), make_batch()
    with torch.no_grad():
        net.move.W.mul_(20)  # or the window hardly depends on anything
    y, phi, _ = net.run_from_state(batch.x, batch.char_ids, net.initial_state(2))
    for row, U in enumerate((4, 3)):
        c = torch.eye(len(ABC))[batch.char_ids[row, :U]]
        states = [[torch.zeros(1, H), torch.zeros(1, H)] for _ in net.lstms]
        kappa, w = torch.zeros(2), torch.zeros(len(ABC))
        for t in range(7):
            x, hs = batch.x[row, t], []
            for layer, lstm in enumerate(net.lstms):
                inputs = torch.cat([x, w, *hs[-1:]])[None]
                states[layer] = lstm.cells[0](inputs, tuple(states[layer]))
                hs.append(states[layer][0][0])
                if layer:
                    continue
                a, b, k = (net.move.W @ hs[0] + net.move.b_inside).exp().chunk(3)
                kappa = kappa + k
                window = [(a * torch.exp(-b * (kappa - u) ** 2)).sum() for u in range(1, U + 1)]
                torch.testing.assert_close(phi[row, t, :U], torch.stack(window))
                w = torch.stack(window) @ c
            torch.testing.assert_close(y[row, t], net.out(torch.cat(hs)[None])[0])


def test_point_by_point_is_the_same_as_at_once():
    net, batch = make_net(), make_batch()
    whole, windows, _ = net.run_from_state(batch.x, batch.char_ids, net.initial_state(2))
    memory = net.initial_state(2)
    for t in range(7):
        y, phi, memory = net.run_from_state(batch.x[:, t : t + 1], batch.char_ids, memory)
        torch.testing.assert_close(y[:, 0], whole[:, t])
        torch.testing.assert_close(phi[:, 0], windows[:, t])


def test_weights_of_another_alphabet_are_refused():
    other = make_net(alphabet=Alphabet("abd "))
    with pytest.raises(ValueError, match="another alphabet"):
        make_net().load_state_dict(other.state_dict())


def test_padding_changes_neither_outputs_nor_losses():
    dataset, task = SMOKE.dataset(), replace(SMOKE, max_output_grad=0.0)
    lines, net = BatchableLines(dataset, "train"), SMOKE.model(0, dataset)
    order = sorted(range(len(lines)), key=lines.num_steps_per_line.__getitem__)
    ends = [order[0], order[-1]]
    both, (points, lengths) = lines.batch(ends)
    T = int(lengths[0])
    alone = net(lines.batch(ends[:1])[0])[0]
    torch.testing.assert_close(net(both)[0, :T], alone, rtol=1e-4, atol=1e-5)
    loss = task.loss(net(both)[None], (points[None], lengths[None]))
    losses = []
    for index in ends:
        x, (y, n) = lines.batch([index])
        losses.append(task.loss(net(x)[None], (y[None], n[None])))
    mean = sum(n * one for n, one in zip(lengths, losses, strict=True)) / lengths.sum()
    torch.testing.assert_close(loss, mean.to(loss), rtol=1e-4, atol=1e-4)
    scores = score_lines(net, lines, SMOKE.std_floor)
    for index, one in zip(ends, losses, strict=True):
        assert scores.nll_per_point([index]) == pytest.approx(float(one.detach()), abs=1e-4)
    assert scores.nll_per_point() == pytest.approx(
        float(scores.nll_per_line.sum() / scores.num_points.sum())
    )


def test_gradients_by_outputs_are_clipped_before_the_mean():
    y = random_outputs(1, 1, 4).requires_grad_()
    points = 1e4 * torch.ones(1, 1, 4, 3)
    points[..., 2] = 0
    grads = {}
    for largest in (0.0, 100.0):
        task = replace(SMOKE, max_output_grad=largest)
        task.loss(y * 1.0, (points, torch.tensor([[4]]))).sum().backward()
        grads[largest], y.grad = 4 * y.grad, None
    assert grads[0.0].abs().max() > 1e4
    torch.testing.assert_close(grads[100.0], grads[0.0].clamp(-100, 100))


def test_a_text_is_written_reproducibly_and_in_the_hand_of_a_line():
    dataset = SMOKE.dataset()
    net = SMOKE.model(0, dataset)
    first, again, other = (
        write(net, "the fox", dataset.scale, bias=1.0, seed=seed) for seed in (4, 4, 5)
    )
    assert first.phi.shape == (len(first.offsets) - 1, len("the fox"))
    assert set(np.unique(first.offsets[:, 2])) <= {0.0, 1.0}
    np.testing.assert_array_equal(first.offsets, again.offsets)
    assert not np.array_equal(first.offsets[:5], other.offsets[:5])
    assert len(write(net, "the fox", dataset.scale, max_points=9).offsets) <= 10
    line = dataset.valid[0]
    plain, primed = (
        write(net, "fox", dataset.scale, primer=p, max_points=5) for p in (None, line)
    )
    assert not np.allclose(plain.offsets[1], primed.offsets[1])
    assert primed.phi.shape[1] == 3


def test_writing_ends_where_the_window_has_left_the_text():
    dataset = SMOKE.dataset()
    net = replace(SMOKE, pace=1.0).model(0, dataset)
    with torch.no_grad():
        net.move.W.zero_()
    line = write(net, "fox", dataset.scale)
    # kappa is t; the position after the text is nearest from t = 4 on
    assert line.reached_end_of_text
    assert line.phi.argmax(1).tolist() == [0, 1, 2]
