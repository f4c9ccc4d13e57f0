"""Order embeddings: violation, loss and ranks by their formulas, the model, the metrics."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from lnlab.data import Vocabulary
from lnlab.nn import Identity, LayerNorm
from lnlab.papers import order_embeddings
from lnlab.papers.order_embeddings import evaluate
from lnlab.papers.order_embeddings.model import (
    OrderEmbedding,
    Pairs,
    contrastive_loss,
    order_violation,
)
from lnlab.training import train_steps
from lnlab.training.runs import read

H, D, E = 6, 5, 4
KNOWN = Vocabulary(["a", "dog", "and", "cat", "big"])
SMOKE = order_embeddings.Experiment.budget("smoke", seeds=(0,))


def make_model(norm=LayerNorm, **settings):
    torch.manual_seed(3)
    return OrderEmbedding(KNOWN, D, H, E, norm, **settings).double()


def test_the_violation_is_what_lies_beyond_squared():
    captions, images = torch.rand(4, H), torch.rand(3, H)
    values = order_violation(captions, images)
    for c, p in product(range(4), range(3)):
        beyond = [max(0.0, float(s - i)) ** 2 for s, i in zip(captions[c], images[p])]  # noqa: B905
        assert float(values[c, p]) == pytest.approx(sum(beyond))
    below = images[1] * torch.rand(H)
    assert not order_violation(below[None], images)[0, 1]
    torch.testing.assert_close(evaluate.order_violations(captions, images), values)


def test_the_loss_adds_both_ways_and_leaves_out_the_right_ones():
    captions, images, margin = torch.rand(4, H), torch.rand(4, H), 0.3
    indices = torch.tensor([0, 1, 2, 1])  # one image is there twice
    cost = order_violation(captions, images)
    expected = 0.0
    for i, j in product(range(4), range(4)):
        if indices[i] != indices[j]:
            expected += max(0.0, float(margin + cost[i, i] - cost[i, j]))  # another image
            expected += max(0.0, float(margin + cost[j, j] - cost[i, j]))  # another caption
    assert expected > 0
    loss = contrastive_loss(captions, images, indices, margin)
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize("norm", [Identity, LayerNorm])
@pytest.mark.parametrize("unit", [True, False])
def test_points_are_the_formula_and_padding_enters_nothing(norm, unit):
    words, lengths = KNOWN.encode_batch(["a dog and a big cat", "cat", "a dog", "a new cat"])
    features, model = torch.randn(4, D), make_model(norm, unit_captions=unit)
    captions, images = model(Pairs(features, words, lengths))
    for row, length in enumerate(lengths.tolist()):
        x = model.word[words[row, :length]]
        h = model.reader(x.unsqueeze(1))[1][-1, 0]
        expected = (h / h.norm() if unit else h).abs()
        torch.testing.assert_close(captions[row], expected, rtol=0, atol=1e-12)  # other order
    linear = features @ model.W.T + model.b
    torch.testing.assert_close(images, (linear / linear.norm(dim=1, keepdim=True)).abs())
    longer = torch.cat([words, torch.full((4, 3), 4)], dim=1)
    torch.testing.assert_close(model.embed_captions(longer, lengths), captions)


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_fused_it_is_the_same_function_with_the_same_gradients(norm):
    dataset = SMOKE.dataset()
    both = {}
    for fused in (True, False):
        task = replace(SMOKE, norm=norm, fused=fused)
        model = task.model(0, dataset).double()
        x, y = next(task.batches(dataset, dtype=torch.float64).epoch(0))
        loss = contrastive_loss(*model(Pairs(*(part[0] for part in x))), y[0], task.margin)
        loss.backward()
        both[fused] = {"loss": loss} | {n: p.grad for n, p in model.named_parameters()}
        assert model.reader.opaque is fused
    for name, expected in both[False].items():
        torch.testing.assert_close(both[True][name], expected, rtol=1e-9, atol=1e-12, msg=name)


def test_weights_of_another_vocabulary_are_refused():
    model = make_model()
    other = OrderEmbedding(Vocabulary(["a", "cat", "and", "dog", "big"]), D, H, E, LayerNorm)
    model.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match="another vocabulary"):
        model.load_state_dict(other.double().state_dict())


def test_an_epoch_has_every_image_once_with_one_of_its_captions():
    task = replace(SMOKE, seeds=(0, 1), batch_size=32)
    dataset = task.dataset()
    batches, words = task.batches(dataset), dataset.vocabulary.words
    orders = {}
    for epoch in (0, 1):
        indices = []
        for x, y in batches.epoch(epoch):
            for seed, row in product(range(2), range(32)):
                index, length = int(y[seed, row]), int(x.lengths[seed, row])
                caption = " ".join(words[w] for w in x.words[seed, row, : length - 1])
                assert caption in dataset.train.captions_of(index)
                assert np.allclose(x.features[seed, row], dataset.train.features[index])
                assert not x.words[seed, row, length - 1 :].any()
            indices.append(y)
        orders[epoch] = torch.cat(indices, 1)
        assert all(len(set(row.tolist())) == len(row) == 128 for row in orders[epoch])
    assert not torch.equal(orders[0][0], orders[0][1])
    assert not torch.equal(orders[0], orders[1])
    (_, y), *_ = batches.epoch(1, start=2)
    assert torch.equal(y, orders[1][:, 64:96])
    with pytest.raises(ValueError, match="a batch of 129 cannot be taken from 128 images"):
        replace(task, batch_size=129).batches(dataset)


# --- metrics ---------------------------------------------------------------------------------


def test_ranks_are_those_of_sorting():
    violation = torch.rand(5 * 12, 12)
    v = violation.numpy()
    of_images = [
        1 + min(np.argsort(v[:, p]).tolist().index(5 * p + k) for k in range(5))
        for p in range(12)
    ]
    of_captions = [1 + np.argsort(v[c]).tolist().index(c // 5) for c in range(60)]
    assert [rank.tolist() for rank in evaluate.ranks(violation)] == [of_images, of_captions]


def test_a_model_that_diverged_has_no_rank():
    violation = torch.rand(10, 2)
    violation[3] = torch.nan
    of_images, of_captions = evaluate.ranks(violation)
    assert of_images.isfinite().tolist() == [False, True]
    assert of_captions.isfinite().tolist() == [n != 3 for n in range(10)]


def test_who_finds_everything_is_first_and_who_sees_nothing_is_chance():
    right = 1 - torch.eye(20).repeat_interleave(5, 0)
    metrics = evaluate.retrieval(right, "test", 20)
    assert {metrics[f"test_{way}_r1"] for way in ("caption", "image")} == {100}
    assert metrics["test_image_mean_rank"] == metrics["test_caption_median_rank"] == 1
    blind = evaluate.retrieval(torch.zeros(100, 20), "test", 20)
    assert blind["test_image_mean_rank"] == evaluate.chance(20)["image_mean_rank"] == 10.5
    assert blind["test_image_r10"] == blind["test_image_r1"] == 0


def test_chance_is_what_guessing_gives():
    many = [evaluate.retrieval(torch.rand(100, 20), "t", 20) for _ in range(300)]
    for name, expected in evaluate.chance(20).items():
        mean = np.mean([metrics[f"t_{name}"] for metrics in many])
        assert mean == pytest.approx(expected, rel=0.08), name  # 6,000 guesses


def test_precision_is_of_those_that_it_is_true_of():
    truth = torch.rand(30, 12).numpy() < 0.3
    perfect = evaluate.precision(torch.from_numpy(1.0 - truth), truth, "t")
    assert perfect["t_true_1"] == 100 * np.mean(truth.any(1))
    order = np.argsort(violation := np.random.default_rng(0).random((30, 12)), axis=1)[:, :10]
    metrics = evaluate.precision(torch.from_numpy(violation), truth, "t")
    expected = 100 * np.take_along_axis(truth, order, 1).mean()
    assert metrics["t_true_10"] == pytest.approx(expected)


def test_words_alone_find_what_words_alone_tell():
    dataset = replace(SMOKE, train_size=1000).dataset()
    metrics, chance = evaluate.bag_of_words_baseline(dataset, 500), evaluate.chance(500)
    assert metrics["test_image_r10"] > 10 * chance["image_r10"]
    assert metrics["test_image_mean_rank"] < chance["image_mean_rank"] / 4


def test_the_order_of_captions_is_their_violation_pair_by_pair():
    dataset = SMOKE.dataset()
    model = SMOKE.model(0, dataset)
    metrics = evaluate.order_metrics(model, dataset)
    forth, right = [], []
    for pair in dataset.entailments:
        special, general = evaluate.embed_captions(model, pair, dataset.vocabulary)
        forth.append(float((general - special).clamp(min=0).square().sum()))
        right.append(forth[-1] < float((special - general).clamp(min=0).square().sum()))
    assert metrics["entailment_violation"] == pytest.approx(np.mean(forth), rel=1e-4)  # float32
    assert metrics["direction_accuracy"] == pytest.approx(np.mean(right), abs=0.01)


def test_the_test_is_of_the_best_on_validation(tmp_path):
    task = replace(SMOKE, epochs=3, eval_every=1, learning_rate=0.05)
    list(train_steps(task, root=tmp_path))
    (run,) = read(tmp_path)
    *way, end = run.metrics().to_dict("records")
    assert not any(row["test_image_r1"] == row["test_image_r1"] for row in way)  # NaN
    best = max(row["valid_recall"] for row in way)
    assert best == pytest.approx(end["valid_recall"])
    assert best == pytest.approx(run.result["outcomes"]["0"]["best"]["value"])
    assert way[-1]["valid_recall"] < best, "else this shows nothing"
    assert 0 <= end["test_true_1"] <= 100
