"""Batch layer normalization: both networks, the arms, and 16 configurations of statistics."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.data.dataset import Split
from lnlab.nn import CONFIGURATIONS
from lnlab.papers.batch_layer_norm import ImageExperiment, ReviewExperiment
from lnlab.papers.batch_layer_norm.evaluate import (
    metrics_of_every_configuration,
    score_in_batches,
    score_with_batch_statistics,
    temporarily_use_configuration,
)
from lnlab.papers.batch_layer_norm.model import (
    ARMS,
    KerasBatchNorm,
    ReviewReader,
    find_batch_layer_norms,
)
from lnlab.training import Evaluation, stack

M = 5


def images(count=4 * M):
    x = torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return Split(x, torch.arange(count) % 10)


def reviews(count=4 * M):
    x = torch.randint(0, 300, (count, 8), generator=torch.Generator().manual_seed(1))
    return Split(x, torch.arange(count) % 2)


def dataset(**splits):
    return SimpleNamespace(classes=10, train=images(), **splits)


def image_task(norm="batch layer", m=M, **settings):
    settings |= {"batch_size": m, "train_size": 4 * M, "seeds": (0,), "data": "shapes"}
    return ImageExperiment(norm=norm, **settings)


def review_task(norm="batch layer", **settings):
    return ReviewExperiment(preset="smoke", norm=norm, batch_size=M, seeds=(0,), **settings)


def lenet(norm="batch layer", m=M, trained=3, **settings):
    """A LeNet that has seen a few batches, in evaluation mode."""
    model = image_task(norm, m, **settings).model(0, dataset()).double()
    for k in range(trained):
        model.train()(torch.randn(m, 3, 32, 32) * (1 + k))
    return model.eval()


def reader(norm="batch layer"):
    model = review_task(norm).model(0, SimpleNamespace(train=reviews())).double()
    for _ in range(3):
        model.train()(torch.randint(0, 300, (M, 8)))
    return model.eval()


# the networks


@pytest.mark.parametrize("norm", ARMS)
def test_networks_have_as_many_parameters_as_the_published_ones(norm):
    assert sum(p.numel() for p in lenet(norm).parameters()) == 83_578
    with torch.device("meta"):
        model = ReviewReader(ReviewExperiment(), lambda H: nn.LayerNorm(H))
    assert sum(p.numel() for p in model.parameters()) == 10_620_161


@pytest.mark.parametrize("position", ["after", "before"])
def test_the_lenet_is_torchs_layer_by_layer(position):
    model = lenet("layer", norm_position=position)
    h = x = torch.randn(M, 3, 32, 32)

    def activate(a, index, pool=lambda h: h):
        layer = model.norms[index]

        def norm(h):
            h = h.movedim(1, -1)
            h = F.layer_norm(h, h.shape[-1:], layer.g, layer.b, eps=1e-3)
            return h.movedim(-1, 1)

        return norm(pool(a.tanh())) if position == "after" else pool(norm(a).tanh())

    for k, padding in ((0, 2), (1, 0)):
        layer = model.convolutions[k]
        a = F.conv2d(h, layer.W, layer.b_inside, padding=padding)
        h = activate(a, k, lambda h: F.avg_pool2d(h, 2, 2))
    h = h.flatten(1)
    for k in (0, 1):
        layer = model.dense[k]
        h = activate(h @ layer.W.T + layer.b_inside, 2 + k)
    readout = model.dense[2]
    torch.testing.assert_close(model(x), h @ readout.W.T + readout.b_inside)


def test_the_reader_is_torchs_layer_by_layer():
    model = reader("layer")
    x = torch.randint(0, 300, (M, 8))

    def lstm(cell, h):
        theirs = nn.LSTM(cell.input_size, cell.hidden_size, batch_first=True).double()

        def reorder(v):  # torch has the gates i, f, g, o; the cell f, i, o, g
            return torch.cat([v.chunk(4)[k] for k in (1, 0, 3, 2)])

        with torch.no_grad():
            theirs.weight_ih_l0.copy_(reorder(cell.W_x))
            theirs.weight_hh_l0.copy_(reorder(cell.W_h))
            theirs.bias_ih_l0.copy_(reorder(cell.b))
            theirs.bias_hh_l0.zero_()
        return theirs(h)[0]

    def norm(h, index):
        g, b = model.norms[index].g, model.norms[index].b
        return F.layer_norm(h, h.shape[-1:], g, b, eps=1e-3)

    h = norm(lstm(*model.layers[0].cells, model.word[x]), 0)
    h = norm(lstm(*model.layers[1].cells, h)[:, -1], 1)
    hidden, readout = model.dense
    h = norm((h @ hidden.W.T + hidden.b_inside).tanh(), 2)
    torch.testing.assert_close(model(x), (h @ readout.W.T + readout.b_inside).squeeze(1))


def test_weights_start_as_in_the_published_code():
    model = lenet()
    W = model.dense[1].W  # (84, 120): its rows are orthonormal
    torch.testing.assert_close(W @ W.T, torch.eye(84).double(), rtol=0, atol=1e-6)
    bound = (6 / (25 * 3 + 25 * 6)) ** 0.5
    assert model.convolutions[0].W.abs().max() <= bound
    assert model.convolutions[0].W.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert all(not layer.b_inside.any() for layer in [*model.convolutions, *model.dense])
    fresh = review_task("layer").model(0, SimpleNamespace(train=reviews()))
    for (cell,) in (layer.cells for layer in fresh.layers):
        forget, *others = cell.b.detach().chunk(4)
        assert torch.equal(forget, torch.ones(cell.hidden_size).float())
        assert not torch.cat(others).any()
        bound = (6 / (cell.input_size + 4 * cell.hidden_size)) ** 0.5
        assert 0.8 * bound < cell.W_x.abs().max() <= bound


def test_an_lstm_drops_the_same_units_at_each_step_in_training_alone():
    model = reader("layer").train()
    (layer, _), generator = model.layers, torch.Generator().manual_seed(2)
    (cell,) = layer.cells
    x = torch.randn(M, 8, cell.input_size, generator=generator).double().requires_grad_()
    weights = [x, cell.W_x, cell.W_h, cell.b]
    torch.manual_seed(3)
    outputs = model.lstm_states(layer, x)
    torch.manual_seed(3)
    h, c = cell.initial_state(x.transpose(0, 1))
    mask_x, mask_h = model.draw_dropout_mask_like(x[:, 0]), model.draw_dropout_mask_like(h)
    assert {*mask_x.flatten().tolist(), *mask_h.flatten().tolist()} == {0.0, 1.25}
    states = []
    for t in range(8):
        h, c = cell(x[:, t] * mask_x, (h * mask_h, c), t)
        states.append(h)
    expected = torch.stack(states, 1)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-14)
    weighting = torch.randn(expected.shape, generator=generator).double()
    grads = (torch.autograd.grad((y * weighting).sum(), weights) for y in (outputs, expected))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)
    words = torch.randint(0, 300, (20, 8))
    assert torch.equal(model.eval()(words), model(words))


# the arms


def test_keras_batch_norm_averages_a_biased_variance_also_of_one_example():
    norm = KerasBatchNorm(4)
    x = torch.randn(6, 4)
    norm(x)
    torch.testing.assert_close(norm.running_mean, 0.01 * x.mean(0))
    torch.testing.assert_close(norm.running_var, 0.99 + 0.01 * x.var(0, correction=0))
    norm = KerasBatchNorm(4)
    for _ in range(1000):
        assert torch.equal(norm(torch.randn(1, 4)), torch.zeros(1, 4))  # b, whatever the input
    x = torch.randn(1, 4)
    expected = (x - norm.running_mean) / 1e-3**0.5
    torch.testing.assert_close(norm.eval()(x), expected, rtol=0.05, atol=0)


def test_batch_layer_norm_of_one_example_is_layer_norm_over_sqrt_d():
    ours, theirs = lenet("batch layer", m=1, trained=0), lenet("layer", trained=0)
    for norm, layer in zip(ours.norms, theirs.norms, strict=True):
        with torch.no_grad():
            layer.g *= 0.9999 / norm.units**0.5
    x = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(ours.train()(x), theirs(x), rtol=0, atol=1e-12)


# evaluation


def nll_and_accuracy(output, y):
    """Of the published code: logits over classes, or one logit with a threshold of 0.5."""
    if output.dim() == 2:
        return F.cross_entropy(output, y), (output.argmax(1) == y).double().mean()
    loss = F.binary_cross_entropy_with_logits(output, y.double())
    return loss, ((output > 0.5) == (y == 1)).double().mean()


@pytest.mark.parametrize("norm", ["batch layer", "batch, axis 0", "batch", "layer"])
@pytest.mark.parametrize(
    ("build", "task", "make"),
    [(lenet, image_task, images), (reader, review_task, reviews)],
    ids=["images", "reviews"],
)
def test_a_score_is_of_each_batch_by_itself(build, task, make, norm):
    model, split = build(norm), make(4 * M + 3)
    y = split.y[: 4 * M]
    weight = next(model.parameters())
    x = split.x[: 4 * M]
    batches = (x.to(weight) if x.is_floating_point() else x).split(M)
    for training, scored in ((False, score_in_batches), (True, score_with_batch_statistics)):
        if training and build is reader:
            break  # its dropout is off in every evaluation
        result = scored(model, split, M, task().losses_and_hits)
        outputs = torch.cat([model.train(training)(batch) for batch in batches])
        expected = [value.item() for value in nll_and_accuracy(outputs, y)]
        assert [*result] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="4 examples make no batch of 5"):
        score_in_batches(model, make(4), M, task().losses_and_hits)


def test_reviews_are_good_above_the_threshold():
    output, y = torch.tensor([-0.1, 0.2, 0.2, 0.7]), torch.tensor([0, 1, 0, 1])
    assert review_task().losses_and_hits(output, y)[1].tolist() == [True, False, True, True]
    zero = review_task(threshold=0.0)
    assert zero.losses_and_hits(output, y)[1].tolist() == [True, True, False, True]


def test_every_configuration_is_scored_and_two_are_chosen():
    model, scoring = lenet(), image_task().losses_and_hits
    splits = {"valid": images(2 * M), "test": images(4 * M)}
    metrics = metrics_of_every_configuration(model, splits, M, scoring)
    for name in CONFIGURATIONS:
        with temporarily_use_configuration(find_batch_layer_norms(model), name):
            for split, examples in splits.items():
                expected = score_in_batches(model, examples, M, scoring)
                assert metrics[f"{split}_nll_{name}"] == expected.nll
                assert metrics[f"{split}_accuracy_{name}"] == expected.accuracy
    assert all(norm.population == "FFFF" for norm in find_batch_layer_norms(model))
    for split, word in (("valid", "chosen"), ("test", "optimistic")):
        best = min(CONFIGURATIONS, key=lambda name: metrics[f"{split}_nll_{name}"])
        assert metrics[f"{word}_accuracy"] == metrics[f"test_accuracy_{best}"]
        assert metrics[f"{word}_nll"] == metrics[f"test_nll_{best}"]
    assert metrics["optimism"] == metrics["optimistic_accuracy"] - metrics["chosen_accuracy"]
    layer = metrics_of_every_configuration(lenet("layer"), splits, M, scoring)
    assert len(layer) == 5
    assert layer["optimism"] == 0
    assert (
        layer["chosen_nll"] == score_in_batches(lenet("layer"), splits["test"], M, scoring).nll
    )


def test_single_examples_leave_four_configurations_unless_the_factor_is_left_out():
    splits = {"valid": images(4), "test": images(4)}
    for unbiased, count in ((True, 4), (False, 16)):
        model = lenet(m=1, unbiased=unbiased)
        metrics = metrics_of_every_configuration(model, splits, 1, image_task().losses_and_hits)
        values = {name: metrics[f"test_nll_{name}"] for name in CONFIGURATIONS}
        finite = {name for name, value in values.items() if value == value}
        assert len(finite) == count
        assert {"TFTF", "TFFF", "FFTF", "FFFF"} <= finite


# training


def test_training_examples_are_scored_in_their_own_batches_and_in_others():
    task = image_task(valid_size=M, test_size=M)
    data = dataset(valid=images(M))
    first, again = (
        [x for x, _ in task.training_batches(data).batches_of_epoch(k)] for k in (0, 7)
    )
    assert all(map(torch.equal, first, again))
    other = image_task(valid_size=M)
    object.__setattr__(other, "seeds", (1,))
    assert not torch.equal(next(other.training_batches(data).batches_of_epoch(0))[0], first[0])
    model = stack([task.model(0, data)]).double()
    metrics = task.evaluate(model, data, Evaluation.FULL)
    (net,) = model.unstack()
    own = [
        (x[0], y[0])
        for x, y in task.training_batches(data, dtype=torch.float64).batches_of_epoch(3)
    ]
    others = [*zip(data.train.x.split(M), data.train.y.split(M), strict=True)]
    for name, batches in (("train_nll_own_batches", own), ("train_nll", others)):
        losses = [F.cross_entropy(net(x.double()), y).item() for x, y in batches]
        assert metrics[name] == [pytest.approx(sum(losses) / 4, rel=1e-12)]
    assert metrics["train_nll_own_batches"] != metrics["train_nll"]


# data


def test_pixels_are_standardized_over_the_training_examples():
    data = ImageExperiment(preset="smoke").dataset()
    x = data.train.x
    assert x.shape == (100, 3, 32, 32)
    assert (len(data.valid), len(data.test)) == (50, 100)
    torch.testing.assert_close(x.mean(0), torch.zeros(3, 32, 32).float(), rtol=0, atol=1e-5)
    torch.testing.assert_close(x.var(0, correction=0), torch.ones_like(x[0]), rtol=0, atol=1e-4)
