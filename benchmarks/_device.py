"""Recurrent layers on a GPU: what was measured there, or, without one, what is expected.

``rows`` measures; ``modelled`` is arithmetic, and no measurement.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.benchmark import Timer

from lnlab.kernels import fuse
from lnlab.unroll import GRU, LSTM

LAYERS: dict[str, tuple[type, type, int]] = {
    "LN-LSTM": (LSTM, nn.LSTM, 4),
    "LN-GRU": (GRU, nn.GRU, 3),
}
"""Ours, torch's without normalization, and the number of products of a step."""

LAUNCH, BANDWIDTH, PEAK = 3e-6, 3.35e12, 67e12
"""Seconds a launch (taken for granted: small kernels are launched every 2 to 4 us), bytes a
second and float32 operations a second outside tensor cores: NVIDIA H100 data sheet, SXM."""

NODE = 1e-6
"""Seconds from one kernel of a CUDA graph to the next (taken for granted)."""


def rows(
    device: torch.device, sizes: list[tuple[int, ...]], seconds: float = 1.0
) -> list[dict]:
    """Medians in ms of each layer at each size, training step and inference.

    ``ratio`` is ours over torch's without normalization, ``loop`` ours over the reference loop.
    """
    found = []
    for size in sizes:
        for name, (ours, theirs, _) in LAYERS.items():
            T, B, inputs, H = size
            reference = ours(inputs, H).to(device)
            layers = {"ours": fuse(reference), "torch": theirs(inputs, H).to(device)}
            layers["reference"] = reference
            x = torch.randn(T, B, inputs, device=device, requires_grad=True)
            dy = torch.randn(T, B, H, device=device)
            for phase in ("train", "infer"):
                ms = {
                    who: milliseconds(step(layer, x, dy, phase == "train"), seconds)
                    for who, layer in layers.items()
                }
                row = {"cell": name, "phase": phase, "size": list(size)}
                ratios = {
                    "ratio": ms["ours"] / ms["torch"],
                    "loop": ms["ours"] / ms["reference"],
                }
                found.append(row | ratios | {f"{who}_ms": value for who, value in ms.items()})
    return found


def step(
    layer: nn.Module, x: torch.Tensor, dy: torch.Tensor, train: bool
) -> Callable[[], None]:
    """One training step of a layer, or one call without gradients."""

    def training() -> None:
        x.grad = None
        layer.zero_grad()
        layer(x)[0].backward(dy)

    def inference() -> None:
        with torch.no_grad():
            layer(x)

    return training if train else inference


def milliseconds(run: Callable[[], None], seconds: float) -> float:
    """The median time of a call, the device's work included."""
    for _ in range(6):  # programs are compiled and graphs recorded
        run()
    timer = Timer("run()", globals={"run": run})
    return 1e3 * timer.blocked_autorange(min_run_time=seconds).median


def modelled(name: str, size: tuple[int, ...]) -> dict:
    """Launches, bytes and products of one training step in float32, and their time on an H100.

    Kernels of one stream follow each other: each takes the longest of its launch, its bytes
    and its products. Weights are counted as read at every step, though they may stay in the
    cache of 50 MB. A graph leaves ``NODE`` of each launch.
    """
    T, B, inputs, H = size
    G = LAYERS[name][2]
    cells = 2 if name == "LN-LSTM" else 1
    product = 4 * (G * H * H + B * H + B * G * H), 2 * B * G * H * H
    forward = 4 * B * H * (2 * G + 2 + cells), 0
    backward = 4 * B * H * (4 * G + 5 + 2 * cells), 0
    once = [  # a = W x, its norm and its way back; W_x, x; W_h and the gains
        *[(4 * (T * B * (inputs + G * H) + G * H * inputs), 2 * T * B * G * H * inputs)] * 3,
        *[(4 * T * B * 2 * G * H, 0)] * 4,
        (4 * (T * B * (G + 1) * H + G * H * H), 2 * T * B * G * H * H),
    ]
    kernels = [*[product, forward, backward, product] * T, *once]

    def time(least: float) -> float:
        return sum(max(least, bytes_ / BANDWIDTH, flops / PEAK) for bytes_, flops in kernels)

    return {
        "cell": name,
        "size": list(size),
        "launches": len(kernels),
        "MB": round(sum(bytes_ for bytes_, _ in kernels) / 1e6, 1),
        "GFLOP": round(sum(flops for _, flops in kernels) / 1e9, 2),
        "model_ms": round(1e3 * time(LAUNCH), 2),
        "model_ms_as_graph": round(1e3 * time(NODE), 2),
    }


def table(found: list[dict]) -> str:
    """Rows as text."""
    lines = [
        f"{'cell':8} {'phase':6} {'T, B, inputs, H':20} {'ours ms':>9} {'torch ms':>9} "
        f"{'loop ms':>9} {'/torch':>7} {'/loop':>6}"
    ]
    lines += [
        f"{row['cell']:8} {row['phase']:6} {', '.join(map(str, row['size'])):20} "
        f"{row['ours_ms']:9.2f} {row['torch_ms']:9.2f} {row['reference_ms']:9.2f} "
        f"{row['ratio']:7.2f} {row['loop']:6.2f}"
        for row in found
    ]
    return "\n".join(lines)


def model_table(sizes: list[tuple[int, ...]]) -> str:
    """The model at some sizes, as Markdown."""
    lines = [
        "| | T, B, inputs, H | launches | MB | GFLOP | ms | ms as a graph |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in sizes:
        for name in LAYERS:
            row = modelled(name, size)
            told = [name, ", ".join(map(str, size)), row["launches"], row["MB"], row["GFLOP"]]
            told += [row["model_ms"], row["model_ms_as_graph"]]
            lines.append(f"| {' | '.join(map(str, told))} |")
    return "\n".join(lines)
