"""Torch's optimizers without its compiler, which takes two seconds to import.

Torch wraps their methods to tell the compiler, ``torch._dynamo``, what not to trace, and
imports it even where nobody traces anything. Here the methods are those inside of the
wrapping: the same steps, to the last bit.
"""

from inspect import unwrap
from typing import TypeVar, cast

import torch
from torch.optim import Optimizer

Kind = TypeVar("Kind", bound=Optimizer)

TOLD = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def plain(kind: type[Kind]) -> type[Kind]:
    """A subclass of an optimizer of torch's that leaves the compiler alone."""
    methods = {name: unwrap(getattr(kind, name)) for name in TOLD}
    # what the wrapping of a step does besides: no step here is differentiable
    methods["step"] = torch.no_grad()(unwrap(kind.step))
    return cast("type[Kind]", type(kind.__name__, (kind,), methods))


Adam = plain(torch.optim.Adam)
AdamW = plain(torch.optim.AdamW)
SGD = plain(torch.optim.SGD)
