"""Permutation-invariant MNIST: Ba et al. (2016), section 6.6 and Fig. 6."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data import Dataset, load
from lnlab.kernels import LeftOnReference, fuse
from lnlab.norms import BatchNorm, Identity, LayerNorm, Linear, Norm, RMSNorm, WeightNorm
from lnlab.tasks.classification import log_spaced, measured
from lnlab.training import cross_entropy

ARMS: dict[str, tuple[Norm, Norm]] = {
    "none": (Identity, Identity),
    "layer": (LayerNorm, Identity),
    "batch": (BatchNorm, BatchNorm),
    "batch hidden": (BatchNorm, Identity),
    "weight": (WeightNorm, Identity),
    "rms": (partial(RMSNorm, bias=True), Identity),
}
"""What normalizes the hidden layers and what the logits. The paper keeps layer norm off the
logits, whose scale is the confidence, and puts batch norm on all layers; "batch hidden" is
the comparison it leaves out."""

Initialise = Callable[[Tensor, torch.Generator], Tensor]

INITIALISATIONS: dict[str, Initialise] = {
    "modern": lambda W, generator: W.normal_(0, (2 / W.shape[1]) ** 0.5, generator=generator),
    "torch": lambda W, generator: W.uniform_(-1, 1, generator=generator) / W.shape[1] ** 0.5,
    "authors": lambda W, generator: W.uniform_(-0.1, 0.1, generator=generator),
}
"""How W is drawn. The paper does not say. "modern" is He et al. (2015), N(0, 2/D), which does
not leave the net without normalization at a disadvantage; "authors" is the U(-0.1, 0.1) of
their published recurrent experiments."""


class MLP(nn.Module):
    """D - units ... - classes: rectified hidden layers, logits.

    x (*cases, D) to logits (*cases, classes). Where nothing normalizes, the layer has its
    own bias, eq. 1; where something does, the bias is the normalizer's.
    """

    stacks = True

    def __init__(self, sizes: tuple[int, ...], hidden: Norm, output: Norm) -> None:
        super().__init__()
        norms = [hidden] * (len(sizes) - 2) + [output]
        self.layers = nn.ModuleList(
            Linear(D, H, norm, bias_inside=norm is Identity)
            for (D, H), norm in zip(pairwise(sizes), norms, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        *hidden, output = self.layers
        for layer in hidden:
            x = F.relu(layer(x))
        return output(x)


@dataclass(frozen=True)
class PermutationInvariantMNIST:
    """One arm at one batch size, its seeds trained together from paired starts.

    The paper's figure has no numbers, and its text leaves f, the learning rate, the
    initialisation, the number of epochs and of seeds open; what stands in their place here
    is said field by field. Each seed has the same initial W and the same batches in every
    arm. Results of ours on the official MNIST stand in ``results/mnist``; the verdicts in
    the ledger (``lnlab claims``).
    """

    norm: str = "layer"
    batch_size: int = 128
    """128 and 4 in the paper."""
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 20
    data: str = "mnist"
    """``embedded``, ``mnist``, ``mnist=PATH`` or ``idx=PATH``."""
    units: tuple[int, ...] = (1000, 1000)
    learning_rate: float = 1e-3
    """Not stated; the default of Adam, which the paper says it used."""
    initialisation: str = "modern"
    unbiased: bool = False
    """Batch norm normalizes by the unbiased variance, as 6.6 does for the small batch."""
    fused: bool = True
    """torch's own operators in place of the reference normalizers, where there are any."""

    name = "mnist"

    def __post_init__(self) -> None:
        for field, known in (("norm", ARMS), ("initialisation", INITIALISATIONS)):
            if getattr(self, field) not in known:
                raise ValueError(
                    f"{field} is {getattr(self, field)!r}: choose from {', '.join(known)}."
                )
        if self.batch_size < 1 or self.epochs < 1 or not self.seeds:
            raise ValueError("batch_size and epochs are at least 1, and there is a seed.")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}: each once, or intervals are too narrow.")

    @classmethod
    def budget(cls, name: str, **changes) -> "PermutationInvariantMNIST":
        """The task at ``smoke`` (seconds), ``notebook`` or ``paper``, with ``changes``.

        A change that is None or empty leaves the budget's own. Batch size 4 makes 32 times
        as many updates in an epoch and has fewer epochs; its batch norm has the unbiased
        variance.
        """
        budgets = {
            "smoke": (cls(data="embedded", units=(32, 32), epochs=2, seeds=(0, 1)), 1),
            "notebook": (
                cls(data="embedded", units=(128, 128), epochs=30, seeds=tuple(range(5))),
                8,
            ),
            "paper": (cls(), 5),
        }
        if name not in budgets:
            raise ValueError(f"no budget is called {name!r}: choose from {', '.join(budgets)}.")
        task, epochs_at_4 = budgets[name]
        said = {field: value for field, value in changes.items() if value not in (None, "", ())}
        if said.get("batch_size") == 4:
            said = {"epochs": epochs_at_4, "unbiased": True, **said}
        return replace(task, **said)

    @classmethod
    def arms(cls, name: str, **changes) -> "dict[str, PermutationInvariantMNIST]":
        """All arms of a comparison at one budget, by name."""
        return {arm: cls.budget(name, norm=arm, **changes) for arm in ARMS}

    def config(self) -> dict:
        """What makes this run this run: every field but where the data happen to lie."""
        return {**asdict(self), "data": self.data.split("=")[0]}

    def dataset(self) -> Dataset:
        return load(self.data)

    def updates(self, dataset: Dataset) -> int:
        """How many updates the whole run makes."""
        return self.epochs * (len(dataset.train) // self.batch_size)

    def model(self, seed: int, dataset: Dataset) -> nn.Module:
        """The net of one seed; its W depends on the seed and the sizes alone."""
        hidden, output = (self._corrected(norm) for norm in ARMS[self.norm])
        mlp = MLP((dataset.train.x.shape[1], *self.units, dataset.classes), hidden, output)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in mlp.layers:
                assert isinstance(layer, Linear)
                layer.W.copy_(INITIALISATIONS[self.initialisation](layer.W.clone(), generator))
                layer.norm.start(layer.W)
        if not self.fused:
            return mlp
        with warnings.catch_warnings():  # weight norm and the unbiased variance have none
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(mlp)

    def _corrected(self, norm: Norm) -> Norm:
        unbiased = norm is BatchNorm and self.unbiased
        return partial(BatchNorm, correction=1) if unbiased else norm

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Negative log likelihood in nats: logits (S, B, classes), y (S, B) to (S,)."""
        return cross_entropy(output, y)

    def evaluation_points(self, updates_per_epoch: int) -> set[int]:
        return log_spaced(updates_per_epoch, self.epochs)

    def measure(self, model: nn.Module, dataset: Dataset) -> dict[str, list[float]]:
        return measured(model, dataset)
