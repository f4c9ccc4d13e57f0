"""The commands for runs that a measurement was declared of."""

import shlex
from collections.abc import Iterable
from functools import cache
from typing import Any

from lnlab.training import Experiment


def one_after_the_other(tasks: Iterable[Any], data: str = "") -> str:
    """The commands that train tasks, each once.

    Args:
        tasks: what is trained.
        data: NAME=PATH, of data that is at a path; empty: as each task says.
    """
    return " && ".join(dict.fromkeys(_train(task, data) for task in tasks))


def _train(task: Any, data: str) -> str:
    """``lnlab train`` with the settings of a task, the nearest of its budgets first."""
    wanted = task.config()
    told = {
        name: [key for key in {**wanted, **config} if config.get(key) != wanted.get(key)]
        for name, config in _budgets(type(task), wanted["batch_size"]).items()
    }
    budget = min(told, key=lambda name: len(told[name]))
    if "data" in told[budget]:  # what no budget has of its own is at a path
        data = data or f"{wanted['data']}=PATH"
    words = ["lnlab", "train", task.name, "--budget", budget]
    words += ["--data", data] if data else []
    for key in dict.fromkeys(["norm", *told[budget], "batch_size"]):
        if key != "data":
            # a field at its past value is not in the configuration
            words += ["--set", f"{key}={_plain(wanted.get(key, getattr(task, key)))}"]
    return shlex.join(words)


@cache
def _budgets(kind: type[Experiment], size: int) -> dict[str, dict[str, Any]]:
    """The configurations of the budgets that commands start from: the same for many runs."""
    names = ("paper", "notebook")
    return {name: kind.budget(name, batch_size=size).config() for name in names}


def _plain(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    # a number alone would be how many seeds there are
    return ",".join(map(str, value)) + ("," if len(value) == 1 else "")
