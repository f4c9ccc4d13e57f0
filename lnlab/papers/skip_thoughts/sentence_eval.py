"""Frozen vectors of sentences judged by linear models, as Kiros et al. (2015) judge them.

Every vector is divided by its length and nothing else is done to it. Classes: logistic
regression; for each of ten folds C, of 2^0 ... 2^8, is chosen by ten folds within the nine that
train, and the accuracy is that on the tenth.
Pairs (u, v): features |u - v| and u * v, a softmax over 1 to 5 with the relatedness as soft
label (Tai et al., 2015), C by Pearson's r on the trial pairs; the authors stop early instead.

Whatever is learned of the sentences, the words of a baseline included, is learned of those that
train. Of a baseline the C is the one of most right on the ten folds themselves, which flatters
it: inner folds of bags of words would take longer than all else, and whoever is compared with
them has it no easier.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse, stats
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from lnlab.papers.skip_thoughts.sentence_tasks import (
    FOLDS,
    TEST,
    TRAIN,
    TRIAL,
    SentenceJudge,
    folds,
    splits,
)

# The logistic regressions of judges, for dense vectors, in a fraction of scikit-learn's time.
#
# Two classes: ten folds, ten more within the nine that train, nine strengths of the penalty are
# 990 models. Sets that share most of their cases have nearly one matrix of second derivatives:
# one is made for all, and a step of all models is two products of matrices. At 10,000 vectors
# of
# 256 numbers that is 2.4 s where scikit-learn, one model after the other, takes 85; it fits
# what
# does not arrive. A softmax with soft labels, by scipy, knows the second derivatives near its
# start: 3.9 s where scikit-learn takes 14.5. Tests hold both to scikit-learn's models.


NEAR = 1e-6
"""The gradient of the mean loss at which a fit ends: scores are then those of the optimum to
1e-4."""
LOGISTIC_STEPS = 100
"""Steps of all models; ten are usual, forty were seen."""


def fitted(
    vectors: np.ndarray, targets: np.ndarray, among: np.ndarray, Cs: Sequence[float]
) -> Iterator[np.ndarray]:
    """The models of each C, begun where those of the C before ended.

    Args:
        vectors: (N, D).
        targets: the class of each case, 0 or 1 (N,).
        among: whether a case trains a model (N, K).
        Cs: inverse strengths of the penalty.

    Yields:
        weights (D + 1, K), the last row the bias: :func:`odds` takes them. They change when
        the next are asked for.

    Raises:
        ValueError: if a model's cases have one class only.
    """
    X = np.hstack([vectors, np.ones((len(vectors), 1))])
    among = np.ascontiguousarray(among)
    _both_classes(targets, among)
    W = np.zeros((X.shape[1], among.shape[1]))
    for C in Cs:
        for k in _descended(X, targets, among, C, W):
            W[:, k] = _alone(vectors[among[:, k]], targets[among[:, k]], C)
        yield W


def odds(vectors: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The log odds of weights (D + 1, K), the last row the bias, for vectors (N, K)."""
    return vectors @ W[:-1] + W[-1]


def _both_classes(targets: np.ndarray, among: np.ndarray) -> None:
    of_one = (targets == 1).astype(float) @ among
    if not ((of_one > 0) & (of_one < among.sum(0))).all():
        raise ValueError(
            "a fold trains on cases of one class only: give more cases of the other."
        )


def _descended(
    X: np.ndarray, targets: np.ndarray, among: np.ndarray, C: float, W: np.ndarray
) -> np.ndarray:
    """Move weights to their optimum, in place; the numbers of those that did not arrive."""
    penalty = np.full((len(W), 1), 1 / C)
    penalty[-1] = 0
    p = expit(X @ W.mean(1))
    curvature = among.mean() * (X.T * (p * (1 - p))) @ X + np.diag(penalty.ravel())
    factor, sizes, left = cho_factor(curvature), among.sum(0), np.arange(W.shape[1])
    for _ in range(LOGISTIC_STEPS):
        error = expit(X @ W[:, left])
        error -= targets[:, None]
        error *= among[:, left]
        slope = X.T @ error + penalty * W[:, left]
        far = np.abs(slope).max(0) >= NEAR * sizes[left]
        left = left[far]
        if not len(left):
            break
        W[:, left] -= cho_solve(factor, slope[:, far])
    return left


def _alone(vectors: np.ndarray, targets: np.ndarray, C: float) -> np.ndarray:
    """The weights and the bias of one model, by scikit-learn."""
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=NEAR)
    model.fit(vectors, targets)
    return np.append(model.coef_, model.intercept_)


def softened(
    features: np.ndarray, labels: np.ndarray, Cs: Sequence[float]
) -> Iterator[np.ndarray]:
    """The softmax of each C, least in cross entropy, begun where that of the C before ended.

    L-BFGS, in coordinates in which the second derivatives at the mean label are 1: it needs 20
    to 30 looks, and vectors that are nearly parallel have no smaller gradient than others.

    Args:
        features: (N, D).
        labels: parts of each case in each class (N, K), 1 in all.
        Cs: inverse strengths of the penalty.

    Yields:
        weights (D + 1, K), the last row the bias: :func:`odds` takes them.
    """
    X = np.hstack([features, np.ones((len(features), 1))])
    mean = labels.mean(0)
    spread, of_classes = np.linalg.eigh(np.diag(mean) - np.outer(mean, mean))
    power, of_numbers = np.linalg.eigh(X.T @ X)
    curvature = np.outer(power.clip(0), spread.clip(LEAST))
    W = np.zeros((X.shape[1], labels.shape[1]))
    for C in Cs:
        length = 1 / np.sqrt(curvature + 1 / C)
        turned = _Turned(X, labels, C, of_numbers, of_classes, length)
        near = {"gtol": NEAR * len(X) * length.min(), "ftol": 0, "maxiter": 10 * LOGISTIC_STEPS}
        start = (of_numbers.T @ W @ of_classes / length).ravel()
        found = minimize(turned.loss, start, jac=True, method="L-BFGS-B", options=near)
        W = turned.weights(found.x)
        yield W


LEAST = 1e-3
"""The least spread of classes that is reckoned with: that of their sum is 0."""


@dataclass(frozen=True)
class _Turned:
    """The loss of a softmax in coordinates z of its own.

    Attributes:
        of_numbers, of_classes: their directions (D + 1, D + 1), (K, K).
        length: of each of them (D + 1, K).
    """

    X: np.ndarray
    labels: np.ndarray
    C: float
    of_numbers: np.ndarray
    of_classes: np.ndarray
    length: np.ndarray

    def weights(self, z: np.ndarray) -> np.ndarray:
        turned = self.length * z.reshape(self.length.shape)
        return self.of_numbers @ turned @ self.of_classes.T

    def loss(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        W = self.weights(z)
        pull = W / self.C
        pull[-1] = 0  # a bias costs nothing
        log_p = self.X @ W
        log_p -= logsumexp(log_p, axis=1, keepdims=True)
        slope = self.X.T @ (np.exp(log_p) - self.labels) + pull
        nats = float((pull * W).sum() / 2 - (self.labels * log_p).sum())
        return nats, (self.length * (self.of_numbers.T @ slope @ self.of_classes)).ravel()


Matrix = Any
"""An array, or of bags of words a sparse matrix."""
Seen = Callable[[np.ndarray], Matrix]
"""Vectors of all sentences of a judge, by what is learned of the cases with these numbers."""
Represent = Callable[[SentenceJudge], Seen]

CS = tuple(2.0**power for power in range(9))
SCORES = range(1, 6)
"""The values of relatedness that the softmax tells apart."""


@dataclass(frozen=True)
class Judgement:
    """A judge's verdict on vectors.

    Attributes:
        name: of the judge.
        scores: ``accuracy`` in percent; of pairs ``pearson``, ``spearman`` and ``mse``.
        parts: the first of the scores on each fold, of pairs on each tenth of the test pairs.
        within: half of a 95 % interval around the first score. Models of two folds share most
            cases: the variance is corrected for it (Nadeau and Bengio, 2003).
        C: of each fold, or of all.
    """

    name: str
    scores: Mapping[str, float]
    parts: tuple[float, ...]
    within: float
    C: tuple[float, ...]

    def __str__(self) -> str:
        digits = 1 if "accuracy" in self.scores else 3
        said = ", ".join(f"{name} {score:.{digits}f}" for name, score in self.scores.items())
        return f"{self.name}: {said} (± {self.within:.{digits}f})"


# --- representations -------------------------------------------------------------------------


def words(judge: SentenceJudge) -> Seen:
    """Bags of words: how often each word occurs, divided by the length of that vector."""
    return _bags(judge, CountVectorizer)


def weighted(judge: SentenceJudge) -> Seen:
    """Bags of words, rare words weighing more: TF-IDF."""
    return _bags(judge, TfidfVectorizer)


BASELINES: Mapping[str, Represent] = {"_words": words, "_tfidf": weighted}
"""Bags of words, and TF-IDF, by the ends of the names of metrics."""


def _bags(judge: SentenceJudge, kind: Any) -> Seen:
    said = judge.said

    def seen(rows: np.ndarray) -> Matrix:
        bag = kind(analyzer=list)
        bag.fit([said[row] for row in _places(judge, rows)])
        return normalize(bag.transform(said).astype(np.float64))

    return seen


def _places(judge: SentenceJudge, rows: np.ndarray) -> np.ndarray:
    """The places of the sentences of cases among all of a judge."""
    return np.concatenate([rows, rows + len(judge)]) if judge.pairs else rows


# --- judging ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdicts:
    """The verdicts with each C, one for all folds, and the one with a C of its own."""

    by_C: Mapping[float, Judgement]
    own: Judgement


def judged(judge: SentenceJudge, vectors: np.ndarray) -> Verdicts:
    """The verdicts on frozen vectors; for the one that counts C is chosen for each fold by the
    folds within what trains, of pairs on the trial pairs.

    Args:
        vectors: of all sentences of the judge (N, D).

    Raises:
        ValueError: if they are other than one finite vector a sentence.
    """
    vectors = _checked(judge, vectors)
    if judge.pairs:
        return _related(judge, vectors)
    among, tested = splits(judge)
    right = np.array(
        [
            (((odds(vectors, W) > 0) == judge.targets[:, None]) & tested).sum(0)
            for W in fitted(vectors, judge.targets, among, CS)
        ]
    )
    outer, inner = right[:, :FOLDS], right[:, FOLDS:].reshape(len(CS), FOLDS, FOLDS)
    best = inner.sum(2).argmax(0)
    own = _of_classes(judge, outer[best, range(FOLDS)], [CS[place] for place in best])
    return Verdicts(_by_C(judge, outer), own)


def counted(judge: SentenceJudge, represent: Represent) -> Verdicts:
    """The verdicts on bags of words; the one that counts has the C of most right on the folds,
    the smallest of several, and of pairs on the trial pairs.

    Args:
        represent: one of :data:`BASELINES`.
    """
    seen = represent(judge)
    if judge.pairs:
        return _related(judge, seen(np.flatnonzero(judge.parts == TRAIN)))
    right = np.array([_right(judge, seen, fold) for fold in range(FOLDS)]).T
    by_C = _by_C(judge, right)
    return Verdicts(by_C, by_C[CS[int(right.sum(1).argmax())]])


def _checked(judge: SentenceJudge, vectors: np.ndarray) -> Any:
    """Vectors of a judge's sentences, each of length 1."""
    vectors = np.asarray(vectors, np.float64)
    if vectors.ndim != 2 or len(vectors) != len(judge.said):
        raise ValueError(
            f"{len(judge.said)} sentences have vectors {vectors.shape}: give (N, D)."
        )
    if not np.isfinite(vectors).all():
        raise ValueError(f"vectors of {judge.name} are not finite: has the net diverged?")
    return normalize(vectors)


def _by_C(judge: SentenceJudge, right: np.ndarray) -> dict[float, Judgement]:
    """The verdicts with one C for all folds, of the numbers of right cases (C, FOLDS)."""
    return {C: _of_classes(judge, row, [C] * FOLDS) for C, row in zip(CS, right, strict=True)}


def _of_classes(
    judge: SentenceJudge, right: Sequence[int] | np.ndarray, taken: Sequence[float]
) -> Judgement:
    """The verdict of classes, of the number of right cases in each fold, and its C."""
    sizes = np.bincount(judge.parts, minlength=FOLDS)
    parts = (100 * np.asarray(right) / sizes).tolist()
    whole = float(np.average(parts, weights=sizes))
    within = _half(parts, 1 / FOLDS + 1 / (FOLDS - 1))
    return Judgement(judge.name, {"accuracy": whole}, tuple(parts), within, tuple(taken))


def _right(judge: SentenceJudge, seen: Seen, fold: int) -> list[int]:
    """The number of right cases in one fold with each C, by what is learned of the others."""
    inside, outside = (np.flatnonzero((judge.parts == fold) == of) for of in (False, True))
    vectors, targets, truth = (
        _handy(seen(inside)),
        judge.targets[inside],
        judge.targets[outside],
    )
    if isinstance(vectors, np.ndarray):
        models = fitted(vectors[inside], targets, np.full((len(inside), 1), True), CS)
        told = (odds(vectors[outside], W)[:, 0] > 0 for W in models)
    else:
        told = (model.predict(vectors[outside]) for model in _path(vectors[inside], targets))
    return [int((classes == truth).sum()) for classes in told]


def _handy(vectors: Matrix) -> Matrix:
    """Vectors as an array, where it has less than a million numbers."""
    if isinstance(vectors, np.ndarray) or vectors.shape[0] * vectors.shape[1] >= 1e6:
        return vectors
    return vectors.toarray()


def _path(
    vectors: Matrix, targets: np.ndarray, weights: np.ndarray | None = None
) -> Iterator[Any]:
    """Models of one C after the other, each begun where the last one ended.

    By Newton's method: of vectors that are nearly parallel the gradient is so small that
    L-BFGS ends where it begins.
    """
    model = LogisticRegression(solver="newton-cg", tol=NEAR, warm_start=True, max_iter=STEPS)
    for C in CS:
        with (
            warnings.catch_warnings()
        ):  # at an optimum no step goes on: L-BFGS looks, and stays
            warnings.filterwarnings("ignore", "Line search of Newton", ConvergenceWarning)
            model.set_params(C=C).fit(vectors, targets, sample_weight=weights)
        yield model


STEPS = 500
"""Newton's steps: five are many."""


# --- pairs -----------------------------------------------------------------------------------


def _related(judge: SentenceJudge, vectors: Matrix) -> Verdicts:
    train, trial, test = (np.flatnonzero(judge.parts == part) for part in (TRAIN, TRIAL, TEST))
    features = paired(vectors[: len(judge)], vectors[len(judge) :])
    by_C, agreed = {}, {}
    for C, expected in zip(CS, _expected(features[train], judge.targets[train]), strict=True):
        agreed[C] = _agreement(expected(features[trial]), judge.targets[trial])
        by_C[C] = _of_pairs(judge, expected(features[test]), judge.targets[test], C)
    return Verdicts(by_C, by_C[max(agreed, key=lambda C: agreed[C])])


def _expected(
    features: Matrix, targets: np.ndarray
) -> Iterator[Callable[[Matrix], np.ndarray]]:
    """The mean relatedness (N,) that a softmax over its values gives to features, with each C:
    of bags of words by scikit-learn."""
    cases, classes, weights = soft(targets)
    if not isinstance(features, np.ndarray):
        for model in _path(features[cases], classes, weights):
            yield lambda given, model=model: model.predict_proba(given) @ model.classes_
        return
    values, column = np.unique(classes, return_inverse=True)
    labels = np.zeros((len(targets), len(values)))
    labels[cases, column] = weights
    for W in softened(features, labels, CS):
        yield lambda given, W=W: softmax(odds(given, W), 1) @ values


def _of_pairs(judge: SentenceJudge, told: np.ndarray, truth: np.ndarray, C: float) -> Judgement:
    """The verdict of the test pairs."""
    tenth = folds(judge.name, len(truth))
    parts = [_agreement(told[tenth == k], truth[tenth == k]) for k in range(FOLDS)]
    scores = {
        "pearson": _agreement(told, truth),
        "spearman": _agreement(stats.rankdata(told), stats.rankdata(truth)),
        "mse": float(np.mean((told - truth) ** 2)),
    }
    return Judgement(judge.name, scores, tuple(parts), _half(parts, 1 / FOLDS), (C,))


def paired(u: Matrix, v: Matrix) -> Any:
    """The features of pairs, |u - v| and u * v (N, 2 D)."""
    if isinstance(u, np.ndarray):
        return np.hstack([np.abs(u - v), u * v])
    return sparse.hstack([abs(u - v), u.multiply(v)], format="csr")


def soft(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Relatedness as two classes a case, each with its weight: 3.6 is 3 to 0.4 and 4 to 0.6.

    Returns:
        numbers of cases, classes and weights (2 N,). Their weighted loss is the cross entropy
        with soft labels.
    """
    low = np.floor(targets).clip(SCORES[0], SCORES[-2])
    cases = np.tile(np.arange(len(targets)), 2)
    weights = np.concatenate([low + 1 - targets, targets - low])
    classes = np.concatenate([low, low + 1])
    there = weights > 0
    return cases[there], classes[there], weights[there]


def _agreement(told: np.ndarray, truth: np.ndarray) -> float:
    """Pearson's r; 0 where one of the two does not vary."""
    if np.ptp(told) == 0 or np.ptp(truth) == 0:
        return 0.0
    return float(np.corrcoef(told, truth)[0, 1])


def _half(parts: Sequence[float], factor: float) -> float:
    """Half of a 95 % interval of a mean with the variance of the parts times a factor."""
    return float(_quantile(len(parts) - 1) * np.sqrt(factor * np.var(parts, ddof=1)))


@cache
def _quantile(freedom: int) -> float:
    return float(stats.t.ppf(0.975, freedom))
