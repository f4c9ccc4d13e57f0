"""Optimizers, and what is done to gradients and learning rates before their steps."""

from collections.abc import Callable, Iterator
from inspect import unwrap
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

# Torch wraps the methods of its optimizers to tell its compiler, ``torch._dynamo``, what not to
# trace, and imports it for that even where nobody traces anything: two seconds. Here the
# methods are those inside of the wrapping: the same steps, to the last bit.

Kind = TypeVar("Kind", bound=Optimizer)
WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def without_torch_compiler(kind: type[Kind]) -> type[Kind]:
    """Return a subclass of one of torch's optimizers that does not import its compiler."""
    methods = {name: unwrap(getattr(kind, name)) for name in WRAPPED}
    # what the wrapping of a step does besides: no step here is differentiable
    methods["step"] = torch.no_grad()(unwrap(kind.step))
    return cast("type[Kind]", type(kind.__name__, (kind,), methods))


Adam = without_torch_compiler(torch.optim.Adam)
AdamW = without_torch_compiler(torch.optim.AdamW)
SGD = without_torch_compiler(torch.optim.SGD)


def call_before_each_step(
    optimizer: Optimizer, change: Callable[..., None], **settings: Any
) -> None:
    """Have ``change(optimizer, **settings)`` called before each step of an optimizer."""
    optimizer.register_step_pre_hook(lambda optimizer, *_: change(optimizer, **settings))


# Of several stacked models the first axis of every tensor is the model: each model's gradient
# is clipped by itself.


def clip_grad_norm_(optimizer: Optimizer, max_norm: float, models: int) -> None:
    """Clip the gradient of each of several stacked models to a norm of ``max_norm``."""
    grads = _grads(optimizer)
    if models == 1:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        norm = nn.utils.get_total_norm(grads)
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
        return
    squares = torch.stack([grad.flatten(1).square().sum(1) for grad in grads]).sum(0)
    factor = (max_norm / (squares.sqrt() + 1e-6)).clamp(max=1)
    for grad in grads:
        grad.mul_(factor.view(-1, *(1,) * (grad.dim() - 1)))


def clip_by_sqrt_of_norm_(optimizer: Optimizer, max_norm: float, models: int) -> None:
    """Scale gradients longer than ``max_norm`` to ``max_norm`` times the root of their norm.

    A mistake of the published attentive reader, which compares squares and then divides by
    their fourth root: with 10, a norm of 101 becomes 100.5 and one of 10,000 becomes 1,000.
    """
    rows = [grad.view(models, -1) for grad in _grads(optimizer)]
    norm = torch.stack([row.square().sum(1) for row in rows]).sum(0).sqrt()
    factor = torch.where(norm > max_norm, max_norm / norm.sqrt(), 1.0)
    for row in rows:
        row.mul_(factor[:, None])


def clip_grad_norm_per_tensor_(optimizer: Optimizer, max_norm: float, models: int) -> None:
    """Clip the gradient of each tensor of each of several stacked models to ``max_norm``."""
    for grad in _grads(optimizer):
        rows = grad.view(models, -1)
        rows.mul_((max_norm / (rows.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1))


def _grads(optimizer: Optimizer) -> list[Tensor]:
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    return [p.grad for p in parameters if p.grad is not None]


# The code of order embeddings and skip-thoughts (``optim.py``) calls b1 = 0.1 and b2 = 0.001
# what Kingma and Ba (2015) call 1 - beta, and corrects by 1 - b^t where 1 - beta^t is due: by
# almost nothing. The two means start at 0 all the same, the second one slower.

BETAS = (0.9, 0.999)


def uncorrected_step_ratio(t: int) -> float:
    """Return the effective step of update ``t``, from 1, of an Adam without bias correction.

    As a multiple of Adam's own step: 3.5 at first, at most 6.6, later 1.
    """
    beta1, beta2 = BETAS
    theirs = (1 - (1 - beta2) ** t) ** 0.5 / (1 - (1 - beta1) ** t)
    return theirs / ((1 - beta2**t) ** 0.5 / (1 - beta1**t))


PublishedOrStandardAdam = str  # "published": without bias correction


def adam(
    parameters: Iterator[nn.Parameter], lr: float, *, bias_correction: bool = True
) -> Optimizer:
    """Return Adam; without bias correction that of the two codes above."""
    optimizer = Adam(parameters, lr=lr, fused=True)
    if not bias_correction:
        call_before_each_step(optimizer, undo_bias_correction_in_lr_)
    return optimizer


def undo_bias_correction_in_lr_(optimizer: Optimizer) -> None:
    """Multiply the rates of an Adam's coming update by :func:`uncorrected_step_ratio`.

    Called before each update, when the rates are those of Adam. How many there were is counted
    in its groups, which are saved with it: Adam's own count is on the device.
    """
    for group in optimizer.param_groups:
        group["updates"] = group.get("updates", 0) + 1
        group["lr"] *= uncorrected_step_ratio(group["updates"])
