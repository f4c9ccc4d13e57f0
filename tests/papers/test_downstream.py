"""Downstream tasks: files, whole and damaged; what must be perfect is, nothing leaks."""

import re
from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score

from lnlab import data
from lnlab.papers.skip_thoughts import downstream, evaluate
from lnlab.papers.skip_thoughts.data import GLAD, GOOD
from lnlab.papers.skip_thoughts.downstream import (
    FOLDS,
    NAMES,
    TEST,
    TRAIN,
    TRIAL,
    SentenceTask,
    assign_folds,
    nested_folds,
)
from lnlab.papers.skip_thoughts.evaluate import (
    BASELINES,
    CS,
    TOLERANCE,
    fit_logistic,
    score_baseline,
    score_vectors,
    soft_labels,
)
from tests.data import layouts

N = 120


def load(spec, **options):
    return data.load(spec, "tasks", **options)


# --- files -----------------------------------------------------------------------------------


def test_folds_are_even_and_mix_the_classes():
    folds = assign_folds("MR", 1003)
    assert sorted(Counter(folds.tolist()).values()) == [100] * 7 + [101] * 3
    halves = [np.mean(np.flatnonzero(folds == fold) < 500) for fold in range(FOLDS)]
    assert 0.3 < min(halves) < max(halves) < 0.7
    assert not np.array_equal(folds, assign_folds("CR", 1003))


def test_the_official_files_are_read(tmp_path):
    tasks = load(f"sentence-tasks={layouts.sentence_tasks(tmp_path)}")
    assert tuple(tasks) == NAMES == tasks.names
    assert tasks.name == "sentence-tasks, 8 blank lines left out"
    sick = tasks["SICK"]
    assert sick.sentences[5] == ["a", "trial", "dog", ",", "1"]
    assert sick.others[5] == ["the", "man", "is", "n't", "there"]
    assert sick.targets[4:8].tolist() == [1.5, 2.5, 3.5, 4.5]
    assert sick.splits.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    accents = {"MR": "café …", "SUBJ": "café …", "CR": "cafe", "MPQA": "cafe"}
    for name, accent in accents.items():
        task = tasks[name]
        assert task.targets.tolist() == [0] * 12 + [1] * 13
        words = " ".join(task.sentences[14])
        assert words.startswith(accent), words
        assert words.endswith("2 , is n't it ?")
        assert {*task.splits.tolist()} == {*range(10)}
        assert task.blank == 2
    assert "plot.tok.gt9.5000" in tasks["SUBJ"].sentences[0]  # objective is class 0


def test_other_names_and_encodings_of_the_same_files_are_the_same(tmp_path):
    only = "MR,SUBJ,SICK"
    first = load(f"sentence-tasks={layouts.sentence_tasks(tmp_path / 'one')}", only=only)
    folder = layouts.sentence_tasks(tmp_path / "two")
    for old, new in (
        ("subj/rotten_imdb/plot.tok.gt9.5000", "subj.objective"),
        ("mr/rt-polaritydata/rt-polarity.pos", "MR.pos.txt"),
    ):
        text = (folder / old).read_bytes().decode("cp1252")
        (folder / old).unlink()
        (folder / new).write_text(text, "utf-8")
    lines = ["sentence_A\tsentence_B\trelatedness_score\tSemEval_set"]
    for part, file in (("TRAIN", "train"), ("TRIAL", "trial"), ("TEST", "test_annotated")):
        rows = (folder / "sick" / f"SICK_{file}.txt").read_text().splitlines()[1:]
        lines += ["\t".join([*row.split("\t")[1:4], part]) for row in rows]
    layouts.put(folder / "SICK.txt", text="\n".join(lines) + "\n")
    assert load(f"sentence-tasks={folder}", only=only).checksum == first.checksum


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("SICK_trial.txt", lambda b: b.replace(b"relatedness_score", b"score"),
         "SICK_trial.txt, line 2: expected sentence_A, sentence_B and a relatedness_score"),
        ("SICK_train.txt", lambda b: b.replace(b"\t2.5", b"\tnan"), "line 3: expected"),
        ("SICK_train.txt", lambda b: b.replace(b"A train dog, 1", b" "), "line 3: expected"),
        ("SICK_test_annotated.txt", lambda b: b[: len(layouts.HEADING) + 1],
         "SICK has 8 examples, none of them in split 2 of 3"),
        ("rt-polarity.pos", lambda b: b + b"\x81\n", "no text in utf-8 or windows-1252: con"),
        ("rt-polarity.pos", lambda b: b.decode("cp1252").encode("utf-16"), "or windows-1252"),
        ("mpqa.pos", lambda b: b"\n \n", r"mpqa.pos: MPQA has 0 examples of class 1"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named(file, change, message, tmp_path):
    folder = layouts.sentence_tasks(tmp_path)
    (path,) = folder.rglob(file)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load(f"sentence-tasks={folder}")["SICK"]


def test_missing_files_are_named_and_may_be_left_out(tmp_path):
    folder = layouts.sentence_tasks(tmp_path)
    (path,) = folder.rglob("custrev.pos")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"CR is not whole .* no custrev.pos or cr.pos"):
        load(f"sentence-tasks={folder}")
    assert [*load(f"sentence-tasks={folder}", only="SICK, MPQA")] == ["SICK", "MPQA"]
    with pytest.raises(ValueError, match="has no 'TREC': choose from SICK, MR, CR"):
        load(f"sentence-tasks={folder}", only="TREC")


REAL = data.data_folder()  # when tests are collected: it is another while they run


@pytest.mark.slow
@pytest.mark.skipif(
    not all((REAL / name).is_dir() for name in ("sick", "mr", "cr", "subj", "mpqa")),
    reason="the tasks are not in the data folder",
)
def test_the_real_tasks_have_their_counts():
    counts = {n: (len(t), t.blank) for n, t in load(f"sentence-tasks={REAL}").items()}
    assert counts == {
        "SICK": (9_927, 0), "MR": (10_662, 0), "CR": (3_771, 4), "SUBJ": (10_000, 0),
        "MPQA": (10_603, 3),
    }  # fmt: skip


# --- generated tasks -------------------------------------------------------------------------


def test_generated_tasks_are_always_the_same():
    tasks = downstream.make_tasks()
    assert {n: t.checksum for n, t in tasks.items()} == {
        n: t.checksum for n, t in load("story-tasks").items()
    }
    assert [len(task) for task in tasks.values()] == [1400, 600, 600, 600, 600]
    for task in [*tasks.values()][1:]:
        assert task.targets.mean() == 0.5
        assert len({" ".join(words) for words in task.sentences}) == 600


def test_the_class_is_who_feels_it_who_has_it_now_and_what_is_denied():
    tasks = downstream.make_tasks()
    for words, target in zip(tasks["teller"].sentences, tasks["teller"].targets, strict=True):
        if "," in words:
            assert (words[0] in ("luckily", "sadly")) == bool(target)
    task, both = tasks["customer"], 0
    for words, target in zip(task.sentences, task.targets, strict=True):
        got, *moods = " ".join(words).split(" , ")
        match = re.match(r"(\w+) gave (?:the \w+ to )?(\w+)", got)
        customer = match[2] if match else got.split()[0]
        happy = {m.split()[0]: bool({*GLAD, "liked"} & {*m.split()}) for m in moods}
        assert happy.pop(customer) == bool(target)
        assert [*happy.values()] == [not target] * len(happy)
        both += len(happy)
    assert 0.3 < both / len(task) < 0.5
    for name in ("opinion", "phrase"):
        for words, target in zip(tasks[name].sentences, tasks[name].targets, strict=True):
            if "although" not in words:  # there both are said
                praise = bool({*GOOD, *GLAD} & {*words})
                assert (praise != ("not" in words)) == bool(target)


BOUNDS = {
    "relatedness": (0.6, 0.85), "teller": (50, 75), "opinion": (40, 70), "phrase": (50, 75),
    "customer": (65, 85),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bags_of_words_do_not_solve_what_is_generated(name):
    """An encoder that is well above them has read the order of words."""
    least, most = BOUNDS[name]
    for represent in BASELINES.values():
        score = score_baseline(load("story-tasks")[name], represent).chosen
        assert least < next(iter(score.metrics.values())) < most


# --- known answers ---------------------------------------------------------------------------


def classes(seed=0, count=N):
    """Sentences that are all different, with random classes."""
    targets = np.random.default_rng(seed).permutation(np.arange(count) % 2).astype(float)
    sentences = [[f"w{n}", "and", "so", "on"] for n in range(count)]
    return SentenceTask("classes", sentences, [], targets, assign_folds("classes", count))


def pairs(seed=0, count=N):
    splits = np.repeat([TRAIN, TRIAL, TEST], [count // 2, count // 4, count // 4])
    u, v = ([[f"w{n}", side] for n in range(count)] for side in "uv")
    targets = np.random.default_rng(seed).uniform(1, 5, count).round(1)
    return SentenceTask("pairs", u, v, targets, splits)


def noise(count, width=20):
    return np.random.default_rng(5).normal(size=(count, width))


def informative(task):
    vectors = noise(len(task), 8)
    vectors[:, 0] += task.targets
    return vectors


def of_length_1(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_vectors_that_hold_the_relatedness_agree_with_it():
    """v is u, turned by an angle that says how much the two have to do with each other."""
    task = pairs(count=600)
    angle = np.arccos((task.targets - 1) / 4)
    u = np.stack([np.ones(600), np.zeros(600)], 1)
    v = np.stack([np.cos(angle), np.sin(angle)], 1)
    score = score_vectors(task, np.concatenate([u, v])).chosen
    assert min(score.metrics["pearson"], score.metrics["spearman"]) > 0.99
    assert score.metrics["mse"] < 0.05


@pytest.mark.parametrize("task", [classes(), pairs()], ids=["classes", "pairs"])
def test_what_tests_was_not_learned_of(task):
    """Vectors that hold the target of each example that they may learn of, and no other."""
    known = []

    def cheat(task, rows):
        known.append({*rows.tolist()})
        vectors = np.full((len(task.all_sentences), 2), 1e-3)
        both = np.concatenate([rows, rows + len(task)]) if task.pairs else rows
        vectors[both, 0] = np.tile(task.targets[rows], 1 + task.pairs) - 0.5
        return vectors

    for score in score_baseline(task, cheat).by_C.values():
        chance = score.metrics.get("accuracy", 50), score.metrics.get("pearson", 0)
        assert 30 < chance[0] < 70
        assert abs(chance[1]) < 0.5
    if task.pairs:
        assert known == [{*np.flatnonzero(task.splits == TRAIN).tolist()}]


def test_the_folds_that_are_reported_choose_no_c():
    """Other classes in one fold change the model that is tested there not at all."""
    task, vectors = classes(), informative(classes())
    targets = np.where(task.splits == 4, 1 - task.targets, task.targets)
    other = SentenceTask("classes", task.sentences, [], targets, task.splits)
    one, turned = (score_vectors(each, vectors).chosen for each in (task, other))
    assert one.C[4] == turned.C[4]
    assert one.folds[4] == pytest.approx(100 - turned.folds[4])
    assert one.C != turned.C


# --- oracles ---------------------------------------------------------------------------------


def test_folds_are_scored_as_scikit_learn_scores_them():
    task = classes()
    vectors = informative(task)
    by_C = score_vectors(task, vectors).by_C
    for C in (1.0, 64.0):
        model = LogisticRegression(C=C, tol=1e-8, max_iter=9000)
        split = PredefinedSplit(task.splits)
        oracle = cross_val_score(model, of_length_1(vectors), task.targets, cv=split)
        assert by_C[C].folds == pytest.approx(100 * oracle)
        assert by_C[C].metrics["accuracy"] == pytest.approx(100 * oracle.mean())
        spread = oracle.std(ddof=1) * 100
        assert by_C[C].margin == pytest.approx(2.262157 * spread * (1 / 10 + 1 / 9) ** 0.5)


def test_c_is_found_within_the_folds_that_train():
    task = classes()
    vectors = informative(task)
    units, score = of_length_1(vectors), score_vectors(task, vectors).chosen
    for fold in (0, 7):
        inside, outside = np.flatnonzero(task.splits != fold), task.splits == fold
        split = PredefinedSplit(assign_folds(f"classes within {fold}", len(inside)))
        search = GridSearchCV(LogisticRegression(tol=1e-8), {"C": CS}, cv=split)
        search.fit(units[inside], task.targets[inside])
        assert score.C[fold] == search.best_params_["C"]
        right = float(search.score(units[outside], task.targets[outside]))  # pyright: ignore
        assert score.folds[fold] == pytest.approx(100 * right)


@pytest.mark.parametrize("shift", [0, 40])
@pytest.mark.parametrize("steps", [evaluate.NEWTON_STEPS, 1])
def test_each_model_of_each_c_has_its_optimum(monkeypatch, shift, steps):
    """Shifted, the vectors are nearly parallel, and the gradient is small everywhere. What does
    not arrive in so many steps is fitted by itself."""
    monkeypatch.setattr(evaluate, "NEWTON_STEPS", steps)
    task = classes(count=200)
    X, y = of_length_1(informative(task) + shift), task.targets
    train, test = nested_folds(task)
    assert not (train & test).any()
    assert (test.sum(1) == 1 + (FOLDS - 1)).all()
    some = [0, 7, FOLDS, 2 * FOLDS + 3, -1]
    for C, W in zip(CS, fit_logistic(X, y, train[:, some], CS), strict=True):
        for inside, w in zip(train[:, some].T, W.T, strict=True):
            p = 1 / (1 + np.exp(-evaluate.logits(X[inside], w)))
            error = p - y[inside]
            gradient = np.append(X[inside].T @ error + w[:-1] / C, error.sum())
            assert np.abs(gradient).max() / inside.sum() < 2 * TOLERANCE


def test_soft_labels_are_weights_of_two_classes():
    targets = np.array([1.0, 5.0, 3.6, 2.0, 4.9])
    examples, labels, weights = soft_labels(targets)
    assert np.bincount(examples, weights) == pytest.approx(np.ones(5))
    assert np.bincount(examples, weights * labels) == pytest.approx(targets)
    assert (weights > 0).all()
    assert {*labels.tolist()} <= {1.0, 2.0, 3.0, 4.0, 5.0}


# --- what is refused -------------------------------------------------------------------------


def test_vectors_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="of classes are not finite: has the model diverged"):
        score_vectors(classes(), np.full((N, 3), np.nan))


@pytest.mark.parametrize("few", [0, 1])
def test_folds_of_one_class_are_refused(few):
    task, one = classes(), np.eye(N)[0]
    targets = one if few else 1 - one
    with pytest.raises(
        ValueError, match=f"classes has 1 examples of class {few}, none .* give"
    ):
        SentenceTask("classes", task.sentences, [], targets, task.splits)
