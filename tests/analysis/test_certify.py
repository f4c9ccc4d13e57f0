import json
import math
import random
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import lnlab.analysis.certify
from lnlab.analysis.certificate import Grade, Invariance
from lnlab.analysis.certify import certify
from lnlab.analysis.random import uniform
from lnlab.nn import AdaNorm, Conv2d, DyT, LayerNorm, Linear, outside_root
from lnlab.nn.table1 import ROWS, Place, Statistics

D, H, B = 7, 12, 8
DOUBLE = (torch.float64,)
MODES = ("train", "frozen", "recomputed")
MODE = {Statistics.FROZEN: "frozen", Statistics.RECOMPUTED: "recomputed"}


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
    """Every cell of the certificate is that of the row."""
    certificate = certify(randomized(module), x, dtypes=DOUBLE)
    for v in certificate.invariances:
        if v.where in ("x", weight) and (not mode or v.mode == mode):
            claimed = ROWS[row].claims(v.column)
            assert (v.grade is Grade.EXACT) == claimed, (v.where, v.column, v.mode, str(v))
            assert claimed or v.grade is Grade.BROKEN, (v.column, str(v))
    found = {v.column for v in certificate.invariances if not mode or v.mode == mode}
    assert found >= set(range(1, 7)) | {9, 10}


def dense(norm: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, H, bias=False), norm).double()


@pytest.mark.parametrize(
    ("norm", "row"),
    [
        (nn.Identity(), "none"),
        (nn.LayerNorm(H), "layer"),
        (nn.RMSNorm(H, eps=0.0), "rms"),
        (nn.GroupNorm(4, H), "group"),
        (DyT(H), "dyt"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_torchs_normalizers_get_their_rows(norm, row):
    agrees(dense(norm), torch.randn(B, D), "0.weight", row)


@pytest.mark.parametrize(
    ("mode", "row"),
    [("train", "batch"), ("frozen", "batch, frozen"), ("recomputed", "batch, recomputed")],
)
def test_torchs_batch_norm_gets_a_row_for_each_mode(mode, row):
    agrees(dense(nn.BatchNorm1d(H)), torch.randn(B, D), "0.weight", row, mode)


def test_torchs_weight_and_spectral_norm_get_their_rows():
    weight_normed = parametrizations.weight_norm(nn.Linear(D, H, bias=False))
    agrees(weight_normed, torch.randn(B, D), "parametrizations.weight.original1", "weight")
    spectral = parametrizations.spectral_norm(nn.Linear(D, H, bias=False), eps=1e-40)
    agrees(
        spectral,
        torch.randn(B, D),
        "parametrizations.weight.original",
        "spectral",
        "evaluation",
    )


@pytest.mark.parametrize(
    ("norm", "row", "padding"),
    [
        (nn.BatchNorm2d(H), "batch, convolution", 0),
        (nn.BatchNorm2d(H), "batch, padded", 1),
        (nn.InstanceNorm2d(H), "instance", 0),
        (nn.InstanceNorm2d(H), "instance, padded", 1),
        (nn.GroupNorm(1, H), "layer, convolution", 0),
        (nn.GroupNorm(4, H), "group, convolution", 0),
    ],
    ids=lambda value: str(value) if isinstance(value, str | int) else "",
)
def test_torchs_normalizers_of_pictures_get_their_rows(norm, row, padding):
    net = nn.Sequential(nn.Conv2d(D, H, 3, padding=padding, bias=False), norm).double()
    mode = "train" if "batch" in row else ""
    agrees(net, torch.randn(B, D, 6, 6), "0.weight", row, mode)


# The one-case-at-a-time row is no module; eps of WeightStandardization would be of no use here.
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.batch is None])
def test_our_layers_get_their_rows(name):
    row = ROWS[name]
    if row.place is Place.DENSE:
        layer, x = Linear(D, H, row.norm), torch.randn(B, D)
    else:
        norm = partial(row.norm, space=2)
        padding = 1 if row.place is Place.PADDED else 0
        layer, x = Conv2d(D, H, 3, norm, padding=padding), torch.randn(B, D, 6, 6)
    if name == "recurrent batch":
        layer = AtStep0(layer)
    weight = "layer.W" if isinstance(layer, AtStep0) else "W"
    with_statistics = "batch" in name
    mode = MODE.get(row.statistics, "train") if with_statistics else ""
    agrees(layer, x, weight, name, mode)


class AtStep0(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, 0)


def test_pre_layer_norm_has_none_of_the_columns_of_its_weights():
    net = nn.Sequential(nn.LayerNorm(D, eps=0.0), nn.Linear(D, H, bias=False))
    certificate = certify(net, torch.randn(B, D), dtypes=DOUBLE)
    exact = {v.column for v in certificate.invariances if v.grade is Grade.EXACT}
    assert exact == {4, 6, 9, 10, 11}


# Eps and the bias inside: how far, with what law, and what is to blame.


@pytest.mark.parametrize(("root", "rate"), [(None, 2), (outside_root, 1)])
def test_eps_is_approximate_with_its_law_and_its_knee(root, rate):
    eps, settings = 1e-6, {} if root is None else {"root": root}
    layer, x = Linear(D, H, partial(LayerNorm, eps=eps, **settings)), torch.randn(B, D)
    v = next(v for v in certify(layer, x, dtypes=DOUBLE).invariances if v.column == 1)
    assert v.grade is Grade.APPROXIMATE
    assert v.exact_without == "eps"
    assert v.rate == pytest.approx(rate, abs=0.1)
    var = (x @ layer.W.detach().T).var(1, correction=0)
    knees = eps / var.sqrt() if root else (eps / var).sqrt()
    # The defect weighs each case by its largest output.
    assert float(knees.min()) < v.knee < 1.2 * float(knees.max())
    largest = max(defect for delta, defect in v.curve if delta > 1)
    assert largest < v.defect * 1.5  # 1 - delta^-p: 0.73 at 3.7 where p = 1
    assert largest < 1e-4
    below, above = (dict(v.curve)[delta] for delta in (1e-12, 1e3))
    assert below > 0.9 > 1e-4 > above


def test_centring_is_exact_whatever_eps():
    certificate = certify(Linear(D, H, partial(LayerNorm, eps=0.1)), torch.randn(B, D))
    for dtype in ("float64", "float32", "bfloat16"):
        assert certificate.grade("W", 2, dtype=dtype) is Grade.EXACT
        assert certificate.grade("W", 7, dtype=dtype) is Grade.EXACT


def test_a_bias_inside_is_named():
    norm = nn.LayerNorm(H, eps=0.0)
    net = nn.Sequential(nn.Linear(D, H), norm)
    v = next(
        v for v in certify(net, torch.randn(B, D), dtypes=DOUBLE).invariances if v.column == 1
    )
    assert v.grade is Grade.BROKEN
    assert v.exact_without == "bias inside"
    norm.eps = 1e-5
    v = next(
        v for v in certify(net, torch.randn(B, D), dtypes=DOUBLE).invariances if v.column == 1
    )
    assert v.exact_without == "eps and bias inside"


# Precision and sign.


def test_lower_precisions_are_judged_by_their_rounding():
    net = dense(nn.LayerNorm(H, eps=0.0))
    certificate = certify(net, torch.randn(B, D))
    for dtype in ("float64", "float32", "bfloat16"):
        for column, grade in ((1, "exact"), (2, "exact"), (3, "broken")):
            assert certificate.grade("0.weight", column, dtype=dtype) is Grade(grade)


def test_an_invariance_that_a_precision_destroys_is_broken_there():
    class Overflowing(nn.Module):
        """x over its 8-norm: 1e8^8 is beyond float32."""

        def forward(self, x):
            return x / x.pow(8).mean(-1, keepdim=True).pow(1 / 8)

    certificate = certify(Overflowing(), torch.randn(B, D), columns=[4])
    assert certificate.grade("x", 4, dtype="float64") is Grade.EXACT
    assert certificate.grade("x", 4, dtype="float32") is Grade.BROKEN


@pytest.mark.parametrize(
    ("norm", "sign"), [(LayerNorm, "flips"), (partial(AdaNorm, eps=0.0), "other")]
)
def test_delta_below_zero(norm, sign):
    layer = randomized(Linear(D, H, norm))
    for v in certify(layer, torch.randn(B, D), columns=[1, 4], dtypes=DOUBLE).invariances:
        assert v.sign == sign


def test_an_even_function_stays_the_same_below_zero():
    class Squares(nn.Module):
        def forward(self, x):
            return x.square() / x.square().sum(-1, keepdim=True)

    (v,) = certify(Squares(), torch.randn(B, D), columns=[4], dtypes=DOUBLE).invariances
    assert v.grade is Grade.EXACT
    assert v.sign == "same"


# A ReLU that is shut.


def test_a_column_that_judges_nothing_is_not_shown():
    """Without a normalizer of lnlab's or torch's there is no inside that can be seen."""

    class Own(nn.Module):
        def forward(self, a):
            return a - a.mean(1, keepdim=True)

    for norm, shown in ((Own(), False), (nn.LayerNorm(H), True)):
        layer = nn.Sequential(nn.Linear(D, H, bias=False), norm)
        certificate = certify(layer, torch.randn(B, D), dtypes=DOUBLE)
        assert ("inside" in str(certificate)) == shown
        assert ("<th>inside</th>" in certificate._repr_html_()) == shown


def shut(units: list[int]) -> nn.Module:
    squashing = DyT(H)
    with torch.no_grad():
        squashing.b[units] = -5
    return nn.Sequential(nn.Linear(D, H, bias=False), squashing, nn.ReLU())


def test_a_shut_relu_is_no_invariance():
    certificate = certify(shut(list(range(H))), torch.randn(B, D), dtypes=DOUBLE)
    for v in certificate.invariances:
        if v.column != 11:
            assert v.grade is Grade.NOT_JUDGED, v.column
            assert v.inside is Grade.BROKEN
    assert certificate.dead == {"2: relu": (H, H)}
    assert "dead in all cases: 12 of 12 units at 2: relu" in str(certificate)


def test_a_weight_vector_of_shut_units_is_not_judged():
    drawn = uniform(0, 6, H).argsort()[: H // 4].tolist()  # as certify draws them
    net = shut(drawn)
    certificate = certify(net, torch.randn(B, D), dtypes=DOUBLE)
    assert certificate.grade("0.weight", 3) is Grade.NOT_JUDGED
    assert certificate.grade("0.weight", 1) is Grade.BROKEN


@pytest.mark.parametrize("f", [nn.ReLU(inplace=True), lambda a: a.clamp(min=0), torch.relu])
def test_shut_units_are_seen_whatever_shuts_them(f):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(D, H)
            nn.init.constant_(self.dense.bias, -1e9)

        def forward(self, x):
            return f(self.dense(x))

    certificate = certify(Net(), torch.randn(B, D), dtypes=DOUBLE, columns=[2])
    assert certificate.grade("dense.weight", 2) is Grade.NOT_JUDGED
    assert list(certificate.dead.values()) == [(H, H)]


def test_what_a_later_layer_takes_out_again_is_an_invariance():
    net = nn.Sequential(
        nn.Linear(D, H, bias=False), nn.ReLU(), nn.Linear(H, H, bias=False),
        nn.LayerNorm(H, eps=0.0),
    )  # fmt: skip
    v = next(
        v for v in certify(net, torch.randn(B, D), dtypes=DOUBLE).invariances if v.column == 1
    )
    assert v.grade is Grade.EXACT
    assert v.inside is Grade.BROKEN


# The module is left as it was.


class Busy(nn.Module):
    """Buffers, dropout, hooks and a mode of its own for one part."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(D, H), nn.BatchNorm1d(H), nn.ReLU(), nn.Dropout(0.5), nn.Linear(H, 3)
        )
        self.net[4].eval()
        self.calls = []
        self.net[0].register_forward_hook(lambda *_: self.calls.append(1))

    def forward(self, x):
        return self.net(x)


def everything(module: nn.Module) -> tuple:
    state = {k: v.clone() for k, v in module.state_dict().items()}
    flags = [
        (part.training, len(part._forward_hooks), len(part._forward_pre_hooks))
        for part in module.modules()
    ]
    requires = [(p.requires_grad, p.data_ptr()) for p in module.parameters()]
    return state, flags, requires, torch.get_rng_state()


def same(before: tuple, after: tuple) -> bool:
    return (
        all(torch.equal(before[0][k], after[0][k]) for k in before[0])
        and before[1:3] == after[1:3]
        and torch.equal(before[3], after[3])
    )


def test_the_module_and_the_random_state_are_left_as_they_were():
    module, x = Busy(), torch.randn(B, D)
    before, x_before = everything(module), x.clone()
    certify(module, x, dtypes=(torch.float64, torch.bfloat16))
    assert same(before, everything(module))
    assert torch.equal(x, x_before)
    assert module.calls == []  # your hooks are not called


def test_the_module_is_left_as_it_was_after_an_error():
    module, x = Busy(), torch.randn(B, D + 1)
    before = everything(module)
    with pytest.raises(ValueError, match="does not take x"):
        certify(module, x)
    assert same(before, everything(module))


def test_certificates_of_the_same_module_are_the_same():
    module, x = Busy(), torch.randn(B, D)
    one, two = (certify(module, x, dtypes=DOUBLE).frame() for _ in range(2))
    assert one.equals(two)


def test_dropout_draws_the_same_mask_each_time():
    net = nn.Sequential(nn.Linear(D, H, bias=False), nn.LayerNorm(H, eps=0.0), nn.Dropout(0.5))
    certificate = certify(net, torch.randn(B, D), dtypes=DOUBLE)
    assert {v.mode for v in certificate.invariances} == {"train", "evaluation"}
    assert certificate.grade("0.weight", 1, mode="train") is Grade.EXACT
    assert certificate.grade("0.weight", 3, mode="train") is Grade.BROKEN


class Noisy(nn.Module):
    def forward(self, x):
        return x + random.random()


class Drawing(nn.Module):
    """Draws from a generator of its own, which nobody puts back."""

    def __init__(self):
        super().__init__()
        self.generator = [torch.Generator()]

    def __deepcopy__(self, memo):
        return Drawing()

    def forward(self, x):
        return x + torch.rand(1, generator=self.generator[0])


@pytest.mark.parametrize("make", [Noisy, Drawing])
def test_a_module_that_draws_from_elsewhere_is_refused(make):
    with pytest.raises(ValueError, match="two evaluations from one random state differ"):
        certify(make(), torch.randn(B, D))


# What modules do and people give.


def test_a_precision_that_the_module_cannot_compute_in_is_said():
    class SinglePrecision(nn.Module):
        def __init__(self):
            super().__init__()
            self.W = [torch.randn(H, D, dtype=torch.float32)]  # no parameter, no buffer

        def forward(self, x):
            return x @ self.W[0].T

    certificate = certify(SinglePrecision(), torch.randn(B, D, dtype=torch.float32))
    assert {v.dtype for v in certificate.invariances} == {"float32"}
    assert set(certificate.not_tried) == {"float64, evaluation", "bfloat16, evaluation"}
    assert "not tried: float64, evaluation" in str(certificate)


def test_a_batch_of_one_cannot_train_batch_norm_and_the_rest_is_tried():
    certificate = certify(dense(nn.BatchNorm1d(H)), torch.randn(1, D), dtypes=DOUBLE)
    assert "float64, train" in certificate.not_tried
    assert "more than 1 value" in certificate.not_tried["float64, train"]
    assert {v.mode for v in certificate.invariances} >= {"frozen"}


def behind_batch_norm(*between: nn.Module) -> nn.Sequential:
    """Two layers with batch norm, the smallest net of which two modes could differ."""
    torch.manual_seed(0)
    first = nn.Linear(D, H, bias=False), nn.BatchNorm1d(H, eps=1e-3), nn.ReLU()
    return nn.Sequential(*first, *between, nn.Linear(H, 5, bias=False), nn.BatchNorm1d(5))


def test_recomputed_statistics_are_those_of_training_without_dropout():
    net, x = behind_batch_norm(), torch.randn(B, D)
    both, alone = certify(net, x), certify(net, x, modes=("recomputed",))
    found = [v for v in both.invariances if v.mode == "recomputed"]
    assert len(found) == len(alone.invariances)
    for own, its in zip(found, alone.invariances, strict=True):
        assert (own.where, own.column, own.dtype) == (its.where, its.column, its.dtype)
        assert own.grade is its.grade
        # what has no defect to speak of has one of rounding, which no two kernels share
        exact = {"float64": 1e-12, "float32": 1e-4, "bfloat16": 0.1}[own.dtype]
        assert own.defect == pytest.approx(its.defect, rel=exact, abs=exact)
    separate = sum(certify(net, x, modes=(mode,)).evaluations for mode in MODES)
    assert both.evaluations < 0.8 * separate


def test_recomputed_statistics_are_tried_where_training_drops_units():
    net, x = behind_batch_norm(nn.Dropout(0.5)), torch.randn(B, D)
    both, alone = (
        certify(net, x, dtypes=DOUBLE, modes=modes) for modes in (None, ("recomputed",))
    )
    found = [v for v in both.invariances if v.mode == "recomputed"]
    assert [v.curve for v in found] == [v.curve for v in alone.invariances]
    trained = [v for v in both.invariances if v.mode == "train" and v.column != 11]
    assert [v.curve for v in found] != [v.curve for v in trained]


@pytest.mark.parametrize(
    ("modes", "found"), [(("train",), {"train"}), (("frozen", "evaluation"), {"frozen"})]
)
def test_modes_choose_what_is_tried(modes, found):
    net, x = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), torch.randn(5, 4)
    some = certify(net, x, columns=(1,), dtypes=(torch.float64,), modes=modes)
    assert {v.mode for v in some.invariances} == found


@pytest.mark.parametrize(
    ("modes", "error"), [(("eval",), "no modes"), (("train",), "has eval")]
)
def test_modes_that_are_not_there_are_named(modes, error):
    with pytest.raises(ValueError, match=error):
        certify(nn.Linear(4, 3), torch.randn(5, 4), modes=modes)


def test_the_first_tensor_is_read_from_what_is_returned():
    lstm, x = nn.LSTM(D, H, batch_first=True), torch.randn(B, 5, D)
    weights = ["weight_ih_l0"]
    first = certify(lstm, x, weights=weights, columns=[1], dtypes=DOUBLE)
    last = certify(
        lstm, x, weights=weights, columns=[1], dtypes=DOUBLE, read=lambda out: out[1][1][0]
    )
    assert first.grade("weight_ih_l0", 1) is last.grade("weight_ih_l0", 1) is Grade.BROKEN
    assert first.invariances[0].defect != last.invariances[0].defect
    assert "judged: the first of 3 tensors returned" in str(first)
    assert "judged: " not in str(last)


class Returns(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def test_a_mapping_is_read():
    net = Returns(lambda x: {"name": "no tensor", "logits": (x / x.norm(dim=1, keepdim=True),)})
    assert certify(net, torch.randn(B, D), dtypes=DOUBLE).grade("x", 4) is Grade.EXACT


@dataclass
class Boxed:
    """What many a module returns."""

    loss: None
    hidden: torch.Tensor


def test_a_dataclass_is_read():
    net = Returns(lambda x: Boxed(None, x / x.norm(dim=1, keepdim=True)))
    assert certify(net, torch.randn(B, D), dtypes=DOUBLE).grade("x", 4) is Grade.EXACT


@pytest.mark.parametrize(
    ("net", "x", "settings", "error", "match"),
    [
        (Returns(lambda x: "no tensor"), torch.randn(2, 3), {}, TypeError, "give read="),
        (
            Returns(lambda x: x),
            torch.randn(2, 3),
            {"read": str},
            TypeError,
            "a function that returns a tensor",
        ),
        (Returns(lambda x: x.argmax(1)), torch.randn(2, 3), {}, ValueError, "floating point"),
        (Returns(lambda x: x.log()), -torch.ones(2, 3), {}, ValueError, "NaN or an infinity"),
        (nn.Linear(3, 2), torch.full((2, 3), math.nan), {}, ValueError, "^x is nan at"),
        (nn.Linear(3, 2), torch.full((2, 3), math.inf), {}, ValueError, "^x is inf at"),
        (
            nn.Linear(3, 2),
            torch.randn(2, 4),
            {},
            ValueError,
            r"Linear does not take .*\(2, 4\)",
        ),
        (nn.Linear(3, 2), torch.randn(()), {}, ValueError, "give cases along the first axis"),
        (nn.Linear(3, 2), torch.randn(0, 3), {}, ValueError, "give cases along the first axis"),
        (nn.Linear(3, 2), [[1.0]], {}, TypeError, "x is of class list"),
        (nn.Bilinear(3, 3, 2), (torch.randn(2, 3),) * 2, {}, TypeError, "x is of class tuple"),
        (
            nn.Linear(3, 2),
            torch.randn(2, 3),
            {"columns": [12]},
            ValueError,
            r"no columns \[12\]",
        ),
        (
            nn.Linear(3, 2),
            torch.randn(2, 3),
            {"weights": ["W"]},
            ValueError,
            "there are weight",
        ),
        (nn.Linear(3, 2), torch.randn(2, 3), {"dtypes": [torch.int8]}, ValueError, "tolerance"),
        (nn.LazyLinear(2), torch.randn(2, 3), {}, ValueError, "call the module once"),
        (nn.Embedding(5, 2), torch.tensor([1, 2]), {}, ValueError, "behind the embedding"),
    ],
)
def test_errors_say_what_to_do(net, x, settings, error, match):
    with pytest.raises(error, match=match):
        certify(net, x, **settings)


def compiled(net: nn.Module) -> nn.Module:
    return torch.compile(net)  # compiles when it is called, which certify does not


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_compiled_module_is_looked_through():
    net, x = dense(nn.LayerNorm(H)), torch.randn(B, D)
    one, other = (certify(n, x, dtypes=DOUBLE, columns=[1, 2, 4]) for n in (net, compiled(net)))
    assert one.module == other.module == "Sequential"
    assert one.frame().equals(other.frame())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("net", "x", "match"),
    [
        (lambda: torch.jit.script(nn.Linear(3, 2)), torch.randn(2, 3), "compiled by torch.jit"),
        (
            lambda: torch.jit.trace(nn.Linear(3, 2), torch.randn(2, 3)),
            torch.randn(2, 3),
            "the module that was scripted or traced",
        ),
        (lambda: nn.Sequential(compiled(nn.Linear(3, 2))), torch.randn(2, 3), "0 is compiled"),
        (lambda: nn.Linear(3, 2, device="meta"), torch.randn(2, 3), "weight is on the meta"),
    ],
)
def test_what_cannot_be_certified_is_said(net, x, match):
    with pytest.raises(ValueError, match=match):
        certify(net(), x)


def test_an_input_that_nothing_depends_on_is_said():
    net = dense(nn.LayerNorm(H))
    nn.init.zeros_(net[0].weight)
    certificate = certify(net, torch.randn(B, D), dtypes=DOUBLE)
    assert {v.where for v in certificate.invariances} == {"0.weight"}
    assert certificate.not_tried["x"] == "nothing that can be seen depends on it"
    assert certificate.not_tried["0.weight W → δW"] == "it changes nothing: 0.weight is 0"
    assert {v.column for v in certificate.invariances} == {2, 7, 8, 10}


def test_weights_behind_an_embedding_can_be_certified():
    net = nn.Sequential(
        nn.Embedding(5, D), nn.Linear(D, H, bias=False), nn.LayerNorm(H, eps=0.0)
    )
    tokens = torch.tensor([[1, 2], [3, 4]])
    certificate = certify(net, tokens, columns=[1, 2, 3], dtypes=DOUBLE)
    assert [v.grade.value for v in certificate.invariances] == ["exact", "exact", "broken"]


def test_a_module_without_parameters_is_certified_on_its_input():
    certificate = certify(nn.Softmax(dim=-1), torch.randn(B, D), dtypes=DOUBLE)
    exact = {v.column for v in certificate.invariances if v.grade is Grade.EXACT}
    assert exact == {9, 11}


def test_a_module_that_cannot_be_copied_is_an_error():
    class Uncopyable(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("not me")

    with pytest.raises(ValueError, match=r"Uncopyable cannot be copied.*not me"):
        certify(Uncopyable(D, H), torch.randn(B, D))


def test_a_weight_that_nothing_depends_on_is_said():
    class Idle(nn.Linear):
        def forward(self, input):
            return input / input.norm(dim=-1, keepdim=True)

    certificate = certify(Idle(D, H), torch.randn(B, D), dtypes=DOUBLE)
    assert {v.where for v in certificate.invariances} == {"x"}
    assert certificate.not_tried["weight"] == "nothing that can be seen depends on it"


def test_summed_inputs_that_cannot_be_reached_are_not_claimed():
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    certificate = certify(attention, torch.randn(2, 5, 8), dtypes=DOUBLE)
    columns = {
        v.column for v in certificate.invariances if v.where == "self_attn.out_proj.weight"
    }
    assert columns == {1, 2, 3, 10}


def test_units_of_a_transposed_convolution():
    net = nn.Sequential(nn.ConvTranspose2d(3, 5, 3, bias=False), nn.InstanceNorm2d(5, eps=0.0))
    certificate = certify(net, torch.randn(4, 3, 6, 6), dtypes=DOUBLE)
    assert certificate.grade("0.weight", 3) is Grade.EXACT  # each unit over its own space


# How it is read.


def test_it_prints_frames_and_dumps():
    certificate = certify(dense(nn.LayerNorm(H)), torch.randn(B, D))
    lines = str(certificate).splitlines()
    assert lines[0].startswith("Sequential of x (8, 7): ")
    assert any("W → δW" in line and "approximate" in line for line in lines)
    frame = certificate.frame()
    assert len(frame) == len(certificate.invariances) == 3 * 11
    assert set(frame.dtype) == {"float64", "float32", "bfloat16"}
    loaded = json.loads(certificate.to_json())
    assert len(loaded["invariances"]) == len(frame)
    assert loaded["invariances"][0]["grade"] == "approximate"
    assert loaded["invariances"][1]["knee"] is None  # NaN is no JSON


def test_a_sentence_comes_first():
    layer = Linear(D, H, partial(LayerNorm, eps=0.0))
    first = str(
        certify(layer, torch.randn(B, D), columns=[1, 2, 3], dtypes=DOUBLE)
    ).splitlines()
    said = "2 of 3 invariances are exact, 1 broken in float64."
    assert first[0] == f"Linear of x (8, 7): {said}"


def test_rows_that_are_alike_are_folded():
    layers = [Linear(H, H, LayerNorm) for _ in range(3)]
    certificate = certify(nn.Sequential(*layers), torch.randn(B, H), columns=[3], dtypes=DOUBLE)
    (row,) = [line for line in str(certificate).splitlines() if "w₁ → δw₁" in line]
    sizes = sorted(v.defect for v in certificate.invariances)
    assert row.startswith("0.W and 2 others")
    assert f"broken ({sizes[0]:.2g} to {sizes[-1]:.2g})" in row
    assert len(certificate.frame()) == 3


def test_it_fits_into_lines_of_100_characters():
    parts = {"a_name_that_goes_on": nn.Linear(D, H), "norm": nn.BatchNorm1d(H)}
    net = nn.Sequential(OrderedDict(**parts, head=Linear(H, H, LayerNorm)))
    certificate = certify(net, torch.randn(B, D))
    _, table = str(certificate).split("\n\n")
    lines = table.splitlines()
    assert max(map(len, lines)) <= 100 < len(str(certificate.invariances[0])) + 70
    assert all(sum(v.formula in line for line in lines) for v in certificate.invariances)
    assert [line for line in lines if line.endswith(":")] == [
        "train:",
        "frozen:",
        "recomputed:",
    ]
    told = " ".join(table.split())
    assert all(v.grade.value in told for v in certificate.invariances)


@pytest.mark.parametrize(
    ("defect", "worst", "said"),
    [
        (0.0, math.nan, "broken (not a number at δ = 1e-30, case 0)"),
        (math.nan, math.nan, "broken (not a number at δ = 1e-30, case 0)"),
        (0.0, math.inf, "broken (∞ at δ = 1e-30, case 0)"),
        (0.0, 0.0, "broken (not seen in float32, case 0)"),
        (0.0, 0.4, "broken (0.4 at δ = 1e-30, case 0)"),
        (0.2, 0.4, "broken (0.2; 0.4 at 1e-30, case 0)"),
    ],
)
def test_a_break_is_never_said_to_be_of_size_0(defect, worst, said):
    found = Invariance(
        "x", 4, "", "X → δX", "train", "float32", Grade.BROKEN, Grade.BROKEN, defect, worst,
        worst_delta=1e-30, worst_case=0, worst_site="", rate=math.nan, knee=math.nan,
        exact_without="", sign="", curve=(),
    )  # fmt: skip
    assert str(found) == said


def test_a_knee_that_no_law_gives_is_where_delta_squared_var_is_eps():
    eps, x = 1e-6, torch.randn(1, D)
    layer = Linear(D, H, partial(LayerNorm, eps=eps))
    v = next(v for v in certify(layer, x, dtypes=[torch.float32]).invariances if v.column == 1)
    assert math.isnan(v.rate)  # too few points of float32 lie on the slope
    var = float((x @ layer.W.detach().T).var(1, correction=0))
    assert v.knee == pytest.approx((eps / var) ** 0.5, rel=5e-3)  # 12 halvings of decades


@pytest.mark.parametrize(("columns", "less"), [(None, 1), ([1, 4], 0), ([7, 11], 1)])
def test_one_bar_counts_the_changes_of_every_precision_and_mode(monkeypatch, columns, less):
    bars = []

    def bar(items, total, text, *, shown):
        bars.append((items := list(items), total, text, shown))
        return items

    monkeypatch.setattr(lnlab.analysis.certify, "bar", bar)
    net = nn.Sequential(nn.Linear(D, H), nn.BatchNorm1d(H))
    found = certify(net, torch.randn(B, D), columns=columns, progress=True)
    ((items, total, *rest),) = bars
    # statistics taken again are of the other cases too: there is no column 11 of them
    assert len(found.invariances) == len(items) == total - 3 * less
    assert rest == ["Sequential", True]


def test_a_bar_is_shown_where_it_is_wanted(monkeypatch, capsys):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    for progress in (False, True):
        certify(
            nn.Linear(2, 2), torch.randn(2, 2), columns=[1], dtypes=DOUBLE, progress=progress
        )
        assert ("Linear: " in capsys.readouterr().out) == progress


def test_html_escapes_the_names_of_others():
    net = nn.Sequential()
    net.add_module("<img src=x>", nn.Linear(D, H))
    page = certify(net, torch.randn(B, D), dtypes=DOUBLE)._repr_html_()
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


def test_outputs_that_are_0_are_said_to_be():
    net, x = nn.Linear(5, 4), torch.randn(B, 5)
    assert "outputs are 0" not in str(certify(net, x, dtypes=DOUBLE))
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    silent = certify(net, x, dtypes=DOUBLE)
    assert "outputs are 0 before any change: next to that every movement is ∞" in str(silent)
    assert "broken (∞, case" in str(silent)
    assert json.loads(silent.to_json())["silent"]


class Overflowing(nn.Module):
    """What goes into a rectifier is no number once the summed inputs are large."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(D, H, bias=False), LayerNorm(H)
        self.last = nn.Linear(H, 3)

    def forward(self, x):
        a = self.first(x)
        return self.last(self.norm(a)) + 0 * (a.exp() - a.exp()).relu().nan_to_num().sum()


def test_what_is_no_number_inside_is_not_unchanged():
    certificate = certify(randomized(Overflowing()), torch.randn(B, D), dtypes=DOUBLE)
    (scaled,) = [
        v for v in certificate.invariances if v.where == "first.weight" and v.column == 1
    ]
    assert scaled.grade is Grade.EXACT
    assert scaled.inside is Grade.BROKEN
