"""The reference normalizers exchanged for torch's own operators, where torch has them."""

import copy
import warnings
from typing import TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.norms import (
    BatchNorm,
    GroupNorm,
    Identity,
    InstanceNorm,
    LayerNorm,
    Normalizer,
    RMSNorm,
    inside_root,
)

Module = TypeVar("Module", bound=nn.Module)


class LeftOnReference(UserWarning):
    """Some normalizers have no fused form and stay as they are."""


class FusedLayerNorm(LayerNorm):
    """:class:`~lnlab.norms.LayerNorm` by torch's layer_norm, or group_norm over space."""

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        if not self.space:
            return F.layer_norm(a, (self.units,), self.g, self.b, self.eps)
        return F.group_norm(a, 1, self.g, self.b, self.eps)


class FusedGroupNorm(GroupNorm):
    """:class:`~lnlab.norms.GroupNorm` by torch's group_norm."""

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        cases = a.flatten(0, -2 - self.space)
        return F.group_norm(cases, self.groups, self.g, self.b, self.eps).view_as(a)


class FusedInstanceNorm(InstanceNorm):
    """:class:`~lnlab.norms.InstanceNorm` by torch's instance_norm."""

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        return F.instance_norm(a, weight=self.g, bias=self.b, eps=self.eps)


class FusedRMSNorm(RMSNorm):
    """:class:`~lnlab.norms.RMSNorm` by torch's rms_norm."""

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        h = F.rms_norm(a, (self.units,), self.g, self.eps)
        return h if self.b is None else h + self.b


class FusedBatchNorm(BatchNorm):
    """:class:`~lnlab.norms.BatchNorm` by torch's batch_norm."""

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        if a.numel() == self.units:  # one value a unit: torch refuses it
            return super().forward(a, W, t)
        cases = a.flatten(0, -2 - self.space)
        remember = self.training or not self.from_batch
        mean, var = (self.running_mean, self.running_var) if remember else (None, None)
        h = F.batch_norm(
            cases, mean, var, self.g, self.b, self.from_batch, self.momentum, self.eps
        )
        return h.view_as(a)


FUSED: dict[type[Normalizer], type[Normalizer]] = {
    LayerNorm: FusedLayerNorm,
    GroupNorm: FusedGroupNorm,
    InstanceNorm: FusedInstanceNorm,
    RMSNorm: FusedRMSNorm,
    BatchNorm: FusedBatchNorm,
}


def fuse(model: Module) -> Module:
    """``model`` with torch's operators in it; parameters and buffers are the very same.

    Equal to the reference up to rounding, but in torch's range: of a float32 whose square
    overflows it makes 0 or NaN. What torch has no operator for stays on the reference, with
    one :class:`LeftOnReference` warning that names it.
    """
    shared = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    fused = copy.deepcopy(model, shared)
    left = set()
    for module in fused.modules():
        if type(module) in FUSED and _in_torch(module):
            module.__class__ = FUSED[type(module)]
        elif isinstance(module, Normalizer) and not isinstance(
            module, (*FUSED.values(), Identity)
        ):
            left.add(type(module).__name__)
    if left:
        names = ", ".join(sorted(left))
        warnings.warn(f"no fused form, left on the reference: {names}.", LeftOnReference, 2)
    return fused


def _in_torch(norm: Normalizer) -> bool:
    """Whether torch's operator has the settings of this normalizer."""
    if norm.root is not inside_root or getattr(norm, "correction", 0):
        return False
    if isinstance(norm, RMSNorm):
        return not norm.space
    return not (isinstance(norm, LayerNorm) and norm.per_position and norm.space)
