"""A user's module with its input and its loss, ready for the checks."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from lnlab.analysis.inputs import (
    Call,
    argument_name_per_tensor,
    copy_with_one_input,
    list_floating_tensors,
    list_tensors,
    map_tensors,
    wrap_forward,
)
from lnlab.analysis.module_copy import (
    InputAndWeightOverrides,
    ModuleCopy,
    Observation,
    check_model,
    check_real,
    check_type,
    deepcopy_with_rebound_closures,
    uncompiled_module,
)
from lnlab.analysis.objective import Objective
from lnlab.analysis.random import normal
from lnlab.auditing.finding import CannotCheck, CheckTable
from lnlab.training.random_state import default_dtype


@contextmanager
def restored_random_state(seed: int | None = None) -> Iterator[None]:
    """Restore every generator of random numbers at the end; with a seed, begin with that."""
    python, old = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            if seed is not None:
                torch.manual_seed(seed)
                random.seed(seed)
                np.random.seed(seed)  # noqa: NPY002
            yield
    finally:
        random.setstate(python)
        np.random.set_state(old)  # noqa: NPY002


# A trace of one evaluation: which modules and functions are called, and with which numbers.


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module inside the audited one.

    Attributes:
        name: its path, "" of the audited module itself.
        module: itself.
        inputs: the tensors it was called with, copied before anything overwrote them.
        outputs: the tensors it returned, likewise.
        input_storages: the memory of each input, by a number; views share it.
        output_storages: that of each output.
        is_training: whether it was in training mode.
    """

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    input_storages: tuple[int, ...]
    output_storages: tuple[int, ...]
    is_training: bool


def parameter_storages(module: nn.Module) -> set[int]:
    """Return the memory of each parameter, by the numbers of :class:`ModuleCall`."""
    return {p.untyped_storage()._cdata for p in module.parameters()}


STEPS = ("round", "floor", "ceil", "trunc", "sign", "fake_quantize")
"""The beginnings of functions whose results are steps: they hide what a small change does."""


@contextmanager
def hook_all_modules(
    module: nn.Module, enter: Callable, leave: Callable, **options: bool
) -> Iterator[None]:
    """Call ``enter`` with the name of each module before it runs, and ``leave`` after it."""
    with ExitStack() as handles:
        for name, each in module.named_modules():
            handles.enter_context(each.register_forward_pre_hook(partial(enter, name)))
            handles.enter_context(each.register_forward_hook(leave, **options))
        yield


class CallTrace(TorchFunctionMode):
    """Records what a module calls while it is active.

    Attributes:
        module: has hooks meanwhile.
        calls: of modules, in the order of return.
        functions: calls of functions of torch on other tensors than parameters: the name of
            each, and the module that called it.
        used: the memory of what functions of torch were called on.
        lowers: whether float64 numbers were cast to a lower precision, or rounded to steps.
        makes_16_bits: whether a result has 16 bits.
        seen: outputs and activations of the evaluation; None where there is no output to read.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.calls: list[ModuleCall] = []
        self.functions: list[tuple[str, str]] = []
        self.used: set[int] = set()
        self.lowers, self.makes_16_bits, self.seen = False, False, None
        self._parameters = parameter_storages(module)
        self._stack: list[str] = []
        self._alive: list[Any] = []

    def run(self, evaluated: ModuleCopy, x: Tensor) -> CallTrace:
        """Record an evaluation of a copy that holds the module."""
        recording = hook_all_modules(self.module, self._enter, self._leave, with_kwargs=True)
        # a TypeError: of an output without numbers
        with recording, self, restored_random_state(), suppress(TypeError):
            self.seen = evaluated.run(InputAndWeightOverrides(x), find_where_flat=True)
        self._alive.clear()
        return self

    def calls_and_their_input_makers(self) -> Iterator[tuple[ModuleCall, ModuleCall | None]]:
        """Yield each call, and that of the module without submodules which made its input."""
        makers: dict[int, ModuleCall] = {}
        for call in self.calls:
            yield call, makers.get(call.input_storages[0]) if call.input_storages else None
            if not any(call.module.children()):
                makers |= dict.fromkeys(call.output_storages, call)

    def _enter(self, name: str, module: nn.Module, args: tuple) -> None:
        self._stack.append(name)

    def _leave(self, module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        both = list_tensors((args, kwargs)), list_tensors(output)
        self._alive.append(both)  # the memory of what is freed would be used again
        with torch._C.DisableTorchFunction():  # our copies are no calls of the module
            inputs, outputs = (tuple(v.clone() for v in each) for each in both)
            # not data_ptr(), which is 0 on a pretended device
            read, made = (tuple(v.untyped_storage()._cdata for v in each) for each in both)
        name, mode = self._stack.pop(), module.training
        self.calls.append(ModuleCall(name, module, inputs, outputs, read, made, mode))

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        first = args[0] if args else None
        # an operator of an exported graph is called "layer_norm.default"
        name = getattr(func, "__name__", "").partition(".")[0]
        result = func(*args, **kwargs or {})
        with torch._C.DisableTorchFunction():
            is_weight = isinstance(first, Tensor) and (
                first.untyped_storage()._cdata in self._parameters
            )
            if isinstance(result, Tensor) and result.is_floating_point():
                wide = any(isinstance(v, Tensor) and v.dtype == torch.float64 for v in args)
                lower = result.dtype != torch.float64 or name.strip("_").startswith(STEPS)
                self.lowers |= wide and lower
                self.makes_16_bits |= result.dtype in (torch.float16, torch.bfloat16)
            if list_tensors(result):  # not where a precision is asked for
                self.used |= {v.untyped_storage()._cdata for v in list_tensors((args, kwargs))}
        if not is_weight:
            self.functions.append((name, self._stack[-1] if self._stack else ""))
        return result


class RaiseIfOriginalIsUsed(TorchFunctionMode):
    """Raises ValueError where a copy of a module uses a parameter or buffer of the original.

    A function may hold the original where no copy can reach: in a global, or in a partial.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        named = (*model.named_parameters(), *model.named_buffers())
        self.names = {id(tensor): name for name, tensor in named}

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        for tensor in list_tensors((args, kwargs)):
            if id(tensor) in self.names:
                raise ValueError(
                    f"a copy of the module still uses {self.names[id(tensor)]} of the "
                    "original: let a method do what a function does that it keeps."
                )
        return func(*args, **kwargs or {})


# Copies of a module: of one precision, without dropout, without zeros.


def copy_with_matching_float64_default(module: nn.Module) -> nn.Module:
    """Return a copy whose default precision is float64 if its parameters are in float64.

    Many a forward makes numbers without naming a precision (frequencies of times), which are
    in float32 then and do not fit the others.
    """
    copy = deepcopy_with_rebound_closures(module)

    def forward(self: nn.Module, old: Callable, *args: Any) -> Any:
        wide = any(p.dtype == torch.float64 for p in self.parameters())
        with default_dtype(torch.float64) if wide else nullcontext():
            return old(*args)

    wrap_forward(copy, forward)
    return copy


HALF = "the module computes in half precision, whatever it is given."
DETACHED = "no gradient comes back from what is returned: it was detached."

RANDOM = "random numbers are drawn in evaluation, too: each evaluation gives others."

ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 0.1}
"""The relative change of outputs that rounding alone makes at most, by precision."""

DROPOUT_NAMES = ("dropout", "dropout_p", "drop_prob", "p_drop", "attn_dropout")
"""The names under which modules keep the probability of dropping something."""


def turn_dropout_off(module: nn.Module) -> list[str]:
    """Set every dropout to 0; return the names of the modules that had one."""
    changed = []
    for name, each in module.named_modules():
        keys = (*DROPOUT_NAMES, "p") if isinstance(each, _DropoutNd) else DROPOUT_NAMES
        for key in keys:
            if isinstance(getattr(each, key, None), float) and getattr(each, key):
                setattr(each, key, 0.0)
                changed.append(name)
    return changed


class RemovedNoise(NamedTuple):
    """The noise that was turned off in a module, and whether some is left.

    Attributes:
        module_names: the modules that are kept in evaluation mode.
        has_noise_left: whether others draw random numbers in evaluation, too.
    """

    module_names: list[str]
    has_noise_left: bool


def turn_off_removable_noise(
    module: nn.Module, random_modules: set[str], x: Tensor
) -> RemovedNoise:
    """Keep in evaluation mode what draws random numbers in training mode alone.

    Stochastic depth, say, which is no dropout.
    """
    modules = dict(module.named_modules())
    for name in random_modules:
        base = type(modules[name])
        modules[name].__class__ = type(base.__name__, (base,), {"train": _train_children_only})
        modules[name].training = False
    left = (
        (find_modules_drawing_random_numbers(module, x) or set()) if random_modules else set()
    )
    for name in random_modules & left:
        noisy: Any = modules[name]
        base: Any = type(noisy).__base__
        noisy.__class__ = base
        noisy.training = module.training
    return RemovedNoise(sorted(random_modules - left), bool(left))


def _train_children_only(self: nn.Module, mode: bool = True) -> nn.Module:
    nn.Module.train(self, mode)
    self.training = False
    return self


def find_modules_drawing_random_numbers(module: nn.Module, x: Tensor) -> set[str] | None:
    """Return the names of the modules that draw random numbers themselves in training mode.

    None where it cannot be evaluated in that mode.
    """
    random_modules: set[str] = set()
    with suppress(Exception), torch.no_grad(), restored_random_state():
        evaluate_noting_random_modules(
            deepcopy_with_rebound_closures(module, share_parameters=True).train(),
            x,
            random_modules,
        )
        return random_modules
    return None


def evaluate_noting_random_modules(
    module: nn.Module, x: Tensor, random_modules: set[str]
) -> Any:
    """Return the output of a module, and note the names of what draws random numbers itself."""
    stack = [""]

    def random_state() -> bytes:
        seeds = torch.cuda.get_rng_state(x.device) if x.is_cuda else torch.get_rng_state()
        others = random.getstate(), cast("tuple", np.random.get_state())[1].tobytes()  # noqa: NPY002
        return seeds.numpy().tobytes() + repr(others).encode()

    last = random_state()

    def add_innermost_module_if_it_drew() -> None:
        nonlocal last
        if (now := random_state()) != last:
            random_modules.add(stack[-1])
            last = now

    def enter(name: str, *_: object) -> None:
        add_innermost_module_if_it_drew()
        stack.append(name)

    def leave(*_: object) -> None:
        add_innermost_module_if_it_drew()
        stack.pop()

    with hook_all_modules(module, enter, leave):
        return module(x.clone())


def random_scalar_projection(y: Tensor) -> Tensor:
    """Return a scalar function of outputs (any shape) that depends on each of them."""
    return (y * normal(8, 0, y.numel()).view_as(y).to(y)).sum()


def make_different_input(x: Tensor) -> Tensor:
    """Return another input: one of zeros, say, hides the effect of the weights it meets."""
    if not x.is_floating_point():
        return x.flip(-1)
    size = float(x.std(correction=0)) or 1.0
    return x + size * normal(10, 0, x.numel()).view_as(x).to(x)


def all_zero_non_bias_names(module: nn.Module) -> list[str]:
    """Return the names of all parameters that are 0 everywhere and not called a bias.

    The last layer of a branch, a gain, the scale of a residual: most often the net is to be
    the identity at its start. What feeds them has no effect until they move.
    """
    zeros = {name: p for name, p in module.named_parameters() if p.numel() and not p.any()}
    # the matrix B of LoRA is no bias
    return [name for name, p in zeros.items() if p.dim() > 1 or not is_bias_name(name)]


def layer_scale_parameter_names(module: nn.Module) -> list[str]:
    """Return the names of the vectors that are small and equal everywhere (CaiT's 1e-6).

    What they scale has an effect that rounding may hide.
    """
    return [
        name
        for name, p in module.named_parameters()
        if p.numel() == max(p.shape, default=0) > 1
        and 0 < float(p.detach().abs().max()) < 1e-2
        and bool((p == p.flatten()[0]).all())
    ]


def is_bias_name(name: str) -> bool:
    """Return True if a parameter is called a bias."""
    last = name.rpartition(".")[2].lower()
    return bool(re.fullmatch(r".*bias|(b|beta|shift|offset)(_?\d+)?", last))


def padding_row_by_embedding_weight(module: nn.Module) -> dict[str, int]:
    """Return the row of each embedding that gets no gradient on purpose, by its parameter."""
    return {
        f"{name}.weight".lstrip("."): each.padding_idx
        for name, each in module.named_modules()
        if isinstance(each, nn.Embedding) and each.padding_idx is not None
    }


SLOW = 0.05
"""Seconds of an evaluation, above which gradients and curvature are computed in the precision
of the module: float64 would take several times as long."""

Loss = Callable[..., Tensor]
"""A loss: a scalar from what a module returns, and from y where one is given."""


class AuditSubject:
    """A module with its input and its loss, as every check is given it.

    Args:
        model: not touched.
        inputs: a :class:`Call`, or what :meth:`Call.from_inputs` understands.
        y: what the loss compares outputs with; None: nothing.
        loss_fn: the loss, ``loss_fn(output, y)``, or ``loss_fn(output)`` without y; None: half
            the squared distance from a random target stands in for it.

    Attributes:
        name: the class of the module.
        module: a copy that is called with ``x`` alone and drops nothing.
        given: what was given, to be read alone.
        original: a copy that is called with ``x`` alone, with its dropout.
        trainable: whether each parameter is trained.
        x: the open input.
        input_names: the argument that each tensor of the input belongs to.
        dropout: the modules whose dropout was set to 0.
        trains: whether it can be evaluated in training mode.
        noise: those that stay in evaluation, as they draw random numbers in training.
        is_random: whether random numbers are drawn all the same.
        has_loss: whether a loss was given.
        dtype: the precision of the module.
        output: what the module returns for ``x``.
        is_single: whether ``x`` had no axis of examples, and was given one.
        shown: the numbers behind the check that is running; see :meth:`keep_table`.
        cache: what several checks need and one has made.

    Raises:
        TypeError: where ``model`` is no module, or the input holds no tensor.
        ValueError: where the module cannot be copied, or does not take the input.
    """

    def __init__(
        self, model: nn.Module, inputs: Any, y: Any = None, loss_fn: Loss | None = None
    ) -> None:
        check_model(model)
        if loss_fn is not None:
            check_type("loss_fn", loss_fn, Callable, "a function of what the model returns")
        self.given = uncompiled_module(model)
        self.name = type(self.given).__name__
        self.trainable = {name: p.requires_grad for name, p in self.given.named_parameters()}
        call = Call.from_inputs(inputs)
        self.original, self.x = copy_with_one_input(model, call)
        check_real("the input", self.x)
        self.input_names = argument_name_per_tensor(self.given, call)
        self.original.train(self.given.training)
        self.module = deepcopy_with_rebound_closures(self.original, share_parameters=True)
        self.dropout = turn_dropout_off(self.module)
        self.y, self.has_loss, self._loss_fn = y, loss_fn is not None, loss_fn
        self._loss_fn_in_float64 = loss_fn
        # the weights of classes, say; not a loss that is a network
        if isinstance(loss_fn, nn.Module) and not [*loss_fn.parameters()]:
            self._loss_fn_in_float64 = deepcopy(loss_fn).double()
        self.shown, self.cache = CheckTable(), dict[str, Any]()
        self.is_single, self._not_wide, self._traces = False, "", dict[Any, CallTrace]()
        floating = (p.dtype for p in self.module.parameters() if p.is_floating_point())
        self.dtype = next(floating, self.x.dtype)
        random_modules: set[str] | None = set()
        try:
            copy = deepcopy_with_rebound_closures(self.module, share_parameters=True)
            with torch.no_grad(), restored_random_state(), RaiseIfOriginalIsUsed(self.given):
                self.output = evaluate_noting_random_modules(copy, self.x, random_modules)
        except Exception as error:  # a user's module may raise anything
            hint = ""
            if isinstance(inputs, Mapping):
                hint = " (a dictionary is given by keyword: for one argument, give Call(x))"
            raise ValueError(f"{self.name} does not take the input: {error}{hint}") from error
        if not self.module.training:
            random_modules = find_modules_drawing_random_numbers(self.module, self.x)
        self.trains = random_modules is not None
        self.noise, self.is_random = turn_off_removable_noise(
            self.module, random_modules or set(), self.x
        )
        if self.x.dim() == 1 and self.x.is_floating_point():
            self._add_batch_axis_if_equivalent()
        sizes = (
            v.double().abs().nan_to_num().max() for v in list_floating_tensors(self.output)
        )
        self._scales = [float(size) or 1.0 for size in sizes]

    def _add_batch_axis_if_equivalent(self) -> None:
        """Give an input of one axis a batch axis, if the outputs stay the same."""
        with torch.no_grad(), restored_random_state(), suppress(Exception):
            copy = deepcopy_with_rebound_closures(self.module, share_parameters=True)
            plain, output = copy(self.x.clone()), copy(self.x[None].clone())
            pairs = zip(list_tensors(output), list_tensors(plain), strict=True)
            if all(torch.allclose(one[0], plain) for one, plain in pairs):
                self.x, self.output, self.is_single = self.x[None], output, True

    def keep_table(
        self,
        rows: Sequence[dict],
        table_note: str = "",
        plotted_column: str = "",
        curve_axis_label: str = "",
    ) -> None:
        """Keep the numbers behind the check that is running for the report."""
        self.shown = CheckTable(rows, table_note, plotted_column, curve_axis_label)

    def loss(self, output: Any, y: Any) -> Tensor:
        """Return the user's loss, or the one that stands in."""
        if self.is_single:
            output = map_tensors(output, lambda v: v[0])
        values = list_floating_tensors(output)
        is_float64 = bool(values) and values[0].dtype == torch.float64
        loss_fn = self._loss_fn_in_float64 if is_float64 else self._loss_fn
        if loss_fn is not None:
            return loss_fn(output) if y is None else loss_fn(output, y)
        if not values:
            raise CannotCheck("the module returns no floating point numbers.")
        apart = (v - normal(7, i, v.numel()).view_as(v).to(v) for i, v in enumerate(values))
        return torch.stack([d.square().mean() / 2 for d in apart]).mean()

    def concatenate_scaled_outputs(self, output: Any) -> Tensor:
        """Return the outputs as one tensor; of several, each divided by its largest."""
        values = list_floating_tensors(output)
        if len(values) == 1 and values[0].dim():
            return values[0]
        if not values:
            raise TypeError("the module returns no floating point numbers.")
        flat = [v.reshape(len(v) if v.dim() else 1, -1) for v in values]
        if len({len(v) for v in flat}) > 1:
            flat = [v.reshape(1, -1) for v in flat]
        return torch.cat([v / s for v, s in zip(flat, self._scales, strict=True)], dim=1)

    def copy_in_dtype(self, dtype: torch.dtype | None, bn_stats: str) -> ModuleCopy:
        """Return a copy in a precision, whose parameters can be replaced for an evaluation."""
        return ModuleCopy(
            self.module,
            self.x,
            dtype=dtype,
            bn_stats=bn_stats,
            select_output=self.concatenate_scaled_outputs,
        )

    def float64_copy_if_possible(self, bn_stats: str | None = None) -> ModuleCopy:
        """Return the one copy, in float64 if that works; as it trains, by default."""
        bn_stats = self.bn_stats if bn_stats is None else bn_stats
        return self._float64_copy_if_possible.with_bn_stats(bn_stats)

    @cached_property
    def _float64_copy_if_possible(self) -> ModuleCopy:
        for change in (lambda module: module, copy_with_matching_float64_default):
            try:
                module = change(self.module)
                copy = ModuleCopy(
                    module,
                    self.x,
                    dtype=torch.float64,
                    select_output=self.concatenate_scaled_outputs,
                )
                trace = CallTrace(copy.module).run(copy, copy.x)
            except Exception as error:  # a user's module may raise anything
                self._not_wide = self._not_wide or str(error)
            else:
                self.module, self._traces["running", None], self._not_wide = module, trace, ""
                return copy
        return self.copy_in_dtype(None, "running")

    @cached_property
    def float64_if_possible(self) -> torch.dtype | None:
        """float64 where the module can be evaluated in it; None: as it is."""
        _ = self._float64_copy_if_possible
        return None if self._not_wide else torch.float64

    def require_float64(self) -> None:
        """Raise CannotCheck unless the module can be evaluated in float64."""
        if self.float64_if_possible is None:
            why = self._not_wide
            if "dtype" in why:
                why += ". A part that is not registered (LN206), or that casts, keeps its own."
            raise CannotCheck(f"the module cannot be evaluated in float64: {why}")

    @cached_property
    def float64_copy_output_precision(self) -> torch.dtype:
        """The precision of :meth:`float64_copy_if_possible`'s outputs; some cast inputs."""
        if self.float64_if_possible and not self.trace.lowers:
            return torch.float64
        return self.float64_copy_measured_precision

    @cached_property
    def float64_copy_measured_precision(self) -> torch.dtype:
        """The same, found by small steps: what cancels inside leaves fewer digits."""
        return self.float64_copy_if_possible().effective_output_dtype

    @property
    def relative_rounding_threshold(self) -> float:
        """The relative change of outputs that rounding alone makes at most."""
        return ROUNDING.get(self.float64_copy_output_precision, ROUNDING[torch.bfloat16])

    def is_more_than_rounding(self, change: float) -> bool:
        """Return True if a relative change of outputs is no rounding."""
        if (
            self.relative_rounding_threshold < change <= ROUNDING[torch.float32]
        ):  # of what cancels it may be
            return change > ROUNDING.get(
                self.float64_copy_measured_precision, ROUNDING[torch.bfloat16]
            )
        return not change <= self.relative_rounding_threshold

    @cached_property
    def bn_stats(self) -> str:
        """The source of statistics: "batch", as in training, if that works; else "running"."""
        with suppress(Exception):
            self.trace_with_statistics("batch")
            return "batch"
        return "running"

    @cached_property
    def objective(self) -> Objective:
        """The loss as a function of the parameters, as it trains, in float64 if that works.

        Raises:
            CannotCheck: where there is no such function.
        """
        if self.is_random:
            raise CannotCheck(RANDOM)
        why = ""
        for dtype in (
            (torch.float64, None)
            if self.evaluation_seconds_from_operation_count < SLOW
            else (None, torch.float64)
        ):
            for bn_stats in ("batch", "running"):
                settings = {"bn_stats": bn_stats, "dtype": dtype}
                try:
                    with restored_random_state():
                        return Objective(self.module, self.x, self.y, self.loss, **settings)
                except Exception as error:  # a user's loss may raise anything
                    why = why or str(error)
        raise CannotCheck(why)

    @cached_property
    def loss_gradient(self) -> Tensor:
        """The gradient of the loss at the parameters as they are."""
        return self.objective.gradient()[1]

    @cached_property
    def gradients_of_random_projection(self) -> dict[str, Tensor]:
        """The gradients of a random function of the outputs by parameters; by ``x`` as ""."""
        try:
            return self.float64_copy_if_possible().gradients(
                random_scalar_projection, include_input=True
            )
        except RuntimeError:  # some set requires_grad of their input themselves
            try:
                return self.float64_copy_if_possible().gradients(random_scalar_projection)
            except RuntimeError as error:
                if "does not require grad" not in str(error):
                    raise
                raise CannotCheck(DETACHED) from error

    @cached_property
    def with_nonzero_weights(self) -> AuditSubject:
        """The same with random weights for zeros and layer scales; itself without any.

        Rows of these weights have a length of about 1.
        """
        names = all_zero_non_bias_names(self.module) + layer_scale_parameter_names(self.module)
        if not names:
            return self
        _ = self.bn_stats, self.float64_copy_output_precision  # found out once, for both
        other = copy(self)
        other.module = deepcopy_with_rebound_closures(self.module, share_parameters=True)
        for stream, name in enumerate(names):
            p = other.module.get_parameter(name)
            inputs = p[0].numel() if p.dim() > 1 else 1
            p.data = normal(11, stream, p.numel()).view_as(p).to(p) / inputs**0.5
        other._float64_copy_if_possible, other._traces = (
            other.copy_in_dtype(self.float64_if_possible, "running"),
            {},
        )
        for name in (
            "trace",
            "objective",
            "loss_gradient",
            "gradients_of_random_projection",
        ):  # of the module as it is
            vars(other).pop(name, None)
        return other

    @cached_property
    def trace(self) -> CallTrace:
        """The trace of one evaluation, as the module trains."""
        return self.trace_with_statistics(self.bn_stats)

    def trace_with_statistics(self, bn_stats: str, example: int | None = None) -> CallTrace:
        """Return the trace with statistics of a source, of all x or a batch of one example."""
        key = bn_stats, example
        if key not in self._traces:
            x = self.x if example is None else self.x[example].expand_as(self.x)
            self._traces[key] = self.trace_other_input(x, bn_stats)
        return self._traces[key]

    def trace_other_input(self, x: Tensor, bn_stats: str | None = None) -> CallTrace:
        """Return the trace of another input; as the module trains, by default."""
        evaluated = self.float64_copy_if_possible(bn_stats)
        x = x.to(evaluated.x.dtype) if x.is_floating_point() else x
        return CallTrace(evaluated.module).run(evaluated, x)

    def outputs_and_activations(self, bn_stats: str | None = None) -> Observation:
        """Return outputs and activations of one evaluation; as the module trains, by default.

        Raises:
            CannotCheck: where no floating point numbers are returned.
        """
        trace = self.trace if bn_stats is None else self.trace_with_statistics(bn_stats)
        if trace.seen is None:
            raise CannotCheck("the module returns no floating point numbers.")
        return trace.seen

    def drop_copies_and_traces(self) -> None:
        """Free the memory of copies and traces, which are made again where they are needed."""
        _ = (
            self.float64_if_possible,
            self.float64_copy_output_precision,
            self.bn_stats,
            self.evaluation_seconds_from_operation_count,
        )
        for name in (
            "_float64_copy_if_possible",
            "gradients_of_random_projection",
            "trace",
            "with_nonzero_weights",
        ):
            vars(self).pop(name, None)
        self._traces.clear()
        self.cache.clear()

    @cached_property
    def evaluation_seconds_from_operation_count(self) -> float:
        """About how long an evaluation in float64 takes on one core, by what is called.

        It is estimated, not measured: what an audit tries must not depend on other work of the
        machine.
        """
        products = 0.0
        for call in self.trace.calls:
            if call.outputs and not isinstance(call.module, nn.Embedding):
                parameters = call.module.parameters(recurse=False)
                of_unit = [math.prod(p.shape[1:]) for p in parameters]
                products += call.outputs[0].numel() * max(of_unit, default=0)
        return 4e-11 * products + 2e-5 * (len(self.trace.functions) + len(self.trace.calls))

    @property
    def first_calls(self) -> list[ModuleCall]:
        """The first call of every module, in the order of the computation."""
        first: dict[str, ModuleCall] = {}
        for call in self.trace.calls:
            first.setdefault(call.name, call)
        return list(first.values())
