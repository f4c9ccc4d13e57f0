"""Linear layers with a normalizer, which may read W or change it."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn.normalizer import Identity, Normalizer

NormLayer = Callable[[int], Normalizer]
"""A factory: the number of units to their normalizer. Models are given one."""


def make_norm(norm_layer: NormLayer, units: int) -> Normalizer:
    """Return the normalizer of so many units."""
    if isinstance(norm_layer, nn.Module) or not callable(norm_layer):
        raise TypeError(
            f"norm_layer is {norm_layer!r}: give a class or a function of the number of units, "
            "e.g. lnlab.nn.LayerNorm."
        )
    norm = norm_layer(units)
    if not isinstance(norm, Normalizer):
        kind = type(norm)
        raise TypeError(
            "norm_layer must make a norm of lnlab.nn, e.g. lnlab.nn.LayerNorm, got "
            f"{kind.__module__}.{kind.__qualname__}."
        )
    return norm


class LayerWithNorm(nn.Module, ABC):
    """Ba et al. (2016), eq. 1 and 5 without f: a = W x, normalized.

    There is no bias inside ``a`` by default: BatchNorm takes it out again, and it breaks the
    scale invariances of LayerNorm. ``shape`` is that of W, units first.
    """

    def __init__(self, shape: tuple[int, ...], norm_layer: NormLayer, *, bias: bool) -> None:
        super().__init__()
        units = shape[0]
        self.W = nn.Parameter(torch.empty(shape))
        self.b_inside = nn.Parameter(torch.zeros(units)) if bias else None
        self.norm = make_norm(norm_layer, units)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw W from U(-1/sqrt(D), 1/sqrt(D)), as torch does, and set b_inside to 0.

        D counts all inputs of one unit. The normalizer is given the new W and may set its gain
        by it; nothing else of the normalizer changes.
        """
        bound = self.W[0].numel() ** -0.5
        nn.init.uniform_(self.W, -bound, bound, generator=generator)
        if self.b_inside is not None:
            nn.init.zeros_(self.b_inside)
        # rules on weights begin at the function of the plain layer: weight norm has g = ||w||
        self.norm.initialize_from_weights(self.W)

    @abstractmethod
    def unnormalized_pre_activations(self, x: Tensor, W: Tensor) -> Tensor:
        """Return ``a`` (B, H) of x (B, D), with ``W`` (H, D) in place of the layer's own."""

    def forward(self, x: Tensor, t: int | None = None) -> Tensor:
        """Return the normalized pre-activations (B, H) of x (B, D) at time step ``t``."""
        # effective_weight(W) is what multiplies x (weight standardization changes it), and W
        # itself goes along for rules whose sigma is that of the weights (weight norm)
        norm, W = self.norm, self.W
        return norm(self.unnormalized_pre_activations(x, norm.effective_weight(W)), W, t)

    def torch_state_dict(self) -> dict[str, Tensor]:
        """Return W and b_inside (H,) under torch's names, ``weight`` and ``bias``."""
        if not isinstance(self.norm, Identity):
            raise ValueError(
                f"{type(self).__name__} with {type(self.norm).__name__} has no equal in torch: "
                "convert a layer with norm_layer=Identity and put the norm behind it."
            )
        named = {"weight": self.W, "bias": self.b_inside}
        return {name: value.detach() for name, value in named.items() if value is not None}

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        """Also read ``weight`` and ``bias`` of a torch layer."""
        for theirs, ours in (("weight", "W"), ("bias", "b_inside")):
            if prefix + theirs in state_dict:
                state_dict[prefix + ours] = state_dict.pop(prefix + theirs)
        super()._load_from_state_dict(state_dict, prefix, *args)


class Linear(LayerWithNorm):
    """A dense layer with a normalizer: x (*examples, D) to (*examples, H).

    Stacked models map (S, B, D) to (S, B, H).

    Args:
        in_features, out_features: the sizes D and H.
        norm_layer: called with H, returns the normalizer. With the default, Identity, and
            ``bias=True`` the layer equals torch.nn.Linear, eq. 1.
        bias: whether to add a bias to W x before the normalizer (``b_inside``).

    Examples:
        >>> layer = lnlab.nn.Linear(8, 16, lnlab.nn.LayerNorm)
        >>> h = layer(torch.randn(4, 8)).relu()
    """

    stacks = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        norm_layer: NormLayer = Identity,
        *,
        bias: bool = False,
    ) -> None:
        super().__init__((out_features, in_features), norm_layer, bias=bias)

    def unnormalized_pre_activations(self, x: Tensor, W: Tensor) -> Tensor:
        if W.dim() == 2:
            # eq. 1: a_i = w_i · x, and b inside a only if asked for
            return F.linear(x, W, self.b_inside)
        if self.b_inside is None:  # W (S, H, D) and x (S, B, D) of S models
            return torch.bmm(x, W.mT)
        return torch.baddbmm(self.b_inside.unsqueeze(1), x, W.mT)


class Conv2d(LayerWithNorm):
    """A 2D convolution with a normalizer: x (B, D, height, width) to (B, H, height', width').

    Args:
        in_channels, out_channels: the numbers of channels D and H.
        kernel_size, stride, padding, dilation: as in torch.nn.Conv2d; one number serves height
            and width.
        norm_layer: called with H, returns the normalizer. It must be one for two spatial axes,
            such as ``partial(LayerNorm, space=2)``.
        bias: whether to add a bias to the convolution before the normalizer (``b_inside``).
        padding_mode: ``"zeros"``, or ``"reflect"``, which mirrors the picture at its border.
            With zeros a constant picture has other outputs at the border than inside.

    Examples:
        >>> def norm_layer(channels):
        ...     return lnlab.nn.BatchNorm(channels, space=2)
        ...
        >>> layer = lnlab.nn.Conv2d(3, 16, 3, norm_layer, padding=1)
        >>> h = layer(torch.randn(4, 3, 8, 8))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        norm_layer: NormLayer,
        *,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
        padding_mode: str = "zeros",
    ) -> None:
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        super().__init__(shape, norm_layer, bias=bias)
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.padding_mode = padding_mode

    def unnormalized_pre_activations(self, x: Tensor, W: Tensor) -> Tensor:
        padding = self.padding
        if padding and self.padding_mode != "zeros":
            # conv2d itself pads with zeros only
            x, padding = F.pad(x, (padding,) * 4, self.padding_mode), 0
        return F.conv2d(x, W, self.b_inside, self.stride, padding, self.dilation)

    def extra_repr(self) -> str:
        H, D, kernel_size, _ = self.W.shape
        return (
            f"{D}, {H}, kernel_size={kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, padding_mode={self.padding_mode}, "
            f"dilation={self.dilation}"
        )


InitWeight = Callable[[Tensor, torch.Generator], Tensor]

DENSE_INITS: dict[str, InitWeight] = {
    # N(0, 2/D) keeps the mean square of a ReLU layer: half of the units are 0, so that
    # E[h²] = Var[a]/2 = D Var[W] E[x²]/2
    "he": lambda W, generator: W.normal_(0, (2 / W.shape[1]) ** 0.5, generator=generator),
    "torch": lambda W, generator: W.uniform_(-1, 1, generator=generator) / W.shape[1] ** 0.5,
    "authors": lambda W, generator: W.uniform_(-0.1, 0.1, generator=generator),
}
"""Initializations of W of a dense layer; the paper states none.

"he" is He et al. (2015), N(0, 2/D), which does not put the network without normalization at a
disadvantage; "authors" is the U(-0.1, 0.1) of their published recurrent experiments. For
recurrent cells see :data:`lnlab.nn.CELL_INITS`.
"""
