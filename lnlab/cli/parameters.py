"""Values of ``-p NAME VALUE``, as people write them."""

import re
from collections.abc import Mapping
from typing import Any

from lnlab.seeds import read_seeds


def value(name: str, text: str, default: Any = None) -> Any:
    """The value that a notebook's parameter is given; a text where its ``default`` is one.

    Raises:
        ValueError: if the name has a "=" in it, the text is of another kind than the default,
            or it names no seeds, budget, device or data, for the parameters of these names;
            what a notebook would find out minutes later is refused at once.
    """
    from lnlab import book

    if "=" in name:
        raise ValueError(apart(name))
    if name == "seeds":
        try:
            return [*read_seeds(text)]
        except ValueError as error:
            raise ValueError(f"-p {error}") from None
    meant = text if isinstance(default, str) else book.value(text)
    kind = type(default)
    if kind in KINDS and type(meant) is not kind:
        raise ValueError(f"-p {name} {text!r}: write {KINDS[kind]}.")
    if name in REFUSING:
        REFUSING[name](str(meant))
    return meant


def apart(word: str) -> str:
    """The complaint about one word that stands for a parameter's name and its value."""
    return f"-p {word}: write the name and the value apart, as -p seeds 3-5."


def refuse_budget(text: str) -> None:
    """Raise a ValueError unless a budget is called so."""
    if text not in BUDGETS:
        raise ValueError(f"-p budget {text!r}: choose from {', '.join(BUDGETS)}.")


def refuse_device(text: str) -> None:
    """Raise a ValueError unless a device may be called so."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", text):
        raise ValueError(f"-p device {text!r}: write auto, cpu, cuda, cuda:1 or mps.")


def refuse_data(text: str) -> None:
    """Raise a ValueError unless there is such a source of data; empty is the budget's own."""
    from lnlab import data
    from lnlab.data.source import find, split_spec

    if text:
        find(split_spec(text)[0], data.sources())


def refuse_absent(told: Mapping[str, Any]) -> None:
    """Raise a ValueError where the device or the data of the parameters is not on this machine.

    Of a budget's own data the notebook says so.
    """
    if told.get("device", "cpu") != "cpu":
        from lnlab.training.random_state import available

        available(told["device"])
    if spec := told.get("data"):
        from lnlab import data
        from lnlab.cli.data import whereabouts
        from lnlab.data.source import find, split_spec

        name, folder = split_spec(spec)
        source = find(name, data.sources())
        if folder is None:
            where = whereabouts(source, data.data_folder() / source.name)
        else:
            where = "" if folder.exists() else f"not here: there is no {folder}"
        if where.startswith("not here"):
            raise ValueError(f"-p data {spec}: {where}.")


KINDS = {dict: "names and values in braces, as '{\"delta\": 2}'", int: "a whole number"}
"""The kinds of values that not every text is, each with the way to write it."""

BUDGETS = ("smoke", "notebook", "paper")
REFUSING = {"budget": refuse_budget, "device": refuse_device, "data": refuse_data}
"""The parameters that are looked at before a kernel starts, each with what refuses others."""
