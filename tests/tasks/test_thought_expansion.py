"""Words that an encoder was not trained with: a linear map is found, nothing else changes."""

import numpy as np
import pytest
import torch

from lnlab.data import Vocabulary
from lnlab.data.judge import SentenceJudge, folds
from lnlab.data.wordvectors import WordVectors
from lnlab.norms import LayerNorm
from lnlab.tasks.thoughts import SkipThoughts
from lnlab.tasks.thoughts.expansion import expanded, unknown

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


def test_the_part_of_unknown_words_is_that_of_all_words():
    said = [["w1", "strange"], ["w2", "w3"]] * 5
    judge = SentenceJudge("X", said, [], np.arange(10) % 2.0, folds("X", 10))
    net, known, vectors, _ = net_and_vectors()
    assert unknown(judge, known) == 0.25
    assert unknown(judge, expanded(net, known, vectors, NEW)[1]) == 0.25
    judge = SentenceJudge("X", [["new", "w1"]] * 10, [], np.arange(10) % 2.0, folds("X", 10))
    assert unknown(judge, expanded(net, known, vectors, NEW)[1]) == 0
