"""Permutation-invariant MNIST: Ba et al. (2016), section 6.6 and Fig. 6."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data import Images, load
from lnlab.kernels import LeftOnReference, fuse
from lnlab.nn import BatchNorm, Identity, LayerNorm, Linear, NormLayer, RMSNorm, WeightNorm
from lnlab.nn.linear import DENSE_INITS
from lnlab.papers.classification import CASES, Classification, moved
from lnlab.threads import in_one_thread
from lnlab.training import Batches, Evaluation, setting
from lnlab.training.experiment import collate
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
"""The normalizers of the hidden layers and of the logits. The paper keeps layer norm off the
logits, whose scale is the confidence, and puts batch norm on all layers; "batch hidden" and
"layer everywhere" are the comparisons that it leaves out."""


DESCENTS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(Adam, fused=True),
    "sgd": SGD,
}
"""The rules by which weights are moved: the paper's, and gradient descent without memory."""


class MLP(nn.Module):
    """D - units ... - classes: rectified hidden layers, logits.

    x (*cases, D) to logits (*cases, classes). Where nothing normalizes, the layer has its
    own bias, eq. 1; where something does, the bias is the normalizer's.
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
    """One arm at one batch size, its seeds trained together from paired starts.

    The paper's figure has no numbers, and its text leaves f, the learning rate, the
    initialisation, the number of epochs and of seeds open; what stands in their place here
    is said field by field. Each seed has the same initial W and the same batches in every
    arm. Results of ours on the official MNIST stand in ``results/mnist.jsonl.xz``;
    ``lnlab claims`` says what they show.
    """

    norm: str = setting("layer", choices=ARMS)
    batch_size: int = 128
    """128 and 4 in the paper."""
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 20
    data: str = "mnist"
    """``embedded``, ``mnist``, ``mnist=PATH`` or ``idx=PATH``."""
    units: tuple[int, ...] = setting((1000, 1000), least=1)
    """The size of each hidden layer."""
    learning_rate: float = 1e-3
    """Not stated; the default of Adam, which the paper says it used."""
    initialisation: str = setting("he", choices=DENSE_INITS)
    """"he" is N(0, 2/D), "torch" U(-1, 1)/sqrt(D), "authors" U(-0.1, 0.1)."""
    unbiased: bool = False
    """True if batch norm takes the unbiased variance, as 6.6 does for the small batch."""
    solver: str = setting("adam", choices=DESCENTS)
    """The steps: those of Adam, or of plain gradient descent."""
    step_effects: bool = setting(False, measured=True)
    """True if shift and smoothness are measured at every evaluation, too:
    :func:`lnlab.papers.classification.moved`. The run with ``steepness`` and ``turn`` has
    earlier definitions of them."""
    eval_every: int = setting(0, least=0)
    """The updates from one evaluation to the next, besides those of every classification; 0:
    those alone."""

    name = "mnist"

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        return {
            "smoke": cls(data="embedded", units=(32, 32), epochs=2, seeds=(0, 1)),
            "notebook": cls(
                data="embedded", units=(128, 128), epochs=30, seeds=tuple(range(5))
            ),
            "paper": cls(),
        }

    @classmethod
    def implied(cls, budget: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """Batch size 4 makes 32 times as many updates in an epoch and has fewer epochs; its
        batch norm has the unbiased variance."""
        if said.get("batch_size") != 4:
            return {}
        return {"epochs": {"smoke": 1, "notebook": 8, "paper": 5}[budget], "unbiased": True}

    def model(self, seed: int, dataset: Images) -> nn.Module:
        """The net of one seed; its W depends on the seed and the sizes alone."""
        hidden, output = (self._corrected(norm) for norm in ARMS[self.norm])
        mlp = MLP((dataset.train.x.shape[1], *self.units, dataset.classes), hidden, output)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in mlp.layers:
                assert isinstance(layer, Linear)
                layer.W.copy_(DENSE_INITS[self.initialisation](layer.W.clone(), generator))
                layer.norm.initialize(layer.W)
        if not self.fused:
            return mlp
        with warnings.catch_warnings():  # weight norm and the unbiased variance have none
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(mlp)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return DESCENTS[self.solver](parameters, lr=self.learning_rate)

    def eval_points(self, updates_per_epoch: int) -> set[int]:
        """Those of every classification, and every so many updates."""
        found = super().eval_points(updates_per_epoch)
        return found | (
            self.every(self.eval_every, updates_per_epoch) if self.eval_every else set()
        )

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> Mapping[str, list[float]]:
        """The measurements of every classification, and with ``step_effects`` shift and
        smoothness on the first training cases."""
        found = super().evaluate(model, dataset, evaluation)
        if not self.step_effects:
            return found
        nets = model.unstack()
        weight = next(nets[0].parameters())
        x = dataset.train.x[:CASES].to(weight)
        y = dataset.train.y[:CASES].to(weight.device)
        rows = [moved(net, x, y) for net in nets]
        return {**found, **collate(rows)}

    def _corrected(self, norm: NormLayer) -> NormLayer:
        unbiased = norm is BatchNorm and self.unbiased
        return partial(BatchNorm, correction=1) if unbiased else norm


@cache
@in_one_thread
def train_landscape_networks() -> tuple[dict[str, nn.Module], Tensor, Tensor]:
    """Five small networks by their normalizer, and the digits and classes that they learned.

    They are what the landscape panel of notebook 16 is given: 64 - 64 - 64 - 10, trained in
    float64 by plain gradient descent, their normalizers torch's own operators where it has
    them. They are trained once.
    """
    train = load("embedded").train
    x, y = train.x[:400].double(), train.y[:400]
    networks = {}
    for name in ("batch", "none", "layer", "weight", "rms"):
        norm = "batch hidden" if name == "batch" else name
        task = Experiment.budget("notebook", norm=norm, units=(64, 64))
        with default_dtype(torch.float64), torch.random.fork_rng(devices=()):
            network = task.model(0, task.dataset())
        optimizer = SGD(network.parameters(), lr=0.1)
        batches = Batches(x, y, 100, [0])
        with torch.enable_grad():
            for epoch in range(40):
                for some_x, some_y in batches.epoch(epoch):
                    optimizer.zero_grad()
                    F.cross_entropy(network(some_x[0]), some_y[0]).backward()
                    optimizer.step()
        networks[name] = network.eval()
    return networks, x, y
