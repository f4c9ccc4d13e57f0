"""The normalizers that Ziaee & Çano (2022) compare, as their code has them, and controls."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn import (
    CODE,
    PAPER,
    BatchLayerNorm,
    BatchLayerNormVariant,
    BatchNorm,
    Conv2d,
    Identity,
    LayerNorm,
    Linear,
    Normalizer,
    NormLayer,
    Terms,
)
from lnlab.nn.batch import update_running_average_
from lnlab.nn.cells import OPEN_FORGET_GATES
from lnlab.nn.recurrent import LSTM, unroll

if TYPE_CHECKING:
    from lnlab.papers.batch_layer_norm import ImageExperiment, ReviewExperiment

KERAS_EPS = 1e-3  # the eps of Keras' normalizers, and of the published layer

VARIANTS: dict[str, BatchLayerNormVariant] = {"code": CODE, "paper": PAPER}


@dataclass(frozen=True)
class NormFactorySettings:
    """The settings of a training that its normalizers need."""

    batch_size: int  # the batch size
    batches_per_epoch: int  # the number of batches in an epoch
    variant: BatchLayerNormVariant  # the variant of batch layer normalization


class KerasBatchNorm(BatchNorm):
    """Batch normalization as in Keras: momentum 0.99, eps 0.001, a biased variance.

    The running variance includes the 0 of batches of one example, so that after training on
    these, evaluation divides by almost 0.
    """

    def __init__(self, units: int, **settings) -> None:
        super().__init__(units, eps=KERAS_EPS, momentum=0.01, **settings)

    def update_running_stats(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        update_running_average_(self.running_mean, mu, self.momentum)
        update_running_average_(self.running_var, var, self.momentum)


def layer_norm_with_inverse_root_gain(units: int, **settings) -> Normalizer:
    """Return layer normalization with an initial gain of 1/sqrt(d), the scale of eq. 16."""
    norm = layer(units, **settings)
    assert norm.g is not None
    nn.init.constant_(norm.g, units**-0.5)
    return norm


layer = partial(LayerNorm, eps=KERAS_EPS, per_position=True)


def batch_layer_norm_factory(
    terms: Terms, root_d: bool
) -> Callable[[NormFactorySettings], NormLayer]:
    """Return eq. 16 or one of its terms, with or without the square root of d."""
    return lambda setup: partial(
        BatchLayerNorm,
        m=setup.batch_size,
        epoch=setup.batches_per_epoch,
        variant=setup.variant,
        terms=terms,
        root_d=root_d,
    )


ARMS: dict[str, Callable[[NormFactorySettings], NormLayer]] = {
    "batch": lambda _: KerasBatchNorm,
    "layer": lambda _: layer,
    "batch layer": batch_layer_norm_factory("both", True),
    "layer, small gain": lambda _: layer_norm_with_inverse_root_gain,
    "batch, axis 0": batch_layer_norm_factory("examples", False),
    "batch, axis 0, small": batch_layer_norm_factory("examples", True),
    "batch layer, full size": batch_layer_norm_factory("both", False),
}
"""Three as published, then controls: layer norm at the scale of eq. 16; statistics of each
position over the batch, which "batch" does not have, at both scales; eq. 16 without its
scale."""


def allocate_population_statistics_(net: nn.Module, x: Tensor) -> None:
    """Give population statistics the shapes that batches like ``x`` need; they stay empty."""
    if norms := find_batch_layer_norms(net):
        with torch.no_grad():
            net.train()(x)
        for norm in norms:
            for average in (norm.over_examples, norm.over_features):
                average.batches.zero_()


def find_batch_layer_norms(net: nn.Module) -> list[BatchLayerNorm]:
    """Return the normalizers of a network that have configurations to choose from."""
    return [module for module in net.modules() if isinstance(module, BatchLayerNorm)]


# The LeNet of Ziaee & Çano (2022): tanh, average pooling, a normalizer after each layer.

NORM_POSITIONS = ("after", "before")
"""A normalizer follows the nonlinearity (eq. 27) or precedes it (eq. 26)."""

CHANNELS, UNITS, KERNEL = (6, 16), (120, 84), 5


class TanhLeNet(nn.Module):
    """Two convolutions and three dense layers: x (B, C, height, width) to logits (B, classes).

    Initial weights are those of the published code: Glorot & Bengio (2010) for convolutions,
    orthogonal for dense layers, biases 0. Each layer has a bias besides its normalizer's.

    Args:
        config: The batch size, and the position of the normalizers, one of
            :data:`NORM_POSITIONS`; "after" is also after the pooling.
        shape: Channels, height and width of an image.
        classes: The number of classes.
        norm: Makes the normalizers, and takes ``space`` too.
    """

    def __init__(
        self,
        config: "ImageExperiment",
        shape: tuple[int, ...],
        classes: int,
        norm: Callable[..., Normalizer],
    ) -> None:
        super().__init__()
        # side by side, convolutions of seeds would be one with many groups and take 1.5 times
        # as long; for single examples it takes half as long
        self.opaque_to_vmap = config.batch_size > 1
        self.after = config.norm_position == "after"
        channels, height, width = shape
        first, second = CHANNELS
        convolutions = [
            Conv2d(channels, first, KERNEL, _no_norm, padding=2, bias=True),
            Conv2d(first, second, KERNEL, _no_norm, bias=True),
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
        self.norms = nn.ModuleList([*map(partial(norm, space=2), CHANNELS), *map(norm, UNITS)])

    def forward(self, x: Tensor) -> Tensor:
        norms = iter(self.norms)
        for layer in self.convolutions:
            x = self.norm_before_or_after_tanh(layer(x), next(norms), average_pool=True)
        x = x.flatten(1)
        *hidden, readout = self.dense
        for layer in hidden:
            x = self.norm_before_or_after_tanh(layer(x), next(norms))
        return readout(x)

    def norm_before_or_after_tanh(
        self, a: Tensor, norm: nn.Module, *, average_pool: bool = False
    ) -> Tensor:
        """Apply nonlinearity, pooling and normalizer to pre-activations, in their order."""
        h = torch.tanh(a if self.after else norm(a))
        h = F.avg_pool2d(h, 2) if average_pool else h
        return norm(h) if self.after else h


def _no_norm(units: int) -> Identity:
    """Return no normalizer: none is between a convolution and its nonlinearity."""
    return Identity(units, space=2)


# The recurrent network of Ziaee & Çano (2022): two LSTMs over words, with normalizers.

DROPOUT = 0.2  # the probability that a unit of the inputs or states is dropped for an example
DENSE_UNITS = 32


class ReviewReader(nn.Module):
    """A network from word numbers (B, T) to one logit per review (B,).

    An embedding, an LSTM, a normalizer at every step, an LSTM whose last state is used, a
    normalizer, a dense layer with tanh, a normalizer, a logit. The normalizers are between the
    layers, not in the cells. Embedding and LSTMs are initialized as in Glorot & Bengio (2010),
    forget gates open; dense layers are orthogonal.

    Args:
        config: V, the size of an embedding, and those of the two LSTMs.
        norm: Makes the normalizers.
    """

    opaque_to_vmap = True  # each seed draws the dropout of all its layers before the next seed

    def __init__(self, config: "ReviewExperiment", norm: NormLayer) -> None:
        super().__init__()
        embedding, (first, second) = config.embedding_size, config.units
        self.word = nn.Parameter(torch.empty(config.vocab_size, embedding))
        nn.init.xavier_uniform_(self.word)
        layers = [
            LSTM(D, H, norm_layer=Identity, initial=OPEN_FORGET_GATES)
            for D, H in ((embedding, first), (first, second))
        ]
        for (cell,) in (layer.cells for layer in layers):
            nn.init.xavier_uniform_(cell.W_x)
            nn.init.xavier_uniform_(cell.W_h)
        dense = [
            Linear(D, H, Identity, bias=True)
            for D, H in ((second, DENSE_UNITS), (DENSE_UNITS, 1))
        ]
        for layer in dense:
            nn.init.orthogonal_(layer.W)
        self.layers, self.dense = nn.ModuleList(layers), nn.ModuleList(dense)
        self.norms = nn.ModuleList(map(norm, (first, second, DENSE_UNITS)))

    def forward(self, x: Tensor) -> Tensor:
        return self.logits_from_first_lstm_states(self.states_of_first_lstm(x))

    def states_of_first_lstm(self, word_ids: Tensor) -> Tensor:
        """Return the states of the first LSTM (B, T, H), before any normalizer."""
        return self.lstm_states(self.layers[0], self.word[word_ids])

    def logits_from_first_lstm_states(self, h: Tensor) -> Tensor:
        """Return the logits (B,) from the states of the first LSTM (B, T, H)."""
        every, last, dense = self.norms
        hidden, readout = self.dense
        h = last(self.lstm_states(self.layers[1], every(h))[:, -1])
        h = dense(torch.tanh(hidden(h)))
        return readout(h).squeeze(-1)

    def lstm_states(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Return the states h (B, T, H) of an LSTM over x (B, T, D), with Keras' dropout.

        A dropout mask is drawn once per example, not at every step.
        """
        assert isinstance(layer, LSTM)
        (cell,), x = layer.cells, x.transpose(0, 1)
        if self.training:
            mask_x = self.draw_dropout_mask_like(x[0])
            mask_h = self.draw_dropout_mask_like(x.new_empty(x.shape[1], cell.hidden_size))
            return layer.unroll(cell, x * mask_x, dropout_mask=mask_h)[0].transpose(0, 1)
        # torch.func evaluates many batches side by side, and cannot look into a kernel
        return unroll(cell, x)[0].transpose(0, 1)

    def draw_dropout_mask_like(self, x: Tensor) -> Tensor:
        """Return factors like ``x``, 0 or 1/(1 - 0.2), of mean 1; ones in evaluation."""
        return F.dropout(torch.ones_like(x), DROPOUT, self.training)
