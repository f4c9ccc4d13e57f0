"""The examples of the playground, and its random numbers, which engine.js repeats."""

import math
from functools import cache


class UniformGenerator:
    """Uniform numbers from a seed: mulberry32."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def __call__(self) -> float:
        """Return the next number, from 0 up to but not including 1, in steps of 2^-32."""
        mask = 0xFFFFFFFF
        self.state = (self.state + 0x6D2B79F5) & mask
        t = (self.state ^ (self.state >> 15)) * (self.state | 1) & mask
        t ^= (t + ((t ^ (t >> 7)) * (t | 61))) & mask
        return (t ^ (t >> 14)) / 2**32

    def permutation(self, n: int) -> list[int]:
        """Return 0, ..., n - 1 in random order (Fisher and Yates)."""
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = int(self() * (i + 1))
            order[i], order[j] = order[j], order[i]
        return order


def sample_spiral_point(label: int, generator: UniformGenerator) -> tuple[float, float]:
    """Return a point on one of two spirals."""
    r = generator()
    angle = 1.25 * 2 * math.pi * r + label * math.pi
    x, y = r * math.sin(angle), r * math.cos(angle)
    return x + 0.06 * (2 * generator() - 1), y + 0.06 * (2 * generator() - 1)


def sample_disc_or_ring_point(label: int, generator: UniformGenerator) -> tuple[float, float]:
    """Return a point in a disc, or in the ring around it."""
    r = 0.7 + 0.3 * generator() if label else 0.5 * generator()
    angle = 2 * math.pi * generator()
    return r * math.sin(angle), r * math.cos(angle)


def sample_xor_point(label: int, generator: UniformGenerator) -> tuple[float, float]:
    """Return a point whose coordinates have the same sign (label 0) or not (label 1)."""
    x, y = 0.05 + 0.95 * generator(), 0.05 + 0.95 * generator()
    side = -1 if generator() < 0.5 else 1
    return side * x, (-side if label else side) * y


@cache
def points_by_dataset() -> dict[str, list[tuple[float, float]]]:
    """Return 400 points of each dataset in the plane, of class 0 and 1 in turns."""
    made = {}
    samplers = {
        "spirals": sample_spiral_point,
        "circles": sample_disc_or_ring_point,
        "xor": sample_xor_point,
    }
    for dataset, sample_point in samplers.items():
        generator = UniformGenerator(2016)
        drawn = [sample_point(i % 2, generator) for i in range(400)]
        made[dataset] = [(round(x, 3), round(y, 3)) for x, y in drawn]
    return made


@cache
def digits_as_labels_and_letters() -> str:
    """Return 600 digits, 60 of each class: the label, then a letter a pixel, A to Q."""
    from sklearn.datasets import load_digits  # takes a second

    images, labels = load_digits(return_X_y=True)
    # the first 60 of each class, as they come: every class is among any 100 in a row
    chosen = [i for i, label in enumerate(labels) if (labels[:i] == label).sum() < 60]
    letters = (images + ord("A")).astype("u1")
    return "".join(f"{labels[i]}{letters[i].tobytes().decode()}" for i in chosen)
