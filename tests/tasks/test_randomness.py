"""A task draws from torch's generators alone: they are what a checkpoint keeps."""

import random

import numpy as np
import pytest

from lnlab.tasks import TASKS
from lnlab.training import train


def first_losses(task, root, seed: int) -> list[list[float]]:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    steps = train(task, root=root)
    losses = [next(steps).loss.tolist() for _ in range(2)]
    steps.close()
    return losses


@pytest.mark.parametrize("name", TASKS)
def test_no_other_random_numbers_matter(name, tmp_path):
    task = TASKS[name].budget("smoke")
    assert first_losses(task, tmp_path / "a", 1) == first_losses(task, tmp_path / "b", 2)
