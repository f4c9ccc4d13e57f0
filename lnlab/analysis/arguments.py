"""Refusals of what no probe takes, by its name and where it enters."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lnlab.nn.table1 import Given, Place

OPTIMIZER = "one of torch.optim's, SGD(model.parameters(), lr=0.1)"


def refuse_other(name: str, value: Any, kind: type | tuple[type, ...], give: str) -> None:
    """Raise TypeError, "NAME is a str: give GIVE.", unless ``value`` is a ``kind``."""
    if isinstance(value, kind):
        return
    wanted = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, type) and issubclass(value, wanted):
        made = value.__name__
        raise TypeError(f"{name} is the class {made}: make one of it, {made}(...).")
    what = "None" if value is None else f"of class {type(value).__name__}"
    raise TypeError(f"{name} is {what}: give {give}.")


def refuse_no_module(module: Any, name: str = "module") -> None:
    """Raise TypeError unless ``module``, called ``name``, is a torch.nn.Module."""
    refuse_other(name, module, nn.Module, "a torch.nn.Module")


def refuse_no_tensor(name: str, v: Any, meant: str = "a tensor") -> None:
    """Raise TypeError unless ``v``, called ``name``, is a tensor (any shape)."""
    refuse_other(name, v, Tensor, f"{meant}; of an array or a list torch.as_tensor makes one")


def refuse_no_function(name: str, value: Any, give: str) -> None:
    """Raise TypeError unless ``value`` can be called and is no class of modules."""
    if isinstance(value, type) and issubclass(value, nn.Module):
        refuse_other(name, value, nn.Module, give)
    refuse_other(name, value, Callable, give)  # type: ignore[arg-type]


def refuse_no_number(name: str, value: Any) -> None:
    """Raise TypeError unless ``value``, called ``name``, is a number."""
    refuse_other(name, value, (Real, Tensor), "a number")


def refuse_no_count(name: str, value: Any) -> None:
    """Raise TypeError unless ``value``, called ``name``, is a whole number."""
    refuse_other(name, value, Integral, "a whole number")


def several(name: str, value: Any, kind: type | tuple[type, ...], give: str) -> list:
    """``value`` as a list: a lone one of ``kind`` is a list of one.

    Raises:
        TypeError: where it is neither.
    """
    if isinstance(value, kind):
        return [value]
    refuse_other(name, value, kind if isinstance(value, str) else Collection, give)
    return list(value)


# The tensors in what a module returns.


def tensors(output: Any) -> Iterator[Tensor]:
    """The tensors (any shapes) of tuples, lists, mappings and dataclasses, at any depth."""
    if isinstance(output, Tensor):
        yield output
        return
    parts: Any = output if isinstance(output, list | tuple) else ()
    if isinstance(output, Mapping):
        parts = output.values()
    elif is_dataclass(output):
        parts = vars(output).values()
    for part in parts:
        yield from tensors(part)


def first_tensor(output: Any) -> Tensor:
    """The first (any shape) of :func:`tensors`.

    Raises:
        TypeError: where there is none.
    """
    found = next(tensors(output), None)
    if found is None:
        raise TypeError(
            f"the module returned {type(output).__name__}, which holds no tensor: give read=, "
            "a function from what it returns to the tensor that is to be judged."
        )
    return found


# Long measurements that somebody stops: what there is by then is kept.


@contextmanager
def keeping(there: Callable[[], object]) -> Iterator[None]:
    """Ends the block at an interrupt, with a warning that says what is ``there``.

    An interrupt that comes before there is anything, when ``there`` is empty, goes on its way.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not there():
            raise
        warnings.warn(f"interrupted: {there()}.", stacklevel=4)


# The inputs of a measured layer: random weights and inputs, and what is refused.


LARGEST = 1e100
"""|delta| beyond this, or below its inverse, leaves float64 once it is squared twice."""


def random_given(
    units: int = 12,
    inputs: int = 7,
    cases: int = 8,
    place: Place = Place.DENSE,
    *,
    side: int = 6,
    kernel: int = 3,
    bias_inside: bool = False,
    seed: int = 0,
) -> Given:
    """Standard normal weights W, inputs x and, if ``bias_inside``, c (H,), in float64.

    Args:
        units: H.
        inputs: D.
        cases: B.
        place: dense, or a convolution of pictures of ``side`` by ``side``.
        kernel: height and width of its kernel.
        bias_inside: whether c is a bias inside a, one number a unit; else it is 0.
        seed: of W, x and c each by itself: W does not change with B, nor the first x.
    """
    pixels, window = (side,) * place.space, (kernel,) * place.space
    no_bias = torch.zeros((), dtype=torch.float64)
    return Given(
        W=normal(seed, 0, units, inputs, *window),
        x=normal(seed, 1, cases, inputs, *pixels),
        c=normal(seed, 2, units, *(1,) * place.space) if bias_inside else no_bias,
        padding=kernel // 2 if place is Place.PADDED else 0,
    )


def normal(seed: int, stream: int | tuple[int, ...], *shape: int) -> Tensor:
    """Standard normal numbers in float64: those of one ``stream`` of ``seed``.

    They are the same on every device, and those of a larger shape begin with those of a
    smaller one.

    Raises:
        ValueError: where the seed or a number of the stream is negative.
    """
    return torch.from_numpy(_stream(seed, stream).standard_normal(shape))


def uniform(seed: int, stream: int | tuple[int, ...], *shape: int) -> Tensor:
    """Numbers from U(0, 1) in float64, of the ``shape``, otherwise as :func:`normal`."""
    return torch.from_numpy(_stream(seed, stream).random(shape))


def _stream(seed: int, stream: int | tuple[int, ...]) -> np.random.Generator:
    # the one way in which this room draws: torch.randn has another beginning for another size
    streams = stream if isinstance(stream, tuple) else (stream,)
    return np.random.default_rng([seed, *streams])


def shift_length(given: Given) -> int:
    """The number of elements that is enough for every shift of ``given``."""
    return max(len(given.x), given.x.shape[1], len(given.W), given.W[0].numel())


def random_shift(given: Given, *, seed: int = 0) -> Tensor:
    """A standard normal vector (N,), long enough for every shift of ``given``."""
    return normal(seed, 3, shift_length(given)).to(given.x.dtype)


def cast(given: Given, dtype: torch.dtype) -> Given:
    """``given`` rounded to ``dtype``."""
    return replace(given, W=given.W.to(dtype), x=given.x.to(dtype), c=given.c.to(dtype))


def refuse_unreadable(name: str, v: Tensor) -> None:
    """Raise ValueError where ``v`` (any shape), called ``name``, is sparse or on meta."""
    if v.is_meta:
        raise ValueError(
            f"{name} is on the meta device, without numbers: give one that has some."
        )
    if v.layout is not torch.strided:
        raise ValueError(f"{name} is {v.layout}: give {name}.to_dense().")


def refuse_nonfinite(name: str, v: Tensor) -> None:
    """Raise ValueError where ``v`` (any shape), called ``name``, holds NaN or an infinity."""
    if not bool(v.isfinite().all()):
        place = tuple((~v.isfinite()).nonzero()[0].tolist())
        raise ValueError(
            f"{name} is {v[place].item()} at {place}: a defect of what is not finite says "
            "nothing, give finite numbers."
        )


def refuse_delta(delta: float) -> None:
    """Raise ValueError unless ``delta`` is finite, not 0 and within :data:`LARGEST`."""
    if not 1 / LARGEST <= abs(delta) <= LARGEST:
        raise ValueError(
            f"delta is {delta}: give a number other than 0 between 1e-100 and 1e100 in size."
        )
