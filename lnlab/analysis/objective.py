"""The loss of a model as a function of its parameters, which every analysis differentiates."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm
from torch.overrides import TorchFunctionMode

from lnlab.analysis.module_copy import (
    SavedBuffers,
    as_list_even_if_single,
    check_bn_stats,
    check_model,
    check_names,
    check_nonempty_tensor,
    check_real,
    check_type,
    find_buffers_changed_in_training,
    find_norms_with_running_statistics,
    frozen_copy_without_hooks,
    recompute_bn_stats,
    refuse_to_recompute_own_batch_norm,
    set_default_rms_eps,
    uncompiled_module,
)
from lnlab.threads import in_one_thread_if_small

Loss = Callable[..., Tensor]
"""A loss: from what a model returns, and y, to a scalar."""


class _WeightNormByFormula(TorchFunctionMode):
    """Compute weight norm as g v / ||v||: torch's operator has a wrong second derivative.

    ``torch.autograd.gradgradcheck`` of ``torch._weight_norm`` fails in torch 2.13 on a CPU.
    """

    def __torch_function__(
        self,
        func: Callable,
        types: Collection[type],
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch._weight_norm:  # pyright: ignore[reportPrivateImportUsage]
            return _weight_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """Return g v / ||v||, with a norm for each index along ``dim``, as torch does."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


class Objective:
    """The loss L(w) of a model on fixed examples, as a function of its parameters w (P,).

    L is computed on a copy of the model without its hooks, each time from the same buffers and
    the same random state.

    Args:
        model: called as ``model(x)``; wrap a model with several inputs in a module with one.
        x: its input, examples along the first axis.
        y: the targets of the loss; None if it needs none.
        loss_fn: ``loss_fn(output, y)``, which returns a scalar, such as ``F.cross_entropy``.
        bn_stats: which statistics BatchNorm uses: "batch", those of x, in training mode;
            "running", the running statistics, in evaluation mode, the same at every w;
            "recomputed", in evaluation mode, computed anew from x at every w, which gradients
            hold fixed: they are not those of the loss then, and the Hessian is refused.
            Required if the model has batch normalization, also of its own, whose statistics
            cannot be "recomputed"; None evaluates in evaluation mode.
        params: the names of the parameters that w holds; None takes all that are trained.
        dtype: the precision; None takes that of the model, but at least float32.

    Examples:
        >>> from lnlab.analysis.objective import Objective
        >>> objective = Objective(net, x, y, F.cross_entropy)
        >>> value, gradient = objective.gradient(objective.start)
    """

    @in_one_thread_if_small
    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Any = None,
        loss_fn: Loss | None = None,
        *,
        bn_stats: str | None = None,
        params: Collection[str] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        model = uncompiled_module(model)
        check_nonempty_tensor(x)
        check_type("loss_fn", loss_fn, Callable, "a function of the model's output and y")
        assert loss_fn is not None
        self.bn_stats, self.loss_fn = _require_bn_stats(model, bn_stats), loss_fn
        self.module = frozen_copy_without_hooks(model)
        for name, p in self.module.named_parameters():
            check_real(f"parameter {name}", p)
        dtype = dtype or float32_if_half_precision(self.module)
        self.x, self.y = (v.detach().clone() if isinstance(v, Tensor) else v for v in (x, y))
        if dtype is not None:
            set_default_rms_eps(self.module, x.dtype)
            # not to(), which would leave out the imaginary part of a complex buffer
            self.module._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)
            self.x, self.y = (
                v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v
                for v in (self.x, self.y)
            )
        if self.bn_stats in (None, "recomputed"):
            self._refuse_other_running_statistics()
        self.module.train(self.bn_stats == "batch")
        self._buffers = SavedBuffers(self.module)
        self._devices = [x.device] if x.is_cuda else []
        self._random_state = torch.get_rng_state()
        parameters = dict(self.module.named_parameters())
        self.names = _varied_parameter_names(model, parameters, params)
        self.shapes = [parameters[name].shape for name in self.names]
        self.start = self.flatten([parameters[name] for name in self.names])
        # a shared parameter is in several modules: w has to be put into each of them
        name_of = {id(parameters[name]): name for name in self.names}
        self._slots: list[tuple[dict[str, Any], str, str]] = [
            (m._parameters, key, name_of[id(p)])
            for m in self.module.modules()
            for key, p in m._parameters.items()
            if id(p) in name_of
        ]
        self._check_loss_at_start()

    def _refuse_other_running_statistics(self) -> None:
        """Raise ValueError for a batch normalization of the user's own, as for torch's.

        Only running statistics of torch's and lnlab's can be computed again.
        """
        norms = find_norms_with_running_statistics(self.module)
        known = {id(buffer) for norm in norms for buffer in norm.buffers()}
        buffers = dict(self.module.named_buffers())
        changed = find_buffers_changed_in_training(self.module, self.x)
        for name in changed:
            if id(buffers[name]) not in known:
                raise ValueError(
                    f"in training {type(self.module).__name__} changes {name}, as batch "
                    'normalization does: choose bn_stats="batch" (the statistics of x, as in '
                    'training) or "running" (as in evaluation).'
                )

    def __call__(self, w: Tensor) -> Tensor:
        """Return L(w), differentiable in ``w`` (P,).

        The derivative goes through statistics of the batch, as in training; recomputed ones are
        constants to it.
        """
        self.check_vector("w", w)
        tensors = self.unflatten(w)
        with torch.random.fork_rng(self._devices), self._buffers:
            torch.set_rng_state(self._random_state)
            originals = [registry[key] for registry, key, _ in self._slots]
            try:
                for registry, key, name in self._slots:
                    registry[key] = tensors[name]
                if self.bn_stats == "recomputed":
                    recompute_bn_stats(self.module, self.x)
                with without_checkpoints():
                    output = self.module(self.x)
            finally:
                for (registry, key, _), p in zip(self._slots, originals, strict=True):
                    registry[key] = p
            return self.loss_fn(output, self.y)

    def check_vector(self, name: str, w: Tensor) -> None:
        """Raise TypeError or ValueError unless ``w``, called ``name``, is a vector (P,)."""
        P = len(self.start)
        check_type(name, w, Tensor, f"the parameters as a tensor ({P},)")
        if w.shape != self.start.shape or not w.is_floating_point():
            raise ValueError(
                f"{name} has shape {tuple(w.shape)} in {w.dtype}: give the {P} numbers of the "
                f"parameters, ({P},) in {self.start.dtype}."
            )

    def unflatten(self, w: Tensor) -> dict[str, Tensor]:
        """Return the parameters by name that ``w`` (P,) holds, as views of it."""
        pieces = w.split([shape.numel() for shape in self.shapes])
        named = zip(self.names, pieces, self.shapes, strict=True)
        return {name: piece.view(shape) for name, piece, shape in named}

    def flatten(self, tensors: Collection[Tensor]) -> Tensor:
        """Return tensors in the order of :attr:`names` as one vector (P,)."""
        return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])

    def slices(self) -> dict[str, slice]:
        """Return the range of each parameter in w, by name."""
        ends = torch.tensor([shape.numel() for shape in self.shapes]).cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        return {n: slice(a, b) for n, a, b in zip(self.names, starts, ends, strict=True)}

    def parameters_of(self, model: nn.Module) -> Tensor:
        """Return the w (P,) of another model with parameters of the same names and shapes."""
        check_model(model)
        parameters = dict(model.named_parameters())
        check_names("parameter of the other model", self.names, parameters)
        return self.flatten([parameters[name] for name in self.names]).to(self.start)

    @in_one_thread_if_small
    def value(self, w: Tensor | None = None) -> float:
        """Return L(w), at the model's own parameters by default."""
        with torch.no_grad():
            return float(self(self.start if w is None else w))

    @in_one_thread_if_small
    def gradient(self, w: Tensor | None = None) -> tuple[float, Tensor]:
        """Return L(w) and its gradient (P,)."""
        _, loss, grad = self._w_loss_and_gradient(w)
        return float(loss.detach()), grad

    @in_one_thread_if_small
    def hessian_product(self, w: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """Return the map v to H v at w, of v (P,) or several as (P, K).

        The gradient is computed once; each product is one backward pass through it.

        Raises:
            ValueError: if the loss cannot be differentiated twice, or if ``bn_stats`` is
                "recomputed".
        """
        if self.bn_stats == "recomputed":
            raise ValueError(
                'bn_stats is "recomputed", whose dependence on w has no derivative here: give '
                '"batch", which gives the same loss at every w, or "running".'
            )
        once = (
            f"{type(self.module).__name__} or its loss can be differentiated once and not "
            "twice: take modules that can (the reference of what was fused)."
        )
        try:
            w, _, grad = self._w_loss_and_gradient(w, create_graph=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise ValueError(f"{once} {error}") from error
        if _is_differentiable_only_once(grad):
            raise ValueError(once)

        @in_one_thread_if_small
        def product(v: Tensor) -> Tensor:
            if v.dim() == 2:
                return torch.stack([product(column) for column in v.T], dim=1)
            if not grad.requires_grad:  # the loss is linear in w
                return torch.zeros_like(v)
            # the gradient of v · grad L(w) by w, with v constant, is H v, as H is symmetric
            # (Pearlmutter 1994): the price of a gradient, and no row of H is formed
            (Hv,) = torch.autograd.grad(grad, w, v, retain_graph=True, materialize_grads=True)
            return Hv

        return product

    def _w_loss_and_gradient(
        self, w: Tensor | None, *, create_graph: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return w, L(w) and its gradient, with ``create_graph`` to be differentiated again."""
        w = self.start if w is None else w
        self.check_vector("w", w)
        w = w.detach().requires_grad_()
        with torch.enable_grad(), self._without_nondifferentiable_kernels(create_graph):
            loss = self(w)
            grad = None
            if loss.requires_grad:
                (grad,) = torch.autograd.grad(
                    loss, w, create_graph=create_graph, allow_unused=True
                )
            if grad is None:
                raise ValueError(
                    "the loss has no gradient by the parameters: give one that changes "
                    "smoothly with what the model returns (no count), and detach nothing."
                )
        return w, loss, grad

    @contextmanager
    def _without_nondifferentiable_kernels(self, create_graph: bool) -> Iterator[None]:
        """Turn off the operators without the derivative that is asked for.

        Fused attention has a first derivative alone, cuDNN's recurrent layers have none in
        evaluation mode, and the second derivative of fused weight norm is wrong.
        """
        recurrent = any(isinstance(m, nn.RNNBase) for m in self.module.modules())
        with ExitStack() as stack:
            if recurrent and (create_graph or not self.module.training):
                stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            if create_graph:
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
                stack.enter_context(_WeightNormByFormula())
            yield

    def _check_loss_at_start(self) -> None:
        """Raise ValueError if the loss at the start is no function that can be analyzed."""
        name = type(self.module).__name__
        try:
            with torch.no_grad():
                first = self(self.start)
        except (RuntimeError, TypeError, IndexError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{name} or its loss does not take x of shape {tuple(self.x.shape)}: {error}. "
                "The loss is called with all that the model returns, and y."
            ) from error
        if not isinstance(first, Tensor) or first.dim():
            shape = tuple(getattr(first, "shape", ())) or type(first).__name__
            raise ValueError(f"the loss returned {shape}: let it return a scalar, a mean.")
        if not first.isfinite():
            raise ValueError(
                f"the loss is {first.item()} at the start: look for NaN or infinities in x, y "
                "and the parameters."
            )
        # the second time from another random state
        state, self._random_state = self._random_state, torch.Generator().get_state()
        with torch.random.fork_rng(self._devices):
            # torch.manual_seed would seed all devices, and only these are restored
            for device in self._devices:
                torch.cuda.default_generators[device.index].manual_seed(1)
            other, self._random_state = self.value(), state
        if float(first) != other:
            hint = (
                'set p = 0 in its dropout, or choose bn_stats="running"'
                if self.bn_stats == "batch"
                else "let it draw nothing and keep nothing in evaluation mode"
            )
            raise ValueError(f"{name} gives another loss the second time: {hint}.")


class _CheckpointWithoutRecomputation:
    """A reentrant checkpoint without the recomputation: it cuts gradients as the other does."""

    @staticmethod
    def apply(function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        reached = any(isinstance(v, Tensor) and v.requires_grad for v in args)
        with torch.set_grad_enabled(torch.is_grad_enabled() and reached):
            return function(*args)


@contextmanager
def without_checkpoints() -> Iterator[None]:
    """Keep what a checkpoint would compute again, when the parameters are others already."""

    def yield_without_recomputation(*_: object, **__: object) -> Iterator[None]:
        yield

    where = "torch.utils.checkpoint."
    with (
        patch(f"{where}_checkpoint_without_reentrant_generator", yield_without_recomputation),
        patch(f"{where}CheckpointFunction", _CheckpointWithoutRecomputation),
    ):
        yield


def as_objective(
    model: "nn.Module | Objective", x: Tensor | None, y: Any, loss_fn: Loss | None,
    bn_stats: str | None,
) -> Objective:  # fmt: skip
    """Return the objective of these arguments; what is one already is itself.

    So every analysis of a loss takes either: ``hessian_trace(model, x, y, loss_fn)``, or
    ``hessian_trace(objective)`` with an :class:`Objective` that serves several of them.
    """
    if not isinstance(model, Objective):
        return Objective(model, x, y, loss_fn, bn_stats=bn_stats)  # type: ignore[arg-type]
    if any(v is not None for v in (x, y, loss_fn, bn_stats)):
        raise ValueError("an Objective has its x, y, loss_fn and bn_stats: give it alone.")
    return model


def float32_if_half_precision(module: nn.Module) -> torch.dtype | None:
    """Return float32 if a parameter of ``module`` has fewer digits, else None, its own.

    A bfloat16 has two or three digits, of which a difference of losses or a product with the
    Hessian keeps none.
    """
    bits = [torch.finfo(p.dtype).bits for p in module.parameters() if p.is_floating_point()]
    return torch.float32 if bits and min(bits) < 32 else None


def _require_bn_stats(model: nn.Module, bn_stats: str | None) -> str | None:
    """Return the source of statistics over examples; models with such need one."""
    if bn_stats is None:
        if find_norms_with_running_statistics(model):
            raise ValueError(
                f"{type(model).__name__} has batch normalization: choose whose statistics it "
                'takes, bn_stats="batch" (those of x, as in training), "running" (as in '
                'evaluation) or "recomputed" (running ones, computed from x again).'
            )
        return None
    check_bn_stats(bn_stats)
    if bn_stats == "recomputed":
        refuse_to_recompute_own_batch_norm(model)
    for name, module in model.named_modules() if bn_stats != "batch" else ():
        if isinstance(module, TorchBatchNorm) and module.running_mean is None:
            raise ValueError(
                f"{name or type(module).__name__} has no running statistics and takes those of "
                'the batch in evaluation mode as well: choose bn_stats="batch".'
            )
    return bn_stats


def _varied_parameter_names(
    model: nn.Module, parameters: dict[str, nn.Parameter], params: Collection[str] | None
) -> list[str]:
    """Return the names of the parameters that vary, in the model's order."""
    if params is None:
        trained = {name for name, p in model.named_parameters() if p.requires_grad}
        names = [name for name in parameters if name in trained]
    else:
        wanted = set(as_list_even_if_single(params, str))
        check_names("parameter", wanted, parameters)
        names = [name for name in parameters if name in wanted]
    if not names:
        raise ValueError(f"{type(model).__name__} has no parameters that are trained.")
    if len({parameters[name].dtype for name in names}) > 1:
        raise ValueError("the parameters have several dtypes: convert them by model.float().")
    return names


def _is_differentiable_only_once(grad: Tensor) -> bool:
    """Return True if a gradient went through an operator that is differentiable only once.

    Torch leaves what is marked so out of the second derivative without a word.
    """
    seen, ahead = set(), [grad.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        if node.name().endswith(("Error", "NotImplemented")):
            return True
        seen.add(node)
        ahead += [before for before, _ in node.next_functions]
    return False
