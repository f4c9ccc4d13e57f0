r"""Recurrent cells: one time step of eq. 4, 17-22, 23-28 and 29-31, with any normalizer.

Ba, Kiros & Hinton (2016, arXiv:1607.06450): eq. 4 is in section 3.1, the others are in the
supplementary material. A cell maps an input ``x`` (B, D) and a state, a tuple whose first
member is ``h`` (B, H), to the next state; :mod:`lnlab.unroll` repeats it over time. With
``norm=Identity`` every cell is the ordinary one, with its own bias where a normalizer
would have brought one.

The defaults are the paper's equations. What published code does otherwise is a setting
here, and :data:`PUBLISHED` puts the settings of each implementation together. The
supplement calls the gain "zeros" and the bias "ones" after eq. 22, 28 and 31; by eq. 15,
section 6 and the authors' code, gains start at 1 and biases at 0.
"""

from .cell import (
    MODERN,
    PAPER,
    STARTS,
    Bias,
    Carry,
    Cell,
    Initial,
    State,
    Sums,
    Update,
    as_torch,
    authors,
    modern,
)
from .gru import GRUCell
from .lstm import PUBLISHED, LSTMCell, gain_only
from .rnn import RNNCell

__all__ = [
    "MODERN",
    "PAPER",
    "PUBLISHED",
    "STARTS",
    "Bias",
    "Carry",
    "Cell",
    "GRUCell",
    "Initial",
    "LSTMCell",
    "RNNCell",
    "State",
    "Sums",
    "Update",
    "as_torch",
    "authors",
    "gain_only",
    "modern",
]
