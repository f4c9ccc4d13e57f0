"""DRAW: its windows, its equations, its bound, and four mistakes, each of which is found."""

import json
from dataclasses import replace

import pytest
import torch
from torch import distributions
from torch.distributions import Bernoulli, Normal

from lnlab import data
from lnlab.nn import Identity, LayerNorm
from lnlab.papers import draw
from lnlab.papers.draw import evaluate
from lnlab.papers.draw.experiment import check_drawable
from lnlab.papers.draw.model import DRAW, MISTAKES, filterbank, kl_divergence, make_window
from lnlab.training import Evaluation, find_run, stack, train_steps

SHAPE, H, Z, T, B = (7, 6), 5, 3, 4, 6
SMOKE = draw.Experiment.budget("smoke", seeds=(0,))


def net(mistake="none", norm=LayerNorm, shape=SHAPE, **settings):
    torch.manual_seed(3)
    settings = {"latent_size": Z, "glimpses": T, "read": 2, "write": 3} | settings
    made = DRAW(shape, H, norm=norm, initialisation="modern", mistake=mistake, **settings)
    with torch.no_grad():  # biases and first states that are not 0
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made.double()


def pictures(n=B, shape=SHAPE):
    g = torch.Generator().manual_seed(1)
    return (torch.rand(n, shape[0] * shape[1], generator=g) < 0.3).double()


# --- windows ---------------------------------------------------------------------------------


def windows(middle=4.5, stride=1.5, variance=0.8):
    return (torch.tensor([value], dtype=torch.float64) for value in (middle, stride, variance))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_filters_are_the_formula(count):
    g, delta, variance = windows()
    F = filterbank(g, delta, variance, count, 9)[0]
    for i in range(1, count + 1):
        mu = 4.5 + (i - count / 2 - 0.5) * 1.5
        row = torch.tensor([-((a - mu) ** 2) / (2 * 0.8) for a in range(1, 10)]).exp()
        torch.testing.assert_close(F[i - 1], row / row.sum())


def middle_of(F):
    """Where the filters of F (N, A) stand on the average, in pixels counted from 1."""
    return float((F * torch.arange(1, F.shape[-1] + 1)).sum(-1).mean())


def test_a_filter_outside_the_picture_still_sums_to_1_and_has_a_slope():
    g, delta, variance = windows(middle=400.0, variance=0.01)
    g.requires_grad_()
    F = filterbank(g, delta, variance, 3, 9)
    torch.testing.assert_close(F.sum(-1), torch.ones(1, 3))
    assert torch.autograd.grad(F.square().sum(), g)[0].isfinite().all()


def test_a_window_of_zeros_is_the_whole_picture():
    found = make_window(torch.zeros(1, 5), (7, 9), 5)
    assert [float(each) for each in found] == [5.0, 4.0, 2.0, 1.0, 1.0]
    mu = 5 + (torch.arange(1, 6) - 3) * float(found.stride)
    assert mu.tolist() == [1, 3, 5, 7, 9]  # from edge to edge of the longer side


# --- the net ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7, 6), (6, 6)])
@pytest.mark.parametrize("norm", [Identity, LayerNorm])
def test_a_drawing_is_its_equations_picture_by_picture(norm, shape):
    made, x = net(norm=norm, shape=shape), pictures(shape=shape)
    noise = torch.randn(T, B, Z)
    drawn = made.draw(x, noise)
    height, width = shape
    for b in range(B):
        c = made.first
        (e_h, e_c), (d_h, d_c) = (
            (s[0], s[1]) for s in (made.encoder.first, made.decoder.first)
        )
        for t in range(T):
            lacks = x[b] - torch.sigmoid(c)
            on = make_window(made.reader.W @ d_h + made.reader.b_inside, shape, 2)
            F_X, F_Y = one(on.x, on, 2, width), one(on.y, on, 2, height)
            seen = [F_Y @ p.view(shape) @ F_X.T for p in (x[b], lacks)]
            r = on.intensity * torch.stack(seen).flatten()
            e_h, e_c = step(made.encoder, torch.cat([r, d_h]), e_h, e_c)
            mean, log_sigma = (made.q.W @ e_h + made.q.b_inside).chunk(2)
            z = mean + log_sigma.exp() * noise[t, b]
            d_h, d_c = step(made.decoder, z, d_h, d_c)
            raw = made.writer.W @ d_h + made.writer.b_inside
            on = make_window(raw[:5], shape, 3)
            F_X, F_Y = one(on.x, on, 3, width), one(on.y, on, 3, height)
            c = c + (F_Y.T @ raw[5:].view(3, 3) @ F_X / on.intensity).flatten()
            torch.testing.assert_close(drawn.canvases[t, b], c)
            torch.testing.assert_close(drawn.z[t, b], z)
            torch.testing.assert_close(drawn.write.x[t, b], on.x)


def one(middle, on, count, pixels):
    return filterbank(middle[None], on.stride[None], on.variance[None], count, pixels)[0]


def step(cell, x, h, c):
    """Eq. 29-31 for one case."""
    f, i, o, g = (cell.W_h @ h + cell.W_x @ x + cell.b).chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.norm_c(c[None])[0].tanh(), c


def test_what_is_trained_is_the_nats_of_the_last_canvas_and_the_kl_of_all_glimpses():
    made, x = net(), pictures()
    torch.manual_seed(7)
    canvas, divergence = made(x)
    torch.manual_seed(7)
    drawn = made.draw(x, made.noise(x))
    bernoulli = Bernoulli(logits=drawn.canvases[-1])
    torch.testing.assert_close(canvas, -bernoulli.log_prob(x).sum(-1))
    q = Normal(drawn.mean, drawn.log_sigma.exp())
    prior = Normal(torch.zeros(()), torch.ones(()))
    torch.testing.assert_close(divergence, distributions.kl_divergence(q, prior).sum((0, 2)))


def test_two_seeds_side_by_side_are_the_two_alone():
    task, x = replace(SMOKE, seeds=(0, 1), fused=False), pictures(4, (16, 16)).float()
    dataset = task.dataset()
    models = [task.model(seed, dataset).float() for seed in task.seeds]
    for model in models:  # without noise, which differs
        model.noise = lambda x: x.new_zeros(2, len(x), 3)
    found = stack(models)(torch.stack([x, x]))
    for s, model in enumerate(models):
        for ours, alone in zip(found, model(x), strict=True):
            torch.testing.assert_close(ours[s], alone, rtol=1e-5, atol=1e-5)


def test_a_picture_from_the_prior_is_what_the_decoder_makes_of_z():
    made, x = net(), pictures()
    drawn = made.draw(x, torch.randn(T, B, Z))
    canvases, windows = made.sample(drawn.z)
    torch.testing.assert_close(canvases, drawn.canvases)
    torch.testing.assert_close(windows.stride, drawn.write.stride)


# --- the bound -------------------------------------------------------------------------------


def test_kl_is_0_where_q_is_the_prior_and_else_that_of_torch():
    assert kl_divergence(torch.zeros(4, Z), torch.zeros(4, Z)).tolist() == [0] * 4
    mean, log_sigma = torch.randn(4, Z), torch.randn(4, Z)
    expected = distributions.kl_divergence(Normal(mean, log_sigma.exp()), Normal(0.0, 1.0)).sum(
        -1
    )
    torch.testing.assert_close(kl_divergence(mean, log_sigma), expected)


def test_importance_weights_find_log_p_where_it_can_be_computed():
    """A decoder that does not look at z: p(x) is that of one canvas, whatever q is."""
    made, x = net(), pictures()
    with torch.no_grad():
        made.decoder.W_x.zero_()
    exact = -Bernoulli(logits=made.sample(torch.zeros(T, 1, Z))[0][-1]).log_prob(x).sum(-1)
    torch.testing.assert_close(
        evaluate.importance_estimate(made, x, 5_000), exact, rtol=0, atol=0.3
    )
    few = evaluate.importance_estimate(made, x, 1)
    assert (evaluate.bound(made, x).total > exact).all()
    assert few.mean() > evaluate.importance_estimate(made, x, 200).mean() > exact.mean() - 0.1


def test_a_bound_that_is_too_good_says_so():
    estimate = torch.full((50,), 80.0) + torch.randn(50)
    assert evaluate.bound_warning(estimate + 2 + torch.randn(50), estimate) == ""
    assert evaluate.bound_warning(estimate + torch.randn(50), estimate) == ""
    assert evaluate.bound_warning(estimate[:1] + 50, estimate[:1]) == ""
    said = evaluate.bound_warning(estimate - 1, estimate)
    assert said.startswith(f"{float(estimate.mean()) - 1:.1f} nats is not this net's bound")
    assert f"the estimate is {float(estimate.mean()):.1f} nats" in said


# --- the four mistakes -----------------------------------------------------------------------


def test_the_grid_counted_from_0_stands_a_stride_beside_its_middle():
    found = {}
    for mistake in ("none", "grid"):
        on = make_window(torch.zeros(1, 5), (29, 29), 5)._replace(
            stride=torch.tensor([2.0]), variance=torch.tensor([0.5])
        )
        F_Y, F_X = net(mistake, shape=(29, 29)).filterbanks(on, 5)
        found[mistake] = middle_of(F_X[0]), middle_of(F_Y[0])
        symmetric = torch.allclose(F_X, F_X.flip(1, 2))
        assert symmetric == (mistake == "none")
    assert found["none"] == pytest.approx((15, 15))
    assert found["grid"] == pytest.approx((13, 13))


def test_noise_that_is_shared_is_the_same_in_all_glimpses():
    x = pictures()
    noise = net().noise(x)
    shared = net("noise").noise(x)
    assert noise.shape == shared.shape == (T, B, Z)
    assert len({float(value) for value in noise.flatten()}) == noise.numel()
    assert (shared == shared[0]).all()
    correlation = torch.corrcoef(net().noise(pictures(400)).flatten(1))
    assert (correlation - torch.eye(T)).abs().max() < 0.1


@pytest.mark.parametrize("mistake", ["none", "noise"])
def test_a_net_trained_with_shared_noise_has_a_bound_that_is_too_good(mistake):
    """It learns to read z_2 less z_1, which no noise hides, and pays next to nothing for it."""
    torch.manual_seed(0)
    made = DRAW((2, 2), 16, 2, 2, 2, 2, initialisation="modern", mistake=mistake).double()
    optimizer, x = torch.optim.Adam(made.parameters(), 0.03), pictures(300, (2, 2))
    for _ in range(200):
        optimizer.zero_grad()
        canvas, divergence = made(x[:64])
        (canvas + divergence).mean().backward()
        optimizer.step()
    said = evaluate.bound_warning(
        evaluate.bound(made, x).total, evaluate.importance_estimate(made, x, 20)
    )
    assert ("is not this net's bound" in said) == (mistake == "noise")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_pictures_that_are_not_binary_are_refused_unless_that_is_the_mistake(mistake):
    task = replace(SMOKE, mistake=mistake)
    assert check_drawable(task.dataset(), mistake == "grey").name.startswith("digits-binary")
    if mistake == "grey":
        x = task.dataset().train.x
        assert ((x > 0) & (x < 1)).any()


def test_what_cannot_be_drawn_is_refused_by_name():
    with pytest.raises(ValueError, match=r"digits lacks validation pictures"):
        replace(SMOKE, data="digits", train_size=0).dataset()
    with pytest.raises(ValueError, match=r"grey: picture \d+ of train has a pixel of 0\.\d+"):
        check_drawable(data.load("digits-binary", most=20, grey=True))
    with pytest.raises(ValueError, match="shapes lacks a height and a width alone"):
        check_drawable(data.load("shapes", most=20))
    with pytest.raises(ValueError, match="mnist-binary has no option grey"):
        draw.Experiment(data="mnist-binary=somewhere", mistake="grey").dataset()
    with pytest.raises(ValueError, match="no finite number"):
        evaluate.bound(net(), pictures() * torch.nan)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"glimpses": 0}, "glimpses is 0"),
        ({"read": 0}, "read is 0"),
        ({"write": 7}, "write is 7: images of 7 x 6 pixels have no room for 7 x 7 filters"),
        ({"read": 7}, "read is 7"),
    ],
)
def test_windows_that_do_not_fit_and_no_glimpses_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        net(**changes)
    with pytest.raises(ValueError, match="glimpses is 0"):
        draw.Experiment(glimpses=0)
    task, dataset = replace(SMOKE, read_size=17), SMOKE.dataset()
    with pytest.raises(ValueError, match="read is 17: images of 16 x 16"):
        task.model(0, dataset)


# --- what a run keeps ------------------------------------------------------------------------


def test_a_run_keeps_canvases_windows_and_dreams_beside_its_numbers(tmp_path):
    task = replace(SMOKE, glimpses=3, epochs=4)
    list(train_steps(task, root=tmp_path))
    run = find_run(task, root=tmp_path)
    assert run is not None
    metrics, kept = run.metrics(), run.pictures(0)
    assert sorted(kept) == [4, 8]
    for of in kept.values():
        assert of["canvas"].shape == (3, evaluate.SHOWN, 16, 16)
        assert of["dreams"].shape == (evaluate.SAMPLES, 16, 16)
        assert of["windows"].shape == (2, 4, 3, evaluate.SHOWN)
    assert json.dumps(metrics["valid_bound"].tolist())
    assert metrics["valid_bound"].notna().all()
    assert metrics["test_nll"].notna().sum() == 1


def test_it_is_looked_at_each_time_that_its_training_doubles():
    task = replace(SMOKE, updates=320, drawings=3)
    assert task.eval_points(100) == {40, 80, 160}
    rows = task.evaluate(
        stack([SMOKE.model(0, SMOKE.dataset())]), SMOKE.dataset(), Evaluation.LIGHT
    )
    assert rows.keys() == {"valid_bound", "valid_kl"}
