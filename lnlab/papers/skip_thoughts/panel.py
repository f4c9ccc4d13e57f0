"""The panel of notebook 10: type a sentence, and drag through the training of models."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate, pairwise
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.figures.style import (
    BLUE,
    GREY,
    ORANGE,
    QUIET,
    VERMILLION,
    axis_name_suffix,
    base_layout,
    escape,
    subplot_axes,
    text_annotation,
    trace,
)
from lnlab.panels.controls import (
    check_control_value,
    dropdown,
    options_slider,
    text_box,
)
from lnlab.panels.panel import LastIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.papers.pictures import nearest_value
from lnlab.papers.skip_thoughts.data import EncodedBooks, tokenize

NEIGHBOURS = 5
"""The number of nearest sentences shown, the nearest first."""
LETTERS = 94
"""Characters that fit into one line, over all columns together."""
BOOKS = 12
"""The number of held-out passages whose sentences are on the map."""
LEAST = 5
"""The smallest number of sentences in a passage."""
FIRST = 4
"""The number of sentences of a book offered on a static page, where no kernel runs."""
HOVER = "%{text}<extra></extra>"
LONG = 70
"""The most characters quoted of a predicted sentence: untrained networks may not end it."""


@dataclass(frozen=True)
class ThoughtsPanelSettings:
    """One sentence at one moment of the training."""

    sentence: str = ""  # in words; empty: the first of the book
    book: int = 0  # whose sentences are joined in their order, from 0
    update: LastIfNone[int] = None  # one whose weights were kept


class SentenceView(NamedTuple):
    """A sentence as one model sees it."""

    all_sentence_points: np.ndarray  # all sentences in two dimensions (N, 2)
    query_point: np.ndarray  # the sentence itself (2,)
    nearest_by_cosine: list[tuple[str, float]]  # its nearest neighbours, and the cosine to each
    predicted_next: str  # the sentence that the model would let follow


class HeldOutSentenceMaps:
    """Held-out sentences in two dimensions, as several models see them while they learn.

    Args:
        models_by_name_and_update: of the task ``skip_thoughts``.
        numbered: what they were trained on.
    """

    def __init__(
        self,
        models_by_name_and_update: Mapping[str, Mapping[int, Any]],
        numbered: EncodedBooks,
    ) -> None:
        for name, moments in models_by_name_and_update.items():
            if not moments:
                raise ValueError(
                    f"the model {name} has no stored weights: train it with snapshots=True."
                )
            if not all(net.has_vocabulary(numbered.vocabulary) for net in moments.values()):
                raise ValueError(
                    f"the model {name} was trained with another vocabulary than that of the "
                    "data."
                )
        self.models, self.numbered = models_by_name_and_update, numbered
        self.updates = sorted(next(iter(self.models.values())))
        passages = numbered.held_out_passages(LEAST)[:BOOKS]
        if not passages:
            raise ValueError(
                f"the data set {numbered.name} holds out no passage of {LEAST} sentences in a "
                "row: give more sentences, or allow longer ones (max_length)."
            )
        self.texts = [
            numbered.unencoded_sentence_text(place) for passage in passages for place in passage
        ]
        ends = accumulate(map(len, passages), initial=0)
        self.books = [range(*both) for both in pairwise(ends)]
        self.vectors = cache(
            lambda name, update: self.unit_sentence_vectors(name, update, self.texts)
        )

    def tokenize_text(self, text: str) -> str:
        """Return a sentence cut into words, in small letters."""
        sentence = " ".join(text.lower().split())
        # those of the map are cut already
        return sentence if sentence in self.texts else " ".join(tokenize(sentence))

    def model_near_update(self, name: str, update: int) -> Any:
        """Return a model at the moment nearest to an update."""
        return self.models[name][nearest_value(self.models[name], update)]

    def unit_sentence_vectors(self, name: str, update: int, texts: list[str]) -> Tensor:
        """Return sentences as a model sees them (N, H), of length 1, on the CPU."""
        rows = [self.numbered.vocabulary.encode_with_end(text) for text in texts]
        return F.normalize(
            self.model_near_update(name, update).encode_sentences(rows).double(), dim=1
        ).cpu()

    def map_origin_and_axes(self, name: str, update: int) -> tuple[Tensor, Tensor]:
        """Return the origin (H,) and the axes (H, 2) of the map.

        They are the two directions in which the sentences differ most, turned so that the map
        is like that of the last update.
        """
        mean, directions = mean_and_widest_directions(self.vectors(name, update))
        if update == self.updates[-1]:
            return mean, directions
        last = self.vectors(name, self.updates[-1])
        _, final = mean_and_widest_directions(last)
        now, then = (self.vectors(name, update) - mean) @ directions, last - last.mean(0)
        U, _, V = torch.linalg.svd(now.T @ then @ final)
        return mean, directions @ (U @ V)

    def view_sentence(self, name: str, update: int, sentence: str) -> SentenceView:
        """Return a sentence's place on the map, its neighbours and its predicted successor."""
        vectors, (mean, directions) = (
            self.vectors(name, update),
            self.map_origin_and_axes(name, update),
        )
        vector = self.unit_sentence_vectors(name, update, [sentence])[0]
        cosines = (vectors @ vector).tolist()
        near: dict[str, float] = {}
        for index in sorted(range(len(cosines)), key=lambda index: -cosines[index]):
            if self.texts[index] != sentence and len(near) < NEIGHBOURS:
                near.setdefault(self.texts[index], cosines[index])
        net, vocabulary = self.model_near_update(name, update), self.numbered.vocabulary
        (h,) = net.encode_sentences([vocabulary.encode_with_end(sentence)])
        follows = net.generate_neighbour_greedily(h)
        return SentenceView(
            ((vectors - mean) @ directions).numpy(), ((vector - mean) @ directions).numpy(),
            [*near.items()], " ".join(vocabulary.words[number] for number in follows),
        )  # fmt: skip


def mean_and_widest_directions(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of vectors (N, H), and the two directions of greatest spread (H, 2)."""
    mean = vectors.mean(0)
    _, _, V = torch.linalg.svd(vectors - mean, full_matrices=False)
    return mean, V[:2].T


def thoughts(
    models_by_name_and_update: Mapping[str, Mapping[int, Any]],
    numbered: EncodedBooks,
    **settings: Any,
) -> Panel:
    """Return the panel of a sentence and its neighbours, by update of models.

    Args:
        models_by_name_and_update: of the task ``skip_thoughts``.
        numbered: what they were trained on; its held-out sentences are shown.
        settings: initial fields of :class:`ThoughtsPanelSettings`; Reset restores them.
    """
    held_out = HeldOutSentenceMaps(models_by_name_and_update, numbered)
    books = {f"{k + 1}: {held_out.texts[book[0]]}": k for k, book in enumerate(held_out.books)}
    controls = {
        "sentence": text_box("sentence", held_out.texts), "book": dropdown("book", books),
        "update": options_slider("update", held_out.updates, start_at_last=True),
    }  # fmt: skip
    initial = make_settings(ThoughtsPanelSettings, settings)
    check_control_value("book", initial.book, controls["book"])
    first = [held_out.texts[index] for index in held_out.books[initial.book]]
    start = held_out.tokenize_text(initial.sentence) or first[0]

    def draw(settings: ThoughtsPanelSettings) -> TitledFigure:
        book = held_out.books[settings.book]
        sentence = held_out.tokenize_text(settings.sentence) or held_out.texts[book[0]]
        seen = {
            name: held_out.view_sentence(name, settings.update, sentence)
            for name in held_out.models
        }
        title = f"“{sentence}” after update {settings.update}"
        found = describe_nearest_and_predicted_next(held_out, sentence, book, seen)
        text = f"{title}. {found}"
        return TitledFigure(thoughts_figure(sentence, held_out.texts, book, seen), title, text)

    alt = (
        "A column for each network. Above, a map of held-out sentences in the two directions "
        "in which their vectors differ most: a line joins the sentences of one book in their "
        "order, and a star is the chosen sentence. Below, the next sentence that the network "
        "predicts, and the sentences nearest to the chosen sentence by their cosine"
    )
    return Panel(
        replace(initial, sentence=start), controls, draw, alt={"thoughts": alt}, notebook="10",
        on_page=["update", "sentence"], stops={"sentence": first[:FIRST]},
    )  # fmt: skip


def describe_nearest_and_predicted_next(
    held_out: HeldOutSentenceMaps, sentence: str, book: range, seen: Mapping[str, SentenceView]
) -> str:
    """Return the nearest sentence and the predicted next one of each network, and the true."""
    parts = []
    unknown = [word for word in sentence.split() if word not in held_out.numbered.vocabulary]
    if unknown:
        parts.append(f"Words that the networks do not know: {', '.join(unknown)}.")
    for name, each in seen.items():
        text, cosine = each.nearest_by_cosine[0]
        parts.append(
            f"Network {name}: nearest sentence “{text}” (cosine {cosine:.2f}), "
            f"predicted next sentence “{shorten(each.predicted_next, LONG, placeholder=' …')}”."
        )
    following = [held_out.texts[k + 1] for k in book[:-1] if held_out.texts[k] == sentence]
    parts += [f"Next sentence in the book: “{text}”." for text in following[:1]]
    return " ".join(parts)


def thoughts_figure(
    sentence: str, texts: list[str], book: range, seen: Mapping[str, SentenceView]
) -> Figure:
    """Return all sentences as each model sees them, a book's in its order, the nearest to one.

    Args:
        sentence: that is looked for.
        texts: the sentences of the map (N,).
        book: the indices in the map of a book's sentences, in its order.
        seen: by the names of the models.
    """
    columns, order = len(seen), [*book]
    every, letters = [escape(text) for text in texts], LETTERS // columns
    lowest = min(
        [0.0, *(cosine for each in seen.values() for _, cosine in each.nearest_by_cosine)]
    )
    small = partial(text_annotation, size=12)
    data, notes = [], [small(f"<b>{escape(sentence)}</b>", 0, 1.09)]
    layout = base_layout(720, 12, 12, 70, 36)
    fixed = {"fixedrange": True}
    bare = fixed | {"showticklabels": False, "zeroline": False}
    cosine = fixed | {
        "title": {"text": "cosine", "font": {"size": 12}},
        "range": [lowest, 1.0],
    }
    rows = QUIET | {"range": [-NEIGHBOURS - 0.3, -0.3], "domain": [0.0, 0.38]}
    for slot, (name, it) in enumerate(seen.items()):
        above, below, number = 2 * slot, 2 * slot + 1, axis_name_suffix(2 * slot + 1)
        points, near = it.all_sentence_points, it.nearest_by_cosine
        left, right = slot / columns, (slot + 0.94) / columns
        data += [
            trace(
                "scatter", f"sentences {slot}", above, x=points[:, 0], y=points[:, 1],
                text=every, mode="markers", opacity=0.6, marker={"color": GREY, "size": 5},
                hovertemplate=HOVER,
            ),
            trace(
                "scatter", f"path {slot}", above, x=points[order, 0], y=points[order, 1],
                text=[str(k + 1) for k in range(len(order))], mode="lines+markers+text",
                line={"color": BLUE, "width": 1.5}, marker={"color": BLUE, "size": 7},
                textposition="top right", textfont={"size": 11, "color": BLUE},
                customdata=[every[index] for index in order],
                hovertemplate="%{customdata}<extra></extra>",
            ),
            trace(
                "scatter", f"here {slot}", above, x=it.query_point[:1], y=it.query_point[1:],
                text=[escape(sentence)], mode="markers", hovertemplate=HOVER,
                marker={"color": VERMILLION, "size": 13, "symbol": "star"},
            ),
            trace(
                "bar", f"near {slot}", below, x=np.array([cosine for _, cosine in near]),
                y=-np.arange(1.0, len(near) + 1), text=[escape(text) for text, _ in near],
                orientation="h", width=0.3, marker={"color": ORANGE}, textposition="none",
                hovertemplate="%{text}: %{x:.3f}<extra></extra>",
            ),
        ]  # fmt: skip
        follows = escape(shorten_text(it.predicted_next, letters - 15)) or "nothing"
        where = {"xref": f"x{number}", "yref": f"y{number}", "yanchor": "middle"}
        notes += [
            small(f"<b>{escape(name)}</b>", left, 1.01),
            small(f"predicted next: <i>{follows}</i>", left, 0.455),
            small("nearest sentences:", left, 0.4),
        ]
        notes += [
            small(escape(shorten_text(text, letters)), lowest, -k - 1 + 0.36) | where
            for k, (text, _) in enumerate(near)
        ]
        x = {"domain": [left, right]}
        layout |= subplot_axes(above, x | bare, {"domain": [0.5, 0.96]} | bare)
        layout |= subplot_axes(below, x | cosine, rows)
    return {"data": data, "layout": layout | {"annotations": notes}}


def shorten_text(text: str, max_letters: int) -> str:
    """Return a text that fits, with what was cut off marked."""
    return text if len(text) <= max_letters else f"{text[: max_letters - 1].rstrip()}…"
