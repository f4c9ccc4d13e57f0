r"""Internal covariate shift, as Santurkar et al. (2018, arXiv:1805.11604) measure it.

The step of the layers below changes the input of a layer, and so the gradient that it should
have followed. Definition 2.1: with :math:`W^{(t)}` the weights before a step, and
:math:`W^{(t+1)}` after it, of the same batch,

.. math:: G_i &= \nabla_{W_i} L(W_1^{(t)}, \ldots, W_k^{(t)}), \\
          G'_i &= \nabla_{W_i} L(W_1^{(t+1)}, \ldots, W_{i-1}^{(t+1)}, W_i^{(t)}, \ldots,
          W_k^{(t)}).

The shift of layer i is :math:`\lVert G_i - G'_i \rVert`, and the cosine between the two is 1
if there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.objective import Loss, Objective, as_objective
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.threads import in_one_thread_if_small, one_thread

PARAMETRIZATION = ".parametrizations."
"""The part of a name by which torch marks what it makes a weight of: its length, say."""


class LayerShift(NamedTuple):
    """The change that one step made in the gradient of one layer."""

    first_parameter: str  # the name of the layer's first parameter
    distance: float  # ||G - G'||
    # the same as a multiple of ||G||, which depends on no scale, neither of the loss nor of
    # scale-invariant weights
    relative_distance: float
    cosine: float  # of the angle between G and G'


class LayerShifts(list[LayerShift], AnalysisResult):
    """The shift of every layer, from the first that is called to the last."""

    def to_frame(self) -> DataFrame:
        """Return a row per layer: first parameter, distance, relative distance and cosine."""
        return make_frame(list(self), columns=list(LayerShift._fields))

    def plot(self) -> Figure:
        """Return the relative distance over the depth."""
        from lnlab.figures.curves import line_chart_over_depth

        relative = {"shift": [shift.relative_distance for shift in self]}
        return line_chart_over_depth(
            [s.first_parameter for s in self], relative, y="‖G − G′‖ / ‖G‖"
        )


def parameter_names_by_layer_weight(objective: Objective) -> dict[str, list[str]]:
    """Return the names of the parameters by layer, from the first layer to the last.

    A layer begins with a matrix or a kernel and has what is between it and the next: its bias,
    the gain and the bias of what normalizes it. The order is that of the first calls, whatever
    the order in which a module names its submodules.
    """
    calls = _order_of_first_calls(objective)

    def call_order_parametrizations_first(name: str) -> tuple[int, bool]:
        owner, parametrized, _ = name.rpartition(".")[0].partition(PARAMETRIZATION)
        while owner and owner not in calls:  # used by the module it belongs to
            owner = owner.rpartition(".")[0]
        return calls.get(owner, 0), not parametrized

    shapes = dict(zip(objective.names, objective.shapes, strict=True))
    layers: dict[str, list[str]] = {}
    weight = ""
    for name in sorted(objective.names, key=call_order_parametrizations_first):
        before, weight = weight, name.rpartition(".")[0]
        # length and direction of a parametrized weight belong to one layer
        same_weight = weight == before and PARAMETRIZATION in weight
        if not layers or (len(shapes[name]) >= 2 and not same_weight):
            layers[name] = []
        layers[next(reversed(layers))].append(name)
    return layers


def _order_of_first_calls(objective: Objective) -> dict[str, int]:
    """Return the names of all modules that are called, numbered by their first call."""
    calls: dict[str, int] = {}

    def number_call(name: str, *_: object) -> None:
        calls.setdefault(name, len(calls))

    with ExitStack() as hooks:
        for name, module in objective.module.named_modules():
            hooks.enter_context(module.register_forward_pre_hook(partial(number_call, name)))
        objective.value()
    return calls


@in_one_thread_if_small
def covariate_shift(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    after: nn.Module | Tensor,
    bn_stats: str | None = None,
) -> LayerShifts:
    """Return Definition 2.1 for every layer, the first of which cannot shift.

    Arguments as of :class:`Objective`: the model before the step, and its batch; in training
    ``bn_stats`` are those of the "batch". ``after`` is the model after the step, or its
    parameters (P,).
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    end = objective.parameters_of(after) if isinstance(after, nn.Module) else after
    objective.check_vector("after", end)
    slices = objective.slices()
    _, G = objective.gradient()
    w, shifts = objective.start.clone(), LayerShifts()
    for first, names in parameter_names_by_layer_weight(objective).items():
        indices = torch.cat([torch.arange(slices[n].start, slices[n].stop) for n in names])
        indices = indices.to(w.device)
        # w holds W^(t+1) of all layers before this one, and W^(t) from it on: G'_i
        _, shifted = objective.gradient(w)
        shifts.append(_compare_gradients(first, G[indices], shifted[indices]))
        w[indices] = end[indices]
    return shifts


def _compare_gradients(first_parameter: str, G: Tensor, shifted: Tensor) -> LayerShift:
    distance, size = float(vector_norm(G - shifted)), float(vector_norm(G))
    G, shifted = G.double(), shifted.double()
    # without an eps, as small gradients have directions too; rounding may lead beyond 1
    cosine = torch.nn.functional.cosine_similarity(G, shifted, dim=0, eps=0.0).clamp(-1, 1)
    relative = distance / size if size else distance and float("inf")
    return LayerShift(first_parameter, distance, relative, float(cosine))


def train_and_measure_shifts(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss_fn: Loss,
    optimizer: torch.optim.Optimizer,
    *,
    every: int = 1,
) -> Iterator[tuple[int, LayerShifts]]:
    """Train on batches (x, y); yield every so many updates their number and their shifts.

    Measuring costs a gradient a layer, and does not change what is trained.

    Args:
        model: trained in place, in training mode.
        batches: x and y of each update.
        loss_fn: ``loss_fn(model(x), y)``, a scalar.
        optimizer: of the model's parameters.
        every: updates from one measurement to the next.
    """
    model.train()
    for update, (x, y) in enumerate(batches, start=1):
        measured = update % every == 0
        before = Objective(model, x, y, loss_fn, bn_stats="batch") if measured else None
        with one_thread(model, x):
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
        if before is not None:
            yield update, covariate_shift(before, after=model)
