"""The panel of notebook 13: where recognizers look while they learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import plotly.graph_objects as go
import torch

from lnlab.figures.style import (
    MARK,
    SIZES,
    base_layout,
    escape,
    subplot_axes,
    text_annotation,
    trace,
)
from lnlab.panels.controls import dropdown, options_slider
from lnlab.panels.panel import LastIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.papers.las.recordings import FILTERS, HOP, Utterance
from lnlab.papers.las.search import attention_share_in_segments
from lnlab.papers.las.synthesizer import SILENCE, WORDS
from lnlab.papers.pictures import read_first_seed_metrics_and_pictures
from lnlab.training.runs import Run

FIRST = 2
"""The number of spectrograms; their axes are numbered before those of the attention maps."""
COLUMNS, ROWS = ((0, 0.45), (0.55, 1)), ((0.84, 1), (0.42, 0.72), (0.03, 0.33))
"""The extents of the subplots, across and up: the spectrogram, two rows of attention maps."""
LONG = 16
"""The largest number of recognized units shown: an untrained recognizer may output many."""

WORD_OF = {phones: word for word, phones in WORDS.items()}
"""The words of the synthesized speech by their phones: no two words have the same phones."""


@dataclass(frozen=True)
class AttentionPanelSettings:
    """One example at one moment of the training."""

    example: int = 0  # which utterance, from 0
    epoch: LastIfNone[float] = None  # one at which attention was kept


class AttentionMap(NamedTuple):
    """A recognizer's attention to an utterance, and the text above it."""

    alpha: np.ndarray  # the attention (units, steps)
    seconds_per_step: float
    test_error_label: str  # beside the recognizer's name
    attention_share_label: str  # below that name


def attention(
    runs: Mapping[str, Run], utterances: Sequence[Utterance], **settings: Any
) -> Panel:
    """Return the panel of attention to speech, by example and epoch of recognizers.

    Args:
        runs: by name, at most four, of the task ``las``; of several seeds the first counts.
        utterances: the test utterances of their data, the first first.
        settings: fields of :class:`AttentionPanelSettings` to start with; Reset returns to
            them.
    """
    rows, pictures = read_first_seed_metrics_and_pictures(runs, "recognizers")
    steps = {name: HOP * 2 ** (run.config["encoder_layers"] - 1) for name, run in runs.items()}
    name, first = next(iter(rows.items()))
    epochs = first.epoch.tolist()
    utterances = utterances[: len(next(iter(pictures[name].values())))]

    def draw(settings: AttentionPanelSettings) -> TitledFigure:
        utterance, maps, answers = utterances[settings.example], {}, []
        for name, metrics in rows.items():
            row = metrics.iloc[(metrics.epoch - settings.epoch).abs().argmin()]
            alpha = pictures[name][int(row["update"])][f"attention {settings.example}"]
            count = -(-utterance.num_frames // round(steps[name] / HOP))  # without padding
            alpha, share = alpha[:, :count].astype(float), ""
            if utterance.begins is not None and utterance.ends is not None:
                times = steps[name], utterance.begins, utterance.ends
                inside = attention_share_in_segments(torch.tensor(alpha), *times)
                share = (
                    f"{float(inside.mean()):.0%} of the attention is inside the orange boxes"
                )
            score = f"(error on the test set: {row.test_error:.0%})"
            maps[name] = AttentionMap(alpha, steps[name], score, share)
            answers.append(f"{name}: {shorten_units(row.hypotheses[settings.example])}")
        words, units = quoted_words_from_phones(utterance.units), " ".join(utterance.units)
        spoken = f"{words} ({units})" if words else units
        title = f"{utterance.name}, {utterance.speaker}" + (words and f": {words}")
        text = f"Epoch {settings.epoch:g}. Spoken: {spoken}. Recognized: {'; '.join(answers)}."
        return TitledFigure(
            spectrogram_and_attention_figure(utterance, maps, title),
            f"epoch {settings.epoch:g}",
            text,
        )

    names = {
        f"{k + 1}: {quoted_words_from_phones(u.units)} {' '.join(u.units)}   ({u.name})": k
        for k, u in enumerate(utterances)
    }
    controls = {
        "example": dropdown("example", names),
        "epoch": options_slider("epoch", epochs, start_at_last=True),
    }
    alt = (
        "The spectrogram of an utterance, and for each recognizer its attention over time "
        "while it outputs each unit, with boxes at the times at which that unit was spoken"
    )
    return Panel(
        make_settings(AttentionPanelSettings, settings), controls, draw,
        alt={"attention": alt}, notebook="13", on_page=["epoch", "example"],
    )  # fmt: skip


def quoted_words_from_phones(units: Sequence[str]) -> str:
    """Return the words that phones of the synthesised speech spell, in quotes; else nothing."""
    words = words_from_phones_or_none(tuple(units))
    return f"“{' '.join(words)}”" if words else ""


def words_from_phones_or_none(units: tuple[str, ...]) -> list[str] | None:
    """Return the words whose phones, with pauses between them, are ``units``, if any are."""
    if not units:
        return []
    if units[0] == SILENCE:
        return words_from_phones_or_none(units[1:])
    for end in range(1, len(units) + 1):
        word = WORD_OF.get(units[:end])
        rest = words_from_phones_or_none(units[end:]) if word else None
        if word and rest is not None:
            return [word, *rest]
    return None


def shorten_units(units: Sequence[str]) -> str:
    """Return the units that were heard, or the first of them and how many there are."""
    if len(units) <= LONG:
        return " ".join(units) or "(nothing)"
    return f"{' '.join(units[:LONG])} … ({len(units)} units in all)"


def spectrogram_figure(utterance: Utterance) -> go.Figure:
    """Return the spectrogram of an utterance, with a line at the end of each unit."""
    figure = go.Figure(spectrogram_and_attention_figure(utterance, {}, utterance.name))
    return figure.update_layout(height=340, yaxis={"domain": [0, 1]})


def spectrogram_and_attention_figure(
    utterance: Utterance, maps: Mapping[str, AttentionMap], title: str
) -> Figure:
    """Return the spectrogram, and below it a heat map for each recognizer, two in a row.

    With two in a row the spectrogram stands above both, on the time axis of what is below it.
    Orange boxes are where each unit was said.
    """
    bands = utterance.features[:, :FILTERS].numpy()
    T, filters = bands.shape
    known = utterance.begins is not None and utterance.ends is not None
    begins, ends = cast("tuple[Any, Any]", (utterance.begins, utterance.ends))
    labels = [escape(unit) for unit in utterance.units]
    truth = {"mode": "lines", "line": {"color": MARK, "width": 1.5}, "hoverinfo": "skip"}
    data, notes = [], [text_annotation(f"<b>{escape(title)}</b>", 0, 1.0, 34)]
    layout = base_layout(760, 60, 12, 56, 46)
    time = {"range": [0, HOP * T]}
    sound = {"z": bands.T, "x": HOP * np.arange(T), "y": np.arange(1.0, filters + 1)}
    above: dict[str, Any] = {}
    if known:
        middle = ((begins + ends) / 2).tolist()
        above = {"tickvals": middle, "ticktext": labels, "ticks": "", "side": "top"}
    for column, name in enumerate(("", " beside")[: max(1, min(2, len(maps)))]):
        data.append(trace(
            "heatmap", f"sound{name}", column, **sound, colorscale="gray", showscale=False
        ))  # fmt: skip
        if known:
            ticks = unit_boundary_trace(begins, ends, filters)
            data.append(trace("scatter", f"ends{name}", column, **ticks, **truth))
        x = {"domain": COLUMNS[column] if maps else (0, 1)} | time | above
        mel = {"text": "" if column else "mel filter"}
        y = {"domain": ROWS[0], "range": [0.5, filters + 0.5], "title": mel}
        layout |= subplot_axes(column, x, y)
    for slot, (name, (alpha, step, score, share)) in enumerate(maps.items()):
        subplot, lowest = slot + FIRST, slot + 2 >= len(maps)
        data.append(trace(
            "heatmap", f"attention {slot}", subplot, z=alpha,
            x=step * (np.arange(alpha.shape[1]) + 0.5), y=np.arange(float(len(alpha))),
            colorscale=SIZES, zmin=0, zmax=1, showscale=False,
            hovertemplate="%{x:.2f} s: %{z:.2f}<extra></extra>",
        ))  # fmt: skip
        if known:
            boxes = unit_box_trace(begins, ends)
            data.append(trace("scatter", f"truth {slot}", subplot, **boxes, **truth))
        left, top = COLUMNS[slot % 2][0], ROWS[subplot // 2][1]
        seconds = {"title": {"text": "seconds" if lowest else ""}, "showticklabels": lowest}
        y = {
            "domain": ROWS[subplot // 2], "range": [len(labels) - 0.5, -0.5],
            "tickvals": [*range(len(labels))], "ticktext": labels, "showgrid": False,
        }  # fmt: skip
        layout |= subplot_axes(subplot, {"domain": COLUMNS[slot % 2]} | time | seconds, y)
        text = f"<b>{escape(name)}</b> {escape(score)}<br>{escape(share)}"
        notes.append(text_annotation(text, left, top, 6, size=12) | {"align": "left"})
    return {"data": data, "layout": layout | {"annotations": notes}}


def unit_boundary_trace(begins: np.ndarray, ends: np.ndarray, filters: int) -> dict[str, Any]:
    """Return a line through the spectrogram at the end of each unit."""
    times = np.unique(np.concatenate([begins, ends]))
    y = np.tile([0.5, filters + 0.5, np.nan], len(times))
    return {"x": np.repeat(times, 3), "y": y}


def unit_box_trace(begins: np.ndarray, ends: np.ndarray) -> dict[str, Any]:
    """Return the outline of a box for each unit, from its begin to its end, in its row."""
    row = np.arange(len(begins), dtype=float)
    gap = np.full(len(row), np.nan)
    low, high = row - 0.5, row + 0.5
    return {
        "x": np.stack([begins, ends, ends, begins, begins, gap], 1).ravel(),
        "y": np.stack([low, low, high, high, low, gap], 1).ravel(),
    }
