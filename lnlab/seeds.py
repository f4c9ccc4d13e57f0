"""Seeds as people write them: an integer is how many, a list is which."""

import re
from collections.abc import Sequence
from typing import Any

HOW = "write how many (3: seeds 0, 1, 2) or which ('0,4' or '3-5'; one seed: '4,')"


def read_seeds(value: Any) -> tuple[int, ...]:
    """Return the seeds that a number of seeds, a list of them or a text stands for.

    Args:
        value: 3 is the seeds 0, 1 and 2; [3] is the seed 3; of a text, "3-5" is 3, 4 and 5, and
            commas, spaces or brackets make a list, as "0,3-5".

    Returns:
        The seeds; none of an empty list, which stands for those of the budget.

    Raises:
        ValueError: if it is none of these, or names a seed twice; says how to write them.
    """
    seeds = _parse_seed_text(value.strip()) if isinstance(value, str) else value
    if type(seeds) is int and seeds > 0:
        return tuple(range(seeds))
    if isinstance(seeds, Sequence) and not isinstance(seeds, str):
        whole = all(type(seed) is int and seed >= 0 for seed in seeds)
        if whole and len({*seeds}) == len(seeds):
            return tuple(seeds)
    raise ValueError(f"seeds {value!r}: {HOW}, no seed twice.")


def _parse_seed_text(text: str) -> int | list[int] | None:
    """Return what a text says, None if it says nothing that seeds can be."""
    if text.isdecimal():
        return int(text)
    if text in ("[]", "()"):
        return []
    seeds: list[int] = []
    for part in re.sub(r"\s*-\s*", "-", text.strip("[]()").replace(",", " ")).split():
        bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if last < first:
            return None
        seeds += range(first, last + 1)
    return seeds or None


def format_seeds(seeds: Sequence[int]) -> str:
    """Return seeds as :func:`read_seeds` takes them: those in a row as first and last."""
    parts: list[str] = []
    start = 0
    for end in range(1, len(seeds) + 1):
        if end < len(seeds) and seeds[end] == seeds[end - 1] + 1:
            continue
        row = seeds[start:end]
        parts += [f"{row[0]}-{row[-1]}"] if len(row) > 2 else map(str, row)
        start = end
    # a number alone would be how many seeds there are
    return ",".join(parts) + ("," if len(seeds) == 1 else "")
