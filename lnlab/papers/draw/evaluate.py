"""The bound of a DRAW model, what it is a bound of, and what the model draws."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlab.papers.draw.model import DRAW
from lnlab.training.random_state import generator

BATCH = 500
"""Images that are drawn at once where nothing is learned."""
SHOWN = 3
"""Validation images whose drawing is kept: to be looked at."""
SAMPLES = 16
"""Images that are drawn from the prior, and kept."""
FRAMES = 16
"""Canvases that are kept of a drawing at most: at equal distances, the last one always."""
ESTIMATED = 200
"""Test images whose log p(x) is estimated."""
DRAWS = 50
"""z that are drawn of each for that."""


class Bound(NamedTuple):
    """The bound of N images in nats, smaller is better: canvas + kl.

    Attributes:
        canvas: -log p(x | z), each (N,).
        kl: the sum over glimpses (N,).
    """

    canvas: Tensor
    kl: Tensor

    @property
    def total(self) -> Tensor:
        """Nats an image (N,)."""
        return self.canvas + self.kl


@torch.no_grad()
def bound(net: DRAW, x: Tensor) -> Bound:
    """Return the bound of images x (N, D), as it is trained on: the mistake included.

    The noise is the same at each call and for each model of the same T and Z.

    Raises:
        ValueError: if an image has pixels that are no finite number.
    """
    if not bool(x.isfinite().all()):
        raise ValueError("x has pixels that are no finite number.")
    random, canvases, kls = generator("noise of the bound"), [], []
    for batch in x.split(BATCH):
        drawing = net.draw(batch, net.noise(batch, random))
        canvases.append(net.nats(batch, drawing.canvases[-1]).cpu())
        kls.append(net.kl(drawing.mean, drawing.log_sigma).sum(0).cpu())
    return Bound(torch.cat(canvases), torch.cat(kls))


@torch.no_grad()
def importance_estimate(net: DRAW, x: Tensor, draws: int = DRAWS) -> Tensor:
    r"""Return estimates of -log p(x) (N,) of images x (N, D), by importance weights.

    .. math::
        \log p(x) \ge E \log \frac{1}{K} \sum_{k=1}^{K}
            \frac{p(x | z^k)\, p(z^k)}{q(z^k | x)}

    (Burda et al. 2016). The greater K = ``draws``, the closer; K = 1 is the bound. It is of the
    model alone: each glimpse has noise of its own and the right density, whatever mistake the
    model was trained with.
    """
    random, estimates = generator("noise of the weights"), []
    for batch in x.split(max(1, BATCH // draws)):
        repeated = batch.repeat_interleave(draws, 0)
        size = net.glimpses, len(repeated), net.latent_size
        noise = torch.randn(size, generator=random, dtype=x.dtype).to(x.device)
        drawing = net.draw(repeated, noise)
        # log p(z) - log q(z): the constants of the two normal densities cancel
        log_ratio = drawing.log_sigma + (noise.square() - drawing.z.square()) / 2
        log_w = log_ratio.sum((0, 2)) - net.nats(repeated, drawing.canvases[-1])
        log_w = log_w.unflatten(0, (-1, draws))
        estimates.append(torch.tensor(draws).log() - log_w.logsumexp(1))
    return torch.cat(estimates).cpu()


def bound_warning(bound: Tensor, estimate: Tensor) -> str:
    """Return a sentence if numbers (N,) are no bound of a model: below its estimate.

    :func:`importance_estimate` is a bound of -log p(x) itself, and in expectation no looser
    than the one that a model is trained on. Numbers that are below it (N,) on the same images,
    by more than three standard errors, are too good to be that bound; whether they are still
    above -log p(x) is not known.
    """
    gap = bound - estimate
    # of one image nobody knows the error
    if len(gap) < 2 or gap.mean() > -3 * gap.std() / len(gap) ** 0.5:
        return ""
    return (
        f"{float(bound.mean()):.1f} nats is not this net's bound: that is never below the "
        f"estimate in expectation, and the estimate is {float(estimate.mean()):.1f} nats, with "
        "noise of its own in each glimpse and the full KL."
    )


def kept_glimpses(glimpses: int) -> list[int]:
    """Return the glimpses after which canvases are kept, from 0."""
    count = min(FRAMES, glimpses)
    return [round((k + 1) * glimpses / count) - 1 for k in range(count)]


@torch.no_grad()
def drawings(net: DRAW, x: Tensor) -> dict[str, Any]:
    """Return pictures of a model's drawings after K of its glimpses, with 256 levels of ink.

    "canvas" (K, SHOWN, height, width) of the first of images x (N, D), "windows"
    (2, 4, K, SHOWN) the middle x and y, the stride and the deviation where it looked and where
    it wrote, and "dreams" (SAMPLES, height, width) drawn from the prior.
    """
    shown, random = x[:SHOWN], generator("noise of the drawings")
    drawing = net.draw(shown, net.noise(shown, random))
    z = net.noise(x.new_empty(SAMPLES, 0), random)
    kept = kept_glimpses(net.glimpses)
    windows = [
        torch.stack([w.x, w.y, w.stride, w.variance.sqrt()]).cpu()[:, kept]
        for w in (drawing.read, drawing.write)
    ]
    return {
        "canvas": _ink(drawing.canvases.cpu()[kept], net.shape),
        "windows": torch.stack(windows).float(),
        "dreams": _ink(net.sample(z)[0][-1].cpu(), net.shape),
    }


def _ink(logits: Tensor, shape: tuple[int, int]) -> Tensor:
    return (255 * logits.sigmoid()).round().to(torch.uint8).unflatten(-1, shape)


def measure(net: DRAW, dataset: Any, *, pictures: bool, test: bool) -> dict[str, Any]:
    """Return all that is measured of a model, in nats an image.

    ``valid_bound``, and of it ``valid_kl``; with ``pictures`` those of :func:`drawings`; with
    ``test`` ``test_bound``, and of the first :data:`ESTIMATED` test images ``test_nll``, the
    estimate of -log p(x), and ``test_bound_gap``, how far the bound is above it.
    """
    net.eval()
    x = dataset.valid.x.to(net.first)
    valid = bound(net, x)
    values: dict[str, Any] = {
        "valid_bound": float(valid.total.mean()),
        "valid_kl": float(valid.kl.mean()),
    }
    if pictures:
        values |= drawings(net, x)
    if test:
        x = dataset.test.x.to(net.first)
        total, estimate = bound(net, x).total, importance_estimate(net, x[:ESTIMATED])
        values |= {
            "test_bound": float(total.mean()),
            "test_nll": float(estimate.mean()),
            "test_bound_gap": float((total[:ESTIMATED] - estimate).mean()),
        }
    return values
