"""Experiments: one file each, model included, whose fields are its hyper-parameters.

Each is imported when it is asked for: their names cost no torch.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from lnlab.lazy import lazy

if TYPE_CHECKING:
    from lnlab.papers.attentive_reader.experiment import AttentiveReading
    from lnlab.papers.batch_layer_norm.experiment import MixturePictures, MixtureReviews
    from lnlab.papers.convolutions import Convolutions
    from lnlab.papers.draw.experiment import PictureDrawing
    from lnlab.papers.handwriting.experiment import Handwriting
    from lnlab.papers.las.experiment import Spelling
    from lnlab.papers.mnist import PermutationInvariantMNIST
    from lnlab.papers.order_embeddings.experiment import OrderEmbeddings
    from lnlab.papers.sequential_digits import SequentialDigits
    from lnlab.papers.skip_thoughts.experiment import SkipThoughtVectors
    from lnlab.papers.transformer.experiment import CharacterModel
    from lnlab.training import Experiment


WHERE = {
    "mnist": ("mnist", "PermutationInvariantMNIST"),
    "sequential_digits": ("sequential_digits", "SequentialDigits"),
    "las": ("las.experiment", "Spelling"),
    "transformer": ("transformer.experiment", "CharacterModel"),
    "order_embeddings": ("order_embeddings.experiment", "OrderEmbeddings"),
    "batch_layer_norm_images": ("batch_layer_norm.experiment", "MixturePictures"),
    "convolutions": ("convolutions", "Convolutions"),
    "batch_layer_norm_reviews": ("batch_layer_norm.experiment", "MixtureReviews"),
    "attentive_reader": ("attentive_reader.experiment", "AttentiveReading"),
    "draw": ("draw.experiment", "PictureDrawing"),
    "skip_thoughts": ("skip_thoughts.experiment", "SkipThoughtVectors"),
    "handwriting": ("handwriting.experiment", "Handwriting"),
}
"""The module and the class of each experiment, by its name."""


class Tasks(Mapping[str, "type[Experiment]"]):
    """The classes of experiments by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> "type[Experiment]":
        module, kind = WHERE[name]
        return getattr(import_module(f"lnlab.papers.{module}"), kind)

    def __contains__(self, name: object) -> bool:
        return name in WHERE

    def __iter__(self) -> Iterator[str]:
        return iter(WHERE)

    def __len__(self) -> int:
        return len(WHERE)


TASKS = Tasks()
"""Names at the edge: the command line and the notebooks."""


__getattr__, __dir__ = lazy(__name__, {kind: f".{module}" for module, kind in WHERE.values()})

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
