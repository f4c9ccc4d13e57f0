"""Log-mel features against closed forms."""

from itertools import product

import numpy as np
import pytest
import torch

from lnlab.papers.las.recordings import (
    EMPHASIS,
    FILTERS,
    add_differences,
    differences,
    features,
    log_mel,
    mel_filters,
)


@pytest.mark.parametrize(("rate", "size"), [(8000, 256), (16000, 512)])
def test_filters_are_triangles_that_share_every_frequency(rate, size):
    filters = mel_filters(rate, size)
    assert filters.shape == (FILTERS, size // 2 + 1)
    assert (filters.sum(1) > 0).all(), "a filter without a bin"
    assert ((filters >= 0) & (filters <= 1)).all()
    total = filters.sum(0)
    centres = [int(f.argmax()) for f in filters]
    torch.testing.assert_close(
        total[centres[1] : centres[-2]], torch.ones(centres[-2] - centres[1])
    )


@pytest.mark.parametrize("hertz", [300.0, 1000.0, 3000.0])
def test_a_tone_is_in_its_filter(hertz):
    rate = 16000
    sound = np.sin(2 * np.pi * hertz * np.arange(rate) / rate)
    loudest = log_mel(sound, rate)[:, :FILTERS].argmax(1)
    mel = 1127 * np.log1p(hertz / 700)
    low, high = 1127 * np.log1p(20 / 700), 1127 * np.log1p(8000 / 700)
    expected = (mel - low) / (high - low) * (FILTERS + 1) - 1
    assert (loudest - expected).abs().max() <= 1


def test_differences_of_a_ramp_are_its_slope():
    ramp = 3 * torch.arange(20.0)[:, None].double()
    torch.testing.assert_close(differences(ramp)[2:-2], torch.full((16, 1), 3.0))
    assert not differences(torch.ones(5, 2)).any()
    parabola = torch.arange(20.0)[:, None].double().square()
    torch.testing.assert_close(add_differences(parabola)[4:-4, 2], torch.full((12,), 2.0))


def test_features_are_normalized_in_each_utterance():
    sound = np.random.default_rng(0).normal(0, 0.1, 8000)
    found = features(sound, 8000).double()
    assert found.shape == (98, 123)
    torch.testing.assert_close(found.mean(0), torch.zeros(123), atol=1e-6, rtol=0)  # float32
    torch.testing.assert_close(found.std(0, correction=0), torch.ones(123), atol=1e-5, rtol=0)


def test_less_than_a_window_is_refused():
    with pytest.raises(ValueError, match="199 samples at 8000 Hz are less than one window"):
        features(np.ones(199), 8000)


@pytest.mark.parametrize("rate", [8000, 16000])
def test_energies_are_those_of_a_symmetric_hamming_window(rate):
    """Against NumPy, whose window begins and ends with the same 0.08."""
    window, size = rate // 40, 256 * rate // 8000
    sound = np.random.default_rng(0).normal(0, 0.1, window)
    x = np.concatenate([sound[:1], sound[1:] - EMPHASIS * sound[:-1]])
    power = np.abs(np.fft.rfft(x * np.hamming(window), size)) ** 2
    expected = np.log(mel_filters(rate, size).numpy() @ power)
    found = log_mel(sound, rate)[0, :FILTERS].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # sums of 257 in float64


def test_features_depend_on_no_global_setting():
    sound = np.random.default_rng(0).normal(0, 0.1, 16000)
    found = []
    for dtype, threads in product((torch.float64, torch.float32, torch.bfloat16), (1, 2)):
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        found.append(features(sound, 16000))
    assert all(other.dtype == torch.float32 for other in found)
    assert all(torch.equal(found[0], other) for other in found)
