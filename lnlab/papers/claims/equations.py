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
from typing import Any, Literal, cast

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor
from torch.autograd import grad
from torch.autograd.functional import jacobian
from torch.distributions import Bernoulli, Distribution, Normal
from torch.nn.utils import skip_init

from lnlab.analysis import fisher
from lnlab.analysis.fisher import BERNOULLI, FAMILIES, GAUSSIAN, GLM, ExponentialFamily
from lnlab.analysis.magnitudes import relative_max_change
from lnlab.analysis.normalized_layer import (
    NormalizedLayer,
    random_layer_inputs,
    random_vector_for_any_shift,
)
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
from lnlab.papers.claims.judge import AMBIGUOUS, CORRECT, WRONG, FormulaVerdict
from lnlab.papers.transformer.evaluate import (
    embedding_and_block_outputs,
    mean_nll_over_characters,
    stream_variances_and_W_2_gradient_norms,
)
from lnlab.papers.transformer.model import ARMS, TransformerLanguageModel
from lnlab.training.random_state import default_dtype, generator_seeded_by_hash

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


def run_check_draws(check_call: str) -> list[float]:
    """Return the numbers of the ten draws of a check, "name(argument, ...)"."""
    name, arguments = parse_call(check_call)
    with torch.no_grad():
        return [float(CHECKS[name](seed, *arguments)) for seed in DRAWS]


def print_check_value_per_draw(statement_id: str) -> None:
    """Print what each check of a statement asks, its bound, and the numbers of its draws."""
    (claim,) = (one for one in load_statements() if one.id == statement_id)
    print(claim.says)
    for reading in claim.all_interpretations:
        values, least = run_check_draws(reading["check_call"]), reading.get("check_lower_bound")
        ok = (
            min(values) >= least
            if least is not None
            else max(values) <= reading["check_upper_bound"]
        )
        bound = (
            f"at most {reading['check_upper_bound']:g}"
            if least is None
            else f"at least {least:g}"
        )
        says = "" if reading["says"] == claim.says else f"{reading['says']}: "
        print(
            f"{says}{reading['check_call']} is {bound} in every draw: {'yes' if ok else 'no'}"
        )
        print("  drawn:", " ".join(f"{value:.2g}" for value in values))
    if claim.correction:
        print(f"Right: {claim.correction}. How that is checked: docs/errata.md")


def check_interpretation(interpretation: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether all draws of a check are within its bound, and the worst one in words."""
    values = run_check_draws(interpretation["check_call"])
    worst = float(np.min(values) if "check_lower_bound" in interpretation else np.max(values))
    if "check_lower_bound" in interpretation:
        right = worst >= interpretation["check_lower_bound"]
        size = "at least" if right else "only"
    else:
        right = worst <= interpretation["check_upper_bound"]
        size = "at most" if right else "up to"
    unit = interpretation.get("absolute_unit")
    bound = "at least" if "at least {" in interpretation.get("finding_template", "") else size
    amount = f"{100 * worst:.2g} %" if unit is None else f"{worst:.2g} {unit}".rstrip()
    if np.isfinite(worst) and worst and (unit is None or bound in ("at least", "at most")):
        amount = _format_so_bound_stays_true(worst, bound, unit)
    if "finding_template" in interpretation:
        least = f"{100 * min(values):.2g} %"
        return right, interpretation["finding_template"].format(amount, least=least)
    subject, *other = interpretation["compared_quantities"]
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


def _format_so_bound_stays_true(value: float, bound: str, unit: str | None) -> str:
    """Return a number in two digits: "at least" rounds it down, "at most" up."""
    modes = {"at least": ROUND_FLOOR, "at most": ROUND_CEILING}
    exact = Decimal(f"{value if unit is not None else 100 * value:.10g}")
    places = 1 - exact.adjusted()
    if unit is None:
        places = max(places, 0) if value <= 0.1 else 0
    step = Decimal(1).scaleb(-places)
    rounded = exact.quantize(step, modes.get(bound, ROUND_HALF_EVEN))
    return f"{float(rounded):.10g} {'%' if unit is None else unit}".rstrip()


def judge_formula(claim: Statement) -> FormulaVerdict:
    """Check a statement, in each way in which it can be read."""
    checked = [(one["says"], *check_interpretation(one)) for one in claim.all_interpretations]
    right = [says for says, holding, _ in checked if holding]
    wrong = [f"{says} ({number})" for says, holding, number in checked if not holding]
    if not wrong:
        return FormulaVerdict(CORRECT, claim.outcome_if_correct or checked[0][2])
    if right:
        sentences = [f"Right {one}" for one in right] + [f"Wrong {one}" for one in wrong]
        return FormulaVerdict(AMBIGUOUS, ". ".join(sentences))
    text = "; ".join(number for _, _, number in checked)
    return FormulaVerdict(
        WRONG, f"{text}. Right: {claim.correction}" if claim.correction else text
    )


def max_forbidden_change_or_inf(
    forbidden_changes: Iterable[float], required_changes: Iterable[float] = ()
) -> float:
    """Return the largest of the changes that must be 0; inf if one that must be seen is not."""
    seen = np.min([inf, *required_changes]) > VISIBLE
    return float(np.max([*forbidden_changes])) if seen else inf  # unlike max, keeps a NaN


def standardize(a: Tensor, axis: int) -> Tensor:
    """Return (a - mu)/sigma, with mu and sigma along an axis."""
    return (a - a.mean(axis, keepdim=True)) / a.std(axis, correction=0, keepdim=True)


def relative_max_affine_residual(y: Tensor, x: Tensor) -> float:
    """Return the part of y (N, H) that the best affine map of x (N, D) leaves, relative."""
    design = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    return relative_max_change(design @ torch.linalg.lstsq(design, y).solution, y)


# --- Ba et al. (2016), sections 1 to 5.1: one layer -----------------------------------------


def random_normalized_layer(norm_name: str, seed: int) -> NormalizedLayer:
    """Return a layer with random weights, inputs, gains and biases, and the normalizer."""
    return NormalizedLayer(ROWS[norm_name], random_layer_inputs(H, D, B, seed=seed), seed=seed)


def composed_transformation_output_change(
    norm_name: str, *table_1_columns: int, seed: int
) -> float:
    """Return the change of a layer's output by transformations, one after the other."""
    one = random_normalized_layer(norm_name, seed)
    given, shift = one.layer_inputs, random_vector_for_any_shift(one.layer_inputs, seed=seed)
    for column in table_1_columns:
        given = TRANSFORMATIONS[column - 1](given, DELTA, shift)
    return relative_max_change(one.output(given), one.y)


@register_check
def output_change_from_splitting_batch(
    seed: int, norm_name: str, examples_per_part: int
) -> float:
    """Compare the output for a batch with those for its parts of so many examples."""
    one = random_normalized_layer(norm_name, seed)
    y = [
        one.output(replace(one.layer_inputs, x=x))
        for x in one.layer_inputs.x.split(examples_per_part)
    ]
    return relative_max_change(torch.cat(y), one.y)


@register_check
def ln_output_change_in_eval_mode(seed: int) -> float:
    """Check that LN computes in evaluation what it computes in training; BN does not."""
    return max_forbidden_change_or_inf(
        [random_normalized_layer("layer", seed).train_eval_gap()],
        [random_normalized_layer("batch", seed).train_eval_gap()],
    )


@register_check
def ln_output_change_by_other_examples(seed: int) -> float:
    """Check that LN of an example is the same beside others and in a batch of one."""
    return max_forbidden_change_or_inf(
        [
            random_normalized_layer("layer", seed).batch_dependence(),
            output_change_from_splitting_batch(seed, "layer", 1),
        ]
    )


@register_check
def bn_difference_between_single_examples(seed: int) -> float:
    """Compare BN of two batches of one example (eps = 1e-5: without it, 0/0)."""
    given, other = (random_layer_inputs(H, D, 1, seed=s) for s in (seed, seed + 100))
    one = NormalizedLayer(ROWS["batch"], given, eps=1e-5, seed=seed)
    return relative_max_change(one.output(replace(given, x=other.x)), one.y)


@register_check
def eq_2_and_3_output_error(
    seed: int, layer_norm_equation: int, batch_norm_equation: int
) -> float:
    """Check which of eq. 2 (over examples) and 3 (over units) LN and BN standardize by."""
    a, axes = normal(seed, 0, B, H), {2: 0, 3: 1}
    pairs = (LayerNorm, axes[layer_norm_equation]), (BatchNorm, axes[batch_norm_equation])
    return max_forbidden_change_or_inf(
        relative_max_change(norm(H, eps=0.0).double()(a), standardize(a, axis))
        for norm, axis in pairs
    )


@register_check
def wn_and_fixed_bn_nonlinearity(seed: int) -> float:
    """Check that g/sigma (W x - mu) + b is affine in x under WN and fixed BN, not LN."""

    def affine_residual(norm_name: str) -> float:
        one, x = random_normalized_layer(norm_name, seed), normal(seed, 4, 8 * B, D)
        y = [one.output(replace(one.layer_inputs, x=batch)) for batch in x.split(B)]
        return relative_max_affine_residual(torch.cat(y), x)

    return max_forbidden_change_or_inf(
        [affine_residual("weight"), affine_residual("batch, frozen")],
        [affine_residual("layer")],
    )


@register_check
def table_1_row_error(seed: int, norm_name: str) -> float:
    """Check a row of Table 1; inf if a cell "No" changes nothing, either."""
    same, different = [], []
    for column, cell in enumerate(TABLE_1[norm_name], 1):
        (same if cell == "Y" else different).append(
            composed_transformation_output_change(norm_name, column, seed=seed)
        )
    return max_forbidden_change_or_inf(same, different)


@register_check
def scaled_row_statistics_error(seed: int) -> float:
    """Check that w_1 -> delta w_1 multiplies mu_1 and sigma_1, no other, by delta."""

    def statistics_error(norm_name: str) -> float:
        one = random_normalized_layer(norm_name, seed)
        W, x = one.layer_inputs.W, one.layer_inputs.x
        norm = cast("Any", one.norm.train())
        scale = torch.ones(len(W), 1).double()
        scale[0] = DELTA
        before, after = (norm.stats(x @ V.T, V) for V in (W, scale * W))
        pairs = zip(after, before, strict=True)
        return max_forbidden_change_or_inf(
            relative_max_change(a / scale.T, b.expand(len(W))) for a, b in pairs
        )

    return max_forbidden_change_or_inf([statistics_error("batch"), statistics_error("weight")])


@register_check
def eq_6_and_7_ln_output_change(seed: int) -> float:
    """Check h' = h under LN for W' = delta W + 1 gamma^T, and for x' = delta x."""
    return max_forbidden_change_or_inf(
        [
            composed_transformation_output_change("layer", 1, 2, seed=seed),
            composed_transformation_output_change("layer", 6, seed=seed),
        ]
    )


@register_check
def weight_change_effect_behind_ln(seed: int) -> float:
    """Compare W LN(x) with delta W LN(x) and (W + 1 gamma^T) LN(x)."""
    given, norm = random_layer_inputs(H, D, B, seed=seed), ROWS["layer"].make_norm(D).double()
    plain = NormalizedLayer(ROWS["none"], replace(given, x=norm(given.x)))
    shift = random_vector_for_any_shift(given, seed=seed)
    return min(plain.defect(TRANSFORMATIONS[k - 1], DELTA, shift) for k in (1, 2))


@register_check
def transformation_output_change(seed: int, table_1_column: int, *norm_names: str) -> float:
    """Check that a transformation (a column of the extended Table 1) changes nothing."""
    return max_forbidden_change_or_inf(
        composed_transformation_output_change(norm, table_1_column, seed=seed)
        for norm in norm_names
    )


@register_check
def eq_15_output_change_between_inputs(seed: int, alpha: float, beta: float) -> float:
    """Compare LN(z; alpha, beta) with LN of another z, alpha and beta as they start."""
    z, other = standardize(normal(seed, 0, 2, B, H), 2)
    return relative_max_change(other * alpha + beta, z * alpha + beta)


# --- Ba et al. (2016), sections 3 and 3.1: recurrent networks -------------------------------

UNITS = 24
Step = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""A step t and h (B, UNITS) before it to its summed inputs and to h after it."""
FUNCTIONS = {"identity": lambda a: a, "tanh": torch.tanh, "relu": torch.relu}


def make_recurrent_step(
    seed: int,
    weight_scale: float,
    nonlinearity: str = "tanh",
    steps_with_input: int = T,
    normalized: bool = True,
) -> Step:
    """Return a step of h = f(a), a = W_hh h + W_xh x; normalized, it is eq. 4.

    ``weight_scale`` multiplies both matrices; the first ``steps_with_input`` have an input.
    """
    W = weight_scale * normal(seed, 0, UNITS, UNITS) / UNITS**0.5
    U = weight_scale * normal(seed, 1, UNITS, D) / D**0.5
    x, norm = normal(seed, 2, T, B, D), LayerNorm(UNITS, eps=0.0).double()

    def next_pre_activations_and_state(t: int, h: Tensor) -> tuple[Tensor, Tensor]:
        a = h @ W.T + (x[t] @ U.T if t < steps_with_input else 0)
        a = norm(a) if normalized else a
        return a, FUNCTIONS[nonlinearity](a)

    return next_pre_activations_and_state


def pre_activations_over_time(step: Step) -> Tensor:
    """Return the summed inputs of every step (T, B, UNITS), from h = 0."""
    h, sums = torch.zeros(B, UNITS).double(), []
    for t in range(T):
        a, h = step(t, h)
        sums.append(a)
    return torch.stack(sums)


@register_check
def ln_rnn_change_by_weight_scale(seed: int) -> float:
    """Check that 3 W_hh and 3 W_xh give the states of W_hh and W_xh under LN."""
    return relative_max_change(
        *(pre_activations_over_time(make_recurrent_step(seed, scale)) for scale in (3.0, 1.0))
    )


@register_check
def ln_rnn_difference_from_standardized_pre_activations(seed: int) -> float:
    """Compare each state under LN, f = 1, with one gain times its own standardized sums."""
    cell = RNNCell(D, UNITS, partial(LayerNorm, eps=0.0), nonlinearity=lambda a: a).double()
    g, x = normal(seed, 3, UNITS), normal(seed, 2, T, B, D)
    cell.get_parameter("norm_h.g").copy_(g)
    h, _ = unroll(cell, x)
    before = torch.cat([cell.initial_state(x)[0].unsqueeze(0), h[:-1]])
    return relative_max_change(h, g * standardize(before @ cell.W_h.T + x @ cell.W_x.T, 2))


@register_check
def shared_growth_of_pre_activations_and_gradients(
    seed: int, nonlinearity: Literal["identity", "tanh"], steps_with_input: int
) -> float:
    """Return the growth per step common to sums and gradients; 0 if they disagree.

    Without normalization, in the second half of 50 steps; the ten draws have recurrent gains
    from 1/3 to 3.
    """
    step = make_recurrent_step(
        seed, 3.0 ** (seed / 4.5 - 1), nonlinearity, steps_with_input, normalized=False
    )
    size = pre_activations_over_time(step).square().mean((1, 2)).sqrt()
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
def unit_change_correlation_after_relu(
    seed: int, minus: Literal["", "chance", "tanh"] = ""
) -> float:
    """Return the correlation of the changes behind a ReLU layer, over something.

    The mean size of the correlation of two units' V f(W x), over "chance" (independent changes
    that V mixes alike), over "tanh" units, or over nothing.
    """
    W, dW = normal(seed, 0, UNITS, D), 0.1 * normal(seed, 1, UNITS, D)
    V, x = normal(seed, 2, UNITS, UNITS), normal(seed, 3, 500, D)

    def mean_abs_correlation(changes: Tensor) -> float:
        table = torch.corrcoef(changes.T).abs()
        return float((table.sum() - UNITS) / (UNITS * (UNITS - 1)))

    def mean_abs_correlation_after(nonlinearity: Callable[[Tensor], Tensor]) -> float:
        changes = nonlinearity(x @ (W + dW).T) - nonlinearity(x @ W.T)
        return mean_abs_correlation(changes @ V.T)

    known = mean_abs_correlation_after(FUNCTIONS["relu"])
    if minus == "chance":
        return known - mean_abs_correlation(normal(seed, 9, 500, UNITS) @ V.T)
    return known - mean_abs_correlation_after(FUNCTIONS[minus]) if minus else known


# --- Ba et al. (2016), section 5.2 and the supplement: the geometry of learning --------------

GLM_H, GLM_D, GLM_B = 6, 5, 16
SPREAD = replace(GAUSSIAN, phi=0.7)  # shows a phi that is forgotten
INDEPENDENT = (GAUSSIAN, SPREAD, BERNOULLI)
ALL = (*FAMILIES.values(), SPREAD)
NORMS = {"none": Identity, "batch": BatchNorm, "layer": LayerNorm, "weight": WeightNorm}


def largest_difference_over_glms(
    printed: Callable[[GLM], Tensor],
    true: Callable[[GLM], Tensor],
    norm_names: Iterable[str],
    families: Iterable[ExponentialFamily],
    seed: int,
) -> float:
    """Return the largest difference of two quantities over models with these norms."""

    def relative_difference(norm_name: str, family: ExponentialFamily) -> float:
        g = None if norm_name == "none" else 1 + normal(seed, 3, GLM_H).abs()
        W, x = normal(seed, 0, GLM_H, GLM_D), normal(seed, 1, GLM_B, GLM_D)
        model = GLM(W, x, NORMS[norm_name], family, normal(seed, 2, GLM_H), g)
        return relative_max_change(printed(model), true(model))

    return max_forbidden_change_or_inf(
        relative_difference(*pair) for pair in product(norm_names, families)
    )


@register_check
def eq_8_divergence_error(seed: int) -> float:
    """Check KL[P(theta) || P(theta + delta)] = delta^T F delta/2, for steps of 0.001."""

    def small_random_step(model: GLM) -> Tensor:
        return 1e-3 * normal(0, 9, *model.theta.shape)

    def quadratic_divergence(model: GLM) -> Tensor:
        return torch.tensor(
            fisher.predicted_divergence(fisher.fisher_metric(model), small_random_step(model))
        )

    def exact_divergence(model: GLM) -> Tensor:
        return torch.tensor(fisher.actual_divergence(model, small_random_step(model)))

    return largest_difference_over_glms(
        exact_divergence, quadratic_divergence, NORMS, ALL, seed
    )


@register_check
def eq_10_term_vs_log_partition(seed: int, term: Literal["c", "eta"]) -> float:
    """Check that c (0) or eta is log sum_y exp((a + b) y), of Bernoulli outputs."""
    h = normal(seed, 4, GLM_B, 1)
    value = 0 * h if term == "c" else BERNOULLI.log_partition(h).unsqueeze(1)
    return float((value - torch.logaddexp(h, 0 * h)).abs().max())


@register_check
def eq_11_moment_error(seed: int) -> float:
    """Check E[y] = f(a + b) and Var[y] = phi f'(a + b), f = eta', of two families."""
    h, phi = normal(seed, 4, GLM_B), SPREAD.phi
    known = (BERNOULLI, Bernoulli(logits=h)), (SPREAD, Normal(h, phi**0.5))

    def moment_error(family: ExponentialFamily, torch_distribution: Distribution) -> float:
        slope = jacobian(lambda v: family.mean(v).sum(), h)
        mean, variance = family.mean(h), family.phi * slope
        return max_forbidden_change_or_inf(
            [
                relative_max_change(mean, torch_distribution.mean),
                relative_max_change(variance, torch_distribution.variance),
            ]
        )

    return max_forbidden_change_or_inf(moment_error(*pair) for pair in known)


@register_check
def eq_12_and_13_fisher_error(seed: int, *norm_names: str) -> float:
    """Check that F is eq. 12, or under a norm eq. 13 with the chi of eq. 14."""

    families = ALL if norm_names == ("none",) else INDEPENDENT
    return largest_difference_over_glms(
        fisher.fisher_metric_eq_13, fisher.fisher_metric, norm_names, families, seed
    )


@register_check
def doubled_weights_factor_error(
    seed: int, quantity: Literal["curvature", "turn"], factor: float
) -> float:
    """Check that F_ww, or the turn by a step, at 2 W is ``factor`` of that at W."""
    toward = normal(seed, 5, B * H)

    def curvature_or_turn_error(norm_name: str) -> float:
        one = random_normalized_layer(norm_name, seed)
        norm, W, x = one.norm.train(), one.layer_inputs.W, one.layer_inputs.x
        J, J_2 = (
            jacobian(lambda V: norm(x @ V.T, V).flatten(), V, vectorize=True).flatten(1)
            for V in (W, 2 * W)
        )
        if quantity == "curvature":
            return relative_max_change(J_2.T @ J_2, factor * J.T @ J)
        return relative_max_change(toward @ J_2 / 2, factor * toward @ J)  # of 2 W

    return max_forbidden_change_or_inf(map(curvature_or_turn_error, TABLE_1))


@register_check
def eq_32_gain_fisher_error(
    seed: int, norm_name: str, families: Literal["all", "Gaussian"]
) -> float:
    """Check F = E[Cov[y | x]]/phi^2 along the gains."""

    chosen = {"all": ALL, "Gaussian": (GAUSSIAN, SPREAD)}[families]
    return largest_difference_over_glms(
        fisher.gain_metric_eq_32, fisher.gain_metric, [norm_name], chosen, seed
    )


@register_check
def eq_33_and_34_gain_fisher_error(seed: int) -> float:
    """Check F_ij = E[Cov(y_i, y_j) z_i z_j]/phi^2 along the gains (LN, WN)."""

    def gain_block_of_fisher(model: GLM) -> Tensor:
        return fisher.fisher_metric(model)[:, GLM_D + 1, :, GLM_D + 1]

    return largest_difference_over_glms(
        fisher.gain_metric, gain_block_of_fisher, ["layer", "weight"], ALL, seed
    )


@register_check
def eq_35_side_difference(seed: int, left_side: Literal["printed", "element"]) -> float:
    """Check that the right side of eq. 35 is the left one, for unit steps of two units.

    That "printed", which has w_j/||w_i|| in its first factor, or "element" (i, j) of F along
    w_i/||w_i|| and w_j/||w_j||.
    """

    def fisher_between_weight_directions(model: GLM) -> Tensor:
        w = model.W / model.W.norm(dim=1, keepdim=True)
        return torch.einsum(
            "ik,ikjl,jl->ij", w, fisher.fisher_metric(model)[:, :GLM_D, :, :GLM_D], w
        )

    def printed_left_side(model: GLM) -> Tensor:
        F, lengths = fisher_between_weight_directions(model), model.W.norm(dim=1)
        r = lengths[1] / lengths[0]
        return F[0, 0] + F[0, 1] + r * (F[1, 0] + F[1, 1])

    if left_side == "element":
        return largest_difference_over_glms(
            fisher.gain_metric, fisher_between_weight_directions, ["none"], ALL, seed
        )
    return largest_difference_over_glms(
        lambda glm: fisher.gain_metric(glm)[0, 1], printed_left_side, ["none"], ALL, seed
    )


@register_check
def tenfold_scale_gain_fisher_error(
    seed: int, scaled: Literal["x", "W"], expected_factor: float, *names: str
) -> float:
    """Check that F along the gains, or lengths, is ``expected_factor`` F for 10 x, or 10 W.

    The names are those of norms, and "Gaussian" for Gaussian outputs alone.
    """

    def scaled_gain_fisher_over_factor(model: GLM) -> Tensor:
        changed = replace(model, **{scaled: 10 * getattr(model, scaled)})
        return fisher.gain_metric(changed) / expected_factor

    gaussian = expected_factor != 1 or GAUSSIAN.name in names
    norms = [name for name in names if name != GAUSSIAN.name]
    return largest_difference_over_glms(
        scaled_gain_fisher_over_factor,
        fisher.gain_metric,
        norms,
        [GAUSSIAN] if gaussian else ALL,
        seed,
    )


@register_check
def handwriting_weight_count_error_in_millions(seed: int) -> float:
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
def othman_eq_6_lstm_output_error(seed: int, version: Literal["printed", "right"]) -> float:
    """Check eq. 6, as "printed" or without c_(t-1), by torch's LSTM."""
    cell = cast("torch.nn.LSTMCell", skip_init(torch.nn.LSTMCell, 1, H, dtype=torch.float64))
    for parameter in cell.parameters():
        parameter.zero_()
    cell.bias_ih.copy_(normal(seed, 0, 4 * H))  # the summed inputs of the gates i, f, g, o
    zero, before = torch.zeros(1, H).double(), normal(seed, 1, 1, H)
    h, c = cell(zero[:, :1], (zero, before))
    factor = before if version == "printed" else 1.0
    return relative_max_change(cell.bias_ih[3 * H :].sigmoid() * factor * c.tanh(), h)


@register_check
def claimed_moment_error_with_gain_and_bias(
    seed: int, claimed_mean: Literal[0, "b"], claimed_deviation: Literal[1, "g"]
) -> float:
    """Check the mean and deviation over examples of g z + b, z standardized."""
    g, b, z = 1 + normal(seed, 0, H).abs(), normal(seed, 1, H), normal(seed, 2, B, H)
    y = g * standardize(z, 0) + b
    printed = {0: 0.0, 1: 1.0, "b": b, "g": g}
    differences = (
        y.mean(0) - printed[claimed_mean],
        y.std(0, correction=0) - printed[claimed_deviation],
    )
    return max_forbidden_change_or_inf(
        float(difference.abs().max()) for difference in differences
    )


@register_check
def steps_relative_to_othman_eq_10(seed: int, steps_of: Literal["training", "epoch"]) -> float:
    """Return the steps of a "training" (Table 1) or an "epoch" over those of eq. 10.

    Of a training the least possible, for batches of one sentence.
    """
    if steps_of == "training":
        return min(steps for _, steps in TABLES["TIMIT"].values()) / SENTENCES
    m = seed + 1
    return len(torch.arange(50 * m).split(m)) / 50


@register_check
def largest_othman_error_rate_reduction(
    seed: int, unit: Literal["points", "rounded", "relative"]
) -> float:
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
def ziaee_eq_16_weight_violation(
    seed: int, claimed_property: Literal["range", "order"]
) -> float:
    """Return how far the weights, m from 1 to 50, are from the stated "range" or "order"."""
    weights = np.array([BatchLayerNorm(H, m).term_weights(m) for m in range(1, 51)])
    if claimed_property == "range":
        return float(np.max([EPS - weights, weights - (1 - EPS)]).clip(0))
    batch, features = np.diff(weights, axis=0).T
    return float(np.max([-batch, features]).clip(0))


@register_check
def single_example_bln_ln_difference(seed: int, ln_factor: Literal["plain", "scaled"]) -> float:
    """Compare BLN(a), m = 1, with LN(a) ("plain") or (1 - eps)/sqrt(d) LN(a) ("scaled")."""
    a, scale = normal(seed, 0, 1, H), 1.0 if ln_factor == "plain" else (1 - EPS) / H**0.5
    y, ln = (n.double()(a) for n in (BatchLayerNorm(H, 1, eps=0.0), LayerNorm(H, eps=0.0)))
    return relative_max_change(y, scale * ln)


@register_check
def bln_train_eval_relative_change(seed: int, configuration: str) -> float:
    """Compare BLN in evaluation with BLN in training, after 100 batches of 25."""
    norm = BatchLayerNorm(H, M, population=configuration, eps=0.0).double()
    for batch in range(100):
        a = normal(seed, batch, M, H)
        trained = norm.train()(a)
    return relative_max_change(norm.eval()(a), trained)


@register_check
def bn_moment_error_or_change(
    seed: int, moments: Literal["mean and variance", "skewness and kurtosis"]
) -> float:
    """Check mean 0, variance 1 of BN, or compare its other moments with those of a."""

    def skewness_and_kurtosis(a: Tensor) -> Tensor:
        z = standardize(a, 0)
        return torch.cat([z.pow(3).mean(0), z.pow(4).mean(0)])

    a = normal(seed, 1, 400, 7).exp() @ normal(seed, 0, H, 7).T
    z = BatchNorm(H, eps=0.0).double()(a)
    if moments == "skewness and kurtosis":
        return relative_max_change(skewness_and_kurtosis(z), skewness_and_kurtosis(a))
    return max_forbidden_change_or_inf(
        [float(z.mean(0).abs().max()), float((z.var(0, correction=0) - 1).abs().max())]
    )


@register_check
def bn_outlier_effect(
    seed: int, measured: Literal["excess over bound", "change of others"]
) -> float:
    """Check BN with one example a million times as large: a bound, or the other y."""
    norm, x = BatchNorm(H, eps=0.0).double(), normal(seed, 0, M, H)
    before, after = norm(x), norm(torch.cat([1e6 * x[:1], x[1:]]))
    if measured == "excess over bound":
        return max(float(after.abs().max()) / (M - 1) ** 0.5 - 1, 0.0)
    return relative_max_change(after[1:], before[1:])


@register_check
def ziaee_eq_5_variance_error(seed: int) -> float:
    """Check Var[x] = m/(m - 1) E[sigma_B^2], over all batches of 2 to 5 out of four."""
    population = normal(seed, 0, 4)

    def variance_error(batch_size: int) -> float:
        batches = population[torch.tensor(list(product(range(4), repeat=batch_size)))]
        estimate = batch_size / (batch_size - 1) * batches.var(1, correction=0).mean()
        return float((estimate / population.var(correction=0) - 1).abs())

    return max_forbidden_change_or_inf(map(variance_error, range(2, 6)))


@register_check
def ziaee_eq_19_21_std_bias(seed: int, numbers: Literal["m", "d"]) -> float:
    """Check Std = m/(m - 1) E[sigma] of "m" normal numbers (eq. 19), or d = 12 (eq. 21).

    The worst m from 2 to 50; E[sigma] of n numbers is sqrt(2/n) Gamma(n/2)/Gamma((n - 1)/2).
    """

    def relative_std_bias(m: int) -> float:
        n = m if numbers == "m" else H
        return abs(m / (m - 1) * sqrt(2 / n) * gamma(n / 2) / gamma((n - 1) / 2) - 1)

    return max(map(relative_std_bias, range(2, 51)))


@register_check
def bln_nonlinearity(seed: int, configurations: Literal["linear", "others"]) -> float:
    """Compare BLN in evaluation with an affine map: TTTT and TTFT, or the others."""

    def affine_residual(configuration: str) -> float:
        norm = BatchLayerNorm(H, M, eps=0.0, population=configuration).double()
        for batch in range(20):
            norm(normal(seed, batch, M, H))
        x = normal(seed, 99, 4 * M, H)
        return relative_max_affine_residual(
            torch.cat([norm.eval()(batch) for batch in x.split(M)]), x
        )

    linear = ("TTTT", "TTFT")  # of the example only its mean counts, which is linear
    if configurations == "linear":
        return max_forbidden_change_or_inf(map(affine_residual, linear))
    return float(np.min([affine_residual(c) for c in CONFIGURATIONS if c not in linear]))


@register_check
def bln_output_change_by_other_examples(seed: int, batch_size: int) -> float:
    """Compare BLN of an example, in training, among two sets of others."""
    norm = BatchLayerNorm(H, batch_size, eps=0.0).double()
    one, other = normal(seed, 0, batch_size, H), normal(seed, 1, batch_size, H)
    return relative_max_change(norm(torch.cat([one[:1], other[1:]]))[:1], norm(one)[:1])


TableCellWithValue = str  # "1A:E_B=T"

BEST = {"1A": "TTFF", "1B": "FTFF", "2A": "FFTF", "2B": "FTFF"}
"""First rows of Tables 1 (pictures) and 2 (reviews), by 20 % (A) and all (B) of the data."""


@register_check
def count_cells_unlike_ziaee_tables(seed: int, *cells: TableCellWithValue) -> float:
    """Count the cells of the first rows with another value than in "1A:E_B=T"."""
    columns = {"E_B": 0, "Std_B": 1, "E_F": 2, "Std_F": 3}
    wrong = 0
    for cell in cells:
        table, column = cell.partition("=")[0].split(":")
        wrong += BEST[table][columns[column]] != cell[-1]
    return float(wrong)


# --- Brody et al. (2023) ----------------------------------------------------------------------


@register_check
def ln_projection_error(seed: int) -> float:
    """Check LN(x) = sqrt(d) P x/||P x||, P projecting (1, ..., 1) away."""
    x = normal(seed, 0, 16, 8)
    ones = torch.ones_like(x) / 8**0.5
    apart = x - (x * ones).sum(-1, keepdim=True) * ones
    expected = apart / apart.norm(dim=-1, keepdim=True) * 8**0.5
    return relative_max_change(expected, LayerNorm(8, eps=0.0, elementwise_affine=False)(x))


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
def unselectable_ln_key_share(seed: int) -> float:
    """Return the share of 24 normal keys in 4 dimensions that no query selects, behind LN."""
    keys = LayerNorm(4, eps=0.0, elementwise_affine=False)(normal(seed, 0, 24, 4))
    return count_unselectable_keys(keys.numpy()) / len(keys)


# --- Papers on transformers since 2024 --------------------------------------------------------

LAYERS, WIDTH = 32, 64
"""Sizes of the transformers whose stream and gradients are followed over depth."""


def untrained_transformer_and_batch(
    seed: int, arm: str, layers: int = LAYERS, *, scaled_initialization: bool = False
) -> tuple[TransformerLanguageModel, Tensor, Tensor]:
    """Return a transformer before training, characters and the next ones (4, 16)."""
    with default_dtype(torch.float64):
        net = TransformerLanguageModel(27, 16, layers, WIDTH, 4, ARMS[arm])
    net.initialize_(
        lambda name: generator_seeded_by_hash(f"{name} of seed {seed}"),
        scaled_branches=scaled_initialization,
    )
    for norm in net.modules():
        if isinstance(norm, AffineNormalizer):
            norm.eps = 0.0
    x, y = torch.randint(
        27, (2, 4, 16), generator=generator_seeded_by_hash(f"characters {seed}")
    )
    return net, x, y


def last_stream_variance(seed: int, arm: str, *, scaled_initialization: bool = False) -> float:
    """Return the variance of the residual stream behind the last layer."""
    net, x, _ = untrained_transformer_and_batch(
        seed, arm, scaled_initialization=scaled_initialization
    )
    return float(embedding_and_block_outputs(net, x)[-1].var(1, correction=0).mean())


@register_check
def peri_ln_variance_growth_error(seed: int) -> float:
    """Compare the growth of the variance of Peri-LN over all layers with 2 a layer."""
    return abs((last_stream_variance(seed, "sandwich") - 1) / (2 * LAYERS) - 1)


@register_check
def layernorm_scaling_relative_variance_reduction(seed: int) -> float:
    """Return by what part LayerNorm scaling makes the variance of pre-LN smaller."""
    return 1 - last_stream_variance(seed, "lns") / last_stream_variance(seed, "pre")


@register_check
def layernorm_scaling_effect_ratio_by_initialization(seed: int) -> float:
    """Compare the logarithms of that effect with scaled and with equal initialization."""
    effects = [
        np.log(
            last_stream_variance(seed, "pre", scaled_initialization=s)
            / last_stream_variance(seed, "lns", scaled_initialization=s)
        )
        for s in (True, False)
    ]
    return float(effects[0] / effects[1])


@register_check
def first_last_layer_gradient_ratio(
    seed: int, arm: str, numerator: Literal["first", "last"]
) -> float:
    """Return ||dL/dW_2|| of the "first" layer over that of the last, or of the "last"."""
    with torch.enable_grad():
        _, gradients = stream_variances_and_W_2_gradient_norms(
            *untrained_transformer_and_batch(seed, arm)
        )
    ratio = gradients[0] / gradients[-1]
    return ratio if numerator == "first" else 1 / ratio


@register_check
def skip_path_gradient_factor_per_layer(seed: int, arm: str) -> float:
    """Return the factor per layer of a gradient that passes the norms and skips the branches.

    It is alpha / sigma at each norm behind a sum: a geometric mean.
    """
    net, x, _ = untrained_transformer_and_batch(seed, arm)
    logs = []
    for block, h in zip(net.blocks, embedding_and_block_outputs(net, x)[:-1], strict=True):
        for branch in (block.attention, block.feed_forward):
            total = branch.alpha * h + branch.f(branch.before(h), x.shape[1])
            logs.append((branch.alpha / total.std(1, correction=0)).log().mean())
            h = branch.after(total)
    return float(torch.stack(logs).sum().div(LAYERS).exp())


@register_check
def output_change_by_folding_gains(seed: int) -> float:
    """Multiply the matrices behind each gain of pre-LN by it, and set it to 1."""
    net, x, _ = untrained_transformer_and_batch(seed, "pre", 4)
    norms: list[tuple[Any, list[Any]]] = [(net.top, [net.readout])]
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
    return relative_max_change(net(x), before)


@register_check
def rms_norm_jacobian_scaling_error(seed: int) -> float:
    """Compare the Jacobian of RMSNorm at 10 x with a tenth of that at x."""
    x, norm = normal(seed, 0, H), RMSNorm(H, eps=0.0, elementwise_affine=False)
    return relative_max_change(jacobian(norm, 10 * x), jacobian(norm, x) / 10)


@register_check
def rms_norm_output_change_by_input_scale(seed: int) -> float:
    """Multiply the input of RMSNorm by 3.7."""
    x, norm = normal(seed, 0, B, H), RMSNorm(H, eps=0.0)
    return relative_max_change(norm(DELTA * x), norm(x))


@register_check
def largest_stream_and_gradient_cosine(seed: int) -> float:
    """Return the part of the gradient of the last stream that lies along it."""
    net, x, y = untrained_transformer_and_batch(seed, "pre", 4)
    stream = embedding_and_block_outputs(net, x)[-1].requires_grad_()
    with torch.enable_grad():
        (g,) = grad(mean_nll_over_characters(net.readout(net.top(stream)), y.flatten()), stream)
    along = (stream * g).sum(1) / (stream.norm(dim=1) * g.norm(dim=1))
    return float(along.abs().max())


@register_check
def largest_logit_change_rescaling_each_matrix(seed: int, arm: str, *letters: str) -> float:
    """Return the largest change of the logits if one matrix of layer 2 of 4 is divided by 4."""
    net, x, _ = untrained_transformer_and_batch(seed, arm, 4)
    before, changes = net(x), []
    for letter in map(str, letters):
        branch = net.blocks[1].feed_forward if letter in "12" else net.blocks[1].attention
        W = getattr(branch.f, f"W_{letter}").W
        W.div_(4)
        changes.append(float((net(x) - before).norm() / before.norm()))
        W.mul_(4)
    return max(changes)
