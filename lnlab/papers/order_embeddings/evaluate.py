"""Images found by captions and captions by images: ranks, chance, a baseline."""

from collections.abc import Mapping
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lnlab.data import Vocabulary
from lnlab.papers.order_embeddings.data import PER_IMAGE, CaptionedImages, Captions
from lnlab.papers.order_embeddings.model import OrderEmbedding
from lnlab.training import evaluation_mode

TOP_K = (1, 5, 10)  # K of R@K
BATCH = 500  # captions that are read at once
PENALTIES = (1e-1, 1e0, 1e1, 1e2, 1e3)
"""Ridge penalties of the baseline, among which validation chooses."""
MIN_COUNT = 5  # training captions that contain a word, for the baseline to use it


def embed_captions(
    net: OrderEmbedding, captions: tuple[str, ...], vocabulary: Vocabulary
) -> Tensor:
    """Return captions as points (C, H); those of like length are read at once."""
    words, lengths = vocabulary.encode_batch(captions)
    order = lengths.argsort(stable=True)
    points = []
    with evaluation_mode(net):
        for chosen in order.split(BATCH):
            longest = int(lengths[chosen].max())
            batch = words[chosen, :longest].to(net.W.device)
            points.append(net.embed_captions(batch, lengths[chosen]).cpu())
    return torch.cat(points)[order.argsort()]


def embed_images(net: OrderEmbedding, images: CaptionedImages) -> Tensor:
    """Return images as points (P, H)."""
    with evaluation_mode(net):
        features = torch.from_numpy(np.array(images.features))
        return net.embed_images(features.to(net.W.device, net.W.dtype)).cpu()


def low_memory_order_violation_matrix(captions: Tensor, images: Tensor) -> Tensor:
    """Return :func:`.model.order_violation_matrix` (C, P), in less memory."""
    violations = captions.new_empty(len(captions), len(images))
    for row, caption in zip(violations, captions, strict=True):  # a row fits the cache
        beyond = (caption - images).clamp_(min=0)
        row.copy_(torch.linalg.vector_norm(beyond, dim=-1).square_())
    return violations


def best_caption_and_image_ranks(violation_matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ranks of images by their best caption (P,), and of captions (C,).

    Of violations (C, P), each image with C / P captions. Ranks begin at 1. Half of the ties
    count as nearer: a model that cannot distinguish images is no better than chance. A right
    pair that is NaN or infinite has the rank NaN.
    """
    C, P = violation_matrix.shape
    image = torch.arange(C) // (C // P)
    right = violation_matrix[torch.arange(C), image]  # (C,)
    nearer = (violation_matrix < right[:, None]).sum(1)
    ties = (violation_matrix == right[:, None]).sum(1) - 1
    best = right.view(P, -1).min(1).values  # (P,)
    others = image[:, None] != torch.arange(P)  # (C, P)
    nearer_captions = ((violation_matrix < best) & others).sum(0)
    tied_captions = ((violation_matrix == best) & others).sum(0)
    unknown = torch.tensor(torch.nan)
    return (
        torch.where(best.isfinite(), 1 + nearer_captions + tied_captions / 2, unknown),
        torch.where(right.isfinite(), 1 + nearer + ties / 2, unknown),
    )


def percent_recalls_and_mean_rank(ranks: Tensor, prefix: str) -> dict[str, float]:
    """Return R@1, R@5 and R@10 in per cent, and the mean rank."""
    metrics = {f"{prefix}_r{K}": 100 * float((ranks <= K).double().mean()) for K in TOP_K}
    return metrics | {f"{prefix}_mean_rank": float(ranks.double().mean())}


def mean_retrieval_metrics_over_folds(
    violation_matrix: Tensor, prefix: str, fold_size: int
) -> dict[str, float]:
    """Return the metrics of both directions, ``<prefix>_caption_r1`` ...: means over folds.

    A fold has ``fold_size`` images; a smaller last fold is left out, unless it is the only one.
    """
    C, P = violation_matrix.shape
    each, fold_size = C // P, min(fold_size, P)
    folds = []
    for start in range(0, P - fold_size + 1, fold_size):
        rows = slice(each * start, each * (start + fold_size))
        of_images, of_captions = best_caption_and_image_ranks(
            violation_matrix[rows, start : start + fold_size]
        )
        folds.append(
            percent_recalls_and_mean_rank(of_images, f"{prefix}_caption")
            | percent_recalls_and_mean_rank(of_captions, f"{prefix}_image")
        )
    return {name: float(np.mean([metrics[name] for metrics in folds])) for name in folds[0]}


def image_retrieval_recall_sum(metrics: Mapping[str, float], prefix: str = "valid") -> float:
    """Return R@1 + R@5 + R@10 of image retrieval, at most 300, which selects the model."""
    return sum(metrics[f"{prefix}_image_r{K}"] for K in TOP_K)


def chance_retrieval_metrics(num_images: int) -> dict[str, float]:
    """Return the expected metrics of guessing in a fold of so many images."""
    captions = num_images * PER_IMAGE
    metrics = {}
    for K in TOP_K:
        missed = comb(captions - PER_IMAGE, K) / comb(captions, K)
        metrics[f"caption_r{K}"] = 100 * (1 - missed)
        metrics[f"image_r{K}"] = 100 * K / num_images
    metrics["caption_mean_rank"] = (captions + 1) / (PER_IMAGE + 1)
    metrics["image_mean_rank"] = (num_images + 1) / 2
    return metrics


def bag_of_words_ridge_metrics(dataset: Captions, fold_size: int = 1000) -> dict[str, float]:
    """Return the test metrics of ridge regression from a caption's set of words to features.

    Distances are by the cosine of standardised and predicted features. Validation selects the
    penalty.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import Ridge

    train, valid, test = dataset.train, dataset.valid, dataset.test
    assert valid is not None  # every source of captions has them
    settings: Any = {"analyzer": str.split, "dtype": np.float64}
    words = CountVectorizer(binary=True, min_df=MIN_COUNT, **settings)
    x = words.fit_transform(train.captions_in_image_order)
    mean, std = train.features.mean(0), train.features.std(0) + 1e-6

    def standardized_features(images: CaptionedImages) -> np.ndarray:
        return (images.features - mean) / std

    def predicted_true_cosine_distance_matrix(model: Ridge, images: CaptionedImages) -> Tensor:
        predicted, true = (
            model.predict(words.transform(images.captions_in_image_order)),
            standardized_features(images),
        )
        predicted /= np.linalg.norm(predicted, axis=1, keepdims=True) + 1e-12
        true = true / (np.linalg.norm(true, axis=1, keepdims=True) + 1e-12)
        return torch.from_numpy(1 - predicted @ true.T)

    y = np.repeat(standardized_features(train), PER_IMAGE, axis=0)
    models = [
        Ridge(alpha, solver="cholesky", fit_intercept=False).fit(x, y) for alpha in PENALTIES
    ]
    best = max(
        models,
        key=lambda m: image_retrieval_recall_sum(
            mean_retrieval_metrics_over_folds(
                predicted_true_cosine_distance_matrix(m, valid), "valid", fold_size
            )
        ),
    )
    return mean_retrieval_metrics_over_folds(
        predicted_true_cosine_distance_matrix(best, test), "test", fold_size
    )


def entailment_violation_metrics(net: OrderEmbedding, dataset: Captions) -> dict[str, float]:
    """Return how well captions keep their known order; {} where none is known.

    ``entailment_violation``: the mean violation of pairs of which the second is true wherever
    the first is; ``unrelated_violation``: the same with the second of another pair;
    ``direction_accuracy``: the fraction of the pairs that violate the order less than the other
    way round.
    """
    if not dataset.entailing_and_entailed_captions:
        return {}
    special, general = (
        embed_captions(net, texts, dataset.vocabulary)
        for texts in zip(*dataset.entailing_and_entailed_captions, strict=True)
    )
    forth = (general - special).relu().square().sum(1)
    back = (special - general).relu().square().sum(1)
    # half of the list away: of another caption
    unrelated = general.roll(1 + len(general) // 2, 0)
    return {
        "entailment_violation": float(forth.mean()),
        "unrelated_violation": float((unrelated - special).relu().square().sum(1).mean()),
        "direction_accuracy": float((forth < back).double().mean()),
    }


def retrieval_and_entailment_metrics(
    net: OrderEmbedding, dataset: Captions, *, fold_size: int, include_test: bool
) -> dict[str, float]:
    """Return the metrics of a model: of the first ``fold_size`` validation images, as the
    authors have it, and with ``include_test`` of the test."""

    def violation_matrix_of(images: CaptionedImages) -> Tensor:
        captions = embed_captions(net, images.captions_in_image_order, dataset.vocabulary)
        return low_memory_order_violation_matrix(captions, embed_images(net, images))

    assert dataset.valid is not None  # every source of captions has them
    violation = violation_matrix_of(dataset.valid)[: PER_IMAGE * fold_size, :fold_size]
    metrics = mean_retrieval_metrics_over_folds(violation, "valid", fold_size)
    metrics["valid_recall"] = image_retrieval_recall_sum(metrics)
    metrics |= entailment_violation_metrics(net, dataset)
    if include_test:
        metrics |= mean_retrieval_metrics_over_folds(
            violation_matrix_of(dataset.test), "test", fold_size
        )
    return metrics
