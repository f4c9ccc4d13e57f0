"""Held-out nats of skip-thoughts, and the scores of its frozen vectors on downstream tasks.

Vectors are scored by linear models, as Kiros et al. (2015) do it, after each is divided by its
norm. Classes: logistic regression; for each of ten folds C, of 2^0 ... 2^8, is selected by ten
inner folds, and the accuracy is that on the outer one. Pairs (u, v): features |u - v| and
u * v, a softmax over 1 to 5 with the relatedness as soft label (Tai et al., 2015), C by
Pearson's r on the trial pairs; the authors stop early instead.

Everything is learned from training sentences alone, the words of a baseline included. The C of
a baseline is the best on the outer folds themselves, which favours the baseline: inner folds of
bags of words would take longer than everything else.

scikit-learn is imported when it is needed: claims are read without it.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy import sparse, stats
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from torch import nn

from lnlab.data.cache import cache_arrays
from lnlab.data.vocabulary import Vocabulary
from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.papers.skip_thoughts.downstream import (
    FOLDS,
    TEST,
    TRAIN,
    TRIAL,
    SentenceTask,
    nested_fold_train_and_test_masks,
)
from lnlab.papers.skip_thoughts.model import SkipThoughts, batch_indices_by_length
from lnlab.training import Evaluation
from lnlab.training.random_state import move_to_device

if TYPE_CHECKING:
    from lnlab.papers.skip_thoughts.experiment import Experiment
    from lnlab.training.runs import Run

HELD_OUT = 1000  # held-out sentences that are used, spread evenly over all of them
BY = "_C"  # the end of the name of a metric of one C for all folds, before this C
NESTED, BEST = "_nested", "_best"
"""The ends of the names of metrics whose C inner folds select, or the outer folds."""
ENDS = {"accuracy": "", "pearson": "_r", "spearman": "_rho", "mse": "_mse"}
"""The ends of the names of metrics."""
WEIGHTS = "weights "  # the beginning of the names of pictures that are weights


@torch.no_grad()
def held_out_nats_per_word(net: SkipThoughts, books: EncodedBooks) -> float:
    """Return the nats per word of the neighbours of held-out sentences."""
    chosen = books.valid[:: max(1, len(books.valid) // HELD_OUT)][:HELD_OUT]
    lengths = books.lengths[chosen].tolist()
    device = net.word.device
    nats, words = 0.0, 0
    for batch in batch_indices_by_length([range(length) for length in lengths]):
        triples = move_to_device(books.sentence_triples(chosen[batch]), device)
        nats += float(net(triples).double().sum())
        words += int(triples.neighbour_lengths.sum())
    return nats / words


# Logistic regressions of two classes, in a fraction of scikit-learn's time.
#
# Ten outer folds, ten inner folds in each, nine penalties: 990 models. Training sets that share
# most of their examples have nearly the same Hessian: one serves all, and a step of all models
# is two matrix products. For 10,000 vectors of 256 numbers this takes 2.4 s, scikit-learn's
# models one after the other 85 s. scikit-learn fits the models that do not converge.

TOLERANCE = 1e-6
"""The gradient of the mean loss at which a fit ends; scores are then exact to 1e-4."""
NEWTON_STEPS = 100  # the most steps; ten are usual, forty occur
CS = tuple(2.0**power for power in range(9))


def logistic_regression_weights_per_C(
    vectors: np.ndarray, targets: np.ndarray, train_masks: np.ndarray, Cs: Sequence[float]
) -> Iterator[np.ndarray]:
    """Yield K logistic regressions for each C, started from those of the C before.

    Of vectors (N, D) and classes 0 or 1 (N,), of which ``train_masks`` (N, K) train each model.
    Yields weights (D + 1, K) for :func:`logits`, overwritten by the next.
    """
    from sklearn.linear_model import LogisticRegression

    X = np.hstack([vectors, np.ones((len(vectors), 1))])
    train_masks = np.ascontiguousarray(train_masks)
    W = np.zeros((X.shape[1], train_masks.shape[1]))
    for C in Cs:
        for k in _newton_fit_returning_unconverged_(X, targets, train_masks, C, W):
            model = LogisticRegression(C=C, solver="newton-cholesky", tol=TOLERANCE)
            model.fit(vectors[train_masks[:, k]], targets[train_masks[:, k]])
            W[:, k] = np.append(model.coef_, model.intercept_)
        yield W


def _newton_fit_returning_unconverged_(
    X: np.ndarray, targets: np.ndarray, train_masks: np.ndarray, C: float, W: np.ndarray
) -> np.ndarray:
    """Move weights to their optimum, in place; return the models that did not converge."""
    penalty = np.full((len(W), 1), 1 / C)
    penalty[-1] = 0  # of the bias
    # the Hessian at the mean of all models serves each of them: steps are not exactly Newton's,
    # and there are more of them, but each is cheap
    p = expit(X @ W.mean(1))
    hessian = train_masks.mean() * (X.T * (p * (1 - p))) @ X + np.diag(penalty.ravel())
    factor, sizes, models = cho_factor(hessian), train_masks.sum(0), np.arange(W.shape[1])
    for _ in range(NEWTON_STEPS):
        error = expit(X @ W[:, models])
        error -= targets[:, None]
        error *= train_masks[:, models]
        gradient = X.T @ error + penalty * W[:, models]
        unfinished = np.abs(gradient).max(0) >= TOLERANCE * sizes[models]
        models = models[unfinished]
        if not len(models):
            break
        W[:, models] -= cho_solve(factor, gradient[:, unfinished])
    return models


def logits(vectors: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return the logits of weights (D + 1, K), the last row the bias, for vectors (N, K)."""
    return vectors @ W[:-1] + W[-1]


def _fit_sklearn_for_each_C(
    features: Any, classes: np.ndarray, sample_weights: np.ndarray | None = None
) -> Iterator[Any]:
    """Yield scikit-learn's model of each C, started from the one before.

    By Newton's method: the gradient for nearly parallel vectors is so small that L-BFGS stops
    at once.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        solver="newton-cg", tol=TOLERANCE, warm_start=True, max_iter=NEWTON_STEPS
    )
    for C in CS:
        with warnings.catch_warnings():  # a line search at the optimum finds no step
            warnings.filterwarnings("ignore", "Line search of Newton", ConvergenceWarning)
            model.set_params(C=C).fit(features, classes, sample_weight=sample_weights)
        yield model


# Scores.


class VectorScores(NamedTuple):
    """The scores of vectors on a task: accuracy in percent; of pairs pearson, spearman, mse."""

    scores_by_C: Mapping[float, Mapping[str, float]]  # with one C for all folds
    scores_at_chosen_C: Mapping[str, float]  # with the selected C


Featurizer = Callable[[SentenceTask, np.ndarray], Any]
"""Returns vectors of all sentences of a task, an array or a sparse matrix, from a task and the
indices of the examples from which it may learn."""


def bag_of_words_vectors(
    task: SentenceTask, train_rows: np.ndarray, *, tf_idf: bool = False
) -> Any:
    """Return word counts or TF-IDF vectors of each sentence, divided by their norm."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.preprocessing import normalize

    word_list: Any = list  # a sentence is a list of words already
    vectorizer = (TfidfVectorizer if tf_idf else CountVectorizer)(analyzer=word_list)
    both = (
        np.concatenate([train_rows, train_rows + len(task)]) if task.has_pairs else train_rows
    )
    vectorizer.fit([task.first_and_second_sentences[row] for row in both])
    return normalize(vectorizer.transform(task.first_and_second_sentences).astype(np.float64))


BASELINES: Mapping[str, Featurizer] = {
    "_words": bag_of_words_vectors,
    "_tfidf": partial(bag_of_words_vectors, tf_idf=True),
}
"""The baselines by the ends of the names of metrics."""


def score_frozen_vectors(task: SentenceTask, vectors: np.ndarray) -> VectorScores:
    """Score frozen vectors (N, D) of all sentences; inner folds select C of each outer fold."""
    from sklearn.preprocessing import normalize

    vectors = np.asarray(normalize(np.asarray(vectors, np.float64)))
    if task.has_pairs:
        return _score_relatedness_pairs(task, vectors)
    train, test = nested_fold_train_and_test_masks(task)
    correct = np.array(
        [
            (((logits(vectors, W) > 0) == task.targets[:, None]) & test).sum(0)
            for W in logistic_regression_weights_per_C(vectors, task.targets, train, CS)
        ]
    )
    outer, inner = correct[:, :FOLDS], correct[:, FOLDS:].reshape(len(CS), FOLDS, FOLDS)
    best = inner.sum(2).argmax(0)  # of equals the smallest C
    return VectorScores(
        _percent_accuracies_by_C(outer.sum(1), task),
        _percent_under_accuracy_key(outer[best, range(FOLDS)].sum(), task),
    )


def score_baseline(task: SentenceTask, featurizer: Featurizer) -> VectorScores:
    """Score bags of words; the selected C is the best on the outer folds."""
    if task.has_pairs:
        return _score_relatedness_pairs(
            task, featurizer(task, np.flatnonzero(task.split_or_fold_numbers == TRAIN))
        )
    correct = []
    for fold in range(FOLDS):
        test = task.split_or_fold_numbers == fold
        features = featurizer(task, np.flatnonzero(~test))
        models = _fit_sklearn_for_each_C(features[~test], task.targets[~test])
        correct.append(
            [(m.predict(features[test]) == task.targets[test]).sum() for m in models]
        )
    total = np.sum(correct, axis=0)
    return VectorScores(
        _percent_accuracies_by_C(total, task), _percent_under_accuracy_key(total.max(), task)
    )


def _percent_accuracies_by_C(
    correct_counts: np.ndarray, task: SentenceTask
) -> dict[float, Mapping[str, float]]:
    """Return the scores by C, from numbers of correct examples (C,)."""
    return {
        C: _percent_under_accuracy_key(count, task)
        for C, count in zip(CS, correct_counts, strict=True)
    }


def _percent_under_accuracy_key(num_correct: float, task: SentenceTask) -> Mapping[str, float]:
    return {"accuracy": float(100 * num_correct / len(task))}


def _score_relatedness_pairs(task: SentenceTask, vectors: Any) -> VectorScores:
    train, trial, test = (
        np.flatnonzero(task.split_or_fold_numbers == part) for part in (TRAIN, TRIAL, TEST)
    )
    features = pair_features(vectors[: len(task)], vectors[len(task) :])
    examples, classes, weights = soft_label_rows_classes_weights(task.targets[train])
    by_C, agreement = {}, {}
    models = _fit_sklearn_for_each_C(features[train][examples], classes, weights)
    for C, model in zip(CS, models, strict=True):
        predicted = model.predict_proba(features) @ model.classes_
        agreement[C] = pearson(predicted[trial], task.targets[trial])
        guess, true = predicted[test], task.targets[test]
        by_C[C] = {
            "pearson": pearson(guess, true),
            "spearman": pearson(stats.rankdata(guess), stats.rankdata(true)),
            "mse": float(np.mean((guess - true) ** 2)),
        }
    return VectorScores(by_C, by_C[max(agreement, key=agreement.__getitem__)])


def pair_features(u: Any, v: Any) -> Any:
    """Return the features of pairs, |u - v| and u * v (N, 2 D)."""
    if isinstance(u, np.ndarray):
        return np.hstack([np.abs(u - v), u * v])
    return sparse.hstack([abs(u - v), u.multiply(v)], format="csr")


def soft_label_rows_classes_weights(
    relatedness_scores: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return relatedness as two classes of an example, weighted: 3.6 is 0.4 of 3, 0.6 of 4.

    The weighted loss of these indices of examples, classes and weights (2 N,) is the cross
    entropy with soft labels.
    """
    low = np.floor(relatedness_scores).clip(1, 4)
    examples = np.tile(np.arange(len(relatedness_scores)), 2)
    weights = np.concatenate([low + 1 - relatedness_scores, relatedness_scores - low])
    classes = np.concatenate([low, low + 1])
    positive = weights > 0
    return examples[positive], classes[positive], weights[positive]


def pearson(predicted: np.ndarray, true: np.ndarray) -> float:
    """Return Pearson's r; 0 where one of the two does not vary."""
    if np.ptp(predicted) == 0 or np.ptp(true) == 0:
        return 0.0
    return float(np.corrcoef(predicted, true)[0, 1])


# Metrics.


def scores_by_metric(
    tasks: Mapping[str, SentenceTask],
    score_task: Callable[[SentenceTask], VectorScores],
    *,
    metric_suffix: str = "",
    chosen_C_suffix: str = NESTED,
) -> dict[str, float]:
    """Return the scores of a representation on all tasks, by metric.

    A metric is called by the task's name in small letters, of pairs followed by ``_r``,
    ``_rho`` and ``_mse``: accuracy in percent; Pearson's r, Spearman's rho and the mean squared
    error. There is ``<metric>_nested``, whose C inner folds select, and ``<metric>_C1`` ...
    ``<metric>_C256``, one C for all folds. ``end`` stands behind the name of a metric,
    ``chosen`` in place of ``_nested``.
    """
    values = {}
    for task_name, task in tasks.items():
        scores = score_task(task)
        every = {f"{BY}{C:g}": one for C, one in scores.scores_by_C.items()} | {
            chosen_C_suffix: scores.scores_at_chosen_C
        }
        for suffix, one in every.items():
            for metric, value in one.items():
                values[f"{task_name.lower()}{ENDS[metric]}{metric_suffix}{suffix}"] = value
    return values


def select_and_strip_suffix(values: Mapping[str, float], suffix: str) -> dict[str, float]:
    """Return the scores of :func:`scores_by_metric` with an ending, without it."""
    return {
        name.removesuffix(suffix): value
        for name, value in values.items()
        if name.endswith(suffix)
    }


def sentence_vectors(
    net: SkipThoughts, vocabulary: Vocabulary, task: SentenceTask
) -> np.ndarray:
    """Return the vectors (N, H) of the sentences of a task.

    As in the authors' code the end symbol is read for pairs alone.
    """
    rows = [
        vocabulary.encode_with_end(" ".join(words)) for words in task.first_and_second_sentences
    ]
    return (
        net.encode_sentences(rows if task.has_pairs else [row[:-1] for row in rows])
        .cpu()
        .numpy()
    )


def downstream_scores_by_metric(net: SkipThoughts, books: EncodedBooks) -> dict[str, float]:
    """Return the scores of :func:`scores_by_metric` of a model's vectors."""

    def score_task_vectors(task: SentenceTask) -> VectorScores:
        return score_frozen_vectors(task, sentence_vectors(net, books.vocabulary, task))

    return scores_by_metric(books.tasks, score_task_vectors)


def bag_of_words_scores_by_metric(books: EncodedBooks) -> dict[str, float]:
    """Return the scores of bags of words and of TF-IDF, once on this machine.

    As of :func:`scores_by_metric`, with ``_words`` and ``_tfidf`` behind the metrics, and
    ``_best`` in place of ``_nested``.
    """
    import sklearn

    def compute_scores() -> dict[str, np.ndarray]:
        values = {}
        for end, featurizer in BASELINES.items():
            score = partial(score_baseline, featurizer=featurizer)
            values |= scores_by_metric(
                books.tasks, score, metric_suffix=end, chosen_C_suffix=BEST
            )
        return {name: np.array(value) for name, value in values.items()}

    key = [f"{name} {task.checksum}" for name, task in books.tasks.items()]
    arrays = cache_arrays("words-alone", "\n".join([*key, sklearn.__version__]), compute_scores)
    return {name: value.item() for name, value in arrays.items()}


def held_out_and_vector_metrics(
    net: Any, books: EncodedBooks, evaluation: Evaluation, *, include_model_weights: bool
) -> dict[str, Any]:
    """Return the metrics of a model.

    A light evaluation has :func:`held_out_nats_per_word` alone; a full one also the scores of
    its vectors, and with ``include_model_weights`` its weights.
    """
    values: dict[str, Any] = {"valid_nll": held_out_nats_per_word(net.eval(), books)}
    if evaluation is Evaluation.LIGHT:
        return values
    values |= downstream_scores_by_metric(net, books)
    if include_model_weights:
        values |= {f"{WEIGHTS}{n}": p.detach().half() for n, p in net.named_parameters()}
    return values


def load_first_seed_snapshots(
    experiment: "Experiment", run: "Run", books: EncodedBooks
) -> dict[int, nn.Module]:
    """Return the models of a run's first seed, by the updates at which weights were stored."""
    seed = experiment.seeds[0]
    models = {}
    for update, pictures in run.pictures(seed).items():
        weights = {
            name.removeprefix(WEIGHTS): torch.from_numpy(array).float()
            for name, array in pictures.items()
            if name.startswith(WEIGHTS)
        }
        if weights:
            models[update] = experiment.model(seed, books).eval()
            models[update].load_state_dict(weights, strict=False)  # buffers stay
    if not models:
        raise ValueError("the run stored no weights: train it with snapshots=True.")
    return models
