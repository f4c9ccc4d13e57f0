"""Progress that can be read in a terminal, and afterwards in a file."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm.auto import tqdm

T = TypeVar("T")


def progress(items: Iterable[T], total: int, text: str) -> Iterator[T]:
    """The items, while a bar shows how far they have come.

    In a terminal or a live notebook it is tqdm's. Anywhere else (a pipe, a notebook that is
    executed headless, where ``LNLAB_HEADLESS`` is set) it is a plain line when a tenth of
    them or ten seconds have gone by, whichever takes longer, and one at the end.
    """
    if watched():
        yield from tqdm(items, total=total, desc=text, mininterval=0.5)
    else:
        yield from _plain(items, total, text)


def watched() -> bool:
    """Whether somebody may be looking on: a terminal, or a notebook that is not headless."""
    if os.environ.get("LNLAB_HEADLESS"):
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _plain(items: Iterable[T], total: int, text: str) -> Iterator[T]:
    began = said = time.monotonic()
    tenth = 0
    done = 0
    try:
        for item in items:
            yield item
            done += 1
            now = time.monotonic()
            if done * 10 // max(total, 1) > tenth and now - said >= 10 and done < total:
                tenth, said = done * 10 // max(total, 1), now
                print(f"{text}: {done} of {total}, {now - began:.0f} s", flush=True)
    finally:
        seconds = time.monotonic() - began
        print(f"{text}: {done} of {total} in {seconds:.1f} s", flush=True)
