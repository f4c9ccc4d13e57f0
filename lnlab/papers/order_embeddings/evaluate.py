"""Pictures found by captions and captions by pictures: ranks, chance, a baseline."""

from collections.abc import Mapping
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lnlab.data import Vocabulary
from lnlab.papers.order_embeddings.data import Captions, Pictures
from lnlab.papers.order_embeddings.model import OrderEmbedding
from lnlab.training import evaluating

AT = (1, 5, 10)
"""K of R@K."""
TOGETHER = 500
"""Captions that are read at a time."""
PENALTIES = (1e-1, 1e0, 1e1, 1e2, 1e3)
"""Values of the linear baseline, among which validation chooses."""
SEEN = 5
"""Training captions that have a word which the baseline knows."""


def points(net: OrderEmbedding, captions: tuple[str, ...], vocabulary: Vocabulary) -> Tensor:
    """Captions as points (C, H), those of like length read together."""
    words, lengths = vocabulary.encoded(captions)
    order = lengths.argsort(stable=True)
    read = []
    with evaluating(net):
        for chosen in order.split(TOGETHER):
            longest = int(lengths[chosen].max())
            some = words[chosen, :longest].to(net.W.device)
            read.append(net.read(some, lengths[chosen]).cpu())
    return torch.cat(read)[order.argsort()]


def seen(net: OrderEmbedding, pictures: Pictures) -> Tensor:
    """Pictures as points (P, H)."""
    with evaluating(net):
        vectors = torch.from_numpy(np.array(pictures.vectors))
        return net.see(vectors.to(net.W.device, net.W.dtype)).cpu()


def violations(captions: Tensor, pictures: Tensor) -> Tensor:
    """The order violation (:func:`.net.penalty`) of every caption by every picture (C, P)."""
    found = captions.new_empty(len(captions), len(pictures))
    for row, caption in zip(found, captions, strict=True):  # one at a time stays in the cache
        beyond = (caption - pictures).clamp_(min=0)
        row.copy_(torch.linalg.vector_norm(beyond, dim=-1).square_())
    return found


def ranks(violation: Tensor) -> tuple[Tensor, Tensor]:
    """The rank of the right one, from 1: of a caption for each picture (P,), of the picture for
    each caption (C,).

    C captions belong to P pictures, as many to each, one picture's after the other's. A
    picture has the rank of the best of its captions. Of those that are as near as the right one
    half come before it: nobody who cannot tell them apart is better than chance. Of a right one
    that is NaN or infinite nobody knows the rank: NaN.

    Args:
        violation: (C, P).
    """
    C, P = violation.shape
    own = torch.arange(C) // (C // P)
    right = violation[torch.arange(C), own]  # (C,)
    before = (violation < right[:, None]).sum(1)
    alike = (violation == right[:, None]).sum(1) - 1
    best = right.view(P, -1).min(1).values  # (P,)
    others = own[:, None] != torch.arange(P)  # (C, P)
    nearer = ((violation < best) & others).sum(0)
    level = ((violation == best) & others).sum(0)
    unknown = torch.tensor(torch.nan)
    return (
        torch.where(best.isfinite(), 1 + nearer + level / 2, unknown),
        torch.where(right.isfinite(), 1 + before + alike / 2, unknown),
    )


def measures(rank: Tensor, prefix: str) -> dict[str, float]:
    """R@1, R@5, R@10 in per cent, mean and median of ranks; the median is rounded down."""
    found = {f"{prefix}_r{K}": 100 * float((rank <= K).double().mean()) for K in AT}
    found[f"{prefix}_mean_rank"] = float(rank.double().mean())
    found[f"{prefix}_median_rank"] = float(np.floor(np.median(rank.numpy())))
    return found


def retrieved(violation: Tensor, prefix: str, fold: int) -> dict[str, float]:
    """Measures in both directions, ``<prefix>_caption_r1`` and so on: means over folds.

    Args:
        violation: (C, P).
        fold: pictures of a fold; a smaller rest is left out, unless there is no other.
    """
    C, P = violation.shape
    each, fold = C // P, min(fold, P)
    found = []
    for start in range(0, P - fold + 1, fold):
        part = slice(start, start + fold)
        of_caption, of_image = ranks(violation[each * start : each * (start + fold), part])
        found.append(
            measures(of_caption, f"{prefix}_caption") | measures(of_image, f"{prefix}_image")
        )
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def chance(pictures: int, each: int = 5) -> dict[str, float]:
    """The measures of somebody who guesses, under the names of :func:`retrieved`.

    Args:
        pictures: P of a fold.
        each: captions of a picture.
    """
    captions = pictures * each
    found = {}
    for K in AT:
        missed = comb(captions - each, K) / comb(captions, K)
        found[f"caption_r{K}"] = 100 * (1 - missed)
        found[f"image_r{K}"] = 100 * K / pictures
    found["caption_mean_rank"] = (captions + 1) / (each + 1)
    found["image_mean_rank"] = (pictures + 1) / 2
    return found


def baseline(dataset: Captions, fold: int = 1000) -> dict[str, float]:
    """The retrieval by words alone, in any order: ridge regression from them to the vectors.

    A caption is the set of its words; a picture is near where the cosine of its standardised
    vector with the regressed one is large. The penalty is the best on validation.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import Ridge

    train, valid, test = dataset.train, dataset.valid, dataset.test
    assert valid is not None  # every source of captions has them
    counting: Any = {"analyzer": str.split, "dtype": np.float64}
    words = CountVectorizer(binary=True, min_df=SEEN, **counting)
    x = words.fit_transform(train.captions)
    mean, spread = train.vectors.mean(0), train.vectors.std(0) + 1e-6

    def standard(pictures: Pictures) -> np.ndarray:
        return (pictures.vectors - mean) / spread

    y = np.repeat(standard(train), len(train.captions) // len(train), axis=0)

    def distances(model: Ridge, pictures: Pictures) -> Tensor:
        guessed, true = model.predict(words.transform(pictures.captions)), standard(pictures)
        guessed /= np.linalg.norm(guessed, axis=1, keepdims=True) + 1e-12
        true = true / (np.linalg.norm(true, axis=1, keepdims=True) + 1e-12)
        return torch.from_numpy(1 - guessed @ true.T)

    models = [
        Ridge(alpha, solver="cholesky", fit_intercept=False).fit(x, y) for alpha in PENALTIES
    ]
    best = max(
        models, key=lambda model: recall(retrieved(distances(model, valid), "valid", fold))
    )
    return retrieved(distances(best, test), "test", fold)


def recall(found: Mapping[str, float], prefix: str = "valid") -> float:
    """R@1 + R@5 + R@10 of image retrieval, 300 at most: what the authors choose a model by."""
    return sum(found[f"{prefix}_image_r{K}"] for K in AT)


def order(net: OrderEmbedding, dataset: Captions) -> dict[str, float]:
    """The degree to which captions keep the order that is known of them; nothing where none is.

    ``entailment_violation``: the mean violation of pairs of which the second is true wherever
    the first is; ``unrelated_violation``: the same with the second of another pair;
    ``direction_accuracy``: the part of the pairs that violate the order less than the other way
    round.
    """
    if not dataset.entailments:
        return {}
    special, general = (
        points(net, texts, dataset.vocabulary)
        for texts in zip(*dataset.entailments, strict=True)
    )
    forth = (general - special).relu().square().sum(1)
    back = (special - general).relu().square().sum(1)
    strange = (general.roll(1 + len(general) // 2, 0) - special).relu().square().sum(1)
    return {
        "entailment_violation": float(forth.mean()),
        "unrelated_violation": float(strange.mean()),
        "direction_accuracy": float((forth < back).double().mean()),
    }


def truth(violation: Tensor, true: np.ndarray | None, prefix: str) -> dict[str, float]:
    """The part of the first picture, and of the first ten, of which a caption is true.

    Args:
        violation: (C, P).
        true: whether each caption is true of each picture (C, P); None where nobody knows.
    """
    if true is None:
        return {}
    nearest = violation.topk(min(10, violation.shape[1]), largest=False).indices
    right = torch.from_numpy(true).gather(1, nearest).double()
    return {
        f"{prefix}_true_1": 100 * float(right[:, 0].mean()),
        f"{prefix}_true_10": 100 * float(right.mean()),
    }


def measured(
    net: OrderEmbedding, dataset: Captions, *, fold: int, test: bool
) -> dict[str, float]:
    """All that is measured of a net: on the first ``fold`` validation pictures, and, with
    ``test``, on the test."""
    found: dict[str, float] = {}
    for split in ("valid", "test") if test else ("valid",):
        pictures: Pictures = getattr(dataset, split)
        violation = violations(
            points(net, pictures.captions, dataset.vocabulary), seen(net, pictures)
        )
        if split == "valid":  # the first fold alone, as the authors do
            each = len(pictures.captions) // len(pictures)
            violation = violation[: each * fold, :fold]
            found |= retrieved(violation, split, fold)
            found["valid_recall"] = recall(found)
            found |= order(net, dataset)
        else:
            found |= retrieved(violation, split, fold)
            found |= truth(violation, dataset.true(pictures.captions, split), split)
    return found
