"""The profile of gradients over depth."""

from __future__ import annotations

import math

from lnlab.analysis.covariate_shift import layers
from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.norm_gradients import gradient_norms
from lnlab.audit.audited import Audited
from lnlab.audit.finding import CannotCheck, Finding, Profile, Result, Severity, listed, number

STEEP = 100.0
"""A gradient that grows or shrinks by this from one end to the other needs looking after."""

LEAST = 4
"""Layers of which a trend can be told."""


def check(audited: Audited) -> Result:
    """||dL/dW|| and ||dL/dW||/||W|| of every layer, from the first that is called."""
    objective = audited.objective
    norms = gradient_norms(objective)
    sizes = {n: float(vector_norm(w)) for n, w in objective.split(objective.start).items()}
    first = [name for name in layers(objective) if name in norms]
    if not first:
        raise CannotCheck("no parameter is trained.")
    rows = tuple(
        {"layer": n, "gradient": norms[n], "weight": sizes[n],
         "gradient / weight": norms[n] / sizes[n] if sizes[n] else math.inf}
        for n in first
    )  # fmt: skip
    # a part that is never called has no place in the order of the calls, and no gradient
    drawn = [name for name in first if norms[name]]
    profile = Profile(
        "Gradients over depth", "norm", tuple(drawn),
        {"||dL/dW||": tuple(norms[n] for n in drawn)},
    )  # fmt: skip
    note = "" if audited.own_loss else STAND_IN
    return Result(tuple(_findings(norms, drawn)), rows, note, profile if drawn else None)


STAND_IN = (
    "No loss was given: this is of half the squared distance between the output and a random "
    "target."
)


def _findings(norms: dict[str, float], first: list[str]) -> list[Finding]:
    """Findings on gradients, by the ``first`` layers in order, none of which is 0."""
    found = []
    infinite = [n for n, g in norms.items() if not math.isfinite(g)]
    if infinite:
        found.append(
            Finding(
                Severity.FAULT, listed(infinite), "gradients are not finite",
                "one step with them destroys the weights.",
                "look for a division by 0, a root or logarithm of 0, or overflow.",
            )
        )  # fmt: skip
    if len(first) < LEAST or infinite:
        return found
    values = [norms[n] for n in first]
    factor = values[-1] / values[0]
    if max(factor, 1 / factor) > STEEP:
        grows = factor > 1
        found.append(
            Finding(
                Severity.RISK, f"{first[0]} to {first[-1]}",
                f"the gradient {'grows' if grows else 'shrinks'} by a factor of "
                f"{number(max(factor, 1 / factor))} from the first layer to the last",
                "no single learning rate suits both ends: the first layers "
                + ("hardly learn." if grows else "explode."),
                "normalize each branch before it is added (pre-LN), or re-scale the start.",
            )
        )  # fmt: skip
    ratio = max(values) / min(values)
    found.append(
        Finding(
            Severity.FACT, f"{max(first, key=norms.__getitem__)} has the largest",
            f"gradients of {len(first)} layers are within a factor of {number(ratio)}",
            "that is the spread which one learning rate has to serve.",
            "nothing below about 100; above it, look at the picture.",
        )
    )  # fmt: skip
    return found
