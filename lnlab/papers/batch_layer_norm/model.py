"""The normalizers that Ziaee & Çano (2022) compare, as their code has them, and controls."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn import (
    CODE,
    PAPER,
    BatchLayerNorm,
    BatchNorm,
    Conv2d,
    Identity,
    LayerNorm,
    Linear,
    Normalizer,
    NormLayer,
    Terms,
    Variant,
)
from lnlab.nn.batch import update_average
from lnlab.nn.cells import OPEN_FORGET_GATES
from lnlab.nn.recurrent import LSTM, unroll

KERAS = 1e-3
"""The eps of all normalizers of Keras, and of the published layer."""

VARIANTS: dict[str, Variant] = {"code": CODE, "paper": PAPER}


@dataclass(frozen=True)
class Around:
    """The part of a training that its normalizers have to know.

    Attributes:
        m: the size of every batch.
        epoch: the number of batches in an epoch.
        variant: of batch layer normalization.
    """

    m: int
    epoch: int
    variant: Variant


class KerasBatchNorm(BatchNorm):
    """Batch normalization as Keras has it: momentum 0.99 and eps 0.001, a biased variance.

    Of a single value the variance is 0 and is remembered too, so that with one case in the
    batch evaluation divides by nearly nothing.
    """

    def __init__(self, units: int, **settings) -> None:
        super().__init__(units, eps=KERAS, momentum=0.01, **settings)

    def update_running(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        update_average(self.running_mean, mu, self.momentum)
        update_average(self.running_var, var, self.momentum)


def small_gain(units: int, **settings) -> Normalizer:
    """Layer normalization whose gain is 1/sqrt(d) at the start: the size of eq. 16."""
    norm = layer(units, **settings)
    assert norm.g is not None
    nn.init.constant_(norm.g, units**-0.5)
    return norm


layer = partial(LayerNorm, eps=KERAS, per_position=True)


def mixture(terms: Terms, root_d: bool) -> Callable[[Around], NormLayer]:
    """Eq. 16, or a part of it alone, with or without the root of d."""
    return lambda around: partial(
        BatchLayerNorm, m=around.m, epoch=around.epoch, variant=around.variant,
        terms=terms, root_d=root_d,
    )  # fmt: skip


ARMS: dict[str, Callable[[Around], NormLayer]] = {
    "batch": lambda around: KerasBatchNorm,
    "layer": lambda around: layer,
    "batch layer": mixture("both", True),
    "layer, small gain": lambda around: small_gain,
    "batch, axis 0": mixture("cases", False),
    "batch, axis 0, small": mixture("cases", True),
    "batch layer, full size": mixture("both", False),
}
"""Three as published. Then controls: the size of eq. 16 without its mixture; statistics of
every position by itself, which "batch" does not have, in either size; the mixture in full
size."""


def settled(net: nn.Module, x: Tensor) -> nn.Module:
    """``net`` whose population statistics have the shapes that batches like ``x`` give them,
    and nothing in them."""
    mixtures = mixtures_of(net)
    if mixtures:
        with torch.no_grad():
            net.train()(x)
        for norm in mixtures:
            norm.restart_population()
    return net


def mixtures_of(net: nn.Module) -> list[BatchLayerNorm]:
    """The normalizers of a net that have configurations to choose from."""
    return [part for part in net.modules() if isinstance(part, BatchLayerNorm)]


# LeNet as Ziaee & Çano (2022) have it: tanh, means of pools, a normalizer behind each.


PLACES = ("after", "before")
"""The places of a normalizer: after the nonlinearity (eq. 27), or before it (eq. 26)."""

CHANNELS, UNITS, KERNEL = (6, 16), (120, 84), 5


class TanhLeNet(nn.Module):
    """Two convolutions and three dense layers: x (B, C, height, width) to logits (B, classes).

    Weights start as in the published code: Glorot & Bengio (2010) in convolutions, orthogonal
    in dense layers, biases 0. All layers have a bias of their own besides the normalizer's.

    Args:
        shape: of a picture: channels, height, width.
        classes: how many there are.
        convolution: makes the normalizers of feature maps, those of two spatial axes.
        dense: makes those of the dense layers.
        place: one of :data:`PLACES`; after the nonlinearity they stand behind the pooling too.
        m: how many cases it trains on at once.

    Attributes:
        opaque: whether seeds compute in turn: side by side each convolution is one of many
            groups, which takes half again as long. Of single cases convolutions are the
            least of it, and side by side takes half as long.

    Raises:
        ValueError: for a place that there is not, or pictures too small for two convolutions.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        convolution: NormLayer,
        dense: NormLayer,
        place: str,
        m: int,
    ) -> None:
        super().__init__()
        self.opaque = m > 1
        if place not in PLACES:
            raise ValueError(f"place is {place!r}: choose from {', '.join(PLACES)}.")
        if len(shape) != 3 or min(shape[1:]) < 12:
            raise ValueError(
                f"pictures have shape {tuple(shape)}: LeNet reads (channels, height, width), "
                "of 12 pixels or more; take shapes or cifar10."
            )
        self.after = place == "after"
        channels, height, width = shape
        first, second = CHANNELS
        convolutions = [
            Conv2d(channels, first, KERNEL, convolution_alone, padding=2, bias=True),
            Conv2d(first, second, KERNEL, convolution_alone, bias=True),
        ]
        flat = second * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
        dense_layers = [
            Linear(D, H, Identity, bias=True)
            for D, H in zip((flat, *UNITS), (*UNITS, classes), strict=True)
        ]
        for layer in convolutions:
            nn.init.xavier_uniform_(layer.W)
        for layer in dense_layers:
            nn.init.orthogonal_(layer.W)
        self.convolutions = nn.ModuleList(convolutions)
        self.dense = nn.ModuleList(dense_layers)
        self.norms = nn.ModuleList([*map(convolution, CHANNELS), *map(dense, UNITS)])

    def forward(self, x: Tensor) -> Tensor:
        norms = iter(self.norms)
        for layer in self.convolutions:
            x = self.normalized(layer(x), next(norms), pooled=True)
        x = x.flatten(1)
        *hidden, readout = self.dense
        for layer in hidden:
            x = self.normalized(layer(x), next(norms))
        return readout(x)

    def normalized(self, a: Tensor, norm: nn.Module, *, pooled: bool = False) -> Tensor:
        """f and the normalizer in their order, of summed inputs ``a``; pooled in between or
        behind."""
        h = torch.tanh(a if self.after else norm(a))
        h = F.avg_pool2d(h, 2) if pooled else h
        return norm(h) if self.after else h


def convolution_alone(units: int) -> Identity:
    """No normalizer between a convolution and f."""
    return Identity(units, space=2)


# The recurrent net of Ziaee & Çano (2022): two LSTMs over words, a normalizer behind each.


DROPPED = 0.2
"""The part of inputs and of states that is dropped, the same units at every step of a case."""
DENSE = 32


class ReviewReader(nn.Module):
    """Words by number (B, T) to one logit a review (B,).

    An embedding, an LSTM, a normalizer at every step, an LSTM whose last state counts, a
    normalizer, a dense layer with tanh, a normalizer, a logit. The normalizers stand between
    the layers and not in the cells. Embedding and LSTMs start as in Glorot & Bengio (2010),
    forget gates open; dense layers orthogonal.

    Args:
        words: V.
        embedding: numbers a word.
        units: of the two LSTMs.
        norm: makes the normalizers.
    """

    opaque = True  # each seed draws the noise of all its layers before the next one's

    def __init__(
        self, words: int, embedding: int, units: tuple[int, int], norm: NormLayer
    ) -> None:
        super().__init__()
        self.word = nn.Parameter(torch.empty(words, embedding))
        nn.init.xavier_uniform_(self.word)
        first, second = units
        layers = [
            LSTM(D, H, norm_layer=Identity, initial=OPEN_FORGET_GATES)
            for D, H in ((embedding, first), (first, second))
        ]
        for (cell,) in (layer.cells for layer in layers):
            nn.init.xavier_uniform_(cell.W_x)
            nn.init.xavier_uniform_(cell.W_h)
        dense = [Linear(D, H, Identity, bias=True) for D, H in ((second, DENSE), (DENSE, 1))]
        for layer in dense:
            nn.init.orthogonal_(layer.W)
        self.layers, self.dense = nn.ModuleList(layers), nn.ModuleList(dense)
        self.norms = nn.ModuleList(map(norm, (first, second, DENSE)))

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.before(x))

    def before(self, x: Tensor) -> Tensor:
        """The states of the first LSTM (B, T, H), that no normalizer has seen."""
        return self.read(self.layers[0], self.word[x])

    def behind(self, h: Tensor) -> Tensor:
        """The logits (B,), from all states of the first LSTM (B, T, H)."""
        every, last, dense = self.norms
        hidden, readout = self.dense
        h = last(self.read(self.layers[1], every(h))[:, -1])
        h = dense(torch.tanh(hidden(h)))
        return readout(h).squeeze(-1)

    def read(self, layer: nn.Module, x: Tensor) -> Tensor:
        """The states h (B, T, H) of an LSTM over x (B, T, D); as Keras drops in training.

        What is dropped is drawn once for each case, not at every step.
        """
        assert isinstance(layer, LSTM)
        (cell,), x = layer.cells, x.transpose(0, 1)
        if self.training:
            keep_x, keep_h = (
                self.kept(x[0]),
                self.kept(x.new_empty(x.shape[1], cell.hidden_size)),
            )
            return layer.unroll(cell, x * keep_x, mask=keep_h)[0].transpose(0, 1)
        # evaluation is of many batches side by side, by torch.func, which sees no kernel
        return unroll(cell, x)[0].transpose(0, 1)

    def kept(self, like: Tensor) -> Tensor:
        """Factors of ``like``, 0 or 1/(1 - 0.2), mean 1."""
        return F.dropout(torch.ones_like(like), DROPPED)
