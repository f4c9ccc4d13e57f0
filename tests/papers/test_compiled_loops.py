"""The compiled loops of DRAW and handwriting: the functions of their references."""

import warnings

import pytest
import torch

from lnlab.kernels.compilation import library
from lnlab.nn import RMSNorm
from lnlab.papers import draw, handwriting
from lnlab.papers.draw.kernels import DRAWING, fuse_draw
from lnlab.papers.draw.model import ARMS, DRAW, MISTAKES
from lnlab.papers.handwriting import kernels
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.kernels import WRITING, fuse_handwriting
from lnlab.papers.handwriting.model import ARMS as WRITERS
from lnlab.papers.handwriting.model import HandwritingNet, LineBatch


def assert_same(values, expected):
    for name, value in expected.items():
        error = (values[name] - value).abs().max()
        assert error <= 1e-10 * value.abs().max() + 1e-300, name


def perturb(net, scale=0.1):
    """Make biases and initial states other than 0, in double precision."""
    with torch.no_grad():
        for p in net.parameters():
            p.add_(scale * torch.randn_like(p))
    return net.double()


class Draw:
    """Networks of DRAW and images, and all that they compute from them."""

    library, arms = DRAWING, ARMS
    fuse = staticmethod(fuse_draw)
    # (height, width), H, Z, T, B, N to read, N to write: small; all 1; more than a vector
    # everywhere, three slices of examples, two chunks of glimpses in the backward pass
    sizes = (
        ((7, 6), 5, 3, 4, 6, 2, 3),
        ((1, 1), 1, 1, 1, 1, 1, 1),
        ((9, 33), 20, 17, 6, 131, 3, 5),
    )

    @staticmethod
    def make(size=sizes[0], arm="layer", kind=DRAW, mistake="none"):
        shape, H, Z, T, B, read, write = size
        sizes = {"units": (H,), "latent_size": Z, "glimpses": T}
        sizes |= {"read_size": read, "write_size": write}
        start = {"initialisation": "modern", "mistake": mistake}
        torch.manual_seed(3)
        net = perturb(kind(draw.Experiment(norm=arm, **sizes, **start), shape))
        return net, (torch.rand(B, shape[0] * shape[1]) < 0.3).double()

    @staticmethod
    def run(net, x):
        """Both parts of the bound, and the gradients by all parameters."""
        net.zero_grad()
        torch.manual_seed(1)
        canvas, kl = net(x)
        weights = torch.linspace(1, 2, len(x)).to(
            x
        )  # other gradients for each example and part
        ((canvas + 0.7 * kl) * weights).sum().backward()
        grads = {name: p.grad.clone() for name, p in net.named_parameters()}
        return {"canvas": canvas.detach(), "kl": kl.detach(), **grads}

    @staticmethod
    def loop(net, x):
        return net.loop()

    class Subclass(DRAW):
        def _write(self, z, state, t):
            decoder, canvas, window = super()._write(z, state, t)
            return decoder, canvas + 1, window

    @staticmethod
    def cell(net):
        return net.encoder


class Write:
    """Networks of handwriting and lines, and all that they compute from them."""

    library, arms = WRITING, WRITERS
    fuse = staticmethod(fuse_handwriting)
    # H, K, T, B, U, alphabet: small; all 1; more than a vector everywhere, three slices of
    # examples, two chunks of points in the backward pass; the proportions of an update
    sizes = (
        (5, 3, 4, 6, 4, Alphabet("abc ")),
        (1, 1, 1, 1, 1, Alphabet("a")),
        (20, 17, 6, 131, 19, Alphabet("abc ")),
        (33, 10, 40, 17, 12, Alphabet(ALPHABETS["unipen"])),
    )

    @staticmethod
    def make(size=sizes[0], arm="layer", kind=HandwritingNet):
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

    @staticmethod
    def run(net, batch):
        """All outputs from a state within a line, and the gradients by all inputs."""
        net.zero_grad()
        generator = torch.Generator().manual_seed(5)

        def random_like(tensor):
            return torch.randn(tensor.shape, generator=generator).to(tensor).requires_grad_()

        memory, x = net.start(len(batch.x)), batch.x.clone().requires_grad_()
        states = tuple(tuple(map(random_like, state)) for state in memory.states)
        kappa, w = random_like(memory.kappa), random_like(memory.w)
        memory = memory._replace(states=states, kappa=kappa, w=w)
        y, phi, end = net.advance(x, batch.text, memory)
        outputs = {"y": y, "phi": phi, "h": end.states[0][0], "c": end.states[0][1]}
        outputs |= {"kappa": end.kappa, "w": end.w}
        sum(
            (value * random_like(value).detach()).sum() for value in outputs.values()
        ).backward()
        grads = {name: p.grad.clone() for name, p in net.named_parameters()}
        inputs = {"x": x, "h0": states[0][0], "c0": states[0][1], "kappa0": kappa, "w0": w}
        grads |= {f"d{name}": tensor.grad for name, tensor in inputs.items()}
        return {name: value.detach() for name, value in outputs.items()} | grads

    @staticmethod
    def loop(net, batch):
        return net.loop(batch.text)

    class Subclass(HandwritingNet):
        def characters(self, text):
            return 2 * super().characters(text)

    @staticmethod
    def cell(net):
        return net.lstms[0].cells[0]


SUBJECTS = [Draw, Write]
every_subject = pytest.mark.parametrize("subject", SUBJECTS)


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    """A machine that cannot build the loops leaves these tests out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if any(library(subject.library) is None for subject in SUBJECTS):
            pytest.skip("no compiler")
    monkeypatch.setattr(kernels, "LEAST", 1)  # use the loop for a single point too


@pytest.mark.parametrize(
    ("subject", "arm", "size"),
    [(s, arm, size) for s in SUBJECTS for arm in s.arms for size in s.sizes],
)
def test_values_and_every_gradient_are_those_of_the_reference(subject, arm, size):
    net, x = subject.make(size, arm)
    fused = subject.fuse(net)
    assert type(fused) is not type(net)
    assert subject.loop(fused, x) is not None
    expected = subject.run(net, x)
    assert all(value.abs().max() > 0 for name, value in expected.items() if "W_x" in name)
    assert_same(subject.run(fused, x), expected)


@every_subject
def test_no_byte_depends_on_the_number_of_threads(subject):
    net, x = subject.make(subject.sizes[2])
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(subject.run(subject.fuse(net), x))
    finally:
        torch.set_num_threads(before)
    # the output layer is torch's own product, which some processors cut by threads
    for name in results[0].keys() - {"out.W"}:
        assert torch.equal(results[0][name], results[1][name]), name


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_draw_are_those_of_the_reference(mistake):
    net, x = Draw.make(mistake=mistake)
    x = torch.rand_like(x) if mistake == "grey" else x
    fused = fuse_draw(net)
    assert fused.loop() is not None
    values = Draw.run(fused, x)
    assert_same(values, Draw.run(net, x))
    if mistake in ("grid", "kl", "noise"):
        correct = Draw.run(fuse_draw(Draw.make()[0]), x)
        assert any(
            (values[name] - correct[name]).abs().max() > 1e-3 for name in ("canvas", "kl")
        )


@pytest.mark.parametrize("size", Draw.sizes)
def test_a_drawing_is_that_of_the_reference_and_differentiable(size):
    net, x = Draw.make(size)
    noise = torch.randn(net.glimpses, len(x), net.latent_size).double()
    with torch.no_grad():
        values, expected = fuse_draw(net).draw(x, noise), net.draw(x, noise)
    for ours, theirs in zip(
        [*values[:4], *values.read, *values.write],
        [*expected[:4], *expected.read, *expected.write],
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    grads = [
        torch.autograd.grad(model.draw(x, noise).canvases[-1].sum(), model.decoder.W_x)[0]
        for model in (net, fuse_draw(net))
    ]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("offset", [40.0, -800.0])
def test_window_components_of_any_size_are_those_of_the_reference(offset):
    net, batch = Write.make()
    with torch.no_grad():
        net.move.b_inside[:6] = offset  # alpha and beta
    assert_same(Write.run(fuse_handwriting(net), batch), Write.run(net, batch))


# what stays on the reference


@every_subject
@pytest.mark.parametrize("change", ["subclass", "hook", "norm"])
def test_what_the_loop_has_no_form_for_is_left_to_the_reference(subject, change):
    net, x = subject.make(**({"kind": subject.Subclass} if change == "subclass" else {}))
    fused = subject.fuse(net)
    for each in (net, fused):
        if change == "hook":
            subject.cell(each).register_forward_hook(
                lambda *args: tuple(2 * s for s in args[2])
            )
        elif change == "norm":
            subject.cell(each).norm_c = RMSNorm(5).double()
    if change == "subclass":
        assert type(fused) is subject.Subclass
    else:
        assert subject.loop(fused, x) is None
    assert_same(subject.run(fused, x), subject.run(net, x))


@every_subject
def test_other_dtypes_run_on_the_reference(subject):
    net, x = subject.make()
    fused = subject.fuse(net)
    subject.cell(fused).float()
    assert subject.loop(fused, x) is None
