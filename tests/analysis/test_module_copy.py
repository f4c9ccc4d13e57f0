"""After any analysis, raised or not, the model and all random numbers are as they were."""

import copy
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab
import lnlab.nn
from lnlab.analysis.fisher import fisher_information
from lnlab.analysis.hessian import extreme_eigenvalues, hessian_spectrum, hessian_trace
from lnlab.analysis.internal_covariate_shift import covariate_shift
from lnlab.analysis.landscape import loss_landscape
from lnlab.analysis.module_copy import (
    BN_STATS,
    InputAndWeightOverrides,
    ModuleCopy,
    find_weights,
    frozen_copy_without_hooks,
)
from lnlab.analysis.norm_gradients import gradient_norms, record_norm_calls
from lnlab.analysis.objective import Objective
from lnlab.analysis.rotation import scale_invariant_weights
from lnlab.analysis.smoothness import gradient_smoothness, log_spaced_step_sizes

ANALYSES = {
    "gradient": lambda o: o.gradient(),
    "smoothness": lambda o: gradient_smoothness(o, eta=log_spaced_step_sizes(0.1)),
    "landscape": lambda o: loss_landscape(o, points=3),
    "eigenvalues": lambda o: extreme_eigenvalues(o, steps=4),
    "trace": lambda o: hessian_trace(o, draws=2),
    "spectrum": lambda o: hessian_spectrum(o, draws=1, steps=3),
    "refused": lambda o: loss_landscape(o, directions=torch.zeros(2, len(o.start))),
    "shift": lambda o: covariate_shift(o, after=1.1 * o.start),
    "norm gradients": lambda o: record_norm_calls(o, ["1"])["1"].parts,
    "gradient norms": gradient_norms,
}
NORMS: dict[str, Any] = {
    "batch": nn.BatchNorm1d,
    "our batch": lnlab.nn.BatchNorm,
    "layer": nn.LayerNorm,
    "batch layer": lambda H: lnlab.nn.BatchLayerNorm(H),
}


class Breaks(nn.Module):
    """Raises at its call of that number."""

    def __init__(self, at):
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise ArithmeticError("broken")
        return x


def made(norm, at) -> Any:
    torch.manual_seed(0)
    net: Any = nn.Sequential(
        nn.Linear(4, 5), NORMS[norm](5), Breaks(0), nn.Tanh(), nn.Linear(5, 3)
    )
    net(torch.randn(9, 4) + 1)
    net[2].at, net[2].calls = at, 0
    net[4].weight.requires_grad = False
    net[0].weight.grad = torch.randn(5, 4)
    net.register_forward_hook(lambda *_: None)
    return net


def everything(net):
    """All that an analysis must leave alone, to be compared."""
    return {
        "tensors": {name: v.tolist() for name, v in net.state_dict().items()},
        "gradients": [None if p.grad is None else p.grad.tolist() for p in net.parameters()],
        "memory": [v.data_ptr() for v in net.state_dict().values()],
        "versions": [(p.requires_grad, p._version) for p in net.parameters()],
        "modes": [module.training for module in net.modules()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in net.modules()],
        "calls": net[2].calls,
        "random": torch.get_rng_state().tolist(),
        "settings": (torch.is_grad_enabled(), torch.get_default_dtype()),
    }


def analyzed(name, net, bn_stats):
    x, y = torch.linspace(-1, 1, 36).sin().view(9, 4), torch.arange(9) % 3
    if name == "fisher":
        return fisher_information(net, x, bn_stats=bn_stats).predicted_divergence(
            torch.ones(38)
        )
    if name == "scale-invariant":
        return scale_invariant_weights(net, x)
    return ANALYSES[name](Objective(net, x, y, F.cross_entropy, bn_stats=bn_stats))


@pytest.mark.parametrize("name", [*ANALYSES, "fisher", "scale-invariant"])
@pytest.mark.parametrize(
    ("norm", "bn_stats", "training", "at"),
    [
        ("batch", "batch", True, 0), ("batch", "running", False, 0),
        ("our batch", "recomputed", True, 0), ("our batch", "batch", False, 3),
        ("layer", "running", True, 1), ("batch layer", "recomputed", False, 7),
    ],
)  # fmt: skip
def test_an_analysis_leaves_everything_as_it_was(name, norm, bn_stats, training, at):
    net = made(norm, at).train(training)
    before = everything(net)
    allowed = [ArithmeticError, ValueError] if at or name == "refused" else []
    if name == "norm gradients" and norm in ("batch", "batch layer"):
        allowed.append(TypeError)  # no rule for (mu, sigma)
    second_order = ("fisher", "eigenvalues", "trace", "spectrum")
    if name in second_order and bn_stats == "recomputed":
        allowed.append(ValueError)
    with suppress(*allowed):
        analyzed(name, net, bn_stats)
    assert everything(net) == before


def test_old_weight_norm_keeps_the_hook_that_makes_its_weight():
    with pytest.warns(FutureWarning):
        linear = nn.utils.weight_norm(nn.Linear(3, 2))
    linear.register_forward_hook(lambda *_: pytest.fail("a hook of the user's was called"))
    twin, x = frozen_copy_without_hooks(linear), torch.randn(4, 3)
    with torch.no_grad():
        twin.weight_g.mul_(2)
    same = copy.deepcopy(twin)
    assert torch.equal(twin(x), same(x))
    assert not torch.equal(twin(x) - twin.bias, F.linear(x, linear.weight))


@pytest.mark.parametrize("bn_stats", BN_STATS)
def test_replacements_are_evaluated_and_taken_back(bn_stats):
    net, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), torch.randn(6, 3)
    net(2 * x + 1)
    module = ModuleCopy(net, x, bn_stats=bn_stats)
    state = copy.deepcopy(dict(module.module.state_dict()))
    first = module.run().y
    W, shift = torch.randn(4, 3), torch.randn(4)
    changed = module.run(
        InputAndWeightOverrides(3 * x, {"0.weight": W}, {"0": lambda a: a + shift})
    ).y
    a = (F.linear(3 * x, W, net[0].bias) + shift).detach()
    norm = copy.deepcopy(net[1]).train(bn_stats == "batch")
    if bn_stats == "recomputed":
        norm.running_mean, norm.running_var = a.mean(0), a.var(0, correction=0)
    torch.testing.assert_close(changed, norm(a).detach())
    assert torch.equal(module.run().y, first)
    torch.testing.assert_close(dict(module.module.state_dict()), state, rtol=0, atol=0)


def test_weights_are_matrices_and_kernels_but_those_of_normalizers_and_embeddings():
    net = nn.ModuleDict(
        {
            "embedding": nn.Embedding(3, 4),
            "norm": nn.LayerNorm((2, 4)),
            "up": nn.ConvTranspose1d(4, 5, 3),
            "linear": nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)),
        }
    )
    found = find_weights(net)
    path = "linear.parametrizations.weight.original1"
    assert [*found] == ["up.weight", path]
    assert [w.unit_axis for w in found.values()] == [1, 0]
    assert [*find_weights(net, ["embedding.weight"])] == ["embedding.weight"]
    with pytest.raises(ValueError, match=r"no weight is called \['up'\]: there are up.weight"):
        find_weights(net, ["up"])


@pytest.mark.parametrize("several", [(torch.ones(2, 3),) * 2, {"x": torch.ones(2, 3)}])
def test_who_gives_several_inputs_is_told_how_to(several):
    for analysis in (loss_landscape, extreme_eigenvalues):
        with pytest.raises(TypeError, match=r"give the input .* as a tensor.*several inputs"):
            analysis(nn.Linear(3, 2), several)
