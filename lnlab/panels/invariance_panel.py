"""The panel of notebooks 00 and 02: what stays the same when weights or inputs change."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from textwrap import fill
from typing import Any, Literal

import ipywidgets
import numpy as np
import torch

from lnlab.analysis.magnitudes import EXACT, relative_max_change
from lnlab.analysis.normalized_layer import (
    NormalizedLayer,
    cast,
    random_layer_inputs,
    random_vector_for_any_shift,
)
from lnlab.figures.style import (
    GREY,
    INK,
    PREDICTED,
    SIZES,
    VERMILLION,
    axis_name_suffix,
    base_layout,
    escape,
    format_number,
    line_colors_and_widths,
    side_by_side_domains,
    subplot_axes,
    subplot_title_above_axes,
    trace,
)
from lnlab.nn import BatchNormalizer, Normalizer, NormLayer
from lnlab.nn.table1 import (
    ROWS,
    TRANSFORMATIONS,
    BatchNormStatisticsSource,
    DenseOrConv,
    LayerInputs,
    OneBasedExtendedTable1Column,
    TableRow,
    Transformation,
    rescaled_output_ratio,
)
from lnlab.panels.controls import (
    MODES,
    MultiSelectButtons,
    dropdown,
    format_three_significant_digits,
    log_slider,
    options_slider,
    play_buttons,
)
from lnlab.panels.panel import LEAST_WIDTH, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure

UNITS, INPUTS, EXAMPLES, MOST = 64, 16, 128, 4

# One example at a time (batch = 1) takes 128 times as long as all at once.
DENSE = [
    name
    for name, row in ROWS.items()
    if row.layer_kind is DenseOrConv.DENSE and row.examples_normalized_together is None
]
# Frozen and recomputed statistics are a control of their own.
NORMALIZERS = {
    name: ROWS[name]
    for name in DENSE
    if ROWS[name].statistics_source is BatchNormStatisticsSource.BATCH
}
PAPER = ("batch", "weight", "layer")
TABLE = (*PAPER, *(name for name in DENSE if name not in PAPER))

SUGGESTIONS: dict[str, dict[str, Any]] = {
    "Change 1 (W → δW), δ dragged from 100 down to 0.1: do any outputs change?": {
        "transformation": 1, "delta": 100.0,
    },
    "Change 1 with δ = 0.0001, left of the dotted line: which outputs change now, and why?": {
        "transformation": 1, "delta": 1e-4,
    },
    "Change 1 with δ = 0.0001 and ε = 0: do the outputs of the three normalizers change?": {
        "transformation": 1, "delta": 1e-4, "eps": 0.0,
    },
    "Change 2 (W → W + 1γᵀ): which of the three normalizers is invariant?": {
        "transformation": 2,
    },
    "Change 3 scales one row of W: which of the three normalizers is invariant?": {
        "transformation": 3,
    },
    "Normalizers layer, rms, group and scale, changes 1 to 7, one after another: which two "
    "pairs of normalizers are invariant to the same changes?": {
        "normalizers": ("layer", "rms", "group", "scale"),
    },
    "Change 1 with δ = -2.51: are batch, weight and layer norm still invariant?": {
        "transformation": 1, "delta": 2.51, "delta_sign": -1,
    },
    "A batch of one example: what does batch norm output?": {
        "transformation": 4, "batch_size": 1,
    },
}  # fmt: skip
"""Suggestions in notebook 02: the text of each button, and the settings that it chooses."""

FAMILIES = (
    PAPER,
    ("layer", "rms", "group", "scale"),
    ("batch", "ghost batch", "recurrent batch", "batch layer"),
    ("batch", "batch renorm, r = 1, d = 0", "batch renorm, clips off"),
    ("weight", "weight, mean-only batch", "weight standardization", "spectral"),
    ("none", "layer", "ada", "dyt"),
)
"""Sets of normalizers offered on a static page, where no kernel runs."""

SWEEP = np.logspace(-4, 4, 33)  # a point at 1, where nothing changes
"""Values of δ, or of the shift, at which the change of the outputs is measured."""
STOPS = (1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0, 1e3, 1e4)
"""Values of δ, or of the shift, offered on a static page, where no kernel runs."""
EPS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in EXACT}

SWEPT = MOST + 1
"""The index of the lower subplot; smaller indices belong to the distributions."""
BINS, STRINGS = 36, 14
CUT, PEAK, DEPTH = 1.2, 1.5, 0.9
"""The height at which a histogram is cut, that at which its axis ends, and the length of the
lines below it."""
FLOOR, CEILING = 1e-19, 1e5
"""The value at which a relative change of exactly 0 is drawn, and the upper end of the axis."""
LETTERS = 76
"""Characters that fit into the row of subplot titles of the narrowest figure."""


@dataclass(frozen=True)
class InvariancePanelSettings:
    """A transformation, and the layers that it is tried on."""

    normalizers: tuple[str, ...] = PAPER  # at most four rows of Table 1 and its extension
    transformation: OneBasedExtendedTable1Column = 1  # 1 to 10
    delta: float = 2.51  # the factor, or the multiple of a fixed vector that is added
    delta_sign: int = 1  # of delta, 1 or -1
    eps: float = 1e-5  # of every normalizer that has one
    dtype: str = "float64"  # of weights, inputs, statistics and outputs
    batch_size: int = 32  # B; frozen and recomputed statistics are those of all 128 examples
    # statistics over examples: "batch", "frozen" before the change, or "recomputed" after it
    statistics_source: Literal["batch", "frozen", "recomputed"] = "batch"

    @property
    def selected_transformation(self) -> Transformation:
        """The transformation that ``transformation`` numbers."""
        return TRANSFORMATIONS[self.transformation - 1]

    @property
    def signed_factor_or_shift(self) -> float:
        """Delta, the factor or the size of the shift, with its sign."""
        return self.delta_sign * self.delta

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of torch that ``dtype`` names."""
        return DTYPES[self.dtype]


# Measurements, each made once.


@lru_cache(maxsize=32)
def fixed_weights_and_inputs(dtype: torch.dtype, batch_size: int) -> LayerInputs:
    """Return the weights and inputs, always the same."""
    given = cast(random_layer_inputs(UNITS, INPUTS, EXAMPLES), dtype)
    return replace(given, x=given.x[:batch_size])


@cache
def fixed_random_shift(dtype: torch.dtype) -> torch.Tensor:
    """Return the vector that shifts are multiples of."""
    return random_vector_for_any_shift(fixed_weights_and_inputs(dtype, EXAMPLES))


@lru_cache(maxsize=128)
def normalized_layer(
    row: TableRow,
    eps: float,
    dtype: torch.dtype,
    batch_size: int = EXAMPLES,
    statistics: BatchNormStatisticsSource = BatchNormStatisticsSource.BATCH,
) -> NormalizedLayer:
    """Return the layer of one row, its gains and biases always the same."""
    given = fixed_weights_and_inputs(
        dtype, batch_size if statistics is BatchNormStatisticsSource.BATCH else EXAMPLES
    )
    return NormalizedLayer(row, given, eps=eps, statistics=statistics, seed=0)


def layers_by_name(
    settings: InvariancePanelSettings, rows: Mapping[str, TableRow] = NORMALIZERS
) -> dict[str, NormalizedLayer]:
    """Return the layers of the chosen normalizers, by name."""
    made = {}
    for name in settings.normalizers:
        source = BatchNormStatisticsSource.BATCH
        if uses_batch_statistics(rows[name]):
            source = MODES[settings.statistics_source]
        made[name] = normalized_layer(
            rows[name], settings.eps, settings.torch_dtype, settings.batch_size, source
        )
    return made


@cache
def uses_batch_statistics(row: TableRow) -> bool:
    """Return True if a row has statistics over examples, and so a mode."""
    return isinstance(row.make_norm(UNITS), BatchNormalizer)


@lru_cache(maxsize=20_000)
def invariance_defect(
    layer: NormalizedLayer, column: int, signed_factor_or_shift: float
) -> float:
    """Return the defect of a layer: :mod:`lnlab.analysis.normalized_layer`."""
    shift = signed_factor_or_shift * fixed_random_shift(layer.layer_inputs.x.dtype)
    return layer.defect(TRANSFORMATIONS[column - 1], signed_factor_or_shift, shift)


@lru_cache(maxsize=64)
def before_and_after_traces(
    layer: NormalizedLayer, column: int, signed_factor_or_shift: float
) -> dict[str, dict[str, Any]]:
    """Return the histograms of a layer's outputs before and after a change, and strings.

    Of a change of one unit or one example only that unit or example is drawn.
    """
    touched: Any = {3: (slice(None), 0), 6: (0,)}.get(column, ())
    vector = signed_factor_or_shift * fixed_random_shift(layer.layer_inputs.x.dtype)
    y = layer.output(
        TRANSFORMATIONS[column - 1](layer.layer_inputs, signed_factor_or_shift, vector)
    )
    before, after = (v[touched].flatten().double().numpy() for v in (layer.y, y))
    limit = output_axis_limit(layer.row)
    (x, first), (_, second) = histogram_outline(before, limit), histogram_outline(after, limit)
    peak = first.max() or 1.0  # so that a picture of few values is as high
    change = relative_max_change(y, layer.y)
    limit_of_rounding = rounding_limit(layer.row, column, signed_factor_or_shift, y.dtype)
    words = (
        "unchanged"
        if change < limit_of_rounding
        else describe_output_change(change, limit_of_rounding)
    )
    return {
        "before": {"x": x, "y": first / peak},
        "strings": before_to_after_lines(before, after, limit),
        "after": {"x": x, "y": np.minimum(second / peak, CUT)},
        "note": {"x": np.zeros(1), "y": np.array([PEAK - 0.14]), "text": [escape(words)]},
    }


@cache
def output_axis_limit(row: TableRow) -> float:
    """Return a limit of the axis that holds a row's outputs; the settings do not move it."""
    y = normalized_layer(row, 1e-5, torch.float64).y
    return 1.4 * float(y.abs().flatten().quantile(0.998))


def histogram_outline(values: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the outline of a histogram over [-edge, edge], as shares of all values.

    What lies beyond is counted in the last bins; NaN nowhere.
    """
    edges = np.linspace(-limit, limit, BINS + 1)
    inside = np.clip(values[~np.isnan(values)], -limit, limit)
    shares = np.histogram(inside, edges)[0] / values.size
    return np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(shares, 2), [0.0]])


def before_to_after_lines(
    before: np.ndarray, after: np.ndarray, limit: float
) -> dict[str, np.ndarray]:
    """Return lines from values, spread evenly over all, to what became of them."""
    order = np.argsort(before, kind="stable")
    count = min(STRINGS, len(order))
    some = order[np.linspace(0, len(order) - 1, count).round().astype(int)]
    ends = np.stack([before[some], after[some], np.full(count, np.nan)], axis=1)
    y = np.tile([-0.05, -DEPTH, np.nan], count)
    return {"x": np.clip(ends, -limit, limit).ravel(), "y": y}


@cache
def pre_activation_std() -> float:
    """Return the standard deviation of the pre-activations."""
    return float(normalized_layer(ROWS["none"], 0.0, torch.float64).y.std())


@lru_cache(maxsize=16)
def eps_defect_per_sweep_size(eps: float) -> np.ndarray:
    """Return the defects that eps causes at each size of the sweep."""
    var = torch.tensor(pre_activation_std() ** 2, dtype=torch.float64)
    return np.array([float(abs(rescaled_output_ratio(var, eps, size) - 1)) for size in SWEEP])


@lru_cache(maxsize=32)
def table_defects(
    signed_factor_or_shift: float, eps: float, dtype: torch.dtype, batch_size: int
) -> np.ndarray:
    """Return the defects of Table 1 and its extension, rows with statistics of their own."""
    rows = [
        normalized_layer(ROWS[name], eps, dtype, batch_size, ROWS[name].statistics_source)
        for name in TABLE
    ]
    columns = range(1, len(TRANSFORMATIONS) + 1)
    return np.array(
        [
            [invariance_defect(row, column, signed_factor_or_shift) for column in columns]
            for row in rows
        ]
    )


# What is shown.


def draw(
    settings: InvariancePanelSettings, rows: Mapping[str, TableRow] = NORMALIZERS
) -> TitledFigure:
    """Show the outputs before and after a change, and say how far each has moved."""
    of, formula = layers_by_name(settings, rows), settings.selected_transformation.formula
    defects = {
        name: invariance_defect(it, settings.transformation, settings.signed_factor_or_shift)
        for name, it in of.items()
    }
    is_scaling = settings.selected_transformation.is_scaling
    by = f"{'δ =' if is_scaling else 'a shift of'} {settings.signed_factor_or_shift:g}"
    changes, much_rounding = [], False
    for name, moved in defects.items():
        limit = rounding_limit(
            rows[name],
            settings.transformation,
            settings.signed_factor_or_shift,
            settings.torch_dtype,
        )
        much_rounding |= EXACT[settings.torch_dtype] <= moved < limit
        words = describe_output_change(moved, limit)
        one_example = settings.batch_size == 1 and settings.statistics_source == "batch"
        if moved == 0 and one_example and uses_batch_statistics(rows[name]):
            words += " (for a single example its output is always the bias b)"
        changes.append(f"{name} {words}")
    sentence = (
        f"Largest change of an output, relative to the largest output, after {formula} "
        f"with {by}: {', '.join(changes)}."
    )
    if much_rounding:
        sentence += " The larger the shift, the larger the rounding errors."
    if not defects:
        sentence = (
            f"Choose a normalizer to see whether {formula} with {by} changes its outputs."
        )
    source = MODES[settings.statistics_source].value
    title = f"{formula}: {describe_eps_precision_batch_size(settings)}, statistics {source}"
    return TitledFigure(before_after_and_sweep_figure(settings, of, defects), title, sentence)


def draw_table_and_title(
    settings: InvariancePanelSettings, rows: Mapping[str, TableRow]
) -> tuple[Figure, str]:
    """Show the table at a change: 200 cells take longer than one step of a slider may."""
    by = f"δ = shift = {format_three_significant_digits(settings.signed_factor_or_shift)}"
    where = describe_eps_precision_batch_size(settings)
    title = f"Invariances in Table 1 and its extension, {by}: {where}"
    return defect_table_figure(settings, rows), title


def describe_eps_precision_batch_size(settings: InvariancePanelSettings) -> str:
    """Return epsilon, the precision and the batch size in words."""
    return f"ε = {settings.eps:g}, precision {settings.dtype}, batch size {settings.batch_size}"


def rounding_limit(
    row: TableRow, column: int, signed_factor_or_shift: float, dtype: torch.dtype
) -> float:
    """Return the defect below which outputs count as unchanged, but for rounding.

    What a shift is added to is rounded to the digits of the sum, so rounding grows with the
    shift. A row that is known to change keeps the limit of small shifts: in bfloat16 a large
    one takes every digit.
    """
    if (
        TRANSFORMATIONS[column - 1].is_scaling
        or row.yes_no_letter_per_column[column - 1] == "N"
    ):
        return EXACT[dtype]
    return EXACT[dtype] * max(1.0, abs(signed_factor_or_shift))


def describe_output_change(defect: float, limit: float) -> str:
    """Return in a few words how far outputs moved; less than ``limit`` is rounding."""
    if np.isnan(defect):
        return "0/0: not a number"
    if defect == 0:
        return "unchanged"
    if defect < limit:
        return f"unchanged up to rounding ({format_number(defect)})"
    if defect < 1e-3:
        return f"changed by {format_number(defect)}"
    if defect < 9.95:  # two digits of it are less than 1,000 %
        return f"changed by {format_number(100 * defect)} %"
    times = f"{float(f'{defect:.3g}'):,.0f}" if defect < 1e7 else format_number(defect)
    return f"changed by {times} × the largest output"


def before_after_and_sweep_figure(
    settings: InvariancePanelSettings,
    layers: Mapping[str, NormalizedLayer],
    defects: Mapping[str, float],
) -> Figure:
    """Return distributions before and after a change; below, how far outputs move by its size.

    Under each distribution, strings tie some of the values to what became of them: where
    nothing moves, they hang straight.
    """
    given = normalized_layer(
        ROWS["none"], settings.eps, settings.torch_dtype, settings.batch_size
    )
    every = {"pre-activations a": given, **layers}
    colors = [INK, *(look["color"] for look in line_colors_and_widths(layers).values())]
    domains, data, notes = side_by_side_domains(len(every), 0.025), [], []
    layout = base_layout(488, 66, 16, 52, 48)
    for slot, (name, color) in enumerate(zip(every, colors, strict=True)):
        limit = output_axis_limit(every[name].row)
        drawn = before_and_after_traces(
            every[name], settings.transformation, settings.signed_factor_or_shift
        )
        looks = {
            "before": {"line": {"width": 0}, "fill": "tozeroy", "fillcolor": "#CBD0D8"},
            "strings": {"mode": "lines", "line": {"color": color, "width": 1.2}},
            "after": {"mode": "lines", "line": {"color": color, "width": 2}},
            "note": {"mode": "text", "cliponaxis": False, "textfont": {"size": 12}},
        }
        data += [
            trace("scatter", f"{part} {slot}", slot, hoverinfo="skip", **look, **drawn[part])
            for part, look in looks.items()
        ]
        words = fill(escape(name), LETTERS // len(every)).replace("\n", "<br>")
        font = {"color": color, "size": 14}
        notes.append(subplot_title_above_axes(f"<b>{words}</b>", slot, font))
        x = {
            "domain": domains[slot],
            "range": [-limit, limit],
            "nticks": 4,
            "tickangle": 0,
            "showgrid": False,
        }
        y = {"domain": [0.575, 1], "range": [-DEPTH, PEAK], "visible": False}
        layout |= subplot_axes(slot, x, y)
    data += delta_sweep_traces(settings, layers, defects)
    sweep = delta_sweep_axes(settings)
    narrow = {"below": LEAST_WIDTH, "layout": narrow_layout(len(every), sweep)}
    layout |= sweep | {"annotations": notes, "meta": {"narrow": narrow}}
    return {"data": data, "layout": layout}


def narrow_layout(count: int, sweep: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is otherwise on a phone: ``count`` distributions, two in a row."""
    row, plot, foot = 180, 118, 150  # pixels: a row, a distribution in it, the sweep
    height = -(-count // 2) * row + foot
    layout: dict[str, Any] = {"height": height + 100, "margin": {"l": 56, "r": 8}}
    for slot in range(count):
        axis, top = axis_name_suffix(slot), height - slot // 2 * row
        layout[f"xaxis{axis}"] = {"domain": ((0, 0.47), (0.53, 1))[slot % 2]}
        layout[f"yaxis{axis}"] = {"domain": ((top - plot) / height, top / height)}
    x, y = sweep
    title = sweep[x]["title"] | {"font": {"size": 12}}
    return layout | {x: {"dtick": 2, "title": title}, y: {"domain": (0, foot / height)}}


def delta_sweep_traces(
    settings: InvariancePanelSettings,
    layers: Mapping[str, NormalizedLayer],
    defects: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Return the defects over the sizes of the change, and what eps is predicted to do."""
    styles, column = line_colors_and_widths(layers), settings.transformation
    data = [trace(
        "scatter", "now", SWEPT, mode="lines", line={"color": INK, "width": 1},
        x=np.array([abs(settings.signed_factor_or_shift)] * 2),
        y=np.array([FLOOR / 10, CEILING * 10]),
        hoverinfo="skip",
    )]  # fmt: skip
    for slot, (name, it) in enumerate(layers.items(), start=1):
        amounts = np.copysign(SWEEP, settings.signed_factor_or_shift).tolist()
        y = clip_to_axis(
            np.array(
                [
                    invariance_defect(it, column, signed_factor_or_shift)
                    for signed_factor_or_shift in amounts
                ]
            )
        )
        data.append(trace(
            "scatter", f"defect {slot}", SWEPT, x=SWEEP, y=y, mode="lines", line=styles[name],
            hovertemplate="%{x:.3g}: %{y:.2e}",
        ))  # fmt: skip
    invariant = any(it.row.claims_invariance(column) for it in layers.values())
    predicted, knee = np.full(len(SWEEP), np.nan), np.nan
    if invariant and settings.selected_transformation.is_scaling and settings.eps > 0:
        predicted = eps_defect_per_sweep_size(settings.eps)
        knee = settings.eps**0.5 / pre_activation_std()
    # a line of its own height lower: beside the curves, which it would lie under
    words = "<br>predicted from ε" if not np.isnan(predicted).all() else ""
    # over what was measured: where both agree, a dashed line would lie under a solid one
    text: dict[str, Any] = {"mode": "lines+text", "textfont": {"color": "#4B5563"}}
    data.append(trace(
        "scatter", "predicted", SWEPT, x=SWEEP, y=clip_to_axis(predicted), hoverinfo="skip",
        text=[""] * (len(SWEEP) - 1) + [words], textposition="bottom left",
        line={"color": INK, "width": 1.5} | PREDICTED, **text,
    ))  # fmt: skip
    data.append(trace(
        "scatter", "knee", SWEPT, x=np.array([knee, knee]), hoverinfo="skip",
        y=np.array([1e-13, CEILING * 10]), textposition="bottom right",
        text=["" if np.isnan(knee) else "δ² var a = ε", ""],
        line={"color": GREY, "width": 1.5, "dash": "dot"}, **text,
    ))  # fmt: skip
    data.append(trace(
        "scatter", "here", SWEPT, mode="markers", hoverinfo="skip",
        x=np.full(len(layers), abs(settings.signed_factor_or_shift)),
        y=clip_to_axis(np.array([*defects.values()])),
        marker={"size": 11, "color": [styles[name]["color"] for name in layers]},
    ))  # fmt: skip
    return data


def clip_to_axis(defects: np.ndarray) -> np.ndarray:
    """Return defects on the axis: an exact 0 at its floor, where it says 0; NaN as a gap."""
    return np.clip(defects, FLOOR, CEILING)


def delta_sweep_axes(settings: InvariancePanelSettings) -> dict[str, dict[str, Any]]:
    """Return the logarithmic axes of the sweep."""
    change = settings.selected_transformation
    name = f"size of {'δ' if change.is_scaling else 'the shift'} in {change.formula}"
    negative = ", negative" if settings.delta_sign < 0 else ""
    x = {
        "domain": [0, 1], "dtick": 1, "exponentformat": "power",
        "range": [float(np.log10(SWEEP[0])), float(np.log10(SWEEP[-1]))],
        "title": {"text": escape(name + negative), "standoff": 4},
    }  # fmt: skip
    y = {
        "domain": [0, 0.44], "title": {"text": "change of outputs"},
        "range": [float(np.log10(FLOOR)) - 0.5, float(np.log10(CEILING))],
        "tickvals": [FLOOR, 1e-16, 1e-12, 1e-8, 1e-4, 1.0, 1e4],
        "ticktext": ["0", "10⁻¹⁶", "10⁻¹²", "10⁻⁸", "10⁻⁴", "1", "10⁴"],
    }  # fmt: skip
    both = {"type": "log", "tickfont": {"size": 13}}
    return subplot_axes(SWEPT, x | both, y | both)


def defect_table_figure(
    settings: InvariancePanelSettings, rows: Mapping[str, TableRow]
) -> Figure:
    """Return a heat map of log10 of the defects, each cell with its claim (✓ or ✗).

    An exclamation mark stands where the measurement is not on the claimed side of rounding.
    The chosen column is framed, and the names of the chosen normalizers have their colours.
    """
    places = [*range(len(TABLE))]
    defects = table_defects(
        settings.signed_factor_or_shift, settings.eps, settings.torch_dtype, settings.batch_size
    )
    with np.errstate(divide="ignore"):
        z = np.clip(np.log10(defects), -17, None)
    texts = [
        [
            defect_cell_text(
                it,
                ROWS[name].claims_invariance(column),
                rounding_limit(
                    ROWS[name], column, settings.signed_factor_or_shift, settings.torch_dtype
                ),
            )
            for column, it in enumerate(row, 1)
        ]
        for name, row in zip(TABLE, defects, strict=True)
    ]
    headings = [
        f"{change.column}<br>" + escape(change.formula).replace("→ ", "→<br>")
        for change in TRANSFORMATIONS
    ]
    heat = trace(
        "heatmap", "defects", z=z, text=texts, x=headings, y=places,
        texttemplate="%{text}", textfont={"size": 11}, hovertemplate="%{text}<extra></extra>",
        colorscale=SIZES, zmin=-17, zmax=2, xgap=1, ygap=1, showscale=False,
    )  # fmt: skip
    shown = []
    for name in settings.normalizers:
        other = settings.statistics_source != "batch" and uses_batch_statistics(rows[name])
        shown.append(f"{name}, {settings.statistics_source}" if other else name)
    labels = {name: escape(name) for name in TABLE}
    for name, look in line_colors_and_widths(shown).items():
        if name in labels:
            labels[name] = f"<b><span style='color:{look['color']}'>{labels[name]}</span></b>"
    column = settings.transformation - 1
    bare = {"showline": False, "ticks": "", "showgrid": False}
    side, head, foot = 180, 70, 10
    layout = base_layout(head + foot + 23 * len(TABLE), side, 10, head, foot) | {
        "xaxis": bare | {"side": "top", "tickangle": 0, "tickfont": {"size": 11}},
        "yaxis": bare | {
            "tickvals": places, "ticktext": [*labels.values()], "tickfont": {"size": 12},
            "range": [len(TABLE) - 0.5, -0.5],
        },
        "shapes": [
            rectangle_around_cells(0, 6, 0, len(PAPER), INK),  # the paper's own table
            rectangle_around_cells(column, column + 1, 0, len(TABLE), VERMILLION),
        ],
        "annotations": [{
            "text": "✓ claimed to be unchanged<br>✗ claimed to change<br>"
            "(if ε = 0 and δ > 0)<br>! here it is otherwise",
            "xref": "paper", "yref": "paper", "x": 0, "y": 1, "xshift": -side,
            "xanchor": "left", "yanchor": "bottom", "align": "left", "showarrow": False,
            "font": {"size": 12},
        }],
    }  # fmt: skip
    return {"data": [heat], "layout": layout}


def defect_cell_text(defect: float, claims_invariance: bool, limit: float) -> str:
    """Return ✓ 3e-16, ✗ 2.6, or in bold with an exclamation mark where they do not agree."""
    if np.isnan(defect):
        return format_number(defect)
    text = f"{'✓' if claims_invariance else '✗'} {format_number(defect)}"
    return text if (defect < limit) == claims_invariance else f"<b>{text}!</b>"


def rectangle_around_cells(
    left: int, right: int, top: int, bottom: int, color: str
) -> dict[str, Any]:
    """Return a rectangle around cells, given by the edges of columns and rows."""
    edges = {"x0": left - 0.5, "x1": right - 0.5, "y0": top - 0.5, "y1": bottom - 0.5}
    return {"type": "rect", **edges, "line": {"color": color, "width": 2.5}}


# The panel.


def invariance(
    *,
    notebook: str = "02",
    only_delta: bool = False,
    own_norms: Mapping[str, NormLayer] | None = None,
    **settings: Any,
) -> Panel:
    """Return the panel on invariances: which outputs change if weights or inputs change.

    Args:
        notebook: the number of the notebook whose parameter ``panel`` takes the settings; empty
            if there is none.
        only_delta: whether to show only the slider of delta and its picture at first, with all
            other controls behind a button, and no table.
        own_norms: your own normalizers by name, each a factory such as ``LayerNorm``; they get
            buttons beside the others.
        settings: fields of :class:`InvariancePanelSettings` at the start; Reset restores them.

    Raises:
        ValueError: if a setting cannot have this value.
        TypeError: if one of your normalizers is not a normalizer.

    Examples:
        >>> panel = lnlab.panels.invariance(transformation=4)
    """
    rows = dict(NORMALIZERS)
    for name, norm in (own_norms or {}).items():
        if not (callable(norm) and isinstance(norm(UNITS), Normalizer)):
            raise TypeError(
                f"own normalizer {name!r} is {norm!r}: give a factory such as LayerNorm, which "
                "takes the number of units and returns a Normalizer."
            )
        rows[name] = TableRow(norm, "-" * 12, "a user's")
    changes = {f"{t.column}   {t.formula}   {t.name}": t.column for t in TRANSFORMATIONS}
    delta = log_slider("δ or shift", -4, 4)
    delta_sign = ipywidgets.ToggleButtons(options=[("δ > 0", 1), ("δ < 0", -1)])
    delta_sign.style.button_width = "60px"
    controls = {
        "normalizers": MultiSelectButtons("normalizers", rows, MOST),
        "transformation": dropdown("change", changes),
        "delta": delta,
        "delta_sign": delta_sign,
        "play": play_buttons(delta, step=2, interval_ms=120),
        "eps": options_slider("ε", EPS),
        "batch_size": options_slider("batch size", BATCHES),
        "dtype": dropdown("precision", DTYPES.keys()),
        "statistics_source": dropdown(
            "statistics", {mode.value: name for name, mode in MODES.items()}
        ),
    }
    alt = {
        "movement": "Histograms of a layer's pre-activations and of each normalizer's outputs, "
        "before and after a change of weights or inputs, and below them the relative change "
        "of the outputs against the size of that change",
        "table": "Table 1 of Ba et al. (2016) and its extension: for every normalizer and "
        "change, whether the outputs should be unchanged, and their measured relative change",
    }
    table = {} if only_delta else {"table": partial(draw_table_and_title, rows=rows)}
    on_page = ["delta", "transformation"] + ["normalizers"] * (not only_delta)
    panel = Panel(
        make_settings(InvariancePanelSettings, settings),
        controls, partial(draw, rows=rows), alt=alt,
        deferred=table, notebook=notebook,
        suggestions=SUGGESTIONS if notebook == "02" and not only_delta else None,
        on_page=on_page, stops={"delta": STOPS, "normalizers": FAMILIES},
    )  # fmt: skip
    if only_delta:
        hide_all_but_delta(panel, delta)
    return panel


def hide_all_but_delta(panel: Panel, delta: ipywidgets.FloatLogSlider) -> None:
    """Show delta alone beside its picture, and all else after a press on a button."""
    delta.description, delta.layout.width, delta.style.description_width = "δ", "246px", "22px"
    delta.add_class("lnlab-large")
    panel.add_class("lnlab-alone")
    more = ipywidgets.ToggleButton(description="More", layout={"width": "90px"})

    def toggle_other_controls(_press_of_more: object) -> None:
        (panel.remove_class if more.value else panel.add_class)("lnlab-alone")
        more.description = "Less" if more.value else "More"
        panel.footer.num_answers += 1  # the page waits for one after every press of a button

    more.observe(toggle_other_controls, "value")
    panel.children[0].children += (more,)
