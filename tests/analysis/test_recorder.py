"""What is recorded is what was there, and the training goes on as if nothing was."""

import math
from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from lnlab.analysis.recorder import (
    choose_modules,
    mean_cosine_of_rows,
    record,
    stable_rank,
    tensor_statistics,
)
from tests.analysis.models import Checkpointed


def net() -> Any:
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def recorded(model, *inputs, **settings) -> Any:
    """The frame of a recorder of calls and their backward passes."""
    with record(model, **settings) as recorder:
        for x in inputs:
            y = model(x)
            if y.requires_grad:
                y.square().sum().backward()
    return recorder.to_frame()


def test_activations_and_gradients_are_those_of_the_part():
    model, x = net(), torch.randn(11, 5)
    row = recorded(model, x, modules=["0"]).iloc[0]
    a = model[0](x)
    assert row["mean"] == pytest.approx(a.mean().item(), abs=1e-15)
    assert row["std"] == pytest.approx(a.std(correction=0).item())
    assert row["q50"] == pytest.approx(a.quantile(0.5).item())
    assert row["q00"] == a.min().item()
    assert row["count"] == 77
    model.zero_grad()
    frame = recorded(model, x, modules=["2"], what=["gradients"]).set_index("name")
    assert set(frame.index) == {"2", "2.weight", "2.bias"}
    assert frame.norm["2.weight"] == pytest.approx(model[2].weight.grad.norm().item())
    assert frame.norm["2"] == pytest.approx((2 * model(x)).norm().item())


def test_every_evaluation_and_the_bound_of_memory():
    model, x = net(), torch.randn(2, 5)
    assert list(recorded(model, *7 * [x], modules=["0"], every=3).step) == [3, 6]
    frame = recorded(model, *200 * [x], modules=["0"], max_rows=8)
    assert frame.step.tolist() == list(range(32, 200, 32))
    model.eval()
    with pytest.raises(ValueError, match="evaluation=True"):
        recorded(model, x, modules=["0"])
    assert len(recorded(model, x, modules=["0"], evaluation=True)) == 1


@pytest.mark.parametrize("exponent", [-38, -20, 0, 20, 38])
def test_small_and_large_float32_numbers_are_summed_up_as_in_float64(exponent):
    a = (10.0**exponent * (torch.rand(31, 7) * 4 - 1)).float()  # up to 3e38
    a[0] = 0
    row, wide = tensor_statistics(a), a.double()  # whose squares are all in range
    exact = {"mean": wide.mean(), "std": wide.std(correction=0), "norm": wide.norm()}
    for name, value in exact.items():
        assert row[name] == pytest.approx(float(value), rel=1e-5, abs=0)
    assert row["q25"] == pytest.approx(float(wide.quantile(0.25)), rel=1e-5, abs=0)
    s = torch.linalg.svdvals(wide)
    assert stable_rank(a) == pytest.approx(float(s.square().sum() / s[0] ** 2), rel=1e-5)
    assert mean_cosine_of_rows(a) == pytest.approx(mean_cosine_of_rows(wide), rel=1e-4)


def test_units_of_a_picture_are_its_channels():
    x = torch.rand(2, 3, 4, 5)
    x[:, 1] = 0
    x[0, :, :, 2] = 0  # columns of pixels are no units
    moved = x + torch.tensor([1.0, 2, 3]).view(3, 1, 1)
    frame = recorded(nn.Sequential(nn.Identity()), x, moved, extra=["drift", "rank"])
    first, second = frame.to_dict("records")
    assert first["dead"] == pytest.approx(1 / 3)
    assert second["drift_mean"] == pytest.approx(2)
    s = torch.linalg.svdvals(x.movedim(1, -1).reshape(-1, 3))
    assert first["rank"] == pytest.approx(float(s.square().sum() / s[0] ** 2))


def test_a_backward_pass_belongs_to_the_step_of_its_forward_pass():
    model, x = net(), torch.randn(2, 5)
    with record(model, ["0"], ["gradients"], every=2) as recorder:
        model(x)
        second, third = model(x), model(2 * x)
        (second + third).sum().backward()
    frame: Any = recorder.to_frame()
    (step,) = frame[frame.name == "0"].step
    assert step == 2


def test_a_part_that_is_called_twice_and_one_that_returns_several():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.pair = nn.Linear(5, 5), nn.LSTM(5, 4)

        def forward(self, x):
            return self.pair(self.part(self.part(x)))[0]

    model = Twice()
    with record(model, ["part", "pair"]) as recorder:
        model(torch.randn(3, 5))
    frame: Any = recorder.to_frame()
    assert list(frame[frame.name == "part"].call) == [0, 1]
    assert set(frame[frame.name != "part"].name) == {"pair[0]", "pair[1]", "pair[2]"}


def test_drift_is_how_far_the_moments_of_units_have_moved():
    first, second = torch.randn(2, 9, 4)
    inputs = first, first, second, second
    frame = recorded(nn.Sequential(nn.Identity()), *inputs, every=2, extra=["drift"])
    start, moved = frame.to_dict("records")
    assert math.isnan(start["drift_mean"])
    assert math.isnan(start["drift_var"])
    assert moved["since"] == 2
    by_hand = (second.mean(0) - first.mean(0)).abs().mean()
    assert moved["drift_mean"] == pytest.approx(float(by_hand))
    by_hand = (second.var(0, correction=0) - first.var(0, correction=0)).abs().mean()
    assert moved["drift_var"] == pytest.approx(float(by_hand))


def test_one_frame_has_what_is_dead_zero_and_not_finite():
    with record(nn.Identity()) as recorder:
        recorder.model(torch.tensor([[0.0, 0.0, 1.0, 2.0], [0.0, 5.0, 1.0, 2.0]]))
        recorder.model(torch.tensor([[1.0, math.nan, math.inf, 3.0]]))
    first, second = recorder.to_frame().to_dict("records")
    assert (first["dead"], first["zeros"]) == (0.25, pytest.approx(3 / 8))
    assert (second["nonfinite"], second["mean"]) == (2, 2.0)
    assert len(recorder.plot().data) == 3


def test_modules_are_chosen_by_name_class_or_predicate():
    with pytest.raises(ValueError, match="choose from activations"):
        record(net(), what=["weights"])
    with pytest.raises(ValueError, match=r"no module is called \['7'\]: there are , 0, 1, 2"):
        record(net(), ["7"])
    assert set(choose_modules(net(), [nn.Linear])) == {"0", "2"}
    assert set(choose_modules(net(), lambda name, module: name == "1")) == {"1"}


@pytest.mark.parametrize(("use_reentrant", "calls"), [(False, 2), (True, 1)])
def test_a_part_that_is_computed_again_is_recorded_once(use_reentrant, calls):
    net, x, frames = Checkpointed(calls), torch.randn(6, 4), []
    for run in (net.run, partial(checkpoint, use_reentrant=use_reentrant)):
        net.zero_grad()
        net.run = run
        frames.append(recorded(net, x, what=["activations", "gradients"]))
    columns = ["name", "what", "call"]
    plain, recomputed = (frame.sort_values(columns, ignore_index=True) for frame in frames)
    pd.testing.assert_frame_equal(recomputed, plain)


def test_a_compiled_model_is_refused_and_trains_while_the_original_is_recorded():
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    compiled = torch.compile(net, backend="eager")
    with pytest.raises(ValueError, match=r"given to torch\.compile"):
        record(compiled)
    with record(net) as recorder:
        compiled(torch.randn(6, 4)).sum().backward()
    with pytest.raises(ValueError, match="nothing was recorded"):
        recorder.to_frame()
