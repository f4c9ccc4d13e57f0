"""Additive attention, its fit with an alignment, and beam search with a decoder."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from lnlab.nn.linear import Linear, NormLayer
from lnlab.nn.normalizer import Identity
from lnlab.nn.padding import length_mask, true_indices


class Annotations(NamedTuple):
    """The encoded inputs of a batch, to be attended to (Bahdanau et al., 2015)."""

    h: Tensor  # what is attended to (B, T, H)
    keys: Tensor  # W_h h, computed once (B, T, A)
    inside: Tensor  # True for steps that are no padding (B, T)

    def repeat(self, times: int) -> "Annotations":
        """Repeat each example ``times`` times, one after the other."""
        return Annotations(*(v.repeat_interleave(times, 0) for v in self))

    def pick(self, rows: Tensor) -> "Annotations":
        """Return the annotations of some examples, ``rows`` (N,)."""
        return Annotations(*(v[rows] for v in self))


class Attention(nn.Module):
    r"""Additive attention: e_t = v^T tanh(W_s s + W_h h_t + b), alpha = softmax(e).

    Bahdanau et al. (2015). With ``location``, Chorowski et al. (2015): W_f f_t is added, where
    f is the last alpha, filtered by ``location`` kernels. Padding has the weight 0.

    Args:
        query_size: the size of s.
        annotation_size: the size of h.
        attention_size: A.
        location: the number of kernels; 0 is content alone.
        width: the number of steps that a kernel covers; odd.
        norm_layer: makes the normalizers of W_s s and W_h h; no statistic includes padding.

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
        inside = length_mask(lengths, h.shape[1], h.device)
        if isinstance(self.key.norm, Identity):
            return Annotations(h, self.key(h), inside)
        # only steps that are no padding reach the normalizer, whose statistics over examples
        # would otherwise include padding
        steps = true_indices(length_mask(lengths, h.shape[1]), h.device)
        keys = self.key(h.flatten(0, 1)[steps])
        empty = keys.new_zeros(inside.numel(), keys.shape[1])
        return Annotations(h, empty.index_copy(0, steps, keys).view(*inside.shape, -1), inside)

    def forward(
        self, s: Tensor, annotations: Annotations, last: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the context (B, H) and alpha (B, T) of a query s (B, S).

        ``last`` (B, T) is the alpha of the step before.
        """
        # e_t = v · tanh(W_s s + W_h h_t + b): W_h h_t does not depend on s and is computed once
        a = annotations.keys + self.query(s).unsqueeze(1)
        if self.kernels is not None and self.place is not None:
            # Chorowski et al. (2015): the last alpha, filtered, helps to move on from there
            a = a + self.place(self.kernels(last.unsqueeze(1)).transpose(1, 2))
        e = self.v(torch.tanh(a)).squeeze(-1)
        # exp(-inf) = 0: padding has no weight, and the others still sum to 1
        alpha = e.masked_fill(~annotations.inside, -torch.inf).softmax(-1)
        return torch.bmm(alpha.unsqueeze(1), annotations.h).squeeze(1), alpha


TOLERANCE = 0.04
"""Seconds before and after a unit that count as inside it."""


Times = Sequence[float] | np.ndarray


def attention_in_segments(alpha: Tensor, step: float, begins: Times, ends: Times) -> Tensor:
    """Return the share of each unit's attention on its own segment, give or take 40 ms (U,).

    ``alpha`` (U, T) is a distribution over steps for each unit, without the end symbol; step t
    lasts ``step`` seconds from t * step, and a unit from ``begins`` to ``ends`` (U,), seconds.
    """
    if not len(alpha) == len(begins) == len(ends):
        raise ValueError(
            f"there are {len(alpha)} rows, {len(begins)} begins and {len(ends)} ends: give one "
            "of each for every unit."
        )
    low = torch.as_tensor(np.asarray(begins)).to(alpha)[:, None] - TOLERANCE
    high = torch.as_tensor(np.asarray(ends)).to(alpha)[:, None] + TOLERANCE
    left = step * torch.arange(alpha.shape[1]).to(alpha)
    # a step that lies partly inside counts in part
    overlap = (torch.minimum(high, left + step) - torch.maximum(low, left)).clamp(min=0) / step
    return (alpha * overlap).sum(-1)


def attention_monotonicity(alpha: Tensor) -> float:
    """Return the share of units (U, T) whose mean attention is not before the last unit's.

    1 for a single unit.
    """
    mean_step = (alpha * torch.arange(alpha.shape[1]).to(alpha)).sum(-1)
    forward = mean_step.diff() >= 0
    return float(forward.double().mean()) if len(forward) else 1.0


def attention_entropy(alpha: Tensor) -> Tensor:
    """Return the entropy of attention (U, T) for each unit, in nats (U,)."""
    return -torch.special.xlogy(alpha, alpha).sum(-1)


class Decoder(Protocol):
    """A model that emits one unit after the other: :class:`lnlab.papers.las.Speller`.

    Its state has ``alpha`` (B, T), its last attention, and ``pick(rows)``, the state of some
    examples of the batch.
    """

    vocabulary: int

    def start(self, annotations: Annotations) -> Any:
        """Return the state before the first unit, for each of the B examples."""
        ...

    def step(
        self, last: Tensor, state: Any, annotations: Annotations, u: int
    ) -> tuple[Tensor, Any]:
        """Return logits (B, V) of unit number u after ``last`` (B,), and the next state."""
        ...


class Hypothesis(NamedTuple):
    """A hypothesis of the beam search."""

    units: list[int]  # the indices of its units, without the end symbol
    score: float  # its log probability divided by its length to the power of the penalty
    alpha: Tensor  # the attention at each unit and at the end symbol (U, T)
    ended: bool  # whether it has the end symbol


COMPACT_BELOW = 0.75
"""Share of active utterances below which the others are dropped, which copies all tensors."""


@torch.no_grad()
def beam_search(
    decoder: Decoder,
    annotations: Annotations,
    end: int,
    *,
    width: int = 1,
    longest: int = 100,
    penalty: float = 1.0,
) -> list[Hypothesis]:
    """Return the best hypothesis for each utterance; with a width of 1 the greedy one.

    All utterances and prefixes are computed together. A prefix without the end symbol after
    ``longest`` units is cut there and marked; ended ones are preferred to it. If no score is
    finite, the hypothesis is empty and its score NaN.

    Args:
        decoder: scores ``vocabulary`` units; its first input is that number itself.
        annotations: what it attends to.
        end: the index of the end symbol.
        width: the number of prefixes that are kept for each utterance.
        longest: the largest number of units.
        penalty: exponent of the length by which log probabilities are divided.
    """
    if width < 1 or longest < 1:
        raise ValueError(f"width is {width}, longest {longest}: give at least 1.")
    B = len(annotations.h)
    beams = annotations.repeat(width)
    state = decoder.start(beams)
    last = torch.full((B * width,), decoder.vocabulary, device=beams.h.device)
    # at first all prefixes of an utterance are the same one: only one may go on
    total = torch.full((B, width), -torch.inf, dtype=beams.h.dtype, device=beams.h.device)
    total[:, 0] = 0.0
    units = last.new_empty(B * width, 0)
    alpha = beams.h.new_empty(B * width, 0, beams.h.shape[1])
    best: list[Hypothesis | None] = [None] * B
    active = list(range(B))  # the utterances that go on
    for u in range(longest):
        logits, state = decoder.step(last, state, beams, u)
        V = logits.shape[1]
        # log p of a sequence is the sum of log p(unit | those before): the best of width * V
        # continuations are kept, whichever prefix they continue
        scores = total.unsqueeze(-1) + logits.log_softmax(-1).view(-1, width, V)
        total, chosen = scores.flatten(1).topk(width)  # (B, width)
        firsts = width * torch.arange(len(active), device=chosen.device)[:, None]
        rows = (chosen // V + firsts).flatten()
        last = (chosen % V).flatten()
        state = state.pick(rows)
        units = torch.cat([units[rows], last[:, None]], dim=1)
        alpha = torch.cat([alpha[rows], state.alpha[:, None]], dim=1)
        final = u == longest - 1
        ending = last.view(-1, width) == end
        for slot, beam in (ending | final).nonzero().tolist():
            value = float(total[slot, beam])
            if not math.isfinite(value):
                continue
            ended = bool(ending[slot, beam])
            utterance, row = active[slot], slot * width + beam
            hypothesis = Hypothesis(
                units[row, : u if ended else u + 1].tolist(),
                # without it the shortest would win, as every unit makes log p smaller
                value / (u + 1) ** penalty,
                alpha[row],
                ended,
            )
            known = best[utterance]
            if known is None or (ended, hypothesis.score) > (known.ended, known.score):
                best[utterance] = hypothesis
        total = total.masked_fill(ending, -torch.inf)
        going = total.isfinite().any(1)
        count = int(going.sum())
        if not count:
            break
        if count < COMPACT_BELOW * len(active):
            rows = going.repeat_interleave(width).nonzero().squeeze(1)
            beams, state = beams.pick(rows), state.pick(rows)
            total, last, units, alpha = total[going], last[rows], units[rows], alpha[rows]
            active = [i for i, on in zip(active, going.tolist(), strict=True) if on]
    empty = Hypothesis([], math.nan, annotations.h.new_empty(0, annotations.h.shape[1]), False)
    return [hypothesis or empty for hypothesis in best]
