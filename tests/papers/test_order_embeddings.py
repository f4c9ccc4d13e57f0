"""Order embeddings: files, the truth of scenes, violation, loss, ranks and the model."""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from lnlab import data
from lnlab.data import Vocabulary
from lnlab.papers import order_embeddings
from lnlab.papers.order_embeddings import data as captions
from lnlab.papers.order_embeddings import evaluate
from lnlab.papers.order_embeddings.data import (
    CategoriesAndBoxes,
    is_true_of_scene,
    parse_caption,
)
from lnlab.papers.order_embeddings.model import (
    ImageCaptionPairs,
    OrderEmbedding,
    contrastive_loss,
    order_violation_matrix,
)
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "captions", **options)


# --- files ------------------------------------------------------------------------------------


def test_the_authors_layout_is_read_as_it_is_and_features_stay_on_disk(tmp_path):
    coco = load(f"coco={layouts.coco(tmp_path)}")
    assert [len(split) for split in (coco.train, coco.valid, coco.test)] == [3, 3, 3]
    assert coco.test.captions_of_image(1)[4] == "a test dog 4 sits on picture 1"
    expected = np.load(tmp_path / "images" / "10crop" / "val.npy")
    assert isinstance(coco.valid.features, np.memmap)
    assert np.array_equal(coco.valid.features, expected)
    assert ("val" in coco.vocabulary, "test" in coco.vocabulary) == (True, False)
    (tmp_path / "val.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"val\.txt is not there: its files are train"):
        load(f"coco={tmp_path}")


def test_boxes_are_the_things_of_their_image(tmp_path, monkeypatch):
    monkeypatch.setattr(captions, "HELD_OUT", 2)
    coco = load(f"coco-boxes={layouts.coco_boxes(tmp_path)}")
    assert coco.categories == ("person", "dog")
    splits = coco.train, coco.valid, coco.test
    assert [len(split) for split in splits] == [3, 2, 2]
    names = [name for split in splits for name in split.image_names]
    assert sorted(names) == [f"{n:012}.jpg" for n in range(7)]  # the eighth has no things
    n = int(coco.test.image_names[0][:-4])
    assert coco.test.captions_of_image(0)[2] == f"a man and 2 dogs picture {n}"
    expected = [[n / 100, 0, (n + 50) / 100, 0.5], [0.1, 0.2, 0.4, 0.4]]
    assert np.allclose(coco.test.boxes[0].left_top_right_bottom, expected)
    other = load(f"coco-boxes={tmp_path}", split=1)
    assert {*other.test.image_names} != {*coco.test.image_names}
    path = tmp_path / "boxes" / "coco_val2017.txt"
    boxes = path.read_text()
    for line in ("7.jpg 1 2 3 4 1", "1 2 3 4 3"):
        path.write_text(f"{boxes}000000000001.jpg {line}\n")
        with pytest.raises(ValueError, match=r"line 9: .* a category from 1 to 2"):
            _ = load(f"coco-boxes={tmp_path}").train


def test_the_features_of_boxes_are_counts_areas_and_centres():
    boxes = CategoriesAndBoxes(np.array([1, 1]), np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5]]))
    expected = [0, np.log(3), 0, 0, 0.5**0.5, 0, 0, 0, 0, 0, -0.5, 0]
    assert np.allclose(captions.image_features_from_boxes(boxes, 3), expected)


def test_damaged_features_are_named(tmp_path):
    layouts.coco(tmp_path)
    path = tmp_path / "images" / "10crop" / "train.npy"
    features = np.load(path)
    for array, message in (
        (features[:2], r"train.txt .*2 images have 15 captions, expected 5"),
        (np.array([{}, features], object), "train.npy is damaged"),
    ):
        np.save(path, array)
        with pytest.raises(ValueError, match=message):
            _ = load(f"coco={tmp_path}").train


# --- scenes -----------------------------------------------------------------------------------


def test_truth_is_of_different_things_and_entailment_keeps_it():
    rng = random.Random("test")
    scenes = [captions.random_scene(rng) for _ in range(40)]
    meanings = [captions.random_true_caption(rng, scenes[n % 40], n % 5) for n in range(120)]
    true = {m: np.array([is_true_of_scene(m, scene) for scene in scenes]) for m in meanings}
    assert all(true[meaning][n % 40] for n, meaning in enumerate(meanings))  # of its own scene
    assert [parse_caption(str(meaning)) for meaning in meanings] == meanings
    pairs = [(m, n) for m in true for n in true if m != n and m.entails(n)]
    assert len(pairs) > 100
    assert all(not (true[special] & ~true[general]).any() for special, general in pairs)
    assert all(m.entails(wider) for m in true for wider in m.one_step_generalizations())
    corners = np.array([[0.1, 0.1, 0.4, 0.4], [0.6, 0.1, 0.7, 0.2]])
    kinds = [captions.CATEGORIES.index(name) for name in ("red heart", "blue square")]
    scene = CategoriesAndBoxes(np.array(kinds), corners)
    for caption, expected in (
        ("a large red heart left of a small square", True),
        ("a cool polygon right of a curve", True),
        ("a heart", True),
        ("a heart and a heart", False),  # there is one
        ("a square left of a heart", False),
        ("a heart above a square", False),
        ("a small heart", False),
    ):
        assert is_true_of_scene(parse_caption(caption), scene) == expected, caption
    for text in ("", "a dog", "a star and a star and a star", "a ring beside"):
        with pytest.raises(ValueError, match=r"small red heart|two things"):
            parse_caption(text)


# --- the model --------------------------------------------------------------------------------

H, D, E = 6, 5, 4
VOCABULARY = Vocabulary(["a", "dog", "and", "cat", "big"])
SMOKE = order_embeddings.Experiment.budget("smoke", seeds=(0,))


def make_model(vocabulary=VOCABULARY, **settings):
    torch.manual_seed(3)
    config = order_embeddings.Experiment(units=(H,), embedding_size=E, **settings)
    return OrderEmbedding(config, vocabulary, D).double()


def test_violation_and_loss_are_their_formulas_pair_by_pair():
    points, images, margin = torch.rand(4, H), torch.rand(4, H), 0.3
    cost = order_violation_matrix(points, images)
    for c, p in product(range(4), range(4)):
        excess = [max(0.0, float(s - i)) ** 2 for s, i in zip(points[c], images[p])]  # noqa: B905
        assert float(cost[c, p]) == pytest.approx(sum(excess))
    torch.testing.assert_close(evaluate.low_memory_order_violation_matrix(points, images), cost)
    indices = torch.tensor([0, 1, 2, 1])  # one image is there twice
    expected = 0.0
    for i, j in product(range(4), range(4)):
        if indices[i] != indices[j]:
            expected += max(0.0, float(margin + cost[i, i] - cost[i, j]))  # another image
            expected += max(0.0, float(margin + cost[j, j] - cost[i, j]))  # another caption
    assert expected > 0
    assert float(contrastive_loss(points, images, indices, margin)) == pytest.approx(expected)


@pytest.mark.parametrize(("norm", "unit"), [("none", True), ("layer", False)])
def test_points_are_the_formula_and_padding_enters_nothing(norm, unit):
    texts = ["a dog and a big cat", "cat", "a dog", "a new cat"]
    words, lengths = VOCABULARY.encode_batch(texts)
    features, model = torch.randn(4, D), make_model(norm=norm, normalize_captions=unit)
    points, images = model(ImageCaptionPairs(features, words, lengths))
    for row, length in enumerate(lengths.tolist()):
        h = model.reader(model.word[words[row, :length]].unsqueeze(1))[1][-1, 0]
        expected = (h / h.norm() if unit else h).abs()
        torch.testing.assert_close(points[row], expected, rtol=0, atol=1e-12)  # other order
    linear = features @ model.W.T + model.b
    torch.testing.assert_close(images, (linear / linear.norm(dim=1, keepdim=True)).abs())
    longer = torch.cat([words, torch.full((4, 3), 4)], dim=1)
    torch.testing.assert_close(model.embed_captions(longer, lengths), points)


def test_weights_of_another_vocabulary_are_refused():
    model = make_model()
    model.load_state_dict(model.state_dict())
    other = make_model(vocabulary=Vocabulary(["a", "cat", "and", "dog", "big"]))
    with pytest.raises(ValueError, match="another vocabulary"):
        model.load_state_dict(other.state_dict())


def test_an_epoch_has_every_image_once_with_one_of_its_captions():
    experiment = replace(SMOKE, seeds=(0, 1), batch_size=32)
    dataset = experiment.dataset()
    batches, words = experiment.training_batches(dataset), dataset.vocabulary.words
    orders, numbers = {}, set()
    for epoch in (0, 1):
        indices = []
        for x, y in batches.batches_of_epoch(epoch):
            for seed, row in product(range(2), range(32)):
                index, length = int(y[seed, row]), int(x.caption_lengths[seed, row])
                caption = " ".join(words[w] for w in x.word_ids[seed, row, : length - 1])
                numbers.add(dataset.train.captions_of_image(index).index(caption))
                assert np.allclose(x.features[seed, row], dataset.train.features[index])
                assert not x.word_ids[seed, row, length - 1 :].any()
            indices.append(y)
        orders[epoch] = torch.cat(indices, 1)
        assert all(sorted(row.tolist()) == [*range(128)] for row in orders[epoch])
    assert numbers == {*range(5)}
    assert not torch.equal(orders[0][0], orders[0][1])
    assert not torch.equal(orders[0], orders[1])
    (_, y), *_ = batches.batches_of_epoch(1, start=2)
    assert torch.equal(y, orders[1][:, 64:96])
    with pytest.raises(ValueError, match="a batch of 129 cannot be taken from 128 images"):
        replace(experiment, batch_size=129).training_batches(dataset)


# --- metrics ----------------------------------------------------------------------------------


def test_ranks_are_those_of_sorting_and_a_diverged_model_has_none():
    violation = torch.rand(5 * 12, 12)
    v = violation.numpy()
    of_images = [
        1 + min(np.argsort(v[:, p]).tolist().index(5 * p + k) for k in range(5))
        for p in range(12)
    ]
    of_captions = [1 + np.argsort(v[c]).tolist().index(c // 5) for c in range(60)]
    assert [rank.tolist() for rank in evaluate.best_caption_and_image_ranks(violation)] == [
        of_images,
        of_captions,
    ]
    violation[3] = torch.nan
    images, points = evaluate.best_caption_and_image_ranks(violation)
    assert images.isfinite().tolist() == [p != 0 for p in range(12)]
    assert points.isfinite().tolist() == [c != 3 for c in range(60)]


def test_a_perfect_model_is_first_and_a_blind_one_is_chance():
    perfect = evaluate.mean_retrieval_metrics_over_folds(
        1 - torch.eye(20).repeat_interleave(5, 0), "test", 10
    )
    assert {perfect[f"test_{way}_r1"] for way in ("caption", "image")} == {100}
    assert perfect["test_image_mean_rank"] == 1
    blind = evaluate.mean_retrieval_metrics_over_folds(torch.zeros(100, 20), "test", 20)
    assert (
        blind["test_image_mean_rank"]
        == evaluate.chance_retrieval_metrics(20)["image_mean_rank"]
        == 10.5
    )
    assert blind["test_image_r10"] == blind["test_image_r1"] == 0
    random_ones = [
        evaluate.mean_retrieval_metrics_over_folds(torch.rand(100, 20), "t", 20)
        for _ in range(300)
    ]
    for name, expected in evaluate.chance_retrieval_metrics(20).items():
        mean = np.mean([metrics[f"t_{name}"] for metrics in random_ones])
        assert mean == pytest.approx(expected, rel=0.08), name  # 6,000 guesses


def test_the_order_of_captions_is_their_violation_pair_by_pair():
    dataset = SMOKE.dataset()
    model = SMOKE.model(0, dataset)
    metrics = evaluate.entailment_violation_metrics(model, dataset)
    violations, right = [], []
    for pair in dataset.entailing_and_entailed_captions:
        special, general = evaluate.embed_captions(model, pair, dataset.vocabulary)
        violations.append(float((general - special).clamp(min=0).square().sum()))
        right.append(violations[-1] < float((special - general).clamp(min=0).square().sum()))
    mean = pytest.approx(np.mean(violations), rel=1e-4)  # float32
    assert metrics["entailment_violation"] == mean
    assert metrics["direction_accuracy"] == pytest.approx(np.mean(right), abs=0.01)
