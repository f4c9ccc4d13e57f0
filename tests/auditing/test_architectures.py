"""An audit and a swap of normalizers work on what people really build."""

import random
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from lnlab.analysis.activations import NORMALIZERS as KNOWN
from lnlab.auditing import CHECKS, Call, Severity, audit, swap
from lnlab.nn import DyT, LayerNorm, Normalizer, RMSNorm
from tests.auditing.architectures import ARCHITECTURES, NORMALIZERS

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)

NOT_RUN = {
    "statistics over examples": "no normalizer of torch or lnlab that keeps running",
    "effective learning rates": "no single weight was found whose scale changes nothing",
    "dead units": "no nonlinearity",
    "curvature": "no loss was given",
    "loss": "no loss was given",
    "precision": "running statistics have seen no batch",
}


def kinds(report):
    counts = Counter()
    for row in report.data["normalizers"].rows:
        counts[row["is"]] += row["how many"]
    return dict(counts)


def state(module):
    """What an audit must leave as it is: modes, hooks, gradients, generators, numbers."""
    modes = [m.training for m in module.modules()]
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules()]
    grads = [p.grad for p in module.parameters()]
    numbers = {name: v.tolist() for name, v in module.state_dict().items()}
    generators = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()  # noqa: NPY002
    return modes, hooks, grads, numbers, generators, random.getstate()


@every_architecture
def test_audit_finds_its_normalizers_and_leaves_it_as_it_was(name):
    module, inputs, loss_fn = ARCHITECTURES[name]()
    before = state(module)
    report = audit(module, inputs, loss_fn=loss_fn)
    assert state(module) == before
    assert kinds(report) == NORMALIZERS[ARCHITECTURES[name]]
    assert {*report.data, *report.not_run} == set(CHECKS)
    for check, why in report.not_run.items():
        assert why.startswith(NOT_RUN[check]), (check, why)
    assert not report.with_severity(Severity.FAULT)
    assert "examples-mix" not in [f.rule for f in report.findings]


@every_architecture
def test_swap_reaches_every_normalizer(name):
    module, inputs, _ = ARCHITECTURES[name]()
    old = {n: p for n, p in module.named_modules() if isinstance(p, KNOWN)}
    channels = nn.GroupNorm | nn.BatchNorm2d
    rules = {n: LayerNorm if isinstance(p, channels) else RMSNorm for n, p in old.items()}
    if not rules:  # written by hand: only names tell
        rules = {"*norm": RMSNorm, "2": RMSNorm}
    plan = swap(module, rules, inputs)
    new = plan.make()
    assert {e.name for e in plan.replacements} >= set(old)
    assert sum(isinstance(p, Normalizer) for p in new.modules()) == len(plan.replacements)
    assert not any(isinstance(p, Normalizer) for p in module.modules())
    call = Call.from_inputs(inputs)
    new.eval()(*call.args, **call.kwargs)
    new.load_state_dict(plan.state_dict(module.state_dict()))
    gains = [e.copied_from.get("g") for e in plan.replacements]
    assert all(gains) or name == "adaptive"


def light(module, inputs, loss_fn=None):
    checks = ["normalizers", "parameters without effect", "gradients over depth", "precision"]
    return audit(module, inputs, loss_fn=loss_fn, only=checks)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gpt", lambda module, inputs: (torch.compile(module, backend="eager"), inputs)),
        ("bert", lambda module, inputs: (module.eval(),
                                         {"input_ids": inputs.args[0], **inputs.kwargs})),
    ],
)  # fmt: skip
def test_compiled_in_evaluation_or_called_otherwise_it_is_the_same(name, change):
    module, inputs, loss_fn = ARCHITECTURES[name]()
    plain = light(module, inputs, loss_fn)
    other = light(*change(module, inputs), loss_fn)
    assert other.module_class_name == plain.module_class_name
    assert other.findings == plain.findings


def test_compiled_part_is_named():
    net = nn.Sequential(torch.compile(nn.Linear(3, 3), backend="eager"), nn.LayerNorm(3))
    with pytest.raises(ValueError, match="0 is compiled"):
        audit(net, torch.randn(4, 3))


def test_half_precision():
    dtype = torch.bfloat16
    module, inputs, _ = ARCHITECTURES["unet"]()
    report = light(module.to(dtype), inputs.to(dtype))
    assert kinds(report) == NORMALIZERS[ARCHITECTURES["unet"]]
    assert not report.not_run
    errors = report.table("precision").set_index("precision")["error"]
    assert 0 < errors[str(dtype).removeprefix("torch.")] < 0.1
    assert errors["float32"] < 1e-4


def test_tied_weights_are_one_parameter():
    module, inputs, loss_fn = ARCHITECTURES["gpt"]()
    report = audit(module, inputs, loss_fn=loss_fn, only=["weight invariances"])
    names = list(report.table("weight invariances")["weight"])
    assert "head.weight" not in names
    assert names.count("wte.weight") == 1
    new = swap(module, {nn.LayerNorm: RMSNorm}).make()
    assert new.head.weight is new.wte.weight


def test_frozen_parameters_are_left_out_of_gradients():
    module, inputs, loss_fn = ARCHITECTURES["convnext"]()
    module[2].requires_grad_(False)
    layers = light(module, inputs, loss_fn).table("gradients over depth")["layer"]
    trained = [n for n, p in module.named_parameters() if p.requires_grad and p.dim() > 1]
    assert list(layers) == trained


def test_a_check_that_fails_says_why_and_the_rest_goes_on():
    def wrong(output):
        raise KeyError("no such loss")

    report = audit(nn.Linear(3, 4), torch.randn(4, 3), loss_fn=wrong)
    assert "no such loss" in report.not_run["gradients over depth"]
    assert {"normalizers", "weight invariances", "precision"} <= report.data.keys()


def test_parameters_without_axes_keep_no_check_from_running():
    net = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), DyT(6), nn.Linear(6, 3))
    x, y = torch.randn(16, 6), torch.arange(16) % 3
    report = audit(net, x, y, nn.functional.cross_entropy)
    assert {"derivative", "gradients over depth", "curvature"} <= report.data.keys()
    assert not [why for why in report.not_run.values() if "Error" in why]


def test_checks_that_do_not_apply_say_so():
    one_case = audit(nn.Linear(6, 6), torch.randn(1, 6), only=["independent examples"])
    assert "one example" in one_case.not_run["independent examples"]
    flat = nn.Sequential(nn.Linear(6, 6), nn.Flatten(0))
    assert (
        "entry for each example"
        in audit(flat, torch.randn(4, 6)).not_run["independent examples"]
    )
