"""DRAW: an encoder that looks at an image, a decoder that draws it, some glimpses long."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn import CellInit, Identity, LayerNorm, Linear, LSTMCell, NormLayer, State

if TYPE_CHECKING:
    from lnlab.papers.draw.experiment import Experiment

ARMS: dict[str, tuple[NormLayer, NormLayer]] = {
    "none": (Identity, Identity),
    "layer": (LayerNorm, Identity),
    "layer everywhere": (LayerNorm, LayerNorm),
}
"""The normalizers of the cell (eq. 31) and of the gates' pre-activations, in both LSTMs."""

WINDOW = 5  # the number of parameters of a window

MISTAKES = {
    "none": "no mistake",
    "grid": "the filters are counted from 0 where the formula counts them from 1",
    "kl": "the KL of a glimpse has the constant -0.5 where -0.5 times the size of z belongs",
    "noise": "one noise is drawn, and all glimpses share it",
    "grey": "pictures are not binarized",
}
"""Mistakes of the most copied implementation (ericjang/draw), one at a time."""

INITIALISATIONS = {
    "published": lambda W: nn.init.normal_(W, std=0.01),
    "modern": lambda W: nn.init.normal_(W, std=W.shape[1] ** -0.5),
}
"""Initialisations of all weights. "published" is that of jbornschein/draw, whose command has
the settings of Ba et al. (2016). Biases are 0."""


class WindowParameters(NamedTuple):
    """N x N Gaussian filters on each of B images: where DRAW looks, and where it writes.

    In pixels counted from 1: Gregor et al. (2015), eq. 19-24.
    """

    center_x: Tensor  # g_X of the center of the grid (B,)
    center_y: Tensor  # g_Y of the center of the grid (B,)
    stride: Tensor  # the distance delta from one filter to the next (B,)
    variance: Tensor  # sigma squared of each filter (B,)
    intensity: Tensor  # gamma (B,)


def window_from_linear_outputs(
    outputs: Tensor, image_shape: tuple[int, int], filters_per_side: int
) -> WindowParameters:
    """Return the windows that a decoder's linear outputs give.

    A window has ``filters_per_side`` x ``filters_per_side`` filters. Zeros give the whole
    image with a variance of 1. ``outputs`` (B, 5) are linear maps of h_dec: g_X, g_Y, log of
    sigma squared, delta and gamma.
    """
    height, width = image_shape
    # logarithms keep variance, stride and intensity above 0
    x, y, variance, stride, intensity = outputs.unbind(-1)
    return WindowParameters(
        (width + 1) / 2 * (x + 1),
        (height + 1) / 2 * (y + 1),
        (max(image_shape) - 1) / max(1, filters_per_side - 1) * stride.exp(),
        variance.exp(),
        intensity.exp(),
    )


def filterbank(
    center: Tensor,
    stride: Tensor,
    variance: Tensor,
    num_filters: int,
    pixels: int,
    first_filter_index: float = 1,
) -> Tensor:
    r"""Return F (B, N, pixels): N Gaussians along a side, each row of sum 1.

    Eq. 19, 20, 25 and 26:

    .. math::
        \mu^i = g + (i - N/2 - 0.5)\, \delta, \qquad
        F[i, a] = \frac{1}{Z_i} \exp\left(-\frac{(a - \mu^i)^2}{2 \sigma^2}\right)

    Middle, stride and variance are g, delta and sigma squared, each (B,); a = 1 to ``pixels``;
    i begins at ``first_filter_index``. With 0, the grid is one stride beside its center.
    """
    options = {"device": center.device, "dtype": center.dtype}
    i = torch.arange(num_filters, **options) + first_filter_index
    mu = center[..., None] + (i - num_filters / 2 - 0.5) * stride[..., None]
    a = torch.arange(1, pixels + 1, **options)
    scale = (-2 * variance[..., None, None]).reciprocal()
    # with Z it is a softmax: a filter outside the image has no row of zeros
    return ((a - mu[..., None]).square() * scale).softmax(-1)


class DrawState(NamedTuple):
    """The state between two glimpses: of the encoder, the decoder and the canvas."""

    encoder: State
    decoder: State
    canvas: Tensor


class Drawing(NamedTuple):
    """A drawing of B images in T glimpses."""

    canvases: Tensor  # logits of the pixels after each glimpse (T, B, D)
    q_mean: Tensor  # parameters of q(z_t | x, z_1 ... z_{t-1}), each (T, B, Z)
    q_log_sigma: Tensor  # parameters of q(z_t | x, z_1 ... z_{t-1}), each (T, B, Z)
    z: Tensor  # samples of it (T, B, Z)
    read_windows: WindowParameters  # the windows, each parameter (T, B)
    write_windows: WindowParameters  # the windows, each parameter (T, B)


class Glimpse(NamedTuple):
    """One glimpse of a :class:`Drawing` of B images."""

    canvas: Tensor  # logits of the pixels after it (B, D)
    q_mean: Tensor  # parameters of q(z_t | x, z_1 ... z_{t-1}), each (B, Z)
    q_log_sigma: Tensor  # parameters of q(z_t | x, z_1 ... z_{t-1}), each (B, Z)
    z: Tensor  # a sample of it (B, Z)
    read_window: WindowParameters
    write_window: WindowParameters


def kl_to_standard_normal(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """Return KL(N(mean, sigma^2) || N(0, 1)) in nats, of the last axis: (..., Z) to (...)."""
    terms = mean.square() + (2 * log_sigma).exp() - 2 * log_sigma - 1
    return terms.sum(-1) / 2


ReconstructionNats = Tensor  # -log p(x | z) of each image (B,)
KLNats = Tensor  # the sum over glimpses for each image (B,)


class DRAW(nn.Module):
    r"""Gregor et al. (2015), with layer norm on the cells as in Ba et al. (2016), eq. 29-31.

    .. math::
        \hat x_t &= x - \sigma(c_{t-1}), \qquad r_t = read(x, \hat x_t; h^{dec}_{t-1}) \\
        h^{enc}_t &= LSTM^{enc}([r_t, h^{dec}_{t-1}]), \qquad
        z_t \sim q(z_t | h^{enc}_t) \\
        h^{dec}_t &= LSTM^{dec}(z_t), \qquad c_t = c_{t-1} + write(h^{dec}_t)

    The pixels are Bernoulli variables with the logits c_T. The initial states and the initial
    canvas are learned, starting from 0.

    Args:
        config: Sizes, normalizers, initialisation and mistake.
        shape: Height and width of the images; D = height x width.
    """

    def __init__(self, config: "Experiment", shape: tuple[int, int]) -> None:
        super().__init__()
        self.shape, self.glimpses, self.latent_size = shape, config.glimpses, config.latent_size
        self.read, self.write, self.mistake = (
            config.read_size,
            config.write_size,
            config.mistake,
        )
        (norm, gates), (H,) = ARMS[config.norm], config.units
        initialize = INITIALISATIONS[config.initialisation]
        initial = CellInit(initialize, learned_initial_state=True)
        settings = {"norm_layer": norm, "gate_norm_layer": gates, "initial": initial}
        self.encoder = LSTMCell(2 * self.read**2 + H, H, **settings)
        self.decoder = LSTMCell(self.latent_size, H, **settings)
        self.q = Linear(H, 2 * self.latent_size, bias=True)
        self.reader = Linear(H, WINDOW, bias=True)
        self.writer = Linear(H, WINDOW + self.write**2, bias=True)
        for layer in (self.q, self.reader, self.writer):
            initialize(layer.W)
        self.first = nn.Parameter(torch.zeros(shape[0] * shape[1]))

    def forward(self, x: Tensor) -> tuple[ReconstructionNats, KLNats]:
        """Return the terms of the bound of images x (B, D): of the canvas (B,), the KL (B,)."""
        glimpses = [*self._yield_glimpses(x, self.sample_noise(x))]
        mean = torch.stack([glimpse.q_mean for glimpse in glimpses])
        log_sigma = torch.stack([glimpse.q_log_sigma for glimpse in glimpses])
        kl = self.kl_per_glimpse(mean, log_sigma).sum(0)
        return self.reconstruction_nats(x, glimpses[-1].canvas), kl

    def sample_noise(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return standard normal noise for the drawing of x (B, D): (T, B, Z).

        With a ``generator`` it is the same on every device.
        """
        size = (1 if self.mistake == "noise" else self.glimpses, len(x), self.latent_size)
        device = "cpu" if generator else x.device
        noise = torch.randn(size, generator=generator, dtype=x.dtype, device=device)
        return noise.to(x.device).expand(self.glimpses, -1, -1)

    def reconstruction_nats(self, x: Tensor, canvas: Tensor) -> Tensor:
        """Return -log p(x | canvas) of images (..., D), Bernoullis with these logits: (...)."""
        x = x.expand_as(canvas)
        return F.binary_cross_entropy_with_logits(canvas, x, reduction="none").sum(-1)

    def kl_per_glimpse(self, mean: Tensor, log_sigma: Tensor) -> Tensor:
        """Return the KL of each glimpse from the prior in nats (T, B), mistake included."""
        kl = kl_to_standard_normal(mean, log_sigma)
        return kl + (self.latent_size - 1) / 2 if self.mistake == "kl" else kl

    def draw(self, x: Tensor, noise: Tensor) -> Drawing:
        """Draw images x (B, D), z_t = mean + sigma times the noise (T, B, Z)."""
        glimpses = self._yield_glimpses(x, noise)
        canvases, means, log_sigmas, zs, reads, writes = zip(*glimpses, strict=True)
        canvas, mean, log_sigma, z = map(torch.stack, (canvases, means, log_sigmas, zs))
        return Drawing(canvas, mean, log_sigma, z, stack_windows(reads), stack_windows(writes))

    def _yield_glimpses(self, x: Tensor, noise: Tensor) -> Iterator[Glimpse]:
        """Draw images x (B, D) with noise (T, B, Z), and yield each glimpse."""
        state = self.initial_state(x)
        for t, epsilon in enumerate(noise.unbind()):
            read = window_from_linear_outputs(
                self.reader(state.decoder[0]), self.shape, self.read
            )
            r = self._read_patches(x, state.canvas, read)
            encoder = self.encoder(torch.cat([r, state.decoder[0]], dim=-1), state.encoder, t)
            mean, log_sigma = self.q(encoder[0]).chunk(2, dim=-1)
            z = mean + log_sigma.exp() * epsilon
            decoder, canvas, write = self._decode_and_update_canvas(z, state, t)
            state = DrawState(encoder, decoder, canvas)
            yield Glimpse(canvas, mean, log_sigma, z, read, write)

    def canvases_and_windows_from_latents(self, z: Tensor) -> tuple[Tensor, WindowParameters]:
        """Return canvases (T, B, D) and windows of writing, from z of the prior (T, B, Z)."""
        state, canvases, windows = self.initial_state(z[0]), [], []
        for t, z_t in enumerate(z):
            decoder, canvas, write = self._decode_and_update_canvas(z_t, state, t)
            state = state._replace(decoder=decoder, canvas=canvas)
            canvases.append(canvas)
            windows.append(write)
        return torch.stack(canvases), stack_windows(windows)

    def initial_state(self, x: Tensor) -> DrawState:
        """Return the state before the first glimpse of images x (B, ...)."""
        encoder, decoder = self.encoder.initial_state(x), self.decoder.initial_state(x)
        return DrawState(encoder, decoder, self.first.expand(len(x), -1))

    def vertical_and_horizontal_filterbanks(
        self, window: WindowParameters, filters_per_side: int
    ) -> tuple[Tensor, Tensor]:
        """Return F_Y (B, N, height) and F_X (B, N, width); N is ``filters_per_side``."""
        first = 0 if self.mistake == "grid" else 1
        height, width = self.shape
        grid = window.stride, window.variance, filters_per_side
        return (
            filterbank(window.center_y, *grid, height, first),
            filterbank(window.center_x, *grid, width, first),
        )

    def _read_patches(self, x: Tensor, canvas: Tensor, window: WindowParameters) -> Tensor:
        """Return gamma [F_Y x F_X', F_Y x^ F_X'] (B, 2 N N): of the image and its error."""
        F_Y, F_X = self.vertical_and_horizontal_filterbanks(window, self.read)
        image, drawing = (
            (F_Y @ pixels.unflatten(-1, self.shape) @ F_X.mT).flatten(-2)
            for pixels in (x, canvas.sigmoid())
        )
        return window.intensity[..., None] * torch.cat([image, image - drawing], dim=-1)

    def _decode_and_update_canvas(
        self, z: Tensor, state: DrawState, t: int
    ) -> tuple[State, Tensor, WindowParameters]:
        """Return the decoder's state after z (B, Z), the new canvas, and the window."""
        decoder = self.decoder(z, state.decoder, t)
        raw = self.writer(decoder[0])
        window = window_from_linear_outputs(raw[..., :WINDOW], self.shape, self.write)
        patch = raw[..., WINDOW:].unflatten(-1, (self.write, self.write))
        F_Y, F_X = self.vertical_and_horizontal_filterbanks(window, self.write)
        ink = (F_Y.mT @ patch @ F_X).flatten(-2) / window.intensity[..., None]
        return decoder, state.canvas + ink, window


def stack_windows(windows: Sequence[WindowParameters]) -> WindowParameters:
    """Return the windows of several glimpses as one, each number (T, B)."""
    return WindowParameters(*map(torch.stack, zip(*windows, strict=True)))
