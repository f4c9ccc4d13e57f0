"""The panel of notebook 09: where readers look for an answer while they learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lnlab.data.vocabulary import END, SPECIAL
from lnlab.figures.style import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    QUIET,
    VERMILLION,
    base_layout,
    escape,
    subplot_axes,
    text_annotation,
    trace,
)
from lnlab.panels.controls import dropdown, options_slider
from lnlab.panels.panel import LastIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.papers.attentive_reader.data import Question
from lnlab.papers.pictures import read_first_seed_metrics_and_pictures
from lnlab.training.runs import Run

LETTERS = 92
"""Characters per line of a passage."""
LINE = 20
"""The height of a line in pixels."""
MARKER = [[at, f"rgba(242, 169, 0, {part})"] for at, part in ((0, 0), (0.15, 0.15), (1, 0.6))]
"""The color scale of the attention: a translucent orange through which words can be read, on
light and on dark pages."""
FONT = {"family": "DejaVu Sans Mono, Menlo, Consolas, monospace", "size": 12}
INKS = (BLUE, VERMILLION, GREEN, PURPLE, "#7B3FA0", "#8C6D1F", "#C2185B", "#00664A", "#5A3A1A",
        "#3B4CC0")  # fmt: skip
"""The text colors of the entities, in the order of the candidate answers."""
AttentionAndHeading = tuple[np.ndarray, str]
"""The attention at each word (T,), and what stands above the passage."""


@dataclass(frozen=True)
class ReadingPanelSettings:
    """One question at one moment of the training."""

    question: int = 0  # which one, from 0
    update: LastIfNone[int] = None  # one at which attention was kept


def reading(runs: Mapping[str, Run], questions: Sequence[Question], **settings: Any) -> Panel:
    """Return the panel of attention to a passage, by question and update of readers.

    Args:
        runs: by name, of the task ``attentive_reader``; of several seeds the
            first counts.
        questions: the validation questions of their data, the first first.
        settings: initial fields of :class:`ReadingPanelSettings`; Reset restores them.
    """
    rows, pictures = read_first_seed_metrics_and_pictures(runs, "readers")
    name, first = next(iter(rows.items()))
    updates = [int(update) for update in first["update"]]
    questions = questions[: len(next(iter(pictures[name].values())))]

    def draw(settings: ReadingPanelSettings) -> TitledFigure:
        question = questions[settings.question]
        attentions, answers = {}, []
        for name, metrics in rows.items():
            row = metrics.iloc[(metrics["update"] - settings.update).abs().argmin()]
            # older runs kept a probability of the end, too, where others had more candidates
            probabilities = row.candidate_probabilities[settings.question]
            chances = dict(zip(question.candidates, map(float, probabilities), strict=False))
            best = max(chances, key=lambda candidate: chances[candidate])
            answer, chance = question.answer, f"{chances[best]:.0%}"
            right = f"right answer: {escape(answer)}, {chances[answer]:.0%}"
            right = "right" if best == answer else right
            wrong = f"error on all validation questions: {row.valid_error:.0%}"
            text = f"answers {escape(best)} with probability {chance} ({right})<br>{wrong}"
            alpha = pictures[name][int(row["update"])][f"attention {settings.question}"]
            attentions[name] = alpha.astype(float), text
            answers.append(f"{name}: {best} ({chance})")
        sentence = (
            f"Question: “{question.query}” Right answer: {question.answer}. "
            f"Answers of the networks after update {settings.update}, with the probability "
            f"that each network gives its answer: {'; '.join(answers)}."
        )
        title = f"attention to the passage after update {settings.update}"
        return TitledFigure(reading_figure(question, attentions), title, sentence)

    queries = {f"{k + 1}: {each.query}": k for k, each in enumerate(questions)}
    controls = {
        "question": dropdown("question", queries),
        "update": options_slider("update", updates, start_at_last=True),
    }
    alt = (
        "The words of a passage, once for each network: the stronger a word is marked, the "
        "more attention the network gives it while it looks for the word that is missing in "
        "the question; the words of entities are colored"
    )
    return Panel(
        make_settings(ReadingPanelSettings, settings), controls, draw,
        alt={"reading": alt}, notebook="09", on_page=["update", "question"],
    )  # fmt: skip


def reading_figure(question: Question, attentions: Mapping[str, AttentionAndHeading]) -> Figure:
    """Return the passage once for each reader, marked where it looks; entities have colours.

    Clear is an attention of 0, full orange of 1.

    Args:
        question: its passage is followed by what ends it.
        attentions: by reader the attention at each word (T,), and what stands above it.
    """
    words = [*question.passage.split(), SPECIAL[END]]
    lines, begins = lines_and_columns_of_words(words)
    inks = np.resize(INKS, len(question.candidates))
    colours = dict(zip(question.candidates, inks, strict=True))
    rows = int(lines[-1]) + 1
    block = LINE * rows + 54  # pixels of a reader: its lines, and two above them
    pixels = block * max(1, len(attentions))
    notes, data = [text_annotation(f"<b>{escape(question.query)}</b>", 0, 1.0, 26)], []
    layout = base_layout(pixels + 60, 12, 12, 50, 10)
    for slot, (name, (alpha, above)) in enumerate(attentions.items()):
        top = 1 - (block * slot + 50) / pixels
        note = text_annotation(f"<b>{escape(name)}</b>  {above}", 0, top, 2)
        notes.append(note | {"align": "left"})
        cells = np.full((rows, LETTERS), np.nan)
        for word, line, begin, weight in zip(words, lines, begins, alpha, strict=True):
            cells[line, begin : begin + len(word)] = weight
        data.append(trace(
            "heatmap", f"attention {slot}", slot, z=cells, x=np.arange(float(LETTERS)),
            y=np.arange(float(rows)), colorscale=MARKER, zmin=0, zmax=1, showscale=False,
            ygap=3, hovertemplate="%{z:.3f}<extra></extra>", hoverongaps=False,
        ))  # fmt: skip
        data.append(trace(
            "scatter", f"words {slot}", slot, mode="text", hoverinfo="skip",
            x=begins + np.array([len(word) - 1 for word in words]) / 2, y=lines.astype(float),
            text=[escape(word) for word in words],
            textfont=FONT | {"color": [colours.get(word, INK) for word in words]},
        ))  # fmt: skip
        y = {"domain": [max(0.0, top - LINE * rows / pixels), top], "range": [rows - 0.5, -0.5]}
        layout |= subplot_axes(slot, QUIET | {"range": [-0.6, LETTERS - 0.4]}, QUIET | y)
    return {"data": data, "layout": layout | {"annotations": notes}}


def lines_and_columns_of_words(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the line of each word (T,), and the place of its first letter in it (T,)."""
    places, line, at = [], 0, 0
    for word in words:
        if at and at + len(word) > LETTERS:
            line, at = line + 1, 0
        places.append((line, at))
        at += len(word) + 1
    lines, begins = np.array(places).T
    return lines, begins
