"""A character model: Xiong et al. (2020), and what came after it, at a size for a laptop."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from lnlab import training
from lnlab.analysis.rotation import equilibrium_angle
from lnlab.data import CharacterWindows, load
from lnlab.data.dataset import Split
from lnlab.papers.transformer.evaluate import (
    W_2_gradient_norm_per_layer,
    embedding_and_block_outputs,
    largest_over_median_activation,
    nll_objective,
)
from lnlab.papers.transformer.model import ARMS, TransformerLanguageModel, WeightRotationTracker
from lnlab.training import Evaluation, Stacked, cross_entropy_per_model, evaluate, setting
from lnlab.training.experiment import (
    CPU,
    BatchSource,
    LossPerSeed,
    OneHiddenSize,
    collate_rows,
)
from lnlab.training.optim import AdamW
from lnlab.training.random_state import generator_seeded_by_hash

ExampleCount = int  # of sequences, not of characters

EVAL_SIZE = 64
"""Examples of each split, the first ones, whose loss is measured during training."""
STREAM_SIZE = 16
"""Training examples whose gradients and residual streams are measured."""

FractionOfUpdates = float


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm; each seed has the same initial matrices and the same batches in every arm.

    The papers train translators and large language models; this asks their question with four
    layers.
    """

    norm: str = setting("pre", choices=ARMS)
    """The normalizer and its position: :data:`lnlab.papers.transformer.model.ARMS`."""
    data: str = "shakespeare"
    """``embedded``, ``shakespeare``, ``shakespeare=PATH`` or ``txt=PATH``."""
    seeds: tuple[int, ...] = (100, 101, 102)
    batch_size: int = 16
    updates: int = 150
    learning_rate: float = 3e-3
    layers: int = setting(4, least=1)
    """L, each of attention and a feed-forward network."""
    units: OneHiddenSize = setting((64,), least=1, count=1)
    """The width D; the feed-forward network has 4 D."""
    heads: int = setting(4, least=1)
    """The number of heads, which divides the width."""
    context_length: int = setting(64, least=1)
    """T, the characters of an example."""
    warmup: FractionOfUpdates = setting(0.1, least=0)
    """The fraction of the updates in which the learning rate rises from 0 to its value."""
    initialisation: str = setting("equal", choices=("equal", "scaled"))
    """Scaled: the last matrix of each of the 2 L branches starts 1/sqrt(2 L) as large."""
    train_size: ExampleCount = setting(0, least=0)
    """The first so many training examples are trained on; 0: all."""
    eval_size: ExampleCount = setting(512, least=1)
    """Examples of each split, the first ones, whose loss is measured at the end."""
    weight_decay: float = setting(0.0, least=0)
    """The decoupled decay of matrices (AdamW). If it is not 0, rotations are measured."""

    name = "transformer"
    required_data_kind = "text"
    lower_is_better = ("train_nll", "valid_nll", "test_nll")

    def dataset(self) -> CharacterWindows:
        """Load the text in windows of T characters."""
        return load(self.data, self.required_data_kind, context=self.context_length)

    def model(self, seed: int, dataset: CharacterWindows) -> nn.Module:
        """Return the network of one seed; matrices depend on the seed, their name and size."""
        V, D = len(dataset.vocabulary), self.units[0]
        size = V, self.context_length, self.layers, D, self.heads
        net = TransformerLanguageModel(*size, ARMS[self.norm], fused=self.fused)
        scaled = self.initialisation == "scaled"
        net.initialize_(
            lambda name: generator_seeded_by_hash(f"{name} of seed {seed}"),
            scaled_branches=scaled,
        )
        if self.weight_decay:
            net.turned = WeightRotationTracker(net)
        return self.fuse(net)

    def loss(self, output: Tensor, y: Tensor) -> LossPerSeed:
        """Return the NLL in nats per character of logits (S, B, T, V) and y (S, B, T): (S,)."""
        return cross_entropy_per_model(output.flatten(1, 2), y.flatten(1))

    def training_batches(
        self, dataset: Any, device: torch.device = CPU, dtype: torch.dtype = torch.float32
    ) -> BatchSource:
        count = self.train_size or None
        first = Split(dataset.train.x[:count], dataset.train.y[:count])
        return super().training_batches(SimpleNamespace(train=first), device, dtype)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        """Return AdamW with weight decay on matrices and embeddings alone."""
        tensors = list(parameters)
        axes = max(p.dim() for p in tensors)  # stacked matrices have three
        groups = [
            {"params": [p for p in tensors if p.dim() == axes]},
            {"params": [p for p in tensors if p.dim() < axes], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        return AdamW(groups, self.learning_rate, weight_decay=self.weight_decay, fused=True)

    def schedule(self, progress: float) -> float:
        return min(1.0, progress / self.warmup) if self.warmup else 1.0

    def full_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return 0, and five updates at equal distances to the last."""
        last = self.num_updates(updates_per_epoch)
        return {round(last * fifth / 5) for fifth in range(6)}

    def evaluate(
        self,
        model: Any,
        dataset: CharacterWindows,
        evaluation: Evaluation = Evaluation.FINAL,
    ) -> Mapping[str, list[float]]:
        """Return, per seed, the NLL of each split in nats per character.

        At the start and the end also ``gradient_norm_1`` to ``gradient_norm_L``, the norm of
        the gradient of W_2 in each layer, and ``largest_activation``, that of the stream as a
        multiple of the median of its layer. With weight decay also ``rotation_Q`` and so on:
        the logarithm of a matrix' rotation per step (root mean square over the layers) as a
        multiple of :func:`~lnlab.analysis.rotation.equilibrium_angle`.
        """
        size, metrics = self.eval_size if evaluation is Evaluation.FINAL else EVAL_SIZE, {}
        for name in ("train", "valid", "test"):
            split = getattr(dataset, name)
            count = min(size, self.train_size or size) if name == "train" else size
            scores = evaluate(model, split.x[:count], split.y[:count], self.loss)
            metrics[f"{name}_nll"] = scores["nll"]
        if evaluation in (Evaluation.INITIAL, Evaluation.FINAL):
            metrics |= collate_rows(
                [
                    self._gradient_norms_and_largest_over_median(net, dataset)
                    for net in model.unstack()
                ]
            )
        return metrics | (
            self._log_rotation_over_equilibrium_angle(model) if self.weight_decay else {}
        )

    def _gradient_norms_and_largest_over_median(
        self, net: Any, dataset: CharacterWindows
    ) -> dict[str, float]:
        device, train = next(net.parameters()).device, dataset.train
        x, y = train.x[:STREAM_SIZE].to(device), train.y[:STREAM_SIZE].to(device)
        norms = W_2_gradient_norm_per_layer(nll_objective(net, x, y))
        net.eval()
        largest = max(map(largest_over_median_activation, embedding_and_block_outputs(net, x)))
        metrics = {f"gradient_norm_{layer}": g for layer, g in enumerate(norms, start=1)}
        return metrics | {"largest_activation": largest}

    def _log_rotation_over_equilibrium_angle(self, model: Stacked) -> dict[str, list[float]]:
        optimizer = self.optimizer(model.parameters())
        expected = equilibrium_angle(optimizer, optimizer.param_groups[0])
        squares: dict[str, list[Tensor]] = defaultdict(list)
        tracker: Any = model.module.turned
        for name, angles in tracker.running_rms_rotation_angles().items():
            squares[_matrix_subscript(name)].append(angles.reshape(-1).square())
        means = {name: torch.stack(values).mean(0).sqrt() for name, values in squares.items()}
        return {
            f"rotation_{name}": [
                log(a / expected) if a else float("nan") for a in mean.tolist()
            ]
            for name, mean in means.items()
        }


def _matrix_subscript(parameter_name: str) -> str:
    """Return the letter of a matrix: "Q" for "blocks.0.attention.f.W_Q.W"."""
    return parameter_name.removesuffix(".W").rpartition(".")[2].removeprefix("W_")
