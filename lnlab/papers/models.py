"""Parts of the models of several experiments: vocabularies, gains, initial weights."""

from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from lnlab.data.vocabulary import Vocabulary
from lnlab.kernels import fuse
from lnlab.kernels.fused_cells import is_unmodified
from lnlab.nn import CELL_INITS, CellInit, Identity, Normalizer, NormLayer

VocabularyDigest = Tensor  # in whole numbers (8,)

Net = TypeVar("Net", bound=nn.Module)


class VocabularyCheckedModel(nn.Module):
    """A model that refuses weights of another vocabulary."""

    alphabet: VocabularyDigest

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.register_buffer("alphabet", _vocabulary_digest(vocabulary))

    def has_vocabulary(self, vocabulary: Vocabulary) -> bool:
        """Return True if the model was made for this vocabulary."""
        return torch.equal(self.alphabet.cpu(), _vocabulary_digest(vocabulary))

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        theirs = state_dict.get(f"{prefix}alphabet")
        if theirs is not None and not torch.equal(theirs.cpu(), self.alphabet.cpu()):
            raise ValueError(
                "these weights were trained with another vocabulary: their words have other "
                "numbers. Take the data of their run."
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


def _vocabulary_digest(vocabulary: Vocabulary) -> VocabularyDigest:
    """Return a vocabulary's digest in whole numbers (8,)."""
    digest = vocabulary.digest
    return torch.tensor([int(digest[at : at + 8], 16) for at in range(0, 64, 8)])


RecurrentNormGain = float  # the first g of the normalizers of W_h h


def cell_init(config: Any, norm: NormLayer) -> CellInit:
    """Return an experiment's initialisation, with its gain of the normalizers of W_h h."""
    initial = CELL_INITS[config.initialisation]
    return initial if norm is Identity else replace(initial, recurrent_norm_gain=config.gain)


def fused_net_sharing_tensors(
    net: Net, reference_class: type[Net], compiled_class: type[Net]
) -> Net:
    """Return ``net`` again, with its tensors: fused, and its own loop compiled.

    A subclass of ``reference_class`` keeps its loop, with what :func:`lnlab.fuse` finds in it.
    """
    fused = fuse(net)
    if is_unmodified(fused, reference_class):
        fused.__class__ = compiled_class
    return fused


def set_gains_(model: nn.Module, gain: float) -> None:
    """Set the gain of every normalizer of a model."""
    for module in model.modules():
        g = getattr(module, "g", None)
        if isinstance(module, Normalizer) and isinstance(g, Tensor):
            nn.init.constant_(g, gain)
