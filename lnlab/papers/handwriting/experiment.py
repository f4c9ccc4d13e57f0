"""Layer norm in handwriting synthesis: Ba et al. (2016), section 6.5 and Fig. 5."""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from lnlab import training
from lnlab.data import load
from lnlab.nn import CELL_INITS
from lnlab.nn.padding import length_mask
from lnlab.papers.handwriting.data import Alphabet, HandwritingDataset
from lnlab.papers.handwriting.evaluate import metrics_windows_and_sampled_handwriting
from lnlab.papers.handwriting.kernels import fused_handwriting_net_sharing_tensors
from lnlab.papers.handwriting.model import (
    ARMS,
    BatchableLines,
    HandwritingNet,
    LineBatch,
    Target,
    make_mixture,
    negative_log_likelihood,
)
from lnlab.papers.models import RecurrentNormGain
from lnlab.training import BucketedBatches, Evaluation, setting
from lnlab.training.experiment import CPU, LossPerSeed, OneHiddenSize
from lnlab.training.random_state import seed_torch_temporarily

CharactersPerPoint = float


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm, trained from paired starts on the same batches.

    Fig. 5 of the paper has no numbers. The paper states the architecture of Graves (2013),
    section 5, batches of 8, sequences of 500 points, Adam, and 3.7 million weights. All else is
    as in Graves where he states it, but for his peepholes, and chosen here otherwise.
    """

    norm: str = setting("layer", choices=ARMS)
    gain: RecurrentNormGain = setting(
        1.0, least=0
    )  # the initial gain of the normalizers of W_h h
    initialisation: str = setting("paper", choices=CELL_INITS)
    """"paper" is U(-0.1, 0.1), square weights orthogonal; "modern" N(0, 1/fan-in)."""
    data: str = "iam"  # ``pen`` (generated), ``unipen=PATH`` or ``iam=PATH``
    max_lines: int = setting(0, least=0)
    """The largest number of lines of each split, the first ones; 0: all."""
    max_points: int = setting(0, least=0)
    """The largest number of points of a line, the first ones; 0: all."""
    batch_size: int = setting(8, least=1)
    epochs: int = 30
    learning_rate: float = 1e-3  # Adam's default; the paper states none
    units: OneHiddenSize = setting((400,), least=1, count=1)  # H of each LSTM
    layers: int = setting(3, least=1)  # the number of LSTMs; the lowest moves the window
    components: int = setting(20, least=1)  # M, the components of the mixture
    window_components: int = setting(10, least=1)  # K, the Gaussians of the window
    pace: CharactersPerPoint = setting(0.0, least=0)
    """The window's initial speed in characters per point; 0: that of the training lines."""
    std_floor: float = setting(0.0, least=0)
    """Added to every standard deviation; 1e-4 in the most used code. Offsets of equal length
    lie on a circle, where a density without a floor has no upper bound."""
    max_output_grad: float = setting(100.0, least=0)
    """The largest derivative of the summed loss by an output, 100 in Graves (2013); 0: none."""
    max_grad_norm: float = setting(10.0, least=0)
    """The norm to which gradients are clipped; 0: none. Graves clips derivatives inside the
    LSTMs at 10, the most used code clips this norm."""
    eval_every: int = setting(500, least=1)  # updates between evaluations

    name = "handwriting"
    required_data_kind = "strokes"
    lower_is_better = ("valid_nll",)

    @classmethod
    def scaled_for_two_cores(cls, **changes: Any) -> Self:
        """Return the size for two cores: UNIPEN, 3 x 128 units, batches of 16, whole lines."""
        settings: dict[str, Any] = {
            "units": (128,),
            "batch_size": 16,
            "std_floor": 0.02,
            "eval_every": 160,
            "max_points": 0,
        }
        return cls.budget("paper", **{"data": "unipen", **settings, **changes})

    def dataset(self) -> HandwritingDataset:
        return load(self.data, self.required_data_kind, max_train=self.max_lines)

    def model(self, seed: int, dataset: HandwritingDataset) -> nn.Module:
        pace = self.pace or sum(len(line.text) for line in dataset.train) / sum(
            line.num_points_after_first for line in dataset.train
        )
        with seed_torch_temporarily(seed):
            net = self.make_net(dataset.alphabet, pace)
        return fused_handwriting_net_sharing_tensors(net) if self.fused else net

    def make_net(self, alphabet: Alphabet, pace: CharactersPerPoint) -> HandwritingNet:
        """Return the reference network; ``pace`` is in characters a point at the start."""
        return HandwritingNet(self, alphabet, pace)

    def training_batches(
        self,
        dataset: HandwritingDataset,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> BucketedBatches:
        """Return batches of lines of similar length."""
        lines = BatchableLines(dataset, "train", self.max_points)

        def batch_in_dtype(indices: list[int]) -> tuple[LineBatch, Target]:
            x, (points, lengths) = lines.batch(indices)
            return x._replace(x=x.x.to(dtype)), (points.to(dtype), lengths)

        return BucketedBatches(
            lines.num_steps_per_line,
            batch_in_dtype,
            self.batch_size,
            self.seeds,
            device,
            fill=-1,
        )

    def loss(self, output: Tensor, y: Target) -> LossPerSeed:
        """Return the loss in nats per point of outputs (S, B, T, 1 + 6 M): (S,)."""
        points, lengths = y
        inside = length_mask(lengths.flatten(), output.shape[2]).view(output.shape[:3])
        counts = inside.sum((1, 2))
        if self.max_output_grad and output.requires_grad:
            # the limit is for the sum over points, and the loss is their mean
            limit = (self.max_output_grad / counts.to(output)).view(-1, 1, 1, 1)
            output.register_hook(lambda grad: grad.clamp(-limit, limit))
        nats = negative_log_likelihood(make_mixture(output, std_floor=self.std_floor), points)
        return torch.where(inside, nats, 0.0).sum((1, 2)) / counts

    def measure(
        self, net: Any, dataset: HandwritingDataset, evaluation: Evaluation
    ) -> dict[str, Any]:
        splits = ("valid", "test") if evaluation is Evaluation.FINAL else ("valid",)
        limits = self.max_points, self.max_lines
        lines = {split: BatchableLines(dataset, split, *limits) for split in splits}
        count = len(lines["test"]) if "test" in lines else 0
        unseen = [index for index in dataset.test_indices_of_unseen_texts if index < count]
        return metrics_windows_and_sampled_handwriting(
            net, lines, unseen, self.std_floor, dataset.source.name
        )
