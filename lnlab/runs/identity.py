"""The identity of a run: its configuration and what it was trained on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lnlab.runs.files import sha256
from lnlab.runs.folder import CONFIG, RESULT, Folder


def key(config: Mapping[str, Any], checksum: str) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of configuration and data.

    Raises:
        TypeError: if the configuration cannot be written as JSON.
    """
    return sha256(_canonical({"config": config, "data": checksum}).encode())[:12]


def place(root: Path, task: str, config: Mapping[str, Any], data: Mapping[str, Any]) -> Path:
    """The folder of the run of a configuration on some data: ``root/<task>/<key>``.

    A checksum is now ``of`` the ``"source"``, what was read or synthesised, as
    ``data["checksum_of"]`` says. Runs that were recorded before have no such word and a
    checksum of the features computed from it: a finished one of the same configuration, on
    data of the same name and kind, is the run that is meant.
    """
    folder = Path(root) / task / key(config, data["checksum"])
    if "checksum_of" not in data or Folder(folder).begun:
        return folder
    wanted = _canonical(config), data["name"], data["kind"]
    for result in sorted(folder.parent.glob(f"*/{RESULT}")):
        try:
            record = Folder(result.parent).object(CONFIG)
            then = record["data"]
            told = _canonical(record["config"]), then["name"], then["kind"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # damaged: a reader of that run says so
        if told == wanted and "checksum_of" not in then:
            return result.parent
    return folder


def _canonical(value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the configuration cannot be written as JSON: {error}") from error
