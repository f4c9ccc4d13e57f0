"""A computation that is repeated with a change, computed again only from the change on.

Every call of a torch function is written down once, with what it was given and what it gave. A
repetition does without the module: the calls that a change reaches are made again, in their
order, and the others have given what they gave. What a change reaches is told by where a tensor
comes from (which parameter, buffer or earlier call), never by comparing numbers, so that a
repetition is equal to the last bit. Where the module itself might have taken another way,
because a number or a shape that it was told is another, the repetition says so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Origin = tuple[str | int, str | int]
"""The origin of a tensor: a kind and a name, or the number of the call that gave it and the
place; a place below 0 is that of an argument that it wrote into."""

PLAIN = {
    int, float, bool, str, type(None), type(...), torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.Size,
}  # fmt: skip
"""The types that calls are given besides tensors, and containers of all these."""


class Departed(Exception):
    """A repetition is not what the tape says: the module must be asked."""


class _From(NamedTuple):
    """The origin of a tensor, in its place among what a call is given."""

    origin: Origin | None


@dataclass(frozen=True)
class Operation:
    """One call of a torch function.

    Attributes:
        func: the function.
        given: its arguments, origins in the place of tensors.
        takes: these origins, by place.
        written: the places of those that it wrote into.
        gave: the shapes of what it gave, and the plain values.
        states: of the random numbers before and after, where it drew any.
    """

    func: Callable
    given: tuple[tuple, dict]
    takes: tuple[Origin | None, ...]
    written: tuple[int, ...]
    gave: Any
    states: tuple[list[Tensor], list[Tensor]] | None

    @property
    def reads(self) -> Iterable[Origin | None]:
        """The origins of what it needs."""
        return self.takes


@dataclass(frozen=True)
class Glance:
    """A glance at tensors on their way: a site, and the origins of its fields by name."""

    site: Any
    origins: dict[str, Origin | None]

    @property
    def reads(self) -> Iterable[Origin | None]:
        """The origins of what it needs."""
        return self.origins.values()


@dataclass(frozen=True)
class Crossing:
    """A tensor that goes into or comes out of a part of the module."""

    part: nn.Module
    into: bool
    origin: Origin | None

    @property
    def reads(self) -> Iterable[Origin | None]:
        """The origins of what it needs."""
        return (self.origin,)


@dataclass
class _Kept:
    """A tensor (any shape), how often it had been written into, and a copy from then."""

    tensor: Tensor
    version: int
    copy: Tensor | None


class Tape:
    """The calls of one evaluation, to be repeated.

    Args:
        roots: the parameters, buffers and inputs, by origin; those of kind "own" are not
            written into.

    Attributes:
        sound: whether all that was done is known; if not, it cannot be repeated.
        confirmed: whether a repetition was found to be equal to an evaluation; None before.
    """

    def __init__(self, roots: Iterable[tuple[Origin, Tensor]]) -> None:
        self.sound = True
        self.confirmed: bool | None = None
        self._events: list[Operation | Glance | Crossing] = []
        self._spent: list[set[Origin]] = []  # by event, what nobody reads after it
        self._kept: dict[Origin | None, _Kept] = {}
        self._origins: dict[int, Origin] = {}
        self._y: Origin | None = None
        for origin, tensor in roots:
            self._keep(origin, tensor)

    def _keep(self, origin: Origin, tensor: Tensor) -> None:
        copy = None if origin[0] in ("own", "held") else tensor.clone()
        # the tensor is kept, for the id of what is gone may come again
        self._kept[origin] = _Kept(tensor, tensor._version, copy)
        self._origins[id(tensor)] = origin

    def origin(self, tensor: Tensor) -> Origin | None:
        """The origin of a tensor (any shape); None where it is not known, or the tensor was
        written into since."""
        origin = self._origins.get(id(tensor))
        known = origin is not None and self._kept[origin].version == tensor._version
        return origin if known else None

    def call(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """The result of a call, which is written down."""
        if func in _ASIDE or not self.sound:
            return func(*args, **kwargs)
        own = list(_tensors((args, kwargs)))
        for tensor in own:
            if id(tensor) not in self._origins:  # a constant that the module keeps, say
                self._keep(("held", len(self._kept)), tensor)
        takes = tuple(map(self.origin, own))
        versions, before = [tensor._version for tensor in own], _random_state(own)
        result = func(*args, **kwargs)
        after = _random_state(own)
        drawn = any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
        written = tuple(i for i, t in enumerate(own) if t._version != versions[i])
        try:
            known = iter(takes)
            given = _mapped((args, kwargs), Tensor, lambda _: _From(next(known)))
            gave = _form(result)
        except Departed:
            self.sound = False
        # nor is it known what else is another behind one of two that share a memory
        if None in takes or func in _DATA or (written and _shared(own)):
            self.sound = False
        if not self.sound:
            return result
        number, states = len(self._events), (before, after) if drawn else None
        self._events.append(Operation(func, given, takes, written, gave, states))
        for place in written:
            self._keep((number, -1 - place), own[place])
        for place, tensor in enumerate(_tensors(result)):
            if not any(tensor is each for each in own):
                self._keep((number, place), tensor)
        return result

    def look(self, site: Any, origins: dict[str, Origin | None]) -> None:
        """Write down that ``site`` has tensors of these origins in its fields."""
        self._events.append(Glance(site, origins))

    def passes(self, part: nn.Module, into: bool, tensor: Tensor) -> None:
        """Write down that a tensor (any shape) goes into ``part``, or comes out of it."""
        self._events.append(Crossing(part, into, self.origin(tensor)))

    def close(self, y: Tensor) -> None:
        """End the writing; y (any shape) is what the evaluation came to."""
        self._y = self.origin(y)
        looks = (o for e in self._events if isinstance(e, Glance) for o in e.origins.values())
        self.sound &= None not in (self._y, *looks)
        self._origins = {}
        if not self.sound:
            self._events, self._kept = [], {}
        later = {self._y}
        for event in reversed(self._events):
            self._spent.append({o for o in event.reads if o is not None} - later)
            later |= self._spent[-1]
        self._spent.reverse()
        for kept in self._kept.values():
            if kept.tensor._version != kept.version and kept.copy is not None:
                kept.tensor, kept.version = kept.copy, kept.copy._version
            kept.copy = None

    def repeat(
        self,
        changed: Mapping[Origin, Tensor],
        passage: tuple[nn.Module, bool] | None = None,
        shift: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """The outputs y (any shape), and the sites, those that stood still being the very same.

        Args:
            changed: tensors of the shapes of roots, in their places.
            passage: a part, and whether what goes into it is shifted, or what comes out.
            shift: what is done to it.

        Raises:
            Departed: where the module might do something else than was written down.
        """
        now: dict[Origin | None, Tensor] = {**changed}
        sites = []
        for number, event in enumerate(self._events):
            if isinstance(event, Operation):
                if not now.keys().isdisjoint(event.takes):
                    self._again(number, event, now)
            elif isinstance(event, Glance):
                moved = not now.keys().isdisjoint(event.origins.values())
                fields = event.origins.items() if moved else ()
                seen = {name: self._value(origin, now) for name, origin in fields}
                sites.append(event.site._replace(**seen) if moved else event.site)
            elif shift is not None and passage == (event.part, event.into):
                now[event.origin] = shift(self._value(event.origin, now))
            for origin in self._spent[number]:
                now.pop(origin, None)
        return self._value(self._y, now), sites

    def _value(self, origin: Origin | None, now: dict[Origin | None, Tensor]) -> Tensor:
        if origin in now:
            return now[origin]
        kept = self._kept.get(origin)
        if kept is None or kept.tensor._version != kept.version:
            raise Departed("somebody wrote into what was kept")
        return kept.tensor

    def _again(self, number: int, call: Operation, now: dict[Origin | None, Tensor]) -> None:
        """Make a call with what is there now."""
        own = [self._value(origin, now) for origin in call.takes]
        copies = {id(own[place]): own[place].clone() for place in call.written}
        own = [copies.get(id(tensor), tensor) for tensor in own]
        tensors = iter(own)
        args, kwargs = _mapped(call.given, _From, lambda _: next(tensors))
        if call.states is not None:
            _set_random_state(own, call.states[0])
        result = call.func(*args, **kwargs)
        if call.states is not None and not all(
            map(torch.equal, _random_state(own), call.states[1])
        ):
            raise Departed("more random numbers were drawn, or less")
        if _form(result) != call.gave:
            raise Departed("the module was told something else")
        now.update({(number, -1 - place): own[place] for place in call.written})
        now.update({(number, place): t for place, t in enumerate(_tensors(result))})


_DATA = [getattr(Tensor.data, name) for name in ("__get__", "__set__")]
"""Reading and writing ``tensor.data``, past all counting."""

_ASIDE = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "requires_grad", "is_cuda", "ndim", "layout")
} | {Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point}
"""Questions that the shape of a tensor answers, which is looked at with every result."""


def _mapped(value: Any, leaf: type, f: Callable[[Any], Any]) -> Any:
    """``value`` with f of each ``leaf`` in its place, in one order.

    Raises:
        Departed: where ``value`` is nothing that is known to be the same again.
    """
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, leaf):
        return f(value)
    if kind is tuple or kind is list:
        return kind([_mapped(each, leaf, f) for each in value])
    if kind is dict:
        return {key: _mapped(each, leaf, f) for key, each in value.items()}
    if kind is slice and {type(value.start), type(value.stop), type(value.step)} <= PLAIN:
        return value
    raise Departed(f"a {kind.__name__} may be another")


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)


def _form(result: Any) -> Any:
    """The shapes of the tensors of a result, and its plain values.

    Raises:
        Departed: where there is more to it: an array could be written into unseen.
    """
    if isinstance(result, Tensor):
        return result.shape, result.dtype
    if isinstance(result, (tuple, list)) and type(result) not in PLAIN:
        return [_form(each) for each in result]
    if type(result) in PLAIN:
        return result
    raise Departed(f"a {type(result).__name__} may be another")


def _shared(own: list[Tensor]) -> bool:
    """True if two of these tensors share their memory."""
    # the storages themselves: where they lie is no place on a device that is pretended
    apart = {id(tensor): tensor.untyped_storage()._cdata for tensor in own}
    return len(set(apart.values())) < len(apart)


def _random_state(own: list[Tensor]) -> list[Tensor]:
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, _devices(own))]


def _set_random_state(own: list[Tensor], states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    for device, state in zip(_devices(own), states[1:], strict=True):
        torch.cuda.set_rng_state(state, device)


def _devices(own: list[Tensor]) -> list[torch.device]:
    return sorted({tensor.device for tensor in own if tensor.is_cuda}, key=str)
