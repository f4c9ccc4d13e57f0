"""The recorder: what it hears is what was there, and it leaves no trace."""

import math
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

from lnlab.analysis.recorder import SAMPLE, chosen, mean_cosine, record, stable_rank, summary
from lnlab.training import stack


def net() -> Any:
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def hooks(model):
    return sum(
        len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules()
    ) + sum(len(p._post_accumulate_grad_hooks or {}) for p in model.parameters())


def train(model, x, steps=1):
    for _ in range(steps):
        model(x).square().sum().backward()


def test_activations_are_those_of_the_part():
    model, x = net(), torch.randn(11, 5)
    with record(model, ["0"]) as seen:
        y = model(x)
    row = seen.frame().iloc[0]
    a = model[0](x)
    assert y.shape == (11, 3)
    assert row["mean"] == pytest.approx(a.mean().item(), abs=1e-15)
    assert row["std"] == pytest.approx(a.std(correction=0).item())
    assert row["q50"] == pytest.approx(a.quantile(0.5).item())
    assert row["q00"] == a.min().item()
    assert row["count"] == 77


def test_gradients_are_autograd_s():
    model, x = net(), torch.randn(11, 5)
    with record(model, ["2"], ["gradients"]) as seen:
        train(model, x)
    frame: Any = seen.frame().set_index("name")
    assert set(frame.index) == {"2", "2.weight", "2.bias"}
    assert frame.norm["2.weight"] == pytest.approx(model[2].weight.grad.norm().item())
    assert frame.norm["2"] == pytest.approx((2 * model(x)).norm().item())


def test_parameters_are_read_before_the_update():
    model = net()
    before = model[0].weight.detach().clone()
    with record(model, ["0"], ["parameters"]) as seen:
        model(torch.randn(2, 5))
        nn.init.zeros_(model[0].weight)
    frame: Any = seen.frame().set_index("name")
    assert frame.norm["0.weight"] == pytest.approx(before.norm().item())


@pytest.mark.parametrize("raises", [False, True])
def test_hooks_are_gone_on_exit_even_after_an_error(raises):
    model = net()
    try:
        with record(model, what=["activations", "gradients", "parameters"]):
            train(model, torch.randn(2, 5))
            assert hooks(model) > 0
            if raises:
                raise KeyError
    except KeyError:
        pass
    assert hooks(model) == 0


def test_recording_changes_nothing():
    x = torch.randn(4, 5)
    torch.manual_seed(1)
    heard = net()
    torch.manual_seed(1)
    alone = net()
    with record(heard, what=["activations", "gradients", "parameters"]):
        train(heard, x)
    train(alone, x)
    for p, q in zip(heard.parameters(), alone.parameters(), strict=True):
        assert torch.equal(p, q)
        assert torch.equal(p.grad, q.grad)


def test_parts_are_left_alone_between_two_summaries():
    model, x = net(), torch.randn(2, 5)
    with record(model, what=["activations", "gradients"], every=2):
        counts = []
        for _ in range(4):
            train(model, x)
            counts.append(hooks(model))
        assert counts == [1, 8, 1, 8]  # 1 of the model, 3 of parts, 4 of parameters


def test_a_model_without_parts_is_its_own_part():
    model, x = nn.Linear(5, 3), torch.randn(2, 5)
    with record(model, what=["activations", "parameters"]) as seen:
        y = model(x)
    frame: Any = seen.frame().set_index("name")
    assert set(frame.index) == {"", "weight", "bias"}
    assert frame["norm"][""] == pytest.approx(y.norm().item())


def test_every_and_evaluation():
    model, x = net(), torch.randn(2, 5)
    with record(model, ["0"], every=3) as seen:
        for _ in range(7):
            model(x)
        model.eval()
        model(x)
    assert list(seen.frame().step) == [3, 6]
    with record(model, ["0"]) as deaf:
        model(x)
    with pytest.raises(ValueError, match="evaluation=True"):
        deaf.frame()
    with record(model, ["0"], evaluation=True) as seen:
        model(x)
    assert len(seen.frame()) == 1


def test_memory_has_a_bound():
    model, x = net(), torch.randn(2, 5)
    with record(model, ["0"], rows=8) as seen:
        for _ in range(200):
            model(x)
    frame: Any = seen.frame()
    assert len(frame) <= 8
    assert seen.every == 32
    assert (frame.step % seen.every == 0).all()


def test_quantiles_are_of_a_bounded_sample():
    model = nn.Sequential(nn.Linear(1, 3 * SAMPLE))
    with record(model) as seen:
        h = model(torch.randn(3, 1)).detach()
    (row,) = seen
    assert row["count"] == h.numel()
    even = h.flatten()[:: -(-h.numel() // SAMPLE)]
    assert len(even) <= SAMPLE
    assert row["q50"] == pytest.approx(float(even.quantile(0.5)), rel=1e-12)  # float64
    assert row["q50"] != pytest.approx(float(h.quantile(0.5)), rel=1e-12)


def test_nonfinite_values_are_counted_and_left_out():
    model = nn.Sequential(nn.Identity())
    with record(model) as seen:
        model(torch.tensor([[1.0, math.nan, math.inf, 3.0]]))
        model(torch.full((1, 4), math.nan))
    first, second = seen.frame().to_dict("records")
    assert (first["nonfinite"], first["mean"]) == (2, 2.0)
    assert second["nonfinite"] == 4
    assert math.isnan(second["mean"])


@pytest.mark.parametrize("exponent", range(-38, 39))
def test_small_and_large_float32_numbers_are_summed_up_as_in_float64(exponent):
    a = (10.0**exponent * (torch.rand(31, 7) * 4 - 1)).float()  # up to 3e38
    a[0] = 0
    row, wide = summary(a), a.double()  # whose squares are all in range
    exact = {"mean": wide.mean(), "std": wide.std(correction=0), "norm": wide.norm()}
    for name, value in exact.items():
        assert row[name] == pytest.approx(float(value), rel=1e-5, abs=0)
    assert row["q25"] == pytest.approx(float(wide.quantile(0.25)), rel=1e-5, abs=0)
    s = torch.linalg.svdvals(wide)
    assert stable_rank(a) == pytest.approx(float(s.square().sum() / s[0] ** 2), rel=1e-5)
    assert mean_cosine(a) == pytest.approx(mean_cosine(wide), rel=1e-4)


def test_drift_of_small_and_large_float32_numbers_is_that_of_float64():
    x = torch.randn(2, 9, 4)
    for scale in (1e-30, 1.0, 1e30):
        found = []
        for dtype in (torch.float32, torch.float64):
            with record(nn.Identity(), also=["drift"]) as seen:
                for batch in x:
                    seen.model((scale * batch).float().to(dtype))
            found.append(seen.frame().iloc[1][["drift_mean", "drift_var"]].tolist())
        assert found[0] == pytest.approx(found[1], rel=1e-5, abs=0)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 3e38, 1e-45, 0.0])
def test_no_value_stops_a_training_that_is_recorded(value):
    model = nn.Sequential(nn.Identity())
    with record(model, also=["rank", "cosine", "drift"]) as seen:
        model(torch.ones(4, 3))
        model(torch.tensor([[1.0, 1.0, 1.0], [1.0, value, 1.0]]).float())
        model(torch.zeros(0, 3))
    row = seen.frame().iloc[1]
    assert math.isnan(row["rank"]) == math.isnan(row["cosine"]) == (not math.isfinite(value))


def test_dead_units_are_those_zero_in_all_cases():
    model = nn.Sequential(nn.Identity())
    with record(model) as seen:
        model(torch.tensor([[0.0, 0.0, 1.0, 2.0], [0.0, 5.0, 1.0, 2.0]]))
    row = seen.frame().iloc[0]
    assert row["dead"] == 0.25
    assert row["zeros"] == pytest.approx(3 / 8)


def test_units_of_a_picture_are_its_channels():
    x = torch.rand(2, 3, 4, 5)
    x[:, 1] = 0
    x[0, :, :, 2] = 0  # columns of pixels are no units
    model = nn.Sequential(nn.Identity())
    with record(model, also=["drift", "rank"]) as seen:
        model(x)
        model(x + torch.tensor([1.0, 2, 3]).view(3, 1, 1))
    first, second = seen.frame().to_dict("records")
    assert first["dead"] == pytest.approx(1 / 3)
    assert second["drift_mean"] == pytest.approx(2)
    s = torch.linalg.svdvals(x.movedim(1, -1).reshape(-1, 3))
    assert first["rank"] == pytest.approx(float(s.square().sum() / s[0] ** 2))


def test_a_way_back_belongs_to_the_step_of_its_way_there():
    model, x = net(), torch.randn(2, 5)
    with record(model, ["0"], ["gradients"], every=2) as seen:
        model(x)
        second, third = model(x), model(2 * x)
        (second + third).sum().backward()
    frame: Any = seen.frame()
    (step,) = frame[frame.name == "0"].step
    assert step == 2


def test_nobody_listens_after_leaving():
    model, x = net(), torch.randn(2, 5)
    with record(model, ["0"], ["activations", "gradients"]) as seen:
        y = model(x)
    y.sum().backward()
    assert list(seen.frame().what) == ["activations"]


def test_one_name_needs_no_list():
    model = net()
    with record(model, "2", "gradients", also="drift") as seen:
        train(model, torch.randn(2, 5))
    frame: Any = seen.frame()
    assert set(frame.name) == {"2", "2.weight", "2.bias"}
    assert "drift_mean" in frame


def test_a_part_that_is_called_twice_and_one_that_returns_several():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.pair = nn.Linear(5, 5), nn.LSTM(5, 4)

        def forward(self, x):
            return self.pair(self.part(self.part(x)))[0]

    model = Twice()
    with record(model, ["part", "pair"]) as seen:
        model(torch.randn(3, 5))
    frame: Any = seen.frame()
    assert list(frame[frame.name == "part"].call) == [0, 1]
    assert set(frame[frame.name != "part"].name) == {"pair[0]", "pair[1]", "pair[2]"}


def test_a_resumed_recorder_goes_on():
    model, x = net(), torch.randn(2, 5)
    with record(model, ["0"], every=2) as seen:
        for _ in range(4):
            model(x)
    again = record(model, ["0"], every=2)
    again.load_state_dict(seen.state_dict())
    with again:
        model(x)
        model(x)
    assert list(again.frame().step) == [2, 4, 6]


def test_parts_are_chosen_by_name_class_or_predicate():
    model = net()
    assert set(chosen(model, None)) == {"0", "1", "2"}
    assert set(chosen(model, [nn.Linear])) == {"0", "2"}
    assert set(chosen(model, lambda name, part: name == "1")) == {"1"}
    with pytest.raises(ValueError, match="no part 7; there are: , 0, 1, 2"):
        chosen(model, ["7"])
    with pytest.raises(ValueError, match="chooses nothing"):
        chosen(model, [nn.LSTM])


@pytest.mark.parametrize(
    "wrong",
    [{"what": ["weights"]}, {"also": ["ranks"]}, {"what": []}, {"every": 0}, {"rows": 1}],
)
def test_what_does_not_exist_is_refused(wrong):
    with pytest.raises(ValueError, match=r"choose from|give at least"):
        record(net(), **wrong)


def test_drift_is_how_far_the_moments_of_units_have_moved():
    model = nn.Sequential(nn.Identity())
    first, second = torch.randn(2, 9, 4)
    with record(model, every=2, also=["drift"]) as seen:
        for x in (first, first, second, second):
            model(x)
    rows: Any = seen.frame().to_dict("records")
    start, moved = rows
    assert math.isnan(start["drift_mean"])
    assert math.isnan(start["drift_var"])
    assert moved["since"] == 2
    by_hand = (second.mean(0) - first.mean(0)).abs().mean()
    assert moved["drift_mean"] == pytest.approx(float(by_hand))
    by_hand = (second.var(0, correction=0) - first.var(0, correction=0)).abs().mean()
    assert moved["drift_var"] == pytest.approx(float(by_hand))


def test_a_resumed_recorder_remembers_the_moments():
    model, x = nn.Sequential(nn.Identity()), torch.randn(2, 9, 4)
    with record(model, also=["drift"]) as seen:
        model(x[0])
    again = record(model, also=["drift"])
    again.load_state_dict(seen.state_dict())
    for recorder in (seen, again):
        with recorder:
            model(x[1])
    frame: Any = again.frame()
    assert frame.equals(seen.frame())
    assert (frame["drift_mean"].dropna() > 0).all()


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (3, 3, 4)])
def test_stable_rank_is_that_of_the_singular_values(shape):
    model, x = nn.Sequential(nn.Identity()), torch.randn(shape)
    with record(model, also=["rank", "cosine"]) as seen:
        model(x)
    A = x.reshape(-1, shape[-1])
    s = torch.linalg.svdvals(A)
    rows: Any = seen.frame().to_dict("records")
    (row,) = rows
    assert row["rank"] == pytest.approx(float(s.square().sum() / s[0] ** 2))
    cosines = torch.corrcoef(torch.cat([A, -A], dim=1))  # rows of mean 0: cosines
    off = cosines[~torch.eye(len(A), dtype=torch.bool)]
    assert row["cosine"] == pytest.approx(float(off.mean()))


def test_two_cases_have_one_cosine_and_a_lone_one_has_none():
    assert mean_cosine(torch.tensor([[1.0, 0.0], [3.0, 4.0]])) == pytest.approx(0.6)
    assert math.isnan(mean_cosine(torch.ones(1, 2)))
    for tiny in (1e-14, 1e-30):
        assert mean_cosine(torch.tensor([[tiny, 0.0], [tiny, 0.0]])) == pytest.approx(1)


def test_rank_and_cosine_at_their_ends():
    alike = torch.outer(torch.rand(5) + 1, torch.randn(3))
    assert stable_rank(alike) == pytest.approx(1)
    assert mean_cosine(alike) == pytest.approx(1)
    assert stable_rank(torch.eye(3)) == pytest.approx(3)
    assert mean_cosine(torch.eye(3)) == pytest.approx(0, abs=1e-15)
    assert mean_cosine(torch.tensor([[1.0, 0], [0, 0], [1, 0]])) == pytest.approx(1 / 3)
    for nothing in (torch.zeros(2, 3), torch.full((2, 3), torch.nan)):
        assert math.isnan(stable_rank(nothing))
    assert math.isnan(mean_cosine(torch.ones(1, 3)))


def test_what_is_seen_goes_out_as_a_table(tmp_path):
    model = net()
    with record(model, what=["activations", "gradients"], also=["drift"]) as seen:
        train(model, torch.randn(4, 5), steps=3)
    seen.frame().to_csv(tmp_path / "seen.csv", index=False)
    again = pd.read_csv(tmp_path / "seen.csv", dtype={"name": str})
    pd.testing.assert_frame_equal(again, seen.frame(), rtol=1e-15)  # pandas reads fast


def test_a_stack_of_several_is_refused_and_of_one_is_heard():
    x = torch.randn(2, 4, 5)
    with record(stack([net()]), ["module.0"]) as seen:
        pass
    model = stack([net()])
    with record(model, ["module.0"]) as seen:
        model(x[:1])
    assert len(seen.frame()) == 1
    several = stack([net(), net()])
    with (
        record(several, ["module.0"]),
        pytest.raises(ValueError, match="unstack"),
    ):
        several(x)
