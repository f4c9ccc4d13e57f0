r"""The backward pass of a normalizer: what its statistics do to a gradient.

Xu et al. (2019, arXiv:1911.07013), section 3, find that layer norm owes its success to the
derivatives of mu and sigma rather than to mu and sigma. With :math:`y = (a-\mu)/\sigma` of one
example, H units, g = 1 and a gradient :math:`r = \partial L/\partial h` coming from above,

.. math:: \frac{\partial L}{\partial a} = \underbrace{\frac{r}{\sigma}}_{\text{direct}}
          \underbrace{-\frac{1}{\sigma}\,\overline{r}}_{\text{through }\mu}
          \underbrace{-\frac{1}{\sigma}\, y\,\overline{r y}}_{\text{through }\sigma}.

The path through mu moves the mean of the gradient to 0, and that through sigma makes its
variance smaller.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm

from lnlab.analysis.activations import is_known_norm
from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.module_copy import (
    SavedBuffers,
    check_names,
    default_rms_eps,
    frozen_copy_without_hooks,
)
from lnlab.analysis.objective import Loss, Objective, as_objective
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.nn import (
    AffineNormalizer,
    BatchNorm,
    GroupNorm,
    LayerNorm,
    RMSNorm,
    StatisticsMode,
    at_least_float32,
)
from lnlab.threads import in_one_thread_if_small


def as_affine_norm(norm: nn.Module, spatial_axis_count: int = 0) -> AffineNormalizer:
    """Return ``norm``, or one of torch's as ours, with its own gain, bias and statistics.

    ``spatial_axis_count`` is what torch's BatchNorm and GroupNorm do not say.
    """
    if isinstance(norm, AffineNormalizer):
        return norm
    same: AffineNormalizer | None = None
    if not is_known_norm(norm):
        pass
    elif isinstance(norm, nn.LayerNorm) and len(norm.normalized_shape) == 1:
        same = LayerNorm(norm.normalized_shape[0], eps=norm.eps)
    elif isinstance(norm, nn.RMSNorm) and len(norm.normalized_shape) == 1:
        least = default_rms_eps(torch.float32 if norm.weight is None else norm.weight.dtype)
        same = RMSNorm(norm.normalized_shape[0], eps=least if norm.eps is None else norm.eps)
    elif isinstance(norm, nn.GroupNorm):
        same = GroupNorm(
            norm.num_groups, norm.num_channels, eps=norm.eps, space=spatial_axis_count
        )
    elif isinstance(norm, TorchBatchNorm):
        same = BatchNorm(norm.num_features, eps=norm.eps, space=spatial_axis_count)
        if norm.running_mean is None:
            same.mode = StatisticsMode.BATCH
        else:
            for name in ("running_mean", "running_var"):
                same.register_buffer(name, norm.get_buffer(name))
    if same is None:
        axes = len(norm.normalized_shape) if isinstance(norm, nn.LayerNorm | nn.RMSNorm) else 1
        over = f" over {axes} axes" if axes > 1 else ""
        raise TypeError(
            f"{type(norm).__name__}{over} is not supported here: only the norms of lnlab.nn, "
            "and torch's BatchNorm, GroupNorm, and LayerNorm or RMSNorm over one axis."
        )
    parameters = dict(norm.named_parameters())
    same.g, same.b = parameters.get("weight"), parameters.get("bias")
    return same.train(norm.training)


DetachedStatistics = str  # "nothing", "sigma", "mu" or "mu and sigma"


class GradientParts(NamedTuple):
    """The summands of a gradient dL/da, each of the shape of ``a``."""

    direct: Tensor  # mu and sigma held constant
    through_mu: Tensor  # what the derivative of mu adds
    through_sigma: Tensor  # what that of sigma adds

    @property
    def total(self) -> Tensor:
        """The whole gradient dL/da (*examples, H)."""
        return self.direct + self.through_mu + self.through_sigma

    def grad_a_by_detached_statistics(self) -> dict[DetachedStatistics, Tensor]:
        """Return dL/da (*examples, H) with nothing, sigma, mu, or both constant."""
        return {
            "nothing": self.total,
            "sigma": self.direct + self.through_mu,
            "mu": self.direct + self.through_sigma,
            "mu and sigma": self.direct,
        }


@in_one_thread_if_small
def gradient_parts(
    norm: nn.Module, a: Tensor, grad_h: Tensor, W: Tensor | None = None, t: int | None = None
) -> GradientParts:
    """Return the parts of a gradient after the backward pass of a normalizer.

    Args:
        norm: as :func:`as_affine_norm` takes it, in the mode it is in.
        a: its input (*examples, H, *space).
        grad_h: dL/dh (*examples, H, *space) of its output.
        W, t: the weights that made ``a`` and the time step, if the rule reads them.
    """
    rule = frozen_copy_without_hooks(as_affine_norm(norm, max(a.dim() - 2, 0)))
    assert isinstance(rule, AffineNormalizer)
    rule.check_input(a)
    with torch.enable_grad():
        a = at_least_float32(a.detach()).requires_grad_()
        mu, sigma = rule.stats(a, W if W is None else W.detach(), t)

        def backward(mu: Tensor, sigma: Tensor) -> Tensor:
            h = rule.scale_and_shift(a - mu, sigma)
            return torch.autograd.grad(h, a, grad_h.to(h), retain_graph=True)[0]

        direct = backward(mu.detach(), sigma.detach())
        # the gradient is a sum over the paths on which a reaches h: a path is what it adds
        with_mu, with_sigma = backward(mu, sigma.detach()), backward(mu.detach(), sigma)
    return GradientParts(direct, with_mu - direct, with_sigma - direct)


class NormCallWithGradient(NamedTuple):
    """One call of a normalizer inside a model, with the gradient by its output."""

    norm: nn.Module  # a copy of it, with the statistics that it had then
    a: Tensor  # its input
    grad_h: Tensor  # dL/dh of its output
    other_args: tuple  # the arguments after ``a``: W and t, of one of ours

    @property
    def parts(self) -> GradientParts:
        """The parts of dL/da."""
        return gradient_parts(self.norm, self.a, self.grad_h, *self.other_args)


@in_one_thread_if_small
def record_norm_calls(
    objective: Objective, names: Collection[str], *, call_index: int = 0
) -> dict[str, NormCallWithGradient]:
    """Return one call of each normalizer, by its name as ``named_modules`` gives it.

    The loss is evaluated at the model's own parameters, and ``call_index`` counts the calls of
    a normalizer from 0. Those by whose output the loss has no gradient are left out.
    """
    known = dict(objective.module.named_modules())
    check_names("module", names, known)
    modules = {name: known[name] for name in names}
    calls: dict[str, list[tuple[tuple, SavedBuffers, Tensor]]] = {name: [] for name in modules}

    def keep_call(name: str, module: nn.Module, args: tuple, h: Any) -> Any:
        # without gradients, statistics are being recomputed
        if not torch.is_grad_enabled() or not isinstance(h, Tensor) or not args:
            return h
        h = h if h.requires_grad else h.detach().requires_grad_()
        # recomputed statistics are gone afterwards
        calls[name].append((args, SavedBuffers(module), h))
        return h.clone()  # which may be written into

    with ExitStack() as hooks, torch.enable_grad():
        for name, module in modules.items():
            hooks.enter_context(module.register_forward_hook(partial(keep_call, name)))
        # as in training: a reentrant checkpoint lets no gradient in where it sees none
        loss = objective(objective.start.detach().requires_grad_())
    seen = {name: each[call_index] for name, each in calls.items() if call_index < len(each)}
    outputs = [h for _, _, h in seen.values()]
    grads: Any = [None] * len(outputs)
    if loss.requires_grad and outputs:
        grads = torch.autograd.grad(loss, outputs, allow_unused=True)
    found = {}
    for (name, ((a, *rest), buffers, _)), grad_h in zip(seen.items(), grads, strict=True):
        if grad_h is not None:
            norm = frozen_copy_without_hooks(modules[name])
            buffers.copy_to(norm)
            found[name] = NormCallWithGradient(norm, a.detach(), grad_h, tuple(rest))
    return found


class GradientNorms(dict[str, float], AnalysisResult):
    """The Frobenius norm of the gradient of every parameter, by name."""

    def to_frame(self) -> DataFrame:
        """Return one row per parameter."""
        return make_frame(list(self.items()), columns=["parameter", "gradient"])

    def plot(self) -> Figure:
        """Return the norms in the order of the parameters."""
        from lnlab.figures.curves import line_chart_over_depth

        return line_chart_over_depth(list(self), {"gradient": list(self.values())}, y="‖dL/dW‖")


def gradient_norms(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    bn_stats: str | None = None,
) -> GradientNorms:
    """Return the norm of the gradient of every parameter; arguments as of :class:`Objective`.

    Of the matrices of a deep network from bottom to top this is the profile of Xiong et al.
    (2020, arXiv:2002.04745): at the start that of a post-LN transformer is large at the top and
    does not shrink with depth, that of a pre-LN one goes as 1/sqrt(L) for L layers.
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    _, gradient = objective.gradient()
    slices = objective.slices().items()
    return GradientNorms(
        {name: float(vector_norm(gradient[indices])) for name, indices in slices}
    )
