"""Ba, Kiros & Hinton (2016), abstract, sections 1 to 5 and 7: what holds of the equations."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from lnlab.analysis.arguments import normal, random_given, random_shift
from lnlab.analysis.invariance import NormalizedLayer, relative_change
from lnlab.ledger.claim import Before, Claim, equation
from lnlab.ledger.claim import restated as restated_of
from lnlab.ledger.claim import untested as untested_of
from lnlab.ledger.exact import Defect, changed, greatest, readings, unchanged
from lnlab.ledger.rule import Kind
from lnlab.nn.normalizer import AffineNormalizer
from lnlab.nn.table1 import ROWS, TABLE_1, TRANSFORMATIONS

PAPER = "Ba et al. (2016)"
H, D, B = 12, 7, 8
DELTA = 3.7
AFFINE = "part that the best affine map of x leaves of the output, relative"
ALONE = "random W and x, float64, eps = 1e-5"
CONDITIONS = "with eps = 0, delta > 0, no bias inside a, batch statistics"
ALSO = {("layer", 6): "; said again in eq. 7, and as feature scaling in section 7"}
NAMES = {"batch": "batch norm", "weight": "weight norm", "layer": "layer norm"}


def layer(name: str, seed: int) -> NormalizedLayer:
    """A layer with random weights, inputs, gains and biases, and the normalizer ``name``."""
    return NormalizedLayer(ROWS[name], random_given(H, D, B, seed=seed), seed=seed)


def moved(name: str, *columns: int) -> Defect:
    """The defect of transformations, one after the other: the change of a layer's output."""

    def defect(seed: int) -> float:
        here = layer(name, seed)
        given, shift = here.given, random_shift(here.given, seed=seed)
        for column in columns:
            given = TRANSFORMATIONS[column - 1](given, DELTA, shift)
        return relative_change(here.output(given), here.y)

    return defect


def farthest(*defects: Defect) -> Defect:
    """The largest of several defects."""
    return lambda seed: greatest(defect(seed) for defect in defects)


def fewer_cases(name: str, cases: int) -> Defect:
    """The change of the outputs of a batch when it is cut into parts of ``cases``."""

    def defect(seed: int) -> float:
        here = layer(name, seed)
        parts = (here.output(replace(here.given, x=x)) for x in here.given.x.split(cases))
        return relative_change(torch.cat(list(parts)), here.y)

    return defect


def lone_case(seed: int) -> float:
    """The change of batch norm's output of a batch of one when the case is another."""
    given, other = (random_given(H, D, 1, seed=s) for s in (seed, seed + 100))
    here = NormalizedLayer(ROWS["batch"], given, eps=1e-5, seed=seed)
    return relative_change(here.output(replace(given, x=other.x)), here.y)


@torch.no_grad()
def scaled_sums(seed: int) -> float:
    """The change of layer norm's output when all summed inputs are multiplied by delta."""
    here = layer("layer", seed)
    a = here.given.summed_inputs(here.norm)
    return relative_change(here.norm(DELTA * a), here.norm(a))


def scaled_scalars(name: str) -> Defect:
    """The distance of mu and sigma from delta times what they were, when w_1 is so; those of
    the other units must stay."""

    @torch.no_grad()
    def defect(seed: int) -> float:
        here = layer(name, seed)
        W, x, norm = here.given.W, here.given.x, here.norm.train()
        assert isinstance(norm, AffineNormalizer)
        scale = torch.ones(len(W), 1).double()
        scale[0] = DELTA
        before, after = (norm.stats(x @ V.T, V) for V in (W, scale * W))
        return greatest(
            relative_change(a / scale.T, b.expand(len(W)))
            for a, b in zip(after, before, strict=True)
        )

    return defect


def not_affine(name: str) -> Defect:
    """The part that an affine map of x leaves of the outputs of 8 batches, relative.

    0 where the normalized layer is a re-parameterization of one without normalization.
    """

    def defect(seed: int) -> float:
        here, x = layer(name, seed), normal(seed, 4, 8 * B, D)
        batches = (replace(here.given, x=part) for part in x.split(B))
        y = torch.cat([here.output(batch) for batch in batches])
        design = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return relative_change(design @ torch.linalg.lstsq(design, y).solution, y)

    return defect


def before_the_weights(column: int) -> Defect:
    """The change of W LN(x) with one of W: normalization of the input alone."""

    def defect(seed: int) -> float:
        given, norm = random_given(H, D, B, seed=seed), ROWS["layer"].make(D).double()
        plain = NormalizedLayer(ROWS["none"], replace(given, x=norm(given.x).detach()))
        return plain.defect(TRANSFORMATIONS[column - 1], DELTA, random_shift(given, seed=seed))

    return defect


def outputs(name: str, seed: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The W of a layer, and its outputs (B H,) as a function of W."""
    here = layer(name, seed)
    norm, x = here.norm.train(), here.given.x
    return here.given.W, lambda W: norm(x @ W.T, W).flatten()


def not_half(name: str, read: Callable[[Tensor], Tensor]) -> Defect:
    """The distance of what is read of the Jacobian of W at 2 W from half of that at W."""

    def defect(seed: int) -> float:
        W, y = outputs(name, seed)
        J, J_2 = (jacobian(y, V, vectorize=True).flatten(1) for V in (W, 2 * W))
        return relative_change(read(J_2), read(J) / 2)

    return defect


def block(J: Tensor) -> Tensor:
    """The block of W in the Fisher matrix of outputs of unit variance."""
    return J.T @ J


def not_a_quarter(name: str) -> Defect:
    """The distance of the turn of W by a gradient step at 2 W from 1/4 of that at W."""

    def defect(seed: int) -> float:
        W, y = outputs(name, seed)
        toward = normal(seed, 5, B * H)
        step, step_2 = (jacobian(lambda V: toward @ y(V), V) for V in (W, 2 * W))
        return relative_change(4 * step_2 / 2, step)

    return defect


claim = partial(equation, PAPER)
"""A claim that the ledger itself judges."""
untested = partial(untested_of, PAPER)
restated = partial(restated_of, PAPER)
"""A claim that nothing tests yet."""


def table_1() -> list[Claim]:
    """The 18 entries of Table 1, each with its condition."""
    return [
        claim(
            f"table1-{name}-{transformation.column}",
            "5.1, Table 1",
            f"{NAMES[name]} is {'' if cell == 'Y' else 'not '}invariant to "
            f"{transformation.name}",
            (unchanged if cell == "Y" else changed)(moved(name, transformation.column)),
            paper="Invariant" if cell == "Y" else "No",
            note=CONDITIONS + ALSO.get((name, transformation.column), ""),
        )
        for name, cells in TABLE_1.items()
        for transformation, cell in zip(TRANSFORMATIONS, cells, strict=False)
    ]


CLAIMS = [
    claim(
        "abstract-batch-size", "abstract",
        "the effect of batch normalization is dependent on the mini-batch size",
        changed(fewer_cases("batch", B // 2)),
        note="tested by cutting a batch: what changes is which cases stand together; the same "
        "cases twice change nothing",
    ),
    claim(
        "abstract-train-test", "abstract",
        "layer normalization performs exactly the same computation at training and test times",
        unchanged(lambda seed: layer("layer", seed).gap()),
    ),
    claim(
        "abstract-train-test-bn", "abstract",
        "batch normalization does not perform the same computation at training and test times",
        changed(lambda seed: layer("batch", seed).gap()),
    ),
    claim(
        "1-independence", "1",
        "layer normalization does not introduce new dependencies between training cases",
        unchanged(lambda seed: layer("layer", seed).dependence()),
    ),
    claim(
        "1-online-bn", "1",
        "batch normalization cannot be applied to online learning: with one case in the batch "
        "its output says nothing of that case",
        unchanged(lone_case, data=ALONE),
    ),
    claim(
        "3-online", "3",
        "layer normalization puts no constraint on the size of a mini-batch and can be used in "
        "the pure online regime with batch size 1",
        unchanged(fewer_cases("layer", 1)),
    ),
    claim(
        "3.1-rescaling", "3.1, eq. 4",
        "a layer normalized recurrent layer is invariant to re-scaling all its summed inputs",
        unchanged(scaled_sums),
    ),
    claim(
        "4-reparameterization-wn", "4",
        "weight normalization is a different parameterization of the original network",
        unchanged(not_affine("weight"), AFFINE),
    ),
    claim(
        "4-reparameterization-bn", "4",
        "batch normalization using expected statistics is a different parameterization of the "
        "original network",
        unchanged(not_affine("batch, frozen"), AFFINE),
    ),
    claim(
        "4-reparameterization-ln", "4",
        "layer normalization is not a re-parameterization of the original network",
        changed(not_affine("layer"), AFFINE),
    ),
    *table_1(),
    claim(
        "5.1-scalars", "5.1",
        "if the weight vector is scaled by delta, so are mu and sigma under batch and weight "
        "normalization",
        unchanged(
            farthest(scaled_scalars("batch"), scaled_scalars("weight")),
            "change of mu/delta and sigma/delta, relative",
        ),
    ),
    claim(
        "eq6", "5.1, eq. 6",
        "under layer norm, W' = delta W + 1 gamma^T computes the same output",
        unchanged(moved("layer", 1, 2)),
    ),
    *(
        claim(
            f"5.1-input-only-{column}", "5.1",
            f"normalization applied only to the input before the weights is not invariant to "
            f"{TRANSFORMATIONS[column - 1].name}",
            changed(before_the_weights(column)),
            note="so of Table 1's weight columns none holds for the W behind a pre-LN",
        )
        for column in (1, 2)
    ),
    claim(
        "5.1-all-rescaling", "5.1",
        "all the normalization methods are invariant to re-scaling the dataset",
        unchanged(farthest(*(moved(name, 4) for name in TABLE_1))),
        note="contradicts the paper's own Table 1, which is right: weight norm is not",
    ),
    claim(
        "5.2-half", "5.2.2",
        "when the norm of w_i doubles, the curvature along w_i changes by a factor 1/2",
        readings({
            "of the block of w in the Fisher matrix": unchanged(
                farthest(*(not_half(name, block) for name in TABLE_1)),
                "distance of F_ww at 2 W from F_ww/2, relative",
            ),
            "of its root, which ds is linear in": unchanged(
                farthest(*(not_half(name, lambda J: J) for name in TABLE_1)),
                "distance of the Jacobian at 2 W from a half, relative",
            ),
        }),
        kind=Kind.READING,
        note="the block of w scales by 1/4 (by eq. 13, too); its square root, ds, halves. W as "
        "a whole: doubling one w_i alone leaves the output only under batch and weight norm",
        history=(Before("fails", "the block of w alone was read as the curvature"),),
    ),
    claim(
        "5.2-orientation", "5.2.2",
        "during learning, it is harder to change the orientation of a weight vector with large "
        "norm",
        unchanged(
            farthest(*map(not_a_quarter, TABLE_1)),
            "distance of the turn by a gradient step at 2 W from a quarter, relative",
        ),
        note="a quarter as far at twice the norm: half the gradient, twice the length; W as a "
        "whole: doubling one w_i alone leaves the output only under batch and weight norm",
    ),
    claim(
        "7-shifting", "7",
        "layer normalization is invariant to per training-case feature shifting",
        readings({
            "of the inputs, x_n + c 1": unchanged(moved("layer", 9)),
            "of the summed inputs, a_n + c 1": unchanged(moved("layer", 7)),
        }),
        kind=Kind.READING,
        note="W turns the shift of an input into another one for each unit; it holds for a "
        "layer norm in front of W. Scaling, in the same sentence, is ba2016-table1-layer-6",
        history=(
            Before("not reproduced, and reproduced", "two readings of one sentence were two "
                                                     "rows"),
        ),
    ),
]  # fmt: skip
