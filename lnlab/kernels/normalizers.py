"""The normalizers of lnlab.nn, each by one of torch's own operators.

A fused normalizer is a subclass of the reference with the same settings, statistics and state;
only its call is torch's operator. It equals the reference up to rounding, in torch's range,
which is narrower in two respects.

- group_norm, instance_norm and batch_norm compute a * scale + shift, so that equal numbers
  far from 0 come out as some noise where the reference gives ``b`` itself.
- Torch adds up squares in the dtype of ``a``. In float32 and bfloat16 their sum, over all
  values of one statistic, must stay below 3.4e38: the norm of these values below 1.8e19.
  Beyond that the fused form gives ``b`` or NaN, while the reference (RMSNorm's apart) needs
  only the variance to be below 3.4e38. The gradient of rms_norm has 1/sigma^3 and loses its
  digits from sigma = 4e12 on.

On the reference stay statistics of a single value; BatchNorm over a batch with eps = 0,
which torch refuses; and BatchNorm whose running statistics are not in the dtype of the rest.
"""

from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.nn import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Normalizer,
    RMSNorm,
    at_least_float32,
    inside_root,
)


class FusedLayerNorm(LayerNorm):
    """:class:`~lnlab.nn.LayerNorm` by torch's layer_norm, or group_norm over space.

    A position alone is a row of units to layer_norm, once the units are the last axis.
    """

    stacks = in_torch = True

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        a_, g, b = to_common_dtype(a, self.g, self.b)
        if self.space and self.per_position:
            rows = a_.movedim(self.unit_axis, -1)
            h = F.layer_norm(rows, (self.units,), g, b, self.eps)
            return h.movedim(-1, self.unit_axis).to(a.dtype)
        if g is not None and g.dim() > 1:
            h = affine_per_model(F.layer_norm(a_, (self.units,), eps=self.eps), g, b)
            return h.to(a.dtype)
        if not self.space:
            return F.layer_norm(a_, (self.units,), g, b, self.eps).to(a.dtype)
        if values_per_example(a, self.space) == 1:
            return super().forward(a, W, t)
        h = F.group_norm(merge_axes_before_units(a_, self.space), 1, g, b, self.eps)
        return h.view(a.shape).to(a.dtype)


class FusedGroupNorm(GroupNorm):
    """:class:`~lnlab.nn.GroupNorm` by torch's group_norm."""

    in_torch = True

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        if values_per_example(a, self.space) == self.num_groups:
            return super().forward(a, W, t)
        a_, g, b = to_common_dtype(a, self.g, self.b)
        h = F.group_norm(
            merge_axes_before_units(a_, self.space), self.num_groups, g, b, self.eps
        )
        return h.view(a.shape).to(a.dtype)


class FusedInstanceNorm(InstanceNorm):
    """:class:`~lnlab.nn.InstanceNorm` by torch's instance_norm."""

    in_torch = True

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        if values_per_example(a, self.space) == self.units or not a.numel():
            return super().forward(a, W, t)
        # of a bfloat16 torch would round the mean to bfloat16 too
        examples = merge_axes_before_units(at_least_float32(a), self.space)
        a_, g, b = to_common_dtype(examples, self.g, self.b)
        h = F.instance_norm(a_, weight=g, bias=b, eps=self.eps)
        return h.view(a.shape).to(a.dtype)


class FusedRMSNorm(RMSNorm):
    """:class:`~lnlab.nn.RMSNorm` by torch's rms_norm."""

    stacks = in_torch = True

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        a_, g, b = to_common_dtype(a if self.b is None else at_least_float32(a), self.g, self.b)
        if g is not None and g.dim() > 1:
            h = F.rms_norm(a_, (self.units,), eps=self.eps)
            return affine_per_model(h, g, b).to(a.dtype)
        h = F.rms_norm(a_, (self.units,), g, self.eps)
        return (h if b is None else h + b).to(a.dtype)


class FusedBatchNorm(BatchNorm):
    """:class:`~lnlab.nn.BatchNorm` by torch's batch_norm."""

    in_torch = True

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        if torch_batch_norm_fails(self, a):
            return super().forward(a, W, t)
        a_, g, b = to_common_dtype(
            merge_axes_before_units(at_least_float32(a), self.space), self.g, self.b
        )
        # torch updates the statistics it is given: none where evaluation uses the batch
        running = self.training or not self.uses_batch
        mean, var = (self.running_mean, self.running_var) if running else (None, None)
        h = F.batch_norm(a_, mean, var, g, b, self.uses_batch, self.momentum, self.eps)
        return h.view(a.shape).to(a.dtype)


def torch_batch_norm_fails(norm: BatchNorm, a: Tensor) -> bool:
    """Return True if torch's batch_norm refuses ``a`` (B, H, *space) or returns noise."""
    alone = norm.uses_batch and (a.numel() <= norm.units or not norm.eps)
    return alone or at_least_float32(a).dtype != norm.running_mean.dtype


FUSED: dict[type[Normalizer], type[Normalizer]] = {
    LayerNorm: FusedLayerNorm,
    GroupNorm: FusedGroupNorm,
    InstanceNorm: FusedInstanceNorm,
    RMSNorm: FusedRMSNorm,
    BatchNorm: FusedBatchNorm,
}


def has_torch_operator(norm: Normalizer) -> bool:
    """Return True if torch's operator has the settings of this normalizer."""
    if getattr(norm, "root", inside_root) is not inside_root or getattr(norm, "correction", 0):
        return False
    return not (isinstance(norm, RMSNorm) and norm.space)


def affine_per_model(h: Tensor, g: Tensor, b: Tensor | None) -> Tensor:
    """Apply g and b (S, H) of S models to h (S, B, H), which torch's operators do not."""
    g = g.unsqueeze(1)
    return g * h if b is None else torch.addcmul(b.unsqueeze(1), g, h)


def values_per_example(a: Tensor, space: int) -> int:
    """Return the number of values per example of a (*examples, H, *space).

    A statistic of a single value is left to the reference: torch's operators refuse it in
    training mode, or return noise.
    """
    return a.shape[-1 - space :].numel()


def merge_axes_before_units(a: Tensor, space: int) -> Tensor:
    """Reshape (*examples, H, *space) to (B, H, *space), with B = 1 without such an axis."""
    return a if a.dim() == 2 + space else a.reshape(-1, *a.shape[-1 - space :])


def to_common_dtype(
    a: Tensor, g: Tensor | None, b: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return ``a`` (*examples, H, *space), g (H,) and b (H,) in the widest dtype among them.

    Not every device takes a mixture.
    """
    dtype = a.dtype
    if (g is None or g.dtype == dtype) and (b is None or b.dtype == dtype):
        return a, g, b
    dtype = reduce(torch.promote_types, (v.dtype for v in (a, g, b) if v is not None))
    return a.to(dtype), None if g is None else g.to(dtype), None if b is None else b.to(dtype)
