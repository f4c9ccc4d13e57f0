"""The normalizers of a module, told by what they compute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.analysis.conformance import NOTHING, Report, conformance
from lnlab.analysis.module_copy import untouched
from lnlab.analysis.subject import EPS, NORMALIZERS
from lnlab.audit.audited import Audited, undrawn
from lnlab.audit.finding import CannotCheck
from lnlab.audit.watched import Visit

SOUNDS_LIKE = re.compile(r"norm(?!al_)|^ln\d*$|^bn\d*$", re.IGNORECASE)
"""Class names that promise a normalizer."""

SHORT = 6
"""Axes that a normalizer does not insist on are cut to so many places: conformance looks at
shapes alone, and its work grows with them."""


@dataclass(frozen=True)
class Found:
    """Normalizers that are one but for their parameters.

    Attributes:
        visits: the first call of each.
        report: what they are; None where that could not be found out.
        why: then, the reason.
    """

    visits: tuple[Visit, ...]
    report: Report | None
    why: str = ""

    @property
    def names(self) -> list[str]:
        return [visit.name for visit in self.visits]

    @property
    def kind(self) -> str:
        return type(self.visits[0].part).__name__


def normalizers(audited: Audited) -> list[Found]:
    """All normalizers that are called, grouped by what they are.

    A part is one if torch or lnlab has it as one, if its class says so, or if it keeps the
    shape of its input and turns out to be one.
    """
    groups: dict[Any, list[Visit]] = {}
    for visit in first_calls(audited):
        if candidate(audited, visit):
            groups.setdefault(_likeness(visit), []).append(visit)
    found = [_identified(tuple(visits)) for visits in groups.values()]
    return [f for f in found if _is_one(f)]


def first_calls(audited: Audited) -> list[Visit]:
    """The first call of every part, in the order of the computation."""
    seen: dict[str, Visit] = {}
    for visit in audited.course:
        seen.setdefault(visit.name, visit)
    return list(seen.values())


def candidate(audited: Audited, visit: Visit) -> bool:
    """True if a part may be a normalizer: of the shape of its input, without layers inside."""
    part = visit.part
    if not visit.given or len(visit.made) != 1 or visit.made[0].shape != visit.given[0].shape:
        return isinstance(part, NORMALIZERS)
    if not visit.given[0].is_floating_point() or visit.given[0].dim() < 2:
        return False
    if isinstance(part, NORMALIZERS) or promised(part):
        return not audited.has_parts(part)
    torchs = type(part).__module__.startswith("torch.nn.")
    own = [p for p in part.parameters() if p.dim() > 1]
    return not torchs and not own and not any(part.children())


def promised(part: nn.Module) -> bool:
    """True if a class name promises a normalizer."""
    return bool(SOUNDS_LIKE.search(type(part).__name__))


def _likeness(visit: Visit) -> Any:
    """A key that is the same for normalizers which differ in their parameters alone."""
    plain = {
        key: value
        for key, value in vars(visit.part).items()
        if isinstance(value, int | float | str | tuple | None)
    }
    return type(visit.part), repr(sorted(plain.items())), visit.given[0].shape[1:]


def _identified(visits: tuple[Visit, ...]) -> Found:
    x = visits[0].given[0]
    part = plain(visits[0].part, x)
    why = ""
    for shape in _shapes(x.shape):
        try:
            with undrawn():
                return Found(visits, conformance(part, torch.zeros(shape)))
        except Exception as error:  # whatever a part of the user's may raise
            why = str(error)
    return Found(visits, None, why)


TORCHS = (
    nn.LayerNorm,
    nn.RMSNorm,
    nn.GroupNorm,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
)


def plain(part: nn.Module, x: Tensor) -> nn.Module:
    """A subclass of one of torch's that does the same but for rounding, as torch's.

    Many compute in float32 inside, whatever they are given, which a black box in float64
    would take for another function.
    """
    base = next((kind for kind in TORCHS if isinstance(part, kind)), None)
    if base is None or type(part) is base:
        return part
    same = untouched(part).float()
    own = untouched(part).float()
    same.__class__ = base
    with torch.no_grad(), undrawn():
        y, z = own(x.float()), same(x.float())
    return same if y.shape == z.shape and torch.allclose(y, z, atol=1e-5) else part


def _shapes(shape: torch.Size) -> Iterator[tuple[int, ...]]:
    """Shapes of inputs to try a normalizer on: smaller ones first, the given one last."""
    cases, *rest = shape
    if len(rest) > 1:
        yield cases, rest[0], *(min(n, SHORT) for n in rest[1:])
        yield cases, *(min(n, SHORT) for n in rest[:-1]), rest[-1]
    yield tuple(shape)


def _is_one(found: Found) -> bool:
    part = found.visits[0].part
    if isinstance(part, NORMALIZERS) or promised(part):
        return True
    return found.report is not None and found.report.kind != NOTHING


def eps_of(part: nn.Module) -> float:
    """The eps that a part says it has; 0 where it says none."""
    said = (getattr(part, name, None) for name in EPS)
    return next((eps for eps in said if isinstance(eps, float)), 0.0)


def require(found: list[Found]) -> list[Found]:
    """``found``, where there are any.

    Raises:
        CannotCheck: where there are none.
    """
    if not found:
        raise CannotCheck("there is no normalizer.")
    return found
