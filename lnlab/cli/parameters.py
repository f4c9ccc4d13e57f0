"""Values of ``-p NAME VALUE``, as people write them."""

import re
from typing import Any

SEEDS = "write how many (3 is 0, 1, 2), which (0,4 or '0 4'; 4, for one) or from-to (3-5)"


def value(name: str, text: str) -> Any:
    """The value that a notebook's parameter is given.

    Raises:
        ValueError: if the text names no seeds, for the parameter ``seeds``.
    """
    from lnlab import workbook

    return seeds(text) if name == "seeds" else workbook.value(text)


def seeds(text: str) -> list[int]:
    """Seeds by their number from 0 on, one by one, or from one to another.

    Raises:
        ValueError: if the text is none of these; says how to write them.
    """
    plain = text.strip().strip("[]()").strip()
    if re.fullmatch(r"\d+", plain) and plain == text.strip():
        found = list(range(int(plain)))
    elif bounds := re.fullmatch(r"(\d+)\s*-\s*(\d+)", plain):
        found = list(range(int(bounds[1]), int(bounds[2]) + 1))
    elif re.fullmatch(r"\d+([\s,]+\d+)*[\s,]*", plain):
        found = [int(seed) for seed in re.findall(r"\d+", plain)]
    elif not plain and text.strip():
        return []  # of "[]": the budget's own
    else:
        found = []
    if not found or len(set(found)) < len(found):
        raise ValueError(f"-p seeds {text!r}: {SEEDS}, each once.")
    return found
