"""The compiled loops of DRAW and handwriting: the functions of their references."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

from lnlab.kernels.compilation import KernelLibrary, library
from lnlab.nn import RMSNorm
from lnlab.papers import draw, handwriting
from lnlab.papers.draw.kernels import DRAWING, fused_draw_sharing_tensors
from lnlab.papers.draw.model import ARMS, DRAW, MISTAKES
from lnlab.papers.handwriting import kernels
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.kernels import WRITING, fused_handwriting_net_sharing_tensors
from lnlab.papers.handwriting.model import ARMS as WRITERS
from lnlab.papers.handwriting.model import HandwritingNet, LineBatch


def perturb(net, scale=0.1):
    """Make biases and initial states other than 0, in double precision."""
    with torch.no_grad():
        for p in net.parameters():
            p.add_(scale * torch.randn_like(p))
    return net.double()


def make_draw(size, arm="layer", kind=DRAW, mistake="none"):
    shape, H, Z, T, B, read, write = size
    config = draw.Experiment(
        norm=arm,
        initialisation="modern",
        mistake=mistake,
        units=(H,),
        latent_size=Z,
        glimpses=T,
        read_size=read,
        write_size=write,
    )
    torch.manual_seed(3)
    net = perturb(kind(config, shape))
    return net, (torch.rand(B, shape[0] * shape[1]) < 0.3).double()


def make_writer(size, arm="layer", kind=HandwritingNet):
    H, K, T, B, U, alphabet = size
    sizes = {"units": (H,), "layers": 2, "components": 2, "window_components": K}
    torch.manual_seed(3)
    net = perturb(kind(handwriting.Experiment(norm=arm, **sizes), alphabet, pace=0.5))
    with torch.no_grad():
        net.move.W.mul_(10)  # or the window hardly depends on anything
    text = torch.randint(0, len(alphabet), (B, U))
    for row in range(1, B):
        text[row, U - row % U :] = -1
    return net, LineBatch(torch.randn(B, T, 3).double(), text)


class OtherDRAW(DRAW):
    def _decode_and_update_canvas(self, z, state, t):
        decoder, canvas, window = super()._decode_and_update_canvas(z, state, t)
        return decoder, canvas + 1, window


class OtherWriter(HandwritingNet):
    def one_hot_characters(self, char_ids):
        return 2 * super().one_hot_characters(char_ids)


class Subject(NamedTuple):
    """A network with a loop of its own."""

    library: KernelLibrary
    make: Callable[..., Any]
    fuse: Callable[[Any], Any]
    loop: Callable[[Any, Any], Any]
    cell: Callable[[Any], Any]
    subclass: type
    arms: list
    # small; all 1; more than a vector everywhere, three slices of examples, two chunks of steps
    # in the backward pass; the proportions of an update
    sizes: tuple


SUBJECTS = {
    "draw": Subject(
        DRAWING,
        make_draw,
        fused_draw_sharing_tensors,
        lambda net, x: net.make_loop_if_supported(),
        lambda net: net.encoder,
        OtherDRAW,
        [*ARMS],
        (
            ((7, 6), 5, 3, 4, 6, 2, 3),
            ((1, 1), 1, 1, 1, 1, 1, 1),
            ((9, 33), 20, 17, 6, 131, 3, 5),
        ),
    ),
    "handwriting": Subject(
        WRITING,
        make_writer,
        fused_handwriting_net_sharing_tensors,
        lambda net, batch: net.make_loop_if_supported(batch.char_ids),
        lambda net: net.lstms[0].cells[0],
        OtherWriter,
        [*WRITERS],
        (
            (5, 3, 4, 6, 4, Alphabet("abc ")),
            (1, 1, 1, 1, 1, Alphabet("a")),
            (20, 17, 6, 131, 19, Alphabet("abc ")),
            (33, 10, 40, 17, 12, Alphabet(ALPHABETS["unipen"])),
        ),
    ),
}
every_subject = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


def run(net, x):
    """Return the outputs of a network and the gradients by all parameters."""
    net.zero_grad()
    torch.manual_seed(1)
    outputs = net(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    # other gradients for each number
    weights = (torch.linspace(1, 2, y.numel()).view_as(y).to(y) for y in outputs)
    sum((w * y).sum() for w, y in zip(weights, outputs, strict=True)).backward()
    grads = {name: p.grad.clone() for name, p in net.named_parameters()}
    return {f"output {k}": y.detach() for k, y in enumerate(outputs)} | grads


def assert_same(values, expected):
    for name, value in expected.items():
        error = (values[name] - value).abs().max()
        assert error <= 1e-10 * value.abs().max() + 1e-300, name


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    """A machine that cannot build the loops leaves these tests out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if any(library(subject.library) is None for subject in SUBJECTS.values()):
            pytest.skip("no compiler")
    monkeypatch.setattr(kernels, "LEAST", 1)  # use the loop for a single point too


@pytest.mark.parametrize(
    ("subject", "arm", "size"),
    [(s, arm, size) for s in SUBJECTS.values() for arm in s.arms for size in s.sizes],
)
def test_values_and_every_gradient_are_those_of_the_reference(subject, arm, size):
    net, x = subject.make(size, arm)
    fused = subject.fuse(net)
    assert subject.loop(fused, x) is not None
    expected = run(net, x)
    assert all(value.abs().max() > 0 for name, value in expected.items() if "W_x" in name)
    assert_same(run(fused, x), expected)


@every_subject
def test_no_byte_depends_on_the_number_of_threads(subject):
    net, x = subject.make(subject.sizes[2])
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(run(subject.fuse(net), x))
    finally:
        torch.set_num_threads(before)
    # the output layer is torch's own product, which some processors cut by threads
    for name in results[0].keys() - {"out.W"}:
        assert torch.equal(results[0][name], results[1][name]), name


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_draw_are_those_of_the_reference(mistake):
    size = SUBJECTS["draw"].sizes[0]
    net, x = make_draw(size, mistake=mistake)
    x = torch.rand_like(x) if mistake == "grey" else x
    values = run(fused_draw_sharing_tensors(net), x)
    assert_same(values, run(net, x))
    correct = run(fused_draw_sharing_tensors(make_draw(size)[0]), x)["output 1"]
    differs = bool((values["output 1"] - correct).abs().max() > 1e-3)
    assert differs == (mistake in ("grid", "kl", "noise"))


@pytest.mark.parametrize("size", SUBJECTS["draw"].sizes)
def test_a_drawing_is_that_of_the_reference(size):
    net, x = make_draw(size)
    noise = torch.randn(net.glimpses, len(x), net.latent_size).double()
    with torch.no_grad():
        values, expected = fused_draw_sharing_tensors(net).draw(x, noise), net.draw(x, noise)
    for ours, theirs in zip(
        [*values[:4], *values.read_windows, *values.write_windows],
        [*expected[:4], *expected.read_windows, *expected.write_windows],
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("offset", [40.0, -800.0])
def test_lines_are_continued_with_window_components_of_any_size(offset):
    net, batch = make_writer(SUBJECTS["handwriting"].sizes[0])
    _, _, memory = net.run_from_state(batch.x, batch.char_ids, net.initial_state(len(batch.x)))
    net.move.b_inside[:6] = offset  # alpha and beta
    expected, values = (
        dict(enumerate([y, phi, end.kappa, end.w]))
        for each in (net, fused_handwriting_net_sharing_tensors(net))
        for y, phi, end in [each.run_from_state(batch.x, batch.char_ids, memory)]
    )
    assert_same(values, expected)


@every_subject
@pytest.mark.parametrize("change", ["subclass", "hook", "norm", "dtype"])
def test_what_the_loop_has_no_form_for_is_left_to_the_reference(subject, change):
    kind = {"kind": subject.subclass} if change == "subclass" else {}
    net, x = subject.make(subject.sizes[0], **kind)
    fused = subject.fuse(net)
    if change == "subclass":
        assert type(fused) is subject.subclass
        return
    for each in (net, fused):
        if change == "hook":
            subject.cell(each).register_forward_hook(lambda m, x, y: tuple(2 * s for s in y))
        elif change == "norm":
            subject.cell(each).norm_c = RMSNorm(5).double()
        else:
            subject.cell(each).float()
    assert subject.loop(fused, x) is None
    if change != "dtype":
        assert_same(run(fused, x), run(net, x))
