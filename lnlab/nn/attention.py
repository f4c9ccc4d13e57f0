"""Additive attention: a small net scores every step of what is attended to."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from lnlab.nn.linear import Linear, Norm
from lnlab.nn.normalizer import Identity
from lnlab.nn.padding import places, within


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
        # only steps that are no padding reach the normalizer, whose statistics over cases would
        # otherwise take padding for cases
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
        # e_t = v · tanh(W_s s + W_h h_t + b): W_h h_t does not depend on s and is computed once
        summed = annotations.keys + self.query(s).unsqueeze(1)
        if self.kernels is not None and self.place is not None:
            # Chorowski et al. (2015): where it looked last, filtered, helps to look further
            summed = summed + self.place(self.kernels(last.unsqueeze(1)).transpose(1, 2))
        e = self.v(torch.tanh(summed)).squeeze(-1)
        # exp(-inf) = 0: padding has no weight, and the others still sum to 1
        alpha = e.masked_fill(~annotations.inside, -torch.inf).softmax(-1)
        return torch.bmm(alpha.unsqueeze(1), annotations.h).squeeze(1), alpha


# The fit of an attention with the truth: where each unit began and ended.


TOLERANCE = 0.04
"""Seconds beside a unit that still count as inside it."""


Times = Sequence[float] | np.ndarray


def mass(alpha: Tensor, step: float, begins: Times, ends: Times) -> Tensor:
    """The part of the attention at each unit that lies in that unit, within 40 ms (U,).

    Args:
        alpha: (U, T), a distribution over steps at each unit; the end symbol left out.
        step: seconds of one step; step t lasts from t to t + 1 times that.
        begins: seconds at which each unit begins (U,).
        ends: likewise.

    Raises:
        ValueError: where there are not as many units as rows.
    """
    if not len(alpha) == len(begins) == len(ends):
        raise ValueError(
            f"there are {len(alpha)} rows, {len(begins)} begins and {len(ends)} ends: give one "
            "of each for every unit."
        )
    low = torch.as_tensor(np.asarray(begins)).to(alpha)[:, None] - TOLERANCE
    high = torch.as_tensor(np.asarray(ends)).to(alpha)[:, None] + TOLERANCE
    left = step * torch.arange(alpha.shape[1]).to(alpha)
    # of a step that lies partly inside, that part
    part = (torch.minimum(high, left + step) - torch.maximum(low, left)).clamp(min=0) / step
    return (alpha * part).sum(-1)


def monotonicity(alpha: Tensor) -> float:
    """The fraction of units that are not attended before the one before them.

    1 for a single unit.

    Args:
        alpha: attention (U, T) of the units over time.
    """
    place = (alpha * torch.arange(alpha.shape[1]).to(alpha)).sum(-1)
    forward = place.diff() >= 0
    return float(forward.double().mean()) if len(forward) else 1.0


def entropy(alpha: Tensor) -> Tensor:
    """The entropy of the attention at each unit, in nats (U,): 0 is a single step."""
    return -torch.special.xlogy(alpha, alpha).sum(-1)


# Beam search: what a decoder that attends says when nobody tells it what is right.


class Decoder(Protocol):
    """A net that says one unit after the other: :class:`lnlab.papers.las.Speller`.

    Its memory, handed from step to step, has ``alpha`` (B, T), where it last looked, and
    ``pick(rows)``, the memory of some cases of the batch.
    """

    vocabulary: int

    def start(self, heard: Annotations) -> Any:
        """The memory before anything has been said, for each of the B cases."""
        ...

    def step(self, last: Tensor, memory: Any, heard: Annotations, u: int) -> tuple[Tensor, Any]:
        """Logits (B, V) of unit number u after the unit ``last`` (B,), and the memory then."""
        ...


class Hypothesis(NamedTuple):
    """A hypothesis.

    Attributes:
        units: numbers of what is said, without the end symbol.
        score: its log probability over its length to the power of the penalty.
        alpha: where the decoder looked at each unit and at the end symbol (U, T).
        ended: whether it came to an end by itself.
    """

    units: list[int]
    score: float
    alpha: Tensor
    ended: bool


MANY = 0.75
"""The part of the utterances that, once fewer go on, are picked out: picking copies them."""


@torch.no_grad()
def search(
    decoder: Decoder,
    heard: Annotations,
    end: int,
    *,
    width: int = 1,
    longest: int = 100,
    penalty: float = 1.0,
) -> list[Hypothesis]:
    """The best hypothesis for each utterance; with a width of 1 the greedy one.

    All utterances and beginnings are computed together, those that came to an end left out now
    and then. A beginning that has not ended after
    ``longest`` units is cut there, and says so; ended ones are preferred to it. Where no score
    is a number, nothing is said, and its score is NaN.

    Args:
        decoder: what says the units; as many as ``vocabulary``, which is also the number of
            what it is told before the first.
        heard: what it attends to.
        end: the number of the end symbol.
        width: how many beginnings of each utterance are kept.
        penalty: exponent of the length by which log probabilities are divided.

    Raises:
        ValueError: for a width or a length below 1.
    """
    if width < 1 or longest < 1:
        raise ValueError(f"width is {width}, longest {longest}: give at least 1.")
    B = len(heard.h)
    wide = heard.repeat(width)
    memory = decoder.start(wide)
    last = torch.full((B * width,), decoder.vocabulary, device=wide.h.device)
    # at first all beginnings of an utterance are the same one: only one may go on
    total = torch.full((B, width), -torch.inf, dtype=wide.h.dtype, device=wide.h.device)
    total[:, 0] = 0.0
    units = last.new_empty(B * width, 0)
    alpha = wide.h.new_empty(B * width, 0, wide.h.shape[1])
    best: list[Hypothesis | None] = [None] * B
    cases = list(range(B))  # those that go on
    for u in range(longest):
        logits, memory = decoder.step(last, memory, wide, u)
        V = logits.shape[1]
        # log p of a sequence is the sum of log p(unit | those before): the best of width * V
        # continuations are kept, whichever beginning they continue
        scores = total.unsqueeze(-1) + logits.log_softmax(-1).view(-1, width, V)
        total, chosen = scores.flatten(1).topk(width)  # (B, width)
        firsts = width * torch.arange(len(cases), device=chosen.device)[:, None]
        rows = (chosen // V + firsts).flatten()
        last = (chosen % V).flatten()
        memory = memory.pick(rows)
        units = torch.cat([units[rows], last[:, None]], dim=1)
        alpha = torch.cat([alpha[rows], memory.alpha[:, None]], dim=1)
        final = u == longest - 1
        ending = last.view(-1, width) == end
        for slot, place in (ending | final).nonzero().tolist():
            value = float(total[slot, place])
            if not math.isfinite(value):
                continue
            ended = bool(ending[slot, place])
            case, row = cases[slot], slot * width + place
            said = Hypothesis(
                units[row, : u if ended else u + 1].tolist(),
                # without it the shortest would win, as every unit makes log p smaller
                value / (u + 1) ** penalty,
                alpha[row],
                ended,
            )
            best[case] = better(best[case], said)
        total = total.masked_fill(ending, -torch.inf)
        going = total.isfinite().any(1)
        count = int(going.sum())
        if not count:
            break
        if count < MANY * len(cases):
            rows = going.repeat_interleave(width).nonzero().squeeze(1)
            wide, memory = wide.pick(rows), memory.pick(rows)
            total, last, units, alpha = total[going], last[rows], units[rows], alpha[rows]
            cases = [case for case, on in zip(cases, going.tolist(), strict=True) if on]
    nothing = Hypothesis([], math.nan, heard.h.new_empty(0, heard.h.shape[1]), False)
    return [said or nothing for said in best]


def better(one: Hypothesis | None, other: Hypothesis) -> Hypothesis:
    """The better of two hypotheses: one that ended before one that did not, then by score."""
    if one is None or (other.ended, other.score) > (one.ended, one.score):
        return other
    return one
