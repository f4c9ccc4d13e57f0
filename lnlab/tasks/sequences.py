"""Digits read a few pixels at a time by a recurrent net: what layer norm does over time.

The papers' own recurrent experiments are other ones: Cooijmans et al. (2016), 5.1, read MNIST
pixel by pixel and start the gains of recurrent batch norm at 0.1; Ba et al. (2016), 6.2, answer
that layer norm wants 1.0, of the attentive reader.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from lnlab.cells import MODERN, PAPER, Initial
from lnlab.data import Dataset, load
from lnlab.kernels import LeftOnReference, fuse
from lnlab.norms import (
    BatchNorm,
    Identity,
    LayerNorm,
    Linear,
    Norm,
    Normalizer,
    RecurrentBatchNorm,
)
from lnlab.tasks.classification import log_spaced, measured
from lnlab.training import cross_entropy
from lnlab.unroll import GRU, LSTM, RNN, Recurrent

ARMS: dict[str, Callable[[int], Norm]] = {
    "none": lambda steps: Identity,
    "layer": lambda steps: LayerNorm,
    "batch": lambda steps: partial(RecurrentBatchNorm, steps=steps),
    "batch pooled": lambda steps: BatchNorm,
}
"""What normalizes the recurrent layer, for so many time steps. "batch" has statistics of each
time step in evaluation, "batch pooled" one running pair for all of them."""

CELLS: dict[str, type[Recurrent]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
INITIALISATIONS: dict[str, Initial] = {"paper": PAPER, "modern": MODERN}


class Reader(nn.Module):
    """A recurrent layer over pictures cut into time steps, and logits from its last output.

    x (B, T D) to logits (B, classes).

    Args:
        layer: the recurrent layer, of D inputs.
        classes: how many there are.
    """

    def __init__(self, layer: Recurrent, classes: int) -> None:
        super().__init__()
        self.layer = layer
        self.readout = Linear(layer.hidden_size, classes, Identity, bias_inside=True)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.unflatten(-1, (-1, self.layer.input_size)).transpose(0, 1)  # (T, B, D)
        y, _ = self.layer(steps)
        return self.readout(y[-1])


@dataclass(frozen=True)
class SequentialDigits:
    """One arm, its seeds trained together from paired starts.

    Each seed has the same initial W and the same batches in every arm.
    """

    norm: str = "layer"
    gain: float = 1.0
    """With which every normalizer of the recurrent layer starts: 1.0 in Ba et al. (2016), 0.1
    in Cooijmans et al. (2016)."""
    initialisation: str = "paper"
    """"paper" is that of the authors' code, "modern" N(0, 1/fan-in)."""
    batch_size: int = 32
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 15
    data: str = "embedded"
    """``embedded``, ``mnist``, ``mnist=PATH`` or ``idx=PATH``."""
    pixels: int = 2
    """Pixels a time step, D: 2 gives T = 32 for the embedded digits, 8 reads them row by row.
    With 1, as in Cooijmans et al. (2016), the layer norm of W_x x in eq. 20 keeps nothing of
    the pixel but its sign."""
    cell: str = "lstm"
    units: tuple[int, ...] = (48,)
    learning_rate: float = 3e-3
    fused: bool = True
    """The compiled loop over time where there is one: for layer norm."""

    name = "sequences"

    def __post_init__(self) -> None:
        for field, known in (
            ("norm", ARMS),
            ("initialisation", INITIALISATIONS),
            ("cell", CELLS),
        ):
            if getattr(self, field) not in known:
                raise ValueError(
                    f"{field} is {getattr(self, field)!r}: choose from {', '.join(known)}."
                )
        if min(self.batch_size, self.epochs, self.pixels) < 1 or not self.seeds:
            raise ValueError(
                "batch_size, epochs and pixels are at least 1, and there is a seed."
            )
        if len(self.units) != 1:
            raise ValueError(f"units are {self.units}: the recurrent layer is one, give one.")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}: each once, or intervals are too narrow.")

    @classmethod
    def budget(cls, name: str, **changes) -> "SequentialDigits":
        """The task at ``smoke`` (seconds), ``notebook`` or ``paper``, with ``changes``.

        A change that is None or empty leaves the budget's own. The first two read four
        pixels a time step: T = 16.
        """
        budgets = {
            "smoke": cls(pixels=8, units=(16,), epochs=1, seeds=(0, 1)),
            "notebook": cls(pixels=4, units=(32,), epochs=6, seeds=(0, 1, 2)),
            "paper": cls(),
        }
        if name not in budgets:
            raise ValueError(f"no budget is called {name!r}: choose from {', '.join(budgets)}.")
        said = {field: value for field, value in changes.items() if value not in (None, "", ())}
        return replace(budgets[name], **said)

    @classmethod
    def arms(cls, name: str, **changes) -> "dict[str, SequentialDigits]":
        """All arms of a comparison at one budget, by name."""
        return {arm: cls.budget(name, norm=arm, **changes) for arm in ARMS}

    def config(self) -> dict:
        """What makes this run this run: every field but where the data happen to lie."""
        return {**asdict(self), "data": self.data.split("=")[0]}

    def dataset(self) -> Dataset:
        return load(self.data)

    def steps(self, dataset: Dataset) -> int:
        """T, the number of time steps.

        Raises:
            ValueError: if ``pixels`` does not divide a picture.
        """
        D = dataset.train.x.shape[1]
        if D % self.pixels:
            raise ValueError(f"pixels is {self.pixels}: it must divide the {D} of a picture.")
        return D // self.pixels

    def updates(self, dataset: Dataset) -> int:
        """How many updates the whole run makes."""
        return self.epochs * (len(dataset.train) // self.batch_size)

    def model(self, seed: int, dataset: Dataset) -> nn.Module:
        """The net of one seed; its W depends on the seed and the sizes alone."""
        norm = ARMS[self.norm](self.steps(dataset))
        initial = INITIALISATIONS[self.initialisation]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            layer = CELLS[self.cell](self.pixels, self.units[0], norm=norm, initial=initial)
            reader = Reader(layer, dataset.classes)
        for part in layer.modules():
            g = getattr(part, "g", None)
            if isinstance(part, Normalizer) and isinstance(g, Tensor):
                nn.init.constant_(g, self.gain)
        if not self.fused:
            return reader
        with warnings.catch_warnings():  # only layer norm has a fused form
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(reader)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Negative log likelihood in nats: logits (S, B, classes), y (S, B) to (S,)."""
        return cross_entropy(output, y)

    def evaluation_points(self, updates_per_epoch: int) -> set[int]:
        return log_spaced(updates_per_epoch, self.epochs)

    def measure(self, model: nn.Module, dataset: Dataset) -> dict[str, list[float]]:
        return measured(model, dataset)
