"""The attentive reader: its questions, formula, padding, statistics, batches and metrics."""

import copy
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch.nn import functional as F

from lnlab import data
from lnlab.data import Vocabulary
from lnlab.nn import StatisticsMode
from lnlab.nn.batch import BatchNormalizer
from lnlab.papers import attentive_reader
from lnlab.papers.attentive_reader import data as questions
from lnlab.papers.attentive_reader import evaluate
from lnlab.papers.attentive_reader.data import (
    BLANK,
    EncodedQuestions,
    Question,
    accuracies_by_heuristic,
    guesses_by_heuristic,
    keep_most_similar_sentences,
)
from lnlab.papers.attentive_reader.model import (
    ARMS,
    AttentiveReader,
    QuestionBatch,
    glorot_or_small_orthogonal_,
)
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "questions", **options)


# --- questions --------------------------------------------------------------------------------


def test_articles_are_read_when_they_are_used(tmp_path, monkeypatch):
    cnn = load(f"cnn={layouts.cnn(tmp_path)}")
    assert [len(split) for split in (cnn.train, cnn.valid, cnn.test)] == [5, 2, 3]
    question = cnn.train[2]
    assert question.sentences == (
        "@entity1 ( @entity0 ) said 2 words .",
        "@entity10 , and training , said nothing !",
        "the end",
    )
    assert question.query == f"@entity0 heard {BLANK} in 2 words"
    assert question.candidates == ("@entity0", "@entity1", "@entity10")
    assert (question.answer, question.entity_names["@entity10"]) == ("@entity10", "A : B")
    assert cnn.vocabulary.words[2:14] == (BLANK, *(f"@entity{k}" for k in range(11)))
    assert [*cnn.entity_ids] == [*range(3, 14)]
    assert {"training", "validation"} < {*cnn.vocabulary.words}
    assert "test" not in cnn.vocabulary
    assert cnn.longest_training_passage_and_query == (19, 7)
    read = []
    monkeypatch.setattr(questions, "read_article_question", lambda file: read.append(file.name))
    _ = cnn.train[3]
    assert len(read) == 1
    sentences = ("a b .", "c d e .", ". . .", "e f a .", "d c .")
    question = Question("one", sentences, f"c d {BLANK} e a .", ("@entity0",), "@entity0")
    assert keep_most_similar_sentences(question, 2).sentences == ("c d e .", "e f a .")
    assert keep_most_similar_sentences(question, 3).sentences == ("c d e .", "e f a .", "d c .")


def test_damaged_articles_are_named(tmp_path):
    folder = layouts.cnn(tmp_path)
    file = sorted((folder / "questions" / "test").iterdir())[1]
    text = file.read_text("utf-8")
    for content, message in {
        text[: len(text) // 2]: "has [1-4] parts, expected the address, the passage",
        text.replace("@entity10:A : B\n", ""): "answer '@entity10' is not among its entities",
    }.items():
        file.write_text(content, "utf-8")
        with pytest.raises(ValueError, match=f"{file.name}.*{message}"):
            [*load(f"cnn={folder}").test]


def test_books_give_questions_by_the_rule(tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "COMMON", 4)
    with pytest.raises(FileNotFoundError, match="cbt is not whole"):
        load(f"cbt={tmp_path}")
    cbt = load(f"cbt={layouts.cbt(tmp_path)}", sentences=6)
    books = questions.read_cbt_books(tmp_path)
    titles = [
        {q.name.split(",")[0] for q in split} for split in (cbt.train, cbt.valid, cbt.test)
    ]
    assert [*map(len, titles)] == [6, 2, 2]
    assert not titles[0] & titles[2]
    for question in (*cbt.train, *cbt.test):
        title, line, kind = question.name.split(", ")
        index = int(line.removeprefix("line ")) - 1
        passage = [word for line in books[title][index - 6 : index] for word in line]
        names = question.entity_names
        word = names[question.answer]
        assert len(question.sentences) == 6
        assert len({*question.candidates}) == 10
        assert books[title][index].count(word) == 1
        assert {*names.values()} <= {*passage}
        assert not ({*names.values()} - {word}) & {*books[title][index]}
        assert all(one[0].isupper() == (kind == "name") for one in names.values())
        plain = [names.get(w, w).lower() for w in question.passage.split()]
        assert plain == [w.lower() for w in passage]
    other = load(f"cbt={tmp_path}", split=1, sentences=6)
    assert {q.name for q in other.test} != {q.name for q in cbt.test}
    first = tmp_path / questions.CBT_FILES[0]
    first.write_text("no title\n" + first.read_text())
    with pytest.raises(ValueError, match="line 1: expected _BOOK_TITLE_"):
        len(load(f"cbt={tmp_path}").train)


def test_names_stand_inside_sentences_and_words_are_neither_rare_nor_common():
    book = [line.split() for line in ["Then Tom saw the cat .", "Tom ran and Then sat ."] * 9]
    book += [["tom", "is", "no", "name", ",", "Tom", "is", "."], ["Nobody", "saw", "Nobody"]]
    words = questions.candidate_names_and_words(book, {"the", "and"})
    assert words == {"name": {"Tom", "Then"}, "word": {"saw"}}  # cat, ran and sat: nine times
    assert questions.candidate_names_and_words(book, {"then", "saw"})["name"] == {"Tom"}


def test_no_shortcut_answers_the_cloze():
    """A model that is right in more than half of the questions has read."""
    scores = accuracies_by_heuristic(
        questions.make_cloze_questions(None, (("test", 2000),))["test"]
    )
    assert scores.pop("ceiling") == 1
    assert scores.pop("any candidate") == pytest.approx(1 / 3)
    assert all(0.4 < score < 0.55 for score in scores.values()), scores
    question = Question(
        "q",
        ("@entity2 met @entity0 twice .", "@entity0 saw @entity1 and @entity3 ."),
        f"@entity3 saw {BLANK} and",
        tuple(f"@entity{k}" for k in range(4)),
        "@entity1",
    )
    assert {
        name: [*candidates] for name, candidates in guesses_by_heuristic(question).items()
    } == {
        "any candidate": [f"@entity{k}" for k in range(4)],
        "one that is there and not asked about": ["@entity2", "@entity0", "@entity1"],
        "the most frequent": ["@entity0"],
        "the first": ["@entity2"],
        "the last": ["@entity1"],
        "the nearest to who is asked about": ["@entity1"],
        "one of the sentence most like the question": ["@entity0", "@entity1"],
    }
    assert (
        accuracies_by_heuristic([question])["one of the sentence most like the question"] == 0.5
    )


# --- the model --------------------------------------------------------------------------------

H, E = 6, 5
NAMES = tuple(f"@entity{k}" for k in range(4))
VOCABULARY = Vocabulary([BLANK, *NAMES, "met", "saw", "and", "."])
SMOKE = attentive_reader.Experiment.budget("smoke", seeds=(0,))
TEXTS = [
    ("@entity0 met @entity1 and @entity2 .", f"{BLANK} met @entity1 .", NAMES[:3], "@entity0"),
    ("@entity1 saw @entity3 .", f"@entity1 saw {BLANK}", NAMES, "@entity3"),
    ("@entity2 met @entity0", f"{BLANK} met", (NAMES[0], NAMES[2]), "@entity2"),
]


def make_model(norm="layer", initialisation="modern", **settings):
    torch.manual_seed(3)
    settings |= {"units": (H,), "embedding_size": E, "dropout": 0.0, "gain": 1.0}
    config = attentive_reader.Experiment(norm=norm, initialisation=initialisation, **settings)
    return AttentiveReader(config, VOCABULARY, (9, 9)).double()


@pytest.fixture
def x():
    three = [Question(str(k), (text,), *rest) for k, (text, *rest) in enumerate(TEXTS)]
    return EncodedQuestions(three, VOCABULARY).batch([0, 1, 2])[0]


def pad_more(x, count):
    names = ("passage", "query", "candidate_ids")
    return x._replace(**{name: F.pad(getattr(x, name), (0, count)) for name in names})


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_the_reader_is_its_formula_question_by_question(norm, x):
    model = make_model(norm)
    logits, alphas = model.logits_and_attention(x)
    for row in range(3):
        T, U = int(x.passage_lengths[row]), int(x.query_lengths[row])
        y = model.passage(model.word[x.passage[row, :T]].unsqueeze(1))[0][:, 0]
        u = model.question(model.word[x.query[row, :U]].unsqueeze(1))[0][-1, 0]
        W, key = model.attention.query, model.attention.key.W
        e = torch.tanh(y @ key.T + W.W @ u + W.b_inside) @ model.attention.v.W[0]
        alpha = e.softmax(0)
        r, m = alpha @ y, y.mean(0)
        s = model.W_r.W @ r + model.W_r.b_inside + model.W_s.W @ u + model.W_m.W @ m
        expected = model.answer.W @ torch.tanh(s) + model.answer.b_inside
        other = sorted({*range(len(VOCABULARY))} - {*x.candidate_ids[row].tolist()} | {0})
        expected[other] = -torch.inf
        torch.testing.assert_close(alphas[row, :T], alpha)
        torch.testing.assert_close(logits[row], expected)
    every = make_model(norm, answers="vocabulary")(x)
    assert every.isfinite().all()
    torch.testing.assert_close(every[logits.isfinite()], logits[logits.isfinite()])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm", ARMS)
def test_longer_padding_changes_nothing(norm, training, x):
    """Neither answers nor attention nor running statistics, but for the order of sums."""
    model, T, outputs = make_model(norm).train(training), x.passage.shape[1], []
    for batch in (x, pad_more(x, 5)):
        net = copy.deepcopy(model)
        logits, alpha = net.logits_and_attention(batch)
        outputs.append([logits, alpha[:, :T], *net.buffers()])
        assert not alpha[:, T:].any()
    for one, other in zip(*outputs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    for padding in ("cyclic", "zeros"):  # enter the statistics of batch norm alone
        careless = make_model(norm, padding=padding).logits_and_attention(x)[1]
        careful = make_model(norm).logits_and_attention(x)[1]
        assert torch.allclose(careful, careless, rtol=0, atol=1e-9) == ("batch" not in norm)


@torch.no_grad()
def test_reseeding_makes_the_gates_the_same_and_glorot_does_not():
    cells = {
        start: make_model(initialisation=start).passage.cells[0]
        for start in ("published", "paper")
    }
    gates = {start: cell.W_h.split(H) for start, cell in cells.items()}
    assert all(torch.equal(gates["published"][0], gate) for gate in gates["published"])
    assert not any(torch.equal(gates["paper"][0], gate) for gate in gates["paper"][1:])
    U = gates["paper"][0]
    torch.testing.assert_close(U @ U.T, 0.05**2 * torch.eye(H))
    W = torch.empty(300, 10)
    glorot_or_small_orthogonal_(W)
    assert 0.98 * (6 / 311) ** 0.5 < float(W.max()) < (6 / 311) ** 0.5


# --- batches and metrics ----------------------------------------------------------------------


def test_entities_are_renamed_alike_in_passage_question_and_answer():
    experiment = replace(SMOKE, seeds=(0, 1))
    dataset = experiment.dataset()
    batches = experiment.training_batches(dataset)
    x, y = dataset.encoded_split("train").batch(range(len(dataset.train)))
    known = {pattern(x, y, k, dataset): k for k in range(len(y))}
    seen = set()
    for x, y in batches.batches_of_epoch(0):
        for seed, row in product(range(2), range(experiment.batch_size)):
            one = QuestionBatch(*(field[seed] for field in x))
            seen.add((seed, known[pattern(one, y[seed], row, dataset)]))
            assert int(y[seed, row]) in x.candidate_ids[seed, row]
    assert len(seen) > 0.9 * 2 * len(dataset.train)  # some questions are alike but for names
    again = [next(batches.batches_of_epoch(epoch))[0].passage for epoch in (0, 0, 1)]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])
    *_, last = batches.batches_of_epoch(2)
    (resumed,) = batches.batches_of_epoch(2, start=len(batches) - 1)
    assert torch.equal(last[0].passage, resumed[0].passage)


def pattern(x, y, row, dataset):
    """A question whose entities are called by the order in which they come."""
    T, U = x.passage_lengths[row], x.query_lengths[row]
    words = [*x.passage[row, :T].tolist(), *x.query[row, :U].tolist(), int(y[row])]
    names: dict = {}
    return tuple(
        f"e{names.setdefault(w, len(names))}" if w in dataset.entity_ids else w for w in words
    )


def test_population_statistics_are_of_each_time_step_and_the_last_serves_later_ones():
    dataset = SMOKE.dataset()
    model = replace(SMOKE, norm="batch everywhere").model(0, dataset)
    train = dataset.encoded_split("train")
    evaluate.recompute_population_statistics_(model, train, 16)
    cell = model.passage.cells[0]
    means = cell.norm_x.running_mean
    assert means.shape == (dataset.longest_training_passage_and_query[0], 4 * 8)
    x, _ = train.batch(range(len(train)))
    a = F.embedding(x.passage[:, 2], model.word) @ cell.W_x.T
    torch.testing.assert_close(means[2], a.mean(0), rtol=1e-4, atol=1e-6)  # float32
    assert not torch.equal(means[2], means[3])
    longer = pad_more(x, 3)._replace(passage_lengths=x.passage_lengths + 3)
    assert model.eval()(longer)[:, dataset.entity_ids.start :].isfinite().any()


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_metrics_are_those_of_the_answers(norm):
    experiment = replace(SMOKE, norm=norm)
    dataset = experiment.dataset()
    model, size = experiment.model(0, dataset), experiment.batch_size
    valid = dataset.encoded_split("valid")
    values = evaluate.validation_and_test_metrics(
        copy.deepcopy(model), dataset, size, include_test=False
    )
    if norm == "layer":
        assert values["valid_nll"] == values["valid_nll_batch"]
        x, y = valid.batch(range(len(dataset.valid)))
        with torch.no_grad():
            logits = model.eval()(x)
        assert values["valid_error"] == float((logits.argmax(1) != y).double().mean())
        assert values["valid_nll"] == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-4)
    else:
        assert values["valid_nll"] != values["valid_nll_batch"]
        answers = evaluate.answer_questions(model, valid, size, StatisticsMode.BATCH)
        assert answers.nll_and_error("valid")["valid_nll"] == values["valid_nll_batch"]
        assert all(m.mode is None for m in model.modules() if isinstance(m, BatchNormalizer))
    for k, question in enumerate(dataset.valid[:4]):
        assert values[f"attention {k}"].shape == (len(question.passage.split()) + 1,)
        assert float(values[f"attention {k}"].sum()) == pytest.approx(1, abs=0.01)  # float16
        assert sum(values["candidate_probabilities"][k]) == pytest.approx(1, abs=0.01)
