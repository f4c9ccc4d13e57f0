"""The panel of notebook 13, on recognizers that were hardly recognizers."""

import numpy as np
import pytest

import lnlab.papers.las.panel
from lnlab.papers.las import synthesizer
from lnlab.papers.las.panel import (
    LONG,
    SLOTS,
    AttentionMap,
    AttentionState,
    Recognizers,
    Spoken,
    attention_traces,
    quoted_words,
    told,
)
from lnlab.papers.las.panel import attention as attention_panel


def test_it_shows_every_moment_of_every_example(recognizers):
    panel = attention_panel(*recognizers)
    assert panel.bar.error == ""
    there = Recognizers(*recognizers)
    assert there.epochs == (0, 1, 2)
    assert panel.state == AttentionState(0, 2)
    for example in range(len(there.utterances)):
        for epoch in there.epochs:
            panel.state = AttentionState(example, epoch)
            assert panel.bar.error == ""
            said = " ".join(there.utterances[example].units)
            assert f"Epoch {epoch:g}. Said: " in panel.bar.sentence
            assert said in panel.bar.sentence
            assert ("“" in panel.bar.sentence) == ("(" + said + ")" in panel.bar.sentence)


def test_phones_of_the_synthesised_speech_have_their_words_beside_them():
    for number in range(40):
        random = np.random.default_rng([0, list(synthesizer.SIZES).index("test"), number])
        _, words, _ = synthesizer.choose_words(random, "test")
        units = synthesizer.make_utterance(0, "test", number).units
        assert quoted_words(units) == f"“{' '.join(words)}”"
    assert quoted_words(("k", "ah")) == quoted_words(("A", "B")) == ""


def test_the_error_says_what_it_is_of(recognizers):
    there = Recognizers(*recognizers)
    for shown in there.attentions(there.whole(AttentionState(0, 1))).values():
        assert shown.score.endswith("errors in the whole test)")
        assert shown.text.endswith("of the attention inside the boxes")


def test_who_talks_on_is_not_heard_to_the_end():
    assert told("") == "(nothing)"
    assert told("k ah p") == "k ah p"
    assert told("g " * LONG) == "g " * LONG
    assert told("g " * 90) == "g " * LONG + "… (90 in all)"


def test_the_picture_is_what_the_run_kept(recognizers):
    runs, utterances = recognizers
    there = Recognizers(*recognizers)
    for epoch in range(3):
        shown = there.attentions(there.whole(AttentionState(1, epoch)))
        for name, run in runs.items():
            update = run.metrics()["update"][epoch]
            kept = run.pictures(0)[update]["attention 1"]
            steps = -(-len(utterances[1].features) // 2)
            assert np.array_equal(shown[name].alpha, kept[:, :steps])
            assert shown[name].step == pytest.approx(0.02)


def test_the_nearest_moment_is_shown(recognizers):
    there = Recognizers(*recognizers)
    assert there.whole(AttentionState(0, 0.6)).epoch == 1
    assert there.whole(AttentionState()).epoch == 2


def test_what_is_not_there_is_named(recognizers):
    with pytest.raises(ValueError, match="example is 9: give 0 to"):
        attention_panel(*recognizers, example=9)
    with pytest.raises(ValueError, match="there are no runs"):
        attention_panel({}, recognizers[1])


def test_boxes_are_where_the_units_are():
    begins, ends = np.array([0.1, 0.3]), np.array([0.3, 0.7])
    spoken = Spoken("a<b>", np.zeros((80, 40)), 0.01, ("k", "<s>"), begins, ends)
    alpha = {"layer": AttentionMap(np.eye(2, 20), 0.04, "text")}
    traces = attention_traces(spoken, alpha)
    x = np.array(traces["truth 0"]["x"]).reshape(2, 6)
    assert np.array_equal(x[:, 0], begins)
    assert np.array_equal(x[:, 1], ends)
    assert traces["attention 0"]["x"][0] == pytest.approx(0.02)
    assert not traces[f"attention {SLOTS - 1}"]["visible"]
    text = lnlab.papers.las.panel.attention_figure(spoken, alpha).to_json()
    assert "a<b>" not in text
    assert "<s>" not in text


def test_where_nobody_knows_there_are_no_boxes():
    spoken = Spoken("said", np.zeros((80, 40)), 0.01, ("A", "B"), None, None)
    traces = attention_traces(spoken, {"layer": AttentionMap(np.eye(2, 20), 0.04, "text")})
    assert not traces["truth 0"]["visible"]
    assert not traces["ends"]["visible"]
