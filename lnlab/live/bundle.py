"""The playground as one ES module, and as a page in one file."""

import html
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lnlab.live.examples import digits_as_labels_and_letters, points_by_dataset

MIME = "application/vnd.lnlab.playground+json"
"""The type of an output from which a page shows a playground without a kernel: its settings."""

HERE = Path(__file__).parent
SCRIPTS = ("engine.js", "experiments.js", "draw.js", "view.js")
"""The scripts in their order; none imports another, as they become one module."""


@cache
def default_and_limits_by_setting() -> dict[str, dict[str, Any]]:
    """Return the settings by name: default, and what each can be."""
    return json.loads(read_asset("state.json"))


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ValueError unless every setting exists and has a value that it can have."""
    for name, value in settings.items():
        if not (field := default_and_limits_by_setting().get(name)):
            names = ", ".join(default_and_limits_by_setting())
            raise ValueError(f"no setting is called {name!r}: choose from {names}.")
        if name == "norms":
            is_list = isinstance(value, list | tuple)
            chosen = [norm for norm in field["choices"] if is_list and norm in value]
            right = is_list and len(chosen) == len(value) == 3
            known = f"three of {', '.join(field['choices'])}"
        elif "choices" in field:
            right = value in field["choices"]
            known = f"one of {', '.join(map(str, field['choices']))}"
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            right = is_number and field["from"] <= value <= field["to"]
            known = f"a number from {field['from']} to {field['to']}"
        if not right:
            raise ValueError(f"{name} is {value!r}: give {known}.")


def read_asset(name: str) -> str:
    """Return the contents of a file of this folder."""
    return (HERE / name).read_text(encoding="utf-8")


@cache
def playground_module_source() -> str:
    """Return the playground as the source of one ES module, which needs nothing else."""
    constants = {
        "FIELDS": default_and_limits_by_setting(),
        "EXPERIMENTS": json.loads(read_asset("experiments.json")),
        "POINTS": points_by_dataset(),
        "DIGITS": digits_as_labels_and_letters(),
        "TEMPLATE": read_asset("template.py"),
        "MARKUP": read_asset("markup.html"),
        "STYLE": read_asset("style.css"),
    }
    parts = [f"const {name} = {json.dumps(value)};" for name, value in constants.items()]
    # in a page "</script" would end the script, wherever it stands
    return "\n".join([*parts, *map(read_asset, SCRIPTS)]).replace("</script", r"<\/script")


def playground_placeholder_html(settings: Mapping[str, Any]) -> str:
    """Return the HTML of the place of a playground; the module shows it there."""
    return f'<div data-playground="{html.escape(json.dumps(dict(settings)))}"></div>'


def playground_page_html(settings: Mapping[str, Any]) -> str:
    """Return a page in one file."""
    return (
        read_asset("page.html")
        .replace("ELEMENT", playground_placeholder_html(settings))
        .replace("MODULE", playground_module_source())
    )
