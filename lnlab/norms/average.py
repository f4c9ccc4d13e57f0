"""The average over batches of a mean and a spread, in the shapes of a batch's own."""

import torch
from torch import Tensor, nn

from .normalizer import wide


class Average(nn.Module):
    """The mean over batches, all alike, of a batch's mu and its spread.

    The shape is that of the first batch, and a batch of another shape starts it anew.

    Args:
        epoch: the number of batches after which the next one starts it anew; None: never.
    """

    batches: Tensor
    mu: Tensor
    spread: Tensor

    def __init__(self, epoch: int | None = None) -> None:
        super().__init__()
        self.epoch = epoch
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mu", torch.zeros(0))
        self.register_buffer("spread", torch.zeros(0))

    @torch.no_grad()
    def take(self, mu: Tensor, spread: Tensor) -> None:
        """Take in the statistics of one batch, of any one shape.

        Tensors are changed in place: a fused model shares them.
        """
        if self.mu.shape != mu.shape:
            self.forget()
            self.mu.resize_(mu.shape).zero_()
            self.spread.resize_(mu.shape).zero_()
        before = self.batches % self.epoch if self.epoch else self.batches.clone()
        self.batches += 1
        # the plain mean of all so far, brought up to date: no sum that grows
        for mean, new in ((self.mu, mu), (self.spread, spread)):
            mean.copy_(torch.where(before == 0, new, mean + (new - mean) / (before + 1)))

    def recall(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The averages of mu and spread, for a batch whose own mu is ``like``.

        Raises:
            RuntimeError: where there are none yet.
            ValueError: where they are of batches of another shape.
        """
        if not self.batches:
            raise RuntimeError(
                "BatchLayerNorm has no population statistics yet: train it on a batch first, "
                "or ask for none of them (population=Population())."
            )
        if self.mu.shape not in (like.shape, like[:1].shape):
            raise ValueError(
                f"population statistics of shape {tuple(self.mu.shape)} do not fit those of "
                f"this batch, {tuple(like.shape)}: evaluate on the shape that was trained on "
                "(in the code's reading, in batches of the same size too)."
            )
        return wide(self.mu), wide(self.spread)

    def begin(self) -> None:
        """Start anew, in the same shape."""
        self.batches.zero_()

    def forget(self) -> None:
        """Start anew, with batches of any shape."""
        self.begin()
        self.mu.resize_(0)
        self.spread.resize_(0)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest) -> None:
        for name in ("mu", "spread"):  # their shape is not known before
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)
