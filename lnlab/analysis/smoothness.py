r"""The smoothness of the loss along its gradient, by Santurkar et al. (2018), section 3.

At one moment of training, with w the parameters, g the gradient of the loss of one batch, and
steps eta over a range, all with the same batch and none of them taken:

.. math:: L(w - \eta g), \qquad d(\eta) = \lVert g - \nabla L(w - \eta g) \rVert, \qquad
    \beta = \max_\eta \frac{d(\eta)}{\eta \lVert g \rVert}

Their ranges over eta are the loss variation and the gradient predictiveness; beta is the
effective smoothness. Many public copies plot something else, the spread between runs at
several learning rates, which is no property of the loss at any w.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.module_copy import check_type
from lnlab.analysis.objective import Loss, Objective, as_objective
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.threads import in_one_thread_if_small

STEPS = 8
"""The number of steps along the gradient that are tried."""

RELATIVE_STEP = 0.01
"""The length of a usual step, as a fraction of ||w||, if no learning rate is given."""


@dataclass(frozen=True)
class GradientSmoothness(AnalysisResult):
    """Losses and gradients at several distances along the negative gradient at w."""

    eta: Tensor  # the steps (K,), multiples of the gradient
    loss: float  # at w, before any step
    losses: Tensor  # L(w - eta g) (K,)
    gradient_distances: Tensor  # from g to the gradient there (K,)
    gradient_norm: float  # the length of g
    weight_norm: float  # the length of w

    @property
    def beta(self) -> float:
        """The effective smoothness, max distance / (eta ||g||)."""
        # eta ||g|| is the length of the step: this is the Lipschitz constant of the gradient
        # that is seen on this line, so a lower bound of the true one.
        return float((self.gradient_distances / (self.eta * self.gradient_norm)).max())

    def summary(self) -> dict[str, float]:
        """Return the numbers of a row of a table, some of which no scale changes.

        The range of losses is the loss variation, that of distances the gradient
        predictiveness. ``relative_step`` is max eta ||g|| / ||w||, ``relative_distance`` the
        largest distance / ||g||, ``scale_free_beta`` beta ||w||^2: if the loss does not depend
        on the length of w, g scales as 1/||w|| and beta as 1/||w||^2, so that a model with
        longer weights looks smoother and is not.
        """
        farthest = float(self.gradient_distances.max())
        return {
            "loss": self.loss,
            "loss_low": float(self.losses.min()),
            "loss_high": float(self.losses.max()),
            "distance_low": float(self.gradient_distances.min()),
            "distance_high": farthest,
            "beta": self.beta,
            "gradient": self.gradient_norm,
            "weights": self.weight_norm,
            "relative_step": float(self.eta.max()) * self.gradient_norm / self.weight_norm,
            "relative_distance": farthest / self.gradient_norm,
            "scale_free_beta": self.beta * self.weight_norm**2,
        }

    def _lines_above_table(self) -> list[str]:
        step = self.summary()["relative_step"]
        return [f"effective smoothness: {self.beta:.3g}, of steps up to {step:.1%} of ||w||"]

    def to_frame(self) -> DataFrame:
        """Return one row per step: eta, the loss there, the distance of its gradient from g."""
        columns = {"eta": self.eta, "loss": self.losses, "distance": self.gradient_distances}
        return make_frame({name: v.double().numpy() for name, v in columns.items()})

    def plot(self) -> Figure:
        """Return losses and distances against eta."""
        from lnlab.figures.curves import line_chart

        frame = self.to_frame()
        eta = frame["eta"].to_numpy()
        panels = {
            "L(w − ηg)": {"loss": (eta, frame["loss"].to_numpy())},
            "‖g − ∇L(w − ηg)‖": {"distance": (eta, frame["distance"].to_numpy())},
        }
        return line_chart(panels, x="step η, in gradients", y="", log_x=True)


def log_spaced_step_sizes(
    learning_rate: float, *, low: float = 0.5, high: float = 4.0
) -> Tensor:
    """Return steps eta (STEPS,) from ``low`` to ``high`` times the learning rate, log-spaced.

    1/2 to 4 is the range of Santurkar et al. (2018) for VGG, 1/100 to 30 for linear networks.
    """
    first, last = torch.tensor([low, high]).log10()
    return learning_rate * torch.logspace(first, last, STEPS, dtype=torch.float64)


@in_one_thread_if_small
def gradient_smoothness(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    eta: Tensor | None = None,
    w: Tensor | None = None,
    bn_stats: str | None = None,
) -> GradientSmoothness:
    """Return losses and gradients at several distances along the negative gradient.

    The parameters of the model do not change. Santurkar et al. (2018) call the largest change
    of the gradient per distance the effective smoothness. If a part of the module is detached,
    the gradients are not those of the loss: ``lnlab.audit`` tests this (LN608).

    Args:
        model, x, y, loss_fn: as for :class:`Objective`; or an Objective as ``model`` alone.
        eta: the step sizes (K,), for example :func:`log_spaced_step_sizes` of a learning
            rate. None takes steps that change w by 0.5 to 4 % of its norm; a rescaling of w
            that leaves the loss unchanged then leaves the result unchanged, too.
        w: the parameters (P,) at which to begin; None takes those of the model.
        bn_stats: which statistics BatchNorm uses; required if the model has one: "batch" (those
            of x, as in training and in the paper), "running" (as in evaluation) or "recomputed"
            from x, which gradients hold fixed: they are not those of the loss then.

    Raises:
        ValueError: if the gradient is zero or not finite.

    Examples:
        >>> smoothness = lnlab.gradient_smoothness(net, x, y, F.cross_entropy)
        >>> smoothness.plot()
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    w = objective.start if w is None else w
    loss, g = objective.gradient(w)
    gradient_norm, weight_norm = float(vector_norm(g)), float(vector_norm(w))
    if not 0 < gradient_norm < inf:
        raise ValueError(
            f"the gradient has length {gradient_norm}: there are no steps along it."
        )
    if eta is None:
        # a step eta g of length 0.01 ||w|| is one of training: it has 1/2 to 4 times that rate
        eta = log_spaced_step_sizes(RELATIVE_STEP * (weight_norm or 1.0) / gradient_norm)
    check_type(
        "eta", eta, Tensor, "a tensor of positive steps, log_spaced_step_sizes(learning_rate)"
    )
    # each from w itself: these are steps that could be taken, not a walk
    at_step = [objective.gradient(w - float(each) * g) for each in eta]
    return GradientSmoothness(
        eta=eta.cpu(),
        loss=loss,
        losses=torch.tensor([value for value, _ in at_step], dtype=torch.float64),
        gradient_distances=torch.stack([vector_norm(g - other) for _, other in at_step]).cpu(),
        gradient_norm=gradient_norm,
        weight_norm=weight_norm,
    )
