"""The operator of torch.nn that a normalizer comes nearest to."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from lnlab.probes.conformance.identify import Divisor, Extent, Parameter


@dataclass(frozen=True)
class Peer:
    """An operator of torch.nn, on inputs of a certain shape.

    Attributes:
        name: "LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm(4)", "InstanceNorm", or, where
            nothing tells them apart, "LayerNorm or InstanceNorm".
        axes: what its statistics run over.
        groups: into how many parts it cuts axis 1; 1 for all but GroupNorm.
        gain_axes: along which its gain may vary.
    """

    name: str
    axes: tuple[int, ...]
    gain_axes: tuple[int, ...]
    groups: int = 1

    @property
    def over_cases(self) -> bool:
        """True if its statistics are over the cases."""
        return 0 in self.axes

    def __call__(self, x: Tensor, eps: float) -> Tensor:
        """The operator without gain and bias, as torch computes it."""
        if self.name == "BatchNorm":
            (unit,) = (a for a in range(x.dim()) if a not in self.axes)
            moved = x.movedim(unit, 1)
            return F.batch_norm(moved, None, None, training=True, eps=eps).movedim(1, unit)
        if self.groups > 1:
            return F.group_norm(x, self.groups, eps=eps)
        last = tuple(range(-len(self.axes), 0))
        moved = x.movedim(self.axes, last)
        shape = moved.shape[-len(self.axes) :]
        operator = F.rms_norm if self.name == "RMSNorm" else F.layer_norm
        return operator(moved, shape, eps=eps).movedim(last, self.axes)


def nearest(over: Extent, law: Divisor, roles: list[Parameter], x: Tensor) -> Peer:
    """The operator whose statistics are most like those found on x (B, ...).

    The extent decides, then whether anything is centred; between operators that differ only
    in what the gain belongs to, the gain does.
    """
    gains = {axis for role in roles if role.role.startswith("gain") for axis in role.axes}
    of_case = tuple(range(1, x.dim()))
    if 0 in over.axes:
        unit = _unit_axis(over, gains, x)
        return Peer("BatchNorm", tuple(a for a in range(x.dim()) if a != unit), (unit,))
    if over.split is not None:
        return Peer(f"GroupNorm({over.groups})", of_case, (1,), over.groups)
    # The gain tells apart what has the same statistics: over a whole case (C, T), LayerNorm has
    # one for each of the C T values, GroupNorm of one group one for each of the C channels.
    joint = x.dim() > 2 and over.axes == of_case and gains == {1}
    if not (law.centred or law.about_mean):
        axes = over.axes if joint or not gains else tuple(sorted(gains))
        return Peer("RMSNorm", axes, axes)
    if joint:
        return Peer("GroupNorm(1)", of_case, (1,))
    if x.dim() > 2 and over.axes == of_case[1:] and gains <= {1}:
        # over T of (B, C, T) without a gain: LayerNorm(T) and InstanceNorm are one function
        either = x.dim() == 3 and not gains
        name = "LayerNorm or InstanceNorm" if either else "InstanceNorm"
        return Peer(name, over.axes, (1,))
    axes = tuple(sorted(gains)) or over.axes
    return Peer("LayerNorm", axes, axes)


def _unit_axis(over: Extent, gains: set[int], x: Tensor) -> int:
    """The axis that a batch normalization keeps apart: that of the gain, else the second."""
    rest = [axis for axis in range(x.dim()) if axis not in over.axes or axis == over.split]
    if len(gains) == 1 and gains <= set(rest):
        return gains.pop()
    return rest[0] if len(rest) == 1 else 1
