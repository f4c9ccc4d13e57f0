"""Ba et al. (2016), sections 3 and 3.1 and the supplement: what needs no training."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.random import normal
from lnlab.nn import LayerNorm, RNNCell
from lnlab.nn.recurrent import unroll
from lnlab.papers.claims.ba2016_analysis import (
    ANGLE,
    DRIFT,
    PAPER,
    claim,
    reduces,
)
from lnlab.papers.claims.exact import Defect, changed, greatest, readings, unchanged
from lnlab.papers.claims.rule import Kind

H, D, B, T = 24, 7, 8, 50
STEPS = f"random W_hh and W_xh, H = {H}, T = {T}, float64, eps = 0"
GAINS = f"random W_hh and W_xh of ten gains from 1/3 to 3, H = {H}, T = {T}, float64"


Step = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""A step t and h (B, H) before it to its summed inputs, and to h after it."""


def stepped(
    seed: int,
    scale: float = 1.0,
    normalized: bool = True,
    f: Callable[[Tensor], Tensor] = torch.tanh,
    heard: int = T,
) -> Step:
    """A recurrent layer, eq. 4, normalized where that is asked.

    Args:
        scale: of W_hh and W_xh, whose gain is 1 without it.
        heard: steps with inputs; those after it have none.
    """
    W, U = scale * normal(seed, 0, H, H) / H**0.5, scale * normal(seed, 1, H, D) / D**0.5
    x, norm = normal(seed, 2, T, B, D), LayerNorm(H, eps=0.0).double()

    def step(t: int, h: Tensor) -> tuple[Tensor, Tensor]:
        a = h @ W.T + (x[t] @ U.T if t < heard else 0)
        a = norm(a) if normalized else a
        return a, f(a)

    return step


def started() -> Tensor:
    """The first h (B, H), 0."""
    return torch.zeros(B, H, dtype=torch.float64)


@torch.no_grad()
def states(step: Step) -> Tensor:
    """The summed inputs of every step (T, B, H)."""
    h, summed = started(), []
    for t in range(T):
        a, h = step(t, h)
        summed.append(a)
    return torch.stack(summed)


def gain(seed: int) -> float:
    """The gain of the recurrent weights of a draw: ten of them, from 1/3 to 3."""
    return 3.0 ** (seed / 4.5 - 1)


def growth(step: Step) -> float:
    """The factor a step of the root mean square of the summed inputs, in the second half."""
    size = states(step).square().mean((1, 2)).sqrt()
    return float((size[-1] / size[T // 2]) ** (2 / T))


def slope(step: Step, seed: int) -> float:
    """The factor a step of the gradient of the last h by the one in the middle."""
    h = started()
    for t in range(T // 2):
        _, h = step(t, h)
    middle = h.detach().requires_grad_()
    h = middle
    for t in range(T // 2, T):
        _, h = step(t, h)
    dh = normal(seed, 5, B, H)
    (dmiddle,) = torch.autograd.grad(h, middle, dh)
    return float((dmiddle.norm() / dh.norm()) ** (2 / T))


def drift(f: Callable[[Tensor], Tensor], heard: int) -> Defect:
    """The growth of the summed inputs a step, whatever its sign."""
    return lambda seed: abs(growth(stepped(seed, gain(seed), False, f, heard)) - 1)


def follows(seed: int) -> float:
    """The growth of the gradient a step, 0 if it is not of the sign of the summed inputs'.

    f is the identity, and there is no input but the first.
    """
    step = stepped(seed, gain(seed), False, lambda a: a, 1)
    of_sums, of_gradients = growth(step) - 1, slope(step, seed) - 1
    return abs(of_gradients) if of_sums * of_gradients > 0 else 0.0


def rescaled(seed: int) -> float:
    """The change of the states when W_hh and W_xh are both three times as large."""
    return relative_change(states(stepped(seed, 3.0)), states(stepped(seed)))


def off_standard(seed: int) -> float:
    """The distance of the mean from 0, or the mean square from 1, in any case and step."""
    a = states(stepped(seed))
    return greatest([float(a.mean(2).abs().max()), float((a.square().mean(2) - 1).abs().max())])


@torch.no_grad()
def gains_of_steps(seed: int) -> float:
    """The change over the steps of eq. 4 of what a layer multiplies its z by."""
    norm = partial(LayerNorm, eps=0.0)
    cell = RNNCell(D, H, norm, f=lambda a: a).double()
    cell.get_parameter("norm_h.g").copy_(normal(seed, 3, H))
    x = normal(seed, 2, T, B, D)
    h, _ = unroll(cell, x)
    before = torch.cat([cell.start(x)[0].unsqueeze(0), h[:-1]])
    a = before @ cell.W_h.T + x @ cell.W_x.T
    z = (a - a.mean(2, keepdim=True)) / a.std(2, correction=0, keepdim=True)
    z, h = z - z.mean(1, keepdim=True), h - h.mean(1, keepdim=True)
    g = (z * h).sum(1) / z.square().sum(1)  # (T, H), by least squares over a step's cases
    return relative_change(g, g[:1].expand_as(g))


def started_as_printed(seed: int) -> float:
    """The change of the output of eq. 15 with its input, for alpha = 0 and beta = 1."""
    z, other = normal(seed, 0, 2, B, H)
    norm = LayerNorm(H, eps=0.0).double()
    alpha, beta = torch.zeros(H).double(), torch.ones(H).double()
    one, two = (norm(each).detach() * alpha + beta for each in (z, other))
    return relative_change(two, one)


def correlation(seed: int, f) -> float:
    """Mean size of the correlation between units, over cases, of changes of their inputs.

    Changes of a' = V f(W x) when W takes a small random step.
    """
    W, dW = normal(seed, 0, H, D), 0.1 * normal(seed, 1, H, D)
    V, x = normal(seed, 2, H, H), normal(seed, 3, 500, D)
    return mean_correlation((f(x @ (W + dW).T) - f(x @ W.T)) @ V.T)


def mean_correlation(changes: Tensor) -> float:
    """The mean size of the correlation between two units, changes (B, H)."""
    table = torch.corrcoef(changes.T).abs()
    return float((table.sum() - H) / (H * (H - 1)))


def more_than_chance(seed: int) -> float:
    """The correlation of the changes beyond that of independent ones that V mixes alike."""
    V, independent = normal(seed, 2, H, H), normal(seed, 9, 500, H)
    return correlation(seed, torch.relu) - mean_correlation(independent @ V.T)


def more_with_relu(seed: int) -> float:
    """The correlation of rectified units beyond that of tanh units."""
    return correlation(seed, torch.relu) - correlation(seed, torch.tanh)


REDUCES = (
    "fixing the mean and the variance of the summed inputs within each layer reduces the "
    "covariate shift: "
)

CLAIMS = [
    claim(
        "3-correlated", "3",
        "changes in the output of one layer tend to cause highly correlated changes in the "
        "summed inputs to the next layer, especially with ReLU units",
        readings({
            "more than chance (ReLU)": changed(more_than_chance, "excess over chance"),
            "highly: a mean correlation above 1/2 (ReLU)": changed(
                lambda seed: correlation(seed, torch.relu) - 0.5, "excess over 1/2"),
            "more with ReLU than with tanh": changed(more_with_relu, "excess over tanh"),
        }),
        kind=Kind.READING,
        note="the text says not how high is high, and says tend, where all ten draws are asked "
        "for; of random weights and steps, over cases: what training does to it is not "
        "measured. Weights V alone correlate what was independent by some 0.17",
    ),
    claim(
        "3.1-grow", "3.1",
        "in a standard RNN the average magnitude of the summed inputs tends to grow or "
        "shrink at "
        "every time step",
        readings({
            "no inputs after the first step, f the identity": changed(
                drift(lambda a: a, 1), "change of magnitude a step", GAINS),
            "inputs at every step, f the identity": changed(
                drift(lambda a: a, T), "change of magnitude a step", GAINS),
            "inputs at every step, f = tanh": changed(
                drift(torch.tanh, T), "change of magnitude a step", GAINS),
        }),
        kind=Kind.READING,
        note="where inputs go on they keep the magnitude up, and tanh keeps it down",
    ),
    claim(
        "3.1-longer", "3.1",
        "unlike batch norm's, the statistics of layer norm have no problem with a test "
        "sequence "
        "longer than any training sequence",
        unchanged(off_standard, "distance of mean and mean square from 0 and 1", STEPS),
        note="by definition: the statistics of each step are its own, and none is stored",
    ),
    claim(
        "3.1-dynamics", "3.1",
        "a layer normalized recurrent net is invariant to re-scaling all of the summed "
        "inputs to "
        "its layer: W_hh and W_xh alike, over 50 steps",
        unchanged(rescaled, data=STEPS),
        note="a common scale of W_hh and W_xh; of W_hh alone it is not",
    ),
    claim(
        "supplement-initial", "supplement, eq. 15, 22, 28 and 31",
        "alpha, by eq. 15 the gain, starts at zeros and beta, the bias, at ones",
        changed(started_as_printed),
        note="eq. 15 has alpha as the gain and beta as the bias, and so does their code: as "
        "printed, nothing of the input would pass",
    ),
    claim(
        "3.1-gradients", "3.1",
        "the growth leads to exploding or vanishing gradients",
        changed(follows, "growth of the gradient a step, of the sign of the sums'", GAINS),
        note="where summed inputs do grow or shrink: no inputs after the first step, f the "
        "identity. It is not the one reason: with f = tanh and inputs gradients vanish at most "
        "gains though no sum grows, and with layer norm, too (notebook 06)",
    ),
    claim(
        "3.1-gain", "3.1",
        "layer norm has only one set of gain and bias shared over all time steps",
        unchanged(gains_of_steps, "difference of the gains of two steps, relative", STEPS),
        note="by definition, eq. 4; it was to be asked of a training, with a set a step beside "
        "it, which is another statement",
    ),
    *reduces(
        "ba2016-3-covariate-drift", f"{PAPER}, 3",
        f"{REDUCES}{DRIFT.words}, layer against none", DRIFT,
    ),
    *reduces(
        "ba2016-3-covariate-gradients", f"{PAPER}, 3",
        f"{REDUCES}{ANGLE.words}, layer against none", ANGLE,
    ),
]  # fmt: skip
