"""The normalizers of a module, found by what they compute and not by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase as TorchNorm

from lnlab.analysis.activations import NORMALIZERS, is_known_norm
from lnlab.analysis.module_copy import EPS, frozen_copy_without_hooks
from lnlab.analysis.norm_identity import (
    EXAMPLES,
    NOTHING,
    NormPropertyReport,
    add_note_on_shape,
    identify_norm,
)
from lnlab.auditing.finding import count_with_noun
from lnlab.auditing.subject import (
    AuditSubject,
    ModuleCall,
    parameter_storages,
    restored_random_state,
)

NORM_NAME = re.compile(r"norm(?!al_)|^ln\d*$|^bn\d*$", re.IGNORECASE)
"""Class names that promise a normalizer."""

PROMISED_NORM = re.compile(r"norm(?!al(?!iz))", re.IGNORECASE)
"""Class names that promise a normalizer, and no normal distribution."""

SHORT_AXIS = 6
"""Axes that a normalizer does not insist on are cut to so many places: identify_norm looks at
shapes alone, and its work grows with them."""

FEW_CHANNELS = 8
"""Torch's batch and instance norm treat all channels alike: so many are looked at."""


@dataclass(frozen=True)
class NormGroup:
    """Normalizers that differ in nothing but their parameters.

    Attributes:
        first_calls: the first call of each.
        report: what they compute; None where that could not be found out.
        failure_reason: why not, then.
    """

    first_calls: tuple[ModuleCall, ...]
    report: NormPropertyReport | None
    failure_reason: str = ""

    @property
    def module_names(self) -> list[str]:
        return [call.name for call in self.first_calls]

    @property
    def first_module(self) -> nn.Module:
        """The module of the first call."""
        return self.first_calls[0].module

    @property
    def class_name(self) -> str:
        """The name of their class."""
        return type(self.first_module).__name__

    @property
    def found_properties(self) -> dict[str, str]:
        """The findings of the report, by property: "eps", "variance"."""
        return {f.name: f.found for f in self.report.properties} if self.report else {}


def find_norms(subject: AuditSubject) -> list[NormGroup]:
    """Return all normalizers that are called, grouped by what they are.

    A module is one if torch or lnlab has it as one, if its class says so, or if it keeps the
    shape of its input and turns out to be one.
    """
    if "norms" not in subject.cache:
        groups: dict[Any, list[ModuleCall]] = {}
        parameters = parameter_storages(subject.trace.module)
        for call in subject.first_calls:
            # a parametrization (spectral_norm) normalizes a weight, and no activations
            if _may_be_norm(call) and parameters.isdisjoint(call.input_storages):
                groups.setdefault(_group_key(call), []).append(call)
        norms = [_identify_group(tuple(calls)) for calls in groups.values()]
        subject.cache["norms"] = [each for each in norms if _is_norm_by_class_or_report(each)]
    return subject.cache["norms"]


def find_norms_of_several_tensors(subject: AuditSubject) -> list[tuple[ModuleCall, str]]:
    """Return the calls of norms, by name, that no :class:`NormGroup` has, each with the reason.

    A fused sum and layer norm, say, takes two tensors and returns two.
    """
    known = {name for norms in find_norms(subject) for name in norms.module_names}
    parameters = parameter_storages(subject.trace.module)
    return [
        (call, _describe_tensor_counts(call))
        for call in subject.first_calls
        if call.name not in known
        and PROMISED_NORM.search(type(call.module).__name__)
        and not any(call.module.children())
        and not any(p.squeeze().dim() > 1 for p in call.module.parameters())
        and parameters.isdisjoint(call.input_storages)  # or it is a norm of a weight
    ]


def _describe_tensor_counts(call: ModuleCall) -> str:
    taken = count_with_noun(len(call.inputs), "tensor")
    return f"it takes {taken} and returns {len(call.outputs)}"


def is_norm_by_class(module: nn.Module) -> bool:
    """Return True if a module is one of torch's or lnlab's, or its class promises one."""
    return isinstance(module, NORMALIZERS) or bool(NORM_NAME.search(type(module).__name__))


def _may_be_norm(call: ModuleCall) -> bool:
    """Return True for a module that keeps the shape of its input and holds no layers."""
    module = call.module
    shapes = [v.shape for v in call.inputs[:1]]
    if not shapes or [v.shape for v in call.outputs] != shapes:
        return isinstance(module, NORMALIZERS)
    if not call.inputs[0].is_floating_point() or len(shapes[0]) < 2:
        return False
    if is_norm_by_class(module):
        return all(next(child.parameters(), None) is None for child in module.children())
    torchs = type(module).__module__.startswith("torch.nn.")
    matrices = [p for p in module.parameters() if p.squeeze().dim() > 1]
    return not torchs and not matrices and not any(module.children())


def _group_key(call: ModuleCall) -> Any:
    """Return a key that is the same for normalizers which differ in parameters alone."""
    settings = {
        key: value
        for key, value in vars(call.module).items()
        if isinstance(value, int | float | str | tuple | None)
    }
    return type(call.module), repr(sorted(settings.items())), call.inputs[0].shape[1:]


def _identify_group(calls: tuple[ModuleCall, ...]) -> NormGroup:
    """Find out what normalizers of one group compute, from the first of them."""
    whole = given = tuple(calls[0].inputs[0].shape)
    module = copy_without_nonnorms_if_any(calls[0].module)
    if isinstance(module, TorchNorm) and is_known_norm(module) and whole[1] > FEW_CHANNELS:
        module, whole = _with_few_channels(module), (whole[0], FEW_CHANNELS, *whole[2:])
    failure_reason = ""
    for shape in _shortened_then_full_input_shapes(whole):
        shape = (max(EXAMPLES, shape[0]), *shape[1:])
        try:
            with restored_random_state():
                report = identify_norm(module, torch.zeros(shape))
            if shape != given:
                report = add_note_on_shape(report, f"tried in place of {given}")
            few = [p.found for p in report.properties if "too few" in p.found]
            return NormGroup(calls, None if few else report, *few)
        except Exception as error:  # a user's module may raise anything
            failure_reason = str(error)
    if len(calls[0].inputs) > 1:
        failure_reason = _describe_tensor_counts(calls[0])
    return NormGroup(calls, None, failure_reason)


def _with_few_channels(module: Any) -> nn.Module:
    """Return torch's batch or instance norm of the first channels alone."""
    module = frozen_copy_without_hooks(module)
    units, module.num_features = module.num_features, FEW_CHANNELS
    for owner in (module._parameters, module._buffers):
        for name, v in owner.items():
            if v is not None and v.shape == (units,):
                few = v.detach()[:FEW_CHANNELS].clone()
                owner[name] = nn.Parameter(few) if isinstance(v, nn.Parameter) else few
    return module


def copy_without_nonnorms_if_any(module: nn.Module) -> nn.Module:
    """Return a normalizer without what it holds beside itself, an activation or a dropout.

    Some hold what follows them, as timm's BatchNormAct2d.
    """
    others = [
        name
        for name, child in module.named_children()
        if not any(map(is_norm_by_class, child.modules()))
    ]
    module = frozen_copy_without_hooks(module) if others else module
    for name in others:
        setattr(module, name, nn.Identity())
    return module


def _shortened_then_full_input_shapes(
    input_shape: tuple[int, ...],
) -> Iterator[tuple[int, ...]]:
    """Yield shapes of inputs to try a normalizer on: smaller ones first, the given one last."""
    examples, *rest = input_shape
    if len(rest) > 1:
        yield examples, rest[0], *(min(n, SHORT_AXIS) for n in rest[1:])
        yield examples, *(min(n, SHORT_AXIS) for n in rest[:-1]), rest[-1]
    yield tuple(input_shape)


def _is_norm_by_class_or_report(norms: NormGroup) -> bool:
    """Return True for what is called a normalizer, and for what turned out to be one."""
    if is_norm_by_class(norms.first_module):
        return True
    return norms.report is not None and norms.report.kind != NOTHING


def eps_of(module: nn.Module) -> float:
    """Return the eps that a module says it has; 0 where it says none."""
    values = (getattr(module, name, None) for name in EPS)
    return next((eps for eps in values if isinstance(eps, float)), 0.0)
