"""Additive attention: a small net scores every step of what is attended to."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.norms import Identity, Linear, Norm
from lnlab.padding import places, within


class Annotations(NamedTuple):
    """The annotations of a batch, ready to be attended to (Bahdanau et al., 2015).

    Attributes:
        h: what is attended to (B, T, H).
        keys: W_h h, computed once (B, T, A).
        inside: which steps are no padding (B, T).
    """

    h: Tensor
    keys: Tensor
    inside: Tensor

    def repeat(self, times: int) -> "Annotations":
        """Each case ``times`` times, one after the other."""
        return Annotations(*(v.repeat_interleave(times, 0) for v in self))

    def pick(self, rows: Tensor) -> "Annotations":
        """The annotations of some cases, ``rows`` (N,)."""
        return Annotations(*(v[rows] for v in self))


class Attention(nn.Module):
    r"""Additive attention: e_t = v^T tanh(W_s s + W_h h_t + b), alpha = softmax(e).

    Bahdanau et al. (2015). With ``location``, Chorowski et al. (2015): W_f f_t is added, where
    f is the last alpha, filtered by ``location`` kernels. Padding has the weight 0.

    Args:
        queries: the size of s.
        annotations: the size of h.
        units: A.
        location: how many kernels; 0 is content alone.
        width: how many steps a kernel covers; odd.
        norm: makes what normalizes W_s s and W_h h; no statistic has padding in it.

    Raises:
        ValueError: for an even width.
    """

    def __init__(
        self,
        queries: int,
        annotations: int,
        units: int,
        *,
        location: int = 0,
        width: int = 15,
        norm: Norm = Identity,
    ) -> None:
        super().__init__()
        if width % 2 == 0:
            raise ValueError(f"width is {width}: give an odd number of steps.")
        self.query = Linear(queries, units, norm, bias_inside=True)
        self.key = Linear(annotations, units, norm)
        self.v = Linear(units, 1, Identity)
        self.kernels = self.place = None
        if location:
            with torch.random.fork_rng(devices=[]):  # what is drawn next is as without
                self.kernels = nn.Conv1d(1, location, width, padding=width // 2, bias=False)
                self.place = Linear(location, units, Identity)

    def annotate(self, h: Tensor, lengths: Tensor) -> Annotations:
        """The memory to attend to: h (B, T, H), whose first ``lengths`` (B,) steps count."""
        inside = within(lengths, h.shape[1], h.device)
        if isinstance(self.key.norm, Identity):
            return Annotations(h, self.key(h), inside)
        steps = places(within(lengths, h.shape[1]), h.device)
        keys = self.key(h.flatten(0, 1)[steps])
        none = keys.new_zeros(inside.numel(), keys.shape[1])
        return Annotations(h, none.index_copy(0, steps, keys).view(*inside.shape, -1), inside)

    def forward(
        self, s: Tensor, annotations: Annotations, last: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The context (B, H) and alpha (B, T) of a query s (B, S).

        ``last`` (B, T) is the alpha of the step before.
        """
        summed = annotations.keys + self.query(s).unsqueeze(1)
        if self.kernels is not None and self.place is not None:
            summed = summed + self.place(self.kernels(last.unsqueeze(1)).transpose(1, 2))
        e = self.v(torch.tanh(summed)).squeeze(-1)
        alpha = e.masked_fill(~annotations.inside, -torch.inf).softmax(-1)
        return torch.bmm(alpha.unsqueeze(1), annotations.h).squeeze(1), alpha
