"""The reading panel: what it shows is what the runs kept, word by word."""

from types import SimpleNamespace

import numpy as np
import pytest

from lnlab.papers.attentive_reader.panel import LETTERS, ReadingState, laid_out
from lnlab.papers.attentive_reader.panel import reading as reading_panel
from tests.golden.write import questions, reader


def test_what_is_shown_is_what_was_kept_word_by_word():
    runs = {"none": reader(0), "layer": reader(1)}
    panel = reading_panel(runs, [*questions()] * 3)
    assert len(panel.controls["question"].options) == 2, "of the others nothing was kept"
    panel.state = ReadingState(1, 70)
    plot = panel.plots["reading"]
    words = [*questions()[0].passage.split(), "<end>"]
    for slot, run in enumerate(runs.values()):
        cells, text = (plot.current(f"{kind} {slot}") for kind in ("attention", "words"))
        alpha = run.pictures(0)[70]["attention 1"]
        for word, x, y, weight in zip(words, text["x"], text["y"], alpha, strict=True):
            begin = round(x - (len(word) - 1) / 2)
            assert np.array_equal(
                cells["z"][int(y), begin : begin + len(word)], [weight] * len(word)
            )
        assert np.isfinite(cells["z"]).sum() == sum(map(len, words))
        colours = dict(zip(words, text["textfont"]["color"], strict=True))
        assert len({colours[name] for name in questions()[0].candidates}) == 3
        assert "(right)" in plot._layout["annotations"][slot + 1]["text"]
    assert not plot.current("words 2")["visible"]
    assert "Said by none: @entity1 (80%); layer" in panel.bar.sentence
    panel.state = ReadingState(1, 0)
    early = plot._layout["annotations"][1]["text"]
    assert "says @entity0, 50% (the right one, @entity1, 20%); of all 50% wrong" in early


def test_words_are_broken_into_lines_and_none_overlaps():
    words = ["w" * (1 + k % 17) for k in range(60)]
    lines, begins = laid_out(words)
    ends = begins + np.array([*map(len, words)])
    assert (ends <= LETTERS).all()
    same = lines[1:] == lines[:-1]
    assert (begins[1:][same] == ends[:-1][same] + 1).all()
    assert (begins[1:][~same] == 0).all()
    assert lines[-1] > 3


def test_runs_without_attention_are_refused():
    none = SimpleNamespace(metrics=reader(0).metrics, pictures=lambda seed: {}, config={})
    with pytest.raises(ValueError, match="kept no attention"):
        reading_panel({"none": none}, questions())
