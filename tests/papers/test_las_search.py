"""Search: the best of all hypotheses, alone as together; attention beside an alignment."""

import math
from itertools import product
from typing import NamedTuple

import pytest
import torch

from lnlab.nn import Annotations
from lnlab.papers.las import Experiment
from lnlab.papers.las.model import Speller
from lnlab.papers.las.search import (
    attention_entropy,
    attention_monotonicity,
    attention_share_in_segments,
    beam_search,
)

H, V = 4, 6


def make_speller(T=6):
    speller = Speller(Experiment(norm="none", units=(H, 8)), V)
    h = torch.randn(3, T, 2 * H)
    return speller, speller.attention.annotate(h, torch.tensor([T, 4, 1]))


def pick(annotations, index):
    return type(annotations)(*(v[index : index + 1] for v in annotations))


@torch.no_grad()
def test_a_wide_search_finds_the_best_of_all():
    speller, annotations = make_speller()
    speller.readout.W.mul_(4)
    end, max_length = V - 1, 3
    every = [u for n in range(max_length) for u in product(range(end), repeat=n)]
    best = beam_search(speller, annotations, end, width=V**3, max_length=max_length)
    assert len(best) == 3
    for index, hypothesis in enumerate(best):
        scores = {}
        for units in every:  # the log probability of a whole hypothesis, by teacher forcing
            y = torch.tensor([[*units, end]])
            log_p = speller(pick(annotations, index), y)[0].log_softmax(-1)
            scores[units] = float(log_p.gather(2, y[..., None]).sum()) / y.shape[1]
        assert hypothesis.has_end_symbol
        assert tuple(hypothesis.units) == max(scores, key=scores.get)
        assert hypothesis.log_p_per_unit == pytest.approx(scores[tuple(hypothesis.units)])
        assert hypothesis.alpha_per_unit.shape == (len(hypothesis.units) + 1, 6)


def test_batched_search_is_that_of_each_alone_and_may_be_cut():
    speller, annotations = make_speller()
    together = beam_search(speller, annotations, V - 1, width=4, max_length=8)
    for index, hypothesis in enumerate(together):
        one = pick(annotations, index)
        (alone,) = beam_search(speller, one, V - 1, width=4, max_length=8)
        assert alone.units == hypothesis.units
        assert alone.log_p_per_unit == pytest.approx(hypothesis.log_p_per_unit)
    with torch.no_grad():
        speller.readout.b_inside[V - 1] = -1e9
    for hypothesis in beam_search(speller, annotations, V - 1, width=3, max_length=7):
        assert not hypothesis.has_end_symbol
        assert len(hypothesis.units) == 7


class State(NamedTuple):
    alpha: torch.Tensor

    def select_examples(self, rows):
        return State(self.alpha[rows])


class Countdown:
    """Gives 0 as often as the first annotation says, then the end; NaN for the first of 1."""

    vocabulary = 2

    def __init__(self, faulty):
        self.faulty, self.batches = faulty, []

    def initial_state(self, annotations):
        return State(annotations.h[..., 0])

    def step(self, last, memory, annotations, u):
        self.batches.append(len(last))
        over = annotations.h[:, 0, 0] <= u
        logits = torch.stack([~over, over], 1) * 9.0
        if self.faulty:
            logits[annotations.h[:, 0, 0] == 1] = torch.nan
        return logits, State(annotations.h[..., 0])


@pytest.mark.parametrize("faulty", [False, True])
def test_utterances_that_have_ended_are_left_out_and_keep_their_place(faulty):
    h = torch.tensor([5, 1, 9, 2]).view(4, 1, 1).double()
    annotations, decoder = Annotations(h, h, h[..., 0] > 0), Countdown(faulty)
    best = beam_search(decoder, annotations, 1, max_length=6)
    assert [len(hypothesis.units) for hypothesis in best] == [5, 0 if faulty else 1, 6, 2]
    assert [hypothesis.has_end_symbol for hypothesis in best] == [True, not faulty, False, True]
    if faulty:  # its scores are no numbers
        assert math.isnan(best[1].log_p_per_unit)
    else:
        assert decoder.batches == [4, 4, 4, 2, 2, 2]  # one of four waits for another
        assert [hypothesis.alpha_per_unit[0].item() for hypothesis in best] == [5, 1, 9, 2]


def test_attention_is_measured_beside_an_alignment():
    alpha = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75]])
    shares = attention_share_in_segments(alpha, 0.1, [0.04, 0.24], [0.1, 0.36])
    # 0.00 to 0.14 holds a whole step and 0.4 of the next; 0.20 to 0.40 the last two
    torch.testing.assert_close(shares, torch.tensor([0.5 + 0.4 * 0.5, 1.0]))
    for rows, expected in (
        ([0, 1, 2, 3], 1),
        ([3, 2, 1, 0], 0),
        ([0, 1, 1, 2], 1),
        ([1, 1, 0], 0.5),
    ):
        assert attention_monotonicity(torch.eye(4)[rows]) == expected
    assert not attention_entropy(torch.eye(4)).any()
    entropy = attention_entropy(torch.full((2, 4), 0.25))
    torch.testing.assert_close(entropy, torch.full((2,), 4.0).log())
