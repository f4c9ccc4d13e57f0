"""Long measurements that somebody stops: what there is by then is kept."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
