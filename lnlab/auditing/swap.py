"""Other normalizers in somebody's module: first what would change, then the new module.

plan = swap(net, {nn.BatchNorm2d: nn.GroupNorm, "blocks.*.norm1": RMSNorm})
print(plan)
new = plan.make()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from html import escape
from math import gcd
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase as TorchNorm

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.module_copy import check_type, original_module
from lnlab.auditing.finding import count, html_table
from lnlab.auditing.subject import AuditSubject, Call
from lnlab.nn import Normalizer

# A normalizer made for the place of another: its units, its axes, its eps.


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


Rules = Mapping[type[nn.Module] | str, Any]
"""The parts, by class or by a pattern of their names, and what stands in their place: a
class, ``partial`` of one, or a function from the old part to the new."""


@dataclass(frozen=True)
class Exchange:
    """One part and what takes its place.

    Attributes:
        name: what the part is called; "" is the module itself.
        old: the class that was there, with its settings.
        new: the one that will be.
        kept: names of new parameters and buffers, and of the old ones whose values they get.
        lost: names of old parameters and buffers that have no place, with their shapes.
        fresh: names of new ones that start as they do, with their shapes.
    """

    name: str
    old: str
    new: str
    kept: dict[str, str]
    lost: dict[str, tuple[int, ...]]
    fresh: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Swap:
    """The plan of an exchange; prints as a table. Nothing has been changed yet.

    Attributes:
        exchanges: one a part that is exchanged.
        parameters: how many numbers are trained, before and after.
        moved: the greatest change of an output, of the largest; None without an input.
    """

    exchanges: tuple[Exchange, ...]
    parameters: tuple[int, int]
    moved: float | None
    _new: nn.Module

    def make(self) -> nn.Module:
        """The new module: a copy, with every value moved across that has a place."""
        return deepcopy(self._new)

    def state_dict(self, old: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict of the old module, a checkpoint, as one of the new.

        What is fresh in the new module has the value that it starts with.

        Raises:
            KeyError: where ``old`` is none of the old module.
        """
        gone = {f"{e.name}." if e.name else "" for e in self.exchanges}
        back = {
            _path(e.name, new): _path(e.name, own)
            for e in self.exchanges
            for new, own in e.kept.items()
        }
        made = {}
        for name, value in self._new.state_dict().items():
            source = back.get(name, name)
            exchanged = any(name.startswith(prefix) for prefix in gone)
            if exchanged and name not in back:
                made[name] = value.clone()
            elif source in old:
                made[name] = old[source].reshape(value.shape).clone()
            else:
                raise KeyError(
                    f"the state has no {source}: give one of the module before the exchange."
                )
        return made

    def rows(self) -> list[dict[str, str]]:
        """One a part: name, old, new, and what is kept, lost and fresh."""
        return [
            {"part": e.name or "the module itself", "old": e.old, "new": e.new,
             "kept": ", ".join(f"{n} ← {o}" if n != o else n for n, o in e.kept.items()),
             "lost": _shapes(e.lost), "fresh": _shapes(e.fresh)}
            for e in self.exchanges
        ]  # fmt: skip

    def summary(self) -> str:
        """The number of parts and parameters, and by how much the outputs move."""
        before, after = self.parameters
        moved = "" if self.moved is None else f"; outputs move by {self.moved:.2g}"
        return (
            f"{count(len(self.exchanges), 'part')} exchanged; "
            f"parameters {before:,} → {after:,}{moved}"
        )

    def __str__(self) -> str:
        rows = self.rows()
        lines = [f"{r['part']}: {r['old']} → {r['new']}{_fate(r)}" for r in rows]
        return "\n".join([self.summary(), *lines])

    def _repr_html_(self) -> str:
        import pandas as pd

        table = html_table(pd.DataFrame(self.rows()))
        return f"<p>{escape(self.summary())}</p>{table}"


def _fate(row: dict[str, str]) -> str:
    said = [f"{what} {row[what]}" for what in ("kept", "lost", "fresh") if row[what]]
    return f" ({'; '.join(said)})" if said else ""


def _shapes(named: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in named.items())


def _path(owner: str, name: str) -> str:
    return f"{owner}.{name}" if owner else name


def swap(module: nn.Module, rules: Rules, inputs: Any = None) -> Swap:
    """The plan of an exchange of parts of ``module``, and the way to carry it out.

    The module itself is not touched; a part that stands in several places is exchanged once.
    Of rules that fit one part, a name goes before a class, and the first before the others.

    Args:
        module: of any make; behind torch.compile it is taken as it was before.
        rules: by class (a subclass counts) or pattern of names (``"blocks.*.norm1"``, as file
            names are matched), what takes the place: a class of torch.nn or lnlab.nn,
            which gets the units, axes and eps of the old one; ``partial`` of a class; or a
            function of the old part.
        inputs: what the module is called with; with it the new module is tried.

    Raises:
        TypeError: where ``module`` or ``rules`` are none, or a rule's key is neither a class
            nor a name.
        ValueError: where a rule fits no part, a normalizer cannot take the place of another
            (as of a subclass of torch's that has a forward or parts of its own, for which a
            function is asked), or the new module does not take ``inputs`` or returns another
            shape.
    """
    check_type("rules", rules, Mapping, "{nn.BatchNorm2d: nn.GroupNorm}, by class or name")
    before = None if inputs is None else AuditSubject(module, Call.of(inputs))
    new = deepcopy(original_module(module))
    for key in rules:
        if not isinstance(key, str | type):
            raise TypeError(f"{key!r} is no rule: give a class or a pattern of names.")
    chosen = _chosen(new, rules)
    made: dict[int, nn.Module] = {}
    exchanges = []
    spaces = {} if before is None else _spaces(before)
    for name, (part, by) in chosen.items():
        if id(part) not in made:
            made[id(part)] = made_for(name, part, by, spaces.get(name))
        exchanges.append(_carry(name, part, made[id(part)]))
        new = _put(new, name, made[id(part)])
    _leave_the_fast_path(new)
    counts = _count(module), _count(new)
    moved = None if before is None else _tried(before, new, inputs)
    return Swap(tuple(exchanges), counts, moved, new)


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _chosen(module: nn.Module, rules: Rules) -> dict[str, tuple[nn.Module, Any]]:
    """Every part that a rule fits, wherever it stands, with what takes its place."""
    names = [rule for rule in rules if isinstance(rule, str)]
    kinds = [rule for rule in rules if not isinstance(rule, str)]
    parts = dict(module.named_modules(remove_duplicate=False))
    found: dict[str, tuple[nn.Module, Any]] = {}
    used = set()
    for name, part in parts.items():
        if any(name.startswith(f"{outer}.") for outer in found if outer):
            continue  # a part of what is exchanged
        rule = next((r for r in names if fnmatchcase(name, r)), None)
        rule = next((r for r in kinds if isinstance(part, r)), None) if rule is None else rule
        if rule is not None:
            found[name] = part, rules[rule]
            used.add(rule)
    for rule in rules:
        if rule not in used:
            there = sorted({type(p).__name__ for p in parts.values()})
            raise ValueError(
                f"the rule {_named(rule)} fits no part: there are {', '.join(there)}."
            )
    return found


def _named(rule: type | str) -> str:
    return repr(rule) if isinstance(rule, str) else rule.__name__


def _carry(name: str, old: nn.Module, new: nn.Module) -> Exchange:
    """Give gain and bias of ``old`` to ``new`` where they fit, and say what became of all."""
    sources = dict(old.named_parameters()) | dict(old.named_buffers())
    targets = dict(new.named_parameters()) | dict(new.named_buffers())
    kept: dict[str, str] = {}
    for n, target in targets.items():
        source = next((s for s in _namesakes(n) if s in sources), None)
        if source is not None and sources[source].numel() == target.numel():
            kept[n] = source
            with torch.no_grad():
                target.copy_(sources[source].reshape(target.shape))
    return Exchange(
        name, _settings(old), _settings(new), kept,
        lost={n: tuple(v.shape) for n, v in sources.items() if n not in kept.values()},
        fresh={n: tuple(v.shape) for n, v in targets.items() if n not in kept},
    )  # fmt: skip


def _namesakes(name: str) -> tuple[str, ...]:
    """The names that the same thing has elsewhere, its own first."""
    same = next((names for names in (GAINS, BIASES) if name in names), ())
    return name, *(other for other in same if other != name)


def _settings(part: nn.Module) -> str:
    """A part in one line, as it prints."""
    lines = repr(part).splitlines()
    return lines[0] if len(lines) == 1 else f"{type(part).__name__}(…)"


def _put(module: nn.Module, name: str, new: nn.Module) -> nn.Module:
    """``module`` with ``new`` at ``name``; that is ``new`` itself where the name is empty."""
    if not name:
        return new
    owner, _, last = name.rpartition(".")
    module.get_submodule(owner)._modules[last] = new
    return module


def _leave_the_fast_path(module: nn.Module) -> None:
    """Let torch's transformer layers call their norms: in evaluation they read eps and weights
    of a LayerNorm and go a way of their own, which another normalizer does not have."""
    for part in module.modules():
        if isinstance(part, nn.TransformerEncoderLayer) and not all(
            type(norm) is nn.LayerNorm for norm in (part.norm1, part.norm2)
        ):
            part.activation_relu_or_gelu = 0
        if isinstance(part, nn.TransformerEncoder):
            part.use_nested_tensor = False


def _spaces(audited: AuditSubject) -> dict[str, int]:
    """The spatial axes that each part whose units stand along axis 1 is given."""
    return {
        visit.name: visit.inputs[0].dim() - 2
        for visit in audited.trace.calls
        if isinstance(visit.module, TorchNorm | nn.GroupNorm) and visit.inputs
    }


def _tried(before: AuditSubject, new: nn.Module, inputs: Any) -> float:
    """The distance of the outputs of the new module from those of the old.

    Raises:
        ValueError: where the new one does not take the input, or returns another shape.
    """
    try:
        after = AuditSubject(new, Call.of(inputs))
    except ValueError as error:
        raise CannotSwap(f"with the new parts, {error}") from error
    y, z = before.read(before.output), after.read(after.output)
    if y.shape != z.shape:
        raise CannotSwap(f"the output is {tuple(z.shape)} and was {tuple(y.shape)}.")
    return relative_change(z, y)
