"""The place of a caption among pictures and captions: a pure function of the panel's state."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.data.captions import SCENES, Captions
from lnlab.data.scenes import Said, parsed
from lnlab.figures.order import NEIGHBOURS, SLOTS, Neighbour, Shown, Thing
from lnlab.panels.controls import one_of
from lnlab.panels.order.state import OrderState
from lnlab.tasks.order import retrieval

EXAMPLES = (
    "a red heart", "a heart", "a small thing", "a large warm polygon", "a star and a ring",
    "a blue star left of a ring", "a green thing above a square", "a cool curve",
)  # fmt: skip
"""Captions to begin with, of scenes."""
FIRST = 8
"""Captions of photographs to begin with, each of another picture."""


class Embedded:
    """Trained nets, and the test pictures as each of them sees these.

    Args:
        nets: by name, of the task ``order_embeddings``; of one vocabulary.
        dataset: that they were trained on.

    Raises:
        ValueError: if there are none, or one was trained with another vocabulary.
    """

    def __init__(self, nets: Mapping[str, Any], dataset: Captions) -> None:
        from lnlab.tasks.vocabularies import alphabet

        if not nets:
            raise ValueError("there are no nets: train some order embeddings first.")
        for name, net in nets.items():
            if not torch.equal(net.alphabet.cpu(), alphabet(dataset.vocabulary)):
                raise ValueError(
                    f"{name} was trained with another vocabulary: its words have other numbers."
                )
        self.nets, self.dataset = dict(nets), dataset
        self.seen: dict[str, Tensor] = {}
        self.of_scenes = dataset.source is SCENES
        each = len(dataset.test.captions) // len(dataset.test)
        own = dataset.test.captions[: FIRST * each : each]
        self.examples = EXAMPLES if self.of_scenes else own

    def whole(self, state: OrderState) -> OrderState:
        """A state with a caption and a net.

        Raises:
            ValueError: for a net that is not there, or a caption that cannot be understood.
        """
        state = OrderState(
            state.caption or self.examples[0], state.net or next(iter(self.nets))
        )
        one_of("net", state.net, [*self.nets])
        self.said(state.caption)
        return state

    def said(self, caption: str) -> Said | None:
        """The meaning of a caption; None where nobody but its author knows.

        Raises:
            ValueError: if it has no words, or, of scenes, is not understood.
        """
        if self.of_scenes:
            return parsed(caption)
        self.dataset.vocabulary.numbers(caption)
        return None

    def pictures(self, net: str) -> Tensor:
        """The test pictures as a net sees them (P, H)."""
        if net not in self.seen:
            self.seen[net] = retrieval.seen(self.nets[net], self.dataset.test)
        return self.seen[net]

    def points(self, net: str, captions: tuple[str, ...]) -> Tensor:
        """Captions as a net reads them (C, H)."""
        return retrieval.points(self.nets[net], captions, self.dataset.vocabulary)

    def things(self, place: int) -> list[Thing]:
        """The things in a test picture."""
        boxes = self.dataset.test.boxes
        if not boxes:
            return []
        found = []
        for kind, where in zip(boxes[place].kinds, boxes[place].places, strict=True):
            name = self.dataset.kinds[kind]
            paint, shape = name.split() if self.of_scenes else ("", "")
            left, top, right, bottom = map(float, where)
            found.append(Thing(name, shape, paint, (left, top, right, bottom)))
        return found


class OrderMeasurement(NamedTuple):
    """The place of a caption.

    Attributes:
        caption: as it was said.
        nearest: the first pictures.
        violations: by every test picture (P,).
        true: whether it is true of each (P,); None where nobody knows.
        above, below: captions that say less, and more.
        unknown: its words that the vocabulary does not have.
    """

    caption: str
    nearest: list[Shown]
    violations: np.ndarray
    true: np.ndarray | None
    above: list[Neighbour]
    below: list[Neighbour]
    unknown: tuple[str, ...]


def measure(there: Embedded, state: OrderState) -> OrderMeasurement:
    """The place of the caption of a state; the one way into this room for a move."""
    state = there.whole(state)
    said, dataset = there.said(state.caption), there.dataset
    own = there.points(state.net, (str(said) if said else state.caption.lower(),))
    violations = retrieval.violations(own, there.pictures(state.net))[0]
    true = dataset.true([state.caption])
    first = violations.argsort()[:SLOTS].tolist()
    nearest = [
        Shown(
            there.things(place),
            float(violations[place]),
            None if true is None else bool(true[0, place]),
        )
        for place in first
    ]
    less = tuple(map(str, said.above()))[:NEIGHBOURS] if said else ()
    more = specials(there, said) if said else ()
    above = [
        Neighbour(text, float((general - own[0]).relu().square().sum()))
        for text, general in _read(there, state.net, less)
    ]
    below = [
        Neighbour(text, float((own[0] - special).relu().square().sum()))
        for text, special in _read(there, state.net, more)
    ]
    unknown = tuple(w for w in state.caption.lower().split() if w not in dataset.vocabulary)
    return OrderMeasurement(
        state.caption, nearest, violations.numpy().astype(float),
        None if true is None else true[0], above, below, () if said else unknown,
    )  # fmt: skip


def specials(there: Embedded, said: Said) -> tuple[str, ...]:
    """Test captions that say more, the first that are found."""
    found: dict[str, None] = {}
    for text in there.dataset.test.captions:
        special = parsed(text)
        if special != said and special.below(said):
            found[text] = None
        if len(found) == NEIGHBOURS:
            break
    return (*found,)


def _read(there: Embedded, net: str, texts: tuple[str, ...]) -> list[tuple[str, Tensor]]:
    return [*zip(texts, there.points(net, texts), strict=True)] if texts else []
