"""Progress that can be read as it comes, and afterwards in a file."""

import os
import sys
import time
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar("T")


def progress(
    items: Iterable[T], total: int, text: str, *, shown: bool = True
) -> Generator[T, None, None]:
    """Yield the items, with a bar or lines that say how many of ``total`` are done.

    In a terminal or a live notebook by tqdm's bar, in letters: of one that is a widget a saved
    notebook keeps nothing. Anywhere else (a pipe, or where ``LNLAB_HEADLESS`` is set, as when
    a notebook is executed headless) by plain lines: one when another tenth has come
    and ten seconds have gone by since the last, and one at the end, wherever that is. With
    ``shown=False`` there is no output.
    """
    if not shown:
        yield from items
    elif shows_progress_bar():
        from tqdm import tqdm

        # a notebook shows what goes to stderr as if something were wrong
        where = sys.stderr if sys.stderr.isatty() else sys.stdout
        yield from tqdm(items, total=total, desc=text, mininterval=0.5, file=where)
    else:
        yield from _print_progress_lines(items, total, text)


def shows_progress_bar() -> bool:
    """Return True in a terminal, and in a notebook that is not headless."""
    if os.environ.get("LNLAB_HEADLESS"):
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _print_progress_lines(
    items: Iterable[T], total: int, text: str
) -> Generator[T, None, None]:
    began = printed = time.monotonic()
    done = tenths = 0
    try:
        for item in items:
            done += 1
            now = time.monotonic()
            if now - printed >= 10 and 10 * done // max(total, 1) > tenths and done < total:
                printed, tenths = now, 10 * done // max(total, 1)
                print(f"{text}: {done} of {total}, {now - began:.0f} s", flush=True)
            yield item
    finally:
        seconds = time.monotonic() - began
        print(f"{text}: {done} of {total} in {seconds:.1f} s", flush=True)
