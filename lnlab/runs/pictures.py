"""Pictures of a run: named arrays that belong to rows of its metrics.

Their file is a row of `safetensors <https://github.com/huggingface/safetensors>`_, one for
each row of metrics that has pictures, which say where they end: it can be added to, cut, and
read while it is written, and executes nothing.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lnlab.runs.files import plain

if TYPE_CHECKING:
    import numpy as np

DTYPES = ("float16", "float32", "float64", "uint8")

IN_ROWS = "attention"
"""The pictures that runs of ``las`` kept in their rows of metrics before."""


def packet(row: Mapping[str, Any], pictures: Mapping[str, Any]) -> bytes:
    """The bytes of the pictures of one row, tensors or arrays by name.

    Raises:
        ValueError: if the row has no ``update`` or no ``seed``, by which they are found.
        TypeError: if a picture is no array of one of :data:`DTYPES`; names it.
    """
    import numpy as np
    from safetensors.numpy import save

    if not {"update", "seed"} <= set(row):
        raise ValueError("a row with pictures says its update and its seed.")
    arrays = {}
    for name, picture in pictures.items():
        cpu = picture.detach().cpu() if hasattr(picture, "detach") else picture
        arrays[name] = np.ascontiguousarray(cpu)
        if arrays[name].dtype.name not in DTYPES:
            raise TypeError(f"picture {name!r} is {arrays[name].dtype}: {', '.join(DTYPES)}")
    # in one text, as safetensors writes several in any order
    of = json.dumps({"update": row["update"], "seed": row["seed"]}, default=plain)
    return save(arrays, metadata={"row": of})


def packets(content: bytes) -> "Iterator[tuple[int, int, dict[str, np.ndarray]]]":
    """Seed, update and pictures of each row; a torn last one is left out.

    Raises:
        ValueError: if the bytes are no pictures.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    at = 0
    while True:
        begins = at + 8 + int.from_bytes(content[at : at + 8], "little")
        if begins > len(content):
            return
        header = json.loads(content[at + 8 : begins])
        row = json.loads(header.pop("__metadata__")["row"])
        ends = begins + max((array["data_offsets"][1] for array in header.values()), default=0)
        if ends > len(content):
            return
        try:
            yield row["seed"], row["update"], load(content[at:ends])
        except SafetensorError as error:
            raise ValueError(str(error)) from error
        at = ends


def in_rows(rows: "list[dict[str, Any]]") -> "Iterator[tuple[int, int, dict[str, np.ndarray]]]":
    """Seed, update and pictures of rows of metrics that hold them as lists of numbers."""
    import numpy as np

    for row in rows:
        if IN_ROWS in row:
            pictures = {f"{IN_ROWS} {k}": np.array(v) for k, v in enumerate(row[IN_ROWS])}
            yield row["seed"], row["update"], pictures


def of_seed(
    found: "Iterator[tuple[int, int, dict[str, np.ndarray]]]", seed: int
) -> "dict[int, dict[str, np.ndarray]]":
    """The pictures of one seed by update, then by name."""
    by_update: dict[int, dict[str, np.ndarray]] = defaultdict(dict)
    for whose, update, pictures in found:
        if whose == seed:
            by_update[update] |= pictures
    return dict(by_update)
