"""A computation that is repeated with a change, computed again only from the change on.

Every call of a torch function is written down once, with what it was given and what it gave. In
a repetition a call that is given the very same is not made again: its result is handed out.
What is the same is told by where a tensor comes from (which parameter, buffer or earlier call),
never by comparing numbers, so that a repetition is equal to the last bit.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

Origin = tuple
"""The origin of a tensor: a name, or the number of the call that gave it and the place."""

PLAIN = {
    int, float, bool, str, type(None), type(...), torch.dtype, torch.device, torch.layout,
    torch.memory_format,
}  # fmt: skip
"""The types that calls are given besides tensors, and containers of all these."""


@dataclass
class Operation:
    """One call of a torch function.

    Attributes:
        func: the function.
        given: what it was given, an origin in the place of each tensor; None where that is not
            known, or random numbers were drawn: it is always made again.
        result: what it gave, in memory of its own; None where it wrote into what it was given,
            or gave a view of it: it is made again, and gives the same if it is given the same.
        versions: how often each tensor in ``result`` had been written into. Known where nobody
            wrote into it in the first evaluation: then the result itself is given out, and
            made again once somebody does. None: copies of it are given out.
        note: what the user of the tape wants to remember with it.
    """

    func: Callable
    given: Any
    result: Any = None
    versions: list[int] | None = None
    note: Any = None

    @property
    def there(self) -> bool:
        """True if there is a result, and nobody has written into it since."""
        return self.result is not None and self.versions in (None, _versions(self.result))


class Tape:
    """The calls of one evaluation, and then of its repetitions.

    Args:
        roots: the first evaluation's parameters, buffers and inputs, by origin.
    """

    def __init__(self, roots: Iterable[tuple[Origin, Tensor]]) -> None:
        self.calls: list[Operation] = []
        self.notes: dict[Any, Any] = {}
        self._held: list[tuple[Origin, Tensor, int]] = []
        self._recording, self._closed = True, False
        self._given_out: list[tuple[Operation, Any, list[int]]] = []
        self._start(roots)

    def repeat(self, roots: Iterable[tuple[Origin, Tensor]]) -> None:
        """Begin a repetition; changed tensors are left out of ``roots`` (any shape)."""
        self._recording = False
        for call, result, versions in self._given_out:
            if not self._closed and _versions(result) == versions:
                call.result, call.versions = result, versions
        self._given_out = []
        self._start(roots)
        for origin, tensor, version in self._held:
            if tensor._version == version:
                self._set(tensor, origin)

    def _start(self, roots: Iterable[tuple[Origin, Tensor]]) -> None:
        self._origins: dict[int, tuple[Origin, int, Tensor]] = {}
        self._at = 0
        for origin, tensor in roots:
            self._set(tensor, origin)

    def _set(self, tensor: Tensor, origin: Origin) -> None:
        # the tensor is kept, for the id of what is gone may come again
        self._origins[id(tensor)] = origin, tensor._version, tensor

    def origin(self, tensor: Tensor) -> Origin | None:
        """The origin of a tensor (any shape); None where it is not known, or the tensor was
        written into since."""
        origin, version, _ = self._origins.get(id(tensor), (None, -1, None))
        return origin if version == tensor._version else None

    def call(
        self, func: Callable, args: tuple, kwargs: dict
    ) -> tuple[Any, Operation | None, bool]:
        """The result; what is on the tape of this call; whether it was given the same as then.

        A call that the first evaluation did not make at this place ends the reuse.
        """
        if self._recording:
            return *self._record(func, args, kwargs), False
        if func in _ASIDE:
            return func(*args, **kwargs), None, False
        call = self.calls[self._at] if self._at < len(self.calls) else None
        if call is None or call.func != func:
            self._at = len(self.calls)
            result = func(*args, **kwargs)
            if not self._closed and _hides(func, result):
                self._close()
            return result, None, False
        number, self._at = self._at, self._at + 1
        if call.given is None or not self._same(call.given, (args, kwargs)):
            return func(*args, **kwargs), call, False
        if not call.there:
            result = self._made(number, func, args, kwargs)
        else:
            result = _cloned(call.result) if call.versions is None else call.result
            self._number(number, result, ())
        return result, call, True

    def _record(
        self, func: Callable, args: tuple, kwargs: dict
    ) -> tuple[Any, Operation | None]:
        if func in _ASIDE:
            return func(*args, **kwargs), None
        own = list(_tensors((args, kwargs)))
        for tensor in own:
            if id(tensor) not in self._origins:  # a constant that the module keeps, say
                origin = ("held", len(self._held))
                self._held.append((origin, tensor, tensor._version))
                self._set(tensor, origin)
        try:
            given = self._given((args, kwargs))
        except _Unknown:
            given = None
        versions, state = [tensor._version for tensor in own], _random_state(own)
        number = len(self.calls)
        result = self._made(number, func, args, kwargs)
        written = any(t._version != v for t, v in zip(own, versions, strict=True))
        # the storages themselves: where they lie is no place on a device that is pretended
        places = {tensor.untyped_storage()._cdata for tensor in own}
        shared = any(t.untyped_storage()._cdata in places for t in _tensors(result))
        drawn = any(
            not torch.equal(a, b) for a, b in zip(state, _random_state(own), strict=True)
        )
        call = Operation(func, None if drawn else given)
        if not (written or shared):
            call.result = _cloned(result)
            self._given_out.append((call, result, _versions(result)))
        if not self._closed:
            self.calls.append(call)
        self._closed |= _hides(func, result)
        return result, call

    def _close(self) -> None:
        """Forget all results: one of those that were given out may be written into unseen."""
        self._closed = True
        for call in self.calls:
            call.result = None

    def _made(self, number: int, func: Callable, args: tuple, kwargs: dict) -> Any:
        """The result of a call that is made, its tensors known from now on."""
        own = list(_tensors((args, kwargs)))
        versions = [tensor._version for tensor in own]
        result = func(*args, **kwargs)
        for place, (tensor, version) in enumerate(zip(own, versions, strict=True)):
            if tensor._version != version:
                self._set(tensor, (number, "written", place))
        self._number(number, result, own)
        return result

    def _number(self, number: int, result: Any, own: Iterable[Tensor]) -> None:
        for place, tensor in enumerate(_tensors(result)):
            if not any(tensor is given for given in own):
                self._set(tensor, (number, "given", place))

    def _given(self, value: Any) -> Any:
        """``value`` with origins in the place of tensors, which can be compared."""
        kind = type(value)
        if kind in PLAIN:
            return kind, value
        if isinstance(value, Tensor):
            origin = self.origin(value)
            if origin is None:
                raise _Unknown
            return Tensor, origin
        if isinstance(value, (tuple, list)):
            own = self._given
            return kind, *[(type(v), v) if type(v) in PLAIN else own(v) for v in value]
        if kind is dict:
            return dict, *((key, self._given(each)) for key, each in value.items())
        if kind is slice:
            return slice, *map(self._given, (value.start, value.stop, value.step))
        raise _Unknown

    def _same(self, given: Any, value: Any) -> bool:
        """True if :meth:`_given` of ``value`` is ``given``, found at the first difference."""
        kind = type(value)
        if isinstance(value, Tensor):
            return given == (Tensor, self.origin(value))
        if given[0] is not kind:
            return False
        if kind in PLAIN:
            return given == (kind, value)
        if kind is tuple or kind is list:
            return len(given) == len(value) + 1 and all(map(self._same, given[1:], value))
        if kind is dict:
            return len(given) == len(value) + 1 and all(
                key == own and self._same(there, each)
                for (key, there), (own, each) in zip(given[1:], value.items(), strict=True)
            )
        parts = (value.start, value.stop, value.step) if kind is slice else ()
        return kind is slice and all(map(self._same, given[1:], parts))


class _Unknown(Exception):
    """A call is given something of which it is not known whether it is the same."""


_DATA = [getattr(Tensor.data, name) for name in ("__get__", "__set__")]
"""Reading and writing ``tensor.data``, past all counting."""

_ASIDE = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "requires_grad", "is_cuda", "ndim", "layout")
} | {Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point}
"""Questions that cost less than a look at the tape."""


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)


def _versions(value: Any) -> list[int]:
    """The number of times that each tensor of a result was written into."""
    return [tensor._version for tensor in _tensors(value)]


def _hides(func: Callable, result: Any) -> bool:
    """True if what writes through a result is not seen: nothing behind it is told apart."""
    return func in _DATA or not _plain(result)


def _cloned(value: Any) -> Any:
    return (
        tree_map_only(Tensor, torch.clone, value)
        if isinstance(value, (tuple, list))
        else (value.clone() if isinstance(value, Tensor) else value)
    )


def _plain(value: Any) -> bool:
    """True if a result holds tensors and plain values only: an array could be written into."""
    if isinstance(value, (tuple, list)):
        return all(map(_plain, value))
    return isinstance(value, Tensor) or type(value) in PLAIN


def _random_state(own: list[Tensor]) -> list[Tensor]:
    devices = {tensor.device for tensor in own if tensor.is_cuda}
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]
