"""Lines of handwriting as a net reads them: offsets of mean 0 and deviation 1, characters by
number."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from lnlab.data.line import Line
from lnlab.data.strokes import Strokes
from lnlab.tasks.handwriting.net import Written

Target = tuple[Tensor, Tensor]
"""The points that follow (B, T, 3), and how many each line has (B,)."""


class Lines:
    """Lines of one split, ready for a net.

    Args:
        dataset: whose scale and alphabet they have.
        split: train, valid or test.
        length: the largest number of points of a line, its first ones; 0: all.
        most: the largest number of lines, the first ones; 0: all.
    """

    def __init__(self, dataset: Strokes, split: str, length: int = 0, most: int = 0) -> None:
        lines: Sequence[Line] = getattr(dataset, split)[: most or None]
        self.lines = [begun(line, length) for line in lines] if length else lines
        self.alphabet, self.scale = dataset.alphabet, dataset.scale

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def lengths(self) -> list[int]:
        """T of each line."""
        return [line.steps for line in self.lines]

    def points(self, line: Line) -> Tensor:
        """The points of a line (T + 1, 3), scaled; the first is 0 away from itself."""
        return scaled(line.offsets, self.scale)

    def gathered(self, places: Sequence[int]) -> tuple[Written, Target]:
        """Some of the lines as a batch, filled up behind."""
        chosen = [self.lines[place] for place in places]
        rows = [self.points(line) for line in chosen]
        texts = [torch.tensor(self.alphabet.numbers(line.text)) for line in chosen]
        whole = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        text = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=-1)
        lengths = torch.tensor([len(row) - 1 for row in rows])
        inside = (torch.arange(whole.shape[1] - 1) < lengths[:, None]).unsqueeze(-1)
        return Written(whole[:, :-1] * inside, text), (whole[:, 1:], lengths)


def begun(line: Line, length: int) -> Line:
    """The first ``length`` points of a line, with its whole text."""
    places = None if line.places is None else line.places[: length + 1]
    return replace(line, offsets=line.offsets[: length + 1], places=places)


def scaled(offsets: np.ndarray, scale: tuple[np.ndarray, np.ndarray]) -> Tensor:
    """Offsets (T + 1, 3) less their mean, over their deviation; the pen as it is."""
    mean, deviation = scale
    moved = (offsets[:, :2] - mean) / deviation
    moved[0] = 0.0
    return torch.from_numpy(np.column_stack([moved, offsets[:, 2]])).float()


def unscaled(points: Tensor, scale: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Offsets (T + 1, 3) of scaled points (T, 3) behind a first one."""
    mean, deviation = scale
    found = points.double().cpu().numpy()
    moved = found[:, :2] * deviation + mean
    return np.vstack([np.zeros(3), np.column_stack([moved, found[:, 2]])]).astype(np.float32)
