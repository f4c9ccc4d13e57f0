"""Something that was said, ready for a recognizer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Unit = Literal["phones", "letters", "words"]


@dataclass(frozen=True)
class Utterance:
    """Something that was said.

    Attributes:
        name: of the utterance.
        speaker: who said it.
        features: (T, D), a frame every 10 ms.
        units: what was said.
        ends: seconds at which each unit ends (len(units),), and ``begins`` likewise; None
            where nobody knows.
        sound: the samples, to be listened to; None where there is none.
    """

    name: str
    speaker: str
    features: "Tensor"
    units: tuple[str, ...]
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None
    sound: np.ndarray | None = None
