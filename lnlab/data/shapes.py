"""Coloured pictures made here: one of ten shapes each, anywhere, turned, on a mottled ground.

No shape reaches the border of a picture, :data:`FRAME` pixels wide, and nothing else depends on
the class: from the border alone a classifier can only guess.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

Pixels = dict[str, tuple[np.ndarray, np.ndarray]]
"""Images (N, height, width), or (N, 3, height, width) in red, green and blue, and their labels
(N,), uint8, by split."""


SIDE = 32
FRAME = 2
SIZES = {"train": 20_000, "valid": 1_000, "test": 2_000}
BLOCK = 500
"""The number of pictures that are drawn at once, with one random generator."""
RADIUS = 6.5, 10.0
CLUTTER, COARSE, NOISE = 3, 5, 0.04
"""The number of bars, of shades of the ground along a side, and the deviation of the noise."""

DepthInside = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The depth of a point (u, v) inside a shape, below 0 outside. Shapes lie in the unit disc."""


def _depth_inside_polygon(corners: int, inradius: float) -> DepthInside:
    turns = 2 * np.pi * np.arange(corners, dtype=np.float32) / corners
    sides = [(np.cos(turn), np.sin(turn)) for turn in turns]
    return lambda u, v: inradius - np.max([c * u + s * v for c, s in sides], axis=0)


def _depth_inside_box(
    u: np.ndarray, v: np.ndarray, half_width: float, half_height: float
) -> np.ndarray:
    return np.minimum(half_width - abs(u), half_height - abs(v))


def _depth_inside_cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.maximum(_depth_inside_box(u, v, 0.94, 0.3), _depth_inside_box(u, v, 0.3, 0.94))


def _depth_inside_star(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 0.66 + 0.34 * np.cos(5 * np.arctan2(v, u)) - np.hypot(u, v)


def _depth_inside_heart(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 0.75 - np.hypot(u, v + 0.2 - 0.6 * np.sqrt(abs(u)))


def _depth_inside_arrow(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    head = np.minimum(u - 0.1, 0.7 - 0.7 * u - abs(v))
    return np.maximum(head, _depth_inside_box(u + 0.35, v, 0.55, 0.2))


_hexagon = _depth_inside_polygon(6, 0.84)

DEPTHS: dict[str, DepthInside] = {
    "disc": lambda u, v: 0.9 - np.hypot(u, v),
    "ring": lambda u, v: 0.2 - abs(np.hypot(u, v) - 0.75),
    "square": lambda u, v: _depth_inside_box(u, v, 0.68, 0.68),
    "triangle": _depth_inside_polygon(3, 0.48),
    "cross": _depth_inside_cross,
    "star": _depth_inside_star,
    "crescent": lambda u, v: np.minimum(0.95 - np.hypot(u, v), np.hypot(u - 0.5, v) - 0.75),
    "heart": _depth_inside_heart,
    "arrow": _depth_inside_arrow,
    "nut": lambda u, v: np.minimum(_hexagon(u, v), np.hypot(u, v) - 0.4),
}
NAMES = tuple(DEPTHS)


def make_shapes(max_train: int | None = None) -> Pixels:
    """Make pictures (N, 3, 32, 32) and their classes (N,), uint8, by split."""
    pixels = {}
    sizes = SIZES | {"train": min(SIZES["train"], max_train or SIZES["train"])}
    for number, (split, size) in enumerate(sizes.items()):
        blocks = [_draw_block(number, block) for block in range(-(-size // BLOCK))]
        pictures, classes = (np.concatenate(part)[:size] for part in zip(*blocks, strict=True))
        pixels[split] = pictures, classes
    return pixels


@lru_cache(maxsize=16)  # 1.5 MB each: what a few thousand pictures to train on need
def _draw_block(split_number: int, block_number: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the pictures and classes of a block of a split."""
    generator = np.random.default_rng([split_number, block_number])
    classes = (generator.permutation(BLOCK) % len(NAMES)).astype(np.uint8)
    return draw_rgb_shapes(classes, generator), classes


def draw_rgb_shapes(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw pictures (N, 3, 32, 32) uint8 of the shapes with ``labels`` (N,).

    The random numbers do not depend on the labels.
    """
    n = len(labels)
    canvas = _draw_background(n, generator)
    for _ in range(CLUTTER):
        _paint(canvas, _random_bar_coverage(n, generator), _uniform(generator, 0, 1, (n, 3)))
    inside = _random_shape_coverage(labels, generator)
    _paint(canvas, inside, _contrasting_colour_per_canvas(canvas, generator))
    canvas += NOISE * generator.standard_normal(canvas.shape, np.float32)
    return np.rint(255 * canvas.clip(0, 1)).astype(np.uint8)


def _uniform(
    generator: np.random.Generator, low: float, high: float, shape: tuple[int, ...]
) -> np.ndarray:
    return low + (high - low) * generator.random(shape, np.float32)


def _draw_background(n: int, generator: np.random.Generator) -> np.ndarray:
    """Return shades of a random colour that change smoothly, (N, 3, 32, 32)."""
    shades = _uniform(generator, -0.25, 0.25, (n, 3, COARSE, COARSE))
    colours = _uniform(generator, 0.2, 0.8, (n, 3, 1, 1)) + shades
    at = np.linspace(0, COARSE - 1, SIDE, dtype=np.float32)
    hats = (1 - abs(at[:, None] - np.arange(COARSE, dtype=np.float32))).clip(0)
    return hats @ colours @ hats.T


def _pixels_in_rotated_frames(
    num_images: int, center_x: np.ndarray, center_y: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels' coordinates (N, 32, 32) about each center, on axes turned at random."""
    pixels = np.arange(SIDE, dtype=np.float32) - (SIDE - 1) / 2
    turn = _uniform(generator, 0, 2 * np.pi, (num_images, 1, 1))
    right, down = pixels - center_x, pixels[:, None] - center_y
    cos, sin = np.cos(turn), np.sin(turn)
    return cos * right + sin * down, cos * down - sin * right


def _random_bar_coverage(n: int, generator: np.random.Generator) -> np.ndarray:
    x, y = _uniform(generator, -SIDE / 2, SIDE / 2, (2, n, 1, 1))
    along, across = _pixels_in_rotated_frames(n, x, y, generator)
    length = _uniform(generator, 2, 8, (n, 1, 1))
    return (np.minimum(length - abs(along), 0.8 - abs(across)) + 0.5).clip(0, 1)


def _random_shape_coverage(classes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the share of each pixel that is inside the shape, (N, 32, 32)."""
    n = len(classes)
    radius = _uniform(generator, *RADIUS, (n, 1, 1))
    free = SIDE / 2 - FRAME - 0.5 - radius
    x, y = free * _uniform(generator, -1, 1, (2, n, 1, 1))
    u, v = (c / radius for c in _pixels_in_rotated_frames(n, x, y, generator))
    depth = np.empty_like(u)
    for number, name in enumerate(NAMES):
        one = classes == number
        depth[one] = DEPTHS[name](u[one], v[one])
    return (radius * depth + 0.5).clip(0, 1)


def _contrasting_colour_per_canvas(
    canvas: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return the one of four random colours, (N, 3), farthest from the mean of the ground."""
    offered = _uniform(generator, 0, 1, (len(canvas), 4, 3))
    ground = canvas.mean((2, 3))[:, None]
    farthest = np.square(offered - ground).sum(2).argmax(1)
    return offered[np.arange(len(canvas)), farthest]


def _paint(canvas: np.ndarray, inside: np.ndarray, colour: np.ndarray) -> None:
    canvas += inside[:, None] * (colour[:, :, None, None] - canvas)
