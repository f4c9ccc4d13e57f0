"""Oracle: batch layer normalization, transcribed from the paper and from what its code does."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from lnlab.nn import CODE, PAPER, BatchLayerNorm, has_finite_sigmas

LETTERS = ["".join(letters) for letters in product("TF", repeat=4)]
configurations = pytest.mark.parametrize("letters", LETTERS)

M, D = 5, 6


def assert_equal(ours, theirs):
    # two orders of summation of numbers below 10: the worst seen is 3e-15
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)


def batches(count, *shape):
    """Unlike each other, so that no batch stands for the average of all."""
    return [(1 + k) * torch.randn(shape) + k for k in range(count)]


def algorithm_1(x, gamma, beta, eps):
    """Eq. 10-17 for x (m, d), eq. 13 with the eps of eq. 11; and its four statistics."""
    m, d = x.shape
    mu_B = x.sum(0) / m
    sigma_B = (((x - mu_B) ** 2).sum(0) / m + eps).sqrt()
    mu_F = x.sum(1) / d
    sigma_F = (((x - mu_F[:, None]) ** 2).sum(1) / d + eps).sqrt()
    statistics = mu_B, sigma_B, mu_F, sigma_F
    return eq_16_17(x, statistics, gamma, beta), statistics


def eq_16_17(x, statistics, gamma, beta):
    """Also eq. 22-25; the eps of the weights is 0.0001 in the paper and in its code."""
    mu_B, sigma_B, mu_F, sigma_F = statistics
    x_F = (x - mu_F[:, None]) / sigma_F[:, None]
    return combined((x - mu_B) / sigma_B, x_F, gamma, beta, len(x))


def algorithm_2(x, seen, letters, gamma, beta, eps):
    """Eq. 18-25 for x (m, d) after training on the batches ``seen``."""
    m, d = x.shape
    of = [algorithm_1(batch, gamma, beta, eps)[1] for batch in seen]
    E_mu_B, E_sigma_B, E_mu_F, E_sigma_F = (
        torch.stack(v).mean(0) for v in zip(*of, strict=True)
    )
    # eq. 20 and 21 keep a case's index, which means nothing in another batch: over all cases
    E_mu_F, E_sigma_F = E_mu_F.mean().expand(m), E_sigma_F.mean().expand(m)
    T = [letter == "T" for letter in letters]
    E_B = E_mu_B if T[0] else x.sum(0) / m
    Std_B = m / (m - 1) * E_sigma_B if T[1] else (((x - E_B) ** 2).sum(0) / m + eps).sqrt()
    E_F = E_mu_F if T[2] else x.sum(1) / d
    about = ((x - E_F[:, None]) ** 2).sum(1) / d
    Std_F = m / (m - 1) * E_sigma_F if T[3] else (about + eps).sqrt()
    return eq_16_17(x, (E_B, Std_B, E_F, Std_F), gamma, beta)


@pytest.mark.parametrize("eps", [1e-4, 0.0])
def test_training_is_algorithm_1(eps, randomize, outcome):
    norm = randomize(BatchLayerNorm(D, eps=eps))
    x = torch.randn(M, D, requires_grad=True)
    y, _ = algorithm_1(x, norm.g, norm.b, eps)
    leaves = {"x": x, "g": norm.g, "b": norm.b}
    expected = outcome(y, **leaves)
    assert_equal(outcome(norm(x), **leaves), expected)
    assert_equal(outcome(norm.eval()(x), **leaves), expected)  # FFFF: the same at inference


@configurations
def test_evaluation_is_algorithm_2(letters, randomize, outcome):
    norm = randomize(BatchLayerNorm(D, population=letters))
    seen = batches(3, M, D)
    for batch in seen:
        norm(batch)
    x = torch.randn(M, D, requires_grad=True)
    leaves = {"x": x, "g": norm.g, "b": norm.b}
    y = algorithm_2(x, seen, letters, norm.g, norm.b, 1e-4)
    for _ in range(2):  # evaluation remembers nothing
        assert_equal(outcome(norm.eval()(x), **leaves), outcome(y, **leaves))


SUMS = "Bmean", "Bvar", "Fmean", "Fvar"


def code_training(x, state, gamma, beta, m):
    """What the published layer does in training, and adds to its sums."""
    batch_var, batch_mean = torch.var_mean(x, dim=0, correction=0, keepdim=True)
    feature_var, feature_mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    for name, new in zip(SUMS, (batch_mean, batch_var, feature_mean, feature_var), strict=True):
        state[name] = state.get(name, 0) + new
    state["count"] = state.get("count", 0) + 1
    x_b = (x - batch_mean) / (batch_var + 0.001).sqrt()
    x_f = (x - feature_mean) / (feature_var + 0.001).sqrt()
    return combined(x_b, x_f, gamma, beta, m)


def combined(x_b, x_f, gamma, beta, m):
    numerator = x_f * (1 / m - 0.0001) + x_b * (1 - (1 / m + 0.0001))
    return gamma * numerator / x_b.shape[-1] ** 0.5 + beta


def code_inference(x, state, letters, gamma, beta, m):
    """What it does in inference, its sums divided at the end of an epoch."""
    bessel = m / (m - 1)
    moving = {k: state[k] * (bessel if k.endswith("var") else 1) / state["count"] for k in SUMS}
    of_batch = {}
    for name, axis in (("B", 0), ("F", -1)):
        var, mean = torch.var_mean(x, dim=axis, correction=0, keepdim=True)
        of_batch |= {f"{name}mean": mean, f"{name}var": var}
    taken = [
        (moving if letter == "T" else of_batch)[name]
        for letter, name in zip(letters, SUMS, strict=True)
    ]
    x_b, x_f = ((x - mu) / (var + 0.001).sqrt() for mu, var in (taken[:2], taken[2:]))
    return combined(x_b, x_f, gamma, beta, m)


@configurations
@pytest.mark.parametrize("shape", [(M, D), (M, 4, D)], ids=["features", "sequence"])
def test_code_is_what_the_code_does(letters, shape, randomize, outcome):
    norm = randomize(BatchLayerNorm(D, m=M, population=letters, variant=CODE))
    state = {}
    for batch in batches(3, *shape):
        assert_equal(norm(batch), code_training(batch, state, norm.g, norm.b, M))
    x = torch.randn(shape, requires_grad=True)
    leaves = {"x": x, "g": norm.g, "b": norm.b}
    y = code_inference(x, state, letters, norm.g, norm.b, M)
    assert_equal(outcome(norm.eval()(x), **leaves), outcome(y, **leaves))


@pytest.mark.parametrize("variant", [PAPER, CODE])
def test_one_case_allows_four_of_sixteen(variant):
    """At m = 1, m/(m-1) is infinite: the code gives NaN or a constant, we say so."""
    norm, x = BatchLayerNorm(D, m=1, variant=variant), torch.randn(1, D)
    norm(x)
    norm.eval()
    for norm.population in LETTERS:
        computable = norm.population in ("TFTF", "TFFF", "FFTF", "FFFF")
        assert has_finite_sigmas(norm.population, 1, variant) == computable
        if computable:
            assert norm(x).isfinite().all()
        else:
            with pytest.raises(ValueError, match=r"m/\(m-1\), which is infinite"):
                norm(x)
    norm.variant = replace(variant, population_sigma_bessel_corrected=False)
    assert norm(x).isfinite().all()


@pytest.mark.parametrize("space", [0, 2])
def test_population_begins_anew_with_each_epoch(space):
    """The code sums over an epoch, and at the next one starts from zero."""
    norm = BatchLayerNorm(D, m=M, variant=CODE, epoch=3, space=space)
    seen = batches(5, M, D, *(2, 2)[:space])
    for batch in seen:
        norm(batch)
    fourth, fifth = (batch.var(0, correction=0, keepdim=True) for batch in seen[3:])
    assert_equal(norm.over_examples.spread, (fourth + fifth) / 2)
    norm(seen[0])
    first = seen[0].mean(1, keepdim=True)
    expected = (first + sum(batch.mean(1, keepdim=True) for batch in seen[3:])) / 3
    assert_equal(norm.over_features.mu, expected)


def test_controls_are_the_copies_alone():
    """ "LN / sqrt(d)", "BN over axis 0", the same over sqrt(d), eq. 16 without sqrt(d)."""
    x = torch.randn(M, D, 3, 2)
    x_B = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-3).sqrt()
    x_F = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-3).sqrt()
    w_B, w_F = 1 - (1 / M + 1e-4), 1 / M - 1e-4
    for copies, expected in (
        ("examples", x_B), ("features", x_F), ("both", w_B * x_B + w_F * x_F),
    ):  # fmt: skip
        for root_d in (False, True):
            norm = BatchLayerNorm(D, variant=CODE, terms=copies, root_d=root_d, space=2)
            divisor = D**0.5 if root_d else 1
            assert_equal(norm(x), expected / divisor)


def test_smaller_last_batch_is_dropped_by_the_code():
    norm = BatchLayerNorm(D, m=M, variant=CODE)
    norm(torch.randn(M - 1, D))
    assert norm.over_examples.batches == 0


def test_a_population_that_was_not_seen_or_has_another_shape_is_refused():
    norm = BatchLayerNorm(D, population="FFTT")
    with pytest.raises(RuntimeError, match="no population statistics yet"):
        norm.eval()(torch.randn(M, 3, D))
    norm.train()(torch.randn(M, 3, D))
    with pytest.raises(ValueError, match=r"\(., 3, 1\) do not fit"):
        norm.eval()(torch.randn(M, 4, D))
