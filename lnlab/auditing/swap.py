"""Other normalizers in a user's module: first what would change, then the new module.

plan = swap(net, {nn.BatchNorm2d: nn.GroupNorm, "blocks.*.norm1": RMSNorm})
print(plan)
new = plan.make()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from math import gcd
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase as TorchBatchOrInstanceNorm

from lnlab.analysis.inputs import Call
from lnlab.analysis.magnitudes import relative_max_change
from lnlab.analysis.module_copy import check_type, uncompiled_module
from lnlab.analysis.norm_identity import identify_norm
from lnlab.analysis.result import DataFrame, TextResult, make_frame
from lnlab.auditing.finding import count_with_noun
from lnlab.auditing.subject import AuditSubject
from lnlab.nn import Normalizer

Rules = Mapping[type[nn.Module] | str, Any]
"""The modules, by class or by a pattern of their names, and what takes their place: a class,
``partial`` of one, or a function from the old module to the new."""

GAINS, BIASES = ("weight", "g", "gamma", "scale"), ("bias", "b", "beta", "shift")
"""The names under which normalizers keep their gain and their bias."""

GROUPS, MEMBERS = 32, 4
"""Wu & He (2018) divide the units into 32 groups; fewer where one would have less than four
members, of which no statistics can be taken."""


class CannotSwap(ValueError):
    """A normalizer cannot take the place of another; the message says why."""


# A normalizer made for the place of another: its units, its axes, its eps.


class NormArguments(NamedTuple):
    """The arguments of a normalizer that takes the place of another.

    Attributes:
        units: H.
        spatial_axes: the axes behind that of the units: 2 for BatchNorm2d, 0 for LayerNorm.
        eps_argument: that of the normalizer that is there; empty where it has none.
        normalized_shape: what torch's LayerNorm and RMSNorm call the normalized shape.
    """

    units: int
    spatial_axes: int
    eps_argument: dict[str, float]
    normalized_shape: tuple[int, ...]


def read_norm_arguments(norm: nn.Module, spatial_axes: int | None = None) -> NormArguments:
    """Return what makes a normalizer that fits the place of ``norm``, from its attributes.

    Args:
        norm: the normalizer.
        spatial_axes: how many spatial axes its input has, where that is known: BatchNorm1d and
            GroupNorm do not say.

    Raises:
        CannotSwap: where it does not say how many units it has.
    """
    eps = getattr(norm, "eps", None)
    eps = {"eps": eps} if isinstance(eps, float) else {}
    if isinstance(norm, TorchBatchOrInstanceNorm):
        axes = {"2": 2, "3": 3}.get(type(norm).__name__.rstrip("d")[-1:], 0)
        units = norm.num_features
        spatial_axes = axes if spatial_axes is None else spatial_axes
        return NormArguments(units, spatial_axes, eps, (units,))
    if isinstance(norm, nn.GroupNorm):
        units = norm.num_channels
        spatial_axes = 2 if spatial_axes is None else spatial_axes
        return NormArguments(units, spatial_axes, eps, (units,))
    if isinstance(norm, Normalizer):
        return NormArguments(norm.units, norm.space, eps, (norm.units,))
    shape = getattr(norm, "normalized_shape", None)
    if shape is None:
        gain = next((getattr(norm, name, None) for name in GAINS), None)
        shape = tuple(gain.shape) if isinstance(gain, Tensor) and gain.dim() else None
    if shape is None:
        raise CannotSwap(
            f"{type(norm).__name__} does not say how many units it has: give a function from "
            "the old part to the new."
        )
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    # over several axes: those of units and space, in this order, as torch has them
    return NormArguments(shape[0], len(shape) - 1, eps, shape)


def make_replacement(
    module_path: str, old: nn.Module, rule: Any, spatial_axes: int | None
) -> nn.Module:
    """Return what takes the place of ``old``, on its device, in its precision and mode."""
    kind = type(old).__name__
    if isinstance(rule, nn.Module) or not callable(rule):
        raise CannotSwap(
            f"{module_path}: {rule!r} is no rule for {kind}: give a class, partial of one, "
            "or a function of the old part, lambda old: nn.Identity()."
        )
    maker = rule.func if isinstance(rule, partial) else rule
    title = getattr(maker, "__name__", repr(rule))
    try:
        is_class = isinstance(maker, type)
        new = _make_norm_of_class(old, rule, maker, spatial_axes) if is_class else rule(old)
    except Exception as error:  # a user's function may raise anything
        raise CannotSwap(
            f"{module_path}: {title} cannot take the place of {kind}: {error}"
        ) from error
    if not isinstance(new, nn.Module):
        raise CannotSwap(f"{module_path}: {title} made a {type(new).__name__}, no module.")
    like = next(old.parameters(), None)
    new = new if like is None else new.to(like.device, like.dtype)
    return new.train(old.training)


def _make_norm_of_class(
    old: nn.Module, rule: Callable, kind: type, spatial_axes: int | None
) -> nn.Module:
    """Return a module of a class of normalizers, made for the place of ``old``."""
    _refuse_more_than_a_norm(old)
    if issubclass(kind, nn.Identity):
        return rule()
    arguments = read_norm_arguments(old, spatial_axes)
    settings = rule.keywords if isinstance(rule, partial) else {}
    eps = {} if "eps" in settings else arguments.eps_argument
    if issubclass(kind, Normalizer):
        axes = (
            {"space": arguments.spatial_axes}
            if arguments.spatial_axes and "space" not in settings
            else {}
        )
        try:
            return rule(arguments.units, **axes, **eps)
        except TypeError:  # it has no eps
            return rule(arguments.units, **axes)
    if issubclass(kind, nn.GroupNorm):
        groups = (
            {} if isinstance(rule, partial) else {"num_groups": _group_count(arguments.units)}
        )
        return rule(num_channels=arguments.units, **groups, **eps)
    if issubclass(kind, nn.LayerNorm | nn.RMSNorm):
        if arguments.spatial_axes and len(arguments.normalized_shape) == 1:
            raise CannotSwap(
                f"{kind.__name__} of torch runs over the last axes, and the units of "
                f"{type(old).__name__} stand along axis 1: take lnlab.nn.{kind.__name__}, or "
                "nn.GroupNorm of one group."
            )
        return rule(arguments.normalized_shape, **eps)
    if issubclass(kind, TorchBatchOrInstanceNorm):
        return rule(arguments.units, **eps)
    return rule(arguments.units)


def _refuse_more_than_a_norm(old: nn.Module) -> None:
    """Raise CannotSwap for a subclass of one of torch's norms that may do more than it does.

    An activation in it, as in timm's BatchNormAct2d, would go with the norm and be missed.
    """
    norms = (TorchBatchOrInstanceNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
    if not isinstance(old, norms):
        return
    kind = type(old)
    torchs = next(c for c in kind.__mro__ if c.__module__.startswith("torch.nn.modules."))
    children = ", ".join(name for name, _ in old.named_children())
    if getattr(old.forward, "__func__", None) is torchs.forward and not children:
        return
    why = f"has parts of its own ({children})" if children else "has a forward of its own"
    raise CannotSwap(
        f"{kind.__name__} is a subclass of nn.{torchs.__name__} that {why}: what it does "
        "besides would be lost. Give a function from the old part to the new that keeps it, "
        "lambda old: nn.Sequential(nn.GroupNorm(1, old.num_features), nn.ReLU())."
    )


def _group_count(units: int) -> int:
    """Return at most GROUPS equal groups of at least MEMBERS units, if there are so many."""
    groups = gcd(GROUPS, units)
    while groups > 1 and units // groups < MEMBERS:
        groups //= 2
    return groups


# The plan, and the new module.


@dataclass(frozen=True)
class NormReplacement:
    """One module and what takes its place.

    Attributes:
        name: its path; "" is the module itself.
        old_repr: the class that was there, with its settings.
        new_repr: the one that will be.
        copied_from: new parameters and buffers, with the old ones whose values they get.
        added_to_copy: what is added to such a value: 1 to the w of a norm that multiplies by
            1 + w, if the new one multiplies by w.
        dropped_shapes: old parameters and buffers that have no place, with their shapes.
        added_shapes: names of new ones that start as they do, with their shapes.
    """

    name: str
    old_repr: str
    new_repr: str
    copied_from: dict[str, str]
    added_to_copy: dict[str, float]
    dropped_shapes: dict[str, tuple[int, ...]]
    added_shapes: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class SwapPlan(TextResult):
    """The plan of a replacement, one row per module; prints as a table.

    The model has not been changed; :meth:`make` returns a changed copy.

    Attributes:
        replacements: one for each module that is replaced.
        parameter_counts: the number of trained parameters before and after.
        output_change: the largest change of an output relative to the largest output; None if
            no input was given.
    """

    replacements: tuple[NormReplacement, ...]
    parameter_counts: tuple[int, int]
    output_change: float | None
    _new_model: nn.Module

    def make(self) -> nn.Module:
        """Return the new model: a copy with the replacements; values that fit are copied."""
        return deepcopy(self._new_model)

    def state_dict(self, old: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a state dict of the old module, a checkpoint, as one of the new.

        What is fresh in the new module has the value that it starts with.

        Raises:
            KeyError: where ``old`` is none of the old module.
        """
        prefixes = [f"{e.name}." if e.name else "" for e in self.replacements]
        sources = {
            prefix + new: prefix + source
            for e, prefix in zip(self.replacements, prefixes, strict=True)
            for new, source in e.copied_from.items()
        }
        added = {
            prefix + new: number
            for e, prefix in zip(self.replacements, prefixes, strict=True)
            for new, number in e.added_to_copy.items()
        }
        made = {}
        for name, value in self._new_model.state_dict().items():
            source = sources.get(name, name)
            swapped = any(name.startswith(prefix) for prefix in prefixes)
            if swapped and name not in sources:
                made[name] = value.clone()
            elif source in old:
                made[name] = old[source].reshape(value.shape).clone()
                if name in added:
                    made[name] += added[name]
            else:
                raise KeyError(
                    f"the state has no {source}: give one of the module before the exchange."
                )
        return made

    def one_line_summary(self) -> str:
        """Return how many modules are replaced, and how parameters and outputs change."""
        before, after = self.parameter_counts
        change = self.output_change
        outputs = "" if change is None else f"; largest change of an output: {change:.2g}"
        outputs += " of the largest output" if outputs else ""
        new = {id(self._new_model.get_submodule(e.name)) for e in self.replacements}
        parts = count_with_noun(len(new), "part")
        return f"{parts} exchanged; parameters {before:,} → {after:,}{outputs}"

    def _lines_above_table(self) -> list[str]:
        return [self.one_line_summary()]

    def _header_and_rows(self) -> list[Sequence[str]]:
        rows: list[Sequence[str]] = [("part", "old", "new", "kept", "lost", "fresh")]
        for e in self.replacements:
            copies = []
            for new, old in e.copied_from.items():
                value = f"{old} + {e.added_to_copy[new]:g}" if new in e.added_to_copy else old
                copies.append(new if value == new else f"{new} ← {value}")
            kept = ", ".join(copies)
            lost, fresh = (
                ", ".join(f"{name} {shape}" for name, shape in shapes.items())
                for shapes in (e.dropped_shapes, e.added_shapes)
            )
            module_name = e.name or "the module itself"
            rows.append((module_name, e.old_repr, e.new_repr, kept, lost, fresh))
        return rows

    def to_frame(self) -> DataFrame:
        """Return one row for each module that is swapped."""
        header, *rows = self._header_and_rows()
        return make_frame(rows, header)


def swap(model: nn.Module, rules: Rules, x: Any = None) -> SwapPlan:
    """Plan the replacement of modules in ``model``, usually of normalizers by other ones.

    The model does not change; :meth:`SwapPlan.make` returns the new model. A module that is
    used in several places is replaced once. If several rules fit a module, a rule by name goes
    before a rule by class, and an earlier rule before a later one.

    Args:
        model: any module. If it was compiled by torch.compile, the original module is used.
        rules: from what is replaced to its replacement. A key is a class (subclasses count) or
            a pattern of module names such as ``"blocks.*.norm1"``, matched as file names are. A
            value is a class of torch.nn or lnlab.nn, which gets the units, axes and eps of the
            old module; a ``partial`` of a class; or a function of the old module. nn.GroupNorm
            gets 32 groups, or the next smaller power of two that makes equal groups of at least
            four units: choose them yourself with ``partial(nn.GroupNorm, 8)``. The plan shows
            each replaced module and what replaces it, with its settings.
        x: an input; if it is given, the new model is tried with it.

    Raises:
        TypeError: if ``model`` is not a module, ``rules`` is not a mapping, or a key is neither
            a class nor a name.
        ValueError: if a rule fits no module; if a normalizer cannot replace another, such as a
            subclass of torch's with its own forward, for which you must give a function; if the
            new model does not take ``x`` or returns another shape.

    Examples:
        >>> plan = lnlab.swap(net, {nn.LayerNorm: lnlab.nn.RMSNorm}, x)
        >>> print(plan)
        >>> new = plan.make()
    """
    check_type("rules", rules, Mapping, "{nn.BatchNorm2d: nn.GroupNorm}, by class or name")
    before = None if x is None else AuditSubject(model, Call.from_inputs(x))
    new = deepcopy(uncompiled_module(model))
    chosen = _match_rules(new, rules)
    spaces = {} if before is None else _spatial_axes(before)
    made: dict[int, nn.Module] = {}
    replacements = []
    for name, (old, rule) in chosen.items():
        if id(old) not in made:
            made[id(old)] = make_replacement(name, old, rule, spaces.get(name))
        replacements.append(_copy_matching_parameters(name, old, made[id(old)]))
        owner, _, last = name.rpartition(".")
        if name:
            new.get_submodule(owner)._modules[last] = made[id(old)]
        else:
            new = made[id(old)]
    _disable_transformer_fast_path(new)
    sizes = [sum(p.numel() for p in each.parameters()) for each in (model, new)]
    change = None if before is None else _relative_output_change(before, new, x)
    return SwapPlan(tuple(replacements), (sizes[0], sizes[1]), change, new)


def _match_rules(model: nn.Module, rules: Rules) -> dict[str, tuple[nn.Module, Any]]:
    """Return every module that a rule fits, wherever it stands, with what takes its place."""
    for key in rules:
        if not isinstance(key, str | type):
            raise TypeError(f"{key!r} is no rule: give a class or a pattern of names.")
    names = [key for key in rules if isinstance(key, str)]
    kinds = [key for key in rules if isinstance(key, type)]
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen: dict[str, tuple[nn.Module, Any]] = {}
    used = set()
    for name, module in modules.items():
        if any(name.startswith(f"{outer}.") for outer in chosen if outer):
            continue  # inside what is swapped
        fitting = [key for key in names if fnmatchcase(name, key)]
        fitting += [key for key in kinds if isinstance(module, key)]
        if fitting:
            chosen[name] = module, rules[fitting[0]]
            used.add(fitting[0])
    for key in rules:
        if key not in used:
            title = repr(key) if isinstance(key, str) else key.__name__
            classes = ", ".join(sorted({type(m).__name__ for m in modules.values()}))
            raise ValueError(f"the rule {title} fits no part: there are {classes}.")
    return chosen


def _spatial_axes(subject: AuditSubject) -> dict[str, int]:
    """Return the spatial axes of each normalizer whose units stand along axis 1."""
    kinds = TorchBatchOrInstanceNorm | nn.GroupNorm
    calls = [c for c in subject.trace.calls if c.inputs and isinstance(c.module, kinds)]
    return {call.name: call.inputs[0].dim() - 2 for call in calls}


def _copy_matching_parameters(name: str, old: nn.Module, new: nn.Module) -> NormReplacement:
    """Give gain and bias of ``old`` to ``new`` where they fit, and say what became of all."""
    sources = dict(old.named_parameters()) | dict(old.named_buffers())
    targets = dict(new.named_parameters()) | dict(new.named_buffers())
    kept: dict[str, str] = {}
    added: dict[str, float] = {}
    for target_name, target in targets.items():
        others = next((names for names in (GAINS, BIASES) if target_name in names), ())
        source_name = next((n for n in (target_name, *others) if n in sources), "")
        source = sources.get(source_name)
        if source is not None and source.numel() == target.numel():
            kept[target_name] = source_name
            if target_name in GAINS:
                number = _gain_less_parameter(old, source_name)
                number -= _gain_less_parameter(new, target_name)
                added |= {target_name: number} if number else {}
            with torch.no_grad():
                target.copy_(source.reshape(target.shape) + added.get(target_name, 0))
    lost = {n: tuple(v.shape) for n, v in sources.items() if n not in kept.values()}
    fresh = {n: tuple(v.shape) for n, v in targets.items() if n not in kept}
    return NormReplacement(
        name,
        _abbreviate_multiline_repr(old),
        _abbreviate_multiline_repr(new),
        kept,
        added,
        lost,
        fresh,
    )


def _gain_less_parameter(norm: nn.Module, name: str) -> float:
    """Return 1 if a norm multiplies by 1 + its parameter ``name``, as Gemma's do; else 0."""
    if isinstance(norm, Normalizer) or type(norm).__module__.startswith("torch.nn."):
        return 0.0
    shape = dict(norm.named_parameters())[name].shape
    with suppress(Exception):  # of a class that nobody here has seen
        roles = identify_norm(norm, torch.zeros(8, *shape)).roles
        return float(any(r.name == name and r.role.startswith("gain, 1 +") for r in roles))
    return 0.0


def _abbreviate_multiline_repr(module: nn.Module) -> str:
    """Return a module as it prints, if that is one line."""
    lines = repr(module).splitlines()
    return lines[0] if len(lines) == 1 else f"{type(module).__name__}(…)"


def _disable_transformer_fast_path(model: nn.Module) -> None:
    """Let torch's transformer layers call their norms: in evaluation they read eps and weights
    of a LayerNorm and use a kernel of their own, which has no other normalizer."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer) and not all(
            type(norm) is nn.LayerNorm for norm in (module.norm1, module.norm2)
        ):
            module.activation_relu_or_gelu = 0
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False


def _relative_output_change(before: AuditSubject, new: nn.Module, x: Any) -> float:
    """Return the distance of the outputs of the new model from those of the old.

    Raises:
        ValueError: where the new one does not take the input, or returns another shape.
    """
    try:
        after = AuditSubject(new, Call.from_inputs(x))
    except ValueError as error:
        raise CannotSwap(f"with the new parts, {error}") from error
    y, z = (
        before.concatenate_scaled_outputs(before.output),
        after.concatenate_scaled_outputs(after.output),
    )
    if y.shape != z.shape:
        raise CannotSwap(f"the output is {tuple(z.shape)} and was {tuple(y.shape)}.")
    return relative_max_change(z, y)
