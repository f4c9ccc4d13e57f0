"""Judging frozen vectors: what must be perfect is, what must be chance is, nothing leaks."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score

from lnlab import data
from lnlab.data.judge import FOLDS, TEST, TRAIN, TRIAL, SentenceJudge, folds
from lnlab.tasks.thoughts import judges
from lnlab.tasks.thoughts.judges import (
    BASELINES,
    CS,
    expected,
    frozen,
    judged,
    soft,
    with_each,
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


def given(vectors: np.ndarray) -> judges.Represent:
    return frozen(lambda sentences: vectors)


def with_one(judge: SentenceJudge, represent: judges.Represent, C: float) -> judges.Judgement:
    return with_each(judge, represent, (C,)).by_C[C]


def noise(count: int, width: int = 20) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(count, width))


# --- known answers ---------------------------------------------------------------------------


def test_vectors_that_hold_the_class_are_right():
    judge = classes()
    vectors = noise(N, 6)
    vectors[:, 0] = 40 * (judge.targets - 0.5)
    found = with_one(judge, given(vectors), 1.0)
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
    found = judged(judge, given(np.concatenate([u, v])))
    assert found.scores["pearson"] > 0.99
    assert found.scores["spearman"] > 0.99
    assert found.scores["mse"] < 0.05
    assert found.within < 0.01
    assert str(found).startswith("pairs: pearson 1.000, spearman")


def test_random_vectors_are_at_chance():
    """Four standard errors: .5 / sqrt(1000), 1 / sqrt(250)."""
    found = with_one(classes(count=1000), given(noise(1000)), 1.0)
    assert abs(found.scores["accuracy"] - 50) < 6.4
    related = judged(pairs(count=1000), given(noise(2000)))
    assert abs(related.scores["pearson"]) < 0.26
    assert related.scores["mse"] > 0.9


# --- nothing leaks ---------------------------------------------------------------------------


class Cheat:
    """Vectors that hold the target of each case that they may learn of, and no other."""

    def __init__(self) -> None:
        self.asked: list[set[int]] = []

    def __call__(self, judge: SentenceJudge) -> judges.Seen:
        def seen(rows: np.ndarray) -> np.ndarray:
            self.asked.append({*rows.tolist()})
            vectors = np.full((len(judge.said), 2), 1e-3)
            places = np.concatenate([rows, rows + len(judge)]) if judge.pairs else rows
            vectors[places, 0] = np.tile(judge.targets[rows], 1 + judge.pairs) - 0.5
            return vectors

        return seen


@pytest.mark.parametrize("C", [None, 4.0])
def test_cases_that_test_were_not_learned_of(C):
    """A model that saw their targets would be right; one that did not is at chance."""
    cheat, judge = Cheat(), classes()
    found = with_one(judge, cheat, C) if C else judged(judge, cheat)
    assert 30 < found.scores["accuracy"] < 70
    for asked in cheat.asked:
        unseen = {*judge.parts[[n for n in range(N) if n not in asked]].tolist()}
        assert len(asked) <= 0.9 * N
        assert unseen


def test_pairs_that_try_or_test_were_not_learned_of():
    cheat, judge = Cheat(), pairs()
    assert abs(judged(judge, cheat).scores["pearson"]) < 0.5
    assert cheat.asked == [{*np.flatnonzero(judge.parts == TRAIN).tolist()}]


def test_what_is_known_of_single_cases_alone_is_of_no_use():
    """One unit a case: whoever trained on those that test would be right."""
    for C in (1.0, CS[-1]):
        assert with_one(classes(), given(np.eye(N)), C).scores["accuracy"] <= 60


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
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    split = PredefinedSplit(judge.parts)
    for C in (1.0, 64.0):
        oracle: np.ndarray = cross_val_score(
            LogisticRegression(C=C, tol=1e-8, max_iter=9000), units, judge.targets, cv=split
        )
        found = with_one(judge, given(vectors), C)
        assert found.parts == pytest.approx(100 * oracle)
        assert found.scores["accuracy"] == pytest.approx(100 * oracle.mean())
        spread = oracle.std(ddof=1) * 100
        assert found.within == pytest.approx(2.262157 * spread * (1 / 10 + 1 / 9) ** 0.5)


def test_c_is_found_within_the_folds_that_train():
    judge = classes()
    vectors = informative(judge)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = judged(judge, given(vectors))

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
    whole = best(np.arange(N), judge.parts)
    every = with_each(judge, given(vectors))
    assert whole.best_params_["C"] == every.C
    assert every.by_C[every.C].scores["accuracy"] == pytest.approx(100 * whole.best_score_)


def test_of_pairs_c_is_found_on_the_trial_pairs():
    judge = pairs(count=300)
    vectors = noise(600, 5)
    vectors[:300, 0] += judge.targets
    vectors[300:, 0] -= judge.targets
    every = with_each(judge, given(vectors))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    features = judges.paired(units[:300], units[300:])
    cases, found, weights = soft(judge.targets[judge.parts == TRAIN])
    trial, agreed = judge.parts == TRIAL, {}
    for C in CS:
        oracle = LogisticRegression(C=C, tol=1e-9, max_iter=9000)
        oracle.fit(features[judge.parts == TRAIN][cases], found, sample_weight=weights)
        told = expected(oracle, features[trial])
        agreed[C] = np.corrcoef(told, judge.targets[trial])[0, 1]
        tested = np.corrcoef(expected(oracle, features[judge.parts == TEST]),
                             judge.targets[judge.parts == TEST])[0, 1]  # fmt: skip
        assert every.by_C[C].scores["pearson"] == pytest.approx(tested, abs=1e-4)
    assert max(agreed, key=lambda C: agreed[C]) == every.C
    assert judged(judge, given(vectors)) == every.by_C[every.C]


@pytest.mark.parametrize("represent", [None, *BASELINES])
def test_each_c_has_its_optimum_with_vectors_that_are_nearly_parallel(represent):
    """There the gradient is small everywhere, and a path that is not gone to its end stays
    where it began: with a tolerance of 1e-4, L-BFGS gives seven values of C one model."""
    judge = data.load("story-judges", "judges", only="phrase")["phrase"] if represent else None
    judge = judge or classes(count=400)
    if represent:
        seen = BASELINES[represent](judge)
    else:
        vectors = informative(judge) + 40
        seen = given(vectors)(judge)
    inside = np.flatnonzero(judge.parts != 0)
    X, y = seen(inside)[inside], judge.targets[inside]
    fitted = [(m.C, m.coef_.ravel().copy(), m.intercept_[0]) for m in judges._path(X, y, CS)]
    assert [C for C, *_ in fitted] == [*CS]
    for C, w, b in fitted:
        p = 1 / (1 + np.exp(-(X @ w + b)))
        gradient = X.T @ (p - y) + w / C
        assert np.abs(gradient).max() / len(y) < 2e-6  # NEAR, and rounding


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
    assert expected(model, features).sum() == pytest.approx(targets.sum(), abs=1e-4)


# --- sentences made here ---------------------------------------------------------------------

BOUNDS = {
    "relatedness": (0.6, 0.85),
    "teller": (50, 75),
    "opinion": (40, 70),
    "phrase": (50, 75),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bags_of_words_do_not_solve_what_is_made_here(name):
    """An encoder that is well above them has read the order of words."""
    judge = data.load("story-judges", "judges")[name]
    least, most = BOUNDS[name]
    for represent in BASELINES.values():
        every = with_each(judge, represent)
        found = every.by_C[every.C]
        assert least < next(iter(found.scores.values())) < most


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "C", "message"),
    [
        (
            np.full((N, 3), np.nan),
            1.0,
            "vectors of classes are not finite: has the net diverged",
        ),
        (np.zeros((N + 1, 3)), 1.0, r"120 sentences have vectors \(121, 3\): give \(N, D\)"),
        (np.zeros(N), 1.0, r"vectors \(120,\)"),
        (np.zeros((N, 3)), 0.0, r"C is one of \(0.0,\): give numbers above 0"),
        (np.zeros((N, 3)), float("nan"), r"C is one of \(nan,\)"),
    ],
)
def test_what_cannot_be_judged_is_said(vectors, C, message):
    with pytest.raises(ValueError, match=message):
        with_one(classes(), given(vectors), C)
