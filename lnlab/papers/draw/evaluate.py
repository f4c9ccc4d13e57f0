"""The bound of a DRAW net, what it is a bound of, and what the net draws: measured."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlab.papers.draw.model import Draw
from lnlab.training.random_state import generator

CASES = 500
"""Pictures that are drawn at once where nothing is learned."""
LOOKS = 3
"""Validation pictures whose drawing is kept: to be looked at."""
DREAMS = 16
"""Pictures that are drawn from the prior, and kept."""
STILLS = 16
"""Canvases that are kept of a drawing at most: at equal distances, the last one always."""
WEIGHED = 200
"""Test pictures whose log p(x) is estimated."""
DRAWS = 50
"""z that are drawn of each for that."""


class Bound(NamedTuple):
    """The bound of N pictures in nats, smaller is better: canvas + kl.

    Attributes:
        canvas: -log p(x | z), each (N,).
        kl: the sum over glimpses (N,).
    """

    canvas: Tensor
    kl: Tensor

    @property
    def whole(self) -> Tensor:
        """Nats a picture (N,)."""
        return self.canvas + self.kl


@torch.no_grad()
def bound(net: Draw, x: Tensor) -> Bound:
    """The bound of pictures x (N, D), as the net is trained on: its mistake included.

    The noise is the same at each call and for each net of the same T and Z.

    Raises:
        ValueError: if a picture has pixels that are no number.
    """
    if not bool(x.isfinite().all()):
        raise ValueError("x has pixels that are no finite number.")
    random, found = generator("noise of the bound"), []
    for cases in x.split(CASES):
        drawn = net.draw(cases, net.noise(cases, random))
        found.append(
            (net.nats(cases, drawn.canvases[-1]), net.kl(drawn.mean, drawn.log_sigma).sum(0))
        )
    canvas, kl = (torch.cat(each).cpu() for each in zip(*found, strict=True))
    return Bound(canvas, kl)


@torch.no_grad()
def weighed(net: Draw, x: Tensor, draws: int = DRAWS) -> Tensor:
    r"""Estimates of -log p(x) (N,) of pictures x (N, D), by importance weights.

    .. math::
        \log p(x) \ge E \log \frac{1}{K} \sum_{k=1}^{K}
            \frac{p(x | z^k)\, p(z^k)}{q(z^k | x)}

    (Burda et al. 2016). The greater K = ``draws``, the closer; K = 1 is the bound. It is of the
    net alone: each glimpse has noise of its own and the right density, whatever mistake the net
    was trained with.
    """
    random, found = generator("noise of the weights"), []
    for cases in x.split(max(1, CASES // draws)):
        many = cases.repeat_interleave(draws, 0)
        size = net.glimpses, len(many), net.latent
        noise = torch.randn(size, generator=random, dtype=x.dtype).to(x.device)
        drawn = net.draw(many, noise)
        # log p(z) - log q(z): the constants of the two normal densities cancel
        ratio = drawn.log_sigma + (noise.square() - drawn.z.square()) / 2
        log_w = ratio.sum((0, 2)) - net.nats(many, drawn.canvases[-1])
        log_w = log_w.unflatten(0, (-1, draws))
        found.append(torch.tensor(draws).log() - log_w.logsumexp(1))
    return torch.cat(found).cpu()


def too_good(bound: Tensor, estimate: Tensor) -> str:
    """A sentence if numbers (N,) are no bound of this net: if they are below its estimate.

    :func:`weighed` is a bound of -log p(x) itself, and in expectation no looser than the one
    that a net is trained on. Numbers that are below it (N,) on the same pictures, by more than
    three standard errors, are too good to be that bound; whether they are still above
    -log p(x) is not known.
    """
    gap = bound - estimate
    # of one picture nobody knows the error
    if len(gap) < 2 or gap.mean() > -3 * gap.std() / len(gap) ** 0.5:
        return ""
    return (
        f"{float(bound.mean()):.1f} nats is not this net's bound: that is never below the "
        f"estimate in expectation, and the estimate is {float(estimate.mean()):.1f} nats, with "
        "noise of its own in each glimpse and the full KL."
    )


def stills(glimpses: int) -> list[int]:
    """The glimpses after which canvases are kept, from 0."""
    count = min(STILLS, glimpses)
    return [round((k + 1) * glimpses / count) - 1 for k in range(count)]


@torch.no_grad()
def drawings(net: Draw, x: Tensor) -> dict[str, Any]:
    """Pictures of a net's drawings after K of its glimpses, with 256 levels of ink.

    "canvas" (K, LOOKS, height, width) of the first of pictures x (N, D), "windows"
    (2, 4, K, LOOKS) the middle x and y, the stride and the deviation where it looked and where
    it wrote, and "dreams" (DREAMS, height, width) drawn from the prior.
    """
    seen = x[:LOOKS]
    random = generator("noise of the drawings")
    drawn = net.draw(seen, net.noise(seen, random))
    z = net.noise(x.new_empty(DREAMS, 0), random)
    kept = stills(net.glimpses)
    windows = torch.stack(
        [
            torch.stack([on.x, on.y, on.stride, on.variance.sqrt()]).cpu()[:, kept]
            for on in (drawn.read, drawn.write)
        ]
    )
    return {
        "canvas": _ink(drawn.canvases.cpu()[kept], net.shape),
        "windows": windows.float(),
        "dreams": _ink(net.dream(z)[0][-1].cpu(), net.shape),
    }


def _ink(logits: Tensor, shape: tuple[int, int]) -> Tensor:
    return (255 * logits.sigmoid()).round().to(torch.uint8).unflatten(-1, shape)


def measured(net: Draw, dataset: Any, *, looks: bool, end: bool) -> dict[str, Any]:
    """All that is measured of a net, in nats a picture.

    ``valid_bound``, and of it ``valid_kl``; with ``looks`` the pictures of :func:`drawings`;
    at the ``end`` ``test_bound``, and of the first :data:`WEIGHED` test pictures ``test_nll``,
    the estimate of -log p(x), and ``test_bound_gap``, how far the bound is above it.
    """
    net.eval()
    own = net.first
    x = dataset.valid.x.to(own)
    found = bound(net, x)
    measures: dict[str, Any] = {
        "valid_bound": float(found.whole.mean()),
        "valid_kl": float(found.kl.mean()),
    }
    if looks:
        measures |= drawings(net, x)
    if end:
        test = dataset.test.x.to(own)
        of = bound(net, test).whole
        estimate = weighed(net, test[:WEIGHED])
        measures |= {
            "test_bound": float(of.mean()),
            "test_nll": float(estimate.mean()),
            "test_bound_gap": float((of[:WEIGHED] - estimate).mean()),
        }
    return measures
