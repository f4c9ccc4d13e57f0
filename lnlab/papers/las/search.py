"""Beam search with a speller, and how well its attention fits an alignment."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.nn import Annotations
from lnlab.papers.las.model import Speller


class Hypothesis(NamedTuple):
    """A hypothesis of the beam search."""

    units: list[int]  # the indices of its units, without the end symbol
    log_p_per_unit: float  # its log probability divided by its length, the end symbol included
    alpha_per_unit: Tensor  # the attention at each, and at the end symbol (U, T)
    has_end_symbol: bool  # whether it has the end symbol


BestHypothesisPerUtterance = list[Hypothesis]

COMPACT_BELOW = 0.75
"""Share of active utterances below which the others are dropped, which copies all tensors."""


@torch.no_grad()
def beam_search(
    decoder: Speller,
    annotations: Annotations,
    end_unit: int,
    *,
    width: int = 1,
    max_length: int = 100,
) -> BestHypothesisPerUtterance:
    """Return the best hypothesis for each utterance; with a width of 1 the greedy one.

    All utterances and prefixes are computed together. A prefix without the end symbol after
    ``max_length`` units is cut there and marked; ended ones are preferred to it. If no score is
    finite, the hypothesis is empty and its score NaN.

    ``end_unit`` is the index of the end symbol, ``width`` the number of prefixes that are kept
    for each utterance.
    """
    B = len(annotations.h)
    beams = annotations.repeat_each_example(width)
    state = decoder.initial_state(beams)
    last = torch.full((B * width,), decoder.vocabulary, device=beams.h.device)
    # at first all prefixes of an utterance are the same one: only one may go on
    total = torch.full((B, width), -torch.inf, dtype=beams.h.dtype, device=beams.h.device)
    total[:, 0] = 0.0
    units = last.new_empty(B * width, 0)
    alpha = beams.h.new_empty(B * width, 0, beams.h.shape[1])
    best: list[Hypothesis | None] = [None] * B
    active = list(range(B))  # the utterances that go on
    for u in range(max_length):
        logits, state = decoder.step(last, state, beams, u)
        V = logits.shape[1]
        # log p of a sequence is the sum of log p(unit | those before): the best of width * V
        # continuations are kept, whichever prefix they continue
        scores = total.unsqueeze(-1) + logits.log_softmax(-1).view(-1, width, V)
        total, chosen = scores.flatten(1).topk(width)  # (B, width)
        firsts = width * torch.arange(len(active), device=chosen.device)[:, None]
        rows = (chosen // V + firsts).flatten()
        last = (chosen % V).flatten()
        state = state.select_examples(rows)
        units = torch.cat([units[rows], last[:, None]], dim=1)
        alpha = torch.cat([alpha[rows], state.alpha[:, None]], dim=1)
        final = u == max_length - 1
        ending = last.view(-1, width) == end_unit
        for slot, beam in (ending | final).nonzero().tolist():
            value = float(total[slot, beam])
            if not math.isfinite(value):
                continue
            ended = bool(ending[slot, beam])
            utterance, row = active[slot], slot * width + beam
            hypothesis = Hypothesis(
                units[row, : u if ended else u + 1].tolist(),
                # without it the shortest would win, as every unit makes log p smaller
                value / (u + 1),
                alpha[row],
                ended,
            )
            known = best[utterance]
            if known is None or (ended, hypothesis.log_p_per_unit) > (
                known.has_end_symbol,
                known.log_p_per_unit,
            ):
                best[utterance] = hypothesis
        total = total.masked_fill(ending, -torch.inf)
        going = total.isfinite().any(1)
        count = int(going.sum())
        if not count:
            break
        if count < COMPACT_BELOW * len(active):
            rows = going.repeat_interleave(width).nonzero().squeeze(1)
            beams, state = beams.select_examples(rows), state.select_examples(rows)
            total, last, units, alpha = total[going], last[rows], units[rows], alpha[rows]
            active = [i for i, on in zip(active, going.tolist(), strict=True) if on]
    empty = Hypothesis([], math.nan, annotations.h.new_empty(0, annotations.h.shape[1]), False)
    return [hypothesis or empty for hypothesis in best]


TOLERANCE = 0.04
"""Seconds before and after a unit that count as inside it."""


Times = Sequence[float] | np.ndarray


def attention_share_in_segments(
    alpha: Tensor, seconds_per_step: float, begins: Times, ends: Times
) -> Tensor:
    """Return the share of each unit's attention on its own segment, give or take 40 ms (U,).

    ``alpha`` (U, T) is a distribution over steps for each unit, without the end symbol; step t
    begins at t * ``seconds_per_step``, and a unit lasts from ``begins`` to ``ends`` (U,), in
    seconds.
    """
    low = torch.as_tensor(np.asarray(begins)).to(alpha)[:, None] - TOLERANCE
    high = torch.as_tensor(np.asarray(ends)).to(alpha)[:, None] + TOLERANCE
    left = seconds_per_step * torch.arange(alpha.shape[1]).to(alpha)
    # a step that lies partly inside counts in part
    overlap = (torch.minimum(high, left + seconds_per_step) - torch.maximum(low, left)).clamp(
        min=0
    ) / seconds_per_step
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
