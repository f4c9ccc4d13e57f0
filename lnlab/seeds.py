"""Seeds as people write them: an integer is how many, a list is which."""

import re
from collections.abc import Sequence
from typing import Any

HOW = "write how many (3 is 0, 1, 2), which (0,4 or '0 4'; 4, for one) or from-to (3-5)"


def read_seeds(value: Any) -> tuple[int, ...]:
    """Return the seeds that a number of seeds, a list of them or a text stands for.

    Args:
        value: 3 is the seeds 0, 1 and 2; [3] is the seed 3; of a text, "3-5" is 3, 4 and 5, and
            commas, spaces or brackets make a list.

    Returns:
        The seeds; none of an empty list, which stands for those of the budget.

    Raises:
        ValueError: if it is none of these, or names a seed twice; says how to write them.
    """
    read = _parsed(value.strip()) if isinstance(value, str) else value
    if type(read) is int and read > 0:
        return tuple(range(read))
    if isinstance(read, Sequence) and not isinstance(read, str):
        whole = all(type(seed) is int and seed >= 0 for seed in read)
        if whole and len({*read}) == len(read):
            return tuple(read)
    raise ValueError(f"seeds {value!r}: {HOW}, each once.")


def _parsed(text: str) -> int | list[int] | None:
    """Return what a text says, None if it says nothing that seeds can be."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    if bracketed := re.fullmatch(r"\[(.*)\]|\((.*)\)", text):
        text = (bracketed[1] or bracketed[2] or "").strip()
        if not text:
            return []
    if bounds := re.fullmatch(r"(\d+)\s*-\s*(\d+)", text):
        return [*range(int(bounds[1]), int(bounds[2]) + 1)] or None
    if re.fullmatch(r"\d+((\s+|\s*,\s*)\d+)*\s*,?", text):
        return [int(seed) for seed in re.findall(r"\d+", text)]
    return None
