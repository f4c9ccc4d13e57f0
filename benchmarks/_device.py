"""Recurrent layers on a GPU: what was measured there, or, without one, what is expected.

``measure`` times five ways to compute a layer; ``modelled`` is arithmetic, and no measurement.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.benchmark import Timer

from lnlab.kernels import fuse, recurrent
from lnlab.kernels.fused_cells import CellKind
from lnlab.nn.recurrent import GRU, LSTM

SIZES = [
    (50, 32, 128, 128),
    (100, 32, 256, 256),
    (200, 8, 400, 400),
    (700, 8, 3, 400),
    (30, 64, 300, 1024),
]
"""T, B, inputs, H."""

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

PEER = "without norm"
"""torch's layer without normalization, cuDNN's on a GPU: ratios are over its time."""

CONTENDERS = {
    PEER: "torch's layer without layer norm (cuDNN)",
    "triton graph": "Triton, as a CUDA graph (torch.cuda.make_graphed_callables)",
    "triton": "Triton",
    "loop": "reference loop",
    "compiled": 'torch.compile(mode="reduce-overhead") of each step',
}
"""The last one takes longest to prepare. It compiles the cell and not the loop over it, as
compiling takes a time that grows with T: minutes at 50 steps."""

ELSEWHERE = {PEER: CONTENDERS[PEER], "fused": "fused", "loop": CONTENDERS["loop"]}
"""The contenders on a device that is not CUDA's."""


def contenders(device: torch.device) -> dict[str, str]:
    """The names of the contenders on a device, and what each is."""
    return CONTENDERS if device.type == "cuda" else ELSEWHERE


def measure(
    device: torch.device, sizes: list[tuple[int, ...]], seconds: float = 1.0
) -> Iterator[dict]:
    """Yield the median ms of each contender, layer, phase and size, or why there is none.

    Both sides compute in float32 and not in TF32, which torch allows cuDNN by default.
    """
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    for size in sizes:
        for contender in contenders(device):
            for cell in LAYERS:
                for phase in ("train", "infer"):
                    row = {"size": list(size), "contender": contender}
                    row |= {"cell": cell, "phase": phase}
                    try:
                        ms = median_ms(device, size, contender, cell, phase, seconds)
                        yield row | {"ms": ms}
                    except Exception as error:  # the other contenders are measured all the same
                        reason = str(error).strip().partition("\n")[0]
                        yield row | {"error": f"{type(error).__name__}: {reason}"[:300]}


def median_ms(
    device: torch.device,
    size: tuple[int, ...],
    contender: str,
    cell: str,
    phase: str,
    seconds: float,
) -> float:
    """Return the median ms of a training step, or of a call without gradients."""
    T, B, inputs, H = size
    x = torch.randn(T, B, inputs, device=device, requires_grad=True)
    dy = torch.randn(T, B, H, device=device)
    run = step(prepare(contender, cell, x, H), x, dy, phase == "train")
    return milliseconds(begin_with_mark(run) if contender == "compiled" else run, seconds)


def prepare(contender: str, cell: str, x: torch.Tensor, H: int) -> nn.Module:
    """Return the layer of a contender for x (T, B, inputs).

    Raises:
        RuntimeError: there is no Triton program, so that fuse() would take torch's operators.
    """
    ours, theirs, _ = LAYERS[cell]
    layer: Any = (theirs if contender == PEER else ours)(x.shape[2], H).to(x.device)
    if contender == "compiled":
        torch._dynamo.reset()  # or what was compiled before counts towards its limit
        for one in layer.cells:
            one.compile(mode="reduce-overhead")
    if contender in ("fused", "triton", "triton graph"):
        layer = fuse(layer)
    has_program = recurrent.has_triton_program(CellKind.LSTM, H, x.device, torch.float32)
    if "triton" in contender and not has_program:
        raise RuntimeError("no Triton program for this device and size, or no Triton")
    if contender == "triton graph":
        layer = torch.cuda.make_graphed_callables(layer, (x,))
    return layer


def begin_with_mark(run: Callable[[], None]) -> Callable[[], None]:
    """Let torch.compile's CUDA graphs overwrite what the call before has put out.

    Without the mark each step of time would overwrite the h of the step before.
    """

    def marked() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        run()

    return marked


def compare(measured: list[dict]) -> list[dict]:
    """One row for each size, layer and phase: ms and ratios by contender, and errors."""
    rows: dict[tuple, dict] = {}
    for one in measured:
        key = tuple(one["size"]), one["cell"], one["phase"]
        row = rows.setdefault(key, {name: one[name] for name in ("size", "cell", "phase")})
        if "error" in one:
            row.setdefault("errors", {})[one["contender"]] = one["error"]
        else:
            row.setdefault("ms", {})[one["contender"]] = round(one["ms"], 3)
    for row in rows.values():
        ms = row.get("ms", {})
        if PEER in ms:
            row["ratio"] = {name: round(ms[name] / ms[PEER], 2) for name in ms if name != PEER}
    return list(rows.values())


def write_rows(device: str, size: tuple[int, ...], seconds: float, out: Path) -> None:
    """Append each measurement to a file as it is made: what is killed leaves the others.

    On the device "pretend" that the tests make up there are values, but no time is real.
    """
    from tests.pretend import pretending

    with pretending() if device == "pretend" else nullcontext(), out.open("a") as file:
        for row in measure(torch.device(device), [size], seconds):
            print(json.dumps(row), file=file, flush=True)


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


def table(rows: list[dict]) -> str:
    """Rows as text, one for each contender."""
    lines = [
        f"{'cell':8} {'phase':6} {'T, B, inputs, H':20} {'contender':14} {'ms':>9} {'ratio':>6}"
    ]
    for row in rows:
        begin = f"{row['cell']:8} {row['phase']:6} {', '.join(map(str, row['size'])):20}"
        for name, ms in row.get("ms", {}).items():
            ratio = row.get("ratio", {}).get(name)
            told = "" if ratio is None else f" {ratio:6.2f}"
            lines.append(f"{begin} {name:14} {ms:9.2f}{told}")
        for name, error in row.get("errors", {}).items():
            lines.append(f"{begin} {name:14} {error}")
    return "\n".join(lines)
