"""Judging frozen vectors: what must be perfect is, what must be chance is, nothing leaks."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score

from lnlab import data
from lnlab.papers.skip_thoughts import sentence_eval
from lnlab.papers.skip_thoughts.sentence_eval import (
    BASELINES,
    CS,
    NEAR,
    counted,
    fitted,
    judged,
    soft,
    softened,
)
from lnlab.papers.skip_thoughts.sentence_tasks import (
    FOLDS,
    TEST,
    TRAIN,
    TRIAL,
    SentenceJudge,
    folds,
    splits,
)

N = 120


def classes(seed: int = 0, count: int = N) -> SentenceJudge:
    """Sentences that are all different, with random classes."""
    targets = np.random.default_rng(seed).permutation(np.arange(count) % 2).astype(float)
    said = [[f"w{n}", "and", "so", "on"] for n in range(count)]
    return SentenceJudge("classes", said, [], targets, folds("classes", count))


def pairs(seed: int = 0, count: int = N) -> SentenceJudge:
    random = np.random.default_rng(seed)
    parts = np.repeat([TRAIN, TRIAL, TEST], [count // 2, count // 4, count // 4])
    said = [[f"w{n}", side] for side in "uv" for n in range(count)]
    targets = random.uniform(1, 5, count).round(1)
    return SentenceJudge("pairs", said[:count], said[count:], targets, parts)


def lengthened(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def noise(count: int, width: int = 20) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(count, width))


# --- known answers ---------------------------------------------------------------------------


def test_vectors_that_hold_the_class_are_right():
    judge = classes()
    vectors = noise(N, 6)
    vectors[:, 0] = 40 * (judge.targets - 0.5)
    found = judged(judge, vectors).by_C[1.0]
    assert found.scores == {"accuracy": 100.0}
    assert found.parts == (100.0,) * FOLDS
    assert found.within == 0
    assert found.C == (1.0,) * FOLDS


def test_vectors_that_hold_the_relatedness_agree_with_it():
    """v is u, turned by an angle that says how much the two have to do with each other."""
    judge = pairs(count=600)
    angle = np.arccos((judge.targets - 1) / 4)
    u = np.stack([np.ones(600), np.zeros(600)], 1)
    v = np.stack([np.cos(angle), np.sin(angle)], 1)
    found = judged(judge, np.concatenate([u, v])).own
    assert found.scores["pearson"] > 0.99
    assert found.scores["spearman"] > 0.99
    assert found.scores["mse"] < 0.05
    assert found.within < 0.01
    assert str(found).startswith("pairs: pearson 1.000, spearman")


def test_random_vectors_are_at_chance():
    """Four standard errors: .5 / sqrt(1000), 1 / sqrt(250)."""
    found = judged(classes(count=1000), noise(1000)).own
    assert abs(found.scores["accuracy"] - 50) < 6.4
    related = judged(pairs(count=1000), noise(2000)).own
    assert abs(related.scores["pearson"]) < 0.26
    assert related.scores["mse"] > 0.9


# --- nothing leaks ---------------------------------------------------------------------------


class Cheat:
    """Vectors that hold the target of each case that they may learn of, and no other."""

    def __init__(self) -> None:
        self.asked: list[set[int]] = []

    def __call__(self, judge: SentenceJudge) -> sentence_eval.Seen:
        def seen(rows: np.ndarray) -> np.ndarray:
            self.asked.append({*rows.tolist()})
            vectors = np.full((len(judge.said), 2), 1e-3)
            places = np.concatenate([rows, rows + len(judge)]) if judge.pairs else rows
            vectors[places, 0] = np.tile(judge.targets[rows], 1 + judge.pairs) - 0.5
            return vectors

        return seen


def test_cases_that_test_were_not_learned_of():
    """A model that saw their targets would be right; one that did not is at chance."""
    cheat, judge = Cheat(), classes()
    for found in counted(judge, cheat).by_C.values():
        assert 30 < found.scores["accuracy"] < 70
    for asked in cheat.asked:
        unseen = {*judge.parts[[n for n in range(N) if n not in asked]].tolist()}
        assert len(asked) <= 0.9 * N
        assert unseen


def test_pairs_that_try_or_test_were_not_learned_of():
    cheat, judge = Cheat(), pairs()
    assert abs(counted(judge, cheat).own.scores["pearson"]) < 0.5
    assert cheat.asked == [{*np.flatnonzero(judge.parts == TRAIN).tolist()}]


def test_what_is_known_of_single_cases_alone_is_of_no_use():
    """One unit a case: whoever trained on those that test would be right."""
    found = judged(classes(), np.eye(N))
    for one in (found.own, *found.by_C.values()):
        assert one.scores["accuracy"] <= 60


def test_the_folds_that_are_reported_choose_no_c():
    """Other classes in one fold change the model that is tested there not at all."""
    judge, vectors = classes(), informative(classes())
    there = judge.parts == 4
    other = SentenceJudge(
        "classes", judge.sentences, [], np.where(there, 1 - judge.targets, judge.targets),
        judge.parts,
    )  # fmt: skip
    one, turned = judged(judge, vectors).own, judged(other, vectors).own
    assert one.C[4] == turned.C[4]
    assert one.parts[4] == pytest.approx(100 - turned.parts[4])
    assert one.C != turned.C


def test_words_that_only_test_sentences_have_are_not_known():
    judge = classes()
    for represent in BASELINES.values():
        seen = represent(judge)
        rows = np.flatnonzero(judge.parts != 3)
        vectors = seen(rows)
        assert vectors.shape == (N, len(rows) + 3)
        lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(1)).ravel())
        assert lengths == pytest.approx(np.ones(N))
        assert vectors[judge.parts == 3].sum(0).nonzero()[1].size == 3


# --- oracles ---------------------------------------------------------------------------------


def informative(judge: SentenceJudge) -> np.ndarray:
    vectors = noise(len(judge.said), 8)
    vectors[:, 0] += judge.targets
    return vectors


def test_folds_are_scored_as_scikit_learn_scores_them():
    judge = classes()
    vectors = informative(judge)
    units = lengthened(vectors)
    split = PredefinedSplit(judge.parts)
    by_C = judged(judge, vectors).by_C
    for C in (1.0, 64.0):
        oracle: np.ndarray = cross_val_score(
            LogisticRegression(C=C, tol=1e-8, max_iter=9000), units, judge.targets, cv=split
        )
        found = by_C[C]
        assert found.parts == pytest.approx(100 * oracle)
        assert found.scores["accuracy"] == pytest.approx(100 * oracle.mean())
        spread = oracle.std(ddof=1) * 100
        assert found.within == pytest.approx(2.262157 * spread * (1 / 10 + 1 / 9) ** 0.5)


def test_c_is_found_within_the_folds_that_train():
    judge = classes()
    vectors = informative(judge)
    units = lengthened(vectors)
    found = judged(judge, vectors).own

    def best(cases: np.ndarray, parts: np.ndarray) -> GridSearchCV:
        search = GridSearchCV(
            LogisticRegression(tol=1e-8),
            {"C": CS},
            cv=PredefinedSplit(parts),
            scoring="accuracy",
        )
        return search.fit(units[cases], judge.targets[cases])

    for fold in (0, 7):
        inside = np.flatnonzero(judge.parts != fold)
        search = best(inside, folds(f"classes within {fold}", len(inside)))
        outside = judge.parts == fold
        assert found.C[fold] == search.best_params_["C"]
        right = float(search.score(units[outside], judge.targets[outside]))  # pyright: ignore
        assert found.parts[fold] == pytest.approx(100 * right)


def test_of_bags_of_words_the_best_c_is_that_of_most_right():
    judge = classes()
    vectors = lengthened(informative(judge))
    found = counted(judge, lambda judge: lambda rows: vectors)
    search = GridSearchCV(
        LogisticRegression(tol=1e-8), {"C": CS}, cv=PredefinedSplit(judge.parts)
    ).fit(vectors, judge.targets)
    assert (search.best_params_["C"],) * FOLDS == found.own.C
    assert found.own.scores["accuracy"] == pytest.approx(100 * search.best_score_)
    assert found.by_C == judged(judge, vectors).by_C


@pytest.mark.parametrize("shift", [0, 40])
def test_of_pairs_c_is_found_on_the_trial_pairs(shift):
    """Shifted, the vectors are nearly parallel, and all gradients small."""
    judge = pairs(count=300)
    vectors = noise(600, 5)
    vectors[:300, 0] += judge.targets
    vectors[300:, 0] -= judge.targets
    vectors[:, 1] += shift
    every = judged(judge, vectors)
    units = lengthened(vectors)
    features = sentence_eval.paired(units[:300], units[300:])
    cases, found, weights = soft(judge.targets[judge.parts == TRAIN])
    trial, test, agreed = judge.parts == TRIAL, judge.parts == TEST, {}
    for C in CS:
        oracle = LogisticRegression(C=C, tol=1e-9, max_iter=9000, solver="newton-cg")
        oracle.fit(features[judge.parts == TRAIN][cases], found, sample_weight=weights)
        told = oracle.predict_proba(features) @ oracle.classes_
        agreed[C] = np.corrcoef(told[trial], judge.targets[trial])[0, 1]
        tested = np.corrcoef(told[test], judge.targets[test])[0, 1]
        assert every.by_C[C].scores["pearson"] == pytest.approx(tested, abs=1e-4)
    assert every.own == every.by_C[max(agreed, key=lambda C: agreed[C])]


def optimal(X, y, w, b, C):
    """True if the gradient of the mean loss of weights and bias is 0, but for rounding."""
    p = 1 / (1 + np.exp(-(X @ w + b)))
    gradient = np.append(X.T @ (p - y) + w / C, (p - y).sum())
    return np.abs(gradient).max() / len(y) < 2 * NEAR


@pytest.mark.parametrize("represent", BASELINES)
def test_each_c_has_its_optimum_with_bags_of_words(represent):
    judge = data.load("story-tasks", "judges", only="phrase")["phrase"]
    inside = np.flatnonzero(judge.parts != 0)
    X, y = BASELINES[represent](judge)(inside)[inside], judge.targets[inside]
    fitted = [(m.C, m.coef_.ravel().copy(), m.intercept_[0]) for m in sentence_eval._path(X, y)]
    assert [C for C, *_ in fitted] == [*CS]
    assert all(optimal(X, y, w, b, C) for C, w, b in fitted)


@pytest.mark.parametrize("shift", [0, 40])
@pytest.mark.parametrize("steps", [sentence_eval.LOGISTIC_STEPS, 1])
def test_each_model_of_each_c_has_its_optimum(monkeypatch, shift, steps):
    """Shifted, the vectors are nearly parallel, and the gradient is small everywhere: a path
    that is not gone to its end stays where it began. What does not arrive in so many steps is
    fitted by itself."""
    monkeypatch.setattr(sentence_eval, "LOGISTIC_STEPS", steps)
    judge = classes(count=200)
    X, y = lengthened(informative(judge) + shift), judge.targets
    among, tested = splits(judge)
    assert not (among & tested).any()
    assert (tested.sum(1) == 1 + (FOLDS - 1)).all()
    some = [0, 7, FOLDS, 2 * FOLDS + 3, -1]
    for C, W in zip(CS, fitted(X, y, among[:, some], CS), strict=True):
        for inside, w in zip(among[:, some].T, W.T, strict=True):
            assert optimal(X[inside], y[inside], w[:-1], w[-1], C)


def test_a_softmax_of_each_c_has_its_optimum_and_classes_may_be_missing():
    random = np.random.default_rng(2)
    X = lengthened(random.normal(size=(90, 4)) + 20)
    labels = random.dirichlet((1, 1, 1), 90)
    for C, W in zip(CS, softened(X, labels, CS), strict=True):
        p = np.exp(sentence_eval.odds(X, W))
        wrong = p / p.sum(1, keepdims=True) - labels
        gradient = np.concatenate([X.T @ wrong + W[:-1] / C, wrong.sum(0, keepdims=True)])
        assert np.abs(gradient).max() / len(X) < 3 * NEAR  # it is asked of turned coordinates


def test_soft_labels_are_weights_of_two_classes():
    targets = np.array([1.0, 5.0, 3.6, 2.0, 4.9])
    cases, found, weights = soft(targets)
    assert np.bincount(cases, weights) == pytest.approx(np.ones(5))
    assert np.bincount(cases, weights * found) == pytest.approx(targets)
    assert (weights > 0).all()
    assert {*found.tolist()} <= {1.0, 2.0, 3.0, 4.0, 5.0}
    model = LogisticRegression(C=100.0, tol=1e-9, max_iter=9000)
    features = noise(5, 2)
    model.fit(features[cases], found, sample_weight=weights)
    given_mass = [weights[found == value].sum() for value in model.classes_]
    mass = model.predict_proba(features).sum(0)
    assert mass == pytest.approx(given_mass, abs=1e-5)  # where the gradient of the bias is 0
    told = model.predict_proba(features) @ model.classes_
    assert told.sum() == pytest.approx(targets.sum(), abs=1e-4)


# --- sentences made here ---------------------------------------------------------------------

BOUNDS = {
    "relatedness": (0.6, 0.85),
    "teller": (50, 75),
    "opinion": (40, 70),
    "phrase": (50, 75),
    "customer": (65, 85),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bags_of_words_do_not_solve_what_is_made_here(name):
    """An encoder that is well above them has read the order of words."""
    judge = data.load("story-tasks", "judges")[name]
    least, most = BOUNDS[name]
    for represent in BASELINES.values():
        found = counted(judge, represent).own
        assert least < next(iter(found.scores.values())) < most


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.full((N, 3), np.nan), "vectors of classes are not finite: has the net diverged"),
        (np.zeros((N + 1, 3)), r"120 sentences have vectors \(121, 3\): give \(N, D\)"),
        (np.zeros(N), r"vectors \(120,\)"),
    ],
)
def test_what_cannot_be_judged_is_said(vectors, message):
    with pytest.raises(ValueError, match=message):
        judged(classes(), vectors)


@pytest.mark.parametrize("few", [0, 1])
def test_folds_of_one_class_are_refused(few):
    judge, one = classes(), np.eye(N)[0]
    targets = one if few else 1 - one
    with pytest.raises(ValueError, match=f"classes has 1 cases of class {few}, none .* give"):
        SentenceJudge("classes", judge.sentences, [], targets, judge.parts)
    with pytest.raises(ValueError, match="a fold trains on cases of one class only"):
        next(fitted(noise(N), targets, one[:, None] == 0, (1.0,)))
