"""The experiments of the papers: ``lnlab.papers.NAME.Experiment``, and the claims.

A module or a folder for each experiment. Its class ``Experiment`` has the hyper-parameters as
fields; ``Experiment(preset="notebook")`` has those of a budget. Each is imported when it is
first used: to list their names needs no torch.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from lnlab.lazy import lazy

if TYPE_CHECKING:
    from lnlab.training import Experiment

_CLASSES = {
    "mnist": "mnist:Experiment",
    "sequential_digits": "sequential_digits:Experiment",
    "las": "las:Experiment",
    "transformer": "transformer:Experiment",
    "order_embeddings": "order_embeddings:Experiment",
    "batch_layer_norm_images": "batch_layer_norm:ImageExperiment",
    "convolutions": "convolutions:Experiment",
    "batch_layer_norm_reviews": "batch_layer_norm:ReviewExperiment",
    "attentive_reader": "attentive_reader:Experiment",
    "draw": "draw:Experiment",
    "skip_thoughts": "skip_thoughts:Experiment",
    "handwriting": "handwriting:Experiment",
}
"""The module and the class of each experiment, by the name that its runs have."""


class Experiments(Mapping[str, "type[Experiment]"]):
    """The classes of experiments by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> "type[Experiment]":
        module, _, experiment = _CLASSES[name].partition(":")
        return getattr(import_module(f"lnlab.papers.{module}"), experiment)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


EXPERIMENTS = Experiments()
"""The experiments that the command line offers, and that runs are of."""

__getattr__, __dir__ = lazy(__name__)
