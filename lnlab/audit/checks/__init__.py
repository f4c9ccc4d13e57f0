"""The checks of an audit, one file each: ``check(audited) -> Result``."""

from collections.abc import Callable

from lnlab.audit.audited import Audited
from lnlab.audit.checks import (
    activations,
    backward,
    biases,
    cases,
    curvature,
    gradients,
    invariances,
    normalizers,
    population,
    precision,
    rates,
    units,
)
from lnlab.audit.finding import Result

Check = Callable[[Audited], Result]

CHECKS: dict[str, Check] = {
    "normalizers": normalizers.check,
    "parameters without effect": biases.check,
    "statistics over cases": population.check,
    "cases apart": cases.check,
    "dead units": units.check,
    "invariances": invariances.check,
    "effective learning rates": rates.check,
    "gradients over depth": gradients.check,
    "activations": activations.check,
    "mu and sigma on the way back": backward.check,
    "curvature": curvature.check,
    "precision": precision.check,
}
"""The checks by name, in the order of a report."""
