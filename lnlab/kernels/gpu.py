"""Recurrent layers on a GPU, and on a machine without the compiled library.

The product ``W_x x`` of all steps is one operation; what is left of a step is ``W_h h`` and the
gates, by torch's operators or, on a GPU with Triton, by one Triton program per example. An LSTM
or GRU without normalization is torch's own layer.

Triton comes with torch's builds for CUDA. It is imported when a layer first runs on a GPU;
without it torch's operators take its place, and a warning says so once.

CUDA graphs replay the launches of every step of a pass, recorded once. A graph reads and writes
the memory that it was recorded with. So a recorded pass has tensors of its own: a call copies
its inputs into them and its results out of them, and holds the recorded pass until its backward
pass is over or cannot come any more. A shape is recorded when it has come more than
``MIN_REPEATS`` times, and there are at most ``MAX_RECORDED`` recorded passes. No GPU has been
at hand to try ``record_graph`` on.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_map_only

from lnlab.kernels.fused_cells import FusedCell, Kernel
from lnlab.nn import Cell, State
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import flip

if TYPE_CHECKING:
    from lnlab.kernels.triton_programs import Grads, Pass

Steps = Callable[
    [FusedCell, Tensor, Tensor, tuple[Tensor, ...], State, Tensor | None], tuple[Tensor, State]
]
"""A loop over time: from a fused cell, the terms of x (T, B, G H), W_h, what else a step reads
(see :func:`terms_of_x`), the first state and the lengths to every h (T, B, H), 0 at padding,
and the last state."""


def unroll_with_steps(
    cell: Cell,
    fused: FusedCell,
    x: Tensor,
    state: State,
    lengths: Tensor | None,
    reverse: bool,
    steps: Steps | None = None,
) -> tuple[Tensor, State]:
    """Return every h (T, B, H) and the last state, given lengths (B,) that were checked.

    ``steps`` is the loop over time; None: :func:`torch_steps`.
    """
    if lengths is not None:
        # padding may be NaN, and in the backward pass 0 times NaN is NaN
        x = torch.where(step_mask(lengths, x), x, 0.0)
    x = flip(x, lengths) if reverse else x
    from_x, rest = terms_of_x(cell, fused, x)
    y, last = (steps or torch_steps)(fused, from_x, cell.W_h, rest, state, lengths)
    return flip(y, lengths) if reverse else y, last


def step_mask(lengths: Tensor, x: Tensor) -> Tensor:
    """Return True for steps of ``x`` (T, B, n) within their sequence: (T, B, 1)."""
    return length_mask(lengths, len(x)).T[:, :, None]


def terms_of_x(cell: Cell, fused: FusedCell, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the terms of x in all steps (T, B, G H), and a step's gains and biases.

    Those of the gates come first.
    """
    H, eps, p = cell.hidden_size, fused.eps, fused.parameters.to(cell.W_h)
    # W_x x does not depend on h: one product for all T steps, and one layer norm if it has its
    # own. Each step then computes W_h h alone.
    a = F.linear(x, cell.W_x)
    if fused.kernel in (Kernel.LSTM, Kernel.DRAW):
        g_h, g_x, b, g_c, b_c = p.split([4 * H, 4 * H, 4 * H, H, H])
        return a + b if fused.kernel is Kernel.DRAW else LN(a, g_x, b, eps[1]), (g_h, g_c, b_c)
    if fused.kernel in (Kernel.GRU_WRITES, Kernel.GRU_KEEPS):
        g_h, g_U, g_x, g_W, b, b_W, b_U = p.split([2 * H, H, 2 * H, H, 2 * H, H, H])
        zr, candidate = a.split([2 * H, H], -1)
        from_x = [LN(zr, g_x, b, eps[1]), LN(candidate, g_W, b_W, eps[3])]
        return torch.cat(from_x, -1), (g_h, g_U, b_U)
    return a, tuple(p.chunk(2))


def LN(a: Tensor, g: Tensor, b: Tensor | None, eps: float) -> Tensor:
    """Return layer norm of a (B, n) over the last axis, by torch's operator."""
    return F.layer_norm(a, a.shape[-1:], g, b, eps)


def torch_steps(
    fused: FusedCell,
    from_x: Tensor,
    W_h: Tensor,
    rest: tuple[Tensor, ...],
    state: State,
    lengths: Tensor | None,
) -> tuple[Tensor, State]:
    """Run the loop over x (T, B, n) on torch's operators."""
    going = None if lengths is None else step_mask(lengths, from_x)
    known = {Kernel.LSTM: lstm_step, Kernel.DRAW: lstm_step, Kernel.RNN: rnn_step}
    step: Callable[..., State] = known.get(fused.kernel, gru_step)
    hs = []
    for t, a_x in enumerate(from_x):
        new = step(fused, a_x, F.linear(state[0], W_h), rest, state)
        if going is not None:
            new = tuple(torch.where(going[t], n, s) for n, s in zip(new, state, strict=True))
        state = new
        hs.append(state[0])
    y = torch.stack(hs)
    return y if going is None else torch.where(going, y, 0.0), state


def lstm_step(
    fused: FusedCell, a_x: Tensor, a_h: Tensor, rest: tuple[Tensor, ...], state: State
) -> State:
    """Compute a step of eq. 20-22 or 29-31 from the terms of x (B, 4 H) and W_h h."""
    g_h, g_c, b_c = rest
    a = a_x + (a_h if fused.kernel is Kernel.DRAW else LN(a_h, g_h, None, fused.eps[0]))
    f, i, o, g = a.chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * LN(c, g_c, b_c, fused.eps[2]).tanh(), c


def gru_step(
    fused: FusedCell, a_x: Tensor, a_h: Tensor, rest: tuple[Tensor, ...], state: State
) -> State:
    """Compute a step of eq. 26-28 from the terms of x (B, 3 H)."""
    (g_h, g_U, b_U), (h,) = rest, state
    H = h.shape[-1]
    (zr, Uh), (a_zr, Wx) = a_h.split([2 * H, H], -1), a_x.split([2 * H, H], -1)
    z, r = (a_zr + LN(zr, g_h, None, fused.eps[0])).sigmoid().chunk(2, -1)
    new = (Wx + r * LN(Uh, g_U, b_U, fused.eps[2])).tanh()
    keeps = fused.kernel is Kernel.GRU_KEEPS
    # lerp(h, ĥ, z) = h + z (ĥ - h), eq. 28
    return (torch.lerp(new, h, z) if keeps else torch.lerp(h, new, z),)


def rnn_step(
    fused: FusedCell, a_x: Tensor, a_h: Tensor, rest: tuple[Tensor, ...], _: State
) -> State:
    """Compute a step of eq. 4 from the terms of x (B, H)."""
    g, b = rest
    return (LN(a_x + a_h, g, b, fused.eps[0]).tanh(),)


# LSTM and GRU without normalization are torch's own layers. Sequences of different lengths are
# cut at each length: torch would pack them, and the backward pass through packing takes longer
# than the reference loop.


def unroll_torch_layer(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Return every h (T, B, H) and the last state, as :func:`lnlab.nn.recurrent.unroll`."""
    if reverse:
        y, last = unroll_torch_layer(cell, flip(x, lengths), state, lengths, False)
        return flip(y, lengths), last
    W = [parameter for parameter in cell.to_torch() if parameter is not None]
    if lengths is None or bool((lengths == len(x)).all()):
        return _run_torch_layer(x, state, W)
    # between two lengths the sequences that have not ended are all equally long
    ys, begin = [], 0
    for end in lengths.unique().tolist():
        rows = (lengths >= end).nonzero().squeeze(1).to(x.device)
        if end > begin:
            y, new = _run_torch_layer(x[begin:end, rows], tuple(s[rows] for s in state), W)
            ys.append(y.new_zeros(end - begin, *state[0].shape).index_copy(1, rows, y))
            state = tuple(s.index_copy(0, rows, n) for s, n in zip(state, new, strict=True))
        begin = end
    ys.append(x.new_zeros(len(x) - begin, *state[0].shape))
    return torch.cat(ys), state


def _run_torch_layer(x: Tensor, state: State, W: list[Tensor]) -> tuple[Tensor, State]:
    first = [s.unsqueeze(0).contiguous() for s in state]
    # biases, layers, dropout, training, bidirectional, batch first
    settings = len(W) > 2, 1, 0.0, False, False, False
    if len(first) == 1:
        y, *last = torch.gru(x, first[0], W, *settings)
    else:
        y, *last = torch.lstm(x, first, W, *settings)
    return y, tuple(s.squeeze(0) for s in last)


# --- CUDA graphs ---

MIN_REPEATS, MAX_RECORDED = 3, 32

pass_counts: Counter[Any] = Counter()
"""Number of passes by shape."""
recorded_counts: Counter[Any] = Counter()
"""Number of recorded passes by shape."""
free_passes: defaultdict[Any, "list[RecordedPass]"] = defaultdict(list)
"""Recorded passes that no call holds."""


def borrow_recorded_pass(pass_: "Pass", keep: bool) -> "BorrowedPass | None":
    """Return a recorded pass of this kind; None while its shape is new or they are too many."""
    device = pass_.A.device
    if not can_record(device):
        return None
    sizes = pass_.A.shape, pass_.W_h.shape, pass_.kernel, pass_.eps, pass_.lengths is None
    key = *sizes, keep, device, stream(device)
    pass_counts[key] += 1
    if free_passes[key]:
        return BorrowedPass(free_passes[key].pop(), free_passes[key])
    if pass_counts[key] <= MIN_REPEATS or recorded_counts.total() >= MAX_RECORDED:
        return None
    recorded_counts[key] += 1
    return BorrowedPass(RecordedPass(pass_, keep), free_passes[key])


def can_record(device: torch.device) -> bool:
    """Return True if a graph can be recorded now."""
    return device.type == "cuda" and not torch.cuda.is_current_stream_capturing()


def stream(device: torch.device) -> int:
    """Return the id of the current stream: streams do not share recorded passes."""
    return torch.cuda.current_stream(device).cuda_stream


def record_graph(run: Callable[[], None]) -> Callable[[], None]:
    """Return the work of ``run`` as one launch."""
    warm_up = torch.cuda.Stream()
    warm_up.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up):  # compiles programs and allocates, which no graph can
        run()
    torch.cuda.current_stream().wait_stream(warm_up)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


class RecordedPass:
    """A recorded pass over tensors of its own."""

    grads: "Grads"

    def __init__(self, like: "Pass", keep: bool) -> None:
        inputs = {name: clone_tree(getattr(like, name)) for name in INPUTS}
        self.pass_ = replace(like, **inputs)
        self.y, self.last = like.results()
        self.forward = record_graph(lambda: self.pass_.launch(self.y, self.last))
        if keep:
            self.grads = self.pass_.grads(torch.zeros_like(self.y))
            copy_tree_(self.grads.dstate, tuple(torch.zeros_like(s) for s in self.last))
            self.backward = record_graph(lambda: self.grads.launch(self.pass_, self.y))


INPUTS = "A", "W_h", "rest", "first", "lengths"
"""The tensors that a pass reads, by the names of its fields."""


class BorrowedPass:
    """A recorded pass that one call uses; it is free again when this object is deleted."""

    def __init__(self, recorded: RecordedPass, free: list[RecordedPass]) -> None:
        self.recorded, self.free = recorded, free

    def __del__(self) -> None:
        self.free.append(self.recorded)

    def forward(self, pass_: "Pass") -> tuple[Tensor, ...]:
        """Return y (T, B, H) and the last state (B, H) of a pass."""
        recorded = self.recorded
        for name in INPUTS:
            copy_tree_(getattr(recorded.pass_, name), getattr(pass_, name))
        copy_tree_(recorded.last, pass_.first)
        recorded.forward()
        return clone_tree((recorded.y, *recorded.last))

    def backward(self, _y: Tensor, dy: Tensor, dlast: State) -> tuple[Tensor, ...]:
        """The grads of A (T, B, n), W_h, ``rest`` and ``first``."""
        recorded = self.recorded
        copy_tree_((recorded.grads.dy, recorded.grads.dstate), (dy, tuple(dlast)))
        recorded.backward()
        weights = recorded.grads.of_weights(recorded.pass_, recorded.y)
        return clone_tree(recorded.grads.dA), *weights, *clone_tree(recorded.grads.dstate)


def clone_tree(tree: Any) -> Any:
    """Return a tree with clones of its tensors."""
    return tree_map_only(Tensor, torch.clone, tree)


def copy_tree_(target: Any, source: Any) -> None:
    """Copy the tensors of one tree into those of another."""
    for to, tensor in zip(tree_leaves(target), tree_leaves(source), strict=True):
        if to is not None:
            to.copy_(tensor)
