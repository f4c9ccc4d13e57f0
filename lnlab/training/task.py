"""What training asks of an experiment and of its data."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Split(Protocol):
    """Cases and their targets."""

    @property
    def x(self) -> Tensor: ...

    @property
    def y(self) -> Tensor: ...


class Dataset(Protocol):
    """What training needs to know of a data set: :class:`lnlab.data.Dataset`."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def licence(self) -> str: ...

    @property
    def checksum(self) -> str: ...

    @property
    def train(self) -> Any:
        """A :class:`Split`, or what the task's own batches are made of."""
        ...


class Beside(Protocol):
    """What goes along with a training: entered while it lasts, kept in its checkpoints."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Task(Protocol):
    """An experiment: a frozen dataclass whose fields are its hyper-parameters.

    ``config()`` is what tells it from others (``dataclasses.asdict`` as a rule): with the
    checksum of the data it names the run.

    Besides, a task may have ``batches(dataset, device, dtype)``, where training cases in
    random order are not what it needs, and ``schedule(part)``, the factor of the learning rate
    when a part of the updates is over, from 0 to 1.
    """

    @property
    def name(self) -> str: ...

    @property
    def seeds(self) -> tuple[int, ...]: ...

    @property
    def epochs(self) -> int: ...

    @property
    def batch_size(self) -> int: ...

    def config(self) -> dict[str, Any]: ...

    def dataset(self) -> Dataset: ...

    def model(self, seed: int, dataset: Any) -> nn.Module:
        """One model; torch, numpy and Python have been seeded with ``seed`` before."""
        ...

    def loss(self, output: Any, y: Any) -> Tensor:
        """The loss of each model (S,): outputs (S, B, ...) and targets (S, B, ...), or what
        the task's own batches give."""
        ...

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer: ...

    def evaluation_points(self, updates_per_epoch: int) -> Collection[int]:
        """After which updates to measure; 0 is before the first. The last always is one."""
        ...

    def measure(self, model: Any, dataset: Any) -> Mapping[str, list[float]]:
        """Numbers by name, one for each seed, of a :class:`Stacked`; leaves it as it was."""
        ...
