"""The listener: a pyramid of bidirectional LSTMs that halves time from layer to layer."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lnlab.nn import Identity, Norm
from lnlab.nn.padding import within
from lnlab.nn.recurrent import LSTM


class Listener(nn.Module):
    """Chan et al. (2016), section 3.1: x (B, T, D) to h (B, T', 2 H), and how long each is.

    Frames are joined in twos before each layer but the last, so that T' is T / 2^(layers - 1),
    rounded up. Padding enters no output, no statistic over features and no later layer.

    Args:
        inputs: D.
        units: H, of each direction.
        layers: how many LSTMs; the last one reads no pairs.
        norm: makes the normalizers inside the LSTMs: layer norm as in eq. 7-9 of Ben Othman
            (2018) with :class:`lnlab.nn.LayerNorm`.
        after: makes what normalizes the outputs of each layer, of 2 H units; it is called
            with what it normalizes (B, T, 2 H) and the lengths. :class:`OverTime` is what
            the study's published code does.
        dropout: the probability with which an output of a layer is dropped.
        noise: standard deviation of what is added to x while training.
        settings: passed on to :class:`lnlab.nn.LSTMCell`.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        layers: int = 3,
        norm: Norm = Identity,
        after: "Callable[[int], After] | None" = None,
        *,
        dropout: float = 0.0,
        noise: float = 0.0,
        **settings,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers is {layers}: a listener has at least one.")
        self.dropout, self.noise = nn.Dropout(dropout), noise
        self.joined = 2 ** (layers - 1)  # frames that one step of h holds
        sizes = [inputs * 2 if layers > 1 else inputs] + [4 * units] * (layers - 1)
        if layers > 1:
            sizes[-1] = 2 * units
        self.layers = nn.ModuleList(
            LSTM(D, units, bidirectional=True, norm=norm, **settings) for D in sizes
        )
        self.after = nn.ModuleList(after(2 * units) for _ in sizes) if after else None

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """h (B, T', 2 H) and its lengths (B,); 0 where nothing is left.

        Raises:
            ValueError: where an utterance has no frames.
        """
        if bool((lengths < 1).any()):
            place = int((lengths < 1).nonzero()[0])
            raise ValueError(f"utterance {place} of the batch has no frames: leave it out.")
        h = x.transpose(0, 1)  # (T, B, D)
        if self.training and self.noise:
            h = h + self.noise * torch.randn_like(h) * heard(h, lengths)
        last = len(self.layers) - 1
        for place, layer in enumerate(self.layers):
            if place < last:
                h, lengths = paired(h, lengths)
            h, _ = layer(h, lengths=lengths)
            if self.after is not None:
                h = self.after[place](h.transpose(0, 1), lengths).transpose(0, 1)
                h = h * heard(h, lengths)
            h = self.dropout(h)
        return h.transpose(0, 1), lengths


def heard(h: Tensor, lengths: Tensor) -> Tensor:
    """The steps of h (T, B, D) that are no padding, a mask (T, B, 1)."""
    return within(lengths, len(h), h.device).T.unsqueeze(-1)


def paired(h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Steps (T, B, D) joined in twos, (T / 2, B, 2 D) rounded up; an odd end gets a 0."""
    T, B, D = h.shape
    if T % 2:
        h = torch.cat([h, h.new_zeros(1, B, D)])
    joined = h.view(-1, 2, B, D).transpose(1, 2).reshape(-1, B, 2 * D)
    return joined, (lengths + 1) // 2


class After(nn.Module):
    """Normalizes the outputs (B, T, H) of a layer, with gain and bias for each unit."""

    def __init__(self, units: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.g, self.b = nn.Parameter(torch.ones(units)), nn.Parameter(torch.zeros(units))

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        raise NotImplementedError


class OverFeatures(After):
    """Layer norm of the outputs: statistics over the units of one moment."""

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        return nn.functional.layer_norm(h, h.shape[-1:], self.g, self.b, self.eps)


class OverTime(After):
    """Statistics of one unit over time, as the study's published code has in its listener.

    Its axes [1] of (B, T, H) are time, not features (commit 2d31ae8 of its repository), and
    padding counts. ``masked`` leaves the padding out, which the code does not.
    """

    def __init__(self, units: int, *, eps: float = 1e-5, masked: bool = False) -> None:
        super().__init__(units, eps=eps)
        self.masked = masked

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        if self.masked:
            inside = within(lengths, h.shape[1], h.device).unsqueeze(-1)
            count = inside.sum(1, keepdim=True)
            mu = (h * inside).sum(1, keepdim=True) / count
            var = ((h - mu).square() * inside).sum(1, keepdim=True) / count
        else:
            var, mu = torch.var_mean(h, dim=1, correction=0, keepdim=True)
        return self.g * (h - mu) / (var + self.eps).sqrt() + self.b
