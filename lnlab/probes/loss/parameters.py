"""The parameters of a module that a loss is a function of, and the places where they stand."""

from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from lnlab.probes.refusals import several

Place = tuple[dict[str, Any], str, str]
"""A module's dict that holds a parameter, its name there, and its name in the whole."""


def places(module: nn.Module, names: dict[int, str]) -> list[Place]:
    """All places of some parameters; one that is shared has several."""
    registries = [part._parameters for part in module.modules()]
    return [
        (r, key, names[id(p)]) for r in registries for key, p in r.items() if id(p) in names
    ]


def chosen(
    module: nn.Module, own: dict[str, nn.Parameter], names: Collection[str] | None
) -> list[str]:
    """The names of the parameters that are to vary, in the module's order.

    Raises:
        TypeError: where ``names`` are none.
        ValueError: where one does not exist, nothing is left, or precisions differ.
    """
    names = names if names is None else several("names", names, str, "names of parameters")
    if names is None:
        trained = {name for name, p in module.named_parameters() if p.requires_grad}
        found = [name for name in own if name in trained]
    elif missing := set(names) - set(own):
        raise ValueError(f"no parameter is called {sorted(missing)}: there are {list(own)}.")
    else:
        found = [name for name in own if name in set(names)]
    if not found:
        raise ValueError(
            f"{type(module).__name__} has no parameters that are trained: there is nothing to "
            "vary."
        )
    if len({own[name].dtype for name in found}) > 1:
        raise ValueError("the parameters have several dtypes: give dtype=torch.float32.")
    return found


def single_at_least(module: nn.Module) -> torch.dtype | None:
    """float32 where a parameter of ``module`` has fewer digits, else None: its own will do.

    A bfloat16 has two or three digits, of which a difference of losses or a gradient's product
    with the Hessian keeps none.
    """
    bits = [torch.finfo(p.dtype).bits for p in module.parameters() if p.is_floating_point()]
    return torch.float32 if bits and min(bits) < 32 else None
