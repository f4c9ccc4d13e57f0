"""DRAW: its windows, its equations, its bound, and four mistakes that can be detected."""

from dataclasses import replace

import pytest
import torch
from torch import distributions
from torch.distributions import Bernoulli, Normal

from lnlab import data
from lnlab.papers.draw import Experiment, evaluate
from lnlab.papers.draw.experiment import check_drawable
from lnlab.papers.draw.model import (
    DRAW,
    MISTAKES,
    filterbank,
    kl_to_standard_normal,
    window_from_linear_outputs,
)

SHAPE, H, Z, T, B = (7, 6), 5, 3, 4, 6
SMOKE = Experiment(preset="smoke", seeds=(0,))


def make_net(mistake="none", norm="layer", shape=SHAPE, H=H, Z=Z, T=T, write=3):
    torch.manual_seed(3)
    sizes = {"units": (H,), "latent_size": Z, "glimpses": T, "write_size": write}
    config = Experiment(norm=norm, mistake=mistake, initialisation="modern", **sizes)
    net = DRAW(config, shape)
    with torch.no_grad():  # biases and initial states other than 0
        for p in net.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return net.double()


def images(count=B, shape=SHAPE):
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(count, shape[0] * shape[1], generator=generator) < 0.3).double()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_filters_are_the_formula(count):
    g, delta, variance = (torch.tensor([v], dtype=torch.float64) for v in (4.5, 1.5, 0.8))
    F = filterbank(g, delta, variance, count, 9)[0]
    for i in range(1, count + 1):
        mu = 4.5 + (i - count / 2 - 0.5) * 1.5
        row = torch.tensor([-((a - mu) ** 2) / (2 * 0.8) for a in range(1, 10)]).exp()
        torch.testing.assert_close(F[i - 1], row / row.sum())


def test_a_filter_outside_the_image_sums_to_1_and_has_a_gradient():
    g = torch.tensor([400.0], dtype=torch.float64, requires_grad=True)
    F = filterbank(g, torch.tensor([1.5]), torch.tensor([0.01]), 3, 9)
    torch.testing.assert_close(F.sum(-1), torch.ones(1, 3))
    assert torch.autograd.grad(F.square().sum(), g)[0].isfinite().all()


def test_a_window_of_zeros_is_the_whole_image():
    window = window_from_linear_outputs(torch.zeros(1, 5), (7, 9), 5)
    assert [float(value) for value in window] == [5.0, 4.0, 2.0, 1.0, 1.0]
    mu = 5 + (torch.arange(1, 6) - 3) * float(window.stride)
    assert mu.tolist() == [1, 3, 5, 7, 9]  # from edge to edge of the longer side


@pytest.mark.parametrize("shape", [(7, 6), (6, 6)])
@pytest.mark.parametrize("norm", ["none", "layer"])
def test_a_drawing_is_its_equations_image_by_image(norm, shape):
    net, x = make_net(norm=norm, shape=shape), images(shape=shape)
    noise = torch.randn(T, B, Z)
    drawing = net.draw(x, noise)
    height, width = shape

    def filters(window, count):
        settings = window.stride[None], window.variance[None], count
        return (
            filterbank(middle[None], *settings, pixels)[0]
            for middle, pixels in ((window.center_x, width), (window.center_y, height))
        )

    def step(cell, x, h, c):  # eq. 29-31
        f, i, o, g = (cell.W_h @ h + cell.W_x @ x + cell.b).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.norm_c(c[None])[0].tanh(), c

    for b in range(B):
        c = net.first
        (e_h, e_c), (d_h, d_c) = ((s[0], s[1]) for s in (net.encoder.first, net.decoder.first))
        for t in range(T):
            window = window_from_linear_outputs(
                net.reader.W @ d_h + net.reader.b_inside, shape, 2
            )
            F_X, F_Y = filters(window, 2)
            error = x[b] - torch.sigmoid(c)
            r = torch.stack([F_Y @ image.view(shape) @ F_X.T for image in (x[b], error)])
            r = window.intensity * r.flatten()
            e_h, e_c = step(net.encoder, torch.cat([r, d_h]), e_h, e_c)
            mean, log_sigma = (net.q.W @ e_h + net.q.b_inside).chunk(2)
            z = mean + log_sigma.exp() * noise[t, b]
            d_h, d_c = step(net.decoder, z, d_h, d_c)
            raw = net.writer.W @ d_h + net.writer.b_inside
            window = window_from_linear_outputs(raw[:5], shape, 3)
            F_X, F_Y = filters(window, 3)
            c = c + (F_Y.T @ raw[5:].view(3, 3) @ F_X / window.intensity).flatten()
            torch.testing.assert_close(drawing.canvases[t, b], c)
            torch.testing.assert_close(drawing.z[t, b], z)
            torch.testing.assert_close(drawing.write_windows.center_x[t, b], window.center_x)
    canvases, windows = net.canvases_and_windows_from_latents(drawing.z)  # the decoder alone
    torch.testing.assert_close(canvases, drawing.canvases)
    torch.testing.assert_close(windows.stride, drawing.write_windows.stride)


def test_the_loss_is_that_of_torch_distributions():
    net, x = make_net(), images()
    torch.manual_seed(7)
    canvas, kl = net(x)
    torch.manual_seed(7)
    drawing = net.draw(x, net.sample_noise(x))
    expected = -Bernoulli(logits=drawing.canvases[-1]).log_prob(x).sum(-1)
    torch.testing.assert_close(canvas, expected)
    q, prior = Normal(drawing.q_mean, drawing.q_log_sigma.exp()), Normal(0.0, 1.0)
    expected = distributions.kl_divergence(q, prior).sum(-1)
    torch.testing.assert_close(kl, expected.sum(0))
    torch.testing.assert_close(
        kl_to_standard_normal(drawing.q_mean, drawing.q_log_sigma), expected
    )


def test_importance_weights_estimate_log_p_where_it_is_known():
    """With a decoder that ignores z, p(x) is that of one canvas, whatever q is."""
    net, x = make_net(), images()
    with torch.no_grad():
        net.decoder.W_x.zero_()
    exact = (
        -Bernoulli(logits=net.canvases_and_windows_from_latents(torch.zeros(T, 1, Z))[0][-1])
        .log_prob(x)
        .sum(-1)
    )
    many, some, one = (evaluate.importance_weighted_nll(net, x, K) for K in (5_000, 200, 1))
    torch.testing.assert_close(many, exact, rtol=0, atol=0.3)
    assert (evaluate.bound_terms(net, x).bound_nats > exact).all()
    assert one.mean() > some.mean() > exact.mean() - 0.1


def test_a_bound_that_is_too_good_is_reported():
    estimate = torch.full((50,), 80.0) + torch.randn(50)
    assert evaluate.bound_too_low_warning(estimate + 2 + torch.randn(50), estimate) == ""
    assert evaluate.bound_too_low_warning(estimate + torch.randn(50), estimate) == ""
    assert evaluate.bound_too_low_warning(estimate[:1] + 50, estimate[:1]) == ""
    warning = evaluate.bound_too_low_warning(estimate - 1, estimate)
    assert warning.startswith(
        f"{float(estimate.mean()) - 1:.1f} nats is not this model's bound"
    )
    assert f"the estimate is {float(estimate.mean()):.1f} nats" in warning


def test_the_grid_counted_from_0_is_a_stride_beside_its_middle():
    for mistake, middle in (("none", 15), ("grid", 13)):
        window = window_from_linear_outputs(torch.zeros(1, 5), (29, 29), 5)._replace(
            stride=torch.tensor([2.0]), variance=torch.tensor([0.5])
        )
        for F in make_net(mistake, shape=(29, 29)).vertical_and_horizontal_filterbanks(
            window, 5
        ):
            assert float((F * torch.arange(1, 30)).sum(-1).mean()) == pytest.approx(middle)
            assert torch.allclose(F, F.flip(1, 2)) == (mistake == "none")


@pytest.mark.parametrize("mistake", ["none", "noise"])
def test_training_with_shared_noise_is_detected(mistake):
    """It learns to read z_2 - z_1, which no noise hides, at almost no cost."""
    torch.manual_seed(0)
    net = make_net(mistake, "none", (2, 2), H=16, Z=2, T=2, write=2)
    optimizer, x = torch.optim.Adam(net.parameters(), 0.03), images(300, (2, 2))
    for _ in range(200):
        optimizer.zero_grad()
        canvas, kl = net(x[:64])
        (canvas + kl).mean().backward()
        optimizer.step()
    bound, estimate = (
        evaluate.bound_terms(net, x).bound_nats,
        evaluate.importance_weighted_nll(net, x, 20),
    )
    warning = evaluate.bound_too_low_warning(bound, estimate)
    assert ("is not this model's bound" in warning) == (mistake == "noise")


def test_only_binary_images_can_be_drawn():
    for mistake in MISTAKES:
        x = replace(SMOKE, mistake=mistake).dataset().train.x
        assert bool(((x > 0) & (x < 1)).any()) == (mistake == "grey")
    with pytest.raises(ValueError, match=r"digits lacks validation pictures"):
        replace(SMOKE, data="digits", train_size=0).dataset()
    with pytest.raises(ValueError, match="has grey pixels, and Bernoullis draw 0 and 1 alone"):
        check_drawable(data.load("digits-binary", max_train=20, grey=True))
    with pytest.raises(ValueError, match="shapes lacks a height and a width alone"):
        check_drawable(data.load("shapes", max_train=20))
