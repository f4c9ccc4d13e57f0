"""Listening, attending and spelling: lengths, and what is normalized where."""

import pytest
import torch

from lnlab.kernels import fuse
from lnlab.nn import Identity, LayerNorm
from lnlab.nn.padding import cross_entropy
from lnlab.papers.las.model import Listener, OverFeatures, OverTime, Speller

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


def heard(T=6):
    speller = Speller(V, 2 * H, 8)
    assert len(speller.cells) == 1
    h = torch.randn(3, T, 2 * H)
    return speller, speller.attention.annotate(h, torch.tensor([T, 4, 1]))


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


def test_noise_is_of_the_utterance_alone():
    listener, seen = Listener(D, H, 2, noise=0.6), []
    first = listener.layers[0]
    first.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    listener(batch(), LENGTHS)
    pairs = seen[0].unflatten(-1, (2, D)).transpose(0, 1).flatten(1, 2)  # (B, T, D) again
    for frames, length in zip(pairs, LENGTHS, strict=True):
        assert frames[:length].any(-1).all()
        assert not frames[length:].any()


def test_a_swapped_state_is_another_net():
    torch.manual_seed(2)
    right, what = heard()
    torch.manual_seed(2)
    wrong = Speller(V, 2 * H, 8, swapped=True)
    y = torch.randint(V, (3, 4))
    (a, _), (b, _) = right(what, y), wrong(what, y)
    torch.testing.assert_close(a[:, :1], b[:, :1])  # both states are 0 at first
    assert (a[:, 1:] - b[:, 1:]).abs().max() > 1e-3


@pytest.mark.parametrize("encoder", [Identity, LayerNorm])
def test_every_parameter_is_trained(encoder):
    listener, speller = (
        Listener(D, H, 3, encoder, OverFeatures),
        Speller(V, 2 * H, 8, 2, encoder),
    )
    y = torch.randint(V, (3, 4))
    logits, _ = speller(speller.attention.annotate(*listener(batch(), LENGTHS)), y)
    cross_entropy(logits, y, torch.tensor([4, 2, 1])).backward()
    for module in (listener, speller):
        for name, p in module.named_parameters():
            assert p.grad is not None and p.grad.any(), name  # noqa: PT018
