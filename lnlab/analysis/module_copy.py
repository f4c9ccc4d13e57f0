"""Terms of a user's model that are run, changed and restored.

Every analysis works on such a copy: the model, its buffers, hooks and mode stay as they are.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy as shallow_copy
from copy import deepcopy
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from types import CellType, FunctionType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from lnlab.analysis.activations import NORMALIZERS, ActivationRecorder, NonlinearityOrNormCall
from lnlab.analysis.magnitudes import vector_norm
from lnlab.nn import (
    BatchLayerNorm,
    BatchNormalizer,
    Conv2d,
    Linear,
    StatisticsMode,
    recompute_statistics,
    use_statistics,
)

BN_STATS = ("batch", "running", "recomputed")
"""The sources of statistics over examples (BatchNorm's): those of x, in training mode; the
running ones, in evaluation mode; or the running ones after they are recomputed from x."""


def check_type(name: str, value: Any, kind: Any, hint: str) -> None:
    """Raise TypeError, "NAME is of class str: give HINT.", unless ``value`` is a ``kind``."""
    if isinstance(value, kind):
        return
    if isinstance(value, type):
        raise TypeError(f"{name} is the class {value.__name__}: give {hint}.")
    what = "None" if value is None else f"of class {type(value).__name__}"
    raise TypeError(f"{name} is {what}: give {hint}.")


def check_model(model: Any) -> None:
    """Raise TypeError unless ``model`` is a torch.nn.Module."""
    check_type("model", model, nn.Module, "a torch.nn.Module")


def check_nonempty_tensor(x: Any) -> None:
    """Raise TypeError or ValueError unless ``x`` (B, ...) is a tensor with an example."""
    hint = "the input of the model as a tensor, torch.as_tensor(...)"
    # not isinstance: a type checker would take x for a tuple or mapping from here on
    if issubclass(type(x), tuple | Mapping):
        hint += (
            ". For a model with several inputs, give a module that takes one tensor and makes "
            "the inputs from it (notebook 17 has an example)"
        )
    check_type("x", x, Tensor, hint)
    if not x.dim() or not x.numel():
        raise ValueError(f"x has shape {tuple(x.shape)}: give examples along the first axis.")


def check_real(name: str, x: Tensor) -> None:
    """Raise ValueError if ``x`` (any shape), called ``name``, holds complex numbers."""
    if x.is_complex():
        raise ValueError(
            f"{name} holds {x.dtype}, which is not supported: give a module that takes real "
            "numbers and makes complex ones of them, as by torch.view_as_complex."
        )


def check_bn_stats(bn_stats: str) -> None:
    """Raise ValueError unless ``bn_stats`` is one of :data:`BN_STATS`."""
    if bn_stats not in BN_STATS:
        raise ValueError(f"bn_stats is {bn_stats!r}: choose from {', '.join(BN_STATS)}.")


def check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise ValueError if one of ``names`` is not among the ``known`` names of a ``what``."""
    if missing := set(names) - set(known):
        choice = ", ".join(known) or "none"
        raise ValueError(f"no {what} is called {sorted(missing)}: there are {choice}.")


def as_list_even_if_single(value: Any, single_type: type | tuple[type, ...]) -> list:
    """Return ``value`` as a list; a single ``single_type`` is a list of one."""
    return [value] if isinstance(value, single_type) else list(value)


def first_tensor(output: Any) -> Tensor:
    """Return the first tensor (any shape) in what a model returns."""
    # to torch a dataclass is no tree, nor is a mapping of another class than its own
    fields = vars(output) if is_dataclass(output) else output
    for leaf in tree_leaves(dict(output) if isinstance(output, Mapping) else fields):
        if isinstance(leaf, Tensor):
            return leaf
    raise TypeError(
        f"the model returned {type(output).__name__}, which holds no tensor: give "
        "select_output=, a function from what it returns to the tensor that is analyzed."
    )


class SavedBuffers:
    """The buffers of a module, restored at the end of each ``with`` block.

    So is what it keeps in other attributes, as a cache of keys and values.
    """

    def __init__(self, module: nn.Module) -> None:
        self._saved = [(m, _clone_buffers(m._buffers)) for m in module.modules() if m._buffers]
        self._attributes = [(m, _class_specific_attributes(m)) for m in module.modules()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # whole buffers, as statistics of each time step grow while a sequence is read
        for module, buffers in self._saved:
            module._buffers.update(_clone_buffers(buffers))
        for module, attributes in self._attributes:
            for name in _class_specific_attributes(module).keys() - attributes.keys():
                del vars(module)[name]
            vars(module).update(_shallow_copy_containers(attributes))

    def copy_to(self, other: nn.Module) -> None:
        """Copy the saved buffers into ``other``, a copy of the module."""
        modules = (m for m in other.modules() if m._buffers)
        for module, (_, buffers) in zip(modules, self._saved, strict=True):
            module._buffers.update(_clone_buffers(buffers))


def _clone_buffers(buffers: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
    return {name: b if b is None else b.clone() for name, b in buffers.items()}


CONTAINERS = list, dict, set
OF_TORCH = frozenset(vars(nn.Module()))
"""The attributes that every module has; what else there is, its class has put there."""


def _class_specific_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes of a module's own class, containers copied."""
    attributes = {n: v for n, v in vars(module).items() if n not in OF_TORCH}
    return _shallow_copy_containers(attributes)


def _shallow_copy_containers(values: dict[str, Any]) -> dict[str, Any]:
    return {n: shallow_copy(v) if isinstance(v, CONTAINERS) else v for n, v in values.items()}


def frozen_copy_without_hooks(model: nn.Module, *, share_parameters: bool = False) -> nn.Module:
    """Return :func:`deepcopy_with_rebound_closures` without the user's hooks and
    with constant parameters."""
    model = uncompiled_module(model)
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(
                f"{name or type(model).__name__} is compiled by torch.jit, which hides its "
                "parameters: give the module that was scripted or traced."
            )
        if module is not uncompiled_module(module):
            raise ValueError(f"{name} is compiled: compile the whole model, or none of it.")
    for name, p in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(p):
            raise ValueError(f"{name} has no shape yet: call the module once first.")
    # deepcopy refuses tensors with a history, which modules keep of their last call
    # (attention weights, say): these are replaced by constants
    attributes = (value for module in model.modules() for value in tree_leaves(vars(module)))
    memo = {
        id(v): v.detach().clone() for v in attributes if isinstance(v, Tensor) and not v.is_leaf
    }
    try:
        copy = deepcopy_with_rebound_closures(model, memo, share_parameters=share_parameters)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} cannot be copied, and only copies are changed. What it "
            f"keeps beside parameters and buffers must work with copy.deepcopy: {error}"
        ) from error
    for hooks, key in find_user_hooks(copy):
        del hooks[key]
    return copy.requires_grad_(False)


def find_user_hooks(model: nn.Module) -> list[tuple[dict[int, Any], int]]:
    """Return the hooks of forward passes that are not torch's own, as dictionary and key."""
    return [
        (hooks, key)
        for module in model.modules()
        for hooks in (module._forward_hooks, module._forward_pre_hooks)
        for key, hook in hooks.items()
        # torch's old weight_norm makes its weight in a hook
        if not type(hook).__module__.startswith("torch.nn.")
    ]


def deepcopy_with_rebound_closures(
    module: Any, memo: dict[int, Any] | None = None, *, share_parameters: bool = False
) -> Any:
    """Return a deep copy of a module, or of what holds some, whose functions are its own.

    deepcopy leaves functions as they are: ``self.f = lambda x: self.layer(x)`` of a copy would
    still run the layer of the original. With ``share_parameters`` those of the copy are others
    in the same memory.
    """
    memo = {} if memo is None else memo
    if share_parameters:
        memo |= _new_parameters_in_same_memory(module)
    copy = deepcopy(module, memo)
    for each in [v for v in memo.values() if isinstance(v, nn.Module)]:
        for name, value in vars(each).items():
            if isinstance(value, FunctionType) and value.__closure__:
                vars(each)[name] = _rebind_closure(value, memo)
    return copy


def _new_parameters_in_same_memory(module: nn.Module) -> dict[int, nn.Parameter]:
    """Return other parameters in the same memory, by the id of each, as deepcopy has them."""
    shared = {}
    for p in module.parameters():
        shared[id(p)] = nn.Parameter(p.data, p.requires_grad)
        vars(shared[id(p)]).update(vars(p))
    return shared


def _rebind_closure(function: FunctionType, copies: Mapping[int, Any]) -> FunctionType:
    """Return ``function`` referring to copies where it referred to the originals."""
    contents = (cell.cell_contents for cell in function.__closure__ or ())
    cells = tuple(CellType(copies.get(id(each), each)) for each in contents)
    parts = function.__code__, function.__globals__, function.__name__, function.__defaults__
    new = FunctionType(*parts, cells)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def uncompiled_module(model: nn.Module) -> nn.Module:
    """Return the module behind torch.compile; any other is itself."""
    check_model(model)
    return getattr(model, "_orig_mod", model)


def find_norms_with_running_statistics(module: nn.Module) -> list[nn.Module]:
    """Return the normalizers in ``module`` that keep running statistics over examples."""
    return [
        m
        for m in module.modules()
        if isinstance(m, BatchNormalizer | BatchLayerNorm)
        or (isinstance(m, TorchBatchNorm) and m.running_mean is not None)
    ]


@torch.no_grad()
def find_buffers_changed_in_training(module: nn.Module, x: Tensor) -> list[str]:
    """Return the names of float buffers that a forward pass of x (B, ...) in training changes.

    Running statistics of a normalizer of one's own are such, but not the vectors by which
    spectral norms of weights are estimated.
    """
    before = {
        name: buffer.clone()
        for name, buffer in module.named_buffers()
        if buffer.is_floating_point()
        and not re.search(r"(^|\.)(parametrizations\.|weight_[uv]$)", name)
    }
    changed: list[str] = []
    if not before:
        return changed
    modes = [(m, m.training) for m in module.modules()]
    # what cannot be run in training, as with a single example, changes nothing
    with torch.random.fork_rng(), SavedBuffers(module), suppress(Exception):
        module.train()
        module(x.clone())
        after = dict(module.named_buffers())
        changed = [
            name for name, value in before.items() if not torch.equal(after[name], value)
        ]
    for m, mode in modes:
        m.training = mode
    return changed


def refuse_to_recompute_own_batch_norm(module: nn.Module) -> None:
    """Raise ValueError for a subclass of torch's batch norm with a forward of its own."""
    for name, norm in module.named_modules():
        if isinstance(norm, TorchBatchNorm) and not type(norm).forward.__module__.startswith(
            "torch.nn."
        ):
            raise ValueError(
                f'bn_stats="recomputed" needs batch norm of torch or lnlab, and {name} '
                f"({type(norm).__name__}) has a forward of its own: choose another."
            )


@torch.no_grad()
def recompute_bn_stats(module: nn.Module, x: Any) -> None:
    """Replace all running statistics by those of ``x``; its training mode does not change."""
    refuse_to_recompute_own_batch_norm(module)
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    # BatchLayerNorm keeps averages over updates instead of a population: start them again
    mixtures = [m for m in module.modules() if isinstance(m, BatchLayerNorm)]
    for mixture in mixtures:
        mixture.clear_population()
        mixture.train()
    if mixtures:
        with use_statistics(module, StatisticsMode.BATCH):
            module(x)
    module.eval()
    recompute_statistics(module, [x])
    for m, mode in modes:
        m.training = mode


# Weights: the matrices and kernels of a module.


SUMMING = (nn.Linear, _ConvNd, Linear, Conv2d)
"""Layers that make pre-activations, torch's and ours."""
GAINS = ("weight_g", "original0")
"""Parameters of torch's weight_norm that are gains, though they are matrices (H, 1)."""


@dataclass(frozen=True)
class Weight:
    """A matrix or kernel of a module."""

    name: str  # of the parameter, "0.weight"
    owner: str  # the name of the module that has it, "0"
    unit_axis: int  # the axis along which its units are
    makes_pre_activations: bool  # whether its owner makes pre-activations when it is called


def find_weights(module: nn.Module, names: Collection[str] | None = None) -> dict[str, Weight]:
    """Return the weights of ``module`` by name, or only those with the given ``names``.

    They are all parameters of two axes or more but those of normalizers and embeddings.
    """
    weights: dict[str, Weight] = {}
    first_names = {id(p): name for name, p in module.named_parameters()}
    for owner_name, owner in module.named_modules():
        for name, p in owner.named_parameters(recurse=False):
            path = first_names[id(p)]  # a parameter may be shared by several modules
            if is_lazy(p):
                raise ValueError(f"{path} has no shape yet: call the module once first.")
            gain = isinstance(owner, (*NORMALIZERS, nn.Embedding)) or name in GAINS
            chosen = path in names if names is not None else not gain
            if path not in weights and p.dim() >= 2 and chosen:
                axis = 1 if isinstance(owner, _ConvTransposeNd) else 0
                weights[path] = Weight(path, owner_name, axis, isinstance(owner, SUMMING))
    if set(names or ()) - set(weights):
        check_names("weight", names or (), find_weights(module))
    return weights


# A copy that is evaluated again and again, each time with something else in place.


SelectOutput = Callable[[Any], Tensor]
"""A function from what a module returns to the tensor that is analyzed."""

EPS = ("eps", "epsilon", "variance_epsilon")
"""The names that modules have for it."""
NO_EPS = 1e-300
"""Torch's BatchNorm refuses 0 in training; no variance in float64 notices this one."""


class InputAndWeightOverrides(NamedTuple):
    """An input, weights or a shift of pre-activations, put in the place of a module's own."""

    x: Tensor  # the input
    weights: Mapping[str, Tensor] = {}  # parameters by name
    # by the owner of a weight, functions of the pre-activations that it makes
    pre_activation_changes: Mapping[str, Callable[[Tensor], Tensor]] = {}


class Observation(NamedTuple):
    """The output of one evaluation, its activations, and the names of called modules."""

    y: Tensor
    nonlinearity_and_norm_calls: list[NonlinearityOrNormCall]
    called_modules: set[str]


class ModuleCopy:
    """A copy of a module in one precision, with statistics over examples from one source.

    Each evaluation starts from the same buffers, and leaves the random state as it was.

    Args:
        model: what is copied.
        x: its input.
        dtype: the precision of the copy; None: that of the model.
        bn_stats: one of :data:`BN_STATS`; "batch" is training mode.
        select_output: from what the model returns to the tensor that is analyzed.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        *,
        dtype: torch.dtype | None = None,
        bn_stats: str = "running",
        select_output: SelectOutput = first_tensor,
    ) -> None:
        check_nonempty_tensor(x)
        check_bn_stats(bn_stats)
        hint = "a function from what the model returns to a tensor"
        check_type("select_output", select_output, Callable, hint)
        self.bn_stats, self.select_output = bn_stats, select_output
        # with a precision their numbers are copied below
        self.module = frozen_copy_without_hooks(model, share_parameters=dtype is not None)
        if dtype is not None:
            set_default_rms_eps(self.module, x.dtype)
            self.module._apply(
                lambda t: t.to(dtype if t.is_floating_point() else t.dtype, copy=True)
            )
        self.x = x.detach().clone()
        if dtype is not None and x.is_floating_point():
            self.x = self.x.to(dtype)
        self._buffers = SavedBuffers(self.module)
        self._devices = [x.device] if x.is_cuda else []
        self.parameters = dict(self.module.named_parameters())
        self._recorder = ActivationRecorder(self.module)

    @torch.no_grad()
    def run(
        self, overrides: InputAndWeightOverrides | None = None, *, find_where_flat: bool = False
    ) -> Observation:
        """Evaluate the module with ``overrides`` in the place of its own numbers."""
        new = InputAndWeightOverrides(self.x) if overrides is None else overrides
        with self._override_temporarily(new):
            x = new.x.clone()  # a module may write into its input
            try:
                if self.bn_stats == "recomputed":
                    recompute_bn_stats(self.module, new.x)
                with self._recorder.record_evaluation(
                    find_where_flat=find_where_flat
                ) as activations:
                    output = self.module(x)
            except Exception as error:  # whatever a module of the user's may raise
                raise ValueError(
                    f"{type(self.module).__name__} does not take x of shape "
                    f"{tuple(new.x.shape)} in {new.x.dtype}: {error}"
                ) from error
            y = self.select_output(output)
            check_type("select_output(...)", y, Tensor, "a function that returns a tensor")
            return Observation(y.clone(), activations, self._recorder.called_modules)

    def gradients(
        self,
        function: Callable[[Tensor], Tensor],
        overrides: InputAndWeightOverrides | None = None,
        *,
        include_input: bool = False,
    ) -> dict[str, Tensor]:
        """Return the gradient of a scalar function of the outputs by each parameter.

        Each has the shape of what it is by. With ``include_input`` it is also by x (B, ...), as
        "", if that holds floating point numbers.
        """
        new = InputAndWeightOverrides(self.x) if overrides is None else overrides
        x = new.x.detach().clone()
        x.requires_grad_(include_input and x.is_floating_point())
        floating = {n: p for n, p in self.parameters.items() if p.is_floating_point()}
        try:
            for p in floating.values():
                p.requires_grad_()
            with torch.enable_grad(), self._override_temporarily(new):
                # not torch.autograd.grad, which checkpoints may refuse
                function(self.select_output(self.module(x.clone()))).backward()
            tensors = floating | ({"": x} if x.requires_grad else {})
            return {
                name: torch.zeros_like(v) if v.grad is None else v.grad
                for name, v in tensors.items()
            }
        finally:
            for p in floating.values():
                p.grad, p.requires_grad = None, False

    def with_bn_stats(self, bn_stats: str) -> Self:
        """Return the same module, in the same memory, with statistics from another source."""
        check_bn_stats(bn_stats)
        other = shallow_copy(self)
        other.bn_stats = bn_stats
        return other

    @cached_property
    def effective_output_dtype(self) -> torch.dtype:
        """The precision that the outputs have, whatever that of the module's numbers.

        Many modules compute in float32 what they are given in float64. A small step of all
        numbers moves the outputs of a smooth function by twice as much as half of it; where
        they are rounded on the way to steps of about that size, nothing of the kind is left.
        """
        y = self.run().y
        if y.dtype is not torch.float64:
            return y.dtype
        off = 0.01  # numbers that were made in float32 lie on its grid: leave it
        y = self.run(self._overrides_scaled_by_linspace(off)).y
        for step, dtype in ((1e-8, torch.float64), (1e-5, torch.float32)):
            up, down = (
                self.run(self._overrides_scaled_by_linspace(off + size)).y - y
                for size in (step, -step)
            )
            if bool((up - down).any()) and vector_norm(up + down) < 0.1 * vector_norm(up):
                return dtype
        constant = torch.equal(self.run(self._overrides_scaled_by_linspace(0.1)).y, y)
        return y.dtype if constant else torch.bfloat16

    def _overrides_scaled_by_linspace(self, relative_size: float) -> InputAndWeightOverrides:
        """Return the input and the weights, each number changed by up to this share of it.

        Zeros, which hide what is in front of them, become ones.
        """

        def perturb_by_linspace(values: Tensor) -> Tensor:
            if not values.is_floating_point():
                return values
            shares = relative_size * torch.linspace(-1, 1, values.numel(), dtype=values.dtype)
            shares = shares.to(values.device)
            values = values if bool(values.any()) else torch.ones_like(values)
            return values * (1 + shares.view_as(values))

        return InputAndWeightOverrides(
            perturb_by_linspace(self.x),
            {n: perturb_by_linspace(p.data) for n, p in self.parameters.items()},
        )

    def copy_without(
        self, *, eps: bool = False, bias: bool = False, with_large_input: Iterable[str] = ()
    ) -> "ModuleCopy | None":
        """Return another copy with every eps, or every bias inside a, 0; None if none was.

        Args:
            with_large_input: normalizers whose eps is a number in their code: their input is
                multiplied by a million, so that this eps no longer counts.
        """
        # what holds the method that reads outputs is not copied with it
        memo: dict[int, Any] = {
            **_new_parameters_in_same_memory(self.module),
            id(self.select_output): self.select_output,
        }
        other = deepcopy_with_rebound_closures(self, memo)
        changed = [eps and _set_eps_to_zero(m) for m in other.module.modules()]
        changed += [
            bias and _set_pre_activation_bias_to_zero(m) for m in other.module.modules()
        ]
        for name in with_large_input:
            other.module.get_submodule(name).register_forward_pre_hook(_multiply_input)
            changed.append(True)
        other._buffers = SavedBuffers(
            other.module
        )  # an eps is an attribute that it would restore
        return other if any(changed) else None

    @contextmanager
    def _override_temporarily(self, new: InputAndWeightOverrides) -> Iterator[None]:
        """Put what is new in its place; restore that, buffers and the random state."""
        self.module.train(self.bn_stats == "batch")
        values = {name: self.parameters[name].data for name in new.weights}
        hooks = [
            self._hook_pre_activations(owner, change)
            for owner, change in new.pre_activation_changes.items()
        ]
        try:
            for name, W in new.weights.items():
                self.parameters[name].data = W
            with torch.random.fork_rng(self._devices), self._buffers:
                yield
        finally:
            for name, W in values.items():
                self.parameters[name].data = W
            for hook in hooks:
                hook.remove()

    def _hook_pre_activations(
        self, owner: str, change: Callable[[Tensor], Tensor]
    ) -> RemovableHandle:
        """Register a hook that changes the pre-activations of ``owner``."""
        module = self.module.get_submodule(owner)
        if isinstance(module, Linear | Conv2d):  # ours normalize them at once
            return module.norm.register_forward_pre_hook(
                lambda norm, args: (change(args[0]), *args[1:])
            )

        def change_output(layer: nn.Module, args: tuple, output: Tensor) -> Tensor:
            return change(output)

        return module.register_forward_hook(change_output)


def default_rms_eps(dtype: torch.dtype) -> float:
    """Return the eps that torch's RMSNorm takes if it is given none, for an input's dtype.

    It is that of the type in which torch computes: float32 for half precision, too.
    """
    return torch.finfo(dtype if dtype is torch.float64 else torch.float32).eps


def set_default_rms_eps(module: nn.Module, input_dtype: torch.dtype) -> None:
    """Give each RMSNorm of torch without an eps the one that it takes in its own precision.

    In float64 it would take a smaller one, and a copy would compute another function.
    """
    for each in module.modules():
        if isinstance(each, nn.RMSNorm) and each.eps is None:
            each.eps = default_rms_eps(
                input_dtype if each.weight is None else each.weight.dtype
            )


def _multiply_input(module: nn.Module, args: tuple) -> tuple:
    """Return the arguments of a call with the first times a million."""
    return (1e6 * args[0], *args[1:]) if args else args


def _set_eps_to_zero(module: nn.Module) -> bool:
    """Return True if there was one."""
    values = {name: getattr(module, name, None) for name in EPS}
    # torch's RMSNorm has that of the precision by default
    default = isinstance(module, nn.RMSNorm) and module.eps is None
    names = [n for n, eps in values.items() if eps and isinstance(eps, float)]
    for name in [*names, *["eps"] * default]:
        setattr(module, name, NO_EPS)
    return default or bool(names)


def _set_pre_activation_bias_to_zero(module: nn.Module) -> bool:
    """Return True if there was one."""
    if not isinstance(module, SUMMING):
        return False
    b = module.b_inside if isinstance(module, Linear | Conv2d) else module.bias
    if not isinstance(b, Tensor) or not bool(b.any()):
        return False
    b.data = torch.zeros_like(b)
    return True
