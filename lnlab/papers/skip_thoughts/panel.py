"""The panel of notebook 10: type a sentence, and drag through the training of several nets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from textwrap import shorten
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.figures.style import (
    BLUE,
    GREY,
    ORANGE,
    TEMPLATE,
    VERMILLION,
    Traces,
    fill,
    literal,
    note,
)
from lnlab.panels.old_controls import WIDTH, choice, choice_slider, in_columns
from lnlab.panels.old_panel import Drawing, Panel, Settable, View
from lnlab.papers.skip_thoughts.data import EncodedBooks, tokenize

# The state of the thoughts panel: a sentence, a book, a moment of the training.


LAST = -1


@dataclass(frozen=True)
class ThoughtsState:
    """One sentence at one moment of the training.

    Attributes:
        sentence: in words; empty: the first of the book.
        book: whose sentences are joined in their order, from 0.
        update: of the training; the nearest one whose weights were kept. -1 is the last.
    """

    sentence: str = ""
    book: int = 0
    update: int = LAST

    def saying(self, sentence: str) -> "ThoughtsState":
        """Another sentence."""
        return replace(self, sentence=sentence)

    def of(self, book: int) -> "ThoughtsState":
        """The same with another book joined."""
        return replace(self, book=book)

    def at(self, update: int) -> "ThoughtsState":
        """The same at another moment."""
        return replace(self, update=update)


# A sentence among others, as several nets see it: a map, its neighbours, what follows.


SLOTS = 3
"""The number of nets that one picture holds."""
NEIGHBOURS = 5
"""Sentences that are written, the nearest first."""
LETTERS = 116
"""Letters that a line may have, all columns together."""


@dataclass(frozen=True)
class Thought:
    """A sentence as one net sees it.

    Attributes:
        points: all sentences in two dimensions (N, 2).
        here: the sentence itself (2,).
        near: its nearest neighbours, and the cosine of the angle to each.
        told: the sentence that the net would let follow.
    """

    points: np.ndarray
    here: np.ndarray
    near: Sequence[tuple[str, float]]
    told: str


def thoughts_figure(
    sentence: str, texts: Sequence[str], path: Sequence[int], seen: Mapping[str, Thought]
) -> go.Figure:
    """All sentences as each net sees them, a book's in its order, and the nearest to one.

    Args:
        sentence: that is looked for.
        texts: the sentences of the map (N,).
        path: the places in the map of a book's sentences, in its order.
        seen: by the names of the nets, at most :data:`SLOTS`.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 720, "showlegend": False})
    for slot in range(SLOTS):
        above, below = 2 * slot + 1, 2 * slot + 2
        upper = {"xaxis": _axis("x", above), "yaxis": _axis("y", above)}
        figure.add_scatter(
            name=f"sentences {slot}", mode="markers", marker={"color": GREY, "size": 5},
            opacity=0.6, hovertemplate="%{text}<extra></extra>", **upper,
        )  # fmt: skip
        figure.add_scatter(
            name=f"path {slot}", mode="lines+markers+text", line={"color": BLUE, "width": 1.5},
            marker={"color": BLUE, "size": 7}, textposition="top center",
            textfont={"size": 11, "color": BLUE}, hovertemplate="%{customdata}<extra></extra>",
            **upper,
        )  # fmt: skip
        figure.add_scatter(
            name=f"here {slot}", mode="markers", hovertemplate="%{text}<extra></extra>",
            marker={"color": VERMILLION, "size": 13, "symbol": "star"}, **upper,
        )  # fmt: skip
        figure.add_bar(
            name=f"near {slot}", orientation="h", width=0.3, marker={"color": ORANGE},
            textposition="none", hovertemplate="%{text}: %{x:.3f}<extra></extra>",
            xaxis=_axis("x", below), yaxis=_axis("y", below),
        )  # fmt: skip
    given = sentence, texts, path, seen
    fill(figure, thoughts_traces(*given))
    return figure.update_layout(thoughts_layout(*given))


def thoughts_traces(
    sentence: str, texts: Sequence[str], path: Sequence[int], seen: Mapping[str, Thought]
) -> Traces:
    """The traces of :func:`thoughts`."""
    shown, traces = [*seen.values()], Traces()
    order = [*path]
    for slot in range(SLOTS):
        names = [f"{part} {slot}" for part in ("sentences", "path", "here", "near")]
        if slot >= len(shown):
            traces |= {name: {"visible": False} for name in names}
            continue
        one = shown[slot]
        all_, book, here, near = names
        said = [literal(text) for text in texts]
        traces[all_] = {
            "x": one.points[:, 0], "y": one.points[:, 1], "text": said, "visible": True,
        }  # fmt: skip
        traces[book] = {
            "x": one.points[order, 0], "y": one.points[order, 1],
            "text": [str(k + 1) for k in range(len(order))],
            "customdata": [said[place] for place in order], "visible": True,
        }  # fmt: skip
        traces[here] = {
            "x": one.here[:1], "y": one.here[1:], "text": [literal(sentence)], "visible": True,
        }  # fmt: skip
        traces[near] = {
            "x": np.array([cosine for _, cosine in one.near]),
            "y": -np.arange(1.0, len(one.near) + 1),
            "text": [literal(text) for text, _ in one.near], "visible": True,
        }  # fmt: skip
    return traces


def thoughts_layout(
    sentence: str, texts: Sequence[str], path: Sequence[int], seen: Mapping[str, Thought]
) -> dict[str, Any]:
    """The axes and the words of :func:`thoughts`."""
    columns = max(1, len(seen))
    letters = LETTERS // columns
    small = partial(note, size=13)
    notes = [small(f"<b>{literal(sentence)}</b>", 0, 1.09)]
    layout: dict[str, Any] = {"margin": {"l": 12, "r": 12, "t": 70, "b": 36}}
    cosines = [cosine for one in seen.values() for _, cosine in one.near]
    lowest = min([0.0, *cosines])
    for slot in range(SLOTS):
        there = slot < len(seen)
        left, right = (slot / columns, (slot + 0.94) / columns) if there else (0.0, 0.01)
        above, below = 2 * slot + 1, 2 * slot + 2
        still = {"fixedrange": True, "domain": [left, right], "visible": there}
        layout[_axis("xaxis", above)] = still | {
            "anchor": _axis("y", above), "showticklabels": False, "zeroline": False,
        }  # fmt: skip
        layout[_axis("yaxis", above)] = {
            "anchor": _axis("x", above), "domain": [0.5, 0.96], "fixedrange": True,
            "showticklabels": False, "zeroline": False, "visible": there,
        }  # fmt: skip
        layout[_axis("xaxis", below)] = still | {
            "anchor": _axis("y", below), "range": [lowest, 1.0],
            "title": {"text": "cosine", "font": {"size": 12}},
        }  # fmt: skip
        layout[_axis("yaxis", below)] = {
            "anchor": _axis("x", below), "domain": [0.0, 0.38], "fixedrange": True,
            "range": [-NEIGHBOURS - 0.3, -0.3], "visible": False,
        }  # fmt: skip
    for slot, (name, one) in enumerate(seen.items()):
        left, below = slot / columns, 2 * slot + 2
        notes.append(small(f"<b>{literal(name)}</b>", left, 1.01))
        told = literal(_short(one.told, letters - 10)) or "nothing"
        notes.append(small(f"lets follow: <i>{told}</i>", left, 0.455))
        notes.append(small("nearest:", left, 0.4))
        notes += [
            small(literal(_short(text, letters)), lowest, -k - 1 + 0.36)
            | {"xref": _axis("x", below), "yref": _axis("y", below), "yanchor": "middle"}
            for k, (text, _) in enumerate(one.near)
        ]
    return layout | {"annotations": notes}


def _axis(name: str, number: int) -> str:
    return name if number == 1 else f"{name}{number}"


def _short(text: str, letters: int) -> str:
    """A text that fits, with what was cut off marked."""
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"


# Sentences as nets see them along their training: a pure function of the panel's state.


BOOKS = 12
"""Held-out passages whose sentences are on the map."""
LEAST = 5
"""Sentences that a passage has at least."""


class Thinkers:
    """Several nets at moments of their training, and held-out sentences.

    Args:
        nets: of the task ``skip_thoughts``, by name, then by update.
        numbered: what they were trained on.

    Raises:
        ValueError: if there is none or too many, or one was trained with another vocabulary,
            or no passage is held out.
    """

    def __init__(self, nets: Mapping[str, Mapping[int, Any]], numbered: EncodedBooks) -> None:
        if not 1 <= len(nets) <= SLOTS:
            raise ValueError(f"there are {len(nets)} nets: give 1 to {SLOTS}, trained ones.")
        for name, moments in nets.items():
            if not moments:
                raise ValueError(f"{name}: no weights were kept, train it with snapshots.")
            for net in moments.values():
                if not net.has_vocabulary(numbered.vocabulary):
                    raise ValueError(
                        f"{name} was trained with another vocabulary: its words have other "
                        "numbers."
                    )
        self.nets, self.numbered = nets, numbered
        self.updates = tuple(sorted(next(iter(nets.values()))))
        passages = numbered.passages(LEAST)[:BOOKS]
        if not passages:
            raise ValueError(
                f"{numbered.name} holds out no {LEAST} sentences in a row, with one before and "
                "one behind: give more of them, or allow longer ones (limit)."
            )
        self.places = [place for passage in passages for place in passage]
        self.texts = [numbered.sentence(place) for place in self.places]
        ends = accumulate(map(len, passages), initial=0)
        self.books = [range(*both) for both in pairwise(ends)]
        self._vectors: dict[tuple[str, int], Tensor] = {}

    def whole(self, state: ThoughtsState) -> ThoughtsState:
        """A state with a sentence, cut into words, and an update whose weights were kept.

        Raises:
            ValueError: for a book that is not there.
        """
        if not 0 <= state.book < len(self.books):
            raise ValueError(f"book is {state.book}: give 0 to {len(self.books) - 1}.")
        sentence = " ".join(state.sentence.lower().split())
        if sentence not in self.texts:  # those are cut already
            sentence = " ".join(tokenize(sentence))
        wanted = self.updates[-1] if state.update == LAST else state.update
        nearest = min(self.updates, key=lambda update: abs(update - wanted))
        return ThoughtsState(
            sentence or self.texts[self.books[state.book][0]], state.book, nearest
        )

    def net(self, name: str, update: int) -> Any:
        """A net at the moment nearest to an update."""
        moments = self.nets[name]
        return moments[min(moments, key=lambda at: abs(at - update))]

    def vectors(self, name: str, update: int) -> Tensor:
        """The sentences of the map as a net sees them (N, H), of length 1."""
        if (name, update) not in self._vectors:
            self._vectors[name, update] = self.seen(name, update, self.texts)
        return self._vectors[name, update]

    def seen(self, name: str, update: int, texts: list[str]) -> Tensor:
        """Sentences as a net sees them (N, H), of length 1, on the CPU."""
        rows = [self.numbered.vocabulary.encode(text) for text in texts]
        return F.normalize(self.net(name, update).vectors(rows).double(), dim=1).cpu()

    def map(self, name: str, update: int) -> tuple[Tensor, Tensor]:
        """The origin (H,) and the axes (H, 2) of the map: the two directions in which the
        sentences differ most, turned so that the map is like that of the last update."""
        mean, axes = _directions(self.vectors(name, update))
        if update == self.updates[-1]:
            return mean, axes
        last = self.vectors(name, self.updates[-1])
        _, final = _directions(last)
        now, then = (self.vectors(name, update) - mean) @ axes, (last - last.mean(0)) @ final
        U, _, V = torch.linalg.svd(now.T @ then)
        return mean, axes @ (U @ V)


class ThoughtsMeasurement(NamedTuple):
    """A sentence at one moment.

    Attributes:
        sentence: its words, in small letters.
        texts: the sentences of the map.
        path: the places of a book's sentences there.
        seen: by name, what each net makes of it.
        unknown: its words that the vocabulary does not have.
        follows: what follows in the book; empty where nobody knows.
    """

    sentence: str
    texts: list[str]
    path: range
    seen: dict[str, Thought]
    unknown: tuple[str, ...]
    follows: str


def measure(there: Thinkers, state: ThoughtsState) -> ThoughtsMeasurement:
    """The sentence of a state as every net sees it; the one way into this room."""
    state = there.whole(state)
    vocabulary = there.numbered.vocabulary
    unknown = tuple(w for w in state.sentence.split() if w not in vocabulary)
    path = there.books[state.book]
    return ThoughtsMeasurement(
        state.sentence, there.texts, path,
        {name: _thought(there, name, state) for name in there.nets}, unknown,
        _follows(there, state, path),
    )  # fmt: skip


def _thought(there: Thinkers, name: str, state: ThoughtsState) -> Thought:
    vectors = there.vectors(name, state.update)
    own = there.seen(name, state.update, [state.sentence])[0]
    mean, axes = there.map(name, state.update)
    cosines = (vectors @ own).tolist()
    near: dict[str, float] = {}
    for place in sorted(range(len(cosines)), key=lambda place: -cosines[place]):
        if there.texts[place] != state.sentence and len(near) < NEIGHBOURS:
            near.setdefault(there.texts[place], cosines[place])
    net = there.net(name, state.update)
    rows = [there.numbered.vocabulary.encode(state.sentence)]
    told = net.generate(net.vectors(rows)[0])
    known = there.numbered.vocabulary.words
    return Thought(
        ((vectors - mean) @ axes).numpy(), ((own - mean) @ axes).numpy(), [*near.items()],
        " ".join(known[number] for number in told),
    )  # fmt: skip


def _follows(there: Thinkers, state: ThoughtsState, path: range) -> str:
    """The sentence behind that of a state, where it stands in the book."""
    for place in path[:-1]:
        if there.texts[place] == state.sentence:
            return there.texts[place + 1]
    return ""


def _directions(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (H,) of vectors (N, H), and the two directions of greatest spread (H, 2)."""
    mean = vectors.mean(0)
    _, _, V = torch.linalg.svd(vectors - mean, full_matrices=False)
    return mean, V[:2].T


# The sentences of the thoughts panel, of a sentence and of the nets that read it.


LONG = 70
"""The most letters of what a net would let follow: one that never learned finds no end."""


def sentence(state: ThoughtsState, measurement: ThoughtsMeasurement) -> str:
    """A sentence that says which neighbour each net finds, and what it would let follow."""
    said = [f"“{measurement.sentence}” after update {state.update}."]
    if measurement.unknown:
        unknown = ", ".join(measurement.unknown)
        said.append(f"Words that they do not know, all read as one unknown word: {unknown}.")
    for name, one in measurement.seen.items():
        text, cosine = one.near[0]
        said.append(
            f"{name}: nearest is “{text}” (cosine {cosine:.2f}), "
            f"and “{shorten(one.told, LONG, placeholder=' …')}” would follow."
        )
    if measurement.follows:
        said.append(f"In the book there follows “{measurement.follows}”.")
    return " ".join(said)


ABOUT = {
    "thoughts": (
        "A column for each net. Above, held-out sentences in the two directions in which their"
        " vectors differ most, those of one book joined in their order, the chosen sentence a"
        " star; below, the sentence that the net would let follow, and the nearest neighbours"
    ),
}
FIRST = 4
"""Sentences of a book that a page without a kernel can show."""


def thoughts(
    nets: Mapping[str, Mapping[int, Any]], numbered: EncodedBooks, **settings: Any
) -> Panel:
    """Type a sentence, or choose one, and see its neighbours change while nets are trained.

    Args:
        nets: of the task ``skip_thoughts``, by name, at most three, then by update.
        numbered: what they were trained on; its held-out sentences are shown.
        settings: fields of :class:`ThoughtsState`: where the panel starts, and what Reset
            returns to.
    """
    there = Thinkers(nets, numbered)
    state = there.whole(ThoughtsState(**settings))
    updates = [(str(update), update) for update in there.updates]
    books = {f"{k + 1}: {there.texts[book[0]]}": k for k, book in enumerate(there.books)}
    controls = {
        "sentence": ipywidgets.Combobox(
            options=[*dict.fromkeys(there.texts)], description="sentence",
            continuous_update=False, placeholder="type a sentence",
            style={"description_width": WIDTH}, layout={"width": "476px"},
        ),
        "book": choice("book", [*books.items()]),
        "update": choice_slider("update", updates),
    }  # fmt: skip
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def shown(measurement: ThoughtsMeasurement) -> tuple[Any, ...]:
        return measurement.sentence, measurement.texts, measurement.path, measurement.seen

    def drawn(state: ThoughtsState) -> dict[str, go.Figure]:
        return {"thoughts": thoughts_figure(*shown(measure(there, state)))}

    def look(state: ThoughtsState) -> View:
        measurement = measure(there, state)
        given = shown(measurement)
        drawing = Drawing(
            thoughts_traces(*given),
            thoughts_layout(*given),
        )
        titles = {"thoughts": f"“{measurement.sentence}” after update {state.update}"}
        return View(sentence(state, measurement), titles, {"thoughts": drawing})

    def settable(state: ThoughtsState) -> list[Settable]:
        of_book = [there.texts[place] for place in there.books[state.book]]
        sentences = {text: text for text in dict.fromkeys((state.sentence, *of_book[:FIRST]))}
        return [
            Settable("update", dict(updates), str(state.update), ThoughtsState.at),
            Settable("sentence", sentences, state.sentence, ThoughtsState.saying, slides=False),
        ]

    return Panel(
        "thoughts", "10", state, arrangement, controls, ABOUT, look, drawn, settable,
        least_width=780,
    )  # fmt: skip
