"""Permutation-invariant MNIST: Ba et al. (2016), section 6.6 and Fig. 6."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data import Images, load
from lnlab.nn import BatchNorm, Identity, LayerNorm, Linear, NormLayer, RMSNorm, WeightNorm
from lnlab.nn.linear import DENSE_INITS
from lnlab.papers.classification import (
    STEP_EFFECT_SIZE,
    Classification,
    MetricsPerSeed,
    measure_shift_and_smoothness,
)
from lnlab.threads import in_one_thread_if_small
from lnlab.training import Batches, Evaluation, setting
from lnlab.training.experiment import collate_rows
from lnlab.training.optim import SGD, Adam
from lnlab.training.random_state import default_dtype

ARMS: dict[str, tuple[NormLayer, NormLayer]] = {
    "none": (Identity, Identity),
    "layer": (LayerNorm, Identity),
    "layer everywhere": (LayerNorm, LayerNorm),
    "batch": (BatchNorm, BatchNorm),
    "batch hidden": (BatchNorm, Identity),
    "weight": (WeightNorm, Identity),
    "rms": (partial(RMSNorm, bias=True), Identity),
}
"""The normalizers of the hidden layers and of the logits. The paper normalizes the logits with
batch norm, but not with layer norm, since their scale is the confidence. "batch hidden" and
"layer everywhere" are the other two of these four."""

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(Adam, fused=True),
    "sgd": SGD,
}
"""The paper's optimizer, and plain gradient descent."""


class MLP(nn.Module):
    """A perceptron with ReLU: inputs (*B, D) to logits (*B, classes).

    A layer without a normalizer has a bias of its own (eq. 1); otherwise the normalizer has it.
    ``sizes`` are D, those of the hidden layers, and the number of classes.
    """

    stacks = True

    def __init__(self, sizes: tuple[int, ...], hidden: NormLayer, output: NormLayer) -> None:
        super().__init__()
        norms = [hidden] * (len(sizes) - 2) + [output]
        self.layers = nn.ModuleList(
            Linear(D, H, norm, bias=norm is Identity)
            for (D, H), norm in zip(pairwise(sizes), norms, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        *hidden, output = self.layers
        for layer in hidden:
            x = F.relu(layer(x))
        return output(x)


@dataclass(frozen=True)
class Experiment(Classification):
    """One arm at one batch size; each seed has the same initial W and batches in every arm.

    The paper's figure has no numbers, and its text leaves open the nonlinearity, the learning
    rate, the initialisation, and the number of epochs and seeds: see the fields for the values
    used here.
    """

    norm: str = setting("layer", choices=ARMS)
    batch_size: int = 128  # 128 and 4 in the paper
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 20
    data: str = "mnist"  # ``embedded``, ``mnist``, ``mnist=PATH`` or ``idx=PATH``
    units: tuple[int, ...] = setting((1000, 1000), least=1)  # the sizes of the hidden layers
    learning_rate: float = 1e-3  # Adam's default; the paper states none
    initialisation: str = setting("he", choices=DENSE_INITS)
    """"he" is N(0, 2/D), "torch" U(-1, 1)/sqrt(D), "authors" U(-0.1, 0.1)."""
    unbiased: bool = False
    """True: batch norm uses the unbiased variance, as section 6.6 does for batch size 4."""
    solver: str = setting("adam", choices=OPTIMIZERS)
    """The optimizer: Adam or plain gradient descent."""
    step_effects: bool = setting(False, measured=True)
    """True: each evaluation includes covariate shift and smoothness, see
    :func:`lnlab.papers.classification.measure_shift_and_smoothness`. The run with the metrics
    ``steepness`` and ``turn`` has earlier definitions of them."""
    eval_every: int = setting(0, least=0)
    """Updates between further evaluations; 0: none but those of every classification."""

    name = "mnist"

    @classmethod
    def implied_changes(cls, budget: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return fewer epochs and the unbiased variance for batch size 4.

        An epoch then has 32 times as many updates.
        """
        if changes.get("batch_size") != 4:
            return {}
        return {"epochs": {"smoke": 1, "notebook": 8, "paper": 5}[budget], "unbiased": True}

    def model(self, seed: int, dataset: Images) -> nn.Module:
        hidden, output = (self._apply_unbiased_setting(norm) for norm in ARMS[self.norm])
        mlp = MLP((dataset.train.x.shape[1], *self.units, dataset.classes), hidden, output)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in mlp.layers:
                assert isinstance(layer, Linear)
                layer.W.copy_(DENSE_INITS[self.initialisation](layer.W.clone(), generator))
                layer.norm.initialize_from_weights(layer.W)
        return self.fuse(mlp)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return OPTIMIZERS[self.solver](parameters, lr=self.learning_rate)

    def full_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return those of every classification, and every ``eval_every`` updates."""
        points = super().full_evaluation_updates(updates_per_epoch)
        further = (
            self.updates_divisible_by(self.eval_every, updates_per_epoch)
            if self.eval_every
            else set()
        )
        return points | further

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> MetricsPerSeed:
        """Return the metrics of every classification, and the effects of a step if asked."""
        metrics = super().evaluate(model, dataset, evaluation)
        if not self.step_effects:
            return metrics
        nets = model.unstack()
        weight = next(nets[0].parameters())
        x = dataset.train.x[:STEP_EFFECT_SIZE].to(weight)
        y = dataset.train.y[:STEP_EFFECT_SIZE].to(weight.device)
        return {
            **metrics,
            **collate_rows([measure_shift_and_smoothness(net, x, y) for net in nets]),
        }

    def _apply_unbiased_setting(self, norm: NormLayer) -> NormLayer:
        unbiased = norm is BatchNorm and self.unbiased
        return partial(BatchNorm, correction=1) if unbiased else norm


@cache
@in_one_thread_if_small
def train_landscape_networks() -> tuple[dict[str, nn.Module], Tensor, Tensor]:
    """Train five small networks for the landscape panel of notebook 16, once per process.

    They have layers of 64, 64, 64 and 10 units and are trained in float64 by plain gradient
    descent. Their normalizers are torch's operators where it has them. The digits and their
    classes are returned, too.
    """
    train = load("embedded").train
    x, y = train.x[:400].double(), train.y[:400]
    networks = {}
    for name in ("batch", "none", "layer", "weight", "rms"):
        norm = "batch hidden" if name == "batch" else name
        task = Experiment.budget("notebook", norm=norm, units=(64, 64))
        with default_dtype(torch.float64), torch.random.fork_rng(devices=()):
            network = task.model(0, cast("Images", task.dataset()))
        optimizer = SGD(network.parameters(), lr=0.1)
        batches = Batches(x, y, 100, [0])
        with torch.enable_grad():
            for epoch in range(40):
                for some_x, some_y in batches.batches_of_epoch(epoch):
                    optimizer.zero_grad()
                    F.cross_entropy(network(some_x[0]), some_y[0]).backward()
                    optimizer.step()
        networks[name] = network.eval()
    return networks, x, y
