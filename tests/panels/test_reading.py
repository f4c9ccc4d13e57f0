"""The reading panel: what it shows is what the runs kept, word by word."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import lnlab.papers.attentive_reader.panel
from lnlab.papers.attentive_reader.data import BLANK, Question
from lnlab.papers.attentive_reader.panel import Readers, ReadingState, measure
from lnlab.papers.attentive_reader.panel import reading as reading_panel


def question(text="met", number=0):
    return Question(
        f"{text} {number}", (f"@entity0 {text} @entity1 .", f"@entity1 {text} @entity2 ."),
        f"@entity0 {text} {BLANK}", ("@entity0", "@entity1", "@entity2"), "@entity1",
    )  # fmt: skip


def reader(seed=0, count=2, words=9):
    """A run that kept where it looked, at two moments; it learns."""
    chance = np.random.default_rng(seed)
    chances = [[[0.5, 0.2, 0.3]] * count, [[0.1, 0.8, 0.1]] * count]
    rows = pd.DataFrame(
        {
            "seed": [0, 0],
            "update": [0, 70],
            "valid_error": [0.5, 0.25],
            "candidate_probabilities": chances,
        }
    )
    kept = {
        update: {f"attention {k}": chance.dirichlet(np.ones(words)) for k in range(count)}
        for update in rows["update"]
    }
    return SimpleNamespace(metrics=lambda: rows, pictures=lambda seed: kept, config={})


def test_what_is_shown_is_what_was_kept():
    runs = {"none": reader(), "layer": reader(1)}
    there = Readers(runs, [question(number=k) for k in range(5)])
    assert len(there.questions) == 2, "of the others nobody kept where the reader looked"
    found = measure(there, ReadingState(1, 70))
    assert found.passage.words[-1] == "<end>"
    for name, run in runs.items():
        assert np.array_equal(found.looks[name].alpha, run.pictures(0)[70]["attention 1"])
        assert found.said[name] == ("@entity1", 0.8, 0.8)
        assert "right)" in found.looks[name].text
    early = measure(there, ReadingState(1, 0)).looks["none"].text
    assert "says @entity0, 50% (the right one, @entity1, 20%); of all 50% wrong" in early


def test_every_letter_of_a_word_has_the_attention_of_its_word():
    there = Readers({"none": reader()}, [question()] * 2)
    passage, looks, _ = measure(there, ReadingState())
    traces = lnlab.papers.attentive_reader.panel.reading_traces(passage, looks)
    grid, told = traces["attention 0"]["z"], traces["words 0"]
    places = zip(passage.words, told["x"], told["y"], looks["none"].alpha, strict=True)
    for word, x, y, alpha in places:
        begin = round(x - (len(word) - 1) / 2)
        assert np.array_equal(grid[int(y), begin : begin + len(word)], [alpha] * len(word))
    assert np.isfinite(grid).sum() == sum(map(len, passage.words))
    colours = dict(zip(passage.words, told["textfont"]["color"], strict=True))
    assert len({colours[name] for name in passage.candidates}) == 3
    assert traces["words 1"] == {"visible": False}


def test_words_are_broken_into_lines_and_none_overlaps():
    words = ["w" * (1 + k % 17) for k in range(60)]
    lines, begins = lnlab.papers.attentive_reader.panel.laid_out(words)
    ends = begins + np.array([*map(len, words)])
    assert (ends <= lnlab.papers.attentive_reader.panel.LETTERS).all()
    same = lines[1:] == lines[:-1]
    assert (begins[1:][same] == ends[:-1][same] + 1).all()
    assert (begins[1:][~same] == 0).all()
    assert lines[-1] > 3


def test_what_cannot_be_shown_is_said():
    panel = reading_panel({"none": reader(), "layer": reader(1)}, [question()] * 2, update=0)
    assert panel.bar.error == ""
    with pytest.raises(ValueError, match="question is 2: give 0 to 1"):
        reading_panel({"none": reader()}, [question()] * 2, question=2)
    with pytest.raises(ValueError, match="there are no runs"):
        reading_panel({}, [])
    none = SimpleNamespace(metrics=reader().metrics, pictures=lambda seed: {}, config={})
    with pytest.raises(ValueError, match="kept no attention"):
        reading_panel({"none": none}, [question()])
