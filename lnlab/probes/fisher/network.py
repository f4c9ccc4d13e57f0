"""The Fisher metric of any network, by products with vectors.

Ba et al. (2016), eq. 8: a small step delta of the parameters changes the distribution of the
outputs by D_KL = 1/2 delta^T F delta. Read from right to left this is a definition of F, as the
Hessian of the divergence where it is 0, and so eq. 9 needs no sampling: the labels of the data
play no part in it (with them it would be the "empirical Fisher", which is another matrix).
"""

from collections.abc import Callable, Collection

import torch
from torch import Tensor, nn

from lnlab.nn.table1 import Statistics
from lnlab.probes.fisher.families import CATEGORICAL, Family
from lnlab.probes.loss.objective import Objective
from lnlab.probes.loss.parameters import single_at_least
from lnlab.probes.refusals import refuse_no_module, refuse_other
from lnlab.probes.returned import first_tensor
from lnlab.probes.subject import Read, Subject


class Divergence(Objective):
    """D_KL[P(y | x; theta) || P(y | x; w)] in nats, a mean over the cases x, at any w (P,).

    theta is what the module has. The output of a case is the natural parameters h of its
    distribution, units along the last axis, and over further axes (time) divergences add up.

    Args:
        module: called as ``module(x)``.
        x: its input, cases along the first axis: P(x).
        family: the distribution of y that the outputs stand for; logits are CATEGORICAL's.
        statistics: where statistics over cases come from: BATCH or FROZEN.
        names: the parameters that may move; None: all that are trained.
        dtype: the precision; None: that of the module, float32 at least.
        read: from what the module returns to h.

    Raises:
        ValueError: as :class:`~lnlab.probes.loss.objective.Objective`, and for RECOMPUTED
            statistics, which the derivative would take as constants.
    """

    def __init__(
        self,
        module: nn.Module,
        x: Tensor,
        family: Family = CATEGORICAL,
        *,
        statistics: Statistics | str,
        names: Collection[str] | None = None,
        dtype: torch.dtype | None = None,
        read: Read = first_tensor,
    ) -> None:
        statistics = Statistics(statistics)
        refuse_no_module(module)
        dtype = dtype or single_at_least(module)
        refuse_other("family", family, Family, "CATEGORICAL or another of its file")
        if statistics is Statistics.RECOMPUTED:
            raise ValueError(
                "statistics are RECOMPUTED, whose dependence on w has no derivative here: give "
                "BATCH, which are those of x too, or FROZEN."
            )
        # h stays that of theta while w moves: at w = theta the divergence is 0 and so is its
        # gradient, and what is left of second order is F (eq. 9)
        h = Subject(module, x, dtype=dtype, statistics=statistics, read=read).see().y

        def divergence(output: object, h: Tensor) -> Tensor:
            return family.kl(h, read(output)).sum() / len(h)  # E over P(x); time adds up

        given = {"statistics": statistics, "names": names, "dtype": dtype}
        super().__init__(module, x, h, divergence, **given)

    def fisher_product(self) -> Callable[[Tensor], Tensor]:
        """The map v to F v, eq. 9, of v (P,) or several as (P, K)."""
        # The Hessian of the divergence at w = theta is Jᵀ Cov[y]/phi² J and a sum over the
        # second derivatives of h, each times eta'(h) - E[y] = 0: it is F itself, not an
        # approximation.
        return self.hessian_product()

    def predicted(self, delta: Tensor) -> float:
        """Eq. 8: 1/2 delta^T F delta in nats, of a step delta (P,).

        Raises:
            ValueError: for a step of another length.
        """
        return float(delta @ self.fisher_product()(self._step(delta)) / 2)

    def happened(self, delta: Tensor) -> float:
        """The divergence in nats that a step delta (P,) makes.

        Raises:
            ValueError: for a step of another length.
        """
        return self.value(self.start + self._step(delta))

    def _step(self, delta: Tensor) -> Tensor:
        self.refuse("delta", delta)
        return delta

    def dense(self) -> Tensor:
        """F (P, P), a product for each parameter: of small nets."""
        # F times each unit vector is a column of F
        return self.fisher_product()(torch.eye(len(self.start)).to(self.start))
