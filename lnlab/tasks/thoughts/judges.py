"""Frozen vectors of sentences judged by linear models, as Kiros et al. (2015) judge them.

Every vector is divided by its length and nothing else is done to it. Classes: logistic
regression, C of 2^0 ... 2^8 by ten folds within the nine that train, the accuracy on the tenth;
along a training one C for all folds (:func:`with_each`).
Pairs (u, v): features |u - v| and u * v, a softmax over 1 to 5 with the relatedness as soft
label (Tai et al., 2015), C by Pearson's r on the trial pairs; the authors stop early instead.

Whatever is learned of the sentences, the words of a baseline included, is learned of those that
train.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from lnlab.data import SentenceJudge
from lnlab.data.cutting import Sentences
from lnlab.data.judge import FOLDS, TEST, TRAIN, TRIAL, folds

Matrix = Any
"""An array, or of bags of words a sparse matrix."""
Encode = Callable[[Sentences], Any]
"""Vectors (N, D) of sentences (N), each a list of words."""
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


def frozen(encode: Encode) -> Represent:
    """The vectors of an encoder, which learns nothing of a judge.

    Raises:
        ValueError: later, if it gives other than one finite vector a sentence.
    """

    def seen(judge: SentenceJudge) -> Seen:
        vectors = np.asarray(encode(judge.said), np.float64)
        if vectors.ndim != 2 or len(vectors) != len(judge.said):
            raise ValueError(
                f"{len(judge.said)} sentences have vectors {vectors.shape}: give (N, D)."
            )
        if not np.isfinite(vectors).all():
            raise ValueError(f"vectors of {judge.name} are not finite: has the net diverged?")
        vectors = normalize(vectors)
        return lambda rows: vectors

    return seen


def words(judge: SentenceJudge) -> Seen:
    """Bags of words: how often each word occurs, divided by the length of that vector."""
    return _bags(judge, CountVectorizer)


def weighted(judge: SentenceJudge) -> Seen:
    """Bags of words, rare words weighing more: TF-IDF."""
    return _bags(judge, TfidfVectorizer)


BASELINES: Mapping[str, Represent] = {"bag of words": words, "TF-IDF": weighted}


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


def judged(judge: SentenceJudge, represent: Represent) -> Judgement:
    """The verdict on a representation of a judge's sentences, C chosen for each fold anew.

    Args:
        represent: :func:`frozen` of an encoder, or one of :data:`BASELINES`.

    Raises:
        ValueError: as :func:`frozen`.
    """
    seen = represent(judge)
    if judge.pairs:
        every = _related(judge, seen, CS)
        return every.by_C[every.C]
    cases, right, taken = np.arange(len(judge)), [], []
    for fold in range(FOLDS):
        inside = np.flatnonzero(judge.parts != fold)
        within = folds(f"{judge.name} within {fold}", len(inside))
        taken.append(_best(_right(judge, seen, inside, within, CS), CS))
        right.append(_right_of(judge, seen, cases, judge.parts, fold, taken[-1:])[0])
    return _of_classes(judge, right, taken)


@dataclass(frozen=True)
class WithEach:
    """The verdicts on a representation by C, and the C of which most is right: of classes on
    the folds, the smallest of several; of pairs on the trial pairs."""

    by_C: Mapping[float, Judgement]
    C: float


def with_each(judge: SentenceJudge, represent: Represent, Cs: Sequence[float] = CS) -> WithEach:
    """The verdicts with each C, one for all folds.

    Args:
        represent: as of :func:`judged`.
        Cs: the inverse strengths of the penalty, weaker and weaker.

    Raises:
        ValueError: for a C that is not above 0; as :func:`frozen`.
    """
    if not all(C > 0 for C in Cs):
        raise ValueError(f"C is one of {Cs}: give numbers above 0.")
    seen = represent(judge)
    if judge.pairs:
        return _related(judge, seen, Cs)
    right = _right(judge, seen, np.arange(len(judge)), judge.parts, Cs)
    by_C = {C: _of_classes(judge, of, [C] * FOLDS) for C, of in zip(Cs, right.T, strict=True)}
    return WithEach(by_C, _best(right, Cs))


def _of_classes(
    judge: SentenceJudge, right: Sequence[int] | np.ndarray, taken: Sequence[float]
) -> Judgement:
    """The verdict of classes, of the number of right cases in each fold, and its C."""
    sizes = np.bincount(judge.parts, minlength=FOLDS)
    parts = (100 * np.asarray(right) / sizes).tolist()
    whole = float(np.average(parts, weights=sizes))
    within = _half(parts, 1 / FOLDS + 1 / (FOLDS - 1))
    return Judgement(judge.name, {"accuracy": whole}, tuple(parts), within, tuple(taken))


def _right(
    judge: SentenceJudge, seen: Seen, cases: np.ndarray, parts: np.ndarray, Cs: Sequence[float]
) -> np.ndarray:
    """The number of cases that are right in each fold, whose models were not fitted to them,
    with each C (FOLDS, C).

    Args:
        parts: the fold of each case.
    """
    return np.array([_right_of(judge, seen, cases, parts, fold, Cs) for fold in range(FOLDS)])


def _right_of(
    judge: SentenceJudge,
    seen: Seen,
    cases: np.ndarray,
    parts: np.ndarray,
    fold: int,
    Cs: Sequence[float],
) -> list[int]:
    """The number of right cases in one fold with each C."""
    inside, outside = cases[parts != fold], cases[parts == fold]
    vectors = seen(inside)
    truth = judge.targets[outside]
    models = _path(vectors[inside], judge.targets[inside], Cs)
    return [int((model.predict(vectors[outside]) == truth).sum()) for model in models]


def _best(right: np.ndarray, Cs: Sequence[float]) -> float:
    """The C with which most cases of all folds are right."""
    return float(Cs[int(right.sum(0).argmax())])


def _path(
    vectors: Matrix,
    targets: np.ndarray,
    Cs: Iterable[float],
    weights: np.ndarray | None = None,
) -> Iterator[Any]:
    """Models of one C after the other, each begun where the last one ended.

    By Newton's method: of vectors that are nearly parallel the gradient is so small that
    L-BFGS ends where it begins. A matrix of second derivatives is made where it is small.
    """
    small = isinstance(vectors, np.ndarray) and weights is None and vectors.shape[1] < SMALL
    model = LogisticRegression(
        solver="newton-cholesky" if small else "newton-cg",
        tol=NEAR,
        warm_start=True,
        max_iter=STEPS,
    )
    for C in Cs:
        with (
            warnings.catch_warnings()
        ):  # at an optimum no step goes on: L-BFGS looks, and stays
            warnings.filterwarnings("ignore", "Line search of Newton", ConvergenceWarning)
            model.set_params(C=C).fit(vectors, targets, sample_weight=weights)
        yield model


NEAR = 1e-6
"""The gradient of the mean loss at which a fit ends: scores are then those of the optimum to
1e-4."""
STEPS = 500
"""Newton's steps: five are many."""
SMALL = 1000
"""Numbers of a vector up to which two classes have a matrix of second derivatives."""


# --- pairs -----------------------------------------------------------------------------------


def _related(judge: SentenceJudge, seen: Seen, Cs: Sequence[float]) -> WithEach:
    train, trial, test = (np.flatnonzero(judge.parts == part) for part in (TRAIN, TRIAL, TEST))
    vectors = seen(train)
    features = paired(vectors[: len(judge)], vectors[len(judge) :])
    cases, classes, weights = soft(judge.targets[train])
    by_C, agreed = {}, {}
    for C, model in zip(Cs, _path(features[train][cases], classes, Cs, weights), strict=True):
        agreed[C] = _agreement(expected(model, features[trial]), judge.targets[trial])
        by_C[C] = _of_pairs(judge, expected(model, features[test]), judge.targets[test], C)
    return WithEach(by_C, max(agreed, key=lambda C: agreed[C]))


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


def expected(model: Any, features: Any) -> np.ndarray:
    """The mean relatedness (N,) of a softmax over its values."""
    return model.predict_proba(features) @ model.classes_


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
