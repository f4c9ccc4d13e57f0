"""Additive attention: Bahdanau et al. (2015), and by location, Chorowski et al. (2015)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.nn.linear import Linear, NormLayer
from lnlab.nn.normalizer import Identity
from lnlab.nn.padding import flat_true_indices, length_mask


class Annotations(NamedTuple):
    """The encoded inputs of a batch, to be attended to (Bahdanau et al., 2015)."""

    h: Tensor  # what is attended to (B, T, H)
    keys: Tensor  # W_h h, computed once (B, T, A)
    valid_mask: Tensor  # True for steps that are no padding (B, T)

    def repeat_each_example(self, times: int) -> "Annotations":
        """Repeat each example ``times`` times, one after the other."""
        return Annotations(*(v.repeat_interleave(times, 0) for v in self))

    def select_examples(self, rows: Tensor) -> "Annotations":
        """Return the annotations of some examples, ``rows`` (N,)."""
        return Annotations(*(v[rows] for v in self))


class Attention(nn.Module):
    r"""Additive attention: e_t = v^T tanh(W_s s + W_h h_t + b), alpha = softmax(e).

    The source is Bahdanau et al. (2015). With ``location`` the attention depends on its last
    weights as well: W_f f_t is added, where f are the last alpha, filtered by ``location``
    kernels (Chorowski et al., 2015). Padding gets the weight 0.

    Args:
        query_size: the size of s.
        annotation_size: the size of h_t.
        attention_size: the number of units of the tanh.
        location: the number of kernels for location-aware attention; 0 leaves it out.
        width: the number of time steps that a kernel covers; an odd number.
        norm_layer: returns the normalizers of W_s s and of W_h h. Their statistics leave out
            padding.

    Examples:
        >>> attention = lnlab.nn.Attention(16, 8, 12)
        >>> h = torch.randn(4, 10, 8)  # 4 sequences of 10 steps
        >>> annotations = attention.annotate(h, torch.tensor([10, 10, 7, 4]))
        >>> context, alpha = attention(torch.randn(4, 16), annotations, torch.zeros(4, 10))
    """

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        attention_size: int,
        *,
        location: int = 0,
        width: int = 15,
        norm_layer: NormLayer = Identity,
    ) -> None:
        super().__init__()
        if width % 2 == 0:
            raise ValueError(f"width is {width}: give an odd number of steps.")
        self.query = Linear(query_size, attention_size, norm_layer, bias=True)
        self.key = Linear(annotation_size, attention_size, norm_layer)
        self.v = Linear(attention_size, 1, Identity)
        self.kernels = self.place = None
        if location:
            with torch.random.fork_rng(devices=[]):  # later draws are as without location
                self.kernels = nn.Conv1d(1, location, width, padding=width // 2, bias=False)
                self.place = Linear(location, attention_size, Identity)

    def annotate(self, h: Tensor, lengths: Tensor) -> Annotations:
        """Encode h (B, T, H), whose first ``lengths`` (B,) steps are no padding."""
        valid_mask = length_mask(lengths, h.shape[1], h.device)
        if isinstance(self.key.norm, Identity):
            return Annotations(h, self.key(h), valid_mask)
        # only steps that are no padding reach the normalizer, whose statistics over examples
        # would otherwise include padding
        steps = flat_true_indices(length_mask(lengths, h.shape[1]), h.device)
        keys = self.key(h.flatten(0, 1)[steps])
        empty = keys.new_zeros(valid_mask.numel(), keys.shape[1])
        return Annotations(
            h, empty.index_copy(0, steps, keys).view(*valid_mask.shape, -1), valid_mask
        )

    def forward(
        self, s: Tensor, annotations: Annotations, previous_alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the context (B, H) and alpha (B, T) of a query s (B, S).

        ``previous_alpha`` (B, T) is the alpha of the step before.
        """
        # e_t = v · tanh(W_s s + W_h h_t + b): W_h h_t does not depend on s and is computed once
        a = annotations.keys + self.query(s).unsqueeze(1)
        if self.kernels is not None and self.place is not None:
            # Chorowski et al. (2015): the last alpha, filtered, helps to move on from there
            a = a + self.place(self.kernels(previous_alpha.unsqueeze(1)).transpose(1, 2))
        e = self.v(torch.tanh(a)).squeeze(-1)
        # exp(-inf) = 0: padding has no weight, and the others still sum to 1
        alpha = e.masked_fill(~annotations.valid_mask, -torch.inf).softmax(-1)
        return torch.bmm(alpha.unsqueeze(1), annotations.h).squeeze(1), alpha
