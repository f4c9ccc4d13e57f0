"""A character model: Xiong et al. (2020), and what came after it, at a size for a laptop."""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log
from typing import Any, Self

import torch
from torch import Tensor, nn

from lnlab import training
from lnlab.analysis.rotation import equilibrium_angle
from lnlab.data import Text, load
from lnlab.kernels import LeftOnReference, fuse
from lnlab.papers.transformer.evaluate import largest, objective, profile, streams
from lnlab.papers.transformer.model import ARMS, Transformer, Turned
from lnlab.training import Evaluation, Stacked, cross_entropy, evaluate, setting
from lnlab.training.experiment import collate
from lnlab.training.optim import AdamW
from lnlab.training.random_state import generator

CASES = 64
"""The number of cases of each split, the first ones, whose loss is measured on the way."""
FEW = 16
"""The number of training cases whose gradients, and streams, are looked at."""


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm, its seeds trained together from paired starts.

    The papers train translators and large language models; this is their question at four
    layers. Each seed has the same initial matrices and the same batches in every arm.
    Kept results stand in ``results/transformer.jsonl.xz``; ``lnlab claims``
    says what they show.
    """

    norm: str = setting("pre", choices=ARMS)
    """The normalizer and its place, see :data:`lnlab.papers.transformer.model.ARMS`."""
    data: str = "shakespeare"
    """``embedded``, ``shakespeare``, ``shakespeare=PATH`` or ``txt=PATH``."""
    seeds: tuple[int, ...] = (100, 101, 102)
    batch_size: int = 16
    updates: int = 150
    learning_rate: float = 3e-3
    layers: int = setting(4, least=1)
    """L, each of attention and a feed-forward net."""
    units: tuple[int, ...] = setting((64,), least=1, count=1)
    """The width D; the feed-forward net has 4 D."""
    heads: int = setting(4, least=1)
    """They divide the width."""
    context_length: int = setting(64, least=1)
    """T, the characters of a case."""
    warmup: float = setting(0.1, least=0, most=1)
    """The part of the updates in which the learning rate rises from 0; then it stays."""
    eval_size: int = setting(512, least=1)
    """The number of cases of each split, the first ones, that the loss at the end is of."""
    weight_decay: float = setting(0.0, least=0)
    """The decay of every matrix, decoupled (AdamW). Where there is any, turns are measured."""

    name = "transformer"
    lower_is_better = ("train_nll", "valid_nll", "test_nll")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.units[0] % self.heads:
            raise ValueError(
                f"heads is {self.heads}: it must divide the width, {self.units[0]}."
            )

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        small: Any = {
            "data": "embedded",
            "heads": 2,
            "context_length": 32,
            "batch_size": 8,
            "eval_size": 64,
        }
        return {
            "smoke": cls(**small, units=(16,), layers=2, updates=4, seeds=(0, 1)),
            "notebook": cls(**small, units=(32,), updates=80, seeds=(0, 1, 2)),
            "paper": cls(),
        }

    def dataset(self) -> Text:
        """The text, as windows of T characters."""
        return load(self.data, "text", context=self.context_length)

    def model(self, seed: int, dataset: Text) -> nn.Module:
        """The net of one seed; its matrices depend on the seed, names and sizes alone."""
        size = (
            len(dataset.vocabulary),
            self.context_length,
            self.layers,
            self.units[0],
            self.heads,
        )
        net = Transformer(*size, ARMS[self.norm], fused=self.fused)
        net.draw(lambda name: generator(f"{name} of seed {seed}"))
        if self.weight_decay:
            net.turned = Turned(net)
        if not self.fused:
            return net
        with warnings.catch_warnings():  # a constant factor has no fused form
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(net)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The NLL in nats a character: logits (S, B, T, V), y (S, B, T) to (S,)."""
        return cross_entropy(output.flatten(1, 2), y.flatten(1))

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        """AdamW, its weight decay on matrices and embeddings alone."""
        every = list(parameters)
        most = max(p.dim() for p in every)  # stacked matrices have three axes
        groups = [
            {"params": [p for p in every if p.dim() == most]},
            {"params": [p for p in every if p.dim() < most], "weight_decay": 0.0},
        ]
        return AdamW(
            [group for group in groups if group["params"]],
            lr=self.learning_rate, weight_decay=self.weight_decay, fused=True,
        )  # fmt: skip

    def schedule(self, progress: float) -> float:
        return min(1.0, progress / self.warmup) if self.warmup else 1.0

    def eval_points(self, updates_per_epoch: int) -> set[int]:
        """Before the first update, and then five times, the last time at the end."""
        last = self.num_updates(updates_per_epoch)
        return {round(last * fifth / 5) for fifth in range(6)}

    def evaluate(
        self, model: Any, dataset: Text, evaluation: Evaluation = Evaluation.FINAL
    ) -> Mapping[str, list[float]]:
        """Per seed: NLL of the first cases of each split, in nats a character.

        At the start and the end, besides: ``gradient_norm_1`` to ``gradient_norm_L``, the norm
        of the gradient of W_2 in each layer, and ``largest_activation``, the greatest
        activation of the stream as a multiple of the median of its layer. With weight decay
        also ``rotation_Q`` and so on: the logarithm of how far a matrix turns in a step, over
        the layers, as a multiple of
        :func:`~lnlab.analysis.rotation.equilibrium_angle`.
        """
        found, few = {}, self.eval_size if evaluation is Evaluation.FINAL else CASES
        for split in ("train", "valid", "test"):
            cases = getattr(dataset, split)
            measured = evaluate(model, cases.x[:few], cases.y[:few], self.loss)
            found[f"{split}_nll"] = measured["nll"]
        if evaluation in (Evaluation.INITIAL, Evaluation.FINAL):
            rows = [self._inside(net, dataset) for net in model.unstack()]
            found |= collate(rows)
        return found | (self._turns(model) if self.weight_decay else {})

    def _inside(self, net: Any, dataset: Text) -> dict[str, float]:
        weight = next(net.parameters())
        x, y = (cases[:FEW].to(weight.device) for cases in (dataset.train.x, dataset.train.y))
        norms = profile(objective(net, x, y))
        net.eval()
        sizes = {"largest_activation": max(map(largest, streams(net, x)))}
        return {f"gradient_norm_{layer}": g for layer, g in enumerate(norms, start=1)} | sizes

    def _turns(self, model: Stacked) -> dict[str, list[float]]:
        optimizer = self.optimizer(model.parameters())
        expected = equilibrium_angle(optimizer, optimizer.param_groups[0])
        squares: dict[str, list[Tensor]] = defaultdict(list)
        turned: Any = model.module.turned
        for name, angles in turned.angles().items():
            squares[_short(name)].append(angles.reshape(-1).square())
        means = {name: torch.stack(every).mean(0).sqrt() for name, every in squares.items()}
        return {
            f"rotation_{name}": [
                log(a / expected) if a else float("nan") for a in mean.tolist()
            ]
            for name, mean in means.items()
        }


def _short(name: str) -> str:
    """The letter of a matrix: "Q" of "blocks.0.attention.f.W_Q.W"."""
    return name.removesuffix(".W").rpartition(".")[2].removeprefix("W_")
