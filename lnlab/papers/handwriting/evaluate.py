"""The log loss of lines that a net was not trained on, and lines that it writes itself."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.papers.handwriting.model import (
    HandwritingNet,
    Lines,
    PenMemory,
    drawn,
    log_loss,
    mixture,
    scaled,
    unscaled,
)
from lnlab.papers.handwriting.pen import Line

SIZE = 50
"""Lines that are measured at a time."""
WATCHED = 1
"""Validation lines whose window is kept at each evaluation."""
TEXTS = {"pen": "the lazy fox", "unipen": "lazy foxes", "iam": "lazy foxes"}
"""The text that every net writes at each evaluation, with :data:`BIAS`."""
BIAS = 1.0
PER_CHARACTER = 40
"""Points a character after which a net that does not come to an end is stopped."""

Scale = tuple[np.ndarray, np.ndarray]


class Scored(NamedTuple):
    """The judgement of a net on N lines.

    Attributes:
        nats: of each line (N,), the sum over its points.
        points: how many each has (N,).
        away: how far the window is from the true character, in characters, on average over the
            points of all lines; NaN where nobody knows it.
        hit: the part of points at which it is on the true one.
        windows: phi (T, U) of the first :data:`WATCHED` lines.
    """

    nats: Tensor
    points: Tensor
    away: float
    hit: float
    windows: list[Tensor]

    def a_point(self, places: Sequence[int] | None = None) -> float:
        """Nats a point, of all lines or of some."""
        chosen = slice(None) if places is None else list(places)
        return float(self.nats[chosen].sum() / self.points[chosen].sum())


@torch.no_grad()
def judged(net: HandwritingNet, lines: Lines, floor: float) -> Scored:
    """The judgement of a net on lines, those of like length together."""
    net.eval()
    weight = net.move.W
    nats = torch.zeros(len(lines), dtype=torch.float64)
    steps = lines.lengths
    points = torch.tensor(steps)
    order = sorted(range(len(lines)), key=steps.__getitem__)
    ends = [*range(0, len(order), SIZE), len(order)]
    away: dict[int, np.ndarray] = {}
    windows: dict[int, Tensor] = {}
    for begin, end in pairwise(ends):
        places = order[begin:end]
        batch, (y, lengths) = lines.gathered(places)
        x, text, y = batch.x.to(weight), batch.text.to(weight.device), y.to(weight)
        found, phi, _ = net.advance(x, text, net.start(len(x)))
        loss = log_loss(mixture(found, floor=floor), y)
        for row, place in enumerate(places):
            line, T = lines.lines[place], int(lengths[row])
            nats[place] = float(loss[row, :T].sum())
            own = phi[row, :T, : len(line.text)].cpu()
            if place < WATCHED:
                windows[place] = own
            if line.places is not None:
                away[place] = distances(own, line)
    known = np.concatenate([*away.values()]) if away else np.full(1, np.nan)
    hit = float((known == 0).mean()) if away else float("nan")
    return Scored(nats, points, float(known.mean()), hit, [windows[k] for k in sorted(windows)])


def distances(phi: Tensor, line: Line) -> np.ndarray:
    """The characters between the top of the window and that of the next point (T,)."""
    assert line.places is not None
    return np.abs(phi.argmax(-1).numpy() - line.places[1:])


def measured(
    net: HandwritingNet, lines: dict[str, Lines], unseen: Sequence[int], floor: float, name: str
) -> dict[str, Any]:
    """All that is measured of a net.

    ``valid_nll`` in nats a point, ``valid_nll_per_line`` a line; ``window_error``, by how many
    characters the window is off, and ``window_hit``, the part of points at which it is right,
    where that is known (else absent). With ``test`` among the lines, ``test_nll``, and
    ``test_nll_unseen`` of lines whose text no training line has. Pictures: ``window 0``, and
    ``written``, offsets of a text in the net's own hand.
    """
    found = judged(net, lines["valid"], floor)
    measures: dict[str, Any] = {
        "valid_nll": found.a_point(),
        "valid_nll_per_line": float(found.nats.mean()),
        **{f"window {k}": phi.half() for k, phi in enumerate(found.windows)},
    }
    if found.away == found.away:
        measures |= {"window_error": found.away, "window_hit": found.hit}
    ink = write(net, TEXTS[name], lines["valid"].scale, bias=BIAS, floor=floor, most=300)
    measures["written"] = torch.from_numpy(ink.offsets).half()
    if "test" in lines:
        tested = judged(net, lines["test"], floor)
        measures["test_nll"] = tested.a_point()
        measures["test_nll_unseen"] = tested.a_point(unseen) if unseen else float("nan")
    return measures


class Ink(NamedTuple):
    """A line that a net has written.

    Attributes:
        offsets: (T + 1, 3), as of :class:`lnlab.papers.handwriting.pen.Line`.
        phi: where the window was at each of the T points (T, U).
        ended: whether the net came to the end of the text by itself.
    """

    offsets: np.ndarray
    phi: np.ndarray
    ended: bool


@torch.no_grad()
def write(
    net: HandwritingNet,
    text: str,
    scale: Scale,
    *,
    bias: float = 0.0,
    seed: int = 0,
    floor: float = 0.0,
    like: Line | None = None,
    most: int | None = None,
) -> Ink:
    """A text in a net's own hand, point by point.

    It ends where the window is farther behind the text than on any of its characters, as in
    Graves (2013), or after :data:`PER_CHARACTER` points a character.

    Args:
        scale: mean and deviation of the offsets that it was trained on.
        bias: 0 draws from what the net holds likely; above, what is likely becomes likelier.
        seed: of the random numbers.
        floor: of the deviations, as in training.
        like: a line to go on from, in its writer's hand (Graves, section 5.5); it is read
            before, with its text and a space.
        most: points after which it is cut.

    Raises:
        ValueError: for a text that is empty or has characters that the net never learned, or
            a bias below 0.
    """
    if bias < 0:
        raise ValueError(f"bias is {bias}: give 0 or more.")
    net.eval()
    numbers = net.alphabet.encode(text, strict=True)
    before = net.alphabet.encode(f"{like.text} ") if like else []
    weight, random = net.move.W, torch.Generator().manual_seed(seed)
    whole = torch.tensor([before + numbers]).to(weight.device)
    memory, x = _begun(net, whole, scale, like)
    points, windows, ended = [], [], False
    for _ in range(min(most or PER_CHARACTER * len(text), PER_CHARACTER * len(text))):
        y, phi, memory = net.advance(x, whole, memory)
        window = phi[0, 0].cpu()
        ended = bool(window[-1] > window[:-1].max()) and bool(points)
        if ended:
            break
        x = drawn(mixture(y[:, 0], floor=floor, bias=bias), random)[:, None]
        points.append(x[0, 0])
        windows.append(window[len(before) : -1])
    return Ink(unscaled(torch.stack(points), scale), torch.stack(windows).numpy(), ended)


def _begun(
    net: HandwritingNet, text: Tensor, scale: Scale, like: Line | None
) -> tuple[PenMemory, Tensor]:
    """The memory and the point (1, 1, 3) from which a net goes on."""
    memory, weight = net.start(1), net.move.W
    if like is None:
        return memory, weight.new_zeros(1, 1, 3)
    read = scaled(like.offsets, scale).to(weight)[None]
    _, _, memory = net.advance(read[:, :-1], text, memory)
    return memory, read[:, -1:]
