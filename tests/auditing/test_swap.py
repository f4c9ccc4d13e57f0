"""A swap says what it changes, changes nothing before, and moves across what it can."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn

from lnlab.auditing import swap
from lnlab.nn import BatchNorm, DyT, LayerNorm, RMSNorm
from lnlab.training import compare
from tests.auditing.architectures import BatchNormAct2d, LayerNorm2d


@pytest.fixture
def images():
    return torch.randn(4, 3, 6, 6)


@pytest.fixture
def net(images, randomize):
    module = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3),
        nn.BatchNorm2d(16), nn.Flatten(), nn.LazyLinear(2),
    )  # fmt: skip
    module(images)
    return randomize(module)


def test_plan_lists_copied_lost_and_new_parameters():
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, eps=1e-3))
    plan = swap(net, {"1": DyT})
    (one,) = plan.replacements
    assert (one.copied_from, one.added_shapes, one.dropped_shapes) == (
        {"g": "weight", "b": "bias"},
        {"alpha": ()},
        {},
    )
    assert plan.parameter_counts == (28, 29)
    assert str(plan).startswith("1 part exchanged; parameters 28 → 29\npart  old ")
    assert plan.to_frame()["kept"].to_list() == ["g ← weight, b ← bias"]
    (one,) = swap(net, {nn.LayerNorm: RMSNorm}).replacements
    assert one.dropped_shapes == {"bias": (4,)}
    assert "eps=0.001" in one.new_repr
    assert isinstance(net[1], nn.LayerNorm)


def test_same_normalizer_elsewhere_is_the_same_function(net, images):
    plan = swap(net, {nn.BatchNorm2d: BatchNorm}, images)
    new = plan.make()
    torch.testing.assert_close(new(images), net(images))
    torch.testing.assert_close(new.eval()(images), net.eval()(images))
    assert plan.output_change < 1e-12


@pytest.mark.parametrize(("new", "torchs"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
def test_a_norm_over_several_axes_stays_over_them(new, torchs):
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), torchs((8, 4, 4), eps=1e-5), nn.ReLU())
    for kind in (new, torchs):
        assert swap(net, {torchs: kind}, torch.randn(4, 3, 4, 4)).output_change < 1e-12


def test_names_go_before_classes_and_functions_make_anything(net):
    def frozen(old):
        return nn.BatchNorm2d(old.num_features, affine=False)

    plan = swap(net, {nn.BatchNorm2d: frozen, "4": nn.Identity})
    assert [type(plan.make()[i]) for i in (1, 4)] == [nn.BatchNorm2d, nn.Identity]
    assert plan.replacements[0].dropped_shapes == {"weight": (16,), "bias": (16,)}
    assert plan.replacements[0].copied_from["running_mean"] == "running_mean"


def test_checkpoint_of_the_old_module_fits_the_new(net, randomize):
    plan = swap(net, {nn.BatchNorm2d: LayerNorm})
    other = randomize(deepcopy(net))
    new = plan.make()
    new.load_state_dict(plan.state_dict(other.state_dict()))
    torch.testing.assert_close(new[1].g, other[1].weight)
    torch.testing.assert_close(new[3].weight, other[3].weight)
    with pytest.raises(KeyError, match="the state has no"):
        plan.state_dict({})


def test_the_root_and_a_module_of_several_places():
    assert isinstance(swap(nn.LayerNorm(4), {nn.LayerNorm: RMSNorm}).make(), RMSNorm)
    shared = nn.LayerNorm(4)
    net = nn.Sequential(shared, nn.Linear(4, 4), shared)
    new = swap(net, {nn.LayerNorm: partial(RMSNorm, eps=1e-3)}, torch.randn(3, 4)).make()
    assert new[0] is new[2]
    assert new[0].eps == 1e-3


def test_batch_norm_over_time_gets_its_axis():
    net = nn.Sequential(nn.Conv1d(3, 8, 2), nn.BatchNorm1d(8))
    new = swap(net, {nn.BatchNorm1d: BatchNorm}, torch.randn(4, 3, 7)).make()
    assert new[1].space == 1
    new(torch.randn(4, 3, 7))


def test_transformer_calls_its_new_norms_in_evaluation():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net, x = nn.TransformerEncoder(layer, 2), torch.randn(3, 4, 8)
    new = swap(net, {nn.LayerNorm: LayerNorm}, x).make()
    with torch.no_grad():
        torch.testing.assert_close(new.eval()(x), net.eval()(x))
    swap(net, {nn.LayerNorm: nn.Identity}, x).make().eval()(x)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({nn.LayerNorm: RMSNorm}, "the rule LayerNorm fits no part"),
        ({nn.BatchNorm2d: nn.LayerNorm}, "units of BatchNorm2d stand along axis 1"),
        ({nn.BatchNorm2d: partial(nn.GroupNorm, 3)}, "cannot take the place"),
        ({nn.ReLU: RMSNorm}, "does not say how many units"),
        ({nn.Flatten: nn.Identity}, "with the new parts"),
    ],
)
def test_impossible_swaps_are_refused(net, images, rules, error):
    with pytest.raises((ValueError, TypeError), match=error):
        swap(net, rules, images)


class Named(nn.BatchNorm2d):
    """Another name, and the same function."""


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (BatchNormAct2d, r"BatchNormAct2d is a subclass of nn\.BatchNorm2d .* \(act\)"),
        (LayerNorm2d, r"LayerNorm2d is a subclass of nn\.LayerNorm .* a forward of its own"),
    ],
)
def test_a_norm_that_does_more_is_swapped_by_a_function_only(kind, why, images):
    net = nn.Sequential(nn.Conv2d(3, 16, 3), kind(16))
    for rules in ({kind: LayerNorm}, {"1": partial(nn.GroupNorm, 1)}, {kind: nn.Identity}):
        with pytest.raises(ValueError, match=rf"^1: .*{why}.*Give a function"):
            swap(net, rules, images)
    made = swap(net, {kind: lambda old: nn.Sequential(nn.GroupNorm(1, 16), nn.ReLU())}).make()
    assert made(images).min() == 0
    same = nn.Sequential(nn.Conv2d(3, 16, 3), Named(16))
    assert type(swap(same, {nn.BatchNorm2d: LayerNorm}).make()[1]) is LayerNorm


def test_a_swapped_network_is_trained_beside_the_old_one():
    def build(norm_layer):
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
        return swap(net, {nn.BatchNorm1d: lambda old: norm_layer(old.num_features)}).make()

    x, y = torch.randn(32, 4, dtype=torch.float64), torch.arange(32) % 3
    norms = {"torch": nn.BatchNorm1d, "ours": BatchNorm, "LN": nn.LayerNorm}
    losses = compare(build, norms, (x, y), seeds=2, updates=12, batch_size=8).losses
    torch.testing.assert_close(losses["torch"], losses["ours"])
    assert (losses["LN"] - losses["torch"]).abs().min() > 1e-6


class OnePlusGain(nn.Module):
    """RMSNorm that multiplies by 1 + weight, as Gemma's."""

    def __init__(self, units):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(units))

    def forward(self, x):
        return (1 + self.weight) * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def test_a_gain_of_one_plus_w_becomes_a_gain_of_w():
    net, x = nn.Sequential(nn.Linear(6, 8), OnePlusGain(8)), torch.randn(4, 6)
    nn.init.normal_(net[1].weight)
    plan = swap(net, {OnePlusGain: partial(nn.RMSNorm, eps=1e-6)}, x)
    assert "weight ← weight + 1" in str(plan)
    torch.testing.assert_close(plan.make()(x), net(x))
    loaded = plan.make()
    loaded.load_state_dict(plan.state_dict(net.state_dict()))
    torch.testing.assert_close(loaded(x), net(x))
    back = swap(loaded, {nn.RMSNorm: lambda old: OnePlusGain(8)}, x)
    torch.testing.assert_close(back.make()(x), net(x))
