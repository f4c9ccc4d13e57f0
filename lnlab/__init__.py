"""See, test and explain layer normalization and its relatives."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "audit": "lnlab.auditing",
    "check_invariances": "lnlab.analysis.invariances",
    "claims": "lnlab.papers.claims",
    "compare": "lnlab.training",
    "effective_learning_rate": "lnlab.analysis.rotation",
    "extreme_eigenvalues": "lnlab.analysis.hessian",
    "fisher_information": "lnlab.analysis.fisher",
    "gradient_smoothness": "lnlab.analysis.smoothness",
    "hessian_spectrum": "lnlab.analysis.hessian",
    "hessian_trace": "lnlab.analysis.hessian",
    "identify_norm": "lnlab.analysis.norm_identity",
    "loss_landscape": "lnlab.analysis.landscape",
    "playground": "lnlab.live",
    "record": "lnlab.analysis.recorder",
    "Recorder": "lnlab.analysis.recorder",
    "swap": "lnlab.auditing",
    "train": "lnlab.training",
}
"""The module of each public name, loaded when the name is first used: torch takes seconds."""

_MODULES = ("data", "nn", "panels", "papers")
"""The modules that ``import lnlab`` gives, likewise when they are first used."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"lnlab.{name}")
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lnlab' has no attribute {name!r}")
