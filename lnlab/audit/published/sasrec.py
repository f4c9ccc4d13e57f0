"""SASRec: a transformer that recommends the next item, Kang & McAuley (2018, arXiv:1808.09781).

As P. Mixer's implementation in PyTorch has it (github.com/pmixer/SASRec.pytorch, Apache 2.0),
whose names these are: the query and the residual of the attention are the normalized input,
keys and values the input itself; the residual of the feed-forward layer is its normalized
input.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.audit.published.weights import loaded

ITEMS, PLACES, UNITS, BLOCKS = 3416, 200, 50, 2
"""Films of MovieLens-1M, the longest sequence, H, and how many blocks."""

EPS = 1e-8
"""As the authors' own."""


class PointWiseFeedForward(nn.Module):
    """Two layers at every place, and the residual."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(UNITS, UNITS, 1), nn.Conv1d(UNITS, UNITS, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv2(F.relu(self.conv1(x.transpose(1, 2))))
        return x + h.transpose(1, 2)


class SASRec(nn.Module):
    """Items (B, T), 0 for none, to the score of every item as the next (B, items + 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.item_emb = nn.Embedding(ITEMS + 1, UNITS, padding_idx=0)
        self.pos_emb = nn.Embedding(PLACES + 1, UNITS, padding_idx=0)
        self.attention_layernorms = nn.ModuleList(
            nn.LayerNorm(UNITS, EPS) for _ in range(BLOCKS)
        )
        self.attention_layers = nn.ModuleList(
            nn.MultiheadAttention(UNITS, 1, batch_first=True) for _ in range(BLOCKS)
        )
        self.forward_layernorms = nn.ModuleList(nn.LayerNorm(UNITS, EPS) for _ in range(BLOCKS))
        self.forward_layers = nn.ModuleList(PointWiseFeedForward() for _ in range(BLOCKS))
        self.last_layernorm = nn.LayerNorm(UNITS, EPS)

    def forward(self, items: Tensor) -> Tensor:
        T = items.shape[1]
        places = torch.arange(1, T + 1, device=items.device) * (items != 0)
        h = UNITS**0.5 * self.item_emb(items) + self.pos_emb(places)
        later = torch.ones(T, T, dtype=torch.bool, device=items.device).triu(1)
        for i in range(BLOCKS):
            query = self.attention_layernorms[i](h)
            h = query + self.attention_layers[i](query, h, h, attn_mask=later)[0]
            h = self.forward_layers[i](self.forward_layernorms[i](h))
        return self.last_layernorm(h)[:, -1] @ self.item_emb.weight.T


def sasrec(path: str | Path) -> nn.Module:
    """The net with the weights of a file; raises as :func:`~.weights.loaded`."""
    return loaded(SASRec(), path)
