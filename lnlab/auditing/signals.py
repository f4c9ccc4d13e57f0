"""Checks of what gets through a module: inputs, gradients, logits, and both of its modes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase as TorchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from lnlab.analysis.activations import NONLINEARITIES, is_known_norm
from lnlab.analysis.inputs import GIVEN, list_tensors
from lnlab.analysis.magnitudes import relative_max_change, root_mean_square
from lnlab.analysis.module_copy import (
    SUMMING,
    InputAndWeightOverrides,
    ModuleCopy,
    deepcopy_with_rebound_closures,
)
from lnlab.analysis.random import normal
from lnlab.auditing.finding import (
    CannotCheck,
    Finding,
    Findings,
    Severity,
    count_with_noun,
    make_finding,
    three_significant_digits,
)
from lnlab.auditing.norms import find_norms, is_norm_by_class
from lnlab.auditing.subject import (
    AuditSubject,
    ModuleCall,
    all_zero_non_bias_names,
    hook_all_modules,
    make_different_input,
    padding_row_by_embedding_weight,
    parameter_storages,
    restored_random_state,
)

FAULT, RISK, FACT = Severity

FEW_EXAMPLES = 16
"""The values of a channel, of fewer of which nothing is said of all examples."""


CURVED = (
    *("exp", "expm1", "log", "log1p", "pow", "square", "sin", "cos", "atan", "erf", "abs"),
    *("sign", "clamp", "where", "maximum", "minimum", "masked_fill", "setitem", "index_put"),
    *("scatter", "sort", "topk", "cumprod", "prod", "amax", "amin"),
)
"""Functions, beside those that are used as activations, whose graph is no straight line."""


class OperationRecorder(TorchFunctionMode):
    """Records what an evaluation and its loss do, while it is active.

    Attributes:
        sums: for sums of two tensors of one shape, the module and the sizes of both.
        attention: for each attention, the module and the mean largest weight.
        sizes: of each module the class and the size of its first output.
        unused: nonlinearities whose result nothing has read: the module and the name.
        is_curved: whether a nonlinearity, a maximum or a product of activations was called.
        logits: input and target of a cross-entropy.
        broadcast: the shapes of the operands of a loss that made a larger result.
        sums_to: the mean sum of the exponentials that a likelihood was given.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.sums: list[tuple[str, float, float]] = []
        self.attention: list[tuple[str, float]] = []
        self.sizes: dict[str, tuple[type, float]] = {}
        self.unused: dict[int, tuple[Tensor, str]] = {}
        self.is_curved, self.in_loss, self.broadcast, self.sums_to = False, False, "", 1.0
        self.logits: tuple[Tensor, Tensor] | None = None
        self._layer_scaled: list[Tensor] = []
        self._parameters = parameter_storages(module)
        self._norms = {name for name, m in module.named_modules() if is_norm_by_class(m)}
        self._stack = [""]

    def enter_module(self, name: str, *_: object) -> None:
        self._stack.append(name)

    def record_rms_and_leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        name, made = self._stack.pop(), list_tensors(output)[:1]
        self.mark_as_used(output)
        if made and made[0].is_floating_point() and name not in self.sizes:
            with torch._C.DisableTorchFunction():
                self.sizes[name] = type(module), float(root_mean_square(made[0]))

    def mark_as_used(self, tree: Any) -> None:
        """Note that the tensors in a tree are used."""
        for tensor in list_tensors(tree):
            self.unused.pop(id(tensor), None)

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.mark_as_used((args, kwargs))
        name = getattr(func, "__name__", "").strip("_")
        is_in_norm = self._stack[-1] in self._norms
        operands = [v for v in args[:2] if isinstance(v, Tensor)]
        if self.in_loss:
            self._record_loss_inputs(name, operands)
        elif name in ("add", "iadd", "radd") and len(operands) == 2:
            self._record_rms_of_summands(*operands)
        elif name in ("mul", "imul", "rmul") and len(operands) == 2:
            gains = [v for v in operands if self._is_vector_of_parameter(v)]
            if any(bool((v == v.flatten()[0]).all()) for v in gains):
                self._layer_scaled.append(result)  # one that starts small on purpose
            weights = any(isinstance(v, nn.Parameter) for v in operands)
            self.is_curved |= not weights and not is_in_norm
        elif name == "softmax" and operands and result.dim() > 2:
            self._record_mean_max_attention_weight(result)
        elif name == "scaled_dot_product_attention":
            with torch._C.DisableTorchFunction():
                attend: Any = torch._scaled_dot_product_attention_math  # pyright: ignore
                weights = attend(*args, **kwargs)[1]
            self._record_mean_max_attention_weight(weights)
        if func in NONLINEARITIES and not self.in_loss and result is not args[0]:
            self.unused[id(result)] = result, self._stack[-1]
        self.is_curved |= func in NONLINEARITIES or any(
            word in name for word in ("softmax", "pool", "lstm", "gru", "rnn", "attention")
        )
        self.is_curved |= name in CURVED and not is_in_norm
        return result

    def _is_vector_of_parameter(self, v: Tensor) -> bool:
        memory = v.untyped_storage()._cdata
        return memory in self._parameters and v.numel() == max(v.shape, default=1)

    def _record_rms_of_summands(self, one: Tensor, other: Tensor) -> None:
        alike = one.shape[-2:] == other.shape[-2:] and min(one.dim(), other.dim()) > 1
        # a mask has two values
        masks = any(v.flatten()[:1000].unique().numel() < 3 for v in (one, other))
        if alike and one.is_floating_point() and not masks:
            memory = {v.untyped_storage()._cdata for v in self._layer_scaled}
            if memory.isdisjoint(v.untyped_storage()._cdata for v in (one, other)):
                sizes = float(root_mean_square(one)), float(root_mean_square(other))
                self.sums.append((self._stack[-1], *sizes))

    def _record_mean_max_attention_weight(self, weights: Tensor) -> None:
        with torch._C.DisableTorchFunction():
            rows = weights.amax(-1)[(weights > 0).sum(-1) >= 4]
            if rows.numel():
                self.attention.append((self._stack[-1], float(rows.mean())))

    def _record_loss_inputs(self, name: str, operands: list[Tensor]) -> None:
        if len(operands) < 2:
            return
        one, other = operands
        if name == "cross_entropy" or (name == "nll_loss" and self.logits is None):
            self.logits = one.detach(), other.detach()
        if name == "nll_loss":
            axis = 1 if one.dim() > 1 else 0
            self.sums_to = float(one.double().logsumexp(axis).exp().mean())
        elif name in ("sub", "rsub", "mse_loss", "l1_loss", "mul"):
            same_size = one.numel() == other.numel() > 1 and one.shape != other.shape
            whole = torch.broadcast_shapes(one.shape, other.shape).numel()
            if same_size and whole > one.numel():
                self.broadcast = f"{tuple(one.shape)} and {tuple(other.shape)}"


def record_operations(subject: AuditSubject) -> OperationRecorder:
    """Return what one evaluation in the module's own precision and mode does."""
    if "operations" not in subject.cache:
        module = deepcopy_with_rebound_closures(subject.module, share_parameters=True).train(
            subject.trains
        )
        seen = OperationRecorder(module)
        recording = hook_all_modules(
            module, seen.enter_module, seen.record_rms_and_leave_module
        )
        with torch.no_grad(), restored_random_state(), recording, seen:
            output = module(subject.x.clone())
            seen.mark_as_used(output)
            if subject.has_loss:
                seen.in_loss = True
                subject.loss(output, subject.y)
        subject.cache["operations"] = seen
    return subject.cache["operations"]


# The logits of a cross-entropy, and what else the loss receives.

LOW = 0.02
"""A loss that cannot go below this, whatever the weights, is worth a finding."""


def check_loss_inputs(subject: AuditSubject) -> Findings:
    """Look at what the loss receives: its size, its range, its shape, and the answers in x."""
    if not subject.has_loss:
        raise CannotCheck("no loss was given.")
    seen = record_operations(subject)
    if seen.broadcast:
        yield make_finding("loss-broadcasts", shapes=seen.broadcast)
    if abs(seen.sums_to - 1) > 0.01:
        yield make_finding("loss-of-raw-logits", sum=three_significant_digits(seen.sums_to))
    if seen.logits is not None:
        yield from _classification_loss_findings(subject, *seen.logits)
    yield _next_step_leak_finding(subject)


def _classification_loss_findings(subject: AuditSubject, logits: Tensor, y: Tensor) -> Findings:
    axis = 1 if logits.dim() > 1 else 0
    classes = logits.shape[axis]
    if classes < 2 or not bool(logits.isfinite().all()):
        return
    loss = float(F.cross_entropy(logits.float(), y))
    chance = math.log(classes)
    subject.keep_table([{"loss": loss, "of a guess": chance, "classes": classes}])
    if loss > 2 * chance + 1:
        values: dict[str, Any] = {
            "loss": three_significant_digits(loss),
            "chance": three_significant_digits(chance),
        }
        yield make_finding("over-confident", classes=classes, **values)
    least = logits.amin()
    share = float((logits == least).double().mean())
    if float(least) == 0 and 0.1 < share < 1:
        yield make_finding("logits-clipped", share=f"{share:.0%}")
    output = [v for v in list_tensors(subject.output) if v.shape == logits.shape]
    if len(output) == 1 and not _ends_in_linear(subject):
        lowest = _loss_floor_of_bounded_logits(subject, axis)
        if lowest > LOW:
            yield make_finding("logits-bounded", lowest=three_significant_digits(lowest))


def _ends_in_linear(subject: AuditSubject) -> bool:
    """Return True if the outputs are those of a linear layer, which grow with its weight."""
    *calls, whole = subject.trace.calls
    return any(
        isinstance(call.module, SUMMING)
        and "weight" in call.module._parameters
        and type(call.module).forward.__module__.startswith(("torch.nn.", "lnlab.nn."))
        for call in calls
        if not set(call.output_storages).isdisjoint(whole.output_storages)
    )


def _loss_floor_of_bounded_logits(subject: AuditSubject, class_axis: int) -> float:
    """Return the loss of the widest logits that large weights make; 0 where they grow."""
    evaluated, ranges = subject.float64_copy_if_possible(), []
    for factor in (100, 1000):
        larger = {n: factor * p.data for n, p in evaluated.parameters.items()}
        y = evaluated.run(InputAndWeightOverrides(evaluated.x, larger)).y
        if y.dim() <= class_axis:
            return 0.0
        ranges.append(float((y.amax(class_axis) - y.amin(class_axis)).max()))
    if not 0 < ranges[1] < 1.2 * ranges[0]:
        return 0.0
    return math.log1p((y.shape[class_axis] - 1) * math.exp(-ranges[1]))


def _next_step_leak_finding(subject: AuditSubject) -> Finding | None:
    """An output that sees the input which it is to tell, of inputs that are one step behind."""
    x, y = subject.x, subject.y
    if not isinstance(y, Tensor) or y.shape != x.shape or y.dtype != x.dtype:
        return None
    if torch.equal(x, y):  # constant along the axis
        return None
    axes = [
        axis
        for axis, steps in enumerate(x.shape)
        if axis and steps > 2 and _is_one_step_ahead(y, x, axis)
    ]
    if len(axes) != 1:
        return None
    (axis,) = axes
    steps, evaluated = x.shape[axis], subject.float64_copy_if_possible("running")
    t = steps // 2
    first, last = evaluated.x.split((t, steps - t), axis)
    later = torch.cat([first, last.flip(0 if len(x) > 1 else axis)], axis)
    before = subject.outputs_and_activations("running").y
    after = evaluated.run(InputAndWeightOverrides(later)).y
    if not bool(before.isfinite().all()):  # NaN tells nothing of what it depends on
        return None
    if before.shape != x.shape:  # of tokens, which have classes: steps may lie elsewhere
        axes = [i for i, n in enumerate(before.shape) if i and n == steps]
    if len(axes) != 1:
        return None
    change = relative_max_change(*(v.narrow(axes[0], 0, t) for v in (after, before)))
    if not subject.is_more_than_rounding(change):
        return None
    return make_finding("answer-leaks", change=three_significant_digits(change))


def _is_one_step_ahead(y: Tensor, x: Tensor, axis: int) -> bool:
    """Return True if y is x one step later along an axis, as far as both go."""
    steps = x.shape[axis] - 1
    return torch.equal(y.narrow(axis, 0, steps), x.narrow(axis, 1, steps))


# Inputs that nothing depends on, and gradients that are not those of the function.

IGNORED = 0.1
"""A share of the input above this that nothing depends on is worth a finding."""

BLOCKS = 8
"""Parts of a sequence that are replaced, one in each example."""


def check_ignored_inputs(subject: AuditSubject) -> Findings:
    """Find parts of the input that no output depends on, and padding that is not left out."""
    # what a branch of zeros takes is read as soon as a step has moved them
    zeros = all_zero_non_bias_names(subject.module)
    stays = bool(zeros) and not any(_has_gradient(subject, name) for name in zeros)
    nonzero = subject if stays else subject.with_nonzero_weights
    unread = _ignored_other_inputs(nonzero)
    yield make_finding(
        "input-ignored", unread, message="nothing that is returned depends on it"
    )
    share = _ignored_input_share(nonzero)
    subject.keep_table([{"of the input without effect": share}])
    if share > IGNORED:
        whole = "no output depends on it"
        part = f"nothing that is returned depends on {share:.0%} of it"
        severity, message = (FAULT, whole) if share == 1 else (None, part)
        yield make_finding("input-ignored", None, severity, message=message)
    yield from _padding_findings(subject)


def _has_gradient(subject: AuditSubject, name: str) -> bool:
    """Return True if a parameter is trained and a step would change it."""
    grad = subject.gradients_of_random_projection.get(name)
    return bool(subject.trainable.get(name)) and grad is not None and bool(grad.any())


def _ignored_input_share(subject: AuditSubject) -> float:
    """Return the share of the input, beside the axis of examples, that has no effect."""
    evaluated, x, y = (
        subject.float64_copy_if_possible(),
        subject.x,
        subject.outputs_and_activations().y,
    )

    def has_effect(other: Tensor) -> bool:
        changed = evaluated.run(InputAndWeightOverrides(other)).y
        return subject.is_more_than_rounding(relative_max_change(changed, y))

    if x.is_floating_point():
        if "" not in subject.gradients_of_random_projection:
            raise CannotCheck("it takes no input that requires a gradient.")
        flat = subject.gradients_of_random_projection[""] == 0
        suspects = flat.all(0) if flat.dim() > 1 else flat
        other = torch.where(suspects, make_different_input(evaluated.x), evaluated.x)
        if not bool(suspects.any()) or has_effect(other):
            return 0.0
        return float(suspects.double().mean())
    if x.dim() < 2 or len(x) < 2:
        raise CannotCheck("the input has no steps.")
    steps, examples = x.shape[1], len(x)
    rolled = x.roll(1, 0)
    blocks = torch.arange(steps).chunk(min(BLOCKS, examples))
    if y.dim() and len(y) == examples:
        # another block in each example, in one evaluation: most have an effect on their example
        other = x.clone()
        for example, block in enumerate(blocks):
            other[example, block] = rolled[example, block]
        changed = evaluated.run(InputAndWeightOverrides(other)).y
        changes = [relative_max_change(changed[i], y[i]) for i in range(len(blocks))]
        pairs = zip(blocks, changes, strict=True)
        blocks = [block for block, change in pairs if not subject.is_more_than_rounding(change)]
    unseen = 0
    for block in blocks:
        other = x.clone()
        other[:, block] = rolled[:, block]
        if not torch.equal(other, x) and not has_effect(other):
            unseen += len(block)
    return unseen / steps


def _ignored_other_inputs(subject: AuditSubject) -> list[str]:
    """Return the inputs beside ``x`` that have no effect: a mask that nothing reads, say."""
    ignored = []
    y = subject.outputs_and_activations().y
    for name, given in list(subject.module.named_buffers()):
        if not name.startswith(GIVEN) or torch.equal(other := _other_values(given), given):
            continue
        module = deepcopy_with_rebound_closures(subject.module, share_parameters=True)
        module._buffers[name] = other
        copy = ModuleCopy(
            module,
            subject.x,
            dtype=subject.float64_if_possible,
            bn_stats=subject.bn_stats,
            select_output=subject.concatenate_scaled_outputs,
        )
        with suppress(ValueError):  # it may refuse such values, and has read them then
            changed = copy.run().y
            if changed.shape == y.shape and not subject.is_more_than_rounding(
                relative_max_change(changed, y)
            ):
                ignored.append(subject.input_names[int(name.removeprefix(GIVEN))])
    return ignored


def _other_values(given: Tensor) -> Tensor:
    """Return an input of the same kind with other values; the same where none are at hand."""
    if given.dtype is torch.bool:
        return ~given
    if given.is_floating_point() and bool(given.isfinite().all()):
        return make_different_input(given)
    if not given.dim():
        return given
    other = given.flip(0)
    return given.flip(-1) if torch.equal(other, given) else other


class SequenceEndPadding(NamedTuple):
    """The steps at the ends of the sequences in ``x`` that are no part of them.

    Attributes:
        is_padding_step: which steps of which example, True where one is padding (B, T).
        axis: the axis of ``x`` along which the steps are.
        filler: the value that they have.
        words: what they are, in words.
    """

    is_padding_step: Tensor
    axis: int
    filler: float
    words: str


def _find_padding(subject: AuditSubject) -> SequenceEndPadding | None:
    """Return the padding of ``x``: steps of zeros, or of the padding_idx of an embedding.

    None unless sequences end in it, and begin with something else.
    """
    x, axis, filler, words = subject.x, 1, 0.0, "zeros"
    readers = [
        call.module
        for call in subject.first_calls
        if call.inputs and torch.equal(call.inputs[0], x.to(call.inputs[0].dtype))
    ]
    if x.is_floating_point() and x.dim() == 3:
        axis = 2 if any(isinstance(each, nn.Conv1d) for each in readers) else 1
        is_filler = (x == 0).all(3 - axis)
    else:
        embeddings = [each for each in readers if isinstance(each, nn.Embedding)]
        every_index = [each.padding_idx for each in embeddings]
        indices = {index for index in every_index if index is not None}
        if x.dim() != 2 or len(indices) != 1:
            return None
        filler, words = indices.pop(), "padding tokens"
        is_filler = x == filler
    steps = is_filler.flip(1).int().cummin(1).values.flip(1).bool()
    if bool(steps[:, 0].any()) or float(steps.double().mean()) < 0.05:
        return None
    return SequenceEndPadding(steps, axis, filler, words)


def _padding_findings(subject: AuditSubject) -> Findings:
    """Sequences that end in padding: whether more of it changes what comes out, or the norms
    take it into their statistics."""
    padding = _find_padding(subject)
    if padding is None:
        return
    steps, axis, filler, words = padding
    evaluated = subject.float64_copy_if_possible("running")
    x = evaluated.x
    longer = torch.cat([x, torch.full_like(x.narrow(axis, 0, 1), filler)], axis)
    y = more = subject.outputs_and_activations("running").y
    with suppress(ValueError):  # the module takes one length, or a mask
        more = evaluated.run(InputAndWeightOverrides(longer)).y
    if y.shape == more.shape and subject.is_more_than_rounding(relative_max_change(more, y)):
        share = float(steps.double().mean())
        yield make_finding("padding-read", share=f"{share:.0%}", padding=words)
    is_padding = steps if x.dim() == 2 else steps.unsqueeze(3 - axis)
    refilled = torch.where(is_padding, x.narrow(axis, 0, 1), x)
    before, after = (
        {call.name: call for call in reversed(trace.calls)}
        for trace in (
            subject.trace_with_statistics("running"),
            subject.trace_other_input(refilled, "running"),
        )
    )
    shares = {
        call.name: _padded_share_of_norm_input(before[call.name], after[call.name], steps)
        for call in subject.first_calls
        if call.name in before
        and call.name in after
        and call.inputs
        and _takes_statistics_over_steps(call)
    }
    found = {name: share for name, share in shares.items() if share}
    share = f"{max(found.values(), default=0.0):.0%}"
    yield make_finding("statistics-of-padding", found, share=share, padding=words)


def _takes_statistics_over_steps(call: ModuleCall) -> bool:
    """Return True for the call of a norm whose statistics are over all but axis 1 of its
    input, of a batch or of each example."""
    module = call.module
    if isinstance(module, TorchNorm):
        return call.is_training or module.running_mean is None
    return isinstance(module, nn.GroupNorm)


def _padded_share_of_norm_input(before: ModuleCall, after: ModuleCall, steps: Tensor) -> float:
    """Return the share of a norm's input that is of padded steps (B, T).

    These are where steps lie along one of its axes, and the padded ones are 0 or change with
    what the padding holds, while the first step does not.
    """
    inputs = [call.inputs[0] for call in (before, after)]
    if inputs[0].dim() == 2 and len(inputs[0]) == steps.numel():
        inputs = [v.unflatten(0, steps.shape) for v in inputs]
    if inputs[0].dim() != 3 or inputs[0].shape != inputs[1].shape:
        return 0.0
    for axis in (1, 2):
        old, new = (v.movedim(axis, 1) for v in inputs)
        if old.shape[:2] != steps.shape:
            continue
        changed, zero = (old != new).any(-1), (old == 0).all(-1)
        if bool((changed | zero)[steps].all()) and not bool(changed[:, 0].any()):
            return float(steps.double().mean())
    return 0.0


WRONG = 0.03
"""A relative difference above this between a gradient and finite differences is one."""
KINK = 0.1
"""Slopes on both sides of a point that differ by this part of an error explain it."""


def check_backward_pass(subject: AuditSubject) -> Findings:
    """Run one backward pass as a training would: in training mode, with dropout."""
    module = deepcopy_with_rebound_closures(subject.original, share_parameters=True)
    module.train(subject.trains or subject.original.training)
    try:
        with torch.enable_grad(), restored_random_state():
            loss = subject.loss(module(subject.x.clone()), subject.y)
            if loss.requires_grad:
                loss.backward()
    except RuntimeError as error:
        message = str(error).partition(" Hint:")[0].rstrip(".")
        if "modified by an inplace operation" not in message and (
            "in an in-place operation" not in message
        ):
            raise
        yield make_finding("backward-fails", error=message)


def check_wrong_derivative(subject: AuditSubject) -> Findings:
    """Compare the gradient along a random direction with finite differences of the loss."""
    slopes = directional_derivatives(subject)
    subject.keep_table(slopes.rows)
    if slopes.largest_error > WRONG:
        yield make_finding("gradient-differs", error=f"{slopes.largest_error:.0%}")


def has_doubtful_derivative(subject: AuditSubject) -> bool | None:
    """Return True if the gradient is not that of the loss; None if this cannot be checked.

    It is compared with differences of the loss, and that of each normalizer with its outputs.
    """
    properties = (
        p for norms in find_norms(subject) if norms.report for p in norms.report.properties
    )
    if any(p.name == "gradient" and p.differs_from_torch for p in properties):
        return True
    try:
        return directional_derivatives(subject).largest_error > WRONG
    except CannotCheck:
        return None


class DirectionalDerivatives(NamedTuple):
    """The derivatives of the loss along random directions, by the gradient and by differences.

    Attributes:
        rows: one for each direction.
        largest_error: the largest relative difference; a direction along which the loss has a
            kink counts as 0.
    """

    rows: list[dict[str, float]]
    largest_error: float


def directional_derivatives(subject: AuditSubject) -> DirectionalDerivatives:
    """Return the derivatives of the loss along two random directions, found once.

    A part that computes in float32 leaves fewer digits to the differences: the step is larger.

    Raises:
        CannotCheck: where numbers have 16 bits, or where float64 takes too long.
    """
    if "directional derivatives" in subject.cache:
        return subject.cache["directional derivatives"]
    # at a branch of zeros in front of a ReLU there is no derivative: half of all kinks are met
    nonzero = subject.with_nonzero_weights
    objective = nonzero.objective
    w = objective.start
    if subject.float64_copy_output_precision == torch.bfloat16 or subject.trace.makes_16_bits:
        raise CannotCheck("finite differences need more digits than 16 bits have.")
    if subject.float64_if_possible is not None and w.dtype != torch.float64:
        raise CannotCheck("finite differences need float64, and the module is large.")
    is_float64 = w.dtype == subject.float64_copy_output_precision == torch.float64
    step = 1e-6 if is_float64 else 1e-3
    slices = objective.slices()
    rows, errors = [], []
    for draw in range(2):
        v = normal(13, draw, len(w)).to(w)
        for part in slices.values():
            v[part] *= float(root_mean_square(w[part])) or 1.0
        for name, row in padding_row_by_embedding_weight(subject.module).items():
            if name in slices:
                v[slices[name]].view(subject.module.get_parameter(name).shape)[row] = 0
        above, below = objective.value(w + step * v), objective.value(w - step * v)
        slope, expected = float(nonzero.loss_gradient @ v), (above - below) / 2 / step
        rows.append({"gradient": slope, "differences": expected})
        error = abs(slope - expected) / max(abs(slope), abs(expected), 1e-6)
        if error > WRONG:
            # at a kink, such as a ReLU at 0, slopes differ on both sides: there is no gradient
            bend = abs(above - 2 * objective.value(w) + below) / step
            wider = objective.value(w + 4 * step * v) - objective.value(w - 4 * step * v)
            # and one near it changes the slope with the step
            change = abs(wider / 8 / step - expected)
            error = 0.0 if max(bend, change) > KINK * abs(slope - expected) else error
        errors.append(error)
    found = DirectionalDerivatives(rows, max(errors))
    subject.cache["directional derivatives"] = found
    return found


# The scale of weights and branches, and attention that has decided.

APART = 1000.0
"""Sizes further apart than this."""

STEEP, DEEP = 300.0, 6
"""Outputs of at least so many layers of one class whose size changes by this factor."""


def check_weight_and_branch_sizes(subject: AuditSubject) -> Findings:
    """Compare the sizes of weights, of the operands of sums, and of attention logits."""
    seen = record_operations(subject)
    layers = {n: m for n, m in subject.module.named_modules() if isinstance(m, SUMMING)}
    sizes = {}
    for name, layer in layers.items():
        if isinstance(weight := getattr(layer, "weight", None), Tensor):
            inputs = weight.numel() / max(weight.shape[0], 1)
            sizes[f"{name}.weight"] = float(root_mean_square(weight.detach())) * inputs**0.5
    sizes = {name: size for name, size in sizes.items() if size} or {"": 1.0}
    most, least = (pick(sizes, key=sizes.__getitem__) for pick in (max, min))
    if sizes[most] > APART * sizes[least]:
        factor = three_significant_digits(sizes[most] / sizes[least])
        yield make_finding("weights-apart", [most, least], factor=factor)
    apart = {
        name: max(one, other) / min(one, other)
        for name, one, other in seen.sums
        if min(one, other) > 0
    }
    far = {name: ratio for name, ratio in apart.items() if ratio > 30}
    worst = max(far.values(), default=0.0)
    severity = RISK if worst > APART else FACT
    yield make_finding("branches-apart", far, severity, factor=three_significant_digits(worst))
    yield _output_growth_or_shrinkage_finding(subject)
    saturated = [name for name, largest in seen.attention if largest > 0.95]
    if saturated and len(saturated) >= len(seen.attention) / 2:
        yield make_finding("attention-saturated", saturated, largest=seen.attention[0][1])
    yield make_finding("result-lost", [name for _, name in seen.unused.values()])
    called = list(dict.fromkeys(c.name for c in subject.trace.calls if c.name in layers))
    if len(called) > 1 and not seen.is_curved and _is_deep_and_straight(subject, called):
        yield make_finding("no-activation", layers=len(layers))


def _is_deep_and_straight(subject: AuditSubject, layers: Sequence[str]) -> bool:
    """Return True if the first layer feeds another one, with normalizers at most between them.

    A nonlinearity that is not called as a function of torch is found by second differences,
    where there is no normalizer.
    """
    x = subject.x
    if x.is_floating_point() and not find_norms(subject):
        evaluated = subject.float64_copy_if_possible()
        step = make_different_input(evaluated.x) - evaluated.x
        ahead, here, behind = (
            evaluated.run(InputAndWeightOverrides(evaluated.x + k * step)).y for k in (1, 0, -1)
        )
        if subject.is_more_than_rounding(relative_max_change((ahead + behind) / 2, here)):
            return False
    module = deepcopy_with_rebound_closures(subject.module, share_parameters=True).eval()
    first, *others = (module.get_submodule(name) for name in layers)
    inputs: list[list[Tensor]] = []

    def keep_input(_: nn.Module, args: tuple) -> None:
        inputs[-1] += [v.clone() for v in list_tensors(args)]

    def change_output(_: nn.Module, args: tuple, output: Tensor) -> Tensor:
        return make_different_input(output) if len(inputs) > 1 else output

    for layer in others:
        layer.register_forward_pre_hook(keep_input)
    first.register_forward_hook(change_output)
    with torch.no_grad():
        for _ in range(2):
            inputs.append([])
            with restored_random_state():
                module(x.clone())
    return not all(map(torch.equal, *inputs))


def _output_growth_or_shrinkage_finding(subject: AuditSubject) -> Finding | None:
    """Signals that grow or shrink with depth."""
    kinds: dict[Any, list[tuple[str, float]]] = {}
    for name, (module_class, size) in record_operations(subject).sizes.items():
        kind = module_class, re.sub(r"\d+", "*", name)
        kinds.setdefault(kind, []).append((name, size))
    steep = {}
    for calls in kinds.values():
        (first, before), (last, after) = calls[0], calls[-1]
        if len(calls) >= DEEP and before > 0 and 0 < after < math.inf:
            ratio = after / before
            if max(ratio, 1 / ratio) > STEEP:
                steep[f"{first} to {last}"] = ratio
    worst = max(steep.values(), key=lambda ratio: abs(math.log(ratio)), default=1.0)
    change = "grows" if worst > 1 else "shrinks"
    factor = three_significant_digits(max(worst, 1 / worst))
    return make_finding("signal-steep", steep, change=change, factor=factor)


# What is the same where it should not be, and what no optimizer or checkpoint sees.


def check_registration_and_duplicates(subject: AuditSubject) -> Findings:
    """Find parameters that are not registered, parts that are one object, equal weights."""
    model = subject.given
    known = {id(p) for p in (*model.parameters(), *model.buffers())}
    unregistered = [
        name
        for owner_name, owner in model.named_modules()
        for key, value in vars(owner).items()
        if not key.startswith("_")
        for name in _unregistered_parameter_and_layer_names(
            f"{owner_name}.{key}".strip("."), value, known
        )
    ]
    parts = count_with_noun(len(unregistered), "part")
    yield make_finding("parameter-unregistered", unregistered, parts=parts)
    names: dict[int, list[str]] = {}
    for name, each in model.named_modules(remove_duplicate=False):
        if next(each.parameters(), None) is not None:
            names.setdefault(id(each), []).append(name)
    repeated = [same for same in names.values() if len(same) > 1]
    for same in repeated:
        if not any(_are_all_inside(same, others) for others in repeated):
            yield make_finding("module-repeated", same, names=len(same))
    equal = list(_later_equal_weight_names(model, subject.trainable))
    yield make_finding("weights-equal", equal, weights=count_with_noun(len(equal), "weight"))
    rows = [
        f"{owner}.{name}".strip(".")
        for owner, each in model.named_modules()
        if isinstance(each, nn.Linear | nn.RNNBase)
        for name, p in each.named_parameters(recurse=False)
        if p.dim() == 2 and min(p.shape) > 2 and bool((p == p[:1]).all()) and bool(p.any())
    ]
    yield make_finding("units-equal", rows)
    frozen = [name for name, is_trained in subject.trainable.items() if not is_trained]
    if len(frozen) < len(subject.trainable):
        parameters = f"{count_with_noun(len(frozen), 'parameter')} of {len(subject.trainable)}"
        yield make_finding("parameter-frozen", frozen, parameters=parameters)


def _are_all_inside(names: list[str], owner_names: list[str]) -> bool:
    """Return True if each of the modules ``names`` is inside one of the owners."""
    return all(any(name.startswith(f"{owner}.") for owner in owner_names) for name in names)


def _unregistered_parameter_and_layer_names(
    name: str, value: Any, known: set[int]
) -> list[str]:
    """Return the names of parameters and layers in an attribute that torch does not see."""
    if isinstance(value, nn.Module):
        trained = any(p.requires_grad for p in value.parameters())
        return [name] if trained and not known & {id(p) for p in value.parameters()} else []
    if isinstance(value, Tensor):
        # weight_norm keeps a tensor that it computes from registered parameters
        trained = value.requires_grad and value.is_floating_point()
        return [name] if trained and not known & _leaf_ids(value) else []
    values: Any = value if isinstance(value, list | tuple) else ()
    values = value.values() if isinstance(value, dict) else values
    return [
        n
        for i, v in enumerate(values)
        for n in _unregistered_parameter_and_layer_names(f"{name}.{i}", v, known)
    ]


def _leaf_ids(tensor: Tensor) -> set[int]:
    """Return the ids of the leaves with gradients from which a tensor is computed."""
    if tensor.grad_fn is None:
        return {id(tensor)}
    leaves, seen, waiting = set(), set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.add(id(variable))
        waiting.extend(earlier for earlier, _ in node.next_functions if earlier is not None)
    return leaves


def _later_equal_weight_names(model: nn.Module, trainable: dict[str, bool]) -> Iterator[str]:
    """Yield the names of weights with the same random numbers as an earlier one."""
    seen: dict[Any, Tensor] = {}
    layers = (*SUMMING, nn.RNNBase, nn.MultiheadAttention, nn.Embedding)
    owners = {name for name, each in model.named_modules() if isinstance(each, layers)}
    for name, parameter in model.named_parameters():
        p = parameter.detach()
        if name.rpartition(".")[0] not in owners or not trainable.get(name):
            continue
        # what is no draw (a range, zeros) has many equal numbers
        numbers = p.flatten()[:64]
        if p.dim() < 2 or p.numel() < 16 or len(numbers.unique()) < len(numbers) / 2:
            continue
        if float(F.cosine_similarity(p[1:].flatten(1), p[:-1].flatten(1)).mean().abs()) > 0.5:
            continue  # a table of sines, whose neighbours are alike
        key = p.shape, float(p.flatten()[0]), float(p.flatten()[-1])
        if key in seen and torch.equal(seen[key], p):
            yield name
        seen.setdefault(key, p)


# Training and evaluation: what is dropped, kept and remembered.

DRAWS = 64
"""Random states over which the mean of what is dropped is taken."""


def check_train_and_eval_modes(subject: AuditSubject) -> Findings:
    """Compare both modes of the module as it was given, with its dropout."""
    yield _unrepeatable_evaluation_finding(subject)
    yield from _dropout_findings(subject)
    yield from _running_statistics_bookkeeping_findings(subject)
    closed = [
        f"{name}.bias"
        for name, each in subject.module.named_modules()
        if isinstance(each, nn.LSTM | nn.GRU) and _has_gate_saturated_by_bias(each)
    ]
    yield make_finding("gate-saturated", closed)


def _unrepeatable_evaluation_finding(subject: AuditSubject) -> Finding | None:
    """An evaluation that is another the second time, or from another random state."""
    module = deepcopy_with_rebound_closures(subject.original, share_parameters=True).eval()

    def evaluate(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return subject.concatenate_scaled_outputs(module(subject.x.clone()))

    with torch.no_grad(), restored_random_state():
        first, other = evaluate(0), evaluate(1)
        if first.shape != other.shape or not bool(first.isfinite().all()):
            return None
        if torch.equal(first, other):
            return None
        again = evaluate(1)
    if not torch.equal(other, again):
        return make_finding(
            "state-kept", change=three_significant_digits(relative_max_change(again, other))
        )
    return make_finding(
        "random-in-evaluation",
        change=three_significant_digits(relative_max_change(other, first)),
    )


def _dropout_findings(subject: AuditSubject) -> Findings:
    dropped = {
        name: each.p
        for name, each in subject.original.named_modules()
        if isinstance(each, _DropoutNd) and each.p
    }
    most = [f"{name} (p = {p:g})" for name, p in dropped.items() if p >= 0.95]
    yield make_finding("dropout-of-all", most)
    input_makers = {
        call.name: maker for call, maker in subject.trace.calls_and_their_input_makers()
    }
    before = []
    for call in subject.first_calls:
        if isinstance(call.module, TorchNorm) and call.module.running_var is not None:
            maker = input_makers[call.name]
            while maker and isinstance(maker.module, SUMMING):
                maker = input_makers[maker.name]
            if maker and maker.name in dropped:
                before.append(f"{maker.name} (before {call.name})")
    *calls, whole = subject.trace.calls
    leaves = [call for call in calls if not any(call.module.children())]
    makers = {memory: call.name for call in leaves for memory in call.output_storages}
    # of several outputs some may not go into the loss
    is_one = subject.has_loss and len(whole.outputs) == 1
    of_output = whole.output_storages if is_one else ()
    made = [makers[memory] for memory in of_output if memory in makers]
    yield make_finding("dropout-before-batch-norm", before)
    yield make_finding("dropout-at-end", [name for name in made if name in dropped])
    yield make_finding("dropout-unscaled", list(_describe_unscaled_dropouts(subject)))


def _describe_unscaled_dropouts(subject: AuditSubject) -> Iterator[str]:
    """Yield the parts that drop something and do not keep its mean."""
    for call in subject.first_calls:
        module = call.module
        if (
            call.name not in {*subject.dropout, *subject.noise}
            or type(module).__module__.startswith("torch.nn.")  # which are right
            or any(module.children())
            or next(module.parameters(), None) is not None
            or not call.inputs
            or not call.inputs[0].is_floating_point()
        ):
            continue
        x = call.inputs[0][:, :4096] if call.inputs[0].dim() == 2 else call.inputs[0]
        drop = deepcopy_with_rebound_closures(subject.original.get_submodule(call.name))
        with torch.no_grad(), restored_random_state(0):
            plain = drop.eval()(x.clone())
            if not isinstance(plain, Tensor) or plain.shape != x.shape or not plain.any():
                continue
            drop.train()
            mean = sum(drop(x.clone()) for _ in range(DRAWS)) / DRAWS
        # the projection, as single numbers are noisy
        ratio = float((mean * plain).sum() / plain.square().sum())
        if not 0.67 < ratio < 1.5:
            yield f"{call.name} ({three_significant_digits(ratio)} times as large in training)"


def _running_statistics_bookkeeping_findings(subject: AuditSubject) -> Findings:
    """Running statistics that are not averages, not saved, or of more than one place."""
    last = [
        f"{name} (momentum {each.momentum:g})"
        for name, each in subject.module.named_modules()
        if isinstance(each, TorchNorm) and each.momentum is not None and each.momentum >= 0.9
    ]
    yield make_finding("momentum-large", last)
    batch = _observe_training_batch_effect(subject)
    if batch is None:
        return
    saved = {n for n, _ in batch.copy_after_batch.named_buffers()}
    unsaved = sorted(batch.changed_nonparameter_names - saved)
    if unsaved and not _is_restored_by_state_dict(subject, batch.copy_after_batch):
        yield make_finding("state-unsaved", unsaved)
    trained = {n.rpartition(".")[0] for n, p in subject.trainable.items() if p}
    stuck = [
        f"{name}.running_var".lstrip(".")
        for name in find_stuck_running_statistics(subject)
        if name in trained
    ]
    yield make_finding("running-statistics-stuck", stuck if subject.module.training else [])
    calls: dict[str, list[Tensor]] = {}
    for call in subject.trace.calls:
        if isinstance(call.module, TorchNorm) and call.module.running_var is not None:
            calls.setdefault(call.name, []).append(call.inputs[0])
    yield make_finding(
        "norm-of-several",
        [n for n, inputs in calls.items() if _batch_statistics_differ(inputs)],
    )


class TrainingBatchEffect(NamedTuple):
    """The effect of one batch in training mode on the tensors beside the parameters.

    Attributes:
        copy_after_batch: the copy that has seen it.
        nonparameter_names: those of all its tensors that are no parameters.
        changed_nonparameter_names: of those, the ones that it changes.
    """

    copy_after_batch: nn.Module
    nonparameter_names: list[str]
    changed_nonparameter_names: set[str]


def _observe_training_batch_effect(subject: AuditSubject) -> TrainingBatchEffect | None:
    """Return what a batch does, found out once; None where none can be evaluated."""
    if "training batch" not in subject.cache:
        module = deepcopy_with_rebound_closures(subject.module, share_parameters=True).train()
        subject.cache["training batch"] = None
        with torch.no_grad(), restored_random_state(), suppress(Exception):  # a single example
            before = dict(_clones_of_nonparameter_tensors(module))
            if before:
                module(subject.x.clone())
            after = dict(_clones_of_nonparameter_tensors(module))
            changed = {
                n for n, v in before.items() if n in after and not torch.equal(v, after[n])
            }
            subject.cache["training batch"] = TrainingBatchEffect(module, [*before], changed)
    return subject.cache["training batch"]


def find_stuck_running_statistics(subject: AuditSubject) -> list[str]:
    """Return the modules whose running statistics a batch in training mode does not change."""
    return [
        name for name, others in _unchanged_running_statistics(subject).items() if not others
    ]


def find_norms_with_other_statistics(subject: AuditSubject) -> list[str]:
    """Return the modules that leave running_var as it is, and change other tensors instead.

    Such are subclasses of torch's batch norm with buffers of their own.
    """
    return [name for name, others in _unchanged_running_statistics(subject).items() if others]


def _unchanged_running_statistics(subject: AuditSubject) -> dict[str, set[str]]:
    """Return the modules whose running_var a batch does not change, and what it changes there.

    A running_mean is not counted among the others: an update may forget running_var alone.
    """
    batch = _observe_training_batch_effect(subject)
    if batch is None:
        return {}
    changed: dict[str, set[str]] = {}
    for name in batch.changed_nonparameter_names:
        owner, _, tensor = name.rpartition(".")
        changed.setdefault(owner, set()).add(tensor)
    owners = (
        name.rpartition(".")[0]
        for name in batch.nonparameter_names
        if name.endswith("running_var")
    )
    return {
        owner: changed.get(owner, set()) - {"running_mean"}
        for owner in owners
        if "running_var" not in changed.get(owner, set())
    }


def _is_restored_by_state_dict(subject: AuditSubject, trained: nn.Module) -> bool:
    """Return True if the state of a trained copy makes another copy the same."""
    restored = deepcopy_with_rebound_closures(subject.module)  # whose numbers are replaced
    restored.load_state_dict(trained.state_dict())
    outputs = []
    for module in (trained, restored):
        with torch.no_grad(), restored_random_state(0):
            outputs.append(subject.concatenate_scaled_outputs(module.eval()(subject.x.clone())))
    return torch.equal(*outputs)


def _clones_of_nonparameter_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a module keeps beside its parameters, copied."""
    for owner_name, owner in module.named_modules():
        for key, value in {**owner._buffers, **vars(owner)}.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                yield f"{owner_name}.{key}".strip("."), value.detach().clone()


def _batch_statistics_differ(inputs: list[Tensor]) -> bool:
    """Return True if the batch statistics of two inputs are far apart."""
    if len(inputs) < 2 or len({v.shape[1] for v in inputs}) > 1:
        return False
    moments = [v.double().transpose(0, 1).flatten(1) for v in inputs]
    means = torch.stack([v.mean(1) for v in moments])
    deviations = torch.stack([v.std(1, correction=0) for v in moments]) + 1e-12
    shift = (means.amax(0) - means.amin(0)) / deviations.amin(0)
    ratio = deviations.amax(0) / deviations.amin(0)
    return float(shift.median()) > 1 or float(ratio.median()) > 2


def _has_gate_saturated_by_bias(rnn: nn.RNNBase) -> bool:
    """Return True if the median bias of a gate is beyond 10, where a sigmoid is 0 or 1."""
    if not rnn.bias:
        return False
    biases = [getattr(rnn, f"bias_{kind}_l0").detach() for kind in ("ih", "hh")]
    gates = (biases[0] + biases[1]).unflatten(0, (-1, rnn.hidden_size))
    return bool((gates.median(1).values.abs() > 10).any())


# Axes: channels that are taken for steps, and gains that are those of another convention.


def check_norm_axes_and_gains(subject: AuditSubject) -> Findings:
    """Find normalizers along the wrong axis for the layers beside them, and odd gains."""
    is_one_example = bool((subject.x == subject.x[:1]).all())
    by_channel: dict[int, str] = {}
    width, steps, over_time, zeros = [], [], [], []
    for call, maker in subject.trace.calls_and_their_input_makers():
        if any(call.module.children()) or not call.inputs or not call.outputs:
            continue
        a, module, memory = call.inputs[0], call.module, call.input_storages[0]
        by_last = isinstance(module, nn.LayerNorm | nn.RMSNorm) and is_known_norm(module)
        shape: Any = getattr(module, "normalized_shape", ()) if by_last else ()
        if len(shape) == 1 and maker and isinstance(maker.module, nn.Conv2d):
            is_image = a.dim() == 4 and maker.outputs[0].shape == a.shape
            width += [call.name] if is_image else []
        if by_last and a.dim() == 3 and maker and isinstance(maker.module, nn.Linear):
            # the last axis of a transposed tensor is not the one whose values lie in a row
            over_time += [call.name] if a.stride(1) < a.stride(2) else []
        if isinstance(module, TorchNorm | nn.GroupNorm) and a.dim() == 3:
            by_channel |= dict.fromkeys(call.output_storages, call.name)
        if isinstance(module, nn.Linear) and a.dim() == 3 and a.is_contiguous():
            steps += [by_channel[memory]] if memory in by_channel else []
        if isinstance(module, SUMMING) and a.dim() > 1 and a.is_floating_point():
            axis = a.dim() - 1 if isinstance(module, nn.Linear) else 1
            silent = (a == 0).movedim(axis, 0).flatten(1).all(1)
            # behind a ReLU they are dead units, which another check tells
            enough = a.numel() >= FEW_EXAMPLES * a.shape[axis] > 0 and not is_one_example
            if enough and bool((a < 0).any()) and 0.25 <= float(silent.double().mean()) < 1:
                zeros.append(f"{call.name} ({int(silent.sum())} of {len(silent)})")
    yield make_finding("norm-over-width", width)
    yield make_finding("norm-over-steps", steps)
    yield make_finding("norm-over-time", over_time)
    yield make_finding("channels-of-zeros", zeros)
    signs = [
        name
        for group in find_norms(subject)
        for call in group.first_calls
        for name, p in call.module.named_parameters(call.name, recurse=False)
        if group.found_properties.get(name.rpartition(".")[2], "").startswith("multiplies")
        and p.numel() >= 16
        and 0.25 < float((p < 0).double().mean()) < 0.75
    ]
    yield make_finding("gains-of-both-signs", signs)
