"""The loop over time in C++, by Triton on a GPU, or by torch's own layers."""

import functools
import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lnlab.kernels.compilation import NoKernelWarning, Problem, l2_bytes_per_thread, library
from lnlab.kernels.compiled_loop import (
    KERNEL_DTYPES,
    CompiledLoop,
    DifferentiableAndOthers,
    Tensors,
    empty_in_pool,
)
from lnlab.kernels.fused_cells import (
    CellKind,
    cell_kernel_arguments_or_none,
    has_bias_inside_norm,
    has_hooks,
    is_unmodified,
    lstm_kernel_arguments,
)
from lnlab.kernels.normalizers import FusedBatchNorm
from lnlab.nn import (
    BatchNorm,
    CarriedCellState,
    Cell,
    LSTMCell,
    RecurrentBatchNorm,
    State,
    inside_root,
)
from lnlab.nn import recurrent as reference
from lnlab.nn.batch import update_running_average_
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import reverse_sequences


def unroll(
    cell: Cell,
    x: Tensor,
    state: State | None = None,
    lengths: reference.Lengths = None,
    reverse: bool = False,
    dropout_mask: Tensor | None = None,
) -> tuple[Tensor, State]:
    """Apply ``cell`` to the steps of x (T, B, D), as the reference loop does.

    What computes it: the C++ library on a CPU in float32 or float64; without it torch's own
    layer for an LSTM or GRU without norms, and Triton on a GPU. All else runs in the reference
    loop: cells without a fast form or with hooks, batch norm without the library, a mask that
    needs a gradient, and all masks without the library. Under autocast the kernels compute in
    the dtype of the parameters. There is no second derivative.

    In float32 the squares of the numbers that are normalized together, a - mu, must add up
    to less than 3.4e38: beyond a norm of 1.8e19 they come out as their ``b``.
    """
    given = cell, x, state, lengths, reverse, dropout_mask
    fused = cell_kernel_arguments_or_none(cell)
    over_examples = fused is None and is_fusible_batch_norm_lstm(cell)
    if (fused is None and not over_examples) or x.numel() == 0:
        return reference.unroll(*given)
    lengths = reference.check_inputs(cell, x, state, lengths, dropout_mask)
    state = state or cell.initial_state(x)
    dtype = cell.W_h.dtype
    lib = library() if x.device.type == "cpu" and dtype in KERNEL_DTYPES else None
    if dropout_mask is not None and (lib is None or dropout_mask.requires_grad):
        return reference.unroll(*given)
    if lib is None and fused is not None and fused.is_unnormalized:
        return run_torch_lstm_or_gru(cell, x.to(dtype), state, lengths, reverse)
    if lib is None:
        if fused is None or not has_triton_program(
            fused.cell_kind, cell.hidden_size, x.device, dtype
        ):
            return reference.unroll(*given)
        from lnlab.kernels.triton_programs import unroll_triton

        lengths = None if lengths is None else lengths.to(x.device)
        return unroll_triton(cell, fused, x, state, lengths, reverse)
    moments = BatchNormMomentsPerStep(cell, x, lengths) if over_examples else None
    fused = fused or lstm_kernel_arguments(cell, CellKind.BATCH_LSTM)  # pyright: ignore[reportArgumentType]
    products = len(x) * x.shape[1] * len(cell.W_h) * (cell.input_size + cell.hidden_size)
    # a second thread changes no byte, and for little work costs more than it saves
    threads = torch.get_num_threads() if products > 2_000_000 else 1
    dropout_mask = None if dropout_mask is None else dropout_mask.to(dtype).contiguous()
    # a copy: the backward pass reads them again, and the caller may change theirs
    lengths = None if lengths is None else lengths.clone()
    loop = RecurrentLoop(
        lib, fused.cell_kind, fused.eps, threads, reverse, lengths, dropout_mask, moments
    )
    inputs = x, cell.W_x, cell.W_h, fused.gains_and_biases, *state
    y, *last = loop([a.to(dtype) for a in inputs])
    if moments is not None:
        moments.update_running_stats()
    return y, tuple(last)


def is_fusible(cell: Cell) -> bool:
    """Return True if ``cell`` has a fast form; else the reference loop computes it."""
    return cell_kernel_arguments_or_none(cell) is not None or is_fusible_batch_norm_lstm(cell)


@dataclass
class RecurrentLoop(CompiledLoop):
    """All steps of x (T, B, D): to y (T, B, H) and the last state (B, H)."""

    saved_outputs = ("y",)
    always_differentiated = ("W_x", "W_h", "parameters", "h0", "c0")

    reverse: bool = False
    lengths: Tensor | None = None  # of the sequences (B,), int64, not shared with the caller
    dropout_mask: Tensor | None = None  # factors (B, H) of h
    moments: "BatchNormMomentsPerStep | None" = None  # statistics over examples, for batch norm

    @property
    def inputs(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The names of the inputs; only an LSTM has c0."""
        return "x", "W_x", "W_h", "parameters", "h0", *(("c0",) if self.is_lstm else ())

    @property
    def is_lstm(self) -> bool:
        """True if the state is h and c."""
        return self.cell_kind in (
            CellKind.LSTM,
            CellKind.DRAW,
            CellKind.PLAIN_LSTM,
            CellKind.BATCH_LSTM,
        )

    def _c_struct_with_sizes(
        self, inputs: Sequence[Tensor], parameters: Sequence[Tensor]
    ) -> Problem:
        """Return the C structure with its sizes alone."""
        x, h0 = inputs[0], inputs[4]
        sizes = *x.shape, h0.shape[1], self.reverse, self.threads, l2_bytes_per_thread()
        uses_batch = 0 if self.moments is None else self.moments.uses_batch
        return Problem(self.cell_kind, x.dtype == torch.float64, *sizes, uses_batch)

    def _non_differentiable_inputs(self) -> Tensors:
        """Return lengths, mask and statistics, where there are any."""
        statistics = None if self.moments is None else self.moments.all
        given = {"lengths": self.lengths, "mask": self.dropout_mask, "statistics": statistics}
        return {name: tensor for name, tensor in given.items() if tensor is not None}

    def _empty_outputs(self, inputs: Sequence[Tensor]) -> DifferentiableAndOthers:
        """Return empty tensors for the outputs, all of which have gradients."""
        x, h0, *c0 = inputs[0], *inputs[4:]
        outputs = {"y": empty_in_pool(self.lib, x, (*x.shape[:2], h0.shape[1]))}
        last = zip(("h_n", "c_n"), (h0, *c0), strict=False)
        return outputs | {name: torch.empty_like(s) for name, s in last}, {}


# LSTMs with batch norm. The kernel (cpp/batch_norm.h) computes all examples of a step together.
# It reads the moments of the steps, or writes them, and running statistics are updated once,
# after all steps.

BATCH_NORMS = BatchNorm, FusedBatchNorm, RecurrentBatchNorm


def is_fusible_batch_norm_lstm(cell: Cell) -> bool:
    """Return True for eq. 20-22 with batch norm in all three places and no hooks."""
    if has_hooks(cell) or not is_unmodified(cell, LSTMCell):
        return False
    norms = (cell.norm_h, cell.norm_x, cell.norm_c)
    plain = all(
        is_unmodified(norm, *BATCH_NORMS)
        and norm.root is inside_root
        and not norm.correction
        and norm.eps > 0
        and not norm.space
        and norm.running_mean.dtype == cell.W_h.dtype
        for norm in norms
    )
    # a norm that is used twice would be updated in another order of steps
    apart = len(set(norms)) == len(norms)
    return (
        plain
        and apart
        and cell.cell_state is CarriedCellState.RAW
        and not has_bias_inside_norm(cell)
    )


class BatchNormMomentsPerStep:
    """Mean and variance over the examples of each step, which the kernel writes or reads.

    The norms of the cell choose between the batch's statistics and running ones; in training
    there is a ValueError for a step that a norm has no statistics for. x is (T, B, D).
    """

    def __init__(self, cell: Any, x: Tensor, lengths: Tensor | None) -> None:
        T, B = x.shape[:2]
        n = torch.full((T,), B) if lengths is None else length_mask(lengths, T).sum(0)
        self.n = n[n > 0]
        """The number of examples of each step that has any, (steps,)."""
        self.norms: tuple[BatchNorm, ...] = (cell.norm_h, cell.norm_x, cell.norm_c)
        self.uses_batch = sum(norm.uses_batch << i for i, norm in enumerate(self.norms))
        """A bit each for W_h h, W_x x, c."""
        steps = len(self.n)
        self.all = cell.W_h.new_empty(steps, 2, sum(norm.units for norm in self.norms))
        """The mean and the biased variance of the units of all three."""
        for norm, own in self._norms_with_moments() if steps else ():
            norm.running_mean_and_var(steps - 1)  # raises before anything is computed
            if not norm.uses_batch:
                rows = zip(*(norm.running_mean_and_var(t) for t in range(steps)), strict=True)
                own.copy_(torch.stack([torch.stack(row) for row in rows], dim=1))

    def _norms_with_moments(self) -> Iterator[tuple[BatchNorm, Tensor]]:
        parts = self.all.split([norm.units for norm in self.norms], dim=-1)
        return zip(self.norms, parts, strict=True)

    def update_running_stats(self) -> None:
        """Update the running statistics of each norm in training, as the norm itself does."""
        for norm, own in self._norms_with_moments():
            if not (norm.training and norm.uses_batch):
                continue
            mean, var = own.unbind(1)
            m = self.n[self.n > 1].to(var)[:, None]  # of one example there is no variance
            _update_average_step_by_step_(norm, norm.running_mean, mean)
            _update_average_step_by_step_(norm, norm.running_var, var[: len(m)] * (m / (m - 1)))


def _update_average_step_by_step_(norm: BatchNorm, running: Tensor, new: Tensor) -> None:
    """Update ``running`` by the statistics ``new`` (steps, H) of one step after the other."""
    if isinstance(norm, RecurrentBatchNorm):  # a row a step
        update_running_average_(running[: len(new)], new, norm.momentum)
        return
    # n updates at once: the newest weighs momentum, one k steps older momentum (1 - momentum)^k
    decay = 1 - norm.momentum
    ages = torch.arange(len(new) - 1, -1, -1, dtype=new.dtype)
    running.mul_(decay ** len(new)).add_((norm.momentum * decay**ages) @ new)


# LSTM and GRU without normalization are torch's own layers. Sequences of different lengths are
# cut at each length: torch would pack them, and the backward pass through packing takes longer
# than the reference loop.


def run_torch_lstm_or_gru(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Return every h (T, B, H) and the last state, as :func:`lnlab.nn.recurrent.unroll`."""
    if reverse:
        y, last = run_torch_lstm_or_gru(
            cell, reverse_sequences(x, lengths), state, lengths, False
        )
        return reverse_sequences(y, lengths), last
    W = [parameter for parameter in cell.parameters_to_torch() if parameter is not None]
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


MAX_UNITS = 2048
"""Units up to which a program keeps its example in registers, which a test checks."""


def has_triton_program(
    cell_kind: CellKind, units: int, device: torch.device, dtype: torch.dtype
) -> bool:
    """Return True if Triton computes a layer with H units.

    It computes layers with layer norm in float32, on a GPU that torch calls "cuda", with at
    most ``MAX_UNITS`` units; not those that normalize c alone.
    """
    known = cell_kind is not CellKind.DRAW and units <= MAX_UNITS
    return known and device.type == "cuda" and dtype == torch.float32 and has_triton_or_warn()


@functools.cache
def has_triton_or_warn() -> bool:
    """Return True if Triton is installed; warn once (:class:`NoKernelWarning`) if not."""
    if importlib.util.find_spec("triton"):
        return True
    warnings.warn(
        "Triton is not installed. Recurrent layers run on torch's operators instead: the same "
        'results, more slowly. pip install "lnlab[triton]"',
        NoKernelWarning,
        stacklevel=3,
    )
    return False
