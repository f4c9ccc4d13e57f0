"""What an audit or an exchange cannot take is refused in words that say what to give."""

import pytest
import torch
from torch import nn

from lnlab.auditing import audit, swap

X, Y = torch.randn(8, 4, dtype=torch.float64), torch.arange(8) % 3
RULES = {nn.LayerNorm: nn.RMSNorm}


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))


@pytest.mark.parametrize("call", [audit, lambda model, x=X: swap(model, RULES)])
@pytest.mark.parametrize("model", ["net", None, nn.LayerNorm])
def test_what_is_no_module_is_named(call, model):
    with pytest.raises(TypeError, match=r"^model is .*: give a torch.nn"):
        call(model, X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: audit(net(), X, Y, "ce"), "loss_fn is of class str: give a function"),
        (lambda: audit(net(), X * float("nan")), "an input of .* holds NaN: give"),
        (lambda: audit(net(), X[:0]), "an input of .* has no numbers: give"),
        (lambda: audit(net(), X[:, :3]), "Sequential does not take the input"),
        (lambda: audit(net(), {"x": X}), "Sequential does .*for one argument, give Call"),
        (lambda: audit(net(), ()), "the input of Sequential holds no tensor"),
        (lambda: swap(net(), [nn.LayerNorm]), "rules is .* list: give {nn.BatchNorm2d"),
        (lambda: swap(net(), {nn.LayerNorm: "rms"}), "1: 'rms' is no rule .*: give a class"),
        (lambda: swap(net(), {nn.LayerNorm: nn.RMSNorm(6)}), "1: RMSNorm.* is no rule"),
    ],
)
def test_what_else_is_wrong_is_named(call, words):
    with pytest.raises((TypeError, ValueError), match=f"^{words}"):
        call()
