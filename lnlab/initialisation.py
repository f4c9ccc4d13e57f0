"""The start of weights that are not recurrent; that of cells is :data:`lnlab.cells.STARTS`."""

from collections.abc import Callable

import torch
from torch import Tensor

Initialise = Callable[[Tensor, torch.Generator], Tensor]

INITIALISATIONS: dict[str, Initialise] = {
    "he": lambda W, generator: W.normal_(0, (2 / W.shape[1]) ** 0.5, generator=generator),
    "torch": lambda W, generator: W.uniform_(-1, 1, generator=generator) / W.shape[1] ** 0.5,
    "authors": lambda W, generator: W.uniform_(-0.1, 0.1, generator=generator),
}
"""Rules by which W is drawn; the paper states none. "he" is He et al. (2015), N(0, 2/D),
which does not leave the net without normalization at a disadvantage; "authors" is the
U(-0.1, 0.1) of their published recurrent experiments."""
