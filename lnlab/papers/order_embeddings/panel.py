"""The panel of notebook 08: type a caption, and see where it lies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from lnlab.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    QUIET,
    VERMILLION,
    base_layout,
    escape,
    subplot_axes,
    trace,
)
from lnlab.panels.controls import dropdown, text_box
from lnlab.panels.panel import FirstIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.papers.order_embeddings import evaluate
from lnlab.papers.order_embeddings.data import (
    PER_IMAGE,
    SCENES,
    CaptionMeaning,
    Captions,
    parse_caption,
)

SLOTS = 8
"""The number of pictures shown, four in a row."""
NEIGHBOURS = 5
"""The number of more general captions shown, and of more specific ones."""
NAMED = 3
"""The number of objects of a picture whose names are written: the largest objects."""
COLORS = {
    "red": "#D7263D", "pink": "#F49AC2", "yellow": "#F2C14E", "green": "#2E933C",
    "blue": "#1B6FC2", "purple": "#7B3FA0", "": GREY,
}  # fmt: skip
"""The colors of objects; the key "" is for objects of which only the box is known."""
EXAMPLES = (
    "a red heart", "a heart", "a small thing", "a large warm polygon", "a star and a ring",
    "a blue star left of a ring", "a green thing above a square", "a cool curve",
)  # fmt: skip
"""Suggested captions for the generated scenes."""
FIRST = 8
"""The number of suggested captions for photographs, each from another photograph."""


@dataclass(frozen=True)
class OrderPanelSettings:
    """A caption as one model reads it."""

    caption: FirstIfNone[str] = None  # in words; None: the first of the panel's own
    net: FirstIfNone[str] = None  # by name


class PictureObject(NamedTuple):
    """An object in a picture."""

    name: str  # what such objects are called
    shape: str  # circle, ring, heart, triangle, square or star; "" draws its box
    color_name: str  # one of COLORS
    left_top_right_bottom: tuple[float, float, float, float]  # as fractions of sides


class CaptionWithViolation(NamedTuple):
    """A caption above or below another, and the violation of the upper one by the lower one."""

    text: str
    violation_with_typed_caption: float


class CaptionSearchResult(NamedTuple):
    """The pictures and captions nearest to a caption."""

    caption: str  # as it was typed
    violation_per_test_picture: np.ndarray  # of the order (P,)
    truth_per_test_picture: np.ndarray | None  # whether it is true (P,); None: unknown
    nearest_pictures: list[int]  # indices of the pictures of least violation
    objects_per_nearest_picture: list[list[PictureObject]]
    more_general: list[CaptionWithViolation]  # captions that say less
    more_specific: list[CaptionWithViolation]  # and more
    unknown_words: list[str]  # its words that the vocabulary does not have


class PictureAndCaptionSearch:
    """A search for the pictures and captions nearest to a caption, with trained models."""

    def __init__(self, models: Mapping[str, Any], dataset: Captions) -> None:
        for name, net in models.items():
            if not net.has_vocabulary(dataset.vocabulary):
                raise ValueError(
                    f"the model {name} was trained with another vocabulary than that of the "
                    "data."
                )
        self.models, self.dataset = dict(models), dataset
        self.pictures = cache(lambda net: evaluate.embed_images(models[net], dataset.test))
        self.of_scenes = dataset.source is SCENES
        captions = dataset.test.captions_in_image_order[: FIRST * PER_IMAGE : PER_IMAGE]
        self.examples = EXAMPLES if self.of_scenes else captions

    def parse_if_scenes_else_check(self, caption: str) -> CaptionMeaning | None:
        """Return the meaning of a caption; None where nobody but its author knows."""
        if self.of_scenes:
            return parse_caption(caption)
        self.dataset.vocabulary.encode_with_end(caption)
        return None

    def embed_captions(self, net: str, captions: Sequence[str]) -> Tensor:
        """Return captions as a model reads them (C, H)."""
        captions = tuple(captions)
        return evaluate.embed_captions(self.models[net], captions, self.dataset.vocabulary)

    def objects_in_picture(self, picture: int) -> list[PictureObject]:
        """Return the objects in a test picture."""
        if not self.dataset.test.boxes:
            return []
        boxes, objects = self.dataset.test.boxes[picture], []
        edges = boxes.left_top_right_bottom.tolist()
        for kind, box in zip(boxes.categories, edges, strict=True):
            name = self.dataset.categories[kind]
            color_name, shape = name.split() if self.of_scenes else ("", "")
            objects.append(PictureObject(name, shape, color_name, tuple(box)))
        return objects

    def find_nearest(self, settings: OrderPanelSettings) -> CaptionSearchResult:
        """Return the pictures and captions nearest to a caption."""
        meaning, dataset = self.parse_if_scenes_else_check(settings.caption), self.dataset
        text = str(meaning) if meaning else settings.caption.lower()
        typed = self.embed_captions(settings.net, [text])
        violations = evaluate.low_memory_order_violation_matrix(
            typed, self.pictures(settings.net)
        )[0]
        nearest, true = (
            violations.argsort()[:SLOTS].tolist(),
            dataset.truth_per_test_image_if_generated(settings.caption),
        )
        less, more, unknown = [], [], []
        if meaning:
            less = [*map(str, meaning.one_step_generalizations())][:NEIGHBOURS]
            more = first_more_specific_captions(meaning, dataset.test.captions_in_image_order)
        else:
            words = settings.caption.lower().split()
            unknown = [word for word in words if word not in dataset.vocabulary]

        def measure_violations(
            texts: Sequence[str], *, are_more_general: bool
        ) -> list[CaptionWithViolation]:
            sign = -1 if are_more_general else 1
            points = self.embed_captions(settings.net, texts) if texts else []
            lengths = ((sign * (typed[0] - each)).relu().square().sum() for each in points)
            return [*map(CaptionWithViolation, texts, map(float, lengths))]

        return CaptionSearchResult(
            settings.caption, violations.numpy().astype(float), true, nearest,
            [self.objects_in_picture(picture) for picture in nearest],
            measure_violations(less, are_more_general=True),
            measure_violations(more, are_more_general=False), unknown,
        )  # fmt: skip


def first_more_specific_captions(meaning: CaptionMeaning, texts: Iterable[str]) -> list[str]:
    """Return the first captions that say more than one, each once."""
    parsed = ((text, parse_caption(text)) for text in dict.fromkeys(texts))
    special = (text for text, each in parsed if each != meaning and each.entails(meaning))
    return [*islice(special, NEIGHBOURS)]


def order(
    models: Mapping[str, Any], dataset: Captions, *, notebook: str = "08", **settings: Any
) -> Panel:
    """Return the panel of a caption, the pictures below it and the captions around it.

    Args:
        models: trained ones by name, of the task ``order_embeddings``.
        dataset: that they were trained on; its test pictures are shown.
        notebook: number of the one whose parameter ``panel`` takes the settings; "": none.
        settings: initial fields of :class:`OrderPanelSettings`; Reset restores them.
    """
    search = PictureAndCaptionSearch(models, dataset)

    def draw(settings: OrderPanelSettings) -> TitledFigure:
        result = search.find_nearest(settings)
        title = f"{result.caption}, {settings.net}"
        return TitledFigure(
            order_figure(result), title, describe_search_result(result, settings.net)
        )

    controls = {
        "caption": text_box("caption", search.examples),
        "net": dropdown("net", models.keys()),
    }
    alt = (
        "The eight pictures with the smallest order penalty for a caption, in a green frame if "
        "the caption is true of the picture; a histogram of this penalty over all pictures; "
        "and more general and more specific captions with their order penalties"
    )
    return Panel(
        make_settings(OrderPanelSettings, settings),
        controls, draw, alt={"order": alt}, notebook=notebook,
        on_page=["caption", "net"],
    )  # fmt: skip


def describe_search_result(result: CaptionSearchResult, net: str) -> str:
    """Return of how many pictures a caption is true, and how far the others lie from it."""
    parts = [f"“{result.caption}”, network {net}."]
    if result.unknown_words:
        unknown = ", ".join(result.unknown_words)
        parts.append(f"Words of the caption that the network does not know: {unknown}.")
    if result.truth_per_test_picture is None:
        parts.append("It is not known for which pictures the caption is true.")
    else:
        right = int(result.truth_per_test_picture[result.nearest_pictures].sum())
        parts.append(
            f"The caption is true of {right} of the {len(result.nearest_pictures)} pictures "
            f"with the smallest order penalty, "
            f"and of {int(result.truth_per_test_picture.sum())} of all "
            f"{len(result.truth_per_test_picture)} pictures."
        )
    for words, captions in {
        "general": result.more_general,
        "specific": result.more_specific,
    }.items():
        if captions:
            violation = mean(each.violation_with_typed_caption for each in captions)
            parts.append(
                f"Mean order penalty between this caption and more {words} captions: "
                f"{violation:.3f}."
            )
    return " ".join(parts)


def order_figure(result: CaptionSearchResult) -> Figure:
    """Return eight pictures, the violation by every picture, and the captions around."""
    line = {"mode": "lines", "hoverinfo": "skip"}
    objects = [
        (slot, each)
        for slot, some in enumerate(result.objects_per_nearest_picture)
        for each in some
    ]
    data = [
        trace(
            "scatter", f"things {color_name}", 0, **line,
            fill="toself" if color_name else "none",
            fillcolor=colour, line={"color": colour, "width": 1.5},
            **join_polygons(
                picture_top_left_in_sides(i) + object_outline(it)
                for i, it in objects
                if it.color_name == color_name
            ),
        )
        for color_name, colour in COLORS.items()
    ]  # fmt: skip
    unknown = np.full(
        len(result.violation_per_test_picture), result.truth_per_test_picture is None
    )
    true = ~unknown if result.truth_per_test_picture is None else result.truth_per_test_picture
    low, high = (
        float(result.violation_per_test_picture.min()),
        float(result.violation_per_test_picture.max()),
    )
    bins = {"start": low, "end": high + 1e-9, "size": max((high - low) / 40, 1e-9)}
    # of pictures in one bin those that it is true of stand before the others, which are more
    parts = (
        ("false", VERMILLION, ~true & ~unknown),
        ("true", GREEN, true & ~unknown),
        ("unknown", GREY, unknown),
    )
    for name, colour, mine in parts:
        frames = [
            picture_top_left_in_sides(slot) + FRAME
            for slot, it in enumerate(result.nearest_pictures)
            if mine[it]
        ]
        look = {"color": colour, "width": 2.5}
        data.append(
            trace("scatter", f"frames {name}", 0, **line, line=look, **join_polygons(frames))
        )
        data.append(trace(
            "histogram", f"pictures {name}", 2, marker={"color": colour}, opacity=0.75,
            hovertemplate="%{x:.3f}: %{y}<extra></extra>",
            x=result.violation_per_test_picture[mine],
            xbins=bins,
        ))  # fmt: skip
    data.append(trace(
        "scatter", "words", 0, mode="text", hoverinfo="skip",
        textfont={"size": 11, "color": INK}, **positioned_violation_and_object_texts(result),
    ))  # fmt: skip
    around = (
        ("above", ORANGE, result.more_general, 1),
        ("below", BLUE, result.more_specific, -1),
    )
    for name, colour, neighbours, sign in around:
        data.append(trace(
            "bar", name, 1, orientation="h", width=0.55, marker={"color": colour},
            textposition="none", hovertemplate="%{text}: %{x:.3f}<extra></extra>",
            x=np.array([each.violation_with_typed_caption for each in neighbours]),
            y=sign * np.arange(1.0, len(neighbours) + 1),
            text=[escape(each.text) for each in neighbours],
        ))  # fmt: skip
    return {"data": data, "layout": order_figure_plotly_layout(result)}


def order_figure_plotly_layout(result: CaptionSearchResult) -> dict[str, Any]:
    """Return the axes and the words of the figure."""
    neighbours = [*result.more_general, *result.more_specific]
    widest = max([0.01, *(each.violation_with_typed_caption for each in neighbours)])
    rows = [(0.0, f"<b>{escape(result.caption)}</b>")]
    rows += [(k + 1.0, escape(each.text)) for k, each in enumerate(result.more_general)]
    rows += [(-k - 1.0, escape(each.text)) for k, each in enumerate(result.more_specific)]
    plain = {"showarrow": False, "xanchor": "left"}
    small, font = {"size": 11, "color": INK}, {"size": 13}
    notes = [
        {"x": 0, "xref": "x2", "y": y + 0.42, "yref": "y2", "text": text, "font": small} | plain
        for y, text in rows
    ]
    heads = [
        (0.0, 1.05, "pictures with the smallest order penalty (below each)"),
        (0.6, 1.05, "more general ↑"), (0.6, -0.075, "more specific ↓"),
    ]  # fmt: skip
    notes += [
        {"x": x, "xref": "paper", "y": y, "yref": "paper", "text": text, "font": font} | plain
        for x, y, text in heads
    ]
    layout = base_layout(640, 50, 14, 50, 50) | {
        "barmode": "overlay", "annotations": notes,
        "meta": {"light": True},  # "a red heart" is red on a dark page, too
    }  # fmt: skip
    left, right = {"domain": [0, 0.56]}, {"domain": [0.6, 1]}
    pictures = {"domain": [0.46, 1], "range": [2.62, -0.05]}
    layout |= subplot_axes(0, QUIET | left | {"range": [-0.05, 4.4]}, QUIET | pictures)
    captions = {"domain": [0.04, 1], "range": [-NEIGHBOURS - 0.6, NEIGHBOURS + 0.9]}
    x = {"range": [0, 1.15 * widest], "title": {"text": "order penalty"}}
    layout |= subplot_axes(1, right | x, QUIET | captions)
    count = {
        "domain": [0, 0.34],
        "type": "log",
        "title": {"text": "number of pictures"},
        "dtick": 1,
    }
    x = {"title": {"text": "order penalty between caption and picture"}}
    return layout | subplot_axes(2, left | x, count)


def positioned_violation_and_object_texts(result: CaptionSearchResult) -> dict[str, Any]:
    """Return the words below every picture, and in boxes of which only the kind is known."""
    places, texts = [], []
    for slot, picture in enumerate(result.nearest_pictures):
        places.append(picture_top_left_in_sides(slot) + np.array([0.5, 1.09]))
        truth = ""
        if result.truth_per_test_picture is not None:
            truth = " true" if result.truth_per_test_picture[picture] else " not true"
        texts.append(f"{result.violation_per_test_picture[picture]:.3f}{truth}")
        for picture_object in sorted(
            result.objects_per_nearest_picture[slot], key=box_fraction_of_picture, reverse=True
        )[:NAMED]:
            if not picture_object.shape:
                left, top, right, bottom = picture_object.left_top_right_bottom
                middle = np.array([(left + right) / 2, (top + bottom) / 2])
                places.append(picture_top_left_in_sides(slot) + middle)
                texts.append(escape(picture_object.name))
    x, y = np.array(places).reshape(-1, 2).T
    return {"x": x, "y": y, "text": texts}


def box_fraction_of_picture(picture_object: PictureObject) -> float:
    """Return the part of a picture that the box of an object takes."""
    left, top, right, bottom = picture_object.left_top_right_bottom
    return (right - left) * (bottom - top)


def picture_top_left_in_sides(slot: int) -> np.ndarray:
    """Return the top left of a picture (2,), in units of its side."""
    return np.array([1.1 * (slot % 4), 1.32 * (slot // 4)])


def join_polygons(parts: Iterable[np.ndarray]) -> dict[str, Any]:
    """Return polygons (K, 2) as one line that is broken between them."""
    gap = np.full((1, 2), np.nan)
    line = np.concatenate([piece for part in parts for piece in (part, gap)] or [gap])
    return {"x": line[:, 0], "y": line[:, 1]}


FRAME = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], float)
"""The corners of a picture's frame: x to the right, y down, in units of its sides."""


def object_outline(picture_object: PictureObject) -> np.ndarray:
    """Return the outline of an object in its picture (K, 2), closed."""
    left, top, right, bottom = picture_object.left_top_right_bottom
    unit = OUTLINES.get(picture_object.shape, FRAME)
    return np.array([left, top]) + unit * np.array([right - left, bottom - top])


def closed_polar_curve(radii: np.ndarray) -> np.ndarray:
    """Return points at distances from the middle of the unit square, once around, closed."""
    angles = 2 * np.pi * (np.arange(len(radii)) / len(radii) - 0.25)
    points = 0.5 + 0.5 * radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    return np.concatenate([points, points[:1]])


def heart_outline() -> np.ndarray:
    """Return the outline of a heart in the unit square (K, 2)."""
    t = np.linspace(0, 2 * np.pi, 41)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([(x + 16) / 32, (y - y.min()) / np.ptp(y)], 1)


CIRCLE = closed_polar_curve(np.ones(32))
OUTLINES = {
    "circle": CIRCLE,
    "ring": np.concatenate([CIRCLE, 0.5 + 0.55 * (CIRCLE[::-1] - 0.5), CIRCLE[:1]]),
    "heart": heart_outline(),
    "triangle": np.array([[0.5, 0], [1, 1], [0, 1], [0.5, 0]]),
    "square": FRAME,
    "star": closed_polar_curve(np.tile([1.0, 0.4], 5)),
}
"""Outlines of shapes in the unit square: x to the right, y down."""
