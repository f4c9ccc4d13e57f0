"""LN-LSTM and LN-GRU beside torch's layers without normalization, and what bounds them.

Everything is measured in one run: each round times every candidate once, every other round
in the reverse order, and a ratio is the median over rounds of the ratio within a round.
Candidates: the fused layer; ``torch.nn.LSTM``/``GRU``; the kernel's matrix products alone
(the floor); in every fourth round also the reference loop and, for LN-LSTM, the TorchScript
loop of pytorch/benchmarks/fastrnns (there with its carried, normalized cell). A training
step is zero gradients, forward, and backward to weights and inputs.
"""

import ctypes
import json as json_text
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import _device
from benchmarks._device import SIZES
from lnlab.figures.style import BLUE, GREY, INK, OTHERS, TEMPLATE, add_footnote, shade_or_tint
from lnlab.kernels import fuse
from lnlab.kernels.compilation import call_library_or_raise, l2_bytes_per_thread, library
from lnlab.kernels.fused_cells import cell_kernel_arguments_or_none
from lnlab.kernels.recurrent import RecurrentLoop
from lnlab.nn import Cell
from lnlab.nn.recurrent import GRU, LSTM, Recurrent
from lnlab.training.random_state import read_device
from lnlab.training.runs import device_name

ROUNDS, SLOW_EVERY = 13, 4
LAYERS: dict[str, tuple[type[Recurrent], Callable[[int, int], nn.Module]]] = {
    "LN-LSTM": (LSTM, nn.LSTM),
    "LN-GRU": (GRU, nn.GRU),
}
LONG = (100, 1_000, 10_000)
"""Time steps, of 8 sequences of 32 inputs and 64 units."""
LINES = {
    "LN-LSTM, fused": ("LN-LSTM", "ours_ms", {"color": BLUE, "width": 4}),
    "LN-GRU, fused":
        ("LN-GRU", "ours_ms", {"color": shade_or_tint(BLUE, 2), "width": 4, "dash": "dash"}),
    "LN-LSTM, loop of operators":
        ("LN-LSTM", "reference_ms", {"color": OTHERS[2], "dash": "dashdot"}),
    "LN-LSTM, TorchScript": ("LN-LSTM", "script_ms", {"color": OTHERS[3], "dash": "6px,3px"}),
    "LN-LSTM, matrix products alone": ("LN-LSTM", "floor_ms", {"color": GREY, "dash": "dot"}),
}  # fmt: skip
"""The lines of a picture: the cell, its time in a row, and the look."""
Times = dict[str, list[float]]
"""Seconds by candidate; NaN in the rounds that leave it out."""


def main(json: bool, device: str = "cpu") -> None:
    """Print a table, or one JSON object; on another device, medians beside cuDNN's layers."""
    if device != "cpu":
        rows = _device.compare(list(_device.measure(read_device(device), SIZES)))
        result = {"hardware": device_name(read_device(device)), "rows": rows}
        print(json_text.dumps(result, indent=1) if json else _device.table(rows))
        return
    if library() is None:
        raise RuntimeError("There is no compiled kernel to measure: install g++ or clang++.")
    threads = torch.get_num_threads()
    rows = [row for size in SIZES for cell in LAYERS for row in measured(cell, size)]
    lengths = [long(T) for T in LONG]
    torch.set_num_threads(1)
    alone = measured("LN-LSTM", SIZES[1])
    torch.set_num_threads(threads)
    tuned = measured("LN-LSTM", SIZES[1]) if keeping_pages() else []
    result = {
        "hardware": hardware(),
        "threads": threads,
        "torch": torch.__version__,
        "dtype": "float32",
        "rounds": ROUNDS,
        "geometric_means": means(rows),
        "rows": rows,
        "one_thread": alone,
        "without_page_faults": tuned,
        "long": lengths,
    }
    print(json_text.dumps(result, indent=1) if json else table(result))


def measured(name: str, size: tuple[int, ...]) -> list[dict]:
    """The rows of training and inference of one layer at one size."""
    T, B, inputs, H = size
    ours, theirs = LAYERS[name]
    reference = ours(inputs, H)
    layers: dict[str, Callable] = {
        "ours": fuse(reference),
        "torch": theirs(inputs, H),
        "reference": reference,
    }
    if name == "LN-LSTM":
        layers["script"] = Script(inputs, H)
    x = torch.randn(T, B, inputs, requires_grad=True)
    dy = torch.randn(T, B, H)
    rows = []
    for phase in ("train", "infer"):
        run = {k: step(layer, x, dy, phase == "train") for k, layer in layers.items()}
        run["floor"] = floor(reference.cells[0], x, phase == "train")
        rows.append({"cell": name, "phase": phase, "size": list(size), **summary(timed(run))})
    return rows


def step(layer: Callable, x: Tensor, dy: Tensor, train: bool) -> Callable[[], object]:
    """One training step of ``layer``, or one call without gradients."""
    parameters = list(layer.parameters()) if isinstance(layer, nn.Module) else []

    def training() -> None:
        for p in (x, *parameters):
            p.grad = None
        layer(x)[0].backward(dy)

    def inference() -> None:
        with torch.no_grad():
            layer(x)

    return training if train else inference


def floor(cell: nn.Module, x: Tensor, train: bool) -> Callable[[], object]:
    """The kernel's matrix products and nothing else."""
    return kernel("floor_of", cell, x, train)


def kernel(name: str, cell: nn.Module, x: Tensor, train: bool) -> Callable[[], int]:
    """Call the library's function ``name`` on what ``cell`` does to ``x``."""
    assert isinstance(cell, Cell)
    lib, fused = library(), cell_kernel_arguments_or_none(cell)
    assert lib is not None
    assert fused is not None
    loop = RecurrentLoop(lib, fused.cell_kind, fused.eps, torch.get_num_threads())
    state = x.new_zeros(cell.states, x.shape[1], cell.hidden_size)
    inputs = [a.detach() for a in (x, cell.W_x, cell.W_h, fused.gains_and_biases, *state)]
    grads = {"dW_h": torch.empty(1)} if train else {}
    problem = loop.problem(inputs, grads)
    # the tensors live as long as the pointers to them
    return lambda kept=(inputs, grads): call_library_or_raise(lib, name, problem)


def long(T: int) -> dict:
    """What a step of time costs, and how much of it is kept for the way back."""
    reference = LSTM(32, 64)
    x, dy = torch.randn(T, 8, 32, requires_grad=True), torch.randn(T, 8, 64)
    best = min(timed({"ours": step(fuse(reference), x, dy, True)})["ours"])
    kept = kernel("saved_bytes", reference.cells[0], x, True)()
    return {"T": T, "us_a_step": round(1e6 * best / T, 2), "bytes_a_step": round(kept / T)}


def keeping_pages() -> bool:
    """Let malloc keep the pages that it has, from now on; only glibc's can be told."""
    try:
        tell = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    trim_threshold, mmap_threshold = -1, -3
    return all(tell(what, 1 << 30) for what in (trim_threshold, mmap_threshold))


def timed(run: dict[str, Callable[[], object]]) -> Times:
    """Seconds of each candidate in each round, after rounds to warm up."""
    times: Times = {name: [] for name in run}
    for name, function in run.items():
        for _ in range(
            8 if name == "script" else 1
        ):  # TorchScript compiles in up to five calls
            function()
    for i in range(ROUNDS):
        for name in list(run)[:: 1 if i % 2 else -1]:
            if name in ("reference", "script") and i % SLOW_EVERY:
                times[name].append(math.nan)
                continue
            start = time.perf_counter()
            run[name]()
            times[name].append(time.perf_counter() - start)
    return times


def summary(times: Times) -> dict:
    """Medians over rounds of ratios within a round; ``range`` is their quartiles."""

    def ratios(name: str) -> list[float]:
        pairs = zip(times["ours"], times[name], strict=True)
        return sorted(a / b for a, b in pairs if not math.isnan(b))

    against_torch = ratios("torch")
    low, _, high = statistics.quantiles(against_torch, n=4)
    row = {
        "ratio": round(statistics.median(against_torch), 3),
        "floor_ratio": round(statistics.median(ratios("floor")), 3),
        "range": [round(low, 3), round(high, 3)],
        "pairs": len(against_torch),
        "best_of_ratio": round(min(times["ours"]) / min(times["torch"]), 3),
    }
    for name in ("reference", "script"):
        if name in times:
            row[f"{name}_ratio"] = round(statistics.median(ratios(name)), 3)
    for name, seconds in times.items():
        kept = [s for s in seconds if not math.isnan(s)]
        row[f"{name}_ms"] = round(1e3 * statistics.median(kept), 2)
    return row


def means(rows: list[dict]) -> dict[str, float]:
    """Geometric mean of the ratios of each cell and phase over the sizes."""
    kinds = {(row["cell"], row["phase"]) for row in rows}
    return {
        f"{cell} {phase}": round(
            statistics.geometric_mean(
                row["ratio"] for row in rows if (row["cell"], row["phase"]) == (cell, phase)
            ),
            3,
        )
        for cell, phase in sorted(kinds)
    }


def hardware() -> str:
    """The processor, and the part of its second-level cache that is a thread's own."""
    name, ability = device_name(torch.device("cpu")), torch.backends.cpu.get_cpu_capability()
    return f"{name}, {ability}, {l2_bytes_per_thread() // 1024} KiB a thread"


def picture(panels: Mapping[str, tuple[Sequence[dict], int]], phase: str) -> go.Figure:
    """Draw times as multiples of torch's; below the line at 1 layer norm costs nothing.

    Args:
        panels: by what the axis of x is, rows, and which of T, B, inputs, H is drawn there.
        phase: "train" or "infer".
    """
    figure = make_subplots(1, len(panels), shared_yaxes=True, horizontal_spacing=0.05)
    for column, (title, (rows, place)) in enumerate(panels.items(), start=1):
        for name, (cell, key, look) in LINES.items():
            mine = [row for row in rows if (row["cell"], row["phase"]) == (cell, phase)]
            bars = None
            ratios = [row[key] / row["torch_ms"] for row in mine]
            if key == "ours_ms":  # the median over rounds, and its quartiles
                ratios = [row["ratio"] for row in mine]
                bars = {
                    "array": [row["range"][1] - row["ratio"] for row in mine],
                    "arrayminus": [row["ratio"] - row["range"][0] for row in mine],
                }
            figure.add_scatter(
                x=[row["size"][place] for row in mine], y=ratios, error_y=bars, name=name,
                legendgroup=name, showlegend=column == 1, mode="lines+markers", line=look,
                marker={"size": 8}, row=1, col=column,
                hovertemplate=f"{name}<br>%{{x:g}}: %{{y:.2f}} times<extra></extra>",
            )  # fmt: skip
        sizes = sorted({row["size"][place] for row in rows})
        figure.update_xaxes(type="log", tickvals=sizes, ticktext=sizes, col=column)
        figure.update_xaxes(title_text=title, col=column)
    figure.add_hline(1, line={"color": INK, "width": 1.5}, row="all", col="all")
    ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=ticks)
    figure.update_yaxes(title_text="time / torch's without norm", col=1)
    made_on = f"{hardware()}, threads: {torch.get_num_threads()}, torch {torch.__version__}"
    return add_footnote(
        figure.update_layout(template=TEMPLATE, height=480),
        f"{made_on}. Dots: medians; bars: quartiles of the fused layers.",
    )


def table(result: dict) -> str:
    """The rows as text."""
    lines = [
        f"{result['hardware']}, {result['threads']} threads, torch {result['torch']}, float32",
        "ratio: fused / torch's layer without normalization, median of "
        f"{result['rounds']} rounds [quartiles]",
        f"{'cell':8} {'phase':6} {'T, B, inputs, H':20} {'ratio':>6} {'quartiles':>15} "
        f"{'best of':>8} {'/floor':>7} {'/loop':>6} {'/script':>8} {'ms':>8} {'torch ms':>9}",
    ]
    for row in result["rows"] + result["one_thread"] + result["without_page_faults"]:
        size = ", ".join(map(str, row["size"]))
        low, high = row["range"]
        script = f"{row['script_ratio']:8.2f}" if "script_ratio" in row else " " * 8
        lines.append(
            f"{row['cell']:8} {row['phase']:6} {size:20} {row['ratio']:6.2f} "
            f"{f'[{low:.2f}, {high:.2f}]':>15} {row['best_of_ratio']:8.2f} "
            f"{row['floor_ratio']:7.2f} {row['reference_ratio']:6.2f} {script} "
            f"{row['ours_ms']:8.2f} {row['torch_ms']:9.2f}"
        )
    lines.append(
        "the last rows: one thread"
        + (", then malloc told to keep its pages" if result["without_page_faults"] else "")
    )
    lines += [
        f"T = {row['T']:6}: {row['us_a_step']:.2f} us and {row['bytes_a_step']} bytes a time "
        "step (B = 8, 32 inputs, H = 64; best of the rounds)"
        for row in result["long"]
    ]
    lines += [
        f"geometric mean, {kind}: {mean:.3f}"
        for kind, mean in result["geometric_means"].items()
    ]
    return "\n".join(lines)


class Script(nn.Module):
    """The TorchScript LN-LSTM of pytorch/benchmarks/fastrnns."""

    def __init__(self, inputs: int, H: int) -> None:
        super().__init__()
        cell = LSTM(inputs, H).cells[0]
        self.W_x, self.W_h = nn.Parameter(cell.W_x.data), nn.Parameter(cell.W_h.data)
        self.norms = nn.ModuleList([nn.LayerNorm(n) for n in (4 * H, 4 * H, H)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        norms = [p for norm in self.norms for p in norm.parameters()]
        return script(x, self.W_x, self.W_h, *norms)


@torch.jit.script
def script(
    x: Tensor,
    W_x: Tensor,
    W_h: Tensor,
    g_x: Tensor,
    b_x: Tensor,
    g_h: Tensor,
    b_h: Tensor,
    g_c: Tensor,
    b_c: Tensor,
) -> tuple[Tensor, Tensor]:
    """Their loop and cell, state and all."""
    H = W_h.shape[1]
    h = torch.zeros(x.shape[1], H, dtype=x.dtype)
    c = h
    hs: list[Tensor] = []
    for x_t in x.unbind(0):
        a = F.layer_norm(torch.mm(x_t, W_x.t()), [4 * H], g_x, b_x)
        a = a + F.layer_norm(torch.mm(h, W_h.t()), [4 * H], g_h, b_h)
        i, f, g, o = a.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        c = F.layer_norm(c, [H], g_c, b_c)
        h = torch.sigmoid(o) * torch.tanh(c)
        hs.append(h)
    return torch.stack(hs), c
