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
    attention_in_segments,
    attention_monotonicity,
    beam_search,
)

H, V = 4, 6


def heard(T=6):
    speller = Speller(Experiment(norm="none", units=(H, 8)), V)
    h = torch.randn(3, T, 2 * H)
    return speller, speller.attention.annotate(h, torch.tensor([T, 4, 1]))


@torch.no_grad()
def score(speller, what, case, units, end):
    """The log probability of a whole hypothesis, by teacher forcing."""
    one = type(what)(*(v[case : case + 1] for v in what))
    y = torch.tensor([[*units, end]])
    logits, _ = speller(one, y)
    return float(logits.log_softmax(-1).gather(2, y[..., None]).sum()) / y.shape[1]


def test_a_wide_search_finds_the_best_of_all():
    speller, what = heard()
    with torch.no_grad():
        speller.readout.W.mul_(4)
    end, max_length = V - 1, 3
    every = [u for n in range(max_length) for u in product(range(end), repeat=n)]
    found = beam_search(speller, what, end, width=V**3, max_length=max_length)
    assert len(found) == len(what.h)
    for case, said in enumerate(found):
        scores = {u: score(speller, what, case, u, end) for u in every}
        assert said.ended
        assert tuple(said.units) == max(scores, key=scores.get)
        assert said.score == pytest.approx(scores[tuple(said.units)])
        assert said.alpha.shape == (len(said.units) + 1, 6)


def test_batched_search_is_that_of_each_alone():
    speller, what = heard()
    together = beam_search(speller, what, V - 1, width=4, max_length=8)
    assert len(together) == len(what.h)
    for case, said in enumerate(together):
        one = type(what)(*(v[case : case + 1] for v in what))
        (alone,) = beam_search(speller, one, V - 1, width=4, max_length=8)
        assert alone.units == said.units
        assert alone.score == pytest.approx(said.score)


class Countdown:
    """Says 0 as often as what it heard begins with, then the end; counts who asks."""

    vocabulary = 2

    def __init__(self):
        self.asked = []

    def start(self, what):
        return Looked(what.h[..., 0])

    def step(self, last, memory, what, u):
        self.asked.append(len(last))
        over = what.h[:, 0, 0] <= u
        return torch.stack([~over, over], 1) * 9.0, Looked(what.h[..., 0])


class Looked(NamedTuple):
    alpha: torch.Tensor

    def pick(self, rows):
        return Looked(self.alpha[rows])


def test_who_has_ended_is_not_asked_again():
    h = torch.tensor([5, 1, 9, 2]).view(4, 1, 1).double()
    what, decoder = Annotations(h, h, h[..., 0] > 0), Countdown()
    found = beam_search(decoder, what, 1, max_length=6)
    assert decoder.asked == [4, 4, 4, 2, 2, 2]  # one of four that ended waits for another
    assert [len(said.units) for said in found] == [5, 1, 6, 2]
    assert [said.ended for said in found] == [True, True, False, True]
    assert [said.alpha[0].item() for said in found] == [5, 1, 9, 2]  # each has its own


@pytest.mark.parametrize("width", [1, 2])
def test_an_utterance_whose_scores_are_no_numbers_keeps_its_place(width):
    h = torch.tensor([5, 1, 9, 2]).view(4, 1, 1).double()
    decoder = Countdown()
    step = decoder.step

    def lost(last, memory, what, u):
        logits, memory = step(last, memory, what, u)
        logits[what.h[:, 0, 0] == 1] = torch.nan
        return logits, memory

    decoder.step = lost
    found = beam_search(decoder, Annotations(h, h, h[..., 0] > 0), 1, width=width, max_length=6)
    early = 6 if width == 1 else 5  # a wide search has seen an end, and prefers it
    assert [len(said.units) for said in found] == [5, 0, early, 2]
    assert math.isnan(found[1].score)
    assert not found[1].ended


def test_what_never_ends_is_cut_and_says_so():
    speller, what = heard()
    with torch.no_grad():
        speller.readout.b_inside[V - 1] = -1e9
    for said in beam_search(speller, what, V - 1, width=3, max_length=7):
        assert not said.ended
        assert len(said.units) == 7


def test_mass_is_what_lies_inside():
    alpha = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75]])
    found = attention_in_segments(alpha, 0.1, [0.04, 0.24], [0.1, 0.36])
    # 0.00 to 0.14 holds a whole step and 0.4 of the next; 0.20 to 0.40 the last two
    torch.testing.assert_close(found, torch.tensor([0.5 + 0.4 * 0.5, 1.0]))


def test_monotonicity_and_entropy():
    forward, back = torch.eye(4), torch.eye(4).flip(0)
    assert attention_monotonicity(forward) == 1
    assert attention_monotonicity(back) == 0
    assert not attention_entropy(forward).any()
    torch.testing.assert_close(
        attention_entropy(torch.full((2, 4), 0.25)), torch.full((2,), 4.0).log()
    )


def test_who_stays_where_he_was_does_not_go_back():
    assert attention_monotonicity(torch.eye(3)[[0, 1, 1, 2]]) == 1
    assert attention_monotonicity(torch.eye(3)[[1, 1, 0]]) == 0.5
