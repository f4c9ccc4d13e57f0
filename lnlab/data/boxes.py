"""The things in a picture and their places, as boxes; and the vector that stands for it."""

from dataclasses import dataclass

import numpy as np

PARTS = ("how many", "how large", "across", "down")
"""The four numbers that a picture's vector has of every kind of thing."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """The things in a picture, each with the rectangle around it.

    Attributes:
        kinds: the number of each thing's kind (n,).
        places: left, top, right, bottom of each (n, 4), as fractions of width and height.
    """

    kinds: np.ndarray
    places: np.ndarray

    @property
    def centres(self) -> np.ndarray:
        """The middle of each box (n, 2), across and down."""
        return (self.places[:, :2] + self.places[:, 2:]) / 2

    @property
    def areas(self) -> np.ndarray:
        """The part of the picture that each box covers (n,)."""
        return np.prod(self.places[:, 2:] - self.places[:, :2], axis=1)


def vector(boxes: Boxes, kinds: int) -> np.ndarray:
    """The numbers of a picture (4 kinds,), float32, :data:`PARTS` of each kind in turn.

    log(1 + count), the root of the area of all of its boxes, and where the middle of them is,
    from the centre of the picture (-1 to 1); zeros for a kind that is not there.
    """
    count = np.bincount(boxes.kinds, minlength=kinds)
    area = np.bincount(boxes.kinds, boxes.areas, minlength=kinds)
    across, down = (
        np.bincount(boxes.kinds, 2 * centre - 1, minlength=kinds) / np.maximum(count, 1)
        for centre in boxes.centres.T
    )
    parts = np.log1p(count), np.sqrt(area), across, down
    return np.concatenate(parts).astype(np.float32)
