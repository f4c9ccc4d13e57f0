"""Beam search: what a decoder that attends says when nobody tells it what is right."""

import math
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .additive import Annotations


class Decoder(Protocol):
    """A net that says one unit after the other: :class:`lnlab.tasks.las.Speller`.

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
