"""Scale-invariant weights rotate as the law of their optimizer says."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.rotation import (
    NONE,
    ROWS,
    WHOLE,
    record_rotation,
    rotation_statistics,
    row_angles,
    scale_invariant_weights,
)
from lnlab.nn import BatchNorm, Identity, LayerNorm, RMSNorm, WeightNorm
from tests.analysis.models import three_layers

D, H, CLASSES, B = 6, 8, 3, 16


@pytest.mark.parametrize(
    ("norm", "part"),
    [
        (LayerNorm, WHOLE), (RMSNorm, WHOLE), (BatchNorm, ROWS),
        (WeightNorm, ROWS), (Identity, NONE),
    ],
)  # fmt: skip
def test_scale_invariant_weights_are_found_whatever_eps(norm, part):
    weights = scale_invariant_weights(three_layers(norm, D, H), torch.randn(B, D))
    assert weights == ({} if part == NONE else {"0.W": part, "2.W": part})


class Noise(nn.Module):
    """A random function of the direction of w, another one at each call."""

    def __init__(self, size: int = 1000) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(size))

    def forward(self) -> torch.Tensor:
        return torch.randn_like(self.w) @ (self.w / self.w.norm())


SGD, ADAMW = torch.optim.SGD, torch.optim.AdamW


@pytest.mark.parametrize(
    ("make", "settings", "law"),
    [
        (SGD, {"lr": 0.1, "weight_decay": 0.05}, 2 * 0.1 * 0.05),
        (SGD, {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.05}, 2 * 0.02 * 0.05 / 1.9),
        (ADAMW, {"lr": 0.01, "weight_decay": 0.5}, 2 * 0.01 * 0.5 * 0.1 / 1.9),
    ],
    ids=["sgd", "momentum", "adamw"],
)
def test_noise_turns_weights_by_the_angle_of_equilibrium(make, settings, law):
    model = Noise()
    optimizer = make(model.parameters(), **settings)
    with record_rotation(model, optimizer, {"w": WHOLE}, every=10) as seen:
        for _ in range(2000):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
    frame = seen.to_frame()
    late = frame[frame.step > 1200]
    assert late.expected.iloc[0] == pytest.approx(math.sqrt(law))
    # the law is of small angles; these are 0.02 to 0.1
    assert late.angle.mean() == pytest.approx(math.sqrt(law), rel=0.04)
    assert late.cos.abs().max() < 1e-12


def train(model, optimizer, steps=5):
    x, y = torch.randn(B, D), torch.randint(CLASSES, (B,))
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("norm", [LayerNorm, BatchNorm, WeightNorm])
def test_gradients_stand_at_right_angles_to_what_is_invariant_alone(norm):
    model = three_layers(partial(norm, eps=0.0) if norm is not WeightNorm else norm, D, H)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    invariant = scale_invariant_weights(model, torch.randn(B, D))
    with record_rotation(model, optimizer, invariant) as seen:
        train(model, optimizer)
    frame = seen.to_frame().set_index("name")
    assert set(frame.index) == set(dict(model.named_parameters()))
    assert (frame.loc[["0.W", "2.W"], "cos"].abs() < 1e-14).all()
    assert (frame.loc["4.W", "cos"].abs() > 1e-4).all()
    # without weight decay a step at a right angle makes a weight longer
    for name in ("0.W", "2.W"):
        assert frame.loc[name, "norm"].is_monotonic_increasing
        assert (frame.loc[name, "effective"] * frame.loc[name, "norm"] ** 2 - 0.1).max() < 1e-12


def test_the_angle_is_that_of_its_definition_and_exact_where_it_is_small():
    w, moved = torch.randn(2, 5, D)
    expected = torch.arccos(F.cosine_similarity(w, moved))
    torch.testing.assert_close(row_angles(w, 3 * moved), expected)
    flat = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1e-12])
    assert float(row_angles(*flat)) == pytest.approx(1e-12, rel=1e-9)
    assert float(row_angles(w[0], -w[0])) == pytest.approx(math.pi)


def test_rows_are_a_root_mean_square():
    w, moved, slope = torch.randn(3, H, D)
    one = [
        rotation_statistics(*(v[i] for v in (w, moved, slope)), rows=False) for i in range(H)
    ]
    for name, value in rotation_statistics(w, moved, slope, rows=True).items():
        each = torch.tensor([row[name] for row in one])
        assert value == pytest.approx(float(each.square().mean().sqrt()))
