"""Fields of an experiment: what each may be, and an error that says so where it is not."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

WORDS = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "of True and False"),
    str: ("text", "texts"),
}
"""The words for one value of a type, and for several in a tuple."""


def setting(
    default: Any,
    *,
    choices: Iterable[str | bool] = (),
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    count: int | None = None,
    measured: bool = False,
) -> Any:
    """A field of an experiment: its default, and what else it may be.

    Args:
        default: the value where nothing is said, of the type of the field.
        choices: the names from which it is chosen.
        least, most: the smallest and the largest number, of each member where it is a tuple.
        above: a number that it must exceed.
        count: how many members the tuple has; by default at least one.
        measured: True if the field adds measurements and changes nothing else: runs that
            differ in it alone are trained alike.
    """
    known = {"least": least, "most": most, "above": above, "count": count}
    known |= {"measured": measured}
    return field(default=default, metadata={**known, "choices": tuple(choices)})


class Field(NamedTuple):
    """A field as a class of experiments has it: name, type, default, and what it may be."""

    name: str
    kind: Any
    default: Any
    allowed: Mapping[str, Any]


@cache
def declared(experiment: type) -> dict[str, Field]:
    """The fields of a class of experiments by name.

    Where a class gives a field another default only, it may be what it may be above.
    """
    hints = get_type_hints(experiment)
    allowed: dict[str, Mapping[str, Any]] = {}
    for kind in reversed(experiment.__mro__):
        own = vars(kind).get("__dataclass_fields__", {})
        allowed |= {name: one.metadata for name, one in own.items() if one.metadata}
    return {
        one.name: Field(one.name, hints[one.name], one.default, allowed.get(one.name, {}))
        for one in fields(experiment)
    }


def checked(value: Any, one: Field) -> Any:
    """A value as its field holds it: a list as a tuple, a whole number where any is asked as
    a float.

    Raises:
        ValueError: if it may not be that; names the field, and says what it may be.
    """
    kind, allowed = one.kind, one.allowed
    value = _as(value, kind)
    several = get_origin(kind) is tuple
    count = allowed.get("count")
    members = value if several and isinstance(value, tuple) else (value,)
    fits = _fits(value, kind) and all(_within(member, allowed) for member in members)
    if fits and several:
        fits = len(members) == count if count else len(members) > 0
    if not fits:
        raise ValueError(f"{one.name} is {value!r}: {_advice(one)}.")
    return value


def _as(value: Any, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        if isinstance(value, list | tuple):
            return tuple(_as(member, get_args(kind)[0]) for member in value)
    elif kind is float and type(value) is int:
        return float(value)
    return value


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is tuple:
        member = get_args(kind)[0]
        return isinstance(value, tuple) and all(_fits(one, member) for one in value)
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if kind is float:
        return type(value) is float and math.isfinite(value)
    return type(value) is kind  # True is no whole number


def _within(value: Any, allowed: Any) -> bool:
    if allowed.get("choices"):
        return value in allowed["choices"]
    if type(value) not in (int, float):
        return True
    least, most, above = (allowed.get(name) for name in ("least", "most", "above"))
    return (
        (least is None or value >= least)
        and (most is None or value <= most)
        and (above is None or value > above)
    )


def _advice(field: Field) -> str:
    kind, allowed = field.kind, field.allowed
    if allowed.get("choices"):
        return f"choose from {', '.join(map(str, allowed['choices']))}"
    several = get_origin(kind) is tuple
    one = get_args(kind)[0] if several else kind
    words = WORDS[one][several] if one in WORDS else str(one)
    if several:
        words = f"a tuple of {allowed.get('count') or 'at least one'}: {words}"
    limits = [
        f"{word} {allowed[bound]:g}"
        for word, bound in (("at least", "least"), ("above", "above"), ("at most", "most"))
        if allowed.get(bound) is not None
    ]
    return f"give {words}{', ' if limits else ''}{' and '.join(limits)}, like {field.default!r}"
