"""The panel of notebook 13, on recognizers that were hardly trained."""

from dataclasses import replace

import numpy as np
import pytest

from lnlab.figures.attending import SLOTS, Attention, Spoken, attending, attending_traces
from lnlab.panels import attention
from lnlab.panels.attended import Attended, Recognizers
from lnlab.runs import read
from lnlab.tasks import Spelling
from lnlab.training import train

SMALL = Spelling.budget("smoke", utterances=24, epochs=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for norm in ("none", "both"):
        for _ in train(replace(SMALL, norm=norm), root=root):
            pass
    return {run.config["norm"]: run for run in read(root, "las")}, SMALL.dataset().test


def test_it_shows_every_moment_of_every_example(trained):
    panel = attention(*trained)
    assert panel.bar.error == ""
    there = Recognizers(*trained)
    assert there.epochs == (0, 1, 2)
    assert panel.state == Attended(0, 2)
    for example in range(len(there.utterances)):
        for epoch in there.epochs:
            panel.state = Attended(example, epoch)
            assert panel.bar.error == ""
            said = " ".join(there.utterances[example].units)
            assert f"Epoch {epoch:g}. Said: {said}." in panel.bar.sentence


def test_the_picture_is_what_the_run_kept(trained):
    runs, utterances = trained
    there = Recognizers(*trained)
    for epoch in range(3):
        shown = there.attentions(there.whole(Attended(1, epoch)))
        for name, run in runs.items():
            kept = np.array(run.metrics().attention[epoch][1])
            steps = -(-len(utterances[1].features) // 2)
            assert np.array_equal(shown[name].alpha, kept[:, :steps])
            assert shown[name].step == pytest.approx(0.02)


def test_the_nearest_moment_is_shown(trained):
    there = Recognizers(*trained)
    assert there.whole(Attended(0, 0.6)).epoch == 1
    assert there.whole(Attended()).epoch == 2


def test_it_can_be_played_without_a_kernel(trained, monkeypatch):
    panel = attention(*trained, example=2)
    (figure,) = panel._still(panel.state, True)
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"]


def test_what_is_not_there_is_named(trained):
    with pytest.raises(ValueError, match="example is 9: give 0 to"):
        attention(*trained, example=9)
    with pytest.raises(ValueError, match="there are no runs"):
        attention({}, trained[1])


def test_boxes_are_where_the_units_are():
    begins, ends = np.array([0.1, 0.3]), np.array([0.3, 0.7])
    spoken = Spoken("a<b>", np.zeros((80, 40)), 0.01, ("k", "<s>"), begins, ends)
    alpha = {"layer": Attention(np.eye(2, 20), 0.04, "text")}
    traces = attending_traces(spoken, alpha)
    x = np.array(traces["truth 0"]["x"]).reshape(2, 6)
    assert np.array_equal(x[:, 0], begins)
    assert np.array_equal(x[:, 1], ends)
    assert traces["attention 0"]["x"][0] == pytest.approx(0.02)
    assert not traces[f"attention {SLOTS - 1}"]["visible"]
    text = attending(spoken, alpha).to_json()
    assert "a<b>" not in text
    assert "<s>" not in text


def test_where_nobody_knows_there_are_no_boxes():
    spoken = Spoken("said", np.zeros((80, 40)), 0.01, ("A", "B"), None, None)
    traces = attending_traces(spoken, {"layer": Attention(np.eye(2, 20), 0.04, "text")})
    assert not traces["truth 0"]["visible"]
    assert not traces["ends"]["visible"]
