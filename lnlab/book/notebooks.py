"""Notebooks as they are written: their order, titles and parameters.

They are read as JSON: nbformat's check of every cell takes two seconds to import.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BEGINNERS = ("00", "01", "02", "04", "06", "16", "17")
"""The numbers of the notebooks for beginners; the others are the second track."""


FROM_ENVIRONMENT = r"""os\.environ\.get\(["'](\w+)["'], ["'](\w*)["']\)"""
"""A default that a variable of the environment overrides."""


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook, unchecked: ``cells`` of ``cell_type``, ``source`` and ``metadata``."""
    return json.loads(path.read_text(encoding="utf-8"))


def list_notebooks(folder: Path) -> list[Path]:
    """Return the notebooks of a folder by number."""
    return sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))


def is_for_beginners(path: Path) -> bool:
    """Return True for a notebook of the first track."""
    return path.stem.split("_")[0] in BEGINNERS


def sort_beginners_first(paths: Sequence[Path]) -> list[Path]:
    """Return notebooks in the order in which they are read: those for beginners first."""
    return sorted(paths, key=lambda path: not is_for_beginners(path))


def select_notebooks(names: Sequence[str], paths: list[Path]) -> list[Path]:
    """Return the notebooks named by number (``2`` or ``02``) or by name; all for no names."""

    def has_name_or_number(name: str, path: Path) -> bool:
        number = path.stem.split("_")[0]
        by_number = name.isdecimal() and number.isdecimal() and int(name) == int(number)
        return by_number or name in (path.stem, path.name)

    for name in names:
        if not any(has_name_or_number(name, path) for path in paths):
            existing = ", ".join(path.stem for path in paths)
            raise ValueError(f"There is no notebook {name!r}. There are: {existing}")
    return [
        path
        for path in paths
        if not names or any(has_name_or_number(name, path) for name in names)
    ]


def parse_literal_or_text(text: str) -> Any:
    """Return the value of a text of the command line: a Python literal where it is one."""
    try:
        literal = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return list(literal) if isinstance(literal, tuple) else literal


def read_parameter_defaults_as_text(path: Path) -> dict[str, str]:
    """Return the parameters of a notebook and their defaults as text, one a line."""
    return dict(re.findall(r"(?m)^(\w+) = (.+?)(?: *#.*)?$", _parameters_cell_source(path)))


def read_parameter_defaults(
    path: Path, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the values of a notebook's parameters that its text describes.

    Args:
        path: of the notebook.
        environ: variables of the environment, from which some take their defaults.
    """
    values: dict[str, Any] = {}
    for name, text in read_parameter_defaults_as_text(path).items():
        variable = re.fullmatch(FROM_ENVIRONMENT, text)
        values[name] = (
            (environ or {}).get(*variable.groups()) if variable else parse_literal_or_text(text)
        )
    return values


def read_parameter_lines(path: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the parameters of a notebook, their defaults and their comments, as written.

    In place of a variable of the environment stands the value that it has in ``environ``.
    """

    def get_value(variable: re.Match[str]) -> str:
        return repr(environ.get(*variable.groups())).replace("'", '"')

    source = re.sub(FROM_ENVIRONMENT, get_value, _parameters_cell_source(path))
    return [
        line for line in source.splitlines() if line.strip() and not line.startswith("import ")
    ]


def _parameters_cell_source(path: Path) -> str:
    """Return the source of the cell with the tag ``parameters``; "" if there is none."""
    cells = read_notebook(path)["cells"]
    tagged = (c for c in cells if "parameters" in c["metadata"].get("tags", ()))
    return "".join(next(tagged, {"source": ""})["source"])


def select_parameters_per_notebook(
    wanted: dict[str, Any], paths: list[Path]
) -> dict[Path, dict[str, Any]]:
    """Return for each notebook those of the wanted parameters that it has."""
    known = {path: read_parameter_defaults_as_text(path) for path in paths}
    for name in wanted:
        if not any(name in defaults for defaults in known.values()):
            existing = "\n".join(f"  {path.stem}: {', '.join(known[path])}" for path in paths)
            chosen = "this notebook" if len(paths) == 1 else "these notebooks"
            raise ValueError(f"There is no parameter {name!r} in {chosen}:\n{existing}")
    return {path: {k: v for k, v in wanted.items() if k in known[path]} for path in paths}


def read_title_and_first_paragraph(notebook: Mapping[str, Any]) -> tuple[str, str]:
    """Return the title of a notebook and its first paragraph: its question, and its minutes.

    Args:
        notebook: as nbformat has it, or as the file has it.
    """
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    source = "".join(next(cells, {"source": ""})["source"])  # in files, a list of lines
    heading, _, rest = source.strip().partition("\n")
    title = re.sub(r"^#*\s*(\d+\s*[·.:–-]\s*)?", "", heading)
    return title, rest.strip().split("\n\n")[0]
