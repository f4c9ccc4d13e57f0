"""The compiled loop of handwriting: the reference's function, whatever the threads."""

import copy
import warnings

import pytest
import torch
from torch import nn

import lnlab.papers.handwriting.kernels
from lnlab.kernels.library import NoKernel, library
from lnlab.nn import Identity, LayerNorm, RMSNorm
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.kernels import WRITING, FusedHandwriting, fuse_handwriting
from lnlab.papers.handwriting.model import HandwritingNet, LineBatch

NORMS = {"none": Identity, "layer": LayerNorm}
WIDE = Alphabet(ALPHABETS["unipen"])
# H, K, T, B, U, alphabet: small; all 1; more than a vector has in all places, three slices of
# cases, two chunks of points on the way back; the sizes of an update in little
SIZES = [
    (5, 3, 4, 6, 4, Alphabet("abc ")),
    (1, 1, 1, 1, 1, Alphabet("a")),
    (20, 17, 6, 131, 19, Alphabet("abc ")),
    (33, 10, 40, 17, 12, WIDE),
]
SMALL = SIZES[0]


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    """These tests are about the loop: a machine that cannot build it leaves them out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library(WRITING) is None:
            pytest.skip("no compiler")
    monkeypatch.setattr(
        lnlab.papers.handwriting.kernels, "LEAST", 1
    )  # to hold it for one point too


def made(size=SMALL, arm="layer", kind=HandwritingNet, **settings):
    """A net in double precision whose biases are not 0, and lines for it, texts ragged."""
    H, K, T, B, U, alphabet = size
    torch.manual_seed(3)
    net = kind(alphabet, H, 2, K, NORMS[arm], pace=0.5, **{"layers": 2} | settings)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        net.move.W.mul_(10)  # else the window hardly depends on anything
    text = torch.randint(0, len(alphabet), (B, U))
    for row in range(1, B):
        text[row, U - row % U :] = -1
    return net.double(), LineBatch(torch.randn(B, T, 3).double(), text)


def random_state(net, B):
    """A memory in the middle of a line."""
    random = torch.Generator().manual_seed(5)
    memory = net.start(B)

    def random_like(a):
        return torch.randn(a.shape, generator=random).to(a).requires_grad_()

    states = tuple(tuple(map(random_like, state)) for state in memory.states)
    return memory._replace(
        states=states, kappa=random_like(memory.kappa), w=random_like(memory.w)
    )


def everything(net, batch):
    """All that a net gives from a memory, and the gradients of all that it is made of."""
    net.zero_grad()
    memory, x = random_state(net, len(batch.x)), batch.x.clone().requires_grad_()
    y, phi, end = net.advance(x, batch.text, memory)
    given = {"y": y, "phi": phi, "h": end.states[0][0], "c": end.states[0][1]}
    given |= {"kappa": end.kappa, "w": end.w}
    random = torch.Generator().manual_seed(7)
    sum(
        (a * torch.randn(a.shape, generator=random).to(a)).sum() for a in given.values()
    ).backward()
    slopes = {name: p.grad.clone() for name, p in net.named_parameters()}
    start = {"x": x, "h0": memory.states[0][0], "c0": memory.states[0][1]}
    start |= {"kappa0": memory.kappa, "w0": memory.w}
    slopes |= {f"d{name}": a.grad for name, a in start.items()}
    return {name: a.detach() for name, a in given.items()} | slopes


def assert_same(found, expected, tolerance):
    for name, value in expected.items():
        close = (found[name] - value).abs().max() <= tolerance * value.abs().max() + 1e-300
        assert close, name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("arm", NORMS)
def test_values_and_every_gradient_are_those_of_the_reference(arm, size):
    net, batch = made(size, arm)
    quick = fuse_handwriting(net)
    assert isinstance(quick, FusedHandwriting)
    assert quick.loop(batch.text) is not None
    expected = everything(net, batch)
    assert expected["lstms.0.cells.0.W_x"].abs().max() > 0
    assert_same(everything(quick, batch), expected, 1e-10)


def test_in_single_precision_it_rounds_about_as_the_reference_does():
    net, batch = made(SIZES[3])
    exact, single = everything(net, batch), copy.deepcopy(net).float()
    errors = {}
    for name, of in (("reference", single), ("loop", fuse_handwriting(single))):
        found = everything(of, LineBatch(batch.x.float(), batch.text))
        off = [(found[k] - v).abs().max() / v.abs().max() for k, v in exact.items()]
        errors[name] = float(max(off))
    assert errors["loop"] < 3 * errors["reference"] + 1e-5


def test_no_byte_depends_on_the_number_of_threads():
    net, batch = made(SIZES[2])
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(everything(fuse_handwriting(net), batch))
    finally:
        torch.set_num_threads(before)
    # the output layer is torch's own product, which on some processors is cut by threads
    for name in found[0].keys() - {"out.W"}:
        assert torch.equal(found[0][name], found[1][name]), name
    assert_same(found[1], {"out.W": found[0]["out.W"]}, 1e-13)


@pytest.mark.parametrize("far", [40.0, -800.0])
def test_components_of_any_size_are_those_of_the_reference(far):
    net, batch = made()
    with torch.no_grad():
        net.move.b_inside[:6] = far  # alpha and beta
    assert_same(everything(fuse_handwriting(net), batch), everything(net, batch), 1e-10)


# --- what stays on the reference -------------------------------------------------------------


class Other(HandwritingNet):
    """A net of somebody else, whose letters count twice."""

    def characters(self, text):
        return 2 * super().characters(text)


def test_a_subclass_keeps_what_it_computes():
    net, batch = made(kind=Other)
    quick = fuse_handwriting(net)
    assert type(quick) is Other
    assert_same(everything(quick, batch), everything(net, batch), 1e-10)


def hooked(net):
    net.lstms[0].cells[0].register_forward_hook(lambda module, x, y: tuple(2 * s for s in y))


def replaced(net):
    net.characters = lambda text: 2 * HandwritingNet.characters(net, text)


def other_cell(net):
    net.lstms[0].cells[0].norm_c = RMSNorm(5).double()


def unbiased(net):
    net.move.b_inside = None


CHANGES = [hooked, replaced, other_cell, unbiased]


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_no_form_is_served_by_the_reference(change):
    net, batch = made()
    quick = fuse_handwriting(net)
    change(quick)
    assert quick.loop(batch.text) is None
    change(net)
    with torch.no_grad():
        torch.testing.assert_close(quick(batch), net(batch))


@pytest.mark.parametrize("settings", [{"form": "softplus"}, {"peepholes": True}])
@pytest.mark.filterwarnings("ignore::lnlab.kernels.fuse.LeftOnReference")
def test_other_windows_and_cells_run_on_the_reference(settings):
    net, batch = made(**settings)
    quick = fuse_handwriting(net)
    assert quick.loop(batch.text) is None
    assert_same(everything(quick, batch), everything(net, batch), 1e-10)


def test_other_dtypes_run_on_the_reference():
    net, batch = made()
    quick = fuse_handwriting(net).bfloat16()
    assert quick.loop(batch.text) is None
    assert quick(LineBatch(batch.x.bfloat16(), batch.text)).isfinite().all()
    mixed = fuse_handwriting(made()[0])
    mixed.move.float()
    assert mixed.loop(batch.text) is None


def test_points_one_by_one_run_on_the_reference(monkeypatch):
    monkeypatch.undo()
    assert lnlab.papers.handwriting.kernels.LEAST == 2
    net, batch = made()
    asked = []
    monkeypatch.setattr(FusedHandwriting, "loop", lambda self, text: asked.append(text))
    for points in (1, 2):
        fuse_handwriting(net)(LineBatch(batch.x[:, :points], batch.text))
        assert len(asked) == points - 1


@pytest.mark.parametrize(
    ("text", "message"),
    [(torch.full((6, 4), 9), "Class values"), (torch.zeros(5, 4).long(), "batch"),
     (torch.zeros(6, 4), "LongTensor")],
)  # fmt: skip
def test_bad_texts_are_refused_as_by_the_reference(text, message):
    net, batch = made()
    for each in (net, fuse_handwriting(net)):
        with pytest.raises((RuntimeError, ValueError)) as told:
            each.advance(batch.x, text, each.start(6))
        assert message.lower() in str(told.value).lower()


def test_there_is_no_second_derivative_and_it_says_so():
    net, batch = made()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(fuse_handwriting(net)(batch).sum(), net.move.W, create_graph=True)


def test_without_a_compiler_the_reference_writes_and_it_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    library.cache_clear()
    try:
        net, batch = made()
        net.lstms = net.lstms[:1]  # those above have a library of their own
        net.out.W = nn.Parameter(net.out.W[:, :5].detach())
        with pytest.warns(NoKernel, match=r"(?s)compiler failed.*the work of handwriting"):
            found = everything(fuse_handwriting(net), batch)
        assert_same(found, everything(net, batch), 1e-10)  # a second warning would be an error
    finally:
        library.cache_clear()
