"""Optimizers, and what is done to gradients and rates before their steps."""

from inspect import unwrap
from typing import TypeVar, cast

import torch
from torch import nn
from torch.optim import Optimizer

# Torch's optimizers without its compiler, which takes two seconds to import.
#
# Torch wraps their methods to tell the compiler, ``torch._dynamo``, what not to trace, and
# imports it even where nobody traces anything. Here the methods are those inside of the
# wrapping: the same steps, to the last bit.


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

# Gradients cut to a length, each model of a stack by itself, whole or tensor by tensor.


def clipped(optimizer: torch.optim.Optimizer, largest: float, models: int) -> None:
    """Cut the gradient of each of several stacked models to a norm of ``largest``."""
    slopes = [p.grad for group in optimizer.param_groups for p in group["params"]]
    slopes = [slope for slope in slopes if slope is not None]
    if models == 1:
        nn.utils.clip_grads_with_norm_(
            [p for group in optimizer.param_groups for p in group["params"]],
            largest,
            nn.utils.get_total_norm(slopes),
        )
        return
    squares = torch.stack([slope.flatten(1).square().sum(1) for slope in slopes]).sum(0)
    factor = (largest / (squares.sqrt() + 1e-6)).clamp(max=1)
    for slope in slopes:
        slope.mul_(factor.view(-1, *(1,) * (slope.dim() - 1)))


def rooted(optimizer: torch.optim.Optimizer, largest: float, models: int) -> None:
    """Cut gradients longer than ``largest`` to ``largest`` times the root of their norm.

    A slip of the published attentive reader, which compares squares and then divides by their
    fourth root: with 10, a norm of 101 becomes 100.5 and one of 10,000 becomes 1,000.
    """
    slopes = [p.grad for group in optimizer.param_groups for p in group["params"]]
    rows = [slope.view(models, -1) for slope in slopes if slope is not None]
    norm = torch.stack([row.square().sum(1) for row in rows]).sum(0).sqrt()
    factor = torch.where(norm > largest, largest / norm.sqrt(), 1.0)
    for row in rows:
        row.mul_(factor[:, None])


def clipped_each(optimizer: torch.optim.Optimizer, largest: float, models: int) -> None:
    """Cut the gradient of each tensor of each of several stacked models to ``largest``."""
    for group in optimizer.param_groups:
        for slope in (p.grad for p in group["params"] if p.grad is not None):
            rows = slope.view(models, -1)  # of a stack the first axis is the model
            rows.mul_((largest / (rows.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1))


# The hot start of an Adam whose bias correction mistakes one minus beta for beta.


BETAS = (0.9, 0.999)


def heat(t: int) -> float:
    """The effective step of update ``t``, from 1, over that of Adam: 3.5, at most 6.6, later 1.

    The code of order embeddings and skip-thoughts (``optim.py``) calls b1 = 0.1 and b2 = 0.001
    what Kingma and Ba (2015) call 1 - beta, and corrects by 1 - b^t where 1 - beta^t is due: by
    almost nothing. The two means start at 0 all the same, the second one slower.
    """
    theirs, right = (
        (1 - second**t) ** 0.5 / (1 - first**t)
        for first, second in (tuple(1 - beta for beta in BETAS), BETAS)
    )
    return theirs / right


def heated(optimizer: torch.optim.Optimizer) -> None:
    """Multiply the rates of an Adam's coming update by its :func:`heat`.

    Called before each update, when the rates are those of Adam. How many there were is counted
    in its groups, which are saved with it: Adam's own count is on the device.
    """
    for group in optimizer.param_groups:
        group["updates"] = group.get("updates", 0) + 1
        group["lr"] *= heat(group["updates"])
