"""LeNet as Ziaee & Çano (2022) have it: tanh, means of pools, a normalizer behind each."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn import Conv2d, Identity, Linear, Norm

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
        convolution: Norm,
        dense: Norm,
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
            Conv2d(channels, first, KERNEL, convolution_alone, padding=2, bias_inside=True),
            Conv2d(first, second, KERNEL, convolution_alone, bias_inside=True),
        ]
        flat = second * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
        dense_layers = [
            Linear(D, H, Identity, bias_inside=True)
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
