"""What a figure keeps for a page, read as ``figures.js`` reads it."""

import base64
import gzip
import json
from typing import Any


def unpacked(figure: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The frames of a figure (plotly's JSON) by name: ``traces`` by index, and ``layout``."""
    whole = json.loads(gzip.decompress(base64.b64decode(figure["layout"]["meta"]["frames"])))
    parts = whole["parts"]

    def values(numbers):
        return {name: parts[number] for name, number in numbers.items()}

    return {
        name: {
            "traces": {int(i): values(new) for i, new in frame["traces"].items()},
            "layout": values(frame["layout"]),
        }
        for name, frame in whole["frames"].items()
    }
