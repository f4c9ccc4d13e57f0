"""The bound of a DRAW model, what it is a bound of, and what the model draws."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlab.papers.draw.model import DRAW
from lnlab.training.random_state import generator_seeded_by_hash

BATCH = 500  # images that are evaluated at once
SHOWN = 3  # validation images whose drawing is saved
SAMPLES = 16  # images that are sampled from the prior, and saved
FRAMES = 16
"""Canvases that are saved of a drawing at most: at equal distances, including the last."""
ESTIMATED = 200  # test images whose log p(x) is estimated
DRAWS = 50  # samples of z for the estimate of an image


class BoundTerms(NamedTuple):
    """The bound of N images in nats, smaller is better: canvas + kl."""

    reconstruction_nats: Tensor  # -log p(x | z) (N,)
    kl_nats: Tensor  # the sum over glimpses (N,)

    @property
    def bound_nats(self) -> Tensor:
        """The bound in nats per image (N,)."""
        return self.reconstruction_nats + self.kl_nats


@torch.no_grad()
def bound_terms(net: DRAW, x: Tensor) -> BoundTerms:
    """Return the bound of images x (N, D) as in training, mistakes included.

    The noise is the same at each call and for all models of the same T and Z.
    """
    random, canvases, kls = generator_seeded_by_hash("noise of the bound"), [], []
    for batch in x.split(BATCH):
        drawing = net.draw(batch, net.sample_noise(batch, random))
        canvases.append(net.reconstruction_nats(batch, drawing.canvases[-1]).cpu())
        kls.append(net.kl_per_glimpse(drawing.q_mean, drawing.q_log_sigma).sum(0).cpu())
    return BoundTerms(torch.cat(canvases), torch.cat(kls))


@torch.no_grad()
def importance_weighted_nll(net: DRAW, x: Tensor, num_samples: int = DRAWS) -> Tensor:
    r"""Return estimates of -log p(x) (N,) of images x (N, D), by importance weights.

    .. math::
        \log p(x) \ge E \log \frac{1}{K} \sum_{k=1}^{K}
            \frac{p(x | z^k)\, p(z^k)}{q(z^k | x)}

    (Burda et al. 2016), closer for larger K = ``num_samples``; K = 1 is the bound. Each glimpse
    has its own noise and the correct density, whatever mistake the model was trained with.
    """
    random, estimates = generator_seeded_by_hash("noise of the weights"), []
    for batch in x.split(max(1, BATCH // num_samples)):
        repeated = batch.repeat_interleave(num_samples, 0)
        size = net.glimpses, len(repeated), net.latent_size
        noise = torch.randn(size, generator=random, dtype=x.dtype).to(x.device)
        drawing = net.draw(repeated, noise)
        # log p(z) - log q(z): the constants of the two normal densities cancel
        log_ratio = drawing.q_log_sigma + (noise.square() - drawing.z.square()) / 2
        log_w = log_ratio.sum((0, 2)) - net.reconstruction_nats(repeated, drawing.canvases[-1])
        log_w = log_w.unflatten(0, (-1, num_samples))
        estimates.append(torch.tensor(num_samples).log() - log_w.logsumexp(1))
    return torch.cat(estimates).cpu()


def bound_too_low_warning(bounds: Tensor, nll_estimates: Tensor) -> str:
    """Return a warning if alleged bounds (N,) are below the estimates (N,) of a model.

    :func:`importance_weighted_nll` is a bound of -log p(x) too, and in expectation at least as
    tight as the one of training. Bounds that are lower on the same images, by more than three
    standard errors, cannot be this model's; whether they are above -log p(x) is unknown.
    """
    gap = bounds - nll_estimates
    # the standard error of a single image is unknown
    if len(gap) < 2 or gap.mean() > -3 * gap.std() / len(gap) ** 0.5:
        return ""
    return (
        f"{float(bounds.mean()):.1f} nats is not this model's bound: that is never below the "
        f"estimate in expectation, and the estimate is {float(nll_estimates.mean()):.1f} nats, "
        "with noise of its own in each glimpse and the full KL."
    )


def saved_glimpse_indices(glimpses: int) -> list[int]:
    """Return the glimpses after which canvases are saved, from 0."""
    count = min(FRAMES, glimpses)
    return [round((k + 1) * glimpses / count) - 1 for k in range(count)]


@torch.no_grad()
def canvases_windows_and_samples(net: DRAW, x: Tensor) -> dict[str, Tensor]:
    """Return pictures of a model's drawings of images x (N, D) after K glimpses.

    Returns:
        "canvas" (K, SHOWN, height, width) of the first images; "windows" (2, 4, K, SHOWN), the
        center x and y, the stride and the deviation of reading and writing; "dreams"
        (SAMPLES, height, width), samples from the prior. Pixels are 0 to 255.
    """
    x, random = x[:SHOWN], generator_seeded_by_hash("noise of the drawings")
    drawing = net.draw(x, net.sample_noise(x, random))
    z = net.sample_noise(x.new_empty(SAMPLES, 0), random)
    saved = saved_glimpse_indices(net.glimpses)
    windows = [
        torch.stack([w.center_x, w.center_y, w.stride, w.variance.sqrt()]).cpu()[:, saved]
        for w in (drawing.read_windows, drawing.write_windows)
    ]
    return {
        "canvas": _logits_to_uint8_images(drawing.canvases.cpu()[saved], net.shape),
        "windows": torch.stack(windows).float(),
        "dreams": _logits_to_uint8_images(
            net.canvases_and_windows_from_latents(z)[0][-1].cpu(), net.shape
        ),
    }


def _logits_to_uint8_images(logits: Tensor, shape: tuple[int, int]) -> Tensor:
    return (255 * logits.sigmoid()).round().to(torch.uint8).unflatten(-1, shape)


def bound_metrics_and_pictures(
    net: DRAW, dataset: Any, *, include_pictures: bool, include_test: bool
) -> dict[str, Any]:
    """Return the metrics of a model in nats per image.

    ``valid_bound``, and its part ``valid_kl``; with ``include_pictures`` also
    :func:`canvases_windows_and_samples`; with ``include_test`` also
    ``test_bound``, and for the first :data:`ESTIMATED` test images ``test_nll``, the estimate
    of -log p(x), and ``test_bound_gap``, how far the bound is above it.
    """
    net.eval()
    x = dataset.valid.x.to(net.first)
    valid = bound_terms(net, x)
    values: dict[str, Any] = {
        "valid_bound": float(valid.bound_nats.mean()),
        "valid_kl": float(valid.kl_nats.mean()),
    }
    if include_pictures:
        values |= canvases_windows_and_samples(net, x)
    if include_test:
        x = dataset.test.x.to(net.first)
        total, estimate = (
            bound_terms(net, x).bound_nats,
            importance_weighted_nll(net, x[:ESTIMATED]),
        )
        values |= {
            "test_bound": float(total.mean()),
            "test_nll": float(estimate.mean()),
            "test_bound_gap": float((total[:ESTIMATED] - estimate).mean()),
        }
    return values
