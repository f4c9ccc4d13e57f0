r"""The speed at which weights turn: the learning rate that a scale-invariant weight really has.

Where the loss does not see the scale of w, L(c w) = L(w) for c > 0, it follows that

.. math:: w^\top \nabla L(w) = 0, \qquad \nabla L(c w) = \nabla L(w)/c,

so that only the direction of w counts, and a step of size eta turns it as one of size
:math:`\eta/\lVert w \rVert^2` would at length 1 (van Laarhoven 2017, arXiv:1706.05350). Steps
at a right angle make w longer, weight decay makes it shorter, and where the two balance w
turns by an angle that depends on the optimizer alone: :func:`equilibrium`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lnlab.analysis.certificate import Grade
from lnlab.analysis.certify import certify
from lnlab.analysis.magnitudes import root_mean_square, vector_norm
from lnlab.analysis.module_copy import check_model, check_type
from lnlab.analysis.recorder import Listening

if TYPE_CHECKING:
    import pandas as pd


WHOLE, ROWS, NONE = "whole", "rows", "none"
"""The part of a parameter that may be re-scaled alone: all of it, any of its rows, nothing."""


def scale_invariant(module: nn.Module, x: Tensor, **settings: Any) -> dict[str, str]:
    """The weights of ``module`` whose scale it does not see, by name: "whole" or "rows".

    Found by trying (:func:`~lnlab.analysis.certify.certify`, columns 1 and 3, in training
    mode), not by names. An invariance that only the eps of a normalizer stands in the way of
    counts.

    Args:
        module: called as ``module(x)``; not touched.
        x: its input.
        settings: passed on to :func:`~lnlab.analysis.certify.certify`.

    Raises:
        ValueError: as certify.
    """
    found = certify(module, x, columns=(1, 3), dtypes=(torch.float64,), **settings)
    mode = "train" if any(v.mode == "train" for v in found.invariances) else "evaluation"
    # column 1 of Table 1 re-scales all of a weight, column 3 one of its rows
    holds = {
        (v.where, v.column)
        for v in found.invariances
        if v.mode == mode and (v.grade is Grade.EXACT or v.exact_without == "eps")
    }
    names = dict.fromkeys(v.where for v in found.invariances)
    return {n: ROWS if (n, 3) in holds else WHOLE for n in names if (n, 1) in holds}


def equilibrium(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> float:
    r"""The angle (radians) by which a scale-invariant weight turns in a step, in the long run.

    Kosson et al. (2023, arXiv:2305.17212), with learning rate eta and weight decay lambda: SGD
    :math:`\sqrt{2\eta\lambda}`, with momentum :math:`\sqrt{2\eta\lambda/(1+\mu)}`, AdamW
    :math:`\sqrt{2\eta\lambda(1-\beta_1)/(1+\beta_1)}`, where gradients are mostly noise. NaN
    without weight decay, when there is none, and where no such law is known to us.
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


def angle(w: Tensor, moved: Tensor) -> Tensor:
    """The angle in radians between rows of ``w`` and of ``moved`` (..., D), however small."""
    w, moved = (v / vector_norm(v, -1, keepdim=True) for v in (w.double(), moved.double()))
    # the arc cosine of what is nearly 1 has lost half of its digits
    return 2 * torch.atan2((w - moved).norm(dim=-1), (w + moved).norm(dim=-1))


class Turning(Listening):
    """Listens to the steps of an optimizer: how far each one turns each parameter.

        with Turning(model, optimizer, scale_invariant(model, x)) as seen:
            ...train...
        seen.frame()

    Gains, biases and the last layer are listened to as well: what is not scale-invariant
    follows no such law. Parameters, gradients and steps stay as they are.

    Args:
        model: whose parameters they are; gives them their names.
        optimizer: one whose ``step`` is given no closure.
        invariant: what :func:`scale_invariant` found.
        names: the parameters to listen to; None: all that are trained.
        every: steps from one measurement to the next.

    Raises:
        ValueError: for names that do not exist, an optimizer that has none of them, or every
            too small.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        invariant: Mapping[str, str],
        *,
        names: Collection[str] | None = None,
        every: int = 1,
    ) -> None:
        check_model(model)
        check_type("optimizer", optimizer, torch.optim.Optimizer, "one of torch.optim")
        own = dict(model.named_parameters())
        if not isinstance(invariant, Mapping):
            raise ValueError(
                f"invariant is a {type(invariant).__name__}: give what scale_invariant found, "
                "kinds by name."
            )
        if missing := {*(names or ()), *invariant} - own.keys():
            raise ValueError(
                f"no parameter is called {sorted(missing)}: there are {list(own)}."
            )
        if every < 1:
            raise ValueError(f"every is {every}: give at least 1.")
        self.optimizer, self.every, self.step = optimizer, every, 0
        self.invariant = {name: invariant.get(name, NONE) for name in own}
        groups = {p: group for group in optimizer.param_groups for p in group["params"]}
        self._parts = {
            name: (p, groups[p])
            for name, p in own.items()
            if p in groups and (names is None or name in names)
        }
        if not self._parts:
            raise ValueError("the optimizer moves none of these parameters of the model.")
        self._rows: list[dict[str, Any]] = []
        self._before: dict[str, Tensor] = {}
        super().__init__()

    def _hook(self) -> Iterator[Any]:
        self._before.clear()  # of a step that an error ended
        yield self.optimizer.register_step_pre_hook(self._remember)
        yield self.optimizer.register_step_post_hook(self._compare)

    def _remember(self, *_: Any) -> None:
        self.step += 1
        if self.step % self.every == 0:
            moving = {n: p for n, (p, _) in self._parts.items() if p.grad is not None}
            self._before = {n: p.detach().clone() for n, p in moving.items()}

    def _compare(self, *_: Any) -> None:
        for name, before in self._before.items():
            p, group = self._parts[name]
            assert p.grad is not None
            head = {"step": self.step, "name": name, "invariant": self.invariant[name]}
            rate = {"rate": float(group["lr"])}
            expected = {"expected": equilibrium(self.optimizer, group)}
            turn = turned(before, p, p.grad, rows=self.invariant[name] == ROWS)
            # a step of eta turns w as one of eta / ||w||² turns w / ||w||
            turn["effective"] = rate["rate"] / turn["norm"] ** 2 if turn["norm"] else torch.inf
            self._rows.append(head | rate | turn | expected)
        self._before.clear()

    def frame(self) -> "pd.DataFrame":
        """A row for each step and parameter.

        Columns step, name, invariant ("whole", "rows" or "none"), rate (eta), angle (radians,
        of this step), norm (||w|| before it), cos (of w and its gradient), gradient (its
        norm), effective (eta/||w||²) and expected, the angle of :func:`equilibrium`. Where
        rows are invariant these are of one row, a root mean square over all of them.

        Raises:
            ValueError: if there is nothing to show.
        """
        import pandas as pd

        if not self._rows:
            raise ValueError(
                f"the optimizer made fewer than {self.every} steps: nothing is seen."
            )
        return pd.DataFrame(self._rows)


@torch.no_grad()
def turned(w: Tensor, moved: Tensor, gradient: Tensor, *, rows: bool) -> dict[str, float]:
    """Angle, norm, cos(w, gradient) and norm of the gradient, a root mean square over rows.

    Angle and cos are NaN where a length is 0, as that of biases at their start. Where all of w
    is one row, cos has a sign: below 0 a step of plain descent lengthens w.

    Args:
        w: a parameter of any shape.
        moved: the same after a step.
        gradient: its gradient before that step.
        rows: whether each of its rows is looked at by itself; else all of it is one row.
    """
    w, moved, gradient = (
        v.double().flatten(1) if rows else v.double().reshape(1, -1)
        for v in (w, moved, gradient)
    )
    lengths, slopes = vector_norm(w, 1), vector_norm(gradient, 1)
    # w · grad L(w) = 0 where no scale of w is seen: cos tells how nearly that is so
    cos = (w / lengths[:, None] * (gradient / slopes[:, None])).sum(1)
    found = {"angle": angle(w, moved), "norm": lengths, "cos": cos, "gradient": slopes}
    means = {name: float(root_mean_square(v)) for name, v in found.items()}
    return means if rows else means | {"cos": float(cos)}
