"""Listening, attending and spelling: lengths, laws and the search against all hypotheses."""

from itertools import product

import pytest
import torch

from lnlab.kernels import fuse
from lnlab.norms import Identity, LayerNorm
from lnlab.tasks.las import (
    Attention,
    Listener,
    OverFeatures,
    OverTime,
    Speller,
    cross_entropy,
    search,
)

D, H, V = 5, 4, 6
LENGTHS = torch.tensor([13, 7, 1])


def batch(padding=0.0):
    x = torch.randn(3, 13, D)
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = padding
    return x


@pytest.mark.parametrize(
    "after", [None, OverFeatures, lambda units: OverTime(units, masked=True)]
)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("put", [lambda m: m, fuse])
def test_padding_enters_nothing(after, layers, put):
    listener = put(Listener(D, H, layers, LayerNorm, after))
    torch.manual_seed(1)
    x = batch()
    h, lengths = listener(x, LENGTHS)
    torch.manual_seed(1)
    assert torch.equal(listener(batch(padding=9.0), LENGTHS)[0], h) or layers > 1
    for row, length in enumerate(LENGTHS):
        alone, (left,) = listener(x[row : row + 1, :length], LENGTHS[row : row + 1])
        assert left == lengths[row] == -(-int(length) // 2 ** (layers - 1))
        torch.testing.assert_close(h[row, :left], alone[0], rtol=0, atol=1e-12)
        assert not h[row, left:].any()


def test_over_time_the_padding_counts_as_in_the_published_code():
    listener = Listener(D, H, 2, after=OverTime)
    x = batch()
    h, lengths = listener(x, LENGTHS)
    alone, _ = listener(x[1:2, :7], LENGTHS[1:2])
    assert (h[1, : lengths[1]] - alone[0]).abs().max() > 1e-2


def test_over_time_is_over_time():
    over, h = OverTime(H), 3 + torch.randn(2, 50, H)
    y = over(h, torch.tensor([50, 50]))
    torch.testing.assert_close(y.mean(1), torch.zeros(2, H), rtol=0, atol=1e-12)
    torch.testing.assert_close(y.var(1, correction=0), torch.ones(2, H), rtol=1e-4, atol=0)
    y = OverFeatures(H)(h, torch.tensor([50, 50]))
    torch.testing.assert_close(y.mean(2), torch.zeros(2, 50), rtol=0, atol=1e-12)


def test_an_utterance_without_frames_is_refused():
    with pytest.raises(ValueError, match="utterance 1 of the batch has no frames"):
        Listener(D, H)(batch(), torch.tensor([13, 0, 1]))


def heard(location=0, T=6):
    speller = Speller(V, 2 * H, 8, location=location)
    h = torch.randn(3, T, 2 * H)
    return speller, speller.attention.hear(h, torch.tensor([T, 4, 1]))


@pytest.mark.parametrize("location", [0, 3])
def test_attention_is_a_distribution_over_what_was_heard(location):
    speller, what = heard(location)
    logits, alpha = speller(what, torch.randint(V, (3, 5)))
    assert logits.shape == (3, 5, V)
    torch.testing.assert_close(alpha.sum(-1), torch.ones(3, 5))
    assert not alpha[1, :, 4:].any()
    assert torch.equal(alpha[2, :, 0], torch.ones(5))


def test_attention_by_hand():
    attention = Attention(3, 2 * H, 4)
    h, s = torch.randn(1, 5, 2 * H), torch.randn(1, 3)
    context, alpha = attention(s, attention.hear(h, torch.tensor([5])), torch.zeros(1, 5))
    keys, query = h[0] @ attention.key.W.T, s[0] @ attention.query.W.T
    e = torch.tanh(keys + query + attention.query.b_inside) @ attention.v.W[0]
    torch.testing.assert_close(alpha[0], e.softmax(0))
    torch.testing.assert_close(context[0], e.softmax(0) @ h[0])


def test_location_looks_at_where_it_was():
    speller, what = heard(location=2)
    s = torch.randn(3, 8)
    here, there = torch.eye(6)[[0, 0, 0]], torch.eye(6)[[5, 3, 0]]
    _, one = speller.attention(s, what, here)
    _, other = speller.attention(s, what, there)
    assert (one[0] - other[0]).abs().max() > 1e-3


def test_what_is_said_depends_on_what_was_right_before_alone():
    speller, what = heard()
    y = torch.randint(V, (3, 5))
    logits, _ = speller(what, y)
    y[:, 3:] = 0
    torch.testing.assert_close(speller(what, y)[0][:, :4], logits[:, :4], rtol=0, atol=0)


def test_sampling_tells_the_speller_what_it_said():
    torch.manual_seed(2)
    right, what = heard()
    torch.manual_seed(2)
    own = Speller(V, 2 * H, 8, sampling=1.0)
    y = torch.randint(V, (3, 5))
    (told, _), (said, _) = right(what, y), own(what, y)
    torch.testing.assert_close(told[:, 0], said[:, 0])
    assert (told[:, 1:] - said[:, 1:]).abs().max() > 1e-3
    torch.testing.assert_close(own.eval()(what, y)[0], told)
    with torch.no_grad():
        own.train().readout.b_inside[1] = 1e9  # so that it always says unit 1
        right.readout.b_inside[1] = 1e9
    torch.testing.assert_close(own(what, y)[1], right(what, torch.ones_like(y))[1])
    with pytest.raises(ValueError, match="give a probability"):
        Speller(V, 2 * H, 8, sampling=1.5)


def test_noise_and_dropout_are_of_training_and_leave_padding_alone():
    listener = Listener(D, H, 2, LayerNorm, dropout=0.5, noise=0.6)
    x = batch()
    one, lengths = listener(x, LENGTHS)
    other, _ = listener(x, LENGTHS)
    assert (one - other).abs().max() > 1e-2
    for row, length in enumerate(lengths):
        assert not one[row, length:].any()
    listener.eval()
    torch.testing.assert_close(listener(x, LENGTHS)[0], listener(x, LENGTHS)[0], rtol=0, atol=0)


def test_a_swapped_state_is_another_net():
    torch.manual_seed(2)
    right, what = heard()
    torch.manual_seed(2)
    wrong = Speller(V, 2 * H, 8, swapped=True)
    y = torch.randint(V, (3, 4))
    (a, _), (b, _) = right(what, y), wrong(what, y)
    torch.testing.assert_close(a[:, :1], b[:, :1])  # both states are 0 at first
    assert (a[:, 1:] - b[:, 1:]).abs().max() > 1e-3


def test_loss_is_a_mean_over_units_that_are_no_padding():
    logits, y = torch.randn(2, 4, V), torch.randint(V, (2, 4))
    lengths = torch.tensor([4, 1])
    nll = -logits.log_softmax(-1).gather(2, y[..., None])[..., 0]
    expected = (nll[0].sum() + nll[1, 0]) / 5
    torch.testing.assert_close(cross_entropy(logits, y, lengths), expected)


@torch.no_grad()
def score(speller, what, case, units, end, penalty):
    """The log probability of a whole hypothesis, by teacher forcing."""
    one = type(what)(*(v[case : case + 1] for v in what))
    y = torch.tensor([[*units, end]])
    logits, _ = speller(one, y)
    return float(logits.log_softmax(-1).gather(2, y[..., None]).sum()) / y.shape[1] ** penalty


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_search_finds_the_best_of_all(penalty):
    speller, what = heard()
    with torch.no_grad():
        speller.readout.W.mul_(4)
    end, longest = V - 1, 3
    every = [u for n in range(longest) for u in product(range(end), repeat=n)]
    found = search(speller, what, end, width=V**3, longest=longest, penalty=penalty)
    for case, said in enumerate(found):
        scores = {u: score(speller, what, case, u, end, penalty) for u in every}
        assert said.ended
        assert tuple(said.units) == max(scores, key=scores.get)
        assert said.score == pytest.approx(scores[tuple(said.units)])
        assert said.alpha.shape == (len(said.units) + 1, 6)


def test_the_narrow_search_is_greedy():
    speller, what = heard()
    for case, said in enumerate(search(speller, what, V - 1, longest=12)):
        one = type(what)(*(v[case : case + 1] for v in what))
        memory, last, units = speller.start(one), torch.tensor([V]), []
        for u in range(12):
            logits, memory = speller.step(last, memory, one, u)
            last = logits.argmax(-1)
            if int(last) == V - 1:
                break
            units.append(int(last))
        assert said.units == units


def test_batched_search_is_that_of_each_alone():
    speller, what = heard()
    together = search(speller, what, V - 1, width=4, longest=8)
    for case, said in enumerate(together):
        one = type(what)(*(v[case : case + 1] for v in what))
        (alone,) = search(speller, one, V - 1, width=4, longest=8)
        assert alone.units == said.units
        assert alone.score == pytest.approx(said.score)


def test_what_never_ends_is_cut_and_says_so():
    speller, what = heard()
    with torch.no_grad():
        speller.readout.b_inside[V - 1] = -1e9
    for said in search(speller, what, V - 1, width=3, longest=7):
        assert not said.ended
        assert len(said.units) == 7


@pytest.mark.parametrize("wrong", [{"width": 0}, {"longest": 0}])
def test_impossible_searches_are_refused(wrong):
    speller, what = heard()
    with pytest.raises(ValueError, match="give at least 1"):
        search(speller, what, V - 1, **wrong)


@pytest.mark.parametrize("encoder", [Identity, LayerNorm])
def test_every_parameter_is_trained(encoder):
    listener, speller = (
        Listener(D, H, 3, encoder, OverFeatures),
        Speller(V, 2 * H, 8, 2, encoder),
    )
    y = torch.randint(V, (3, 4))
    logits, _ = speller(speller.attention.hear(*listener(batch(), LENGTHS)), y)
    cross_entropy(logits, y, torch.tensor([4, 2, 1])).backward()
    for module in (listener, speller):
        for name, p in module.named_parameters():
            assert p.grad is not None and p.grad.any(), name  # noqa: PT018
