"""The costs of handwriting: an update with layer norm beside one without, and what bounds both.

Lines of random points, one thread, processor time, 16 lines of 317 points, as UNIPEN has them.
Contenders take turns, every other round in the reverse order; each round gives one ratio, of
which the median and the quartiles are shown. "Layer" and "none" move the window in the compiled
loop, the "reference" is the same net stepped point by point, its upper LSTMs compiled too. The
loop stands beside its own matrix products with nothing between them.
"""

import os
from collections.abc import Callable
from json import dumps
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.thoughts import summary, table, timed
from lnlab.kernels import fuse
from lnlab.kernels.compilation import call_library_or_raise
from lnlab.papers.handwriting import Experiment
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.kernels import FusedHandwriting
from lnlab.papers.handwriting.model import HandwritingNet, LineBatch
from lnlab.training import stack
from lnlab.training.optim import call_before_each_step
from lnlab.training.runs import device_name

UNITS = 64, 128
POINTS, CHARACTERS = 317, 12
LINES: Any = SimpleNamespace(
    alphabet=Alphabet(ALPHABETS["unipen"]),
    train=[SimpleNamespace(text="a" * CHARACTERS, num_points_after_first=POINTS)],
)


def main(json: bool) -> None:
    """Print the ratios, as a table or as JSON."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "device": device_name(torch.device("cpu")), "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    for units in UNITS:
        name = f"3 x {units} units"
        found |= {f"{pair} at {name}": one for pair, one in ratios(units).items()}
    found["load at the end"] = round(os.getloadavg()[0], 1)
    print(dumps(found, indent=1) if json else table(found))


def ratios(units: int) -> dict[str, dict[str, Any]]:
    """The ratios of times of an update, and of the loop alone, of one size."""
    layer, none = (
        Experiment.scaled_for_two_cores(norm=norm, units=(units,), seeds=(0,)) for norm in ARMS
    )
    net = layer.model(0, LINES)
    assert isinstance(net, FusedHandwriting)
    found = timed(
        {
            "an update with layer norm": update(layer, net),
            "without": update(none, none.model(0, LINES)),
            "the reference": update(layer, stepped(layer)),
            "the window's loop": moved(net),
            "its own matrix products": floor(net),
        }
    )
    pairs = (
        ("an update with layer norm", "without"),
        ("the reference", "an update with layer norm"),
        ("the window's loop", "its own matrix products"),
    )
    return {f"{a} / {b}": summary({a: found[a], b: found[b]}) for a, b in pairs}


ARMS = "layer", "none"


def stepped(experiment: Experiment) -> HandwritingNet:
    """The net of seed 0, its window moved point by point."""
    torch.manual_seed(0)
    return fuse(experiment.make_net(LINES.alphabet, CHARACTERS / POINTS))


def lines(B: int) -> LineBatch:
    """B lines of random points and characters."""
    text = torch.randint(0, len(LINES.alphabet), (B, CHARACTERS))
    return LineBatch(torch.randn(B, POINTS, 3), text)


def update(experiment: Experiment, net: Any) -> Callable[[], None]:
    """One update of one net, on a batch that is always the same."""
    model = stack([net])
    optimizer = experiment.optimizer(model.parameters())
    call_before_each_step(optimizer, experiment.clip_)
    batch = LineBatch(*(a.unsqueeze(0) for a in lines(experiment.batch_size)))
    y = torch.rand(*batch.x.shape).round(), torch.full(batch.x.shape[:2], POINTS)

    def step() -> None:
        optimizer.zero_grad()
        losses = experiment.loss(model(batch), y)
        losses.backward(torch.ones_like(losses))
        optimizer.step()

    return step


def moved(net: FusedHandwriting) -> Callable[[], None]:
    """The loop of the window, there and back, and nothing above it."""
    batch = lines(16)
    x, start = batch.x.transpose(0, 1), net.initial_state(16)

    def run() -> None:
        h, w, *_ = net._run_window(x, batch.char_ids, start)
        torch.autograd.backward([h, w], [torch.ones_like(h), torch.ones_like(w)])

    return run


def floor(net: FusedHandwriting) -> Callable[[], object]:
    """The matrix products of that loop, there and back, and nothing else."""
    batch, memory = lines(16), net.initial_state(16)
    loop = net.make_loop_if_supported(batch.char_ids)
    assert loop is not None
    x = batch.x.transpose(0, 1).contiguous()
    start = [a.detach().contiguous() for a in (*memory.lstm_states[0], memory.kappa, memory.w)]
    parameters = [p.detach() for p in net.loop_parameters()]
    slopes = [torch.empty_like(p) for p in parameters]
    problem = loop.problem([x, *start, *parameters], {})
    saved_bytes = call_library_or_raise(loop.lib, "saved_bytes", problem)
    saved = torch.zeros(saved_bytes, dtype=torch.uint8)
    problem.saved = saved.data_ptr()
    problem.grads[:] = [p.data_ptr() for p in slopes]
    tensors = x, start, parameters, slopes, saved  # live as long as the pointers to them
    return lambda tensors=tensors: call_library_or_raise(loop.lib, "floor_of", problem)
