"""The compiled loop of DRAW: the reference's function, whatever the threads; refusals."""

import copy
import warnings

import pytest
import torch

from lnlab.kernels.library import NoKernel, library
from lnlab.nn import RMSNorm
from lnlab.papers.draw.experiment import ARMS
from lnlab.papers.draw.kernels import DRAWING, FusedDRAW, fuse_draw
from lnlab.papers.draw.model import DRAW, MISTAKES

# (height, width), H, Z, T, B, N to read, N to write: small; all 1; more than a vector has in
# all places, three slices of cases, two chunks of glimpses on the way back
SIZES = [
    ((7, 6), 5, 3, 4, 6, 2, 3),
    ((1, 1), 1, 1, 1, 1, 1, 1),
    ((9, 33), 20, 17, 6, 131, 3, 5),
]
SMALL = SIZES[0]


@pytest.fixture(autouse=True)
def kernel():
    """These tests are about the loop: a machine that cannot build it leaves them out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library(DRAWING) is None:
            pytest.skip("no compiler")


def made(size=SMALL, arm="layer", mistake="none", kind=DRAW, **settings):
    """A net in double precision, its biases and first states not 0, and pictures for it."""
    shape, H, Z, T, B, read, write = size
    norm, gates = ARMS[arm]
    settings = {"norm": norm, "gates": gates, "initialisation": "modern"} | settings
    torch.manual_seed(3)
    net = kind(shape, H, Z, T, read, write, mistake=mistake, **settings)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return net.double(), (torch.rand(B, shape[0] * shape[1]) < 0.3).double()


def everything(net, x):
    """The two parts of the bound and the gradients of all parameters, by name."""
    net.zero_grad()
    torch.manual_seed(1)
    canvas, divergence = net(x)
    weights = torch.linspace(1, 2, len(x)).to(x)  # a gradient of its own for each case and part
    ((canvas + 0.7 * divergence) * weights).sum().backward()
    slopes = {name: p.grad.clone() for name, p in net.named_parameters()}
    return {"canvas": canvas.detach(), "kl": divergence.detach(), **slopes}


def assert_same(found, expected, tolerance):
    for name, value in expected.items():
        close = (found[name] - value).abs().max() <= tolerance * value.abs().max() + 1e-300
        assert close, name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("arm", ARMS)
def test_bound_and_every_gradient_are_those_of_the_reference(arm, size):
    net, x = made(size, arm)
    quick = fuse_draw(net)
    assert isinstance(quick, FusedDRAW)
    assert quick.loop() is not None
    expected = everything(net, x)
    assert expected["encoder.W_x"].abs().max() > 0
    assert_same(everything(quick, x), expected, 1e-10)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_those_of_the_reference(mistake):
    net, x = made(mistake=mistake)
    x = torch.rand_like(x) if mistake == "grey" else x
    quick = fuse_draw(net)
    assert quick.loop() is not None
    found = everything(quick, x)
    assert_same(found, everything(net, x), 1e-10)
    if mistake in ("grid", "kl", "noise"):
        right = everything(fuse_draw(made()[0]), x)
        assert any((found[name] - right[name]).abs().max() > 1e-3 for name in ("canvas", "kl"))


@pytest.mark.parametrize("size", SIZES)
def test_a_drawing_is_that_of_the_reference(size):
    net, x = made(size)
    noise = torch.randn(net.glimpses, len(x), net.latent_size).double()
    with torch.no_grad():
        found, expected = fuse_draw(net).draw(x, noise), net.draw(x, noise)
    pairs = zip([*found[:4], *found.read, *found.write],
                [*expected[:4], *expected.read, *expected.write], strict=True)  # fmt: skip
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_in_single_precision_it_rounds_about_as_the_reference_does():
    net, x = made(SIZES[2])
    exact, single = everything(net, x), copy.deepcopy(net).float()
    errors = {}
    for name, of in (("reference", single), ("loop", fuse_draw(single))):
        found = everything(of, x.float())
        off = [(found[k] - v).abs().max() / v.abs().max() for k, v in exact.items()]
        errors[name] = float(max(off))
    # the noise is another in single precision: the net is far from the exact one in both
    assert errors["loop"] < 3 * errors["reference"] + 1e-3


def test_no_byte_depends_on_the_number_of_threads():
    net, x = made(SIZES[2])
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(everything(fuse_draw(net), x))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


# --- what stays on the reference -------------------------------------------------------------


class OwnDecoder(DRAW):
    """A net that overrides the loop itself."""

    def _write(self, z, state, t):
        decoder, canvas, on = super()._write(z, state, t)
        return decoder, canvas + 1, on


def test_a_subclass_keeps_what_it_computes():
    net, x = made(kind=OwnDecoder)
    quick = fuse_draw(net)
    assert type(quick) is OwnDecoder
    assert_same(everything(quick, x), everything(net, x), 1e-10)


def hooked(net):
    net.decoder.register_forward_hook(lambda module, x, y: tuple(2 * s for s in y))


def replaced(net):
    net.nats = lambda x, canvas: canvas.sum(-1)


def other_cell(net):
    net.encoder.norm_c = RMSNorm(net.encoder.units).double()


def unbiased(net):
    net.reader.b_inside = None


@pytest.mark.parametrize("change", [hooked, replaced, other_cell, unbiased])
def test_what_has_no_form_is_served_by_the_reference(change):
    net, x = made()
    quick = fuse_draw(net)
    change(quick)
    assert quick.loop() is None
    change(net)
    with torch.no_grad():
        torch.manual_seed(1)
        found = quick(x)
        torch.manual_seed(1)
        expected = net(x)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_drawing_that_wants_a_gradient_gets_it():
    net, x = made()
    noise = torch.randn(net.glimpses, len(x), net.latent_size).double()
    found = []
    for each in (net, fuse_draw(net)):
        drawn = each.draw(x, noise)
        found += torch.autograd.grad(drawn.canvases[1].sum(), each.decoder.W_x)
    torch.testing.assert_close(*found)


def test_other_dtypes_run_on_the_reference():
    net, x = made()
    quick = fuse_draw(net).bfloat16()
    assert quick.loop() is None
    assert sum(quick(x.bfloat16())).isfinite().all()
    mixed = fuse_draw(made()[0])
    mixed.q.float()
    assert mixed.loop() is None


def test_there_is_no_second_derivative_and_it_says_so():
    net, x = made()
    bound = sum(fuse_draw(net)(x)).sum()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(bound, net.first, create_graph=True)


def test_without_a_compiler_the_reference_draws_and_it_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    library.cache_clear()
    try:
        net, x = made()
        with pytest.warns(NoKernel, match=r"(?s)compiler failed.*the work of DRAW"):
            found = everything(fuse_draw(net), x)
        assert_same(found, everything(net, x), 1e-10)  # a second warning would be an error
    finally:
        library.cache_clear()
