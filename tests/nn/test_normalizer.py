"""Contract: what holds for every normalizer that has a name."""

import copy
from typing import NamedTuple

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F

from lnlab.nn import NORMS, GroupNorm, InstanceNorm, LayerNorm, Normalizer, SpectralNorm

BY_CASE = ["none", "layer", "weight", "rms", "group", "instance", "scale", "spectral"]
BY_CASE += ["weight standardization", "ada", "dyt", "derf"]
CENTRING = ["layer", "batch", "group", "instance", "weight, mean-only batch", "ghost batch"]
CENTRING += ["batch renorm", "ada", "recurrent batch", "batch layer"]

every_norm = pytest.mark.parametrize("name", NORMS)
training = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
halves = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


class Example(NamedTuple):
    norm: Normalizer
    a: torch.Tensor
    W: torch.Tensor

    def __call__(self):
        return self.norm(self.a, self.W, 0)

    def leaves(self):
        return {"a": self.a, **dict(self.norm.named_parameters())}


def example(name, units=8, cases=6, space=None):
    """A normalizer with summed inputs (cases, units, *space) of mean and spread about 1."""
    space = (2 if name == "instance" else 0) if space is None else space
    settings = {"space": space} if space else {}
    norm = NORMS[name](units, **settings)
    W = torch.randn(units, 5)
    norm.initialize_from_weights(W)
    x = torch.randn(cases, *(3, 4)[:space], 5)
    a = 1 + F.linear(x, norm.effective_weight(W)).movedim(-1, 1)
    return Example(norm, a.requires_grad_(), W.requires_grad_())


@every_norm
@training
def test_every_parameter_gets_a_gradient_which_is_the_derivative(
    name, training, randomize, outcome
):
    norm, a, W = given = example(name, cases=3)
    if isinstance(norm, SpectralNorm):  # its gradient is exact where u has converged
        norm.run_power_iteration(W.detach(), 1000)
    randomize(norm).train(training)
    gradients = outcome(given(), **given.leaves())
    assert gradients.pop("output").shape == a.shape
    for leaf, gradient in gradients.items():
        assert gradient.abs().max() > 1e-3, leaf
    if name == "ada" or (name == "batch renorm" and training):
        return  # by design: what is held constant has tests of its own
    assert gradcheck(lambda *leaves: norm(leaves[0], leaves[1], 0), (a, W, *norm.parameters()))


@every_norm
@pytest.mark.parametrize("parameters", [torch.float32, None], ids=["float32", "same"])
@halves
def test_half_precision_is_rounded_once(name, parameters, dtype, randomize):
    norm, a, W = example(name)
    norm, a, W = (
        randomize(norm).to(parameters or dtype),
        a.detach().to(dtype),
        W.detach().to(dtype),
    )
    norm.train(name != "spectral")  # which in training would round what it remembers
    exact = copy.deepcopy(norm).double()
    y, expected = norm(a, W, 0), exact(a.double(), W.double(), 0)
    assert y.dtype == dtype
    # half a unit in the last place of the output, and what float32 loses on the way
    bound = torch.finfo(dtype).eps / 2 * expected.abs() + 64 * torch.finfo(torch.float32).eps
    assert ((y.double() - expected).abs() <= bound).all()


@pytest.mark.parametrize("name", CENTRING)
def test_float32_does_not_cancel_at_mean_1e4(name):
    norm, a, W = example(name, units=64, cases=64)
    a = (a + 1e4).detach().float()
    exact = copy.deepcopy(norm)(a.double(), W, 0)
    # the mean of numbers near 1e4 is known to 5e-4 in float32; E[a^2] - E[a]^2 misses by 1
    torch.testing.assert_close(norm.float()(a, W.float(), 0).double(), exact, rtol=0, atol=4e-3)


@every_norm
@training
@pytest.mark.parametrize(("units", "cases"), [(8, 6), (1, 6), (8, 1), (1, 1)])
@pytest.mark.parametrize("level", [0.0, 3.0])
def test_constant_input_is_finite_with_finite_gradients(
    name, units, cases, level, training, outcome
):
    if name == "group" and units == 1:
        pytest.skip("four groups of one unit")
    norm, a, W = example(name, units, cases)
    norm.train(training)
    a = torch.full_like(a, level, requires_grad=True)
    for tensor in outcome(norm(a, W, 0), a=a).values():
        assert tensor.isfinite().all()


@pytest.mark.parametrize("name", BY_CASE)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_number_spoils_its_own_case_only(name, bad):
    norm, a, W = example(name)
    norm.eval()
    y = norm(a, W, 0)
    a = a.detach().clone()
    a[2, 0].fill_(bad)
    spoilt = norm(a, W, 0)
    others = torch.arange(len(a)) != 2
    assert torch.equal(spoilt[others], y[others])
    assert name in ("dyt", "derf") or not spoilt[2].isfinite().all()


@every_norm
def test_state_goes_to_a_fresh_normalizer(name, randomize):
    norm, a, W = given = example(name)
    randomize(norm)
    for _ in range(3):
        given()
    fresh = example(name).norm
    fresh.load_state_dict(copy.deepcopy(norm.state_dict()))
    norm.eval()
    fresh.eval()
    assert torch.equal(norm(a, W, 0), fresh(a, W, 0))
    assert list(norm.state_dict()) == list(fresh.state_dict())


@every_norm
@training
def test_device_moves_take_everything_along(name, training):
    norm, a, W = example(name)
    norm(a, W, 0)
    norm.to("meta").train(training)
    assert norm(a.to("meta"), W.to("meta"), 0).device.type == "meta"
    assert all(tensor.device.type == "meta" for tensor in norm.state_dict().values())


@every_norm
@training
def test_vmap_over_models_equals_one_by_one(name, training, randomize):
    """Parameters, gradients and what is remembered, of three models stacked."""
    examples = [example(name) for _ in range(3)]
    norms = [randomize(given.norm).train(training) for given in examples]
    a = torch.stack([given.a.detach() for given in examples])
    W = torch.stack([given.W.detach() for given in examples])
    parameters, buffers = stack_module_state(norms)  # type: ignore[arg-type]
    buffers = {key: buffer.clone() for key, buffer in buffers.items()}
    skeleton = copy.deepcopy(norms[0])

    def loss(parameters, a, W, buffers):
        y = functional_call(skeleton, (parameters, buffers), (a, W, 0))
        return y.square().sum(), y

    gradients, y = vmap(grad(loss, argnums=(0, 1), has_aux=True))(parameters, a, W, buffers)
    for i, (norm, _, _) in enumerate(examples):
        leaf = a[i].clone().requires_grad_()
        expected = norm(leaf, W[i], 0)
        expected.square().sum().backward()
        torch.testing.assert_close(y[i], expected)
        torch.testing.assert_close(gradients[1][i], leaf.grad)
        for key, parameter in norm.named_parameters():
            torch.testing.assert_close(gradients[0][key][i], parameter.grad)
        for key, buffer in norm.named_buffers():
            torch.testing.assert_close(buffers[key][i], buffer)


@every_norm
def test_other_shapes_are_refused(name):
    norm, a, W = example(name)
    for wrong in (a.movedim(1, -1)[..., :-1].movedim(-1, 1), torch.tensor(1.0)):
        with pytest.raises(ValueError, match="8 units"):
            norm(wrong, W, 0)
    with pytest.raises(TypeError, match="floating point"):
        norm(a.long(), W, 0)
    if name in ("weight", "weight, mean-only batch", "spectral"):
        with pytest.raises(ValueError, match=r"call norm\(a, W\)"):
            norm(a)
        with pytest.raises(ValueError, match="8 units"):
            norm(a, W[:-1])
    if "batch" in name:
        with pytest.raises(ValueError, match="no examples"):
            norm(torch.ones(0, 8), W, 0)


def test_impossible_settings_are_refused():
    for make, message in (
        (lambda: LayerNorm(0), "units is 0"),
        (lambda: GroupNorm(3, 8), "8 units .* 3 equal groups"),
        (lambda: InstanceNorm(8, space=0), "space=1"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
