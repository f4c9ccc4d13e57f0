"""A loop over time as one compiled call forward and one back: what all such loops share."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from lnlab.kernels.compilation import KernelLibrary, call_library_or_raise, library
from lnlab.kernels.fused_cells import (
    CellKernelArguments,
    CellKind,
    cell_kernel_arguments_or_none,
    is_unmodified,
    refuse_second_derivative,
)
from lnlab.nn import Identity, Linear, LSTMCell

Tensors = dict[str, Tensor]

DifferentiableAndOthers = tuple[Tensors, Tensors]
"""Outputs of a loop by name: those that have gradients, and the others."""

KERNEL_DTYPES = torch.float32, torch.float64

MIN_POOL_BYTES = 128 * 1024
"""Size from which malloc may ask the system for fresh pages each time."""


class PooledMemoryBlock:
    """Memory of the library's pool, given back when the object is deleted."""

    # torch.compile creates objects without __init__, and __del__ reads this attribute
    address: int | None = None

    def __init__(self, lib: ctypes.CDLL, size: int) -> None:
        self.give, self.address = lib.give, lib.take(size)
        if self.address is None:
            raise MemoryError(f"no memory for {size} bytes of the recurrence.")

    def __del__(self) -> None:
        if self.address is not None:
            self.give(self.address)


def empty_in_pool(lib: ctypes.CDLL, like: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """Return an empty tensor shaped as ``like``, or of ``shape``, in the library's pool.

    Fresh pages from the system would cost up to a tenth more time.
    """
    shape = like.shape if shape is None else torch.Size(shape)
    size = shape.numel() * like.element_size()
    if size < MIN_POOL_BYTES:
        return like.new_empty(shape)
    memory = PooledMemoryBlock(lib, size)
    assert memory.address is not None
    buffer = (ctypes.c_char * size).from_address(memory.address)
    # the storage of the tensor holds the buffer, and so the memory
    buffer.memory = memory  # pyright: ignore[reportAttributeAccessIssue]
    return torch.frombuffer(buffer, dtype=like.dtype).view(shape)


@dataclass
class CompiledLoop:
    """One call of a compiled loop.

    Its C structure begins with sizes, and has a pointer for each tensor, by name; that of the
    gradient of ``x`` is ``dx``.
    """

    inputs: ClassVar[tuple[str, ...]]  # the names of its inputs, in their order
    saved_outputs: ClassVar[tuple[str, ...]] = ()  # the outputs that its backward pass reads
    always_differentiated: ClassVar[
        tuple[str, ...]
    ] = ()  # the inputs whose gradient it computes unasked

    lib: ctypes.CDLL  # the library
    cell_kind: CellKind  # of its cells
    eps: tuple[float, ...]  # that of each norm
    threads: int  # over which it may spread
    needs_backward: bool = field(default=False, init=False)
    """True if there will be a backward pass."""

    def _c_struct_with_sizes(
        self, inputs: Sequence[Tensor], parameters: Sequence[Tensor]
    ) -> ctypes.Structure:
        """Return the C structure with its sizes alone."""
        raise NotImplementedError

    def _empty_outputs(self, inputs: Sequence[Tensor]) -> DifferentiableAndOthers:
        """Return empty tensors for the outputs: those that have gradients, and others."""
        raise NotImplementedError

    def _non_differentiable_inputs(self) -> Tensors:
        """Return tensors that the loop reads besides its inputs, by name."""
        return {}

    def __call__(self, inputs: Sequence[Tensor], parameters: Sequence[Tensor] = ()) -> Any:
        """Return the outputs, those that have gradients first."""
        tensors = [*inputs, *parameters]
        self.needs_backward = torch.is_grad_enabled() and any(a.requires_grad for a in tensors)
        return LoopFunction.apply(self, *tensors)

    def problem(self, tensors: Sequence[Tensor], others: Tensors) -> ctypes.Structure:
        """Return the C structure for inputs and parameters (...), and other tensors by name.

        The tensors must outlive it.
        """
        count = len(self.inputs)
        problem = self._c_struct_with_sizes(tensors[:count], tensors[count:])
        self.eps_array = (ctypes.c_double * len(self.eps))(*self.eps)  # outlives the call, too
        problem.eps = ctypes.addressof(self.eps_array)
        if parameters := [p.data_ptr() for p in tensors[count:]]:
            problem.parameters[:] = parameters
        inputs = dict(zip(self.inputs, tensors[:count], strict=True))
        for name, tensor in {**inputs, **self._non_differentiable_inputs(), **others}.items():
            setattr(problem, name, tensor.data_ptr() or None)
        return problem


class LoopFunction(torch.autograd.Function):
    """The function of a loop: its inputs and its parameters to its outputs."""

    @staticmethod
    def forward(ctx: Any, loop: CompiledLoop, *tensors):
        tensors = [a.detach().contiguous() for a in tensors]
        outputs, others = loop._empty_outputs(tensors[: len(loop.inputs)])
        problem = loop.problem(tensors, outputs | others)
        if loop.needs_backward:
            # what the backward pass needs lies in memory of the library's own
            ctx.saved = PooledMemoryBlock(
                loop.lib, call_library_or_raise(loop.lib, "saved_bytes", problem)
            )
            problem.saved = ctx.saved.address
            ctx.loop, ctx.names = loop, tuple(outputs)
            ctx.save_for_backward(*(outputs[name] for name in loop.saved_outputs), *tensors)
        call_library_or_raise(loop.lib, "forward", problem)
        ctx.mark_non_differentiable(*others.values())
        return *outputs.values(), *others.values()

    @staticmethod
    def backward(ctx: Any, *grads):
        refuse_second_derivative()
        loop, tensors = ctx.loop, [*ctx.saved_tensors]
        known, needs = {n: tensors.pop(0) for n in loop.saved_outputs}, ctx.needs_input_grad[1:]
        of_inputs = [
            empty_in_pool(loop.lib, a) if needed or name in loop.always_differentiated else None
            for name, a, needed in zip(loop.inputs, tensors, needs, strict=False)
        ]
        of_parameters = [torch.empty_like(p) for p in tensors[len(loop.inputs) :]]
        slopes = [
            *zip(ctx.names, grads, strict=False),
            *zip(loop.inputs, of_inputs, strict=True),
        ]
        known |= {f"d{name}": a.contiguous() for name, a in slopes if a is not None}
        problem = loop.problem(tensors, known)
        problem.saved = ctx.saved.address
        if of_parameters:
            problem.grads[:] = [a.data_ptr() for a in of_parameters]
        call_library_or_raise(loop.lib, "backward", problem)
        return None, *of_inputs, *of_parameters


def library_for(kernels: KernelLibrary, like: Tensor) -> ctypes.CDLL | None:
    """Return the library if it serves the device and the dtype of a tensor (...)."""
    serves = like.device.type == "cpu" and like.dtype in KERNEL_DTYPES
    return library(kernels) if serves else None


def is_plain_linear_with_bias(layer: Linear) -> bool:
    """Return True if a layer is W x + b, without a norm and not a user's subclass."""
    plain = is_unmodified(layer, Linear) and is_unmodified(layer.norm, Identity)
    return plain and layer.b_inside is not None


def require_bias(layer: Linear) -> Tensor:
    """Return the b (H,) of a layer that is affine."""
    assert layer.b_inside is not None
    return layer.b_inside


def require_cell_kernel_arguments(cell: LSTMCell) -> CellKernelArguments:
    """Return the fast form of a cell that has one."""
    found = cell_kernel_arguments_or_none(cell)
    assert found is not None
    return found
