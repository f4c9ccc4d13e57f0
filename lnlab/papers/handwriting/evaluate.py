"""The likelihood of lines that a model was not trained on, and lines that it writes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.papers.handwriting.data import OffsetMeanAndStd
from lnlab.papers.handwriting.model import (
    BatchableLines,
    HandwritingNet,
    make_mixture,
    negative_log_likelihood,
    sample_points,
    standardize_offsets,
    unstandardize_offsets,
)
from lnlab.papers.handwriting.pen import Line

BATCH = 50  # lines that are evaluated at once
SHOWN = 1  # validation lines whose window is saved at each evaluation
TEXTS = {"pen": "the lazy fox", "unipen": "lazy foxes", "iam": "lazy foxes"}
"""The text that every model writes at each evaluation, with :data:`BIAS`."""
BIAS = 1.0
PER_CHARACTER = 40  # points per character after which a model is stopped


class LineScores(NamedTuple):
    """The scores of a model on N lines."""

    nll_per_line: Tensor  # of each line (N,), the sum over its points
    num_points: Tensor  # the number of points of each (N,)
    # mean distance of the window from the true character; NaN if unknown
    mean_window_error: float
    shown_windows: list[Tensor]  # phi (T, U) of the first SHOWN lines

    def nll_per_point(self, indices: Sequence[int] | None = None) -> float:
        """Return the nats per point, of all lines or of some."""
        rows = slice(None) if indices is None else list(indices)
        return float(self.nll_per_line[rows].sum() / self.num_points[rows].sum())


@torch.no_grad()
def score_lines(net: HandwritingNet, lines: BatchableLines, std_floor: float) -> LineScores:
    """Return the scores of a model on lines, in batches of similar length."""
    net.eval()
    weight, steps = net.move.W, lines.num_steps_per_line
    nats = torch.zeros(len(lines), dtype=torch.float64)
    errors: dict[int, np.ndarray] = {}
    windows: dict[int, Tensor] = {}
    order = sorted(range(len(lines)), key=steps.__getitem__)
    for begin in range(0, len(order), BATCH):
        indices = order[begin : begin + BATCH]
        batch, (points, lengths) = lines.batch(indices)
        x, points = batch.x.to(weight), points.to(weight)
        char_ids = batch.char_ids.to(weight.device)
        y, phi, _ = net.run_from_state(x, char_ids, net.initial_state(len(x)))
        loss = negative_log_likelihood(make_mixture(y, std_floor=std_floor), points)
        for row, index in enumerate(indices):
            line, T = lines.lines[index], int(lengths[row])
            nats[index] = float(loss[row, :T].sum())
            window = phi[row, :T, : len(line.text)].cpu()
            if index < SHOWN:
                windows[index] = window
            if line.true_char_index_per_point is not None:
                errors[index] = window_peak_errors_in_characters(window, line)
    known = np.concatenate([*errors.values()]) if errors else np.full(1, np.nan)
    shown = [windows[k] for k in sorted(windows)]
    return LineScores(nats, torch.tensor(steps), float(known.mean()), shown)


def window_peak_errors_in_characters(phi: Tensor, line: Line) -> np.ndarray:
    """Return the distances in characters from the window's peak to the true character (T,)."""
    assert line.true_char_index_per_point is not None
    return np.abs(phi.argmax(-1).numpy() - line.true_char_index_per_point[1:])


def metrics_windows_and_sampled_handwriting(
    net: HandwritingNet,
    lines_by_split: dict[str, BatchableLines],
    unseen_test_indices: Sequence[int],
    std_floor: float,
    source_name: str,
) -> dict[str, Any]:
    """Return the metrics of a model, in nats per point where nothing else is said.

    ``valid_nll``, ``valid_nll_per_line`` (nats per line), and ``window_error`` where the true
    characters are known. With ``test`` among the lines also ``test_nll``, and
    ``test_nll_unseen`` of lines whose text no training line has. Pictures: ``window 0``, and
    ``written``, the offsets of a text that the model writes.
    """
    valid = score_lines(net, lines_by_split["valid"], std_floor)
    values: dict[str, Any] = {
        "valid_nll": valid.nll_per_point(),
        "valid_nll_per_line": float(valid.nll_per_line.mean()),
        **{f"window {k}": phi.half() for k, phi in enumerate(valid.shown_windows)},
    }
    if not np.isnan(valid.mean_window_error):
        values["window_error"] = valid.mean_window_error
    line = write(
        net,
        TEXTS[source_name],
        lines_by_split["valid"].scale,
        bias=BIAS,
        std_floor=std_floor,
        max_points=300,
    )
    values["written"] = torch.from_numpy(line.offsets).half()
    if "test" in lines_by_split:
        test = score_lines(net, lines_by_split["test"], std_floor)
        values["test_nll"] = test.nll_per_point()
        values["test_nll_unseen"] = (
            test.nll_per_point(unseen_test_indices) if unseen_test_indices else float("nan")
        )
    return values


class WrittenLine(NamedTuple):
    """A line written by a model."""

    offsets: np.ndarray  # those of a :class:`lnlab.papers.handwriting.pen.Line` (T + 1, 3)
    phi: np.ndarray  # the window at each of the T points (T, U)
    reached_end_of_text: bool  # True if the model reached the end of the text


@torch.no_grad()
def write(
    net: HandwritingNet,
    text: str,
    scale: OffsetMeanAndStd,
    *,
    bias: float = 0.0,
    seed: int = 0,
    std_floor: float = 0.0,
    primer: Line | None = None,
    max_points: int | None = None,
) -> WrittenLine:
    """Write a text with a model, point by point.

    It ends where the window is farther behind the text than on any of its characters, as in
    Graves (2013), or after :data:`PER_CHARACTER` points per character.

    Above 0, ``bias`` makes likely points likelier than in the model's distribution. The hand of
    a ``primer`` is continued (Graves, section 5.5): the model reads this line first, with its
    text and a space. ``scale`` and ``std_floor`` are those of the training; ``max_points``
    limits points.
    """
    net.eval()
    numbers = net.alphabet.encode(text, refuse_unknown=True)
    before = net.alphabet.encode(f"{primer.text} ") if primer else []
    weight, random = net.move.W, torch.Generator().manual_seed(seed)
    characters = torch.tensor([before + numbers]).to(weight.device)
    state, x = net.initial_state(1), weight.new_zeros(1, 1, 3)
    if primer:
        read = standardize_offsets(primer.offsets, scale).to(weight)[None]
        _, _, state = net.run_from_state(read[:, :-1], characters, state)
        x = read[:, -1:]
    points, windows, ended = [], [], False
    for _ in range(min(max_points or PER_CHARACTER * len(text), PER_CHARACTER * len(text))):
        y, phi, state = net.run_from_state(x, characters, state)
        window = phi[0, 0].cpu()
        ended = bool(window[-1] > window[:-1].max()) and bool(points)
        if ended:
            break
        x = sample_points(make_mixture(y[:, 0], std_floor=std_floor, bias=bias), random)[
            :, None
        ]
        points.append(x[0, 0])
        windows.append(window[len(before) : -1])
    steps = unstandardize_offsets(torch.stack(points), scale)
    offsets = np.vstack([np.zeros((1, 3), steps.dtype), steps])  # after a first point
    return WrittenLine(offsets, torch.stack(windows).numpy(), ended)
