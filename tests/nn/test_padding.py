"""Padding: where cases end, how seeds of different lengths lie side by side."""

import torch

from lnlab.nn.padding import mean_masked_cross_entropy, pad_and_stack


def test_seeds_of_different_lengths_lie_side_by_side():
    short, long = torch.ones(2, 1, 3), torch.ones(2, 4, 3)
    whole = pad_and_stack([short, long], 7)
    assert whole.shape == (2, 2, 4, 3)
    assert torch.equal(whole[0, :, :1], short)
    assert not whole[0, :, 1:].any()
    words = pad_and_stack([torch.zeros(2, 1).long(), torch.zeros(2, 2).long()], 7)
    assert words[0].tolist() == [[0, 7], [0, 7]]
    assert pad_and_stack([torch.arange(2), torch.arange(2)], 7).tolist() == [[0, 1], [0, 1]]


def test_loss_is_a_mean_over_units_that_are_no_padding():
    logits, y = torch.randn(2, 4, 6), torch.randint(6, (2, 4))
    nll = -logits.log_softmax(-1).gather(2, y[..., None])[..., 0]
    expected = (nll[0].sum() + nll[1, 0]) / 5
    nats = mean_masked_cross_entropy(logits, y, torch.tensor([4, 1]))
    torch.testing.assert_close(nats, expected)
