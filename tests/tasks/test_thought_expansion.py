"""Words that an encoder was not trained with: a linear map is found, nothing else changes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lnlab.data import Vocabulary
from lnlab.data.judge import SentenceJudge, folds
from lnlab.data.wordvectors import WordVectors, counted, write
from lnlab.norms import LayerNorm
from lnlab.tasks.thoughts import SkipThoughts, SkipThoughtVectors
from lnlab.tasks.thoughts.expansion import expanded, given
from lnlab.tasks.thoughts.measured import of_vectors, unknown, with_vectors
from lnlab.training import finish

KNOWN = [f"w{n}" for n in range(12)]
NEW = ["new", "other", "w3", "strange"]


def net_and_vectors(noise=0.0):
    """A net whose numbers of words are a linear map of vectors, but for two words without."""
    torch.manual_seed(0)
    known = Vocabulary(KNOWN)
    net = SkipThoughts(known, 5, 4, LayerNorm).double()
    random = np.random.default_rng(0)
    words = (*KNOWN[:10], "new", "other", "unused")
    vectors = random.normal(size=(len(words), 3)).astype(np.float32)
    turn, shift = random.normal(size=(3, 4)), random.normal(size=4)
    with torch.no_grad():
        net.word[2:12] = torch.from_numpy(vectors[:10] @ turn + shift)
    return net, known, WordVectors(words, vectors), vectors @ turn + shift


def test_new_words_have_the_numbers_of_the_map():
    net, known, vectors, expected = net_and_vectors()
    before = net.word.detach().clone()
    larger, vocabulary = expanded(net, known, vectors, NEW)
    assert vocabulary.words == (*known.words, "new", "other")
    assert torch.equal(larger.word[: len(known)], before)
    assert larger.word[len(known) :].detach().numpy() == pytest.approx(expected[10:12])
    assert torch.equal(net.word, before)
    assert len(net.word) == len(known)


def test_known_sentences_keep_their_vectors_and_new_words_are_read():
    net, known, vectors, _ = net_and_vectors()
    larger, vocabulary = expanded(net, known, vectors, NEW)
    same = known.numbers("w1 w7 w2")
    assert vocabulary.numbers("w1 w7 w2") == same
    assert torch.equal(larger.vectors([same]), net.vectors([same]))
    new, lost = (words.numbers("w1 new w2") for words in (vocabulary, known))
    assert not torch.equal(larger.vectors([new]), net.vectors([lost]))
    h = larger.vectors([same])[0]
    assert larger.say(h) == net.say(h)


def test_weights_of_the_smaller_vocabulary_are_refused():
    net, known, vectors, _ = net_and_vectors()
    larger, _ = expanded(net, known, vectors, NEW)
    with pytest.raises(ValueError, match="trained with another vocabulary"):
        larger.load_state_dict(net.state_dict())


def test_words_without_vectors_stay_unknown():
    net, known, vectors, _ = net_and_vectors()
    larger, vocabulary = expanded(net, known, vectors, ["strange", "w3"])
    assert vocabulary.words == known.words
    assert torch.equal(larger.word, net.word)


def test_fewer_words_than_numbers_are_refused():
    net, known, vectors, _ = net_and_vectors()
    few = WordVectors(vectors.words[7:], vectors.vectors[7:])
    with pytest.raises(ValueError, match="3 known words have vectors of 3 numbers"):
        expanded(net, known, few, NEW)
    task = SkipThoughtVectors.budget("smoke", known=8, words=6, vectors="counted")
    with pytest.raises(ValueError, match="6 known words have vectors of 6 numbers"):
        task.dataset()  # before anything is trained


def judged(words):
    """Sentences of a judge, five of each."""
    return SentenceJudge("X", words * 5, [], np.arange(10) % 2.0, folds("X", 10))


def test_the_part_of_unknown_words_is_that_of_all_words():
    net, known, vectors, _ = net_and_vectors()
    some = SimpleNamespace(judges={"X": judged([["w1", "strange"], ["w2", "w3"]])})
    assert unknown(some, known) == {"x_unknown": 25}
    larger = expanded(net, known, vectors, NEW)[1]
    assert unknown(some, larger) == {"x_unknown": 25}
    new = SimpleNamespace(judges={"X": judged([["new", "w1"], ["new", "w1"]])})
    assert unknown(new, known) == {"x_unknown": 50}
    assert unknown(new, larger, "_expanded") == {"x_unknown_expanded": 0}


def test_judges_are_asked_with_the_words_of_a_net_that_reads_more():
    """ "new" and "other" are all that the classes differ in: unknown, they are one word."""
    net, known, vectors, _ = net_and_vectors()
    judge = judged([["w1", "new"], ["w1", "other"]])
    numbered = SimpleNamespace(judges={"X": judge}, vocabulary=known)
    assert of_vectors(net, numbered, known)["x_nested"] <= 50
    found = with_vectors(net, numbered, vectors)
    assert found["x_expanded_nested"] == found["x_expanded_C256"] == 100
    assert found["x_unknown_expanded"] == 0


def test_a_run_has_the_scores_without_and_with_vectors_side_by_side(tmp_path):
    """Of 195 words 100 are known; nothing but what has to do with vectors changes."""
    plain = SkipThoughtVectors.budget("smoke", known=100, sentences=0)
    task = replace(plain, vectors="counted")
    metrics = {one: finish(one, root=tmp_path).metrics().iloc[-1] for one in (plain, task)}
    last, before = metrics[task], metrics[plain]
    assert (
        0 < last["phrase_unknown_expanded"] < last["phrase_unknown"] == before["phrase_unknown"]
    )
    assert 0 < last["phrase_expanded_C4"] < 100
    assert 0 < last["phrase_expanded_nested"] < 100
    same = [name for name in before.index if "seconds" not in name]
    assert last[same].equals(before[same])
    more = {*last.index} - {*before.index}
    assert all("_expanded" in name for name in more)
    assert more >= {"relatedness_rho_expanded_C16", "phrase_expanded_within"}


def test_vectors_of_a_file_are_part_of_the_data_and_their_path_is_not(tmp_path):
    plain = SkipThoughtVectors.budget("smoke", sentences=0, known=100)
    books = plain.dataset()
    made = counted(books.sentences, 6)
    one, other = (replace(plain, vectors=f"file={tmp_path / name}") for name in ("a", "b"))
    write(tmp_path / "a", made)
    write(tmp_path / "b", made)
    assert one.config() == other.config() == plain.config() | {"vectors": "file"}
    found = [task.dataset() for task in (one, other)]
    assert found[0].checksum == found[1].checksum != books.checksum
    assert {*found[0].vectors.words} < {*made.words} | {"no", "more"}
    write(tmp_path / "b", WordVectors(made.words, 2 * made.vectors))
    assert other.dataset().checksum != found[0].checksum
    # those that are counted follow from the books
    assert replace(plain, vectors="counted").dataset().checksum == books.checksum
    assert SkipThoughtVectors.of(plain.config()) == plain


@pytest.mark.parametrize("where", ["counting", "file", "counted=3", "file="])
def test_other_places_of_vectors_are_refused(where):
    with pytest.raises(ValueError, match=f"vectors is '{where}': give counted or file=PATH"):
        given(where, [], [], 3)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for name in ("nowhere", ""):  # a folder is no file either
        with pytest.raises(FileNotFoundError, match=rf"{name} is no file. `lnlab data vectors"):
            given(f"file={tmp_path / name}", [], ["w1"], 3)
