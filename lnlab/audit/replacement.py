"""A normalizer made for the place of another: its units, its axes, its eps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase as TorchNorm

from lnlab.nn import Normalizer

GAINS, BIASES = ("weight", "g", "gamma", "scale"), ("bias", "b", "beta", "shift")
"""The names under which normalizers keep their gain and their bias."""

GROUPS, MEMBERS = 32, 4
"""Wu & He (2018) divide the units into 32 groups; fewer where one would have less than four
members, of which no statistics can be taken."""


TORCHS = (TorchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""torch's normalizers; the first has batch and instance norm below it."""


class CannotSwap(ValueError):
    """A normalizer cannot stand in the place of another; the message says why."""


@dataclass(frozen=True)
class Slot:
    """The place that a normalizer must fit: its units, where they stand, and its eps.

    Attributes:
        units: H.
        space: the axes behind that of the units: 2 for BatchNorm2d, 0 for LayerNorm.
        eps: that of the normalizer that is there; None where it has none.
        shape: what torch's LayerNorm and RMSNorm call the normalized shape.
    """

    units: int
    space: int
    eps: float | None
    shape: tuple[int, ...]


def place_of(part: nn.Module, space: int | None = None) -> Slot:
    """The place of a normalizer, read off its attributes.

    Args:
        part: the normalizer.
        space: how many spatial axes its input has, where that is known: BatchNorm1d and
            GroupNorm do not say.

    Raises:
        CannotSwap: where it does not say how many units it has.
    """
    eps = getattr(part, "eps", None)
    eps = eps if isinstance(eps, float) else None
    if isinstance(part, TorchNorm):
        said = {"2": 2, "3": 3}.get(type(part).__name__.rstrip("d")[-1:], 0)
        space = said if space is None else space
        return Slot(part.num_features, space, eps, (part.num_features,))
    if isinstance(part, nn.GroupNorm):
        return Slot(part.num_channels, 2 if space is None else space, eps, (part.num_channels,))
    if isinstance(part, Normalizer):
        return Slot(part.units, part.space, eps, (part.units,))
    shape = getattr(part, "normalized_shape", None)
    if shape is None:
        gain = next((getattr(part, n, None) for n in GAINS), None)
        shape = tuple(gain.shape) if isinstance(gain, Tensor) and gain.dim() else None
    if shape is None:
        raise CannotSwap(
            f"{type(part).__name__} does not say how many units it has: give a function from "
            "the old part to the new."
        )
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    # over several axes: those of units and space, in this order, as torch has them
    units, *spatial = shape
    return Slot(units, len(spatial), eps, shape)


def made_for(name: str, part: nn.Module, by: Any, space: int | None) -> nn.Module:
    """The part that takes the place of ``part``, on its device and in its precision."""
    kind = by.func if isinstance(by, partial) else by
    if isinstance(by, nn.Module) or not callable(by):
        raise CannotSwap(
            f"{name}: {by!r} is no rule for {type(part).__name__}: give a class, partial of "
            f"one, or a function of the old part, lambda old: nn.Identity()."
        )
    try:
        new = _built(part, by, kind, space) if isinstance(kind, type) else by(part)
    except CannotSwap as error:
        raise CannotSwap(f"{name}: {error}") from error
    except Exception as error:  # whatever a function of the user's may raise
        raise CannotSwap(
            f"{name}: {_title(by)} cannot take the place of {type(part).__name__}: {error}"
        ) from error
    if not isinstance(new, nn.Module):
        raise CannotSwap(f"{name}: {_title(by)} made a {type(new).__name__}, no module.")
    like = next(part.parameters(), None)
    new = new.to(like.device, like.dtype) if like is not None else new
    return new.train(part.training)


def _title(by: Any) -> str:
    return getattr(getattr(by, "func", by), "__name__", repr(by))


def _built(part: nn.Module, by: Callable, kind: type, space: int | None) -> nn.Module:
    """A class made for the place of ``part``."""
    _refuse_more_than_a_norm(part)
    if issubclass(kind, nn.Identity):
        return by()
    place = place_of(part, space)
    own = by.keywords if isinstance(by, partial) else {}
    eps = {"eps": place.eps} if place.eps is not None and "eps" not in own else {}
    if issubclass(kind, Normalizer):
        return _ours(by, place, own, eps)
    if issubclass(kind, nn.GroupNorm):
        groups = {} if isinstance(by, partial) else {"num_groups": _groups(place.units)}
        return by(num_channels=place.units, **groups, **eps)
    if issubclass(kind, nn.LayerNorm | nn.RMSNorm):
        if place.space and len(place.shape) == 1:
            raise CannotSwap(
                f"{kind.__name__} of torch runs over the last axes, and the units of "
                f"{type(part).__name__} stand along axis 1: take lnlab.nn.{kind.__name__}, "
                "or nn.GroupNorm of one group."
            )
        return by(place.shape, **eps)
    if issubclass(kind, TorchNorm):
        return by(place.units, **eps)
    return by(place.units)


def _refuse_more_than_a_norm(part: nn.Module) -> None:
    """Raise CannotSwap for a subclass of one of torch's norms that may do more than it does.

    An activation in it, as in timm's BatchNormAct2d, would go with the norm and be missed.
    """
    if not isinstance(part, TORCHS):
        return
    kind = type(part)
    torchs = next(c for c in kind.__mro__ if c.__module__.startswith("torch.nn.modules."))
    has = [name for name, _ in part.named_children()]
    if getattr(part.forward, "__func__", None) is torchs.forward and not has:
        return
    why = f"has parts of its own ({', '.join(has)})" if has else "has a forward of its own"
    raise CannotSwap(
        f"{kind.__name__} is a subclass of nn.{torchs.__name__} that {why}: what it does "
        "besides would be lost. Give a function from the old part to the new that keeps it, "
        "lambda old: nn.Sequential(nn.GroupNorm(1, old.num_features), nn.ReLU())."
    )


def _groups(units: int) -> int:
    """At most GROUPS equal groups of at least MEMBERS units, if there are so many."""
    groups = gcd(GROUPS, units)
    while groups > 1 and units // groups < MEMBERS:
        groups //= 2
    return groups


def _ours(by: Callable, place: Slot, own: Mapping, eps: Mapping) -> nn.Module:
    """One of lnlab.nn, with the spatial axes of its place; some have no eps."""
    space = {"space": place.space} if place.space and "space" not in own else {}
    try:
        return by(place.units, **space, **eps)
    except TypeError:
        return by(place.units, **space)
