"""Digits read a few pixels at a time by a recurrent network: what layer norm does over time.

The papers' recurrent experiments differ: Cooijmans et al. (2016), 5.1, read MNIST pixel by
pixel and start the gains of recurrent batch norm at 0.1. Ba et al. (2016), 6.2, reply for the
attentive reader that layer norm works best with 1.0.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from lnlab.analysis.rnn_dynamics import measure_rms_per_time_step
from lnlab.data import Images
from lnlab.nn import (
    CELL_INITS,
    BatchNorm,
    Identity,
    LayerNorm,
    Linear,
    NormLayer,
    RecurrentBatchNorm,
)
from lnlab.nn.recurrent import GRU, LSTM, RNN, Recurrent
from lnlab.papers.classification import Classification, MetricsPerSeed
from lnlab.papers.models import RecurrentNormGain, set_gains_
from lnlab.training import Evaluation, setting
from lnlab.training.experiment import OneHiddenSize
from lnlab.training.random_state import seed_torch_temporarily

ARMS: dict[str, Callable[[int], NormLayer]] = {
    "none": lambda steps: Identity,
    "layer": lambda steps: LayerNorm,
    "batch": lambda steps: partial(RecurrentBatchNorm, steps=steps),
    "batch pooled": lambda steps: BatchNorm,
}
"""The normalizer of the recurrent layer, for a number of time steps. In evaluation, "batch" has
running statistics for each time step, "batch pooled" the same for all."""

GRADIENT_SIZE = 100
"""The number of test examples, the first ones, for the ``gradient_factor``."""

CELLS: dict[str, type[Recurrent]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


class DigitReader(nn.Module):
    """A recurrent layer over time steps of an image (B, T D), and logits from its last output.

    Args:
        layer: The recurrent layer, of D inputs.
        classes: The number of classes.
    """

    def __init__(self, layer: Recurrent, classes: int) -> None:
        super().__init__()
        self.layer = layer
        self.readout = Linear(layer.hidden_size, classes, Identity, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(self.split_into_steps(x))
        return self.readout(y[-1])

    def split_into_steps(self, x: Tensor) -> Tensor:
        """Return the time steps (T, B, D) of images x (B, T D)."""
        return x.unflatten(-1, (-1, self.layer.input_size)).transpose(0, 1)

    def gradient_growth_per_step_back(self, x: Tensor) -> float:
        """Return the factor by which a gradient grows per step back in time, for x (B, T D).

        It is :attr:`.RecurrentDynamics.gradient_factor_per_step` in float64, in evaluation
        mode.
        """
        cell = deepcopy(self.layer.cells[0]).double().eval()
        x = self.split_into_steps(x).to(cell.W_h)
        return measure_rms_per_time_step(cell, x).gradient_factor_per_step


@dataclass(frozen=True)
class Experiment(Classification):
    """One arm; each seed has the same initial W and the same batches in every arm."""

    norm: str = setting("layer", choices=ARMS)
    gain: RecurrentNormGain = 1.0
    """The initial gain of the recurrent layer's normalizers: 1.0 in Ba et al. (2016), 0.1 in
    Cooijmans et al. (2016)."""
    initialisation: str = setting("paper", choices=CELL_INITS)
    """"paper" is that of the authors' code, "modern" N(0, 1/fan-in)."""
    batch_size: int = 32
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 15
    data: str = "embedded"  # ``embedded``, ``mnist``, ``mnist=PATH`` or ``idx=PATH``
    pixels_per_step: int = setting(2, least=1)
    """Pixels per time step, D: 2 gives T = 32 for the embedded digits, 8 reads them by row.
    With 1, as in Cooijmans et al. (2016), the layer norm of W_x x in eq. 20 keeps only the
    sign of the pixel."""
    cell: str = setting("lstm", choices=CELLS)  # the cell of one time step
    units: OneHiddenSize = setting((48,), least=1, count=1)
    """The size of the one recurrent layer."""
    learning_rate: float = 3e-3
    gradient_factor: bool = setting(False, measured=True)
    """True: each evaluation includes :meth:`DigitReader.gradient_growth_per_step_back`."""
    fused: bool = True
    """True: a compiled loop over time, for the normalizers and cells that have one."""

    name = "sequential_digits"

    def num_time_steps(self, dataset: Images) -> int:
        """Return T, the number of time steps."""
        D = dataset.train.x.shape[1]
        if D % self.pixels_per_step:
            raise ValueError(
                f"pixels_per_step is {self.pixels_per_step}: it must divide "
                f"the {D} of a picture."
            )
        return D // self.pixels_per_step

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> MetricsPerSeed:
        """Return the metrics of every classification, and ``gradient_factor`` if asked."""
        metrics = super().evaluate(model, dataset, evaluation)
        if not self.gradient_factor:
            return metrics
        x = dataset.test.x[:GRADIENT_SIZE]
        return {
            **metrics,
            "gradient_factor": [
                net.gradient_growth_per_step_back(x) for net in model.unstack()
            ],
        }

    def model(self, seed: int, dataset: Images) -> nn.Module:
        norm = ARMS[self.norm](self.num_time_steps(dataset))
        initial = CELL_INITS[self.initialisation]
        with seed_torch_temporarily(seed):
            layer = CELLS[self.cell](
                self.pixels_per_step, self.units[0], norm_layer=norm, initial=initial
            )
            reader = DigitReader(layer, dataset.classes)
        set_gains_(layer, self.gain)
        return self.fuse(reader)
