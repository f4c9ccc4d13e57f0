"""Listen, attend and spell: the model against its formulas, batches, metrics and resumption."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from lnlab.kernels import fuse
from lnlab.nn import PUBLISHED_LSTMS as CELLS
from lnlab.nn.padding import mean_masked_cross_entropy
from lnlab.papers import las
from lnlab.papers.las.evaluate import (
    error_rates_and_reference_length,
    evaluate_and_transcribe,
    recognition_and_attention_metrics,
    value_quantiles_and_gradient_norm,
)
from lnlab.papers.las.model import (
    InstanceNormOverPaddedTime,
    LayerNormOverFeatures,
    Listener,
    Speller,
    make_batch_and_unit_counts,
)
from lnlab.papers.las.search import Hypothesis, attention_share_in_segments

D, H, V = 5, 4, 6
LENGTHS = torch.tensor([13, 7, 1])
SMALL = las.Experiment.budget("smoke", train_size=24, epochs=2, batch_size=5)


def frames(padding=0.0, seed=1):
    torch.manual_seed(seed)
    x = torch.randn(3, 13, D)
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = padding
    return x


# --- the listener and the speller -------------------------------------------------------------


@pytest.mark.parametrize("put", [lambda module: module, fuse])
@pytest.mark.parametrize(
    ("layers", "place"),
    [(1, "cell"), (3, "features")],
)
def test_the_listener_halves_time_and_padding_enters_nothing(layers, place, put):
    config = las.Experiment(units=(H, 8), encoder_layers=layers, encoder_norm=place)
    listener = put(Listener(config, D))
    h, lengths = listener(frames(), LENGTHS)
    assert torch.equal(listener(frames(padding=9.0), LENGTHS)[0], h) or layers > 1
    for row, length in enumerate(LENGTHS):
        x = frames()[row : row + 1, :length]
        y = x.transpose(0, 1)
        alone, (left,) = listener(x, LENGTHS[row : row + 1])
        assert left == lengths[row] == -(-int(length) // 2 ** (layers - 1))
        torch.testing.assert_close(h[row, :left], alone[0], rtol=0, atol=1e-12)
        assert not h[row, left:].any()
        for index, layer in enumerate(listener.layers):
            if index < layers - 1:  # two steps, one after the other, make one
                y = torch.cat([y, y.new_zeros(len(y) % 2, *y.shape[1:])])
                y = torch.cat([y[0::2], y[1::2]], dim=-1)
            y, _ = layer(y)
            if place == "features":
                y = listener.after[index](y.transpose(0, 1)).transpose(0, 1)
        torch.testing.assert_close(y[:, 0], alone[0], rtol=0, atol=1e-12)


def test_normalizers_over_time_and_over_features():
    h = 3 + torch.randn(2, 50, H)
    y = InstanceNormOverPaddedTime(H)(h)
    torch.testing.assert_close(y.mean(1), torch.zeros(2, H), rtol=0, atol=1e-12)
    torch.testing.assert_close(y.var(1, correction=0), torch.ones(2, H), rtol=1e-4, atol=0)
    y = LayerNormOverFeatures(H)(h)
    torch.testing.assert_close(y.mean(2), torch.zeros(2, 50), rtol=0, atol=1e-12)


def make_speller(**settings):
    torch.manual_seed(2)
    speller = Speller(las.Experiment(norm="none", units=(H, 8), **settings), V)
    h = torch.randn(3, 6, 2 * H)
    y = torch.randint(V, (3, 4))
    return speller, speller.attention.annotate(h, torch.tensor([6, 4, 1])), y


@pytest.mark.parametrize("swapped", [False, True])
def test_the_speller_is_its_formula(swapped):
    speller, annotations, y = make_speller(decoder_layers=2, swap_states=swapped)
    logits, alphas = speller(annotations, y)
    h, attention = annotations.h, speller.attention
    states = [cell.initial_state(h[:, 0]) for cell in speller.cells]
    context, last = torch.zeros(3, 2 * H), torch.full((3,), V)
    for u in range(4):
        s = torch.cat([speller.embedding.weight[last], context], dim=-1)
        for index, cell in enumerate(speller.cells):
            s, c = cell(s, states[index], u)
            states[index] = (c, s) if swapped else (s, c)
        query = s @ attention.query.W.T + attention.query.b_inside
        e = torch.tanh(query[:, None] + h @ attention.key.W.T) @ attention.v.W[0]
        alpha = e.masked_fill(~annotations.valid_mask, -torch.inf).softmax(-1)
        context = (alpha[..., None] * h).sum(1)
        readout = speller.readout
        expected = torch.cat([s, context], -1) @ readout.W.T + readout.b_inside
        torch.testing.assert_close(alphas[:, u], alpha)
        torch.testing.assert_close(logits[:, u], expected)
        last = y[:, u]


def test_sampling_replaces_right_units_by_those_of_the_speller():
    right, annotations, y = make_speller()
    sampling, _, _ = make_speller(scheduled_sampling=1.0)
    expected, logits = right(annotations, y)[0], sampling(annotations, y)[0]
    torch.testing.assert_close(logits[:, 0], expected[:, 0])
    assert (logits[:, 1:] - expected[:, 1:]).abs().max() > 1e-3
    torch.testing.assert_close(sampling.eval()(annotations, y)[0], expected)
    with torch.no_grad():
        for speller in (sampling.train(), right):
            speller.readout.b_inside[1] = 1e9  # so that unit 1 is always drawn
    ones = torch.ones_like(y)
    torch.testing.assert_close(sampling(annotations, y)[1], right(annotations, ones)[1])


def test_noise_and_dropout_are_of_training_and_leave_padding_alone():
    config = las.Experiment(units=(H, 8), encoder_layers=2, dropout=0.5, input_noise=0.6)
    listener, inputs = Listener(config, D), []
    listener.layers[0].register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    x = frames()
    (one, lengths), (other, _) = listener(x, LENGTHS), listener(x, LENGTHS)
    assert (one - other).abs().max() > 1e-2
    assert not any(row[length:].any() for row, length in zip(one, lengths, strict=True))
    noise = inputs[0].unflatten(-1, (2, D)).transpose(0, 1).flatten(1, 2)[:, :13] - x
    assert not any(row[length:].any() for row, length in zip(noise, LENGTHS, strict=True))
    assert noise[0].std() == pytest.approx(0.6, rel=0.3)  # of 65 numbers
    listener.eval()
    assert torch.equal(listener(x, LENGTHS)[0], listener(x, LENGTHS)[0])


# --- the experiment ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus():
    return SMALL.dataset()


def test_the_published_cell_is_hardmaru_s_without_gain_and_bias(corpus):
    experiment = replace(SMALL, norm="decoder", published_cell=True, swap_states=True)
    cell = experiment.model(0, corpus).double().speller.cells[0]
    weights = dict(cell.named_parameters())
    assert sorted(weights) == ["W_h", "W_x", "b"]
    reference = CELLS["hardmaru/supercell"](cell.input_size, cell.hidden_size)
    with torch.no_grad():
        reference.W_x.copy_(weights["W_x"])
        reference.W_h.copy_(weights["W_h"])
        weights["b"].zero_()
        reference.norm_h.b.zero_()
    x, state = torch.randn(3, cell.input_size), (torch.randn(3, 16), torch.randn(3, 16))
    for value, expected in zip(cell(x, state), reference(x, state), strict=True):
        torch.testing.assert_close(value, expected)
    paper = replace(SMALL, norm="decoder").model(0, corpus).speller.cells[0]
    assert {"norm_h.g", "norm_x.g", "norm_c.g"} <= {*dict(paper.named_parameters())}


def test_validation_data_are_measured_as_test_data_are(corpus):
    net, limits = SMALL.model(3, corpus), {"width": 1, "max_length": 20}
    swapped = SimpleNamespace(
        units=corpus.units, train=corpus.train, test=corpus.valid, valid=corpus.test
    )
    test = recognition_and_attention_metrics(net, corpus, include_validation=False, **limits)
    valid = recognition_and_attention_metrics(net, swapped, include_validation=True, **limits)
    assert (valid["valid_nll"], valid["valid_error"]) == (test["test_nll"], test["test_error"])
    assert valid["test_nll"] != test["test_nll"]
    numbers = {unit: number for number, unit in enumerate(corpus.units)}
    batch, counts = make_batch_and_unit_counts(corpus.test, numbers, torch.float64)
    with torch.no_grad():
        expected = mean_masked_cross_entropy(net(batch), batch.units, counts)
    assert test["test_nll"] == pytest.approx(float(expected))
    _, alphas, _ = evaluate_and_transcribe(net, corpus.test, corpus.units, **limits)
    # two frames of 10 ms are one step
    masses = [
        attention_share_in_segments(alpha, 0.02, u.begins, u.ends)
        for alpha, u in zip(alphas, corpus.test, strict=True)
    ]
    assert test["alignment"] == pytest.approx(float(torch.cat(masses).mean()))
    entropies = [-(a * a.clamp(min=1e-300).log()).sum(-1) for a in alphas]
    assert test["entropy"] == pytest.approx(float(torch.cat(entropies).mean()))


def test_errors_are_counted_as_by_hand():
    right = [SimpleNamespace(units=("a", "b", "c")), SimpleNamespace(units=("a",))]
    hypotheses = [
        Hypothesis(numbers, 0.0, torch.zeros(0), True) for numbers in ([0, 2], [1, 0])
    ]
    counts = error_rates_and_reference_length(right, hypotheses, ["a", "b", "c"])
    assert counts["test_error"] == pytest.approx(2 / 4)  # b left out, b put in
    assert counts["test_error_with_end"] == pytest.approx(2 / 6)
    assert counts["deletions"] == counts["insertions"] == pytest.approx(1 / 4)
    assert (counts["substitutions"], counts["reference_length"]) == (0, 4)


@pytest.mark.parametrize("norm", ["none", "both"])
def test_steepness_is_the_gradient_and_quantiles_are_those_of_the_values(corpus, norm):
    net = replace(SMALL, norm=norm).model(0, corpus).double()
    values = value_quantiles_and_gradient_norm(net, corpus)
    numbers = {unit: number for number, unit in enumerate(corpus.units)}
    batch, counts = make_batch_and_unit_counts(corpus.train[:16], numbers, torch.float64)
    loss = mean_masked_cross_entropy(net(batch), batch.units, counts)
    grads = torch.autograd.grad(loss, [*net.parameters()])
    norm_of_all = torch.cat([grad.flatten() for grad in grads]).norm()
    assert values["lipschitz"] == pytest.approx(float(norm_of_all), rel=1e-9)
    listener = net.listener.layers[0]
    x = torch.cat(
        [batch.features[:, 0::2][:, : batch.features.shape[1] // 2], batch.features[:, 1::2]],
        -1,
    )
    h, _ = listener(x.transpose(0, 1), lengths=(batch.lengths + 1) // 2)
    both = torch.cat([cell.W_h.flatten() for cell in listener.cells])
    for name, numbers_of in {
        "speller.readout.W": net.speller.readout.W.flatten(),
        "listener.layers.0.W_h": both,
        "listener.layers.0": h.flatten(),
    }.items():
        levels = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])
        expected = torch.quantile(numbers_of.detach(), levels).tolist()
        assert values["quantiles"][name] == pytest.approx(expected, rel=0.1, abs=2e-3)
