"""The exact statements of the papers, computed in float64 with eps = 0 on ten random draws.

A check is a function of the seed of a draw and of the arguments that an entry gives it:
``check = "table_1(batch)"`` calls ``table_1(seed, "batch")``. It returns one number: the
relative difference of what a statement says to be equal, or the relative change of what it says
to change. The entry names the bound that decides: all ten draws must be at most ``within``, or
at least ``beyond``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import partial
from itertools import product
from math import gamma, inf, sqrt
from typing import Any, Literal

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor
from torch.autograd import grad
from torch.autograd.functional import jacobian
from torch.distributions import Bernoulli, Distribution, Normal
from torch.nn.utils import skip_init

from lnlab.analysis import fisher
from lnlab.analysis.fisher import BERNOULLI, FAMILIES, GAUSSIAN, GLM, Family
from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.normalized_layer import NormalizedLayer, random_layer_inputs, random_shift
from lnlab.analysis.random import normal
from lnlab.nn import (
    CONFIGURATIONS,
    AffineNormalizer,
    BatchLayerNorm,
    BatchNorm,
    Identity,
    LayerNorm,
    RMSNorm,
    RNNCell,
    WeightNorm,
)
from lnlab.nn.recurrent import unroll
from lnlab.nn.table1 import ROWS, TABLE_1, TRANSFORMATIONS
from lnlab.papers.claims.entries import Statement, load_statements, parse_call
from lnlab.papers.claims.judge import AMBIGUOUS, CORRECT, WRONG, FormulaOutcome
from lnlab.papers.transformer.evaluate import (
    nll,
    residual_streams,
    variances_and_gradient_norms,
)
from lnlab.papers.transformer.model import ARMS, Transformer
from lnlab.training.random_state import default_dtype, generator

DRAWS = range(10)
VISIBLE = 0.01
"""The relative change of an output from which on it counts as one."""
H, D, B, T = 12, 7, 8, 50
DELTA = 3.7
ROUNDING = 1e-12
CHECKS: dict[str, Callable[..., float]] = {}


def register_check(function: Callable[..., float]) -> Callable[..., float]:
    """Add a function to the checks that an entry may name."""
    CHECKS[function.__name__] = function
    return function


def run_draws(text: str) -> list[float]:
    """Return the numbers of the ten draws of a check, "name(argument, ...)"."""
    name, arguments = parse_call(text)
    with torch.no_grad():
        return [float(CHECKS[name](seed, *arguments)) for seed in DRAWS]


def print_draws(id: str) -> None:
    """Print what each check of a statement asks, its bound, and the numbers of its draws."""
    (claim,) = (one for one in load_statements() if one.id == id)
    print(claim.says)
    for reading in claim.all_readings:
        values, least = run_draws(reading["check"]), reading.get("beyond")
        ok = min(values) >= least if least is not None else max(values) <= reading["within"]
        bound = f"at most {reading['within']:g}" if least is None else f"at least {least:g}"
        says = "" if reading["says"] == claim.says else f"{reading['says']}: "
        print(f"{says}{reading['check']} is {bound} in every draw: {'yes' if ok else 'no'}")
        print("  drawn:", " ".join(f"{value:.2g}" for value in values))


def check_reading(reading: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether all draws of a check are within its bound, and the worst one in words."""
    values = run_draws(reading["check"])
    worst = float(np.min(values) if "beyond" in reading else np.max(values))
    if "beyond" in reading:
        right = worst >= reading["beyond"]
        size = "at least" if right else "only"
    else:
        right = worst <= reading["within"]
        size = "at most" if right else "up to"
    unit = reading.get("counts_in")
    bound = "at least" if "at least {" in reading.get("finds", "") else size
    amount = f"{100 * worst:.2g} %" if unit is None else f"{worst:.2g} {unit}".rstrip()
    if np.isfinite(worst) and worst and (unit is None or bound in ("at least", "at most")):
        amount = _round_toward_bound(worst, bound, unit)
    if "finds" in reading:
        least = f"{100 * min(values):.2g} %"
        return right, reading["finds"].format(amount, least=least)
    subject, *other = reading["compares"]
    equal = worst < ROUNDING and unit is None
    if other and equal:
        return right, f"{subject} equals {other[0]}, but for rounding"
    if other:
        of = " of the largest value" if unit is None else ""
        return right, f"{subject} differs from {other[0]} by {size} {amount}{of}"
    if unit is not None:
        return right, f"{subject}: {amount}"
    changes = f"changes by {size} {amount} of its largest value"
    return right, f"{subject} {'does not change' if equal else changes}"


def _round_toward_bound(value: float, bound: str, unit: str | None) -> str:
    """Return a number in two digits: "at least" rounds it down, "at most" up."""
    modes = {"at least": ROUND_FLOOR, "at most": ROUND_CEILING}
    exact = Decimal(f"{value if unit is not None else 100 * value:.10g}")
    places = 1 - exact.adjusted()
    if unit is None:
        places = max(places, 0) if value <= 0.1 else 0
    step = Decimal(1).scaleb(-places)
    rounded = exact.quantize(step, modes.get(bound, ROUND_HALF_EVEN))
    return f"{float(rounded):.10g} {'%' if unit is None else unit}".rstrip()


def judge_formula(claim: Statement) -> FormulaOutcome:
    """Check a statement, in each way in which it can be read."""
    checked = [(one["says"], *check_reading(one)) for one in claim.all_readings]
    right = [says for says, holding, _ in checked if holding]
    wrong = [f"{says} ({number})" for says, holding, number in checked if not holding]
    if not wrong:
        return FormulaOutcome(CORRECT, claim.outcome or checked[0][2])
    if right:
        sentences = [f"Right {one}" for one in right] + [f"Wrong {one}" for one in wrong]
        return FormulaOutcome(AMBIGUOUS, ". ".join(sentences))
    text = "; ".join(number for _, _, number in checked)
    return FormulaOutcome(WRONG, f"{text}. Right: {claim.right}" if claim.right else text)


def largest_change(
    zero_changes: Iterable[float], visible_changes: Iterable[float] = ()
) -> float:
    """Return the largest of the changes that must be 0; inf if one that must be seen is not."""
    seen = np.min([inf, *visible_changes]) > VISIBLE
    return float(np.max([*zero_changes])) if seen else inf  # unlike max, keeps a NaN


def standardize(a: Tensor, axis: int) -> Tensor:
    """Return (a - mu)/sigma, with mu and sigma along an axis."""
    return (a - a.mean(axis, keepdim=True)) / a.std(axis, correction=0, keepdim=True)


def nonlinear_part(y: Tensor, x: Tensor) -> float:
    """Return the part of y (N, H) that the best affine map of x (N, D) leaves, relative."""
    design = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    return relative_change(design @ torch.linalg.lstsq(design, y).solution, y)


# --- Ba et al. (2016), sections 1 to 5.1: one layer -----------------------------------------


def random_layer(norm: str, seed: int) -> NormalizedLayer:
    """Return a layer with random weights, inputs, gains and biases, and the normalizer."""
    return NormalizedLayer(ROWS[norm], random_layer_inputs(H, D, B, seed=seed), seed=seed)


def output_change(norm: str, *columns: int, seed: int) -> float:
    """Return the change of a layer's output by transformations, one after the other."""
    one = random_layer(norm, seed)
    given, shift = one.given, random_shift(one.given, seed=seed)
    for column in columns:
        given = TRANSFORMATIONS[column - 1](given, DELTA, shift)
    return relative_change(one.output(given), one.y)


@register_check
def split_batch(seed: int, norm: str, cases_per_part: int) -> float:
    """Compare the output for a batch with those for its parts of so many examples."""
    one = random_layer(norm, seed)
    y = [one.output(replace(one.given, x=x)) for x in one.given.x.split(cases_per_part)]
    return relative_change(torch.cat(y), one.y)


@register_check
def ln_in_evaluation(seed: int) -> float:
    """Check that LN computes in evaluation what it computes in training; BN does not."""
    return largest_change(
        [random_layer("layer", seed).train_eval_gap()],
        [random_layer("batch", seed).train_eval_gap()],
    )


@register_check
def ln_ignores_other_cases(seed: int) -> float:
    """Check that LN of an example is the same beside others and in a batch of one."""
    return largest_change(
        [random_layer("layer", seed).batch_dependence(), split_batch(seed, "layer", 1)]
    )


@register_check
def compare_bn_of_two_single_cases(seed: int) -> float:
    """Compare BN of two batches of one example (eps = 1e-5: without it, 0/0)."""
    given, other = (random_layer_inputs(H, D, 1, seed=s) for s in (seed, seed + 100))
    one = NormalizedLayer(ROWS["batch"], given, eps=1e-5, seed=seed)
    return relative_change(one.output(replace(given, x=other.x)), one.y)


@register_check
def eq_2_and_3(seed: int, layer_norm_equation: int, batch_norm_equation: int) -> float:
    """Check which of eq. 2 (over examples) and 3 (over units) LN and BN standardize by."""
    a, axes = normal(seed, 0, B, H), {2: 0, 3: 1}
    pairs = (LayerNorm, axes[layer_norm_equation]), (BatchNorm, axes[batch_norm_equation])
    return largest_change(
        relative_change(norm(H, eps=0.0).double()(a), standardize(a, axis))
        for norm, axis in pairs
    )


@register_check
def affine_under_wn_and_bn(seed: int) -> float:
    """Check that g/sigma (W x - mu) + b is affine in x under WN and fixed BN, not LN."""

    def remainder(norm: str) -> float:
        one, x = random_layer(norm, seed), normal(seed, 4, 8 * B, D)
        y = [one.output(replace(one.given, x=batch)) for batch in x.split(B)]
        return nonlinear_part(torch.cat(y), x)

    return largest_change(
        [remainder("weight"), remainder("batch, frozen")], [remainder("layer")]
    )


@register_check
def table_1(seed: int, norm: str) -> float:
    """Check a row of Table 1; inf if a cell "No" changes nothing, either."""
    same, different = [], []
    for column, cell in enumerate(TABLE_1[norm], 1):
        (same if cell == "Y" else different).append(output_change(norm, column, seed=seed))
    return largest_change(same, different)


@register_check
def statistics_of_scaled_row(seed: int) -> float:
    """Check that w_1 -> delta w_1 multiplies mu_1 and sigma_1, no other, by delta."""

    def distance(name: str) -> float:
        one = random_layer(name, seed)
        W, x, norm = one.given.W, one.given.x, one.norm.train()
        scale = torch.ones(len(W), 1).double()
        scale[0] = DELTA
        before, after = (norm.stats(x @ V.T, V) for V in (W, scale * W))
        pairs = zip(after, before, strict=True)
        return largest_change(relative_change(a / scale.T, b.expand(len(W))) for a, b in pairs)

    return largest_change([distance("batch"), distance("weight")])


@register_check
def eq_6_and_7(seed: int) -> float:
    """Check h' = h under LN for W' = delta W + 1 gamma^T, and for x' = delta x."""
    return largest_change(
        [output_change("layer", 1, 2, seed=seed), output_change("layer", 6, seed=seed)]
    )


@register_check
def weight_changes_on_ln_inputs(seed: int) -> float:
    """Compare W LN(x) with delta W LN(x) and (W + 1 gamma^T) LN(x)."""
    given, norm = random_layer_inputs(H, D, B, seed=seed), ROWS["layer"].make_norm(D).double()
    plain = NormalizedLayer(ROWS["none"], replace(given, x=norm(given.x)))
    shift = random_shift(given, seed=seed)
    return min(plain.defect(TRANSFORMATIONS[k - 1], DELTA, shift) for k in (1, 2))


@register_check
def invariance(seed: int, column: int, *norms: str) -> float:
    """Check that a transformation (a column of the extended Table 1) changes nothing."""
    return largest_change(output_change(norm, column, seed=seed) for norm in norms)


@register_check
def eq_15(seed: int, alpha: float, beta: float) -> float:
    """Compare LN(z; alpha, beta) with LN of another z, alpha and beta as they start."""
    z, other = standardize(normal(seed, 0, 2, B, H), 2)
    return relative_change(other * alpha + beta, z * alpha + beta)


# --- Ba et al. (2016), sections 3 and 3.1: recurrent networks -------------------------------

UNITS = 24
Step = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""A step t and h (B, UNITS) before it to its summed inputs and to h after it."""
FUNCTIONS = {"identity": lambda a: a, "tanh": torch.tanh, "relu": torch.relu}


def make_recurrent_step(
    seed: int, scale: float, f: str = "tanh", inputs: int = T, normalized: bool = True
) -> Step:
    """Return a step of h = f(a), a = W_hh h + W_xh x; normalized, it is eq. 4.

    ``scale`` multiplies both matrices; the first ``inputs`` steps have an input.
    """
    W = scale * normal(seed, 0, UNITS, UNITS) / UNITS**0.5
    U = scale * normal(seed, 1, UNITS, D) / D**0.5
    x, norm = normal(seed, 2, T, B, D), LayerNorm(UNITS, eps=0.0).double()

    def step(t: int, h: Tensor) -> tuple[Tensor, Tensor]:
        a = h @ W.T + (x[t] @ U.T if t < inputs else 0)
        a = norm(a) if normalized else a
        return a, FUNCTIONS[f](a)

    return step


def summed_inputs_over_time(step: Step) -> Tensor:
    """Return the summed inputs of every step (T, B, UNITS), from h = 0."""
    h, sums = torch.zeros(B, UNITS).double(), []
    for t in range(T):
        a, h = step(t, h)
        sums.append(a)
    return torch.stack(sums)


@register_check
def recurrent_scale(seed: int) -> float:
    """Check that 3 W_hh and 3 W_xh give the states of W_hh and W_xh under LN."""
    return relative_change(
        *(summed_inputs_over_time(make_recurrent_step(seed, scale)) for scale in (3.0, 1.0))
    )


@register_check
def states_are_standardized_sums(seed: int) -> float:
    """Compare each state under LN, f = 1, with one gain times its own standardized sums."""
    cell = RNNCell(D, UNITS, partial(LayerNorm, eps=0.0), nonlinearity=lambda a: a).double()
    g, x = normal(seed, 3, UNITS), normal(seed, 2, T, B, D)
    cell.get_parameter("norm_h.g").copy_(g)
    h, _ = unroll(cell, x)
    before = torch.cat([cell.initial_state(x)[0].unsqueeze(0), h[:-1]])
    return relative_change(h, g * standardize(before @ cell.W_h.T + x @ cell.W_x.T, 2))


@register_check
def recurrent_growth(seed: int, f: Literal["identity", "tanh"], inputs: int) -> float:
    """Return the growth per step common to sums and gradients; 0 if they disagree.

    Without normalization, in the second half of 50 steps; the ten draws have recurrent gains
    from 1/3 to 3.
    """
    step = make_recurrent_step(seed, 3.0 ** (seed / 4.5 - 1), f, inputs, normalized=False)
    size = summed_inputs_over_time(step).square().mean((1, 2)).sqrt()
    sums = (size[-1] / size[T // 2]) ** (2 / T) - 1
    h = torch.zeros(B, UNITS).double()
    for t in range(T // 2):
        _, h = step(t, h)
    with torch.enable_grad():
        middle = h = h.requires_grad_()
        for t in range(T // 2, T):
            _, h = step(t, h)
    dh = normal(seed, 5, B, UNITS)
    gradients = (grad(h, middle, dh)[0].norm() / dh.norm()) ** (2 / T) - 1
    return float(torch.minimum(sums.abs(), gradients.abs())) if sums * gradients > 0 else 0.0


@register_check
def relu_change_correlation(seed: int, over: Literal["", "chance", "tanh"] = "") -> float:
    """Return the correlation of the changes behind a ReLU layer, over something.

    The mean size of the correlation of two units' V f(W x), over "chance" (independent changes
    that V mixes alike), over "tanh" units, or over nothing.
    """
    W, dW = normal(seed, 0, UNITS, D), 0.1 * normal(seed, 1, UNITS, D)
    V, x = normal(seed, 2, UNITS, UNITS), normal(seed, 3, 500, D)

    def mean(changes: Tensor) -> float:
        table = torch.corrcoef((changes @ V.T).T).abs()
        return float((table.sum() - UNITS) / (UNITS * (UNITS - 1)))

    def behind(f: Callable[[Tensor], Tensor]) -> float:
        return mean(f(x @ (W + dW).T) - f(x @ W.T))

    known = behind(FUNCTIONS["relu"])
    if over == "chance":
        return known - mean(normal(seed, 9, 500, UNITS))
    return known - behind(FUNCTIONS[over]) if over else known


# --- Ba et al. (2016), section 5.2 and the supplement: the geometry of learning --------------

GLM_H, GLM_D, GLM_B = 6, 5, 16
SPREAD = replace(GAUSSIAN, phi=0.7)  # shows a phi that is forgotten
INDEPENDENT = (GAUSSIAN, SPREAD, BERNOULLI)
ALL = (*FAMILIES.values(), SPREAD)
NORMS = {"none": Identity, "batch": BatchNorm, "layer": LayerNorm, "weight": WeightNorm}


def worst_glm_difference(
    printed: Callable[[GLM], Tensor],
    true: Callable[[GLM], Tensor],
    norms: Iterable[str],
    families: Iterable[Family],
    seed: int,
) -> float:
    """Return the largest difference of two quantities over models with these norms."""

    def difference(norm: str, family: Family) -> float:
        g = None if norm == "none" else 1 + normal(seed, 3, GLM_H).abs()
        W, x = normal(seed, 0, GLM_H, GLM_D), normal(seed, 1, GLM_B, GLM_D)
        model = GLM(W, x, NORMS[norm], family, normal(seed, 2, GLM_H), g)
        return relative_change(printed(model), true(model))

    return largest_change(difference(*pair) for pair in product(norms, families))


@register_check
def eq_8(seed: int) -> float:
    """Check KL[P(theta) || P(theta + delta)] = delta^T F delta/2, for steps of 0.001."""

    def delta(model: GLM) -> Tensor:
        return 1e-3 * normal(0, 9, *model.theta.shape)

    def predicted(model: GLM) -> Tensor:
        return torch.tensor(fisher.ds2(fisher.metric(model), delta(model)))

    def happened(model: GLM) -> Tensor:
        return torch.tensor(fisher.divergence(model, delta(model)))

    return worst_glm_difference(happened, predicted, NORMS, ALL, seed)


@register_check
def eq_10(seed: int, term: Literal["c", "eta"]) -> float:
    """Check that c (0) or eta is log sum_y exp((a + b) y), of Bernoulli outputs."""
    h = normal(seed, 4, GLM_B, 1)
    value = 0 * h if term == "c" else BERNOULLI.eta(h).unsqueeze(1)
    return float((value - torch.logaddexp(h, 0 * h)).abs().max())


@register_check
def eq_11(seed: int) -> float:
    """Check E[y] = f(a + b) and Var[y] = phi f'(a + b), f = eta', of two families."""
    h, phi = normal(seed, 4, GLM_B), SPREAD.phi
    known = (BERNOULLI, Bernoulli(logits=h)), (SPREAD, Normal(h, phi**0.5))

    def distance(family: Family, known: Distribution) -> float:
        slope = jacobian(lambda v: family.mean(v).sum(), h)
        mean, variance = family.mean(h), family.phi * slope
        return largest_change(
            [relative_change(mean, known.mean), relative_change(variance, known.variance)]
        )

    return largest_change(distance(*pair) for pair in known)


@register_check
def eq_12_and_13(seed: int, *norms: str) -> float:
    """Check that F is eq. 12, or under a norm eq. 13 with the chi of eq. 14."""

    families = ALL if norms == ("none",) else INDEPENDENT
    return worst_glm_difference(fisher.paper_metric, fisher.metric, norms, families, seed)


@register_check
def curvature_at_doubled_weights(
    seed: int, what: Literal["curvature", "turn"], factor: float
) -> float:
    """Check that F_ww, or the turn by a step, at 2 W is ``factor`` of that at W."""
    toward = normal(seed, 5, B * H)

    def distance(name: str) -> float:
        one = random_layer(name, seed)
        norm, W, x = one.norm.train(), one.given.W, one.given.x
        J, J_2 = (
            jacobian(lambda V: norm(x @ V.T, V).flatten(), V, vectorize=True).flatten(1)
            for V in (W, 2 * W)
        )
        if what == "curvature":
            return relative_change(J_2.T @ J_2, factor * J.T @ J)
        return relative_change(toward @ J_2 / 2, factor * toward @ J)  # of 2 W

    return largest_change(map(distance, TABLE_1))


@register_check
def eq_32(seed: int, norm: str, families: Literal["all", "Gaussian"]) -> float:
    """Check F = E[Cov[y | x]]/phi^2 along the gains."""

    chosen = {"all": ALL, "Gaussian": (GAUSSIAN, SPREAD)}[families]
    return worst_glm_difference(
        fisher.gain_metric_eq_32, fisher.gain_metric, [norm], chosen, seed
    )


@register_check
def eq_33_and_34(seed: int) -> float:
    """Check F_ij = E[Cov(y_i, y_j) z_i z_j]/phi^2 along the gains (LN, WN)."""

    def along_gains(model: GLM) -> Tensor:
        return fisher.metric(model)[:, GLM_D + 1, :, GLM_D + 1]

    return worst_glm_difference(fisher.gain_metric, along_gains, ["layer", "weight"], ALL, seed)


@register_check
def eq_35(seed: int, left: Literal["printed", "element"]) -> float:
    """Check that the right side of eq. 35 is the left one, for unit steps of two units.

    That "printed", which has w_j/||w_i|| in its first factor, or "element" (i, j) of F along
    w_i/||w_i|| and w_j/||w_j||.
    """

    def elements(model: GLM) -> Tensor:
        w = model.W / model.W.norm(dim=1, keepdim=True)
        return torch.einsum("ik,ikjl,jl->ij", w, fisher.metric(model)[:, :GLM_D, :, :GLM_D], w)

    def printed(model: GLM) -> Tensor:
        F, lengths = elements(model), model.W.norm(dim=1)
        r = lengths[1] / lengths[0]
        return F[0, 0] + F[0, 1] + r * (F[1, 0] + F[1, 1])

    if left == "element":
        return worst_glm_difference(fisher.gain_metric, elements, ["none"], ALL, seed)
    return worst_glm_difference(
        lambda glm: fisher.gain_metric(glm)[0, 1], printed, ["none"], ALL, seed
    )


@register_check
def gain_metric_at_tenfold_scale(
    seed: int, what: Literal["x", "W"], factor: float, *names: str
) -> float:
    """Check that F along the gains, or lengths, is ``factor`` F for 10 x, or 10 W.

    The names are those of norms, and "Gaussian" for Gaussian outputs alone.
    """

    def after(model: GLM) -> Tensor:
        changed = replace(model, **{what: 10 * getattr(model, what)})
        return fisher.gain_metric(changed) / factor

    gaussian = factor != 1 or GAUSSIAN.name in names
    norms = [name for name in names if name != GAUSSIAN.name]
    return worst_glm_difference(
        after, fisher.gain_metric, norms, [GAUSSIAN] if gaussian else ALL, seed
    )


@register_check
def handwriting_weight_count_error(seed: int) -> float:
    """Return the number of weights in 6.5 less 3.7, in millions.

    The pen (3) and the window (57) reach each of three LSTM layers of 400, a layer those above
    it; all layers reach the 121 outputs, the first one the 30 parameters of the window.
    """
    lstm = sum(4 * 400 * (below + 3 + 57 + 400 + 1) for below in (0, 400, 400))
    return abs((lstm + (400 * 30 + 30) + (3 * 400 * 121 + 121)) / 1e6 - 3.7)


# --- Ben Othman (2018) ------------------------------------------------------------------------

TABLES = {
    "TIMIT": {"none": (0.268, 15947), "encoder": (0.245, 9976)},
    "LibriSpeech": {"none": (0.426, 96785), "encoder": (0.401, 64354)},
}
"""Tables 1 and 2: error rate and steps to converge."""
SENTENCES = 462 * 10
"""Training sentences of TIMIT, all ten of each speaker (Garofolo et al., 1993)."""


@register_check
def othman_eq_6(seed: int, version: Literal["printed", "right"]) -> float:
    """Check eq. 6, as "printed" or without c_(t-1), by torch's LSTM."""
    cell = skip_init(torch.nn.LSTMCell, 1, H, dtype=torch.float64)
    for parameter in cell.parameters():
        parameter.zero_()
    cell.bias_ih.copy_(normal(seed, 0, 4 * H))  # the summed inputs of the gates i, f, g, o
    zero, before = torch.zeros(1, H).double(), normal(seed, 1, 1, H)
    h, c = cell(zero[:, :1], (zero, before))
    factor = before if version == "printed" else 1.0
    return relative_change(cell.bias_ih[3 * H :].sigmoid() * factor * c.tanh(), h)


@register_check
def moments_with_gain_and_bias(
    seed: int, mean: Literal[0, "b"], deviation: Literal[1, "g"]
) -> float:
    """Check the mean and deviation over examples of g z + b, z standardized."""
    g, b, z = 1 + normal(seed, 0, H).abs(), normal(seed, 1, H), normal(seed, 2, B, H)
    y = g * standardize(z, 0) + b
    printed = {0: 0.0, 1: 1.0, "b": b, "g": g}
    differences = y.mean(0) - printed[mean], y.std(0, correction=0) - printed[deviation]
    return largest_change(float(difference.abs().max()) for difference in differences)


@register_check
def steps_over_othman_eq_10(seed: int, steps: Literal["training", "epoch"]) -> float:
    """Return the steps of a "training" (Table 1) or an "epoch" over those of eq. 10.

    Of a training the least possible, for batches of one sentence.
    """
    if steps == "training":
        return min(steps for _, steps in TABLES["TIMIT"].values()) / SENTENCES
    m = seed + 1
    return len(torch.arange(50 * m).split(m)) / 50


@register_check
def error_reduction(seed: int, unit: Literal["points", "rounded", "relative"]) -> float:
    """Return the larger reduction of the error rate in Tables 1 and 2, in a unit.

    "points", "rounded" (whole points, 2.5 being 2 or 3), or "relative" (per cent of the error).
    """
    errors = [(t["none"][0], t["encoder"][0]) for t in TABLES.values()]
    points = [round(100 * (a - b), 6) for a, b in errors]
    if unit == "relative":
        return max(p / a for p, (a, _) in zip(points, errors, strict=True))
    return max(map(round, points) if unit == "rounded" else points)


# --- Ziaee & Çano (2022) ----------------------------------------------------------------------

M, EPS = 25, BatchLayerNorm.eps_weights


@register_check
def eq_16(seed: int, what: Literal["range", "order"]) -> float:
    """Return how far the weights, m from 1 to 50, are from the stated "range" or "order"."""
    weights = np.array([BatchLayerNorm(H, m).term_weights(m) for m in range(1, 51)])
    if what == "range":
        return float(np.max([EPS - weights, weights - (1 - EPS)]).clip(0))
    batch, features = np.diff(weights, axis=0).T
    return float(np.max([-batch, features]).clip(0))


@register_check
def compare_bln_of_one_case_with_ln(seed: int, factor: Literal["plain", "scaled"]) -> float:
    """Compare BLN(a), m = 1, with LN(a) ("plain") or (1 - eps)/sqrt(d) LN(a) ("scaled")."""
    a, scale = normal(seed, 0, 1, H), 1.0 if factor == "plain" else (1 - EPS) / H**0.5
    y, ln = (n.double()(a) for n in (BatchLayerNorm(H, 1, eps=0.0), LayerNorm(H, eps=0.0)))
    return relative_change(y, scale * ln)


@register_check
def compare_bln_modes(seed: int, configuration: str) -> float:
    """Compare BLN in evaluation with BLN in training, after 100 batches of 25."""
    norm = BatchLayerNorm(H, M, population=configuration).double()
    for batch in range(100):
        a = normal(seed, batch, M, H)
        trained = norm.train()(a)
    return relative_change(norm.eval()(a), trained)


@register_check
def batch_norm_output_moments(seed: int, what: Literal["unit", "shape"]) -> float:
    """Check mean 0, variance 1 of BN ("unit"), or compare its "shape" with that of a."""

    def shape(a: Tensor) -> Tensor:
        z = standardize(a, 0)
        return torch.cat([z.pow(3).mean(0), z.pow(4).mean(0)])

    a = normal(seed, 1, 400, 7).exp() @ normal(seed, 0, H, 7).T
    z = BatchNorm(H, eps=0.0).double()(a)
    if what == "shape":
        return relative_change(shape(z), shape(a))
    return largest_change(
        [float(z.mean(0).abs().max()), float((z.var(0, correction=0) - 1).abs().max())]
    )


@register_check
def bn_of_outlier(seed: int, effect: Literal["bound", "others"]) -> float:
    """Check BN with one example a million times as large: a bound, or the other y."""
    norm, x = BatchNorm(H, eps=0.0).double(), normal(seed, 0, M, H)
    before, after = norm(x), norm(torch.cat([1e6 * x[:1], x[1:]]))
    if effect == "bound":
        return max(float(after.abs().max()) / (M - 1) ** 0.5 - 1, 0.0)
    return relative_change(after[1:], before[1:])


@register_check
def ziaee_eq_5(seed: int) -> float:
    """Check Var[x] = m/(m - 1) E[sigma_B^2], over all batches of 2 to 5 out of four."""
    population = normal(seed, 0, 4)

    def distance(m: int) -> float:
        batches = population[torch.tensor(list(product(range(4), repeat=m)))]
        estimate = m / (m - 1) * batches.var(1, correction=0).mean()
        return float((estimate / population.var(correction=0) - 1).abs())

    return largest_change(map(distance, range(2, 6)))


@register_check
def ziaee_eq_19_and_21(seed: int, numbers: Literal["m", "d"]) -> float:
    """Check Std = m/(m - 1) E[sigma] of "m" normal numbers (eq. 19), or d = 12 (eq. 21).

    The worst m from 2 to 50; E[sigma] of n numbers is sqrt(2/n) Gamma(n/2)/Gamma((n - 1)/2).
    """

    def distance(m: int) -> float:
        n = m if numbers == "m" else H
        return abs(m / (m - 1) * sqrt(2 / n) * gamma(n / 2) / gamma((n - 1) / 2) - 1)

    return max(map(distance, range(2, 51)))


@register_check
def bln_nonlinearity(seed: int, configurations: Literal["linear", "others"]) -> float:
    """Compare BLN in evaluation with an affine map: TTTT and TTFT, or the others."""

    def remainder(letters: str) -> float:
        norm = BatchLayerNorm(H, M, eps=0.0, population=letters).double()
        for batch in range(20):
            norm(normal(seed, batch, M, H))
        x = normal(seed, 99, 4 * M, H)
        return nonlinear_part(torch.cat([norm.eval()(batch) for batch in x.split(M)]), x)

    linear = ("TTTT", "TTFT")  # only the mean of the case is its own, and that is linear in it
    if configurations == "linear":
        return largest_change(map(remainder, linear))
    return float(np.min([remainder(c) for c in CONFIGURATIONS if c not in linear]))


@register_check
def bln_depends_on_others(seed: int, m: int) -> float:
    """Compare BLN of an example, in training, among two sets of others."""
    norm = BatchLayerNorm(H, m, eps=0.0).double()
    one, other = normal(seed, 0, m, H), normal(seed, 1, m, H)
    return relative_change(norm(torch.cat([one[:1], other[1:]]))[:1], norm(one)[:1])


BEST = {"1A": "TTFF", "1B": "FTFF", "2A": "FFTF", "2B": "FTFF"}
"""First rows of Tables 1 (pictures) and 2 (reviews), by 20 % (A) and all (B) of the data."""


@register_check
def count_wrong_configuration_cells(seed: int, *cells: str) -> float:
    """Count the cells of the first rows with another value than in "1A:E_B=T"."""
    columns = {"E_B": 0, "Std_B": 1, "E_F": 2, "Std_F": 3}
    wrong = 0
    for cell in cells:
        table, column = cell.partition("=")[0].split(":")
        wrong += BEST[table][columns[column]] != cell[-1]
    return float(wrong)


# --- Brody et al. (2023) ----------------------------------------------------------------------


@register_check
def ln_as_projection(seed: int) -> float:
    """Check LN(x) = sqrt(d) P x/||P x||, P projecting (1, ..., 1) away."""
    x = normal(seed, 0, 16, 8)
    ones = torch.ones_like(x) / 8**0.5
    apart = x - (x * ones).sum(-1, keepdim=True) * ones
    expected = apart / apart.norm(dim=-1, keepdim=True) * 8**0.5
    return relative_change(expected, LayerNorm(8, eps=0.0, elementwise_affine=False)(x))


def count_unselectable_keys(keys: np.ndarray) -> int:
    """Return the number of keys (n, d) that no query gives the highest score."""
    count = 0
    for i, key in enumerate(keys):
        above = np.delete(keys, i, 0) - key  # q (k_j - k_i) + t <= 0, t as large as can be
        rows = np.hstack([above, np.ones((len(above), 1))])
        limits = [(-100, 100)] * keys.shape[1] + [(None, 1)]
        found = linprog(
            [*np.zeros(keys.shape[1]), -1.0], rows, np.zeros(len(rows)), bounds=limits
        )
        count += found.x[-1] < 1e-7
    return count


@register_check
def unselectable_key_share(seed: int) -> float:
    """Return the share of 24 normal keys in 4 dimensions that no query selects, behind LN."""
    keys = LayerNorm(4, eps=0.0, elementwise_affine=False)(normal(seed, 0, 24, 4))
    return count_unselectable_keys(keys.numpy()) / len(keys)


# --- Papers on transformers since 2024 --------------------------------------------------------

LAYERS, WIDTH = 32, 64
"""Sizes of the transformers whose stream and gradients are followed over depth."""


def untrained_transformer(
    seed: int, arm: str, layers: int = LAYERS, *, scaled: bool = False
) -> tuple[Transformer, Tensor, Tensor]:
    """Return a transformer before training, characters and the next ones (4, 16)."""
    with default_dtype(torch.float64):
        net = Transformer(27, 16, layers, WIDTH, 4, ARMS[arm])
    net.initialize_(lambda name: generator(f"{name} of seed {seed}"), scaled=scaled)
    for norm in net.modules():
        if isinstance(norm, AffineNormalizer):
            norm.eps = 0.0
    x, y = torch.randint(27, (2, 4, 16), generator=generator(f"characters {seed}"))
    return net, x, y


def last_stream_variance(seed: int, arm: str, *, scaled: bool = False) -> float:
    """Return the variance of the residual stream behind the last layer."""
    net, x, _ = untrained_transformer(seed, arm, scaled=scaled)
    return float(residual_streams(net, x)[-1].var(1, correction=0).mean())


@register_check
def peri_variance_growth(seed: int) -> float:
    """Compare the growth of the variance of Peri-LN over all layers with 2 a layer."""
    return abs((last_stream_variance(seed, "sandwich") - 1) / (2 * LAYERS) - 1)


@register_check
def lns_variance_reduction(seed: int) -> float:
    """Return by what part LayerNorm scaling makes the variance of pre-LN smaller."""
    return 1 - last_stream_variance(seed, "lns") / last_stream_variance(seed, "pre")


@register_check
def lns_effect_of_scaled_initialization(seed: int) -> float:
    """Compare the logarithms of that effect with scaled and with equal initialization."""
    effects = [
        np.log(
            last_stream_variance(seed, "pre", scaled=s)
            / last_stream_variance(seed, "lns", scaled=s)
        )
        for s in (True, False)
    ]
    return float(effects[0] / effects[1])


@register_check
def gradient_over_depth(seed: int, arm: str, over: Literal["first", "last"]) -> float:
    """Return ||dL/dW_2|| of the "first" layer over that of the last, or of the "last"."""
    with torch.enable_grad():
        _, gradients = variances_and_gradient_norms(*untrained_transformer(seed, arm))
    ratio = gradients[0] / gradients[-1]
    return ratio if over == "first" else 1 / ratio


@register_check
def residual_path_factor(seed: int, arm: str) -> float:
    """Return the factor per layer of a gradient that passes the norms and skips the branches.

    It is alpha / sigma at each norm behind a sum: a geometric mean.
    """
    net, x, _ = untrained_transformer(seed, arm)
    logs = []
    for block, h in zip(net.blocks, residual_streams(net, x)[:-1], strict=True):
        for branch in (block.attention, block.feed_forward):
            total = branch.alpha * h + branch.f(branch.before(h), x.shape[1])
            logs.append((branch.alpha / total.std(1, correction=0)).log().mean())
            h = branch.after(total)
    return float(torch.stack(logs).sum().div(LAYERS).exp())


@register_check
def folded_gains(seed: int) -> float:
    """Multiply the matrices behind each gain of pre-LN by it, and set it to 1."""
    net, x, _ = untrained_transformer(seed, "pre", 4)
    norms = [(net.top, [net.readout])]
    for block in net.blocks:
        attention, feed_forward = block.attention, block.feed_forward
        norms.append((attention.before, [getattr(attention.f, f"W_{m}") for m in "QKV"]))
        norms.append((feed_forward.before, [feed_forward.f.W_1]))
    for index, (norm, _) in enumerate(norms):
        norm.g.copy_(1 + 0.5 * normal(seed, index, WIDTH))
    before = net(x)
    for norm, layers in norms:
        for one in layers:
            one.W.mul_(norm.g)
        norm.g.fill_(1.0)
    return relative_change(net(x), before)


@register_check
def rms_jacobian(seed: int) -> float:
    """Compare the Jacobian of RMSNorm at 10 x with a tenth of that at x."""
    x, norm = normal(seed, 0, H), RMSNorm(H, eps=0.0, elementwise_affine=False)
    return relative_change(jacobian(norm, 10 * x), jacobian(norm, x) / 10)


@register_check
def rms_forgets_length(seed: int) -> float:
    """Multiply the input of RMSNorm by 3.7."""
    x, norm = normal(seed, 0, B, H), RMSNorm(H, eps=0.0)
    return relative_change(norm(DELTA * x), norm(x))


@register_check
def radial_gradient(seed: int) -> float:
    """Return the part of the gradient of the last stream that lies along it."""
    net, x, y = untrained_transformer(seed, "pre", 4)
    stream = residual_streams(net, x)[-1].requires_grad_()
    with torch.enable_grad():
        (g,) = grad(nll(net.readout(net.top(stream)), y.flatten()), stream)
    along = (stream * g).sum(1) / (stream.norm(dim=1) * g.norm(dim=1))
    return float(along.abs().max())


@register_check
def rescaled_matrix(seed: int, arm: str, *letters: str) -> float:
    """Return the largest change of the logits if one matrix of layer 2 of 4 is divided by 4."""
    net, x, _ = untrained_transformer(seed, arm, 4)
    before, changes = net(x), []
    for letter in map(str, letters):
        branch = net.blocks[1].feed_forward if letter in "12" else net.blocks[1].attention
        W = getattr(branch.f, f"W_{letter}").W
        W.div_(4)
        changes.append(float((net(x) - before).norm() / before.norm()))
        W.mul_(4)
    return max(changes)
