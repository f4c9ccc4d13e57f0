"""Is this really layer normalization? A normalizer told by what it computes.

Names are not trusted: many a module called LayerNorm divides by H - 1 or adds eps to sigma.
"""

import math
from itertools import chain, groupby

import torch
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from lnlab.nn.table1 import Statistics
from lnlab.probes.conformance.identify import (
    SAME,
    Box,
    Divisor,
    Extent,
    Parameter,
    alike,
    divisor,
    extent,
    extents,
    open_gains,
    parameters,
)
from lnlab.probes.conformance.peer import Peer, nearest
from lnlab.probes.conformance.report import NOTHING, Aspect, Report
from lnlab.probes.conformance.running import running
from lnlab.probes.givens import normal
from lnlab.probes.invariance import relative_change
from lnlab.probes.refusals import refuse_no_module, refuse_no_tensor
from lnlab.probes.returned import first_tensor
from lnlab.probes.subject import Read, Subject, Trial
from lnlab.threads import in_one_thread

CASES = 8
"""At least so many cases are made up: statistics of one or two values say nothing."""

LARGE_MEAN = 1e4
UNBIASED = "unbiased variance"
PARTS = 4
"""The most parts of an axis that are told: where there are more, no place sets inputs apart."""


@in_one_thread
def conformance(
    module: nn.Module, x: Tensor | None = None, *, read: Read = first_tensor
) -> Report:
    """Tell what a normalizer computes, and where that is not what torch.nn's does.

    It is a black box in float64: what statistics run over, whether the mean is removed, the
    estimator of the variance, what it is divided by, where eps stands and what it is, what
    gains and biases do, what is remembered for evaluation, and whether the variance cancels
    in float32. The module itself is not touched.

    Args:
        module: the normalizer; its output has the shape of its input.
        x: an input, of which only the shape is used, and the device where the module has no
            tensor of its own; None: made up from the module's ``normalized_shape``,
            ``num_features``, ``num_channels`` or ``units``.
        read: what is judged.

    Raises:
        TypeError: where ``module`` is none, or x no tensor.
        ValueError: where no input can be made up, the module does not take one, or its
            output has another shape.
    """
    refuse_no_module(module)
    if x is not None:
        refuse_no_tensor("x", x, "an input of the shape that the module takes")
    if x is not None and x.dim() < 2:
        raise ValueError(f"x has shape {tuple(x.shape)}: give cases along the first axis.")
    own = chain(module.parameters(), module.buffers(), () if x is None else (x,))
    device = next((tensor.device for tensor in own), torch.device("cpu"))
    shape = _shape(module, device) if x is None else (max(CASES, len(x)), *x.shape[1:])
    # a mean of 1/2, a deviation of 2: where they are not removed, it shows
    z = (2 * normal(3, 0, *shape) + 0.5).to(device)
    training, evaluation = (
        Box(Subject(module, z, dtype=torch.float64, statistics=statistics, read=read))
        for statistics in (Statistics.BATCH, Statistics.FROZEN)
    )
    y = training(z)
    if y.shape != z.shape:
        raise ValueError(
            f"{type(module).__name__} makes {tuple(y.shape)} of {tuple(z.shape)}: conformance "
            "is for normalizers, which keep the shape; certify takes any module."
        )
    return _report(module, training, evaluation, z)


def _shape(module: nn.Module, device: torch.device) -> tuple[int, ...]:
    """A shape that ``module``, on this device, says it takes."""
    if (shape := getattr(module, "normalized_shape", None)) is not None:
        return CASES, *((shape,) if isinstance(shape, int) else shape)
    if (units := getattr(module, "units", None)) is not None:
        return CASES, units, *(4,) * getattr(module, "space", 0)
    if (channels := getattr(module, "num_channels", None)) is not None:
        return CASES, channels, 5
    if (channels := getattr(module, "num_features", None)) is not None:
        for space in ((), (5,), (4, 4), (3, 3, 3))[isinstance(module, _InstanceNorm) :]:
            x = torch.zeros(CASES, channels, *space, device=device)
            try:
                Subject(module, x, dtype=torch.float64).see()
            except ValueError:
                continue
            return CASES, channels, *space
    raise ValueError(
        f"{type(module).__name__} does not say what it normalizes: give x, an input of the "
        "shape that it takes."
    )


def _report(module: nn.Module, training: Box, evaluation: Box, z: Tensor) -> Report:
    name = type(module).__name__
    over, differing = _extent_of(training, z)
    if differing:
        return Report(name, NOTHING, tuple(differing))
    # two values are -1 and 1 once they are normalized, whatever they were
    if over is None or over.size < 3:
        return Report(name, NOTHING, (_no_statistics(over),))
    roles = parameters(training, z)
    evaluation.weights = training.weights
    law = divisor(training, z, over)
    if law is None:
        form = Aspect("form", "no multiple of x or of x - mean", "(x - mean) / sigma", True)
        return Report(name, NOTHING, (_over(over, z, over.axes), form))
    peer = nearest(over, law, roles, z)
    findings = [
        _over(over, z, peer.axes),
        *_of_law(law, over, peer),
        *(_of_parameter(role, peer) for role in roles),
        *_of_evaluation(training, evaluation, z, over, law, peer),
        *_of_precision(module, training, peer, law),
        _difference(training, z, law, peer),
    ]
    if float(training.even(z).abs().max()) > SAME:
        findings.append(Aspect("sign", "y(-x) is not -y(x)", "y(-x) = -y(x)", True))
    return Report(name, peer.name, tuple(findings), over)


def _extent_of(training: Box, z: Tensor) -> tuple[Extent | None, list[Aspect]]:
    """Over what statistics run, behind gains of 0 too; or what is said where that differs."""
    open_gains(training)
    over, differing = extent(training, z), extents(training, z)
    training.weights.clear()
    return over, [_differing(axis, found) for axis, found in differing]


def _differing(axis: int, found: dict[int, Extent | None]) -> Aspect:
    """The places along an axis, and what their statistics are over: "0 to 5: of 6 values"."""
    places, said = list(found), []
    for _, group in groupby(range(len(places)), key=lambda i: found[places[i]]):
        run = list(group)
        first, last = places[run[0]], places[run[-1]]
        said.append(f"{first} to {last}: {_of(found[first])}")
    if len(said) > PARTS:
        said = ["of inputs that their values choose, as by a median or a maximum"]
    return Aspect(
        "statistics", f"along axis {axis}, {'; '.join(said)}", "the same for all", True
    )


def _of(over: Extent | None) -> str:
    if over is None:
        return "of no regular set of inputs"
    if over.size == 1:
        return "none, each output depends on its own input alone"
    return f"of {over.size} values"


def _axes(axes: tuple[int, ...]) -> str:
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))


def _no_statistics(over: Extent | None) -> Aspect:
    found = _of(over)
    if over is not None and over.size > 1:
        found += ": too few to tell what is done with them; give a larger x"
    return Aspect("statistics", found, "over axes of x", True)


def _over(over: Extent, z: Tensor, right: tuple[int, ...]) -> Aspect:
    part = "" if over.split is None else f", axis {over.split} in {over.groups} parts"
    found = f"{_axes(over.axes)} of {tuple(z.shape)}{part}: {over.size} values"
    wrong = _wide(over.axes, z) != _wide(right, z) or (
        over.split is not None and (over.split, 0) != (1, right[0] - 1)
    )
    return Aspect("statistics over", found, _axes(right), wrong)


def _wide(axes: tuple[int, ...], z: Tensor) -> tuple[int, ...]:
    """The axes along which z has several values: over the others nothing can run."""
    return tuple(axis for axis in axes if z.shape[axis] > 1)


def _of_law(law: Divisor, over: Extent, peer: Peer) -> list[Aspect]:
    """The lines on what is subtracted and what is divided by."""
    centring = peer.name != "RMSNorm"
    means = {(True, True): "removed", (False, False): "kept"}
    mean = means.get(
        (law.centred, law.about_mean),
        "removed, but not from the variance"
        if law.centred
        else "kept, but not in the variance",
    )
    right_mean = "removed" if centring else "kept"
    square = "variance" if law.about_mean else "mean square"
    found, wrong = _factor(law.factor, over.size)
    root = "its root" if abs(law.power - 0.5) < 1e-6 else f"its power {law.power:.3g}"
    places = {
        "inside": f"{law.eps:.1e} added to the {square}",
        "outside": f"{law.eps:.1e} added to sigma",
        "at least": f"sigma at least {law.eps:.1e}",
    }
    eps = places[law.place] if law.eps else "none"
    return [
        Aspect("mean", mean, right_mean, mean != right_mean),
        Aspect(square, found, "1/N", wrong),
        Aspect("divided by", root, "its root", root != "its root"),
        Aspect("eps", eps, f"added to the {square}", bool(law.eps) and law.place != "inside"),
    ]


def _factor(factor: float, N: int) -> tuple[str, bool]:
    """The divisor of the sum of squares, or what it makes of the outputs."""
    known = {
        1.0: ("1/N", False),
        N / (N - 1): ("1/(N-1), unbiased", True),
        float(N): ("the sum: outputs 1/sqrt(N) as large", True),
        float(N) ** 2: ("N times the sum: outputs 1/N as large", True),
    }
    for value, said in known.items():
        if math.isclose(factor, value, rel_tol=1e-6):
            return said
    return f"{factor:.6g}/N: outputs {factor**-0.5:.4g} times as large", True


def _of_parameter(role: Parameter, peer: Peer) -> Aspect:
    """A gain behind the statistics along the peer's axes, a bias behind the gain."""
    said = {
        "gain": "multiplies the normalized",
        "gain, 1 + ": "1 + it multiplies the normalized",
        "bias": "added last",
        "bias, times the gain": "added before the gain multiplies",
        "unused": "unused",
        "inside": "acts before the statistics are taken, or on none of this form",
    }[role.role]
    along = f", along {_axes(role.axes)}" if role.axes else ""
    plain = role.role in ("gain", "bias", "unused")
    right = "added last" if role.role.startswith("bias") else "multiplies the normalized"
    wrong = not plain or not set(role.axes) <= set(peer.gain_axes)
    return Aspect(role.name, said + along, f"{right}, along {_axes(peer.gain_axes)}", wrong)


def _of_evaluation(
    training: Box, evaluation: Box, z: Tensor, over: Extent, law: Divisor, peer: Peer
) -> list[Aspect]:
    """The lines on what it does in evaluation, and what it remembers for that."""
    if not peer.over_cases:
        same = alike(evaluation(z), training(z))
        found = "as training" if same else "another function"
        return [Aspect("evaluation", found, "as training", not same)]
    remembered = running(training, z, over, law)
    if remembered is None:
        found = "by the statistics of its own batch"
        return [Aspect("evaluation", found, "by running statistics", True)]
    m = remembered.momentum
    weight = "all batches alike" if m is None else f"{m:.3g} for the newest batch"
    variance = remembered.variance
    return [
        Aspect("evaluation", "by running statistics", "by running statistics", False),
        Aspect("momentum", weight, "0.1 for the newest batch", m is not None and math.isnan(m)),
        Aspect("running variance", variance, UNBIASED, variance != UNBIASED),
    ]


def _of_precision(module: nn.Module, training: Box, peer: Peer, law: Divisor) -> list[Aspect]:
    """The line on whether mean(x²) - mean(x)² cancels: float32 at a mean of 1e4.

    With gains of 1 and biases of 0: a gain of 0, or a large bias, would hide it.
    """
    if not law.about_mean:
        return []
    # mean x² is 1e8 here, which float32 holds to the nearest 8: of mean(x²) - mean(x)², a
    # variance of 1, nothing is left, while the mean of (x - mean)² has all its digits
    z = training.subject.x
    x = (LARGE_MEAN + normal(4, 0, *z.shape)).float().to(z.device)
    try:
        single = Subject(
            module, x, dtype=torch.float32, statistics=Statistics.BATCH,
            read=training.subject.read,
        )  # fmt: skip
        weights = {name: w.float() for name, w in training.weights.items()}
        y = single.see(Trial(x, weights)).y
    except ValueError:
        return []
    error = relative_change(y, training(x.double()))
    torchs = relative_change(peer(x, 1e-5), peer(x.double(), 1e-5))
    wrong = not error <= max(0.05, 10 * torchs)
    found = f"off by {error:.1g}" + (", the variance cancels" if wrong else "")
    return [Aspect("float32 at mean 1e4", found, f"off by {torchs:.1g}", wrong)]


def _difference(training: Box, z: Tensor, law: Divisor, peer: Peer) -> Aspect:
    """The difference of the outputs from torch's, gains 1 and biases 0."""
    # with torch's own eps where there is one in another place, so that the place alone is what
    # differs; 1e-300 stands for none, which torch does not take
    eps = law.eps if law.place == "inside" and law.eps else 1e-5 if law.eps else 1e-300
    off = (training(z) - peer(z, eps)).abs()
    largest = float(off.max())
    where = tuple((off == off.max()).nonzero()[0].tolist())
    same = largest < SAME
    found = "nothing" if same else f"up to {largest:.2g}, at {where}"
    return Aspect(f"differs from {peer.name} by", found, "nothing", not same)
