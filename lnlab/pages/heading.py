"""The heading of a notebook: its title, and the question that it opens with."""

import re
from collections.abc import Mapping
from typing import Any


def opening(notebook: Mapping[str, Any]) -> tuple[str, str]:
    """Title and first sentences of a notebook: the heading of its first cell, what follows.

    Args:
        notebook: as nbformat has it, or as the file has it.
    """
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    source = "".join(next(cells, {"source": ""})["source"])  # in files, a list of lines
    heading, _, rest = source.strip().partition("\n")
    title = re.sub(r"^#*\s*(\d+\s*[·.:–-]\s*)?", "", heading)
    return title, rest.strip().split("\n\n")[0]
