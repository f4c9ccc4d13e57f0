"""What a normalizer costs: the reference and its fused form beside torch's own module.

A step is forward and backward, to the inputs and all parameters, on one thread. The three
take turns, and each round gives one ratio: of both, the median and the range are shown. The
clock is the processor time of this process, so that others on the machine hardly count.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from json import dumps
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.benchmark import Timer

from lnlab.kernels import LeftOnReference, fuse
from lnlab.norms import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Linear,
    RMSNorm,
    WeightNorm,
)
from lnlab.runs import device_name

CPU = torch.device("cpu")
Make = Callable[[], nn.Module]
"""Makes a module of the sizes of its row."""

ROUNDS = 15
SECONDS = 0.02
"""How long one of them is timed in one round, at least."""


Row = tuple[str, tuple[int, ...], Make, Make]
"""Its name, the shape of the input, ours, torch's."""


def rows() -> list[Row]:
    dense: list[Row] = [
        (name, (cases, units), partial(ours, units), partial(torchs, units))
        for cases, units in ((4, 1000), (32, 512), (128, 1000))
        for name, ours, torchs in (
            ("layer", LayerNorm, nn.LayerNorm),
            ("batch", BatchNorm, nn.BatchNorm1d),
            ("rms", RMSNorm, partial(nn.RMSNorm, eps=1e-5)),
            ("weight, with its product", partial(_linear, units), partial(_torchs, units)),
        )
    ]
    pictures: list[Row] = [
        (f"{name}, pictures", (16, 32, 14, 14), ours, torchs)
        for name, ours, torchs in (
            ("layer", partial(LayerNorm, 32, space=2), partial(nn.GroupNorm, 1, 32)),
            ("batch", partial(BatchNorm, 32, space=2), partial(nn.BatchNorm2d, 32)),
            ("group", partial(GroupNorm, 32, 8, space=2), partial(nn.GroupNorm, 8, 32)),
            ("instance", partial(InstanceNorm, 32), partial(nn.InstanceNorm2d, 32)),
        )
    ]
    return dense + pictures


def _linear(inputs: int, units: int) -> nn.Module:
    return Linear(inputs, units, WeightNorm)


def _torchs(inputs: int, units: int) -> nn.Module:
    return weight_norm(nn.Linear(inputs, units))


def step(module: nn.Module, a: Tensor, direction: Tensor) -> None:
    """Forward and backward; what is computed is thrown away."""
    torch.autograd.grad(module(a), [a, *module.parameters()], direction)


def timers(modules: list[nn.Module], shape: tuple[int, ...]) -> list[Timer]:
    a = torch.randn(shape).requires_grad_()
    direction = torch.randn(shape)
    return [
        Timer(
            "step(module, a, direction)",
            globals={"step": step, "module": module, "a": a, "direction": direction},
            timer=time.process_time,
        )
        for module in modules
    ]


def measure() -> list[dict]:
    """One row a normalizer and size."""
    table = []
    for name, shape, ours, torchs in rows():
        reference = ours()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeftOnReference)
            contenders = timers([torchs(), fuse(reference), reference], shape)
        slowest = contenders[2].timeit(10).mean  # warms up, too
        count = max(1, round(SECONDS / slowest))
        rounds = [[t.timeit(count).mean for t in contenders] for _ in range(ROUNDS)]
        fused = [f / t for t, f, _ in rounds]
        unfused = [r / t for t, _, r in rounds]
        table.append(
            {
                "normalizer": name,
                "shape": list(shape),
                "torch_us": round(1e6 * median(t for t, _, _ in rounds), 1),
                "fused_to_torch": _spread(fused),
                "reference_to_torch": _spread(unfused),
            }
        )
    return table


def _spread(ratios: list[float]) -> dict[str, float]:
    return {
        "median": round(median(ratios), 3),
        "min": round(min(ratios), 3),
        "max": round(max(ratios), 3),
    }


def main(json: bool = False) -> None:
    """Measure and print; ratios to torch's own module, whose time is in microseconds."""
    torch.set_num_threads(1)
    figures = {"rows": measure(), "threads": 1, "hardware": device_name(CPU)}
    if json:
        print(dumps(figures, indent=2))
        return
    print(
        f"{'normalizer':24} {'shape':18} {'torch, us':>9}  {'fused/torch':20} reference/torch"
    )
    for row in figures["rows"]:
        fused, reference = (
            "{median:.2f} ({min:.2f}-{max:.2f})".format(**row[f"{kind}_to_torch"])
            for kind in ("fused", "reference")
        )
        shape = str(tuple(row["shape"]))
        print(f"{row['normalizer']:25}{shape:18}{row['torch_us']:10.1f}  {fused:20}{reference}")
    print(f"1 thread, {figures['hardware']}; median of {ROUNDS} rounds (least-most).")


if __name__ == "__main__":
    main()
