"""The panels of notebooks 19 and 20: a transformer before training, and over its depth."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.figures.style import (
    EDGE,
    band,
    base_layout,
    format_number,
    legend_annotation,
    log_axis,
    thinning_line_colors_and_widths,
    trace,
    widen_exponent_range_to_values,
)
from lnlab.nn import NORMS
from lnlab.panels.controls import MultiSelectButtons, dropdown, options_slider
from lnlab.panels.panel import Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.papers.transformer.evaluate import (
    nll_objective,
    stream_variances_and_W_2_gradient_norms,
)
from lnlab.papers.transformer.model import (
    ARMS,
    PLACES,
    NormLayersAndPlacement,
    TransformerLanguageModel,
)
from lnlab.training import cross_entropy_per_model, stack
from lnlab.training.random_state import default_dtype, generator_seeded_by_hash

KINDS = ("layer", "rms", "dyt", "none")
DEPTHS = (1, 2, 4, 6, 8, 12)


@dataclass(frozen=True)
class TransformerPanelSettings:
    """A transformer before its first update."""

    norm_places: tuple[str, ...] = ("pre", "post")  # of the normalizers, any of PLACES
    norm_kind: str = "layer"  # of KINDS; with "none" every branch is damped at the same places
    depth: int = 4  # L, one of DEPTHS


DRAWS, EXAMPLES, CONTEXT, WIDTH, HEADS = 8, 8, 16, 16, 2
STEPS = np.logspace(-4, -0.5, 11)
"""The learning rates η at which the first step of Adam is tried."""
SLOTS = 4
LEAST = 0.3
"""The power of ten at which the loss axis begins: 2 nats, below all losses after one step."""

ValuesOfDrawsByName = Mapping[str, np.ndarray]
"""Values by name (S, K), a row for each random draw of the weights."""
ValuesPerDrawAndLayer = np.ndarray
"""Values (S, L), a row for each random draw of the weights."""


class InitialNetworkDraws(NamedTuple):
    """Several draws of one net side by side, before the first update."""

    loss: Objective  # of all of them, a mean
    weights_by_parameter: dict[
        str, Tensor
    ]  # their parameters by name, each with an axis of draws
    gradients_by_parameter: dict[str, Tensor]  # the gradient of the loss of each
    x: Tensor  # the examples, the same for all
    y: Tensor


@lru_cache(maxsize=100)
def initialize_networks(norm_place: str, norm_kind: str, depth: int) -> InitialNetworkDraws:
    """Return the nets of a place, a kind and a depth; the same draws whatever is set."""
    text = load("embedded", "text", context=CONTEXT)
    size = len(text.vocabulary), CONTEXT, depth, WIDTH, HEADS
    with default_dtype(torch.float64), torch.random.fork_rng(devices=()):
        nets = [
            TransformerLanguageModel(
                *size, NormLayersAndPlacement(norm_place, NORMS[norm_kind])
            )
            for _ in range(DRAWS)
        ]
        for draw, net in enumerate(nets):
            net.initialize_(
                lambda name, draw=draw: generator_seeded_by_hash(f"{name} of draw {draw}")
            )
    x, y = (v[:EXAMPLES].expand(DRAWS, EXAMPLES, CONTEXT) for v in (text.train.x, text.train.y))
    loss = nll_objective(stack(nets), x, y)
    slope = DRAWS * loss.gradient()[1]  # of the sum, so that each has its own
    return InitialNetworkDraws(loss, loss.unflatten(loss.start), loss.unflatten(slope), x, y)


@lru_cache(maxsize=100)
def initial_w2_gradient_norms(
    norm_place: str, norm_kind: str, depth: int
) -> ValuesPerDrawAndLayer:
    """Return ||dL/dW_2|| of each layer, bottom first (draws, L)."""
    g = initialize_networks(norm_place, norm_kind, depth).gradients_by_parameter
    norms = [g[name].norm(dim=(-2, -1)) for name in g if name.endswith("W_2.W")]
    return torch.stack(norms, dim=1).numpy()


@lru_cache(maxsize=100)
def losses_after_step_by_size(norm_place: str, norm_kind: str, depth: int) -> np.ndarray:
    """Return the loss after a first step of Adam of each size, in nats (draws, K).

    Adam's first step moves every parameter by the learning rate, whatever its gradient:
    w - eta sign(g).
    """
    begin = initialize_networks(norm_place, norm_kind, depth)
    losses = []
    for eta in STEPS:
        stepped = {
            name: w - eta * begin.gradients_by_parameter[name].sign()
            for name, w in begin.weights_by_parameter.items()
        }
        logits = functional_call(begin.loss.module, stepped, (begin.x,))
        losses.append(cross_entropy_per_model(logits.flatten(1, 2), begin.y.flatten(1)))
    return torch.stack(losses, dim=1).detach().numpy()


def draw_initial_gradients(settings: TransformerPanelSettings) -> TitledFigure:
    """Show the gradients, and say that of the bottom layer as a multiple of the top one."""
    norms = {
        norm_place: initial_w2_gradient_norms(norm_place, settings.norm_kind, settings.depth)
        for norm_place in settings.norm_places
    }
    ratios = []
    for norm_place, values in norms.items():
        bottom, top = values.mean(0)[[0, -1]]
        ratios.append(
            f"{norm_place} {format_number(top)} "
            f"({format_number(bottom / top) if top else 'NaN'})"
        )
    sentence = (
        "Norm of the gradient with respect to W₂ in the last layer (in parentheses: norm in "
        f"the first layer divided by norm in the last): {', '.join(ratios)}."
    )
    if not ratios:
        sentence = (
            f"{describe_network(settings)}. Choose where in a layer the normalizer stands."
        )
    return TitledFigure(
        gradient_norm_by_layer_figure(norms), describe_network(settings), sentence
    )


def draw_loss_after_first_step(settings: TransformerPanelSettings) -> tuple[Figure, str]:
    """Show the losses after a first step, which take longer than a slider may."""
    losses = {
        norm_place: losses_after_step_by_size(norm_place, settings.norm_kind, settings.depth)
        for norm_place in settings.norm_places
    }
    return loss_after_first_step_figure(losses), describe_network(settings)


def describe_network(settings: TransformerPanelSettings) -> str:
    """Return what was measured, in short."""
    norm_kind = (
        "no normalizer" if settings.norm_kind == "none" else f"{settings.norm_kind} norm"
    )
    layers = "1 layer" if settings.depth == 1 else f"{settings.depth} layers"
    return f"{norm_kind}, {layers}, before the first update"


def transformer(**settings: Any) -> Panel:
    """Return the panel of a transformer before its first update.

    It starts with ``settings``, fields of :class:`TransformerPanelSettings`.
    """
    controls = {
        "norm_places": MultiSelectButtons("places", PLACES, len(PLACES)),
        "depth": options_slider("layers L", DEPTHS),
        "norm_kind": dropdown("kind", KINDS),
    }
    suggestions = {
        "Drag layers L from 12 down to 1: for which place of the normalizer does the gradient "
        "in the last layer depend on the depth?": {"depth": 12},
        "12 layers without a normalizer: how much does Adam's first step raise the loss?": {
            "depth": 12, "norm_kind": "none",
        },
        "12 layers with DyT at the place post: how large are the gradients, and what does a "
        "small step do to the loss?": {
            "depth": 12, "norm_kind": "dyt", "norm_places": ("post",),
        },
    }  # fmt: skip
    alt = {
        "profile": "The norm of the gradient with respect to the matrix W2 in every layer of a "
        "transformer before its first update, a line for each place of the normalizer",
        "steps": "The loss of a transformer after the first step of Adam against the learning "
        "rate of that step, a line for each place of the normalizer",
    }
    return Panel(
        make_settings(TransformerPanelSettings, settings),
        controls, draw_initial_gradients, alt=alt,
        deferred={"steps": draw_loss_after_first_step}, notebook="19",
        on_page=["depth"], suggestions=suggestions,
    )  # fmt: skip


@dataclass(frozen=True)
class DepthPanelSettings:
    """Transformers before training whose stream and gradients are followed over depth."""

    arms: tuple[str, ...] = ("pre", "post", "sandwich", "keel")  # up to four of OVER_DEPTH
    depth: int = 48  # L, one of DEEP
    initialisation: str = "equal"  # or "scaled": the last matrix of a branch over sqrt(2 L)


OVER_DEPTH = ("pre", "post", "sandwich", "lns", "keel")
DEEP = (4, 12, 48, 200)


@lru_cache(maxsize=100)
def arm_variances_and_gradient_norms(
    arm: str, depth: int, scaled: bool
) -> tuple[list[float], list[float]]:
    """Return the variance of the stream from the embedding on, and ||dL/dW_2|| by layer."""
    text = load("embedded", "text", context=CONTEXT)
    with default_dtype(torch.float64), torch.random.fork_rng(devices=()):
        net = TransformerLanguageModel(
            len(text.vocabulary), CONTEXT, depth, 4 * WIDTH, HEADS, ARMS[arm]
        )
        net.initialize_(
            lambda name: generator_seeded_by_hash(f"{name} of draw 0"), scaled_branches=scaled
        )
    with torch.enable_grad():
        return stream_variances_and_W_2_gradient_norms(
            net, text.train.x[:EXAMPLES], text.train.y[:EXAMPLES]
        )


def draw_stream_variance(settings: DepthPanelSettings) -> TitledFigure:
    """Show the variance over depth, and say that after the last layer."""
    scaled = settings.initialisation == "scaled"
    lines = {
        arm: np.array([arm_variances_and_gradient_norms(arm, settings.depth, scaled)[0]])
        for arm in settings.arms
    }
    last = ", ".join(f"{arm} {format_number(values[0, -1])}" for arm, values in lines.items())
    sentence = f"Variance of the residual stream after layer {settings.depth}: {last}."
    if not lines:
        sentence = "Choose an arm to see the variance of its residual stream."
    x = {
        "title": {"text": "layer (0: the embedding)"}, "range": [-0.5, settings.depth + 0.5],
        "dtick": max(1, settings.depth // 6),
    }  # fmt: skip
    figure = mean_and_range_figure(
        np.arange(settings.depth + 1.0), lines, "after layer %{x}: %{y:.3g}", x,
        widen_exponent_range_to_values(lines.values(), -0.5, 0.5), "variance of the stream",
    )  # fmt: skip
    return TitledFigure(figure, f"variance, {_describe_networks(settings)}", sentence)


def draw_W_2_gradient_norms(settings: DepthPanelSettings) -> tuple[Figure, str]:
    """Show the gradient of W_2 in each layer."""
    scaled = settings.initialisation == "scaled"
    norms = {
        arm: np.array([arm_variances_and_gradient_norms(arm, settings.depth, scaled)[1]])
        for arm in settings.arms
    }
    return gradient_norm_by_layer_figure(
        norms
    ), f"gradient of W₂, {_describe_networks(settings)}"


def _describe_networks(settings: DepthPanelSettings) -> str:
    return f"{settings.depth} layers before training, {settings.initialisation} initialization"


def stream_and_gradients_over_depth(**settings: Any) -> Panel:
    """Return the panel of the residual stream and of the gradients over depth.

    It starts with ``settings``, fields of :class:`DepthPanelSettings`.
    """
    controls = {
        "arms": MultiSelectButtons("arms", OVER_DEPTH, SLOTS),
        "depth": options_slider("layers L", DEEP),
        "initialisation": dropdown("initialization", ("equal", "scaled")),
    }
    alt = {
        "variance": "The variance of the residual stream after each layer of transformers "
        "before training, a line for each position of the norms",
        "gradients": "The norm of the gradient with respect to the matrix W2 in each layer of "
        "transformers before training, a line for each position of the norms",
    }
    return Panel(
        make_settings(DepthPanelSettings, settings), controls, draw_stream_variance, alt=alt,
        deferred={"gradients": draw_W_2_gradient_norms}, notebook="20",
        on_page=["depth", "initialisation"],
    )  # fmt: skip


def gradient_norm_by_layer_figure(norms: ValuesOfDrawsByName) -> Figure:
    """Return the norms of gradients by layer (S, L): lines are means, bands hold all draws."""
    layers = max((values.shape[1] for values in norms.values()), default=1)
    x = {
        "title": {"text": "layer"}, "range": [0.5, layers + 0.5],
        "dtick": max(1, layers // 6),
    }  # fmt: skip
    return mean_and_range_figure(
        np.arange(1.0, layers + 1), norms, "layer %{x}: %{y:.3g}", x,
        widen_exponent_range_to_values(norms.values(), -1, 0.5), "‖∂L/∂W<sub>2</sub>‖",
    )  # fmt: skip


def loss_after_first_step_figure(losses: ValuesOfDrawsByName) -> Figure:
    """Return the losses (S, K) after a first step, in nats a character."""
    x = {
        "title": {"text": "learning rate η of the first step of Adam"}, "type": "log",
        "dtick": 1, "exponentformat": "power",
    }  # fmt: skip
    _, high = widen_exponent_range_to_values(losses.values(), LEAST, 1)
    hover = "η = %{x:.2g}: %{y:.3g} nats"
    return mean_and_range_figure(
        STEPS, losses, hover, x, (LEAST, high), "loss after the first step (nats)"
    )


def mean_and_range_figure(
    x_values: np.ndarray,
    spread: ValuesOfDrawsByName,
    hover_text: str,
    x_axis: Mapping[str, Any],
    y_powers: tuple[float, float],
    y_title: str,
) -> Figure:
    """Return the mean of each name as a line, and a band from its least to its greatest.

    The axis of y is logarithmic, between two powers of ten.
    """
    styles, data = thinning_line_colors_and_widths(spread), []
    for slot, (name, every) in enumerate(spread.items()):
        values, color = np.clip(every, 10.0**-EDGE, 10.0**EDGE), styles[name]["color"]
        area = band(x_values, values.min(0), values.max(0), color)
        area |= {"line": {"width": 0, "color": color}}
        data.append(trace("scatter", f"band {slot}", **area))
        data.append(trace(
            "scatter", f"mean {slot}", x=x_values, y=values.mean(0), mode="lines+markers",
            line=styles[name], marker={"color": color, "size": 7},
            hovertemplate=f"{hover_text}<extra></extra>",
        ))  # fmt: skip
    layout = base_layout(380, 60, 12, 40, 46) | {
        "annotations": [legend_annotation(spread, 10)],
        "xaxis": x_axis,
        "yaxis": log_axis([10.0**power for power in y_powers])
        | {"range": [*y_powers], "title": {"text": y_title}},
    }
    return {"data": data, "layout": layout}
