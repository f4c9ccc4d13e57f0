"""Digits read a few pixels at a time by a recurrent net: what layer norm does over time.

The papers' own recurrent experiments are other ones: Cooijmans et al. (2016), 5.1, read MNIST
pixel by pixel and start the gains of recurrent batch norm at 0.1; Ba et al. (2016), 6.2, answer
that layer norm wants 1.0, of the attentive reader.
"""

import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from torch import Tensor, nn

from lnlab.analysis.rnn_dynamics import dynamics
from lnlab.data import Images
from lnlab.kernels import LeftOnReference, fuse
from lnlab.nn import (
    CELL_INITS,
    BatchNorm,
    Identity,
    LayerNorm,
    Linear,
    Normalizer,
    NormLayer,
    RecurrentBatchNorm,
)
from lnlab.nn.recurrent import GRU, LSTM, RNN, Recurrent
from lnlab.papers.classification import Classification
from lnlab.training import Evaluation, setting
from lnlab.training.random_state import seeded

ARMS: dict[str, Callable[[int], NormLayer]] = {
    "none": lambda steps: Identity,
    "layer": lambda steps: LayerNorm,
    "batch": lambda steps: partial(RecurrentBatchNorm, steps=steps),
    "batch pooled": lambda steps: BatchNorm,
}
"""The normalizer of the recurrent layer, for a number of time steps. "batch" has statistics of
each time step in evaluation, "batch pooled" one running pair for all of them."""

CASES = 100
"""The number of test cases, the first ones, through which gradients go back in time."""

CELLS: dict[str, type[Recurrent]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


class DigitReader(nn.Module):
    """A recurrent layer over pictures cut into time steps, and logits from its last output.

    x (B, T D) to logits (B, classes).

    Args:
        layer: the recurrent layer, of D inputs.
        classes: how many there are.
    """

    def __init__(self, layer: Recurrent, classes: int) -> None:
        super().__init__()
        self.layer = layer
        self.readout = Linear(layer.hidden_size, classes, Identity, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(self.steps(x))
        return self.readout(y[-1])

    def steps(self, x: Tensor) -> Tensor:
        """Pictures x (B, T D) cut into time steps, (T, B, D)."""
        return x.unflatten(-1, (-1, self.layer.input_size)).transpose(0, 1)

    def factor(self, x: Tensor) -> float:
        """The factor by which a gradient grows in a step back in time, on pictures x (B, T D).

        Of the net in evaluation mode, in float64: :attr:`.Dynamics.rate`.
        """
        cell = deepcopy(self.layer.cells[0]).double().eval()
        return dynamics(cell, self.steps(x).to(cell.W_h)).rate


@dataclass(frozen=True)
class Experiment(Classification):
    """One arm, its seeds trained together from paired starts.

    Each seed has the same initial W and the same batches in every arm.
    """

    norm: str = setting("layer", choices=ARMS)
    gain: float = 1.0
    """The first gain of every normalizer of the recurrent layer: 1.0 in Ba et al. (2016), 0.1
    in Cooijmans et al. (2016)."""
    initialisation: str = setting("paper", choices=CELL_INITS)
    """"paper" is that of the authors' code, "modern" N(0, 1/fan-in)."""
    batch_size: int = 32
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 15
    data: str = "embedded"
    """``embedded``, ``mnist``, ``mnist=PATH`` or ``idx=PATH``."""
    pixels_per_step: int = setting(2, least=1)
    """Pixels a time step, D: 2 gives T = 32 for the embedded digits, 8 reads them row by row.
    With 1, as in Cooijmans et al. (2016), the layer norm of W_x x in eq. 20 keeps nothing of
    the pixel but its sign."""
    cell: str = setting("lstm", choices=CELLS)
    """The cell of one time step."""
    units: tuple[int, ...] = setting((48,), least=1, count=1)
    """The size of the recurrent layer, of which there is one."""
    learning_rate: float = 3e-3
    gradient_factor: bool = setting(False, measured=True)
    """True if ``gradient_factor`` is measured at every evaluation, too:
    :meth:`DigitReader.factor` on the first test cases."""
    fused: bool = True
    """A fast loop over time where there is one: not for every normalizer and cell."""

    name = "sequential_digits"

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        """T = 8, 16 and 32 time steps for the embedded digits."""
        return {
            "smoke": cls(pixels_per_step=8, units=(16,), epochs=1, seeds=(0, 1)),
            "notebook": cls(pixels_per_step=4, units=(32,), epochs=6, seeds=(0, 1, 2)),
            "paper": cls(),
        }

    def steps(self, dataset: Images) -> int:
        """T, the number of time steps.

        Raises:
            ValueError: if ``pixels_per_step`` does not divide a picture.
        """
        D = dataset.train.x.shape[1]
        if D % self.pixels_per_step:
            raise ValueError(
                f"pixels_per_step is {self.pixels_per_step}: it must divide "
                f"the {D} of a picture."
            )
        return D // self.pixels_per_step

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> Mapping[str, list[float]]:
        """The measurements of every classification, and what ``gradient_factor`` asks for."""
        found = super().evaluate(model, dataset, evaluation)
        if not self.gradient_factor:
            return found
        x = dataset.test.x[:CASES]
        return {**found, "gradient_factor": [net.factor(x) for net in model.unstack()]}

    def model(self, seed: int, dataset: Images) -> nn.Module:
        """The net of one seed; its W depends on the seed and the sizes alone."""
        norm = ARMS[self.norm](self.steps(dataset))
        initial = CELL_INITS[self.initialisation]
        with seeded(seed):
            layer = CELLS[self.cell](
                self.pixels_per_step, self.units[0], norm_layer=norm, initial=initial
            )
            reader = DigitReader(layer, dataset.classes)
        for part in layer.modules():
            g = getattr(part, "g", None)
            if isinstance(part, Normalizer) and isinstance(g, Tensor):
                nn.init.constant_(g, self.gain)
        if not self.fused:
            return reader
        with warnings.catch_warnings():  # RNN and GRU with batch norm have no fused form
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(reader)
