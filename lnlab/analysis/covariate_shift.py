r"""Internal covariate shift, as Santurkar et al. (2018, arXiv:1805.11604) make it a number.

What a step does to the layers below changes what a layer is given, and so the gradient that it
should have followed. Definition 2.1: with :math:`W^{(t)}` the weights before a step, and
:math:`W^{(t+1)}` after it, of the same batch,

.. math:: G_i &= \nabla_{W_i} L(W_1^{(t)}, \ldots, W_k^{(t)}), \\
          G'_i &= \nabla_{W_i} L(W_1^{(t+1)}, \ldots, W_{i-1}^{(t+1)}, W_i^{(t)}, \ldots,
          W_k^{(t)}).

The shift of layer i is :math:`\lVert G_i - G'_i \rVert`, and the cosine between the two is 1
where there is none.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.objective import Loss, Objective, check_training, train_step
from lnlab.nn import Norm, Normalizer
from lnlab.threads import in_one_thread

MADE = ".parametrizations."
"""The part of a name by which torch marks what it makes a weight of: its length, say."""


class Shift(NamedTuple):
    """The change that one step made in the gradient of one layer.

    Attributes:
        layer: its first parameter.
        distance: ||G - G'||.
        relative: the same as a multiple of ||G||: it does not depend on the scale of the loss,
            nor on that of weights whose scale nothing sees.
        cosine: the cosine of the angle between G and G'.
    """

    layer: str
    distance: float
    relative: float
    cosine: float


def layers(objective: Objective) -> dict[str, list[str]]:
    """The parameters of ``objective`` by layer, from the first to the last.

    A layer begins with a matrix or a kernel and has what stands between it and the next: its
    bias, the gain and the bias of what normalizes it. First is what is called first, whatever
    the order in which a module names its parts.
    """
    calls = _calls(objective)

    def place(name: str) -> tuple[int, bool]:
        owner, made, _ = name.rpartition(".")[0].partition(MADE)
        while owner and owner not in calls:  # used by what it is a part of
            owner = owner.rpartition(".")[0]
        return calls.get(owner, 0), not made

    shapes = dict(zip(objective.names, objective.shapes, strict=True))
    found: dict[str, list[str]] = {}
    weight = ""
    for name in sorted(objective.names, key=place):
        before, weight = weight, name.rpartition(".")[0]
        part_of_one = weight == before and MADE in weight
        if not found or (len(shapes[name]) >= 2 and not part_of_one):
            found[name] = []
        found[next(reversed(found))].append(name)
    return found


def _calls(objective: Objective) -> dict[str, int]:
    """The names of all parts that are called, and which was the first."""
    calls: dict[str, int] = {}

    def noting(name: str) -> Callable[..., None]:
        def note(*_: object) -> None:
            calls.setdefault(name, len(calls))

        return note

    parts = objective.module.named_modules()
    hooks = [part.register_forward_pre_hook(noting(name)) for name, part in parts]
    try:
        objective.value()
    finally:
        for hook in hooks:
            hook.remove()
    return calls


@in_one_thread
def covariate_shift(objective: Objective, moved: Tensor) -> list[Shift]:
    """Definition 2.1 for every layer, the first of which cannot shift.

    Args:
        objective: the loss of the batch of the step, at the parameters before it; with
            statistics of the BATCH, as in training.
        moved: all parameters (P,) after the step, ``objective.parameters_of(model)``.

    Raises:
        ValueError: where ``moved`` has another shape.
    """
    objective.check_vector("moved", moved)
    places = objective.slices()
    _, G = objective.gradient()
    w, shifts = objective.start.clone(), []
    for first, names in layers(objective).items():
        own = torch.cat([torch.arange(places[n].start, places[n].stop) for n in names])
        own = own.to(w.device)
        # w holds W^(t+1) of all layers before this one, and W^(t) from it on: G'_i
        _, shifted = objective.gradient(w)
        shifts.append(_shift(first, G[own], shifted[own]))
        w[own] = moved[own]
    return shifts


def _shift(layer: str, G: Tensor, shifted: Tensor) -> Shift:
    distance, size = float(vector_norm(G - shifted)), float(vector_norm(G))
    G, shifted = G.double(), shifted.double()
    # without an eps, as small gradients have directions too; rounding may lead beyond 1
    cosine = torch.nn.functional.cosine_similarity(G, shifted, dim=0, eps=0.0).clamp(-1, 1)
    relative = distance / size if size else distance and float("inf")
    return Shift(layer, distance, relative, float(cosine))


def shifting(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    *,
    every: int = 1,
) -> Iterator[tuple[int, list[Shift]]]:
    """Train, one update a batch, and measure the shift that every so many of them make.

    Measuring costs a gradient a layer, and does not change what is trained. After each
    measured update the pair (update, shifts) is yielded.

    Args:
        model: called as ``model(x)``; put in training mode.
        batches: pairs of x and y.
        loss: ``loss(output, y)``, a scalar.
        optimizer: of the model's parameters.
        every: updates from one measurement to the next.

    Raises:
        ValueError: where every is too small, and as
            :class:`~lnlab.analysis.objective.Objective`.
    """
    check_training(model, batches, loss, optimizer, every)
    model.train()
    for update, (x, y) in enumerate(batches, start=1):
        measured = update % every == 0
        before = measured and Objective(model, x, y, loss, bn_stats="batch")
        train_step(model, x, y, loss, optimizer)
        if before:
            yield update, covariate_shift(before, before.parameters_of(model))


class Noisy(Normalizer):
    """A normalizer, and behind it noise whose distribution is another one at each step.

    Santurkar et al. (2018), algorithm 1: of each unit mean and scale are drawn anew at every
    training step, mu from U(-shift, shift) and sigma from U(1, scale), and of each case, too,
    around them: m from U(mu - spread, mu + spread), s from N(sigma, spread²); the output is
    s h + m. With BatchNorm this is their "noisy" batch norm, whose covariates shift more than
    without any; with Identity, their control.

    Args:
        norm: makes the normalizer.
        shift: their n_mu.
        scale: their n_sigma.
        spread: their r_mu and r_sigma.

    Raises:
        ValueError: for a shift or spread below 0, or a scale below 1.
    """

    def __init__(
        self,
        units: int,
        norm: Norm,
        *,
        shift: float = 0.5,
        scale: float = 1.25,
        spread: float = 0.1,
    ) -> None:
        inner = norm(units)
        super().__init__(units, space=inner.space)
        if not (shift >= 0 and spread >= 0 and scale >= 1):
            raise ValueError(
                f"shift is {shift}, spread {spread}, scale {scale}: give at least 0, 0 and 1."
            )
        self.norm, self.shift, self.scale, self.spread = inner, shift, scale, spread

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        h = self.norm(a, W, t)
        if not self.training:
            return h
        each = h.new_empty(self.units)
        # algorithm 1: one mean and one scale a unit and step, then a number a case around them
        mu = self.along_units(torch.rand_like(each) * 2 - 1) * self.shift
        sigma = self.along_units(1 + torch.rand_like(each) * (self.scale - 1))
        m = mu + (torch.rand_like(h) * 2 - 1) * self.spread
        return (sigma + torch.randn_like(h) * self.spread) * h + m

    def weight(self, W: Tensor) -> Tensor:
        return self.norm.weight(W)

    def start(self, W: Tensor) -> None:
        self.norm.start(W)
