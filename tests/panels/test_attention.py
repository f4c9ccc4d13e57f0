"""The panel of notebook 13, on recognizers that were hardly trained."""

from typing import Any

import numpy as np
import pytest

from lnlab.papers.las import synthesizer
from lnlab.papers.las.panel import (
    FIRST,
    LONG,
    SLOTS,
    AttentionMap,
    AttentionState,
    attention_figure,
    quoted_words,
    shortened,
    sound_figure,
)
from lnlab.papers.las.panel import attention as attention_panel
from lnlab.papers.las.recordings import Utterance, from_samples


def utterance(known=True) -> Any:
    sound = np.random.default_rng(0).normal(0, 0.1, 400 + 79 * 160)  # 80 frames
    times = {"begins": np.array([0.1, 0.3]), "ends": np.array([0.3, 0.7])} if known else {}
    return Utterance(
        name="a<b>",
        speaker="c",
        units=("k", "<s>"),
        recording=from_samples(sound, 16_000),
        **times,
    )


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def test_it_shows_what_the_runs_kept_at_every_moment_of_every_example(recognizers):
    runs, utterances = recognizers
    panel = attention_panel(*recognizers)
    assert panel.state == AttentionState(0, 2)
    assert attention_panel(*recognizers, epoch=0.6).state.epoch == 1
    for example in range(2):
        for epoch in range(3):
            panel.state = AttentionState(example, epoch)
            said = " ".join(utterances[example].units)
            assert panel.bar.error == ""
            assert f"Epoch {epoch:g}. Said: " in panel.bar.sentence
            assert said in panel.bar.sentence
            for slot, run in enumerate(runs.values()):
                update = run.metrics()["update"][epoch]
                kept = run.pictures(0)[update][f"attention {example}"]
                steps = -(-len(utterances[example].features) // 2)
                trace = panel.plots["attention"].current(f"attention {slot}")
                np.testing.assert_array_equal(trace["z"], kept[:, :steps])
                assert trace["x"][0] == pytest.approx(0.01)  # half a step
            notes = panel.plots["attention"]._layout["annotations"][1:]
            assert all("errors in the whole test)<br>" in note["text"] for note in notes)
            assert all("of the attention inside the boxes" in note["text"] for note in notes)


def test_phones_of_the_synthesised_speech_have_their_words_beside_them():
    for number in range(40):
        random = np.random.default_rng([0, list(synthesizer.SIZES).index("test"), number])
        _, words, _ = synthesizer.choose_words(random, "test")
        units = synthesizer.make_utterance(0, "test", number).units
        assert quoted_words(units) == f"“{' '.join(words)}”"
    assert quoted_words(("k", "ah")) == quoted_words(("A", "B")) == ""


def test_who_talks_on_is_not_quoted_to_the_end():
    assert shortened([]) == "(nothing)"
    assert shortened(["g"] * LONG) == " ".join("g" * LONG)
    assert shortened(["g"] * 90) == " ".join("g" * LONG) + " … (90 in all)"


def test_runs_without_attention_are_refused(recognizers):
    with pytest.raises(ValueError, match="there are no runs"):
        attention_panel({}, recognizers[1])


def test_boxes_are_where_the_units_are_if_that_is_known():
    maps = {"layer": AttentionMap(np.eye(2, 20), 0.04)}
    drawn = traces(attention_figure(utterance(), maps, "t"))
    x = np.array(drawn["truth 0"]["x"]).reshape(2, 6)
    np.testing.assert_array_equal(x[:, :2], [[0.1, 0.3], [0.3, 0.7]])
    drawn = traces(attention_figure(utterance(known=False), maps, "t"))
    assert not drawn["truth 0"]["visible"]
    assert not drawn["ends"]["visible"]


def test_only_attentions_that_are_there_have_axes_on_the_time_of_the_sound_above():
    for count in range(SLOTS + 1):
        maps = {f"net {k}": AttentionMap(np.eye(2, 5), 0.04) for k in range(count)}
        layout = attention_figure(utterance(), maps, "t")["layout"]
        axes = [layout[f"xaxis{slot + FIRST + 1}"] for slot in range(SLOTS)]
        assert [axis.get("visible", True) for axis in axes] == [k < count for k in range(SLOTS)]
        # no numbers stand where the title of the next picture does
        labels = [axis["showticklabels"] for axis in axes[:count]]
        assert labels == [k + 2 >= count for k in range(count)]
        for slot, axis in enumerate(axes[:count]):
            above = layout["xaxis2" if slot % 2 else "xaxis"]
            assert (axis["domain"], axis["range"]) == (above["domain"], above["range"])
    alone: Any = sound_figure(utterance())
    assert alone.layout.xaxis.domain[1] > 0.9
    assert alone.layout.annotations[0].text == "<b>a&lt;b&gt;</b>"
