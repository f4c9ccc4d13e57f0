"""Norms are compared from the same start on the same batches, or not at all."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import lnlab
from lnlab.nn import Identity, LayerNorm, Linear, WeightNorm
from lnlab.training import comparison

X = torch.randn(120, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
QUICK = {"seeds": 3, "updates": 20, "batch_size": 8, "device": "cpu"}


def build(norm_layer):
    return nn.Sequential(
        nn.Linear(6, 8), norm_layer(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2)
    )


class Mine(nn.LayerNorm):
    """A user's own norm, which draws random numbers."""

    def __init__(self, units):
        super().__init__(units)
        nn.init.normal_(self.weight, 1.0, 0.01)


NORMS = {"LN": nn.LayerNorm, "mine": Mine}


def test_the_same_norm_twice_is_the_plain_loop_and_differs_by_nothing():
    norms = {"a": nn.LayerNorm, "b": nn.LayerNorm, "ours": partial(LayerNorm, eps=1e-5)}
    result = lnlab.compare(build, norms, (X, Y), **QUICK)
    assert torch.equal(result.losses["a"], result.losses["b"])
    assert result.losses["a"].shape == (3, 20)
    assert result.differences()["b"] == ([0.0] * 3, (0.0, 0.0))
    values, _ = result.differences()["ours"]
    assert values == pytest.approx([0.0] * 3, abs=1e-3), "LayerNorm is torch's but for rounding"
    arms = {("a", 0.0): nn.LayerNorm}
    (model,) = comparison._paired_models(build, arms, 1, torch.device("cpu"))
    batches = comparison._endless_batches((X.double(), Y), 8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    noise = comparison.IsolatedTorchRandomState("noise of seed 1", torch.device("cpu"))
    for (x, y), loss in zip(batches, result.losses["a"][1], strict=False):
        with noise:  # of the dropout
            optimizer.zero_grad()
            value = F.cross_entropy(model(x), y)
            value.backward()
            optimizer.step()
        assert loss.item() == value.item()


def test_all_norms_begin_with_the_same_weights():
    class Drawing(Identity):
        def __init__(self, units):
            super().__init__(units)
            torch.randn(units)

    def two_layers(norm_layer):
        return nn.Sequential(Linear(6, 8, norm_layer), nn.ReLU(), Linear(8, 2, norm_layer))

    norms = {"none": Identity, "drawing": Drawing, "weight": WeightNorm}
    losses = lnlab.compare(two_layers, norms, (X, Y), **QUICK).losses
    assert torch.equal(losses["drawing"], losses["none"])
    # its gain begins as the length of the weights, and then is trained
    torch.testing.assert_close(losses["weight"][:, 0], losses["none"][:, 0])
    assert (losses["weight"][:, -1] - losses["none"][:, -1]).abs().min() > 1e-4
    assert losses["none"][:, 0].unique().numel() == 3, "another seed, other weights"


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_loader_gives_all_norms_the_same_batches(shuffle):
    seen = []

    def build(norm_layer):
        net = nn.Sequential(norm_layer(6), nn.Linear(6, 2))
        net.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        return net

    torch.manual_seed(5)
    before = torch.get_rng_state()
    loader = DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=shuffle)
    norms, settings = {"a": nn.LayerNorm, "b": nn.LayerNorm}, {"seeds": (4, 9), "updates": 10}
    result = lnlab.compare(build, norms, loader, **settings, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(result.losses["a"], result.losses["b"])
    pairs = list(zip(seen[::2], seen[1::2], strict=True))
    assert len(pairs) == 20
    assert all(torch.equal(one, other) for one, other in pairs)
    # another seed, another order
    assert torch.equal(pairs[0][0], pairs[10][0]) == (not shuffle)


def test_inputs_may_be_several_and_data_may_be_lnlabs():
    class Two(nn.Module):
        def __init__(self, norm_layer):
            super().__init__()
            self.norm, self.layer = norm_layer(6), nn.Linear(6, 2)

        def forward(self, a, b):
            return self.layer(self.norm(a + b))

    for x in ((X, X), {"a": X, "b": X}):
        assert len(lnlab.compare(Two, NORMS, (x, Y), **QUICK).to_frame()) == 2

    def digits(norm_layer):
        return nn.Sequential(nn.Linear(64, 8), norm_layer(8), nn.ReLU(), nn.Linear(8, 10))

    data = lnlab.data.load("embedded")
    norms = {"none": lambda units: nn.Identity(), "LN": LayerNorm}
    result = lnlab.compare(digits, norms, data, **QUICK | {"updates": 60})
    assert (result.losses["LN"][:, -1] < result.losses["LN"][:, 0]).all()


def test_each_norm_has_its_best_rate_and_all_may_diverge():
    rates = {"learning_rate": (1e-6, 1e-2, 1e30), "optimizer": torch.optim.SGD}
    result = lnlab.compare(build, NORMS, (X, Y), **QUICK, **rates)
    assert result.learning_rates == {"LN": 1e-2, "mine": 1e-2}
    assert "of the given rates" not in str(result)
    at_edge = lnlab.compare(build, NORMS, (X, Y), **QUICK, learning_rate=(1e-7, 1e-4))
    edge = "lowest or highest of the given rates: LN, mine"
    assert str(at_edge).splitlines()[-1] == edge
    linear = {"a": lambda units: nn.Identity(), "b": lambda units: nn.Identity()}
    rates["learning_rate"] = (1e30, 1e35)
    with pytest.raises(ValueError, match="with 'a' every learning rate diverges: give lower"):
        lnlab.compare(build, linear, (X, Y), **QUICK, **rates)
    rates["learning_rate"] = 1e35
    result = lnlab.compare(build, linear, (X, Y), **QUICK, **rates)
    assert all(map(math.isnan, result.differences()["b"][1]))


def test_the_result_is_a_table_a_figure_and_a_page(tmp_path):
    result = lnlab.compare(build, NORMS, (X, Y), **QUICK)
    legend = f"difference from LN, 95 % interval over {len(result.seeds)} seeds; training loss"
    assert str(result).splitlines()[-1] == legend
    table = result.to_frame()
    assert table["norm"].tolist() == ["LN", "mine"]
    assert table["difference"].isna().tolist() == [True, False]
    low, difference, high = table.loc[1, ["low", "difference", "high"]]
    assert low < difference < high
    assert difference == pytest.approx(table["final_loss"][1] - table["final_loss"][0])
    last = result.losses["mine"][:, -4:].mean(1)
    assert torch.equal(result.final_losses["mine"], last)
    figure = result.plot()
    assert {trace.name for trace in figure.data if trace.name} == {"LN", "mine"}
    assert len(result.plot_differences().data) == 2
    assert result.save(tmp_path / "page.html").stat().st_size > 1000


def test_an_interrupted_comparison_keeps_the_seeds_that_are_finished(capsys):
    calls = []

    def loss_fn(output, y):
        calls.append(1)
        if len(calls) == 2 * 20 * 2 + 7:  # in the third seed
            raise KeyboardInterrupt
        return F.cross_entropy(output, y)

    result = lnlab.compare(build, NORMS, (X, Y), **QUICK, loss_fn=loss_fn)
    assert result.seeds == (0, 1)
    assert result.losses["LN"].shape == (2, 20)
    assert "interrupted, 2 of 3 seeds" in capsys.readouterr().out
    calls[:] = [1] * (2 * 20 + 20)  # in the second: one seed has no interval
    with pytest.raises(KeyboardInterrupt):
        lnlab.compare(build, NORMS, (X, Y), **QUICK, loss_fn=loss_fn)


def wider(norm_layer):
    norm = norm_layer(8)
    return nn.Sequential(nn.Linear(6, 8 if type(norm) is nn.LayerNorm else 9), norm)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"build": wider}, ValueError, r"0\.weight is \(8, 6\) with 'LN' and \(9, 6\)"),
        ({"build": lambda norm: nn.Linear(6, 2)}, ValueError, "no module of norm_layer"),
        ({"norms": {"LN": nn.LayerNorm}}, ValueError, r"norms are \['LN'\]: give two"),
        ({"norms": ["LN", "BN"]}, TypeError, "norms is of class list: give norms by name"),
        (
            {"norms": NORMS | {"mine": "LN"}},
            TypeError,
            r"norms\['mine'\] is 'LN': give a class",
        ),
        ({"loss_fn": None}, TypeError, "loss_fn is None: give a function"),
        ({"seeds": 1}, ValueError, r"seeds are \[0\]: give two"),
        ({"data": iter([(X, Y)])}, TypeError, "data is list_iterator: give tensors"),
    ],
)
def test_what_cannot_be_paired_is_refused_in_words(arguments, error, message):
    given = {"build": build, "norms": NORMS, "data": (X, Y), **QUICK}
    with pytest.raises(error, match=message):
        lnlab.compare(**given | arguments)
