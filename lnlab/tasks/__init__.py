"""Experiments: one file each, model included, whose fields are its hyper-parameters.

Each is imported when it is asked for: their names cost no torch.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lnlab.tasks.convolutions.task import Convolutions
    from lnlab.tasks.draw.task import PictureDrawing
    from lnlab.tasks.handwriting.task import Handwriting
    from lnlab.tasks.las.task import Spelling
    from lnlab.tasks.mixture.pictures import MixturePictures
    from lnlab.tasks.mixture.reviews import MixtureReviews
    from lnlab.tasks.mnist import PermutationInvariantMNIST
    from lnlab.tasks.order.task import OrderEmbeddings
    from lnlab.tasks.reader.task import AttentiveReading
    from lnlab.tasks.sequences import SequentialDigits
    from lnlab.tasks.thoughts.task import SkipThoughtVectors
    from lnlab.tasks.transformer.task import CharacterModel
    from lnlab.training import Experiment

WHERE = {
    "mnist": ("mnist", "PermutationInvariantMNIST"),
    "sequential_digits": ("sequences", "SequentialDigits"),
    "las": ("las.task", "Spelling"),
    "transformer": ("transformer.task", "CharacterModel"),
    "order_embeddings": ("order.task", "OrderEmbeddings"),
    "batch_layer_norm_images": ("mixture.pictures", "MixturePictures"),
    "convolutions": ("convolutions.task", "Convolutions"),
    "batch_layer_norm_reviews": ("mixture.reviews", "MixtureReviews"),
    "attentive_reader": ("reader.task", "AttentiveReading"),
    "draw": ("draw.task", "PictureDrawing"),
    "skip_thoughts": ("thoughts.task", "SkipThoughtVectors"),
    "handwriting": ("handwriting.task", "Handwriting"),
}
"""The module and the class of each experiment, by its name."""


class Tasks(Mapping[str, "type[Experiment]"]):
    """The classes of experiments by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> "type[Experiment]":
        module, kind = WHERE[name]
        return getattr(import_module(f"lnlab.tasks.{module}"), kind)

    def __contains__(self, name: object) -> bool:
        return name in WHERE

    def __iter__(self) -> Iterator[str]:
        return iter(WHERE)

    def __len__(self) -> int:
        return len(WHERE)


TASKS = Tasks()
"""Names at the edge: the command line and the notebooks."""


def __getattr__(name: str) -> Any:
    """A class of experiments by its own name, for ``from lnlab.tasks import Spelling``."""
    for task, (_, kind) in WHERE.items():
        if kind == name:
            return TASKS[task]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "TASKS",
    "AttentiveReading",
    "CharacterModel",
    "Convolutions",
    "Handwriting",
    "MixturePictures",
    "MixtureReviews",
    "OrderEmbeddings",
    "PermutationInvariantMNIST",
    "PictureDrawing",
    "SequentialDigits",
    "SkipThoughtVectors",
    "Spelling",
]
