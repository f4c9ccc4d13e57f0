"""Parameters that start at 0 and are multiplied: what feeds them has no effect until they move.

The last layer of a branch, a gain, the scale of a residual: most often so that the net is the
identity at its start.
"""

from copy import deepcopy

from torch import nn

from lnlab.analysis.arguments import normal

ADDED = ("bias", "beta", "b")
"""The ends of names of what is added: at 0 it lets everything pass."""


def asleep(module: nn.Module) -> list[str]:
    """The names of all parameters that are 0 in every place and not called a bias."""
    return [
        name
        for name, p in module.named_parameters()
        if p.numel() and not p.any() and not _added(name)
    ]


def _added(name: str) -> bool:
    last = name.rpartition(".")[2].lower()
    return last in ADDED or last.endswith("bias")


def drawn(module: nn.Module) -> tuple[nn.Module, list[str]]:
    """A copy in which these are drawn, rows of length 1 or so, and their names."""
    other, names = deepcopy(module), asleep(module)
    for place, name in enumerate(names):
        p = other.get_parameter(name).data
        inputs = p[0].numel() if p.dim() > 1 else 1
        p.copy_(normal(11, place, p.numel()).view_as(p).to(p) / inputs**0.5)
    return other, names
