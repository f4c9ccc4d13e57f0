"""Two published networks, which take the weights that their authors trained.

ResNet20 for CIFAR-10 (He et al. 2016, section 4.2) with the names of Y. Idelbayev's trained
networks (BSD 2-clause, github.com/akamaster/pytorch_resnet_cifar10), and SASRec (Kang & McAuley
2018, arXiv:1808.09781) with those of P. Mixer's (Apache 2.0, github.com/pmixer/SASRec.pytorch).
"""

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F


def load_weights(net: nn.Module, path: str | Path) -> nn.Module:
    """Return ``net`` with the weights of a safetensors file, in evaluation mode.

    A prefix ``module.``, which DataParallel leaves, is dropped. The counts of batches may be
    missing: early versions of torch had none.

    Raises:
        FileNotFoundError: where there is no such file.
        ValueError: where it is no safetensors file, or one of another net.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}: name one with the weights.")
    try:
        state = {name.removeprefix("module."): v for name, v in load_file(path).items()}
    except SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from error
    counts = {n: v for n, v in net.state_dict().items() if n.endswith("num_batches_tracked")}
    try:
        net.load_state_dict(counts | state)
    except RuntimeError as error:
        first = str(error)[:300]  # torch names every parameter
        raise ValueError(f"{path} is not of {type(net).__name__}: {first}") from error
    return net.eval()


# ResNet20, with shortcuts without parameters.

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""The numbers by which pixels over 255 were centred and divided, one for each colour."""

RECORD = 1 + 3 * 32 * 32
"""Bytes of an image in the binary version of CIFAR-10: its class, then a plane a colour."""


class BasicBlock(nn.Module):
    """Two convolutions with batch norm, and a shortcut: every second pixel, zeros for the
    channels that it has not (their option A)."""

    def __init__(self, inputs: int, units: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, units, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(units)
        self.conv2 = nn.Conv2d(units, units, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(units)
        self.stride, self.more = stride, units - inputs

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        short = x[:, :, :: self.stride, :: self.stride]
        side = self.more // 2
        return F.relu(h + F.pad(short, (0, 0, 0, 0, side, self.more - side)))


class ResNet20(nn.Module):
    """Images (B, 3, 32, 32) to scores of ten classes (B, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1, self.layer2, self.layer3 = (
            nn.Sequential(
                BasicBlock(inputs, units, stride),
                BasicBlock(units, units, 1),
                BasicBlock(units, units, 1),
            )
            for inputs, units, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        )
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.layer3(self.layer2(self.layer1(h)))
        return self.linear(h.mean((2, 3)))


def resnet20(path: str | Path) -> nn.Module:
    """Return the net with the weights of a file; raises as :func:`load_weights`."""
    return load_weights(ResNet20(), path)


def pictures(path: str | Path, count: int = 64) -> tuple[Tensor, Tensor]:
    """Return the first ``count`` images (B, 3, 32, 32), normalized, and their classes (B,).

    Args:
        path: a file of the binary version of CIFAR-10, ``test_batch.bin``.
        count: how many.

    Raises:
        ValueError: where the file does not hold so many whole images.
    """
    size = Path(path).stat().st_size
    if size % RECORD or size < count * RECORD:
        raise ValueError(
            f"{path} has {size} bytes, not {count} pictures or more of {RECORD} each: "
            "give a file of the binary version, test_batch.bin."
        )
    records = np.fromfile(path, np.uint8, count * RECORD).reshape(count, RECORD)
    y = torch.from_numpy(records[:, 0].astype(np.int64))
    x = torch.from_numpy(records[:, 1:].reshape(count, 3, 32, 32).astype(np.float32)) / 255
    mean, deviation = (torch.tensor(v)[:, None, None] for v in (MEAN, DEVIATION))
    return ((x - mean) / deviation).to(torch.get_default_dtype()), y


# SASRec, a transformer that recommends the next item. The query and the residual of the
# attention are the normalized input, keys and values the input itself; the residual of the
# feed-forward layer is its normalized input.

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
    """Return the net with the weights of a file; raises as :func:`load_weights`."""
    return load_weights(SASRec(), path)
