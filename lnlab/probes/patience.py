"""Long measurements: a bar while they run, and what there is when somebody stops them."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def bar(items: Iterable[T], total: int, text: str, *, progress: bool) -> Iterable[T]:
    """The items; with ``progress``, tqdm shows how many of ``total`` have come."""
    if not progress:
        return items
    from tqdm.auto import tqdm

    return tqdm(items, total=total, desc=text, leave=False)


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
