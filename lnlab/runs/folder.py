"""The files of a run: the very bytes that were written, or an error."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lnlab.runs.files import of_json, read_json, sha256, to_json, whole_lines
from lnlab.runs.packed import unpacked

CONFIG, RESULT, ENVIRONMENT = "config.json", "result.json", "environment.json"
METRICS, PICTURES = "metrics.jsonl", "pictures.tensors"

HASHED = (CONFIG, ENVIRONMENT, METRICS, "weights.safetensors")
"""The files of a finished run whose bytes its result knows; pictures too, where there are."""

TOLD = {CONFIG: "config", ENVIRONMENT: "environment"}
"""The files that ``result.json`` can tell, which then need not be kept; by what name."""


class Folder:
    """The files of one run, to read.

    Args:
        path: where they are.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def done(self) -> bool:
        """True once the run came to its end."""
        return (self.path / RESULT).is_file()

    @property
    def begun(self) -> bool:
        """True once a file is there that says what it is a run of."""
        return self.done or (self.path / CONFIG).is_file()

    def record(self) -> dict[str, Any]:
        """The content of ``result.json``: the result, and the SHA-256 of other files by name.

        Raises:
            ValueError: if the run is not done, or the file is damaged.
        """
        if not self.done:
            raise ValueError(f"{self.path} is not done: run its task again to resume it.")
        record = read_json(self.path / RESULT)
        with self.damage(RESULT):
            # a kept configuration is held by the SHA-256 of its file
            beside = ("own", TOLD[CONFIG])
            own = {name: value for name, value in record.items() if name not in beside}
            # runs that were kept before have no hash of their own
            if record.get("own", of_json(own)) != of_json(own):
                raise ValueError("it has another SHA-256 for itself")
            if set(record["sha256"]) - {PICTURES} != set(HASHED):
                raise ValueError("it has not the SHA-256 of every other file")
        return record

    def settled(self, name: str) -> bool:
        """True if ``result.json`` tells, or could tell, every byte of a file.

        Of the environment it tells the one that the run ended in.
        """
        told = self.object(name) if name == CONFIG else self.record().get(TOLD[name])
        return to_json(told) == self.content(name)

    def object(self, name: str) -> dict[str, Any]:
        """The object in a JSON file.

        Raises:
            ValueError: if it is damaged; names the file.
        """
        content = self.content(name)
        with self.damage(name):
            value = json.loads(content)
            if not isinstance(value, dict):
                raise TypeError("it is no object")
            return value

    def content(self, name: str) -> bytes:
        """The bytes of a file, packed or not; of a run that is done, those it ended with.

        One that is not kept is as ``result.json`` tells it.

        Raises:
            ValueError: if they have changed since.
            FileNotFoundError: if it is not there.
        """
        path, record = self.path / name, self.record() if self.done else {"sha256": {}}
        try:
            content = unpacked(path)
        except FileNotFoundError as error:
            if TOLD.get(name) not in record:
                raise FileNotFoundError(
                    f"{path} is missing from run {self.path.name}: copy it back, or delete the "
                    "folder and train again."
                ) from error
            content = to_json(record[TOLD[name]])
        if sha256(content) != record["sha256"].get(name, sha256(content)):
            raise ValueError(f"{path} is damaged: result.json has another SHA-256 for it.")
        return content

    def last(self) -> list[dict[str, Any]]:
        """The rows of the last update that was logged, one for each seed.

        Raises:
            ValueError: if one of them is damaged, and names its line; if there is no file.
        """
        lines = self._lines()
        rows: list[dict[str, Any]] = []
        for number in range(len(lines), 0, -1):
            row = self._row(number, lines[number - 1])
            if rows and row.get("update") != rows[0].get("update"):
                break
            rows.insert(0, row)
        return rows

    def rows(self) -> list[dict[str, Any]]:
        """Every whole row of the metrics; a last one that was torn off is left out.

        Raises:
            ValueError: if another row is damaged, and names its line; if there is no file.
        """
        return [self._row(*numbered) for numbered in enumerate(self._lines(), start=1)]

    def _lines(self) -> list[bytes]:
        try:
            return whole_lines(self.content(METRICS))
        except FileNotFoundError as error:
            raise ValueError(
                f"{self.path / METRICS} is missing: the run is damaged."
            ) from error

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        with self.damage(f"{METRICS}, line {number},"):
            row = json.loads(line)
            if not isinstance(row, dict):
                raise TypeError("it is no object")
            return row

    @contextmanager
    def damage(self, name: str) -> Iterator[None]:
        """Errors of what is done inside say that the file ``name`` is damaged."""
        try:
            yield
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            path = self.path / name
            raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from error
