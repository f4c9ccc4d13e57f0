"""The costs of DRAW: an update with layer norm beside one without, and what bounds both.

Random pictures, one thread, processor time. Contenders take turns, every other round in the
reverse order; each round gives one ratio, of which the median and the quartiles are shown.
An update is all that training does of it: noise, the way there and back through all glimpses,
clipping and Adam. "Layer" and "none" run in the compiled loop over glimpses, the "reference" is
``norm="layer", fused=False``. Beside each stand its own matrix products with nothing between
them: those of the loop's kernels, and those that the reference asks of torch, replayed.
"""

import os
from collections.abc import Callable
from json import dumps
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.thoughts import summary, table, timed
from lnlab.kernels.compilation import call_library_or_raise
from lnlab.papers.draw import Experiment
from lnlab.papers.draw.kernels import FusedDRAW
from lnlab.training import stack
from lnlab.training.optim import call_before_each_step
from lnlab.training.runs import device_name

MNIST: Any = SimpleNamespace(shape=(28, 28))
SIZES: dict[str, dict[str, Any]] = {
    "T = 10, 128 units": {"glimpses": 10, "units": (128,)},
    "T = 64, 256 units": {},
}
PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")


def main(json: bool) -> None:
    """Print the ratios, as a table or as JSON."""
    torch.set_num_threads(1)
    found = {
        "device": device_name(torch.device("cpu")), "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    for name, size in SIZES.items():
        found |= {f"an update at {name}, {pair}": one for pair, one in ratios(size).items()}
    found["load at the end"] = round(os.getloadavg()[0], 1)
    print(dumps(found, indent=1) if json else table(found))


def ratios(size: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The ratios of times of an update to others, of one size."""
    loop, reference = (Experiment(norm="layer", fused=fused, **size) for fused in (True, False))
    plainly = update(reference)
    found = timed(
        {
            "layer": update(loop),
            "none": update(Experiment(norm="none", **size)),
            "reference": plainly,
            "the loop's products": floor(loop),
            "the reference's products": products(plainly),
        }
    )
    pairs = (
        ("layer", "none"),
        ("reference", "layer"),
        ("layer", "the loop's products"),
        ("reference", "the reference's products"),
    )
    return {f"{a} / {b}": summary({a: found[a], b: found[b]}) for a, b in pairs}


def update(experiment: Experiment) -> Callable[[], None]:
    """One update of one seed, on a batch of random pictures that is always the same."""
    model = stack([experiment.model(0, MNIST)])
    optimizer = experiment.optimizer(model.parameters())
    call_before_each_step(optimizer, experiment.clip_)
    x = (torch.rand(1, experiment.batch_size, 28 * 28) < 0.13).float()

    def step() -> None:
        optimizer.zero_grad()
        losses = experiment.loss(model(x), x)
        losses.backward(torch.ones_like(losses))
        optimizer.step()

    return step


def floor(experiment: Experiment) -> Callable[[], object]:
    """The matrix products of the compiled loop, there and back, and nothing else."""
    net = experiment.model(0, MNIST)
    assert isinstance(net, FusedDRAW)
    of = net.make_loop_if_supported()
    assert of is not None
    x = torch.zeros(experiment.batch_size, 28 * 28)
    parameters, noise = [p.detach() for p in net.loop_parameters()], net.sample_noise(x)
    slopes = [torch.empty_like(p) for p in parameters]
    dcanvas = torch.zeros_like(x)
    drawing = of.problem([x, noise, *parameters], {"dcanvas": dcanvas})
    saved_bytes = call_library_or_raise(of.lib, "saved_bytes", drawing)
    saved = torch.zeros(saved_bytes, dtype=torch.uint8)
    drawing.saved = saved.data_ptr()
    drawing.grads[:] = [p.data_ptr() for p in slopes]
    alive = x, noise, dcanvas, parameters, slopes, saved  # as long as the pointers to them
    return lambda alive=alive: call_library_or_raise(of.lib, "floor_of", drawing)


def products(step: Callable[[], None]) -> Callable[[], None]:
    """The matrix products of a step, and nothing else."""

    class Recorded(TorchDispatchMode):
        """The matrix products that are asked for, and what of."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            if str(func).rpartition(".")[0] in PRODUCTS:
                told = [a.detach() if isinstance(a, Tensor) else a for a in args]
                calls.append((func, told, kwargs or {}))
            return func(*args, **(kwargs or {}))

    calls: list[tuple[Any, list[Any], dict[str, Any]]] = []
    with Recorded():
        step()

    def again() -> None:
        with torch.no_grad():
            for func, args, kwargs in calls:
                func(*args, **kwargs)

    return again
