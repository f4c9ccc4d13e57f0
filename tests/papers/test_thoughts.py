"""Skip-thoughts: the formula, batches of one length, what is held out, what is measured."""

from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lnlab.data.vocabulary import END, UNKNOWN
from lnlab.nn import Identity, LayerNorm
from lnlab.papers.skip_thoughts.batches import EACH, STRETCH, NumberedBooks, OfOneLength
from lnlab.papers.skip_thoughts.evaluate import (
    BEST,
    NESTED,
    at_own_C,
    held_out,
    of_net,
    of_vectors,
    snapshots,
    unknown,
    words_alone,
)
from lnlab.papers.skip_thoughts.experiment import SkipThoughtVectors
from lnlab.papers.skip_thoughts.model import CONDITIONS, SkipThoughts, of_one_length
from lnlab.papers.skip_thoughts.sentence_eval import counted, judged
from lnlab.papers.skip_thoughts.sentence_tasks import SentenceJudge
from lnlab.training import finish

NORMS = {"none": Identity, "layer": LayerNorm}
H, E = 6, 5
SMALL = SkipThoughtVectors(
    units=(H,), embedding_size=E, vocab_size=40, updates=2, initialisation="modern"
)
CPU = torch.device("cpu")
every_form = pytest.mark.parametrize(("norm", "condition"), [*product(NORMS, CONDITIONS)])


@dataclass(frozen=True)
class Written:
    """Books, as the door gives them."""

    books: list
    name: str = "written"
    kind: str = "synthetic"
    licence: str = "none"
    checksum: str = "1"
    left_out: int = 7


def books(count=12, each=110, words=30, longest=9):
    """Books of random words; the same ones every time."""
    random = torch.Generator().manual_seed(1)

    def sentence():
        length = int(torch.randint(longest, (1,), generator=random))  # 0: one was left out
        drawn = torch.randint(words, (length,), generator=random)
        return [f"w{int(k)}" for k in drawn]

    return Written([[sentence() for _ in range(each)] for _ in range(count)])


@pytest.fixture(scope="module")
def numbered():
    return NumberedBooks(books(), 40)


def net(numbered, norm="layer", condition="start"):
    torch.manual_seed(3)
    return SkipThoughts(numbered.vocabulary, H, E, NORMS[norm], "modern", condition).double()


# --- the net ---------------------------------------------------------------------------------


@every_form
def test_the_nats_are_the_formula_word_by_word(numbered, norm, condition):
    made = net(numbered, norm, condition)
    told = numbered.told(numbered.train[numbered.lengths[numbered.train] == 4][:3])
    expected = torch.zeros(2)
    for row, side in product(range(3), range(2)):
        encoder, decoder = made.encoder.cells[0], made.decoders[side].cells[0]
        h = torch.zeros(1, H)
        for t, word in enumerate(told.middle[row]):
            (h,) = encoder(made.word[word][None], (h,), t)
        state = h if condition == "start" else torch.zeros(1, H)
        last = torch.zeros(1, E)
        for t, word in enumerate(told[1 + side][row, : told.counts[row, side]]):
            x = last if condition == "start" else torch.cat([last, h], 1)
            (state,) = decoder(x, (state,), t)
            p = (made.v @ state[0] + made.b).softmax(0)
            expected[side] -= p[word].log()
            last = made.word[word][None]
    torch.testing.assert_close(made(told), expected)


def test_neighbours_that_are_padded_more_cost_the_same(numbered):
    made = net(numbered)
    told = numbered.told(numbered.train[numbered.lengths[numbered.train] == 3][:5])
    wider = told._replace(before=F.pad(told.before, (0, 4)), after=F.pad(told.after, (0, 4)))
    torch.testing.assert_close(made(wider), made(told))


@every_form
def test_fused_it_is_the_same_function_with_the_same_gradients(numbered, norm, condition):
    both = {}
    for fused in (True, False):
        task = replace(SMALL, norm=norm, condition=condition, fused=fused)
        made = task.model(0, numbered).double()
        x, _ = next(task.batches(numbered).epoch(0))
        loss = made(type(x)(*(part[0] for part in x))).sum()
        loss.backward()
        both[fused] = {"loss": loss} | {n: p.grad for n, p in made.named_parameters()}
    for name, expected in both[False].items():
        torch.testing.assert_close(both[True][name], expected, msg=name)


def test_layer_norm_stands_in_the_encoder_and_in_both_decoders(numbered):
    made = SMALL.model(0, numbered)
    for recurrent in (made.encoder, *made.decoders):
        cell = recurrent.cells[0]
        for norm in (cell.norm_h, cell.norm_x, cell.norm_U, cell.norm_W):
            assert isinstance(norm, LayerNorm)
    plain = replace(SMALL, norm="none").model(0, numbered)
    assert not any(isinstance(part, LayerNorm) for part in plain.modules())


def test_vectors_are_those_of_each_sentence_alone(numbered):
    made = net(numbered)
    sentences = [[3, 4, 5], [6], [7, 8, 9], [2, 3]]
    found = made.vectors(sentences)
    for row, sentence in zip(found, sentences, strict=True):
        torch.testing.assert_close(row, made.read(torch.tensor([sentence]))[0])
    with pytest.raises(ValueError, match="sentence 1 has no words"):
        made.vectors([[3], []])


def test_what_is_told_is_the_likeliest_word_each_time(numbered):
    made = net(numbered)
    h = made.vectors([[3, 4, 5]])[0]
    said = made.say(h, "after", most=5)
    assert len(said) <= 5
    assert UNKNOWN not in said
    words = torch.tensor([[*said, END]])
    for t, word in enumerate(said):
        nats = [
            made.nats(made.decoders[1], h[None], with_(words, t, w), torch.tensor([t + 1]))[-1]
            for w in range(len(numbered.vocabulary))
            if w != UNKNOWN
        ]
        chosen = made.nats(made.decoders[1], h[None], words, torch.tensor([t + 1]))[-1]
        torch.testing.assert_close(chosen, min(nats))
        assert word != END


def with_(words, t, word):
    """The words with another one in place t."""
    changed = words.clone()
    changed[0, t] = word
    return changed


def test_of_one_length_is_every_sentence_once():
    sentences = [[0] * n for n in (3, 1, 3, 2, 3, 1)]
    batches = of_one_length(sentences, most=2)
    assert sorted(place for batch in batches for place in batch) == list(range(6))
    assert all(len({len(sentences[p]) for p in batch}) == 1 for batch in batches)
    assert max(map(len, batches)) == 2


# --- the authors' Adam -----------------------------------------------------------------------


def steps(adam, rate, count=3):
    """How far a weight moves in its first updates, at a slope of 1."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = replace(SMALL, adam=adam, learning_rate=rate).optimizer(iter([p]))
    found = []
    for _ in range(count):
        before, rate_now = p.item(), optimizer.param_groups[0]["lr"]
        p.grad = torch.ones(1)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = rate_now  # as a training does before each update
        found.append(before - p.item())
    return found


def test_the_published_adam_takes_its_own_rate_and_starts_hot():
    assert steps("published", 0.01) == steps("published", 0.5)
    m = v = 0.0
    for t, step in enumerate(steps("published", 0.01), start=1):
        m, v = 0.9 * m + 0.1, 0.999 * v + 0.001  # optim.py: b1 = 0.1, b2 = 0.001
        rate = 2e-4 * (1 - 0.001**t) ** 0.5 / (1 - 0.1**t)
        assert step == pytest.approx(rate * m / (v**0.5 + 1e-8), rel=1e-4)


def test_the_usual_adam_takes_the_rate_that_it_is_given():
    assert steps("standard", 0.01) == pytest.approx([0.01] * 3, rel=1e-5)


def test_gradients_are_cut_as_a_whole():
    p = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))]
    optimizer = replace(SMALL, max_grad_norm=5.0).optimizer(iter(p))
    p[0].grad, p[1].grad = torch.tensor([6.0, 0.0]), torch.tensor([8.0])
    optimizer.step()
    torch.testing.assert_close(p[0].grad, torch.tensor([3.0, 0.0]))
    torch.testing.assert_close(p[1].grad, torch.tensor([4.0]))


# --- books by number -------------------------------------------------------------------------


def test_told_sentences_have_their_neighbours_in_their_book(numbered):
    flat = [sentence for book in numbered.books.books for sentence in book]
    of = [k for k, book in enumerate(numbered.books.books) for _ in book]

    def words(row):
        return [numbered.vocabulary.words[number] for number in row if number != END]

    for length in (1, 5, 8):
        places = numbered.train[numbered.lengths[numbered.train] == length][:6]
        told = numbered.told(places)
        assert told.middle.shape == (6, length + 1)
        for row, place in enumerate(places.tolist()):
            assert of[place - 1] == of[place] == of[place + 1]
            for side, part in ((0, told.middle), (-1, told.before), (1, told.after)):
                assert words(part[row]) == flat[place + side]
            assert told.counts[row].tolist() == [len(flat[place + s]) + 1 for s in (-1, 1)]
    assert numbered.sentence(int(numbered.train[7])) == " ".join(flat[int(numbered.train[7])])


def test_no_sentence_that_trains_is_held_out(numbered):
    def with_neighbours(places):
        return {place + side for place in places.tolist() for side in (-1, 0, 1)}

    train, valid = with_neighbours(numbered.train), with_neighbours(numbered.valid)
    assert train
    assert valid
    assert not train & valid
    assert {place // STRETCH % EACH for place in valid} == {EACH - 1}


def test_a_sentence_that_was_left_out_parts_its_neighbours(numbered):
    empty = numbered.lengths == 0
    assert empty.any()
    for places in (numbered.train, numbered.valid):
        assert not any(empty[places + side].any() for side in (-1, 0, 1))
    ends = numbered.ends - 1
    assert not torch.isin(numbered.train, torch.cat([ends, ends + 1])).any()
    assert "7 left out as too long" in str(numbered)


def test_a_passage_is_of_held_out_sentences_in_a_row(numbered):
    found = numbered.passages(3)
    assert len(found) > 1
    inner = [place for passage in found for place in passage[1:-1]]
    held = set(numbered.valid.tolist())
    assert {*inner} <= held
    assert len(inner) == len({*inner})
    assert all(passage[0] not in held and passage[-1] not in held for passage in found)
    assert not numbered.passages(1 + max(map(len, found)))


def test_the_vocabulary_is_the_most_frequent_words_that_train():
    written = Written(
        [[["held"] if k // 50 == 19 else ["b", "a", "b"][k % 3 :] for k in range(2000)]]
    )
    assert NumberedBooks(written, 4).vocabulary.words[2:] == ("b", "a")
    assert "held" not in NumberedBooks(written, 9).vocabulary
    few = NumberedBooks(books(), 7)
    assert len(few.vocabulary) == 7
    rows = few.told(few.train[few.lengths[few.train] == 8][:20]).middle
    assert (rows == UNKNOWN).any()


def test_few_sentences_are_whole_books():
    few = NumberedBooks(books(), 40, most=1250)
    assert len(few.lengths) == 12 * 110
    assert NumberedBooks(books(), 40, most=1101).ends.tolist() == [
        110 * k for k in range(1, 12)
    ]


def test_shuffled_sentences_are_the_same_ones_in_other_places(numbered):
    mixed = NumberedBooks(books(), 40, shuffled=True)
    assert sorted(mixed.sentences) == sorted(numbered.sentences)
    assert mixed.sentences != numbered.sentences
    assert NumberedBooks(books(), 40, shuffled=True).sentences == mixed.sentences


def test_shuffled_books_have_the_words_of_those_in_order_under_the_same_numbers():
    for known in (40, 10):
        mixed, plain = (NumberedBooks(books(), known, shuffled=way) for way in (True, False))
        assert mixed.vocabulary.words == plain.vocabulary.words


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (Written([[["a"], ["b"], []]] * 500), "none to train on; 7 were too long.*limit"),
        (Written([[["a"]] * 100]), "100 sentences in 1 books, none to validate on"),
        (Written([[[], [], []]]), "the vocabulary is empty"),
    ],
)
def test_books_that_cannot_be_used_are_errors_that_say_so(written, words):
    with pytest.raises(ValueError, match=words):
        NumberedBooks(written, 10)


# --- batches ---------------------------------------------------------------------------------


def test_batches_are_of_one_length_and_an_epoch_is_every_sentence_once(numbered):
    made = OfOneLength(numbered, numbered.train, 16, (0, 1), CPU)
    seen: list[list] = [[], []]
    count = 0
    for x, y in made.epoch(0):
        assert x.middle.shape[1] <= 16
        assert torch.equal(y, x.counts.sum(-1))
        for seed in range(2):
            assert (x.middle[seed, :, -1] == END).all()
            assert (x.middle[seed, :, :-1] != END).all()
            seen[seed] += [tuple(row) for row in x.middle[seed].tolist()]
        count += 1
    assert count == len(made)
    assert sorted(seen[0]) == sorted(seen[1])
    assert seen[0] != seen[1]
    assert len(seen[0]) == len(numbered.train)


def test_the_order_is_of_seed_and_epoch_alone_and_is_resumed(numbered):
    alone, both = (OfOneLength(numbered, numbered.train, 16, s, CPU) for s in ((1,), (0, 1)))
    for one, two in zip(alone.epoch(2), both.epoch(2), strict=True):
        assert torch.equal(one[0].middle[0], two[0].middle[1])
    first, other = (next(alone.epoch(k))[0].middle for k in (0, 1))
    assert not torch.equal(first, other)
    *_, last = alone.epoch(2)
    (resumed,) = alone.epoch(2, start=len(alone) - 1)
    assert torch.equal(last[0].middle, resumed[0].middle)


# --- what is measured ------------------------------------------------------------------------


def test_held_out_nats_are_those_of_the_words(numbered):
    made = net(numbered)
    nats, words = torch.zeros(2), 0
    for place in numbered.valid:
        told = numbered.told(place[None])
        nats += made(told).detach()
        words += told.counts[0]
    found = held_out(made, numbered)
    assert found["valid_nll"] == pytest.approx(float(nats.sum() / words.sum()))
    assert found["valid_nll_before"] == pytest.approx(float(nats[0] / words[0]))
    assert found["valid_nll_after"] == pytest.approx(float(nats[1] / words[1]))


def judge(name, pairs):
    """Sentences of one word or two, and whether there are two."""
    sentences = [["w1"] * (1 + k % 2) + [f"w{2 + k % 5}"] for k in range(60)]
    targets = np.array([float(k % 2) for k in range(60)])
    parts = np.arange(60) % 3 if pairs else np.arange(60) // 2 % 10
    others = sentences[::-1] if pairs else []
    return SentenceJudge(name, sentences, others, 1 + 4 * targets if pairs else targets, parts)


def test_verdicts_have_the_names_of_their_judges():
    long, near = judge("Long", False), judge("Near", True)
    numbered = NumberedBooks(books(), 40, judges={"Long": long, "Near": near})
    made = net(numbered)
    found = of_vectors(made, numbered)
    own = at_own_C(found, NESTED)
    assert own.keys() == {"long", "near_r", "near_rho", "near_mse"}
    every = judged(long, of_net(made, numbered.vocabulary)(long))
    for C, verdict in every.by_C.items():
        assert found[f"long_C{C:g}"] == verdict.scores["accuracy"]
    assert found["long_nested"] == own["long"] == every.own.scores["accuracy"]
    assert found["long_within"] == every.own.within
    related = judged(near, of_net(made, numbered.vocabulary)(near))
    assert found["near_r_nested"] == related.own.scores["pearson"]
    words = at_own_C(words_alone(numbered), BEST)
    assert words["long_words"] == 100  # how many words there are
    assert {"near_r_tfidf", "long_tfidf"} <= words.keys()


def test_the_part_of_unknown_words_is_that_of_all_words():
    said = [["w1", "strange"], ["w2", "w3"]] * 5
    some = SentenceJudge("X", said, [], np.arange(10) % 2.0, np.arange(10))
    assert unknown(NumberedBooks(books(), 40, judges={"X": some})) == {"x_unknown": 25}


def test_what_words_say_alone_is_found_out_once(monkeypatch, tmp_path):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    names = []

    def noted(judge, represent):
        names.append(judge.name)
        return counted(judge, represent)

    monkeypatch.setattr("lnlab.papers.skip_thoughts.sentence_eval.counted", noted)
    first, again, other = (
        words_alone(NumberedBooks(books(), 40, judges={name: judge(name, False)}))
        for name in ("One", "One", "Other")
    )
    assert first == again
    assert names == ["One"] * 2 + ["Other"] * 2  # words, and TF-IDF
    assert other.keys() == {name.replace("one", "other") for name in first}


def test_ends_are_read_where_pairs_are_judged_and_else_not(numbered):
    made = net(numbered)
    for pairs in (False, True):
        one = judge("one", pairs)
        seen = of_net(made, numbered.vocabulary)(one)
        rows = [numbered.vocabulary.encode(" ".join(words)) for words in one.said]
        vectors = made.vectors(rows if pairs else [row[:-1] for row in rows])
        torch.testing.assert_close(torch.from_numpy(seen), vectors)


def test_weights_that_were_kept_along_a_training_are_its_own(tmp_path):
    task = SkipThoughtVectors.budget("smoke", seeds=(0,), downstream_tasks="none")
    run = finish(task, root=tmp_path)
    dataset = task.dataset()
    nets = snapshots(task, run, dataset)
    assert [*nets] == [0, 3, 6]
    last = task.trained(run.weights(), dataset, 0)
    for name, weights in last.named_parameters():
        half = dict(nets[6].named_parameters())[name]
        torch.testing.assert_close(half.float(), weights.float(), rtol=1e-3, atol=1e-6)
    with pytest.raises(ValueError, match="kept no weights"):
        snapshots(task, SimpleNamespace(pictures=lambda seed: {0: {}}), dataset)


def test_the_configuration_has_the_name_of_the_judges_and_not_their_path():
    task = replace(SMALL, downstream_tasks="sentence-tasks=/somewhere", data="novels=/else")
    assert task.config()["downstream_tasks"] == "sentence-tasks"
    assert replace(task, downstream_tasks="sentence-tasks").config() == task.config()


def test_the_checksum_is_of_books_and_judges(numbered):
    judges = {"Long": judge("Long", False)}
    with_judges = NumberedBooks(books(), 40, judges=judges)
    other = NumberedBooks(books(), 40, judges={"Long": judge("Other", False)})
    assert numbered.checksum == "1"
    assert len({numbered.checksum, with_judges.checksum, other.checksum}) == 3
