"""An audit and an exchange of normalizers work on what people really build."""

import random
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from lnlab.analysis.activations import NORMALIZERS as KNOWN
from lnlab.auditing import CHECKS, Call, Severity, audit, swap
from lnlab.nn import LayerNorm, Normalizer, RMSNorm
from tests.auditing.architectures import ARCHITECTURES, NORMALIZERS, words

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)

EXPECTED_NOT_TO_RUN = {
    "statistics over cases": "no part remembers",
    "effective learning rates": "the loss sees the scale of every weight",
    "dead units": "no nonlinearity",
    "curvature": "no loss was given",
}


def kinds(found):
    counts = Counter()
    for row in found.results["normalizers"].rows:
        counts[row["is"]] += row["how many"]
    return dict(counts)


def state(module):
    tensors = {n: v.clone() for n, v in module.state_dict().items()}
    modes = {n: part.training for n, part in module.named_modules()}
    hooks = [len(p._forward_hooks) + len(p._forward_pre_hooks) for p in module.modules()]
    grads = [p.grad for p in module.parameters()]
    return tensors, modes, hooks, grads


def chances():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002


@every_architecture
def test_audit_finds_its_normalizers_and_leaves_it_as_it_was(name):
    module, inputs, loss = ARCHITECTURES[name]()
    before, drawn = state(module), chances()
    found = audit(module, inputs, loss)
    after = state(module)
    assert kinds(found) == NORMALIZERS[name]
    assert before[0].keys() == after[0].keys()
    assert all(torch.equal(before[0][n], after[0][n]) for n in before[0])
    assert before[1:] == after[1:]
    assert drawn == chances()
    assert {*found.results, *found.not_run} == set(CHECKS)
    for check, why in found.not_run.items():
        assert why.startswith(EXPECTED_NOT_TO_RUN[check]), (check, why)
    assert not found.of(Severity.FAULT)
    assert "cases apart" not in [check for check, _ in found.findings]


@every_architecture
def test_exchange_reaches_every_normalizer(name):
    module, inputs, _ = ARCHITECTURES[name]()
    old = {n: p for n, p in module.named_modules() if isinstance(p, KNOWN)}
    rules = {n: norm_for(p) for n, p in old.items()}
    if not rules:  # written by hand: only names tell
        rules = {"*norm": RMSNorm, "2": RMSNorm}
    plan = swap(module, rules, inputs)
    new = plan.make()
    assert {e.name for e in plan.exchanges} >= set(old)
    assert sum(isinstance(p, Normalizer) for p in new.modules()) == len(plan.exchanges)
    assert not any(isinstance(p, Normalizer) for p in module.modules())
    call = Call.of(inputs)
    new.eval()(*call.args, **call.kwargs)
    new.load_state_dict(plan.state_dict(module.state_dict()))
    gains = [e.kept.get("g") for e in plan.exchanges]
    assert all(gains) or name == "adaptive"


def norm_for(part):
    channels = isinstance(part, nn.GroupNorm | nn.BatchNorm2d)
    return LayerNorm if channels else RMSNorm


def light(module, inputs, loss=None):
    checks = ["normalizers", "parameters without effect", "gradients over depth", "precision"]
    return audit(module, inputs, loss, checks=checks)


def test_compiled_module_is_audited_as_it_was_before():
    module, inputs, loss = ARCHITECTURES["gpt"]()
    plain = light(module, inputs, loss)
    compiled = light(torch.compile(module, backend="eager"), inputs, loss)
    assert compiled.module == "GPT"
    assert [f.row() for _, f in compiled.findings] == [f.row() for _, f in plain.findings]
    module.compile(backend="eager")  # in place
    assert not light(module, inputs, loss).not_run


def test_compiled_part_is_named():
    net = nn.Sequential(torch.compile(nn.Linear(3, 3), backend="eager"), nn.LayerNorm(3))
    with pytest.raises(ValueError, match="0 is compiled"):
        audit(net, torch.randn(4, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["vit", "unet", "mamba"])
def test_half_precision(name, dtype):
    module, inputs, _ = ARCHITECTURES[name]()
    half = {k: v.to(dtype) for k, v in inputs.items()} if name == "unet" else inputs.to(dtype)
    found = light(module.to(dtype), half)
    assert kinds(found) == NORMALIZERS[name]
    assert not found.not_run
    rows = {r["precision"]: r for r in found.results["precision"].rows}
    (own,) = {"float16", "bfloat16"} & {str(dtype).removeprefix("torch.")}
    assert 0 < rows[own]["error"] < 0.1
    assert rows["float32"]["error"] < 1e-4


def test_tied_weights_are_one_parameter():
    module, inputs, loss = ARCHITECTURES["gpt"]()
    rows = audit(module, inputs, loss, checks=["invariances"]).results["invariances"].rows
    names = [row["weight"] for row in rows]
    assert "head.weight" not in names
    assert names.count("wte.weight") == 1
    new = swap(module, {nn.LayerNorm: RMSNorm}).make()
    assert new.head.weight is new.wte.weight


@pytest.mark.parametrize("name", ["transformer", "bert", "lstm"])
def test_evaluation_and_training_mode_give_one_audit(name):
    module, inputs, loss = ARCHITECTURES[name]()
    one, other = (light(module.train(mode), inputs, loss) for mode in (True, False))
    assert [f.row() for _, f in one.findings] == [f.row() for _, f in other.findings]


def test_inputs_by_position_and_by_keyword_are_the_same():
    module, call, loss = ARCHITECTURES["bert"]()
    named = {"input_ids": call.args[0], **call.kwargs}
    one, other = light(module, call, loss), light(module, named, loss)
    assert [f.row() for _, f in one.findings] == [f.row() for _, f in other.findings]


def test_frozen_parameters_are_left_out_of_gradients():
    module, inputs, loss = ARCHITECTURES["mixer"]()
    for p in module[1].parameters():
        p.requires_grad_(False)
    rows = audit(module, inputs, loss, checks=["gradients over depth"])
    names = [r["layer"] for r in rows.results["gradients over depth"].rows]
    assert names == [n for n, p in module.named_parameters() if p.requires_grad and p.dim() > 1]


@pytest.mark.parametrize(
    ("inputs", "error"), [(words().double(), "does not take the input"), ((), "no tensor")]
)
def test_wrong_input_is_named(inputs, error):
    with pytest.raises((ValueError, TypeError), match=error):
        audit(ARCHITECTURES["gpt"]()[0], inputs)


def test_wrong_arguments_are_named():
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="model is of class function"):
        audit(lambda x: x, torch.randn(2, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loss is of class Tensor"):
        audit(net, torch.randn(2, 2), torch.zeros(()))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are no checks"):
        audit(net, torch.randn(2, 2), checks=["curves"])


def test_a_check_that_fails_says_why_and_the_rest_goes_on():
    def wrong(output):
        raise KeyError("no such loss")

    found = audit(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), torch.randn(4, 3), wrong)
    assert "no such loss" in found.not_run["gradients over depth"]
    assert {"normalizers", "invariances", "precision"} <= found.results.keys()


def test_part_of_several_places_is_exchanged_once():
    shared = nn.LayerNorm(4)
    net = nn.Sequential(shared, nn.Linear(4, 4), shared)
    plan = swap(net, {nn.LayerNorm: partial(RMSNorm, eps=1e-3)}, torch.randn(3, 4))
    new = plan.make()
    assert new[0] is new[2]
    assert new[0].eps == 1e-3
