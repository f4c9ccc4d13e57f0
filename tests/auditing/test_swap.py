"""An exchange says what it changes, changes nothing before, and moves across what it can."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.auditing import paired, swap
from lnlab.nn import BatchNorm, DyT, LayerNorm, RMSNorm
from lnlab.training import Batches


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3),
        nn.BatchNorm2d(16), nn.Flatten(), nn.LazyLinear(2),
    )  # fmt: skip


@pytest.fixture
def pictures():
    return torch.randn(4, 3, 6, 6)


@pytest.fixture
def net(pictures, drawn):
    module = convolutional()
    module(pictures)
    return drawn(module)


def test_plan_says_what_is_kept_lost_and_fresh():
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, eps=1e-3))
    plan = swap(net, {"1": DyT})
    (one,) = plan.exchanges
    assert one.kept == {"g": "weight", "b": "bias"}
    assert one.fresh == {"alpha": ()}
    assert not one.lost
    assert plan.parameters == (28, 29)
    (one,) = swap(net, {nn.LayerNorm: RMSNorm}).exchanges
    assert one.lost == {"bias": (4,)}
    assert "eps=0.001" in one.new
    assert isinstance(net[1], nn.LayerNorm)


def test_same_normalizer_elsewhere_is_the_same_function(net, pictures):
    plan = swap(net, {nn.BatchNorm2d: BatchNorm}, pictures)
    new = plan.make()
    torch.testing.assert_close(new(pictures), net(pictures))
    torch.testing.assert_close(new.eval()(pictures), net.eval()(pictures))
    assert plan.moved is not None
    assert plan.moved < 1e-12


@pytest.mark.parametrize(("new", "torchs"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
def test_a_norm_over_several_axes_stays_over_them(new, torchs):
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), torchs((8, 4, 4), eps=1e-5), nn.ReLU())
    for kind in (new, torchs):
        plan = swap(net, {torchs: kind}, torch.randn(4, 3, 4, 4))
        assert plan.moved is not None
        assert plan.moved < 1e-12


def test_default_groups_have_four_members_at_least(net, pictures):
    new = swap(net, {nn.BatchNorm2d: nn.GroupNorm}, pictures).make()
    assert new[1].num_groups == 4
    torch.testing.assert_close(new[1].weight, net[1].weight)
    one = swap(net, {nn.BatchNorm2d: partial(nn.GroupNorm, 1)}).make()
    ours = swap(net, {nn.BatchNorm2d: LayerNorm}).make()
    torch.testing.assert_close(one(pictures), ours(pictures))


def test_names_go_before_classes(net):
    plan = swap(net, {nn.BatchNorm2d: LayerNorm, "4": nn.Identity})
    assert [type(plan.make()[i]) for i in (1, 4)] == [LayerNorm, nn.Identity]


def test_function_makes_the_new_part(net):
    def frozen(old):
        return nn.BatchNorm2d(old.num_features, affine=False)

    plan = swap(net, {nn.BatchNorm2d: frozen})
    assert plan.exchanges[0].lost == {"weight": (16,), "bias": (16,)}
    assert plan.exchanges[0].kept["running_mean"] == "running_mean"


def test_checkpoint_of_the_old_module_fits_the_new(net, pictures, drawn):
    plan = swap(net, {nn.BatchNorm2d: LayerNorm})
    other = drawn(deepcopy(net))
    state = plan.state_dict(other.state_dict())
    new = plan.make()
    new.load_state_dict(state)
    torch.testing.assert_close(new[1].g, other[1].weight)
    torch.testing.assert_close(new[3].weight, other[3].weight)
    with pytest.raises(KeyError, match="the state has no"):
        plan.state_dict({})


def test_root_itself_can_be_exchanged():
    new = swap(nn.LayerNorm(4), {nn.LayerNorm: RMSNorm}).make()
    assert isinstance(new, RMSNorm)


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
        ({"blocks.*": RMSNorm}, "fits no part"),
        ({nn.BatchNorm2d: nn.LayerNorm}, "units of BatchNorm2d stand along axis 1"),
        ({nn.BatchNorm2d: partial(nn.GroupNorm, 3)}, "cannot take the place"),
        ({nn.BatchNorm2d: lambda old: 3}, "no module"),
        ({nn.ReLU: RMSNorm}, "does not say how many units"),
        ({nn.Flatten: nn.Identity}, "with the new parts"),
    ],
)
def test_what_cannot_be_is_named(net, pictures, rules, error):
    with pytest.raises(ValueError, match=error):
        swap(net, rules, pictures)


class BatchNormAct2d(nn.BatchNorm2d):
    """As timm's: the activation is a part of the norm."""

    def __init__(self, units):
        super().__init__(units)
        self.act = nn.ReLU()

    def forward(self, input):
        return self.act(super().forward(input))


class LayerNorm2d(nn.LayerNorm):
    """As torchvision's: over the channels of a picture."""

    def forward(self, input):
        return super().forward(input.movedim(1, -1)).movedim(-1, 1)


class Named(nn.BatchNorm2d):
    """Another name, and the same function."""


@pytest.mark.parametrize("new", [partial(nn.GroupNorm, 1), LayerNorm, nn.Identity])
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (BatchNormAct2d, r"1: BatchNormAct2d is a subclass of nn\.BatchNorm2d .* \(act\)"),
        (LayerNorm2d, r"1: LayerNorm2d is a subclass of nn\.LayerNorm .* a forward of its own"),
    ],
)
def test_a_norm_that_does_more_is_exchanged_by_a_function_only(kind, why, new, pictures):
    net = nn.Sequential(nn.Conv2d(3, 16, 3), kind(16))
    for rule in (kind, "1"):
        with pytest.raises(ValueError, match=rf"{why}.*Give a function"):
            swap(net, {rule: new}, pictures)
    made = swap(net, {kind: lambda old: nn.Sequential(nn.GroupNorm(1, 16), nn.ReLU())}).make()
    assert made(pictures).min() == 0


def test_a_subclass_that_does_what_its_parent_does_is_exchanged(pictures):
    net = nn.Sequential(nn.Conv2d(3, 16, 3), Named(16))
    assert type(swap(net, {nn.BatchNorm2d: LayerNorm}, pictures).make()[1]) is LayerNorm


def test_rule_of_another_kind_is_refused(net):
    with pytest.raises(TypeError, match="is no rule"):
        swap(net, {3: RMSNorm})  # type: ignore[dict-item]


def test_prints_and_shows(net, pictures):
    plan = swap(net, {nn.BatchNorm2d: LayerNorm}, pictures)
    assert str(plan).startswith("2 parts exchanged; parameters")
    assert "g ← weight" in str(plan)
    assert ">g ← weight" in plan._repr_html_()


def perceptron():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))


CASES = {"updates": 12, "batch": 8, "seeds": (0, 1, 2)}


@pytest.fixture
def cases():
    return torch.randn(32, 4), torch.arange(32) % 3


def test_the_same_exchanged_for_itself_differs_by_nothing(cases):
    same = paired(perceptron, {nn.BatchNorm1d: BatchNorm}, *cases, F.cross_entropy, **CASES)
    torch.testing.assert_close(same.before, same.after)
    low, high = same.interval
    assert -1e-9 < low <= high < 1e-9


def test_pairs_share_start_and_batches_and_seeds_differ(cases):
    rules = {nn.BatchNorm1d: nn.LayerNorm}
    state = torch.get_rng_state()
    pair = paired(perceptron, rules, *cases, F.cross_entropy, **CASES)
    assert torch.equal(torch.get_rng_state(), state)
    again = paired(perceptron, rules, *cases, F.cross_entropy, **CASES)
    assert torch.equal(pair.before, again.before)
    assert torch.equal(pair.after, again.after)
    assert len({float(v) for v in pair.before[:, 0]}) == 3
    x, y = cases
    torch.manual_seed(1)
    first = perceptron()
    of_x, of_y = next(iter(Batches(x, y, 8, [1]).epoch(0)))
    by_hand = F.cross_entropy(first(of_x[0]), of_y[0]).detach()
    torch.testing.assert_close(pair.before[1, 0], by_hand)


def test_a_better_arm_is_called_better_and_each_has_its_rate(cases):
    def shut():
        net = perceptron()
        net[2] = nn.Threshold(1e9, 0.0)
        return net

    settings = CASES | {"updates": 60, "rates": (1e-9, 0.03)}
    rules = {nn.Threshold: lambda old: nn.Tanh()}
    found = paired(shut, rules, *cases, F.cross_entropy, **settings)
    assert found.rates == (0.03, 0.03)
    assert found.eta_seed == 3
    assert found.interval[1] < 0
    assert "better after the exchange" in str(found)
    assert "difference {:.2g} to {:.2g} by 3 seeds".format(*found.interval) in str(found)
    assert len(found.frame()) == 3


def test_divergence_says_nothing(cases):
    def infinite(y, _):
        return y.square().mean() * torch.inf

    rules = {nn.BatchNorm1d: nn.Identity}
    assert "diverged" in str(paired(perceptron, rules, *cases, infinite, **CASES))
    with pytest.raises(ValueError, match="every rate diverges"):
        paired(perceptron, rules, *cases, infinite, **CASES, rates=(0.1, 0.2))


def test_wrong_arguments_of_paired(cases):
    with pytest.raises(ValueError, match="two seeds"):
        paired(perceptron, {nn.BatchNorm1d: nn.Identity}, *cases, F.cross_entropy, seeds=(1,))
    rules, few = {nn.BatchNorm1d: nn.Identity}, [each[:16] for each in cases]
    with pytest.raises(
        ValueError, match="a batch is 32 cases, y has 16: give batch=16 or less"
    ):
        paired(perceptron, rules, *few, F.cross_entropy)
