"""Modules of any make have the rows of Table 1, and what breaks an invariance is named."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.inputs import Call
from lnlab.analysis.invariances import Grade, check_invariances
from lnlab.nn import Conv2d, DyT, LayerNorm, Linear
from lnlab.nn.table1 import ROWS, BatchNormStatisticsSource, DenseOrConv

D, H, B = 7, 12, 8
MODE = {
    BatchNormStatisticsSource.FROZEN: "running",
    BatchNormStatisticsSource.RECOMPUTED: "recomputed",
}


def randomized(module: nn.Module) -> nn.Module:
    """Gains and biases that are not 1 and 0; every eps as good as 0."""
    for part in module.modules():
        if isinstance(getattr(part, "eps", None), float):
            vars(part)["eps"] = 1e-300  # torch's BatchNorm refuses 0
        for name in ("weight", "bias", "g", "b"):
            p = getattr(part, name, None)
            if isinstance(p, nn.Parameter) and p.dim() == 1:
                nn.init.uniform_(p, 0.5, 1.5)
    return module


def agrees(module: nn.Module, x: torch.Tensor, weight: str, row: str, mode: str = "") -> None:
    """Every cell of the report is that of the row."""
    report = check_invariances(randomized(module), x)
    for v in report.invariances:
        if v.where in ("x", weight) and (not mode or v.mode == mode):
            claimed = ROWS[row].claims_invariance(v.column)
            assert (v.grade is Grade.EXACT) == claimed, (v.where, v.column, v.mode, str(v))
            assert claimed or v.grade is Grade.BROKEN, (v.column, str(v))
    found = {v.column for v in report.invariances if not mode or v.mode == mode}
    assert found >= set(range(1, 7)) | {9, 10}


def dense(norm: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, H, bias=False), norm).double()


@pytest.mark.parametrize(
    ("norm", "row", "mode"),
    [
        (nn.LayerNorm(H), "layer", ""),
        (nn.RMSNorm(H, eps=0.0), "rms", ""),
        (nn.GroupNorm(4, H), "group", ""),
        (nn.BatchNorm1d(H), "batch", "train"),
        (nn.BatchNorm1d(H), "batch, frozen", "running"),
        (nn.BatchNorm1d(H), "batch, recomputed", "recomputed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_torchs_normalizers_get_their_rows(norm, row, mode):
    agrees(dense(norm), torch.randn(B, D), "0.weight", row, mode)


# The one-case-at-a-time row is no module; eps of WeightStandardization would be of no use here.
@pytest.mark.parametrize(
    "name", [name for name, row in ROWS.items() if row.examples_normalized_together is None]
)
def test_our_layers_get_their_rows(name):
    row = ROWS[name]
    if row.layer_kind is DenseOrConv.DENSE:
        layer, x = Linear(D, H, row.norm_factory), torch.randn(B, D)
    else:
        norm = partial(row.norm_factory, space=2)
        padding = 1 if row.layer_kind is DenseOrConv.PADDED else 0
        layer, x = Conv2d(D, H, 3, norm, padding=padding), torch.randn(B, D, 6, 6)
    if name == "recurrent batch":
        layer = AtStep0(layer)
    weight = "layer.W" if isinstance(layer, AtStep0) else "W"
    with_statistics = "batch" in name
    mode = MODE.get(row.statistics_source, "train") if with_statistics else ""
    agrees(layer, x, weight, name, mode)


class AtStep0(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, 0)


# Eps and the bias inside: how far, with what law, and what is to blame.


def test_eps_is_approximate_with_its_knee():
    eps = 1e-6
    layer, x = Linear(D, H, partial(LayerNorm, eps=eps)), torch.randn(B, D)
    v = next(v for v in check_invariances(layer, x).invariances if v.column == 1)
    assert v.grade is Grade.APPROXIMATE
    assert v.exact_without == "eps"
    var = (x @ layer.W.detach().T).var(1, correction=0)
    knees = (eps / var).sqrt()
    # The defect weighs each case by its largest output.
    assert float(knees.min()) < v.knee_delta < 1.2 * float(knees.max())
    largest = max(defect for delta, defect in v.curve if delta > 1)
    assert largest < v.defect * 1.5
    assert largest < 1e-4
    below, above = (dict(v.curve)[delta] for delta in (1e-12, 1e3))
    assert below > 0.9 > 1e-4 > above


def test_a_small_dependence_on_other_examples_is_a_break():
    net = nn.Sequential(nn.Linear(D, H), nn.BatchNorm1d(H), nn.Linear(H, 2))
    with torch.no_grad():
        net[1].weight *= 1e-3  # the bias of the last layer is most of the output
    report = check_invariances(net, torch.randn(64, D), columns=[11], modes="train")
    (v,) = report.invariances
    assert 1e-6 < v.defect < 0.05
    assert v.grade is Grade.BROKEN


def test_a_bias_inside_is_named():
    norm = nn.LayerNorm(H, eps=0.0)
    net = nn.Sequential(nn.Linear(D, H), norm)
    v = next(v for v in check_invariances(net, torch.randn(B, D)).invariances if v.column == 1)
    assert v.grade is Grade.BROKEN
    assert v.exact_without == "bias inside"
    norm.eps = 1e-5
    v = next(v for v in check_invariances(net, torch.randn(B, D)).invariances if v.column == 1)
    assert v.exact_without == "eps and bias inside"


# A ReLU that is shut.


@pytest.mark.parametrize("f", [nn.ReLU(inplace=True), lambda a: a.clamp(min=0), torch.relu])
def test_shut_units_are_seen_whatever_shuts_them(f):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.squash = nn.Linear(D, H, bias=False), DyT(H)
            nn.init.constant_(self.squash.b, -5)

        def forward(self, x):
            return f(self.squash(self.dense(x)))

    report = check_invariances(Net(), torch.randn(B, D), columns=[2])
    (v,) = (v for v in report.invariances if v.where == "dense.weight")
    assert (v.grade, v.activations_grade) == (Grade.NOT_JUDGED, Grade.BROKEN)
    assert "12 of 12 units are shut (constant) for all examples, at" in str(report)
    assert list(report.dead_and_all_units.values()) == [(H, H)]


# What modules do and people give.


@pytest.mark.parametrize("seed", [0, 5])
def test_rounding_of_a_large_shift_inside_is_no_change(seed):
    torch.manual_seed(seed)
    norms = nn.GroupNorm(2, 8), nn.GroupNorm(2, 8)
    convolutions = nn.Conv2d(2, 8, 3), nn.Conv2d(8, 8, 3)
    layers = zip(convolutions, norms, (nn.ReLU(), nn.ReLU()), strict=True)
    net = nn.Sequential(*[part for layer in layers for part in layer], nn.Flatten())
    net.append(nn.Linear(8 * 4 * 4, 3))
    report = check_invariances(net, 1e-3 * torch.randn(6, 2, 8, 8), columns=[7])
    grades = {each.where: each.grade for each in report.invariances}
    assert grades["0.weight"] is Grade.EXACT
    assert grades["3.weight"] is Grade.EXACT


def test_a_precision_that_the_module_cannot_compute_in_is_said():
    class SinglePrecision(nn.Module):
        def __init__(self):
            super().__init__()
            self.W = [torch.randn(H, D, dtype=torch.float32)]  # no parameter, no buffer

        def forward(self, x):
            return x @ self.W[0].T

    x = torch.randn(B, D, dtype=torch.float32)
    assert (
        check_invariances(SinglePrecision(), x, dtype=torch.float32).output_dtype == "float32"
    )
    with pytest.raises(ValueError, match=r"in torch\.float64.*give dtype=torch\.float32"):
        check_invariances(SinglePrecision(), x)


class Returns(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def test_errors_say_what_to_do():
    linear, x = nn.Linear(3, 2), torch.randn(2, 3)
    for net, inputs, settings, error, message in (
        (Returns(lambda x: "no tensor"), x, {}, TypeError, "give select_output="),
        (Returns(lambda x: x.argmax(1)), x, {}, ValueError, "floating point"),
        (linear, torch.full((2, 3), math.nan), {}, ValueError, "^x is nan at"),
        (linear, torch.randn(2, 4), {}, ValueError, r"Linear does not take .*\(2, 4\)"),
        (linear, x, {"weights": ["W"]}, ValueError, "there are weight"),
        (linear, x, {"modes": "train"}, ValueError, r"the model has \['evaluation'\]"),
        (nn.Embedding(5, 2), torch.tensor([1, 2]), {}, ValueError, "after the embedding"),
    ):
        with pytest.raises(error, match=message):
            check_invariances(net, inputs, **settings)


def test_nothing_is_blamed_for_what_only_the_smallest_scales_show():
    net = nn.utils.spectral_norm(nn.Linear(D, H))
    report = check_invariances(net, torch.randn(B, D), columns=[1], modes="train")
    assert [v.exact_without for v in report.invariances if v.column == 1] == [""]


def test_outputs_that_are_rounding_are_not_judged():
    net = nn.Sequential(dense(nn.GroupNorm(H, H)), nn.Linear(H, 2))
    with pytest.raises(ValueError, match=r"which is rounding.*statistic over one value"):
        check_invariances(net, torch.randn(B, D))


def test_an_input_that_nothing_depends_on_is_said():
    net = dense(nn.LayerNorm(H))
    nn.init.zeros_(net[0].weight)
    report = check_invariances(net, torch.randn(B, D))
    assert {v.where for v in report.invariances} == {"0.weight"}
    assert report.reasons_not_tried["x"] == "nothing that can be seen depends on it"
    assert report.reasons_not_tried["0.weight W → δW"] == "it changes nothing: 0.weight is 0"
    assert {v.column for v in report.invariances} == {2, 7, 8, 10}


@pytest.mark.parametrize(
    ("norm", "grades"),
    [
        (nn.LayerNorm(H), {"evaluation": Grade.EXACT}),
        (nn.BatchNorm1d(H), {"train": Grade.BROKEN, "running": Grade.EXACT}),
    ],
)
def test_only_statistics_of_the_batch_depend_on_the_other_examples(norm, grades):
    report = check_invariances(dense(norm), torch.randn(B, D), columns=11)
    assert {v.mode: v.grade for v in report.invariances} == grades
    assert not report.reasons_not_tried


# How it is read.


def test_it_prints_escapes_names_and_draws():
    net = nn.Sequential()
    net.add_module("<img src=x>", nn.Linear(D, H, bias=False))
    net.add_module("norm", nn.BatchNorm1d(H, eps=1e-300))
    report = check_invariances(net, torch.randn(B, D), columns=[1, 2, 3])
    first, _, *table = str(report).splitlines()
    assert first == "Sequential of x (8, 7): 4 of 9 invariances are exact, 5 broken in float64."
    assert max(map(len, table)) <= 100
    assert all(any(v.formula in line for line in table) for v in report.invariances)
    assert "&lt;img src=x&gt;" in report._repr_html_()
    assert set(report.to_frame()["mode"]) == {"train", "running", "recomputed"}
    assert len(report.plot().data) == 2  # of shifts there is one size, and no curve


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (lambda: Linear(D, H, partial(LayerNorm, eps=1e-6)), "knee δ: below it"),
        (lambda: nn.Linear(D, H), "inside, not judged: "),
    ],
)
def test_words_of_its_table_are_explained_where_they_occur(layer, words):
    report = check_invariances(layer(), torch.randn(B, D), columns=1)
    other = check_invariances(nn.Sequential(nn.Linear(D, H), nn.Tanh()), torch.randn(B, D))
    for explained, plain in (
        (str(report), str(other)),
        (report._repr_html_(), other._repr_html_()),
    ):
        assert words in explained
        assert words not in plain


@pytest.mark.parametrize("form", [tuple, dict, Call])
def test_a_module_of_several_inputs_has_the_invariances_of_the_first(form):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 6, bias=False)

        def forward(self, index, x, scale):
            return F.layer_norm(self.layer(x), (6,), eps=0.0) * scale + index

    index, x, scale = torch.arange(4)[:, None], torch.randn(4, 5), torch.rand(4, 1)
    inputs = {
        tuple: (index, x, scale),
        dict: {"index": index, "x": x, "scale": scale},
        Call: Call(index, x, scale=scale),
    }[form]
    report = check_invariances(Scaled(), inputs)
    assert report.input_shape == (4, 5)
    exact = {(v.where, v.column) for v in report.invariances if v.grade is Grade.EXACT}
    assert {("layer.weight", 1), ("layer.weight", 2), ("x", 4), ("x", 6)} <= exact
    assert ("x", 5) not in exact
