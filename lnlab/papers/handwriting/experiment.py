"""Layer norm in handwriting synthesis: Ba et al. (2016), section 6.5 and Fig. 5."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from lnlab import training
from lnlab.data import load
from lnlab.nn import CELL_INITS, Identity, LayerNorm, NormLayer
from lnlab.nn.padding import length_mask
from lnlab.papers.handwriting.data import Alphabet, Strokes
from lnlab.papers.handwriting.evaluate import measure
from lnlab.papers.handwriting.kernels import fuse_handwriting
from lnlab.papers.handwriting.model import (
    WINDOWS,
    EncodedLines,
    HandwritingNet,
    Target,
    make_mixture,
    negative_log_likelihood,
)
from lnlab.training import Bucketed, Evaluation, setting
from lnlab.training.experiment import CPU, collate
from lnlab.training.random_state import seeded

ARMS: dict[str, NormLayer] = {"none": Identity, "layer": LayerNorm}


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm, its seeds trained from paired starts on the same batches.

    Fig. 5 of the paper has no numbers. It states the architecture of Graves (2013), section 5,
    mini-batches of 8, sequences of 500 points, Adam, and 3.7 million weights, which are met;
    all else is as in Graves, where it says it, and otherwise chosen here.
    """

    norm: str = setting("layer", choices=ARMS)
    gain: float = setting(1.0, above=0)
    """The first gain of the normalizers of W_h h."""
    initialisation: str = setting("paper", choices=CELL_INITS)
    """"paper" is U(-0.1, 0.1), square weights orthogonal; "modern" N(0, 1/fan-in)."""
    data: str = "iam"
    """``pen`` (made here), ``unipen=PATH`` or ``iam=PATH``."""
    max_lines: int = setting(0, least=0)
    """The largest number of lines to train on, and of each split to be measured on, the first
    ones; 0: all."""
    max_points: int = setting(0, least=0)
    """Points of a line that are read, its first ones; 0: all."""
    batch_size: int = setting(8, least=1)
    epochs: int = 30
    learning_rate: float = 1e-3
    """Adam's own default; the paper states none."""
    units: tuple[int, ...] = setting((400,), least=1, count=1)
    """H of each LSTM."""
    layers: int = setting(3, least=1)
    """LSTMs, the lowest of which moves the window."""
    components: int = setting(20, least=1)
    """M, of the mixture."""
    window_components: int = setting(10, least=1)
    """K, Gaussians of the window."""
    window: str = setting("exp", choices=WINDOWS)
    """Graves (2013) moves the window by exp, the most used code by softplus."""
    pace: float = setting(0.0, least=0)
    """Characters a point at the start; 0: as many as the training lines have."""
    peepholes: bool = False
    """True if gates see the memory, as in Graves (2013)."""
    std_floor: float = setting(0.0, least=0)
    """Added to every standard deviation; 1e-4 in the most used code. Points at equal distances
    lie on a circle, where a density without a floor has no upper bound."""
    max_output_grad: float = setting(100.0, least=0)
    """Size to which each derivative of the sum of losses by an output is cut, 100 in Graves
    (2013); 0: none."""
    max_grad_norm: float = setting(10.0, least=0)
    """Norm to which the gradient by the parameters is cut; 0: none. Graves cuts derivatives
    inside the LSTMs at 10, the most used code the norm of this one."""
    eval_every: int = setting(500, least=1)
    """Updates from one validation to the next."""

    name = "handwriting"
    lower_is_better = ("valid_nll",)

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        """``paper`` is the paper's size; that of the kept runs is :meth:`scaled`."""
        small = cls(
            data="pen",
            units=(64,),
            layers=2,
            components=8,
            window_components=5,
            initialisation="modern",
            gain=0.2,
            batch_size=16,
            learning_rate=3e-3,
            max_grad_norm=1.0,
            std_floor=0.01,
            eval_every=50,
        )
        return {
            "smoke": replace(
                small,
                max_lines=32,
                units=(8,),
                components=2,
                window_components=2,
                epochs=1,
                eval_every=2,
            ),
            "notebook": replace(small, updates=200),
            "paper": cls(max_points=500),
        }

    @classmethod
    def scaled(cls, **changes: Any) -> Self:
        """The size for two cores on UNIPEN's lines: 3 x 128 units, batches of 16, 30 epochs,
        whole lines."""
        own: dict[str, Any] = {
            "units": (128,),
            "batch_size": 16,
            "std_floor": 0.02,
            "eval_every": 160,
            "max_points": 0,
        }
        return cls.budget("paper", **{"data": "unipen", **own, **changes})

    def dataset(self) -> Strokes:
        """As :func:`lnlab.data.load` gives it."""
        return load(self.data, "strokes", most=self.max_lines)

    def model(self, seed: int, dataset: Strokes) -> nn.Module:
        """The network of one seed; its weights depend on the seed and the sizes alone."""
        pace = self.pace or sum(len(line.text) for line in dataset.train) / sum(
            line.steps for line in dataset.train
        )
        with seeded(seed):
            net = self.net(dataset.alphabet, pace)
        return fuse_handwriting(net) if self.fused and not self.peepholes else net

    def net(self, alphabet: Alphabet, pace: float) -> HandwritingNet:
        """Return the reference network of these sizes, drawn from torch's random numbers.

        Args:
            pace: characters a point at the start.
        """
        gain = {"recurrent_gain": self.gain} if self.norm == "layer" else {}
        return HandwritingNet(
            alphabet,
            self.units[0],
            self.components,
            self.window_components,
            ARMS[self.norm],
            replace(CELL_INITS[self.initialisation], **gain),
            layers=self.layers,
            pace=pace,
            form=self.window,
            peepholes=self.peepholes,
        )

    def batches(
        self, dataset: Strokes, device: torch.device = CPU, dtype: torch.dtype = torch.float32
    ) -> Bucketed:
        """Lines of like length together."""
        lines = EncodedLines(dataset, "train", self.max_points)

        def batch(indices: list[int]) -> Any:
            x, (points, lengths) = lines.batch(indices)
            return x._replace(x=x.x.to(dtype)), (points.to(dtype), lengths)

        return Bucketed(lines.lengths, batch, self.batch_size, self.seeds, device, fill=-1)

    def loss(self, output: Tensor, y: Target) -> Tensor:
        """Nats a point: outputs (S, B, T, 1 + 6 M) to (S,)."""
        points, lengths = y
        inside = length_mask(lengths.flatten(), output.shape[2]).view(output.shape[:3])
        counts = inside.sum((1, 2))
        if self.max_output_grad and output.requires_grad:
            # of the sum over points, of which the loss is the mean
            most = (self.max_output_grad / counts.to(output)).view(-1, 1, 1, 1)
            output.register_hook(lambda slope: slope.clamp(-most, most))
        nats = negative_log_likelihood(make_mixture(output, floor=self.std_floor), points)
        return torch.where(inside, nats, 0.0).sum((1, 2)) / counts

    def evaluate(
        self, model: Any, dataset: Strokes, evaluation: Evaluation = Evaluation.FINAL
    ) -> dict[str, list[Any]]:
        """Per seed: see :func:`.evaluate.measure`; the test at the end alone."""
        splits = ("valid", "test") if evaluation is Evaluation.FINAL else ("valid",)
        most = self.max_points, self.max_lines
        lines = {split: EncodedLines(dataset, split, *most) for split in splits}
        tested = len(lines["test"]) if "test" in lines else 0
        unseen = [index for index in dataset.unseen if index < tested]
        settings = lines, unseen, self.std_floor, dataset.source.name
        return collate([measure(net, *settings) for net in model.unstack()])
