"""The cell that makes a notebook run on Colab, where nothing of lnlab is installed."""

import json
from pathlib import Path
from typing import Any

from lnlab.workbook.written import read

TAG = "colab"
FORGES = ("https://", "http://")


def source(repository: str) -> str:
    """The code that installs lnlab with its checkout on Colab, and does nothing elsewhere.

    Args:
        repository: the address that git clones.

    Raises:
        ValueError: it is no address of a web site.
    """
    if not repository.startswith(FORGES) or set(repository) & set(" \"'\\\n"):
        raise ValueError(f"repository is {repository!r}: give the address, https://...")
    return (
        'if "google.colab" in str(get_ipython()):\n'
        f'    get_ipython().system("git clone -q --depth 1 {repository} /content/lnlab")\n'
        '    get_ipython().run_line_magic("pip", "install -q -e /content/lnlab")\n'
        '    __import__("sys").path.insert(0, "/content/lnlab")'
    )


def prepared(notebook: dict[str, Any], repository: str) -> dict[str, Any]:
    """A notebook with the cell behind its opening; with none, where the address is empty."""
    cells = [c for c in notebook["cells"] if TAG not in c["metadata"].get("tags", ())]
    if repository:
        cell = {
            "cell_type": "code", "execution_count": None, "id": TAG,
            "metadata": {"tags": [TAG]}, "outputs": [],
            "source": source(repository).splitlines(keepends=True),
        }  # fmt: skip
        cells.insert(1, cell)
    return {**notebook, "cells": cells}


def prepare(path: Path, repository: str) -> bool:
    """Write the cell into a notebook, or take it out; True if the file had to change."""
    notebook = read(path)
    new = prepared(notebook, repository)
    if new == notebook:
        return False
    text = json.dumps(new, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
    return True
