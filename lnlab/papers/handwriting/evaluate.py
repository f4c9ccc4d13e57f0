"""The likelihood of lines that a model was not trained on, and lines that it writes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.papers.handwriting.model import (
    EncodedLines,
    HandwritingNet,
    WriterState,
    make_mixture,
    negative_log_likelihood,
    sample_points,
    standardise,
    unstandardise,
)
from lnlab.papers.handwriting.pen import Line

BATCH = 50
"""Lines that are measured at a time."""
SHOWN = 1
"""Validation lines whose window is kept at each evaluation."""
TEXTS = {"pen": "the lazy fox", "unipen": "lazy foxes", "iam": "lazy foxes"}
"""The text that every model writes at each evaluation, with :data:`BIAS`."""
BIAS = 1.0
PER_CHARACTER = 40
"""Points a character after which a model that does not come to an end is stopped."""

Scale = tuple[np.ndarray, np.ndarray]


class LineScores(NamedTuple):
    """The scores of a model on N lines.

    Attributes:
        nats: of each line (N,), the sum over its points.
        points: how many each has (N,).
        window_error: how far the window is from the true character, in characters, on average
            over the points of all lines; NaN where nobody knows it.
        window_hit: the fraction of points at which it is on the true one.
        windows: phi (T, U) of the first :data:`SHOWN` lines.
    """

    nats: Tensor
    points: Tensor
    window_error: float
    window_hit: float
    windows: list[Tensor]

    def per_point(self, indices: Sequence[int] | None = None) -> float:
        """Return the nats a point, of all lines or of some."""
        chosen = slice(None) if indices is None else list(indices)
        return float(self.nats[chosen].sum() / self.points[chosen].sum())


@torch.no_grad()
def score_lines(net: HandwritingNet, lines: EncodedLines, floor: float) -> LineScores:
    """Return the scores of a model on lines, those of like length together."""
    net.eval()
    weight, steps = net.move.W, lines.lengths
    nats = torch.zeros(len(lines), dtype=torch.float64)
    errors: dict[int, np.ndarray] = {}
    windows: dict[int, Tensor] = {}
    order = sorted(range(len(lines)), key=steps.__getitem__)
    for begin in range(0, len(order), BATCH):
        indices = order[begin : begin + BATCH]
        batch, (points, lengths) = lines.batch(indices)
        x, text, points = batch.x.to(weight), batch.text.to(weight.device), points.to(weight)
        y, phi, _ = net.advance(x, text, net.start(len(x)))
        loss = negative_log_likelihood(make_mixture(y, floor=floor), points)
        for row, index in enumerate(indices):
            line, T = lines.lines[index], int(lengths[row])
            nats[index] = float(loss[row, :T].sum())
            window = phi[row, :T, : len(line.text)].cpu()
            if index < SHOWN:
                windows[index] = window
            if line.places is not None:
                errors[index] = window_errors(window, line)
    known = np.concatenate([*errors.values()]) if errors else np.full(1, np.nan)
    hit = float((known == 0).mean()) if errors else float("nan")
    shown = [windows[k] for k in sorted(windows)]
    return LineScores(nats, torch.tensor(steps), float(known.mean()), hit, shown)


def window_errors(phi: Tensor, line: Line) -> np.ndarray:
    """Return the characters between the top of the window and that of the next point (T,)."""
    assert line.places is not None
    return np.abs(phi.argmax(-1).numpy() - line.places[1:])


def measure(
    net: HandwritingNet,
    lines: dict[str, EncodedLines],
    unseen: Sequence[int],
    floor: float,
    source: str,
) -> dict[str, Any]:
    """Return all that is measured of a model.

    ``valid_nll`` in nats a point, ``valid_nll_per_line`` a line; ``window_error``, by how many
    characters the window is off, and ``window_hit``, the fraction of points at which it is
    right, where that is known (else absent). With ``test`` among the lines, ``test_nll``, and
    ``test_nll_unseen`` of lines whose text no training line has. Pictures: ``window 0``, and
    ``written``, offsets of a text in the model's own hand.
    """
    valid = score_lines(net, lines["valid"], floor)
    values: dict[str, Any] = {
        "valid_nll": valid.per_point(),
        "valid_nll_per_line": float(valid.nats.mean()),
        **{f"window {k}": phi.half() for k, phi in enumerate(valid.windows)},
    }
    if not np.isnan(valid.window_error):
        values |= {"window_error": valid.window_error, "window_hit": valid.window_hit}
    line = write(net, TEXTS[source], lines["valid"].scale, bias=BIAS, floor=floor, most=300)
    values["written"] = torch.from_numpy(line.offsets).half()
    if "test" in lines:
        test = score_lines(net, lines["test"], floor)
        values["test_nll"] = test.per_point()
        values["test_nll_unseen"] = test.per_point(unseen) if unseen else float("nan")
    return values


class WrittenLine(NamedTuple):
    """A line that a model has written.

    Attributes:
        offsets: (T + 1, 3), as of :class:`lnlab.papers.handwriting.pen.Line`.
        phi: where the window was at each of the T points (T, U).
        ended: whether the model came to the end of the text by itself.
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
) -> WrittenLine:
    """Write a text in a model's own hand, point by point.

    It ends where the window is farther behind the text than on any of its characters, as in
    Graves (2013), or after :data:`PER_CHARACTER` points a character.

    Args:
        scale: mean and deviation of the offsets that it was trained on.
        bias: 0 draws from what the model holds likely; above, what is likely becomes likelier.
        seed: of the random numbers.
        floor: of the deviations, as in training.
        like: a line to go on from, in its writer's hand (Graves, section 5.5); it is read
            before, with its text and a space.
        most: points after which it is cut.

    Raises:
        ValueError: for a text that is empty or has characters that the model never learned, or
            a bias below 0.
    """
    if bias < 0:
        raise ValueError(f"bias is {bias}: give 0 or more.")
    net.eval()
    numbers = net.alphabet.encode(text, strict=True)
    before = net.alphabet.encode(f"{like.text} ") if like else []
    weight, random = net.move.W, torch.Generator().manual_seed(seed)
    whole = torch.tensor([before + numbers]).to(weight.device)
    state, x = _first_state(net, whole, scale, like)
    points, windows, ended = [], [], False
    for _ in range(min(most or PER_CHARACTER * len(text), PER_CHARACTER * len(text))):
        y, phi, state = net.advance(x, whole, state)
        window = phi[0, 0].cpu()
        ended = bool(window[-1] > window[:-1].max()) and bool(points)
        if ended:
            break
        x = sample_points(make_mixture(y[:, 0], floor=floor, bias=bias), random)[:, None]
        points.append(x[0, 0])
        windows.append(window[len(before) : -1])
    offsets = unstandardise(torch.stack(points), scale)
    return WrittenLine(offsets, torch.stack(windows).numpy(), ended)


def _first_state(
    net: HandwritingNet, text: Tensor, scale: Scale, like: Line | None
) -> tuple[WriterState, Tensor]:
    """Return the state and the point (1, 1, 3) from which a model goes on."""
    state, weight = net.start(1), net.move.W
    if like is None:
        return state, weight.new_zeros(1, 1, 3)
    read = standardise(like.offsets, scale).to(weight)[None]
    _, _, state = net.advance(read[:, :-1], text, state)
    return state, read[:, -1:]
