"""The playground as one ES module, and its page."""

import json
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SCRIPTS = ("engine.js",)
"""The scripts in their order; none imports another, as they stand in one module."""


@cache
def digits() -> str:
    """Return 600 digits, 60 of each class: the label, then a letter a pixel, A to Q."""
    from sklearn.datasets import load_digits  # takes a second

    images, labels = load_digits(return_X_y=True)
    # the first 60 of each class, as they come: every class is among any 100 in a row
    rank = np.array([(labels[:i] == label).sum() for i, label in enumerate(labels)])
    chosen = np.flatnonzero(rank < 60)
    pixels = (images[chosen].astype(int) + ord("A")).tolist()
    lines = zip(labels[chosen], pixels, strict=True)
    return "".join(f"{label}{''.join(map(chr, row))}" for label, row in lines)


@cache
def module() -> str:
    """Return the playground as the source of one ES module, which needs nothing else."""
    fields = json.loads((HERE / "state.json").read_text(encoding="utf-8"))
    template = (HERE / "template.py").read_text(encoding="utf-8")
    constants = {"FIELDS": fields, "DIGITS": digits(), "TEMPLATE": template}
    parts = [f"const {name} = {json.dumps(value)};" for name, value in constants.items()]
    parts += [(HERE / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(parts)
