r"""The rotation of weights: the learning rate that a scale-invariant weight effectively has.

If the loss does not depend on the scale of w, L(c w) = L(w) for c > 0, it follows that

.. math:: w^\top \nabla L(w) = 0, \qquad \nabla L(c w) = \nabla L(w)/c,

so that only the direction of w counts, and a step of size eta rotates it as one of size
:math:`\eta/\lVert w \rVert^2` would at length 1 (van Laarhoven 2017, arXiv:1706.05350). Steps
at a right angle make w longer, weight decay makes it shorter, and where the two balance w
rotates by an angle that depends on the optimizer alone: :func:`equilibrium_angle`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from lnlab.analysis.invariances import Grade, check_invariances
from lnlab.analysis.magnitudes import root_mean_square, vector_norm
from lnlab.analysis.module_copy import check_model, check_names, check_type
from lnlab.analysis.recorder import HookContext
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame

WHOLE, ROWS, NONE = "whole", "rows", "none"
"""The part of a parameter that may be re-scaled alone: all of it, any of its rows, nothing."""

WholeOrRows = str


def scale_invariant_weights(
    model: nn.Module, x: Tensor, **settings: Any
) -> dict[str, WholeOrRows]:
    """Return the weights whose scale does not change the output of ``model``, by name.

    The value is "whole" if only a factor for the whole weight leaves the output unchanged, and
    "rows" if each row may have its own. Both are tested (:func:`check_invariances` of x (B,
    ...), columns 1 and 3, in training mode), not inferred from names. An invariance that is
    broken only by the eps of a normalizer counts.
    """
    report = check_invariances(model, x, columns=(1, 3), **settings)
    mode = "train" if any(v.mode == "train" for v in report.invariances) else "evaluation"
    # column 1 of Table 1 re-scales all of a weight, column 3 one of its rows
    holds = {
        (v.where, v.column)
        for v in report.invariances
        if v.mode == mode and (v.grade is Grade.EXACT or v.exact_without == "eps")
    }
    names = dict.fromkeys(v.where for v in report.invariances)
    return {n: ROWS if (n, 3) in holds else WHOLE for n in names if (n, 1) in holds}


def equilibrium_angle(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> float:
    r"""Return the angle (radians) by which a scale-invariant weight rotates in the long run.

    Kosson et al. (2023, arXiv:2305.17212), with learning rate eta and weight decay lambda: SGD
    :math:`\sqrt{2\eta\lambda}`, with momentum :math:`\sqrt{2\eta\lambda/(1+\mu)}`, AdamW
    :math:`\sqrt{2\eta\lambda(1-\beta_1)/(1+\beta_1)}`, if gradients are mostly noise. NaN
    without weight decay, when there is none, and for other optimizers.
    """
    # A step eta g at a right angle to w makes ||w||² larger by eta² ||g||², and decay makes it
    # smaller by 2 eta lambda ||w||². Where the two are equal the angle eta ||g|| / ||w|| is the
    # root of 2 eta lambda, however large gradients are and wherever w began.
    product = 2 * float(group["lr"]) * group.get("weight_decay", 0.0)
    if isinstance(optimizer, torch.optim.SGD):
        # 2 eta lambda / (1 + mu); with Nesterov or dampening the noise adds up in another way
        known = not group["nesterov"] and not group["dampening"]
        factor = 1 / (1 + group["momentum"])
    else:
        known = isinstance(optimizer, torch.optim.AdamW) and not group["amsgrad"]
        # (1 - beta_1) / (1 + beta_1): how much of the noise a running mean of gradients keeps
        factor = (1 - group["betas"][0]) / (1 + group["betas"][0]) if known else 0.0
    return (product * factor) ** 0.5 if known and product else float("nan")


def row_angles(w: Tensor, other: Tensor) -> Tensor:
    """Return the angles in radians (...) between rows of ``w`` and of ``other`` (..., D)."""
    w, other = (v / vector_norm(v, -1, keepdim=True) for v in (w.double(), other.double()))
    # exact for small angles, where the arc cosine has lost half of its digits
    return 2 * torch.atan2((w - other).norm(dim=-1), (w + other).norm(dim=-1))


def record_rotation(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    invariant: Mapping[str, str],
    *,
    names: Collection[str] | None = None,
    every: int = 1,
) -> RotationRecorder:
    """Return a context manager that records the angle by which each step rotates a weight.

        with record_rotation(model, optimizer, scale_invariant_weights(model, x)) as r:
            ...train...
        r.to_frame()

    Gains, biases and the last layer are recorded, too, although no equilibrium is predicted for
    what is not scale-invariant. Parameters, gradients and steps do not change.

    Args:
        model: the module whose parameters are recorded.
        optimizer: the optimizer of these parameters; its ``step`` must not be given a closure.
        invariant: the result of :func:`scale_invariant_weights`.
        names: the names of the parameters to record; None takes all that are trained.
        every: the number of steps from one record to the next.

    Raises:
        ValueError: if a name does not exist, or the optimizer has none of these parameters.

    Examples:
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> invariant = lnlab.analysis.rotation.scale_invariant_weights(net, x)
        >>> with lnlab.record_rotation(net, optimizer, invariant) as rotations:
        ...     for _ in range(5):
        ...         optimizer.zero_grad()
        ...         F.cross_entropy(net(x), y).backward()
        ...         optimizer.step()
        >>> rotations.plot()
    """
    check_model(model)
    check_type("optimizer", optimizer, torch.optim.Optimizer, "one of torch.optim")
    check_type("invariant", invariant, Mapping, "the result of scale_invariant_weights")
    known = dict(model.named_parameters())
    check_names("parameter", {*(names or ()), *invariant}, known)
    groups = {p: group for group in optimizer.param_groups for p in group["params"]}
    parameters = {
        name: (p, groups[p], invariant.get(name, NONE))
        for name, p in known.items()
        if p in groups and (names is None or name in names)
    }
    if not parameters:
        raise ValueError("the optimizer moves none of these parameters of the model.")
    return RotationRecorder(optimizer, parameters, every)


class RotationRecorder(HookContext, AnalysisResult):
    """The recorded rotations of each parameter, one row per step and parameter."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: dict[str, tuple[nn.Parameter, dict[str, Any], str]],
        every: int,
    ) -> None:
        self.optimizer, self.parameters, self.every, self.step = optimizer, parameters, every, 0
        self._rows: list[dict[str, Any]] = []
        self._before: dict[str, Tensor] = {}
        super().__init__()

    def _register_hooks(self) -> Iterator[RemovableHandle]:
        self._before.clear()  # of a step that an error ended
        yield self.optimizer.register_step_pre_hook(self._before_step)
        yield self.optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, *_: Any) -> None:
        self.step += 1
        if self.step % self.every == 0:
            moving = {n: p for n, (p, *_) in self.parameters.items() if p.grad is not None}
            self._before = {n: p.detach().clone() for n, p in moving.items()}

    def _after_step(self, *_: Any) -> None:
        for name, before in self._before.items():
            p, group, invariant = self.parameters[name]
            assert p.grad is not None
            eta, turn = (
                float(group["lr"]),
                rotation_statistics(before, p, p.grad, rows=invariant == ROWS),
            )
            # a step of eta rotates w as one of eta / ||w||² rotates w / ||w||
            turn["effective"] = eta / turn["norm"] ** 2 if turn["norm"] else torch.inf
            head = {"step": self.step, "name": name, "invariant": invariant, "rate": eta}
            expected = equilibrium_angle(self.optimizer, group)
            self._rows.append({**head, **turn, "expected": expected})
        self._before.clear()

    def to_frame(self) -> DataFrame:
        """Return a row per step and parameter.

        Columns: step, name, invariant ("whole", "rows" or "none"), rate (eta), angle (radians,
        of this step), norm (||w|| before it), cos (of w and its gradient), gradient (its
        norm), effective (eta/||w||²) and expected, the :func:`equilibrium_angle`. If rows are
        invariant these are of one row, a root mean square over all of them.
        """
        if not self._rows:
            raise ValueError(f"the optimizer made fewer than {self.every} steps.")
        return make_frame(self._rows)

    def plot(self) -> Figure:
        """Return the angle of each parameter over the steps."""
        from lnlab.figures.curves import line_chart

        lines = {
            str(name): (rows["step"].to_numpy(), rows["angle"].to_numpy())
            for name, rows in self.to_frame().groupby("name", sort=False)
        }
        return line_chart({"": lines}, x="step", y="angle of a step (radians)")


@torch.no_grad()
def rotation_statistics(
    w: Tensor, after: Tensor, gradient: Tensor, *, rows: bool
) -> dict[str, float]:
    """Return angle, norm, cos(w, gradient) and norm of the gradient, each the rms over rows.

    w (any shape) is a parameter, ``after`` the same after a step, ``gradient`` that before it;
    all of w is one row unless ``rows``. Angle and cos are NaN where a length is 0, as that of
    biases at their start. If all of w is one row, cos has a sign: below 0 a step of plain
    descent makes w longer.
    """
    w, after, gradient = (
        v.double().flatten(1) if rows else v.double().reshape(1, -1)
        for v in (w, after, gradient)
    )
    lengths, slopes = vector_norm(w, 1), vector_norm(gradient, 1)
    # w · grad L(w) = 0 if the loss does not depend on the scale: cos tells how nearly
    cos = (w / lengths[:, None] * (gradient / slopes[:, None])).sum(1)
    values = {"angle": row_angles(w, after), "norm": lengths, "cos": cos, "gradient": slopes}
    means = {name: float(root_mean_square(v)) for name, v in values.items()}
    return means if rows else means | {"cos": float(cos)}
