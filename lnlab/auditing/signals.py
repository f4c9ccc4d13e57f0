"""Checks of what gets through a module: inputs, gradients, logits, and both of its modes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase as TorchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from lnlab.analysis.activations import NONLINEARITIES, is_known_norm
from lnlab.analysis.magnitudes import relative_change, root_mean_square
from lnlab.analysis.module_copy import SUMMING, Replacement, SavedBuffers, deepcopy_module
from lnlab.analysis.random import normal
from lnlab.auditing.finding import CannotCheck, Finding, Severity, count, digits, make_finding
from lnlab.auditing.norms import find_norms
from lnlab.auditing.subject import (
    AuditSubject,
    list_tensors,
    memory_of_parameters,
    other_input,
    padding_rows,
    restored_random_state,
)

FAULT, RISK, FACT = Severity

FEW_CASES = 16
"""The values of a channel, of fewer of which nothing is said of all cases."""


class Operations(TorchFunctionMode):
    """Records what an evaluation and its loss do, while it is active.

    Attributes:
        sums: for sums of two tensors of one shape, the module and the sizes of both.
        attention: for each attention, the module, the mean largest weight and the keys.
        sizes: of each module the class and the size of its first output.
        lost: nonlinearities whose result nothing has read: the module and the name.
        curved: whether a nonlinearity, a maximum or a product of activations was called.
        logits: input and target of a cross-entropy.
        broadcast: the shapes of the operands of a loss that made a larger result.
        sums_to: the mean sum of the exponentials that a likelihood was given.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.sums: list[tuple[str, float, float]] = []
        self.attention: list[tuple[str, float, int]] = []
        self.sizes: dict[str, tuple[type, float]] = {}
        self.lost: dict[int, tuple[Tensor, str]] = {}
        self.curved, self.in_loss, self.broadcast, self.sums_to = False, False, "", 1.0
        self.logits: tuple[Tensor, Tensor] | None = None
        self._layer_scaled: list[Tensor] = []
        self._parameters = memory_of_parameters(module)
        self._stack = [""]
        for name, each in module.named_modules():
            each.register_forward_pre_hook(partial(self._enter, name))
            each.register_forward_hook(self._leave, always_call=True)

    def _enter(self, name: str, *_: object) -> None:
        self._stack.append(name)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        name, made = self._stack.pop(), list_tensors(output)[:1]
        self._read(output)
        if made and made[0].is_floating_point() and name not in self.sizes:
            with torch._C.DisableTorchFunction():
                self.sizes[name] = type(module), float(root_mean_square(made[0]))

    def _read(self, tree: Any) -> None:
        for tensor in list_tensors(tree):
            self.lost.pop(id(tensor), None)

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        result = func(*args, **kwargs or {})
        self._read((args, kwargs))
        name = getattr(func, "__name__", "").strip("_")
        operands = [v for v in args[:2] if isinstance(v, Tensor)]
        if self.in_loss:
            self._note_loss(name, operands, result)
        elif name in ("add", "iadd", "radd") and len(operands) == 2:
            one, other = operands
            alike = one.shape[-2:] == other.shape[-2:] and min(one.dim(), other.dim()) > 1
            # a mask has two values
            masks = any(v.flatten()[:1000].unique().numel() < 3 for v in (one, other))
            if alike and one.is_floating_point() and not masks:
                memory = {v.untyped_storage()._cdata for v in self._layer_scaled}
                known = any(v.untyped_storage()._cdata in memory for v in operands)
                if not known:
                    sizes = float(root_mean_square(one)), float(root_mean_square(other))
                    self.sums.append((self._stack[-1], *sizes))
        elif name in ("mul", "imul", "rmul") and len(operands) == 2:
            gains = [v for v in operands if self._is_vector_of_parameter(v)]
            if any(bool((v == v.flatten()[0]).all()) for v in gains):
                self._layer_scaled.append(result)  # one that starts small on purpose
            self.curved |= not any(isinstance(v, nn.Parameter) for v in operands)
        elif name == "softmax" and operands and result.dim() > 2:
            self._note_attention(result)
        elif name == "scaled_dot_product_attention":
            self._note_attention(_attention_weights(*args[:4], **kwargs or {}))
        if func in NONLINEARITIES and not self.in_loss and result is not args[0]:
            self.lost[id(result)] = result, self._stack[-1]
        self.curved |= func in NONLINEARITIES or any(
            word in name for word in ("softmax", "pool", "lstm", "gru", "rnn", "attention")
        )
        return result

    def _is_vector_of_parameter(self, v: Tensor) -> bool:
        memory = v.untyped_storage()._cdata
        return memory in self._parameters and v.numel() == max(v.shape, default=1)

    def _note_attention(self, weights: Tensor) -> None:
        with torch._C.DisableTorchFunction():
            keys = (weights > 0).sum(-1)
            rows = weights.amax(-1)[keys >= 4]
            if rows.numel():
                self.attention.append((self._stack[-1], float(rows.mean()), weights.shape[-1]))

    def _note_loss(self, name: str, operands: list[Tensor], result: Any) -> None:
        if name in ("cross_entropy", "nll_loss") and len(operands) == 2:
            if name == "cross_entropy" or self.logits is None:
                self.logits = operands[0].detach(), operands[1].detach()
            if name == "nll_loss":
                axis = 1 if operands[0].dim() > 1 else 0
                self.sums_to = float(operands[0].double().logsumexp(axis).exp().mean())
        elif name in ("sub", "rsub", "mse_loss", "l1_loss", "mul") and len(operands) == 2:
            one, other = operands
            same_size = one.numel() == other.numel() > 1 and one.shape != other.shape
            whole = torch.broadcast_shapes(one.shape, other.shape).numel()
            if same_size and whole > one.numel():
                self.broadcast = f"{tuple(one.shape)} and {tuple(other.shape)}"


def _attention_weights(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, **options: Any
) -> Tensor:
    """Return the weights of the first case of torch's fused attention."""
    with torch._C.DisableTorchFunction():
        q, k = q[:1].detach().float(), k[:1].detach().float()
        if q.shape[-3] != k.shape[-3]:
            k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
        logits = q @ k.transpose(-1, -2) * (options.get("scale") or q.shape[-1] ** -0.5)
        if options.get("is_causal"):
            logits = logits.masked_fill(torch.ones_like(logits).triu(1) > 0, -math.inf)
        if attn_mask is not None:
            mask = attn_mask[:1] if attn_mask.dim() == 4 else attn_mask
            is_bool = mask.dtype == torch.bool
            logits = logits.masked_fill(~mask, -math.inf) if is_bool else logits + mask
        return logits.softmax(-1)


def operations(subject: AuditSubject) -> Operations:
    """Return what one evaluation in the module's own precision and mode does."""
    if "operations" not in subject.cache:
        module = deepcopy_module(subject.module, share=True).train(subject.trains)
        seen = Operations(module)
        with torch.no_grad(), restored_random_state(), seen:
            output = module(subject.x.clone())
            seen._read(output)
            if subject.has_loss:
                seen.in_loss = True
                subject.loss(output, subject.y)
        subject.cache["operations"] = seen
    return subject.cache["operations"]


# The logits of a cross-entropy, and what else the loss receives.

LOW = 0.02
"""A loss that cannot go below this, whatever the weights, is worth a finding."""


def check_loss(subject: AuditSubject) -> list[Finding]:
    """Look at what the loss receives: its size, its range, its shape, and the answers in x."""
    if not subject.has_loss:
        raise CannotCheck("no loss was given.")
    seen = operations(subject)
    findings = []
    if seen.broadcast:
        message = f"the loss takes tensors of shape {seen.broadcast} apart"
        findings.append(make_finding("loss-broadcasts", [], message))
    if abs(seen.sums_to - 1) > 0.01:
        message = f"the probabilities of all classes sum to {digits(seen.sums_to)}, not 1"
        findings.append(make_finding("loss-of-raw-logits", [], message))
    if seen.logits is not None:
        findings += _logit_findings(subject, *seen.logits)
    findings += _leaks(subject)
    return findings


def _logit_findings(subject: AuditSubject, logits: Tensor, y: Tensor) -> Iterator[Finding]:
    axis = 1 if logits.dim() > 1 else 0
    classes = logits.shape[axis]
    if classes < 2 or not bool(logits.isfinite().all()):
        return
    loss = float(F.cross_entropy(logits.float(), y))
    chance = math.log(classes)
    subject.show([{"loss": loss, "of a guess": chance, "classes": classes}])
    if loss > 2 * chance + 1:
        message = f"the loss is {digits(loss)}, that of a guess ln {classes} = {digits(chance)}"
        yield make_finding("over-confident", [], message)
    low = logits == logits.amin()
    if float(logits.amin()) == 0 and 0.1 < float(low.double().mean()) < 1:
        share = float(low.double().mean())
        message = f"{share:.0%} of the logits are exactly 0 and none is negative"
        yield make_finding("logits-clipped", [], message)
    output = [v for v in list_tensors(subject.output) if v.shape == logits.shape]
    if len(output) == 1 and not _ends_in_linear(subject):
        floor = _lowest_loss(subject, axis)
        if floor > LOW:
            message = f"with weights 1,000 times as large the loss stays above {digits(floor)}"
            yield make_finding("logits-bounded", [], message)


def _ends_in_linear(subject: AuditSubject) -> bool:
    """Return True if the outputs are those of a linear layer, which grow with its weight."""
    *calls, whole = subject.trace.calls
    return any(
        isinstance(call.module, SUMMING)
        and "weight" in call.module._parameters
        and type(call.module).forward.__module__.startswith(("torch.nn.", "lnlab.nn."))
        for call in calls
        if not set(call.output_memory).isdisjoint(whole.output_memory)
    )


def _lowest_loss(subject: AuditSubject, axis: int) -> float:
    """Return the loss of the widest logits that large weights make; 0 where they grow."""
    evaluated, ranges = subject.copy(), []
    for factor in (100, 1000):
        larger = {n: factor * p.data for n, p in evaluated.parameters.items()}
        y = evaluated.run(Replacement(evaluated.x, larger)).y
        if y.dim() <= axis:
            return 0.0
        ranges.append(float((y.amax(axis) - y.amin(axis)).max()))
    if not 0 < ranges[1] < 1.2 * ranges[0]:
        return 0.0
    return math.log1p((y.shape[axis] - 1) * math.exp(-ranges[1]))


def _leaks(subject: AuditSubject) -> Iterator[Finding]:
    """An output that sees the token which it is to tell, of inputs that are one step behind."""
    x, y = subject.x, subject.y
    if not isinstance(y, Tensor) or y.is_floating_point() or y.shape != x.shape or x.dim() != 2:
        return
    steps = x.shape[1]
    if steps < 3 or not torch.equal(y[:, :-1], x[:, 1:]):
        return
    evaluated, t = subject.copy("running"), steps // 2
    later = x.clone()
    later[:, t:] = x[:, t:].flip(0) if len(x) > 1 else x[:, t:].flip(1)
    before, after = subject.seen("running").y, evaluated.run(Replacement(later)).y
    axes = [i for i, n in enumerate(before.shape) if i and n == steps]
    if len(axes) == 1:
        change = relative_change(*(v.narrow(axes[0], 0, t) for v in (after, before)))
        if subject.has_moved(change):
            message = f"outputs of earlier steps change by {digits(change)} with later tokens"
            yield make_finding("answer-leaks", [], message)


# Inputs that nothing depends on, and gradients that are not those of the function.

IGNORED = 0.1
"""A share of the input above this that nothing depends on is worth a finding."""

BLOCKS = 8
"""Parts of a sequence that are replaced, one after the other."""


def check_ignored_inputs(subject: AuditSubject) -> list[Finding]:
    """Find parts of the input that no output depends on, and padding that is not left out."""
    findings = []
    share = _ignored(subject)
    subject.show([{"of the input without effect": share}])
    if share == 1:
        findings.append(make_finding("input-ignored", [], "no output depends on it", FAULT))
    elif share > IGNORED:
        message = f"nothing that is returned depends on {share:.0%} of it"
        findings.append(make_finding("input-ignored", [], message))
    return [*findings, *_padding(subject)]


def _ignored(subject: AuditSubject) -> float:
    """Return the share of the input, beside the axis of cases, that has no effect."""
    evaluated, y = subject.copy(), subject.seen().y
    if subject.x.is_floating_point():
        if "" not in subject.gradients:
            raise CannotCheck("it takes no input that requires a gradient.")
        flat = subject.gradients[""] == 0
        suspects = flat.all(0) if flat.dim() > 1 else flat
        if not bool(suspects.any()):
            return 0.0
        other = torch.where(suspects, other_input(evaluated.x), evaluated.x)
        moved = subject.has_moved(relative_change(evaluated.run(Replacement(other)).y, y))
        return 0.0 if moved else float(suspects.double().mean())
    if subject.x.dim() < 2 or len(subject.x) < 2:
        raise CannotCheck("the input has no steps.")
    steps, cases = subject.x.shape[1], len(subject.x)
    rolled = subject.x.roll(1, 0)
    suspects = parts = torch.arange(steps).chunk(BLOCKS)
    if y.dim() and len(y) == cases:
        # a part in each case, in one evaluation: most have an effect on their case
        suspects = []
        for chosen in [parts[i : i + cases] for i in range(0, len(parts), cases)]:
            other = subject.x.clone()
            for case, part in enumerate(chosen):
                other[case, part] = rolled[case, part]
            changed = evaluated.run(Replacement(other)).y
            suspects += [
                part
                for case, part in enumerate(chosen)
                if not subject.has_moved(relative_change(changed[case], y[case]))
            ]
    unseen = 0
    for part in suspects:
        other = subject.x.clone()
        other[:, part] = rolled[:, part]
        changed = evaluated.run(Replacement(other)).y
        if not torch.equal(other, subject.x) and not subject.has_moved(
            relative_change(changed, y)
        ):
            unseen += len(part)
    return unseen / steps


def _padding(subject: AuditSubject) -> Iterator[Finding]:
    """Sequences that end in zeros: whether more of them change what comes out, or go into
    statistics over cases."""
    x = subject.x
    if not x.is_floating_point() or x.dim() != 3:
        return
    padded = (x == 0).all(-1)
    share = float(padded.double().mean())
    if share < 0.05 or not bool(padded[:, -1].any()) or bool(padded[:, 0].any()):
        return
    evaluated = subject.copy("running")
    longer = torch.cat([evaluated.x, torch.zeros_like(evaluated.x[:, :4])], 1)
    try:
        y, more = subject.seen("running").y, evaluated.run(Replacement(longer)).y
    except ValueError:  # the module takes one length
        return
    if y.shape == more.shape and subject.has_moved(relative_change(more, y)):
        message = f"{share:.0%} of the steps are zeros at the end, and more of them change it"
        yield make_finding("padding-read", [], message)
    for call in subject.first_calls:
        if isinstance(call.module, TorchNorm) and call.inputs and call.inputs[0].dim() == 3:
            zeros = float((call.inputs[0] == 0).all(1).double().mean())
            if zeros > 0.05:
                message = f"{zeros:.0%} of the steps that it averages over are zeros"
                yield make_finding("statistics-of-padding", [call.name], message)


WRONG = 0.03
"""A relative difference above this between a gradient and finite differences is one."""


def check_wrong_derivative(subject: AuditSubject) -> list[Finding]:
    """Compare the gradient along a random direction with finite differences of the loss."""
    # at a branch of zeros in front of a ReLU there is no derivative: half of all kinks are met
    drawn = subject.without_zeros
    objective = drawn.objective
    w = objective.start
    subject.require_wide()
    if w.dtype != torch.float64 or subject.precision != torch.float64:
        why = "is large" if w.dtype != torch.float64 else "computes in a lower one inside"
        raise CannotCheck(f"finite differences need float64, and the module {why}.")
    rows = []
    for draw in range(2):
        v = normal(13, draw, len(w)).to(w)
        for part in objective.slices().values():
            v[part] *= float(root_mean_square(w[part])) or 1.0
        for name, row in padding_rows(subject.module).items():
            if name in objective.slices():
                units = subject.module.get_parameter(name).shape[1]
                start = objective.slices()[name].start + row * units
                v[start : start + units] = 0
        step = 1e-6
        above, below = (objective.value(w + sign * step * v) for sign in (1, -1))
        rows.append(
            {"gradient": float(drawn.gradient @ v), "differences": (above - below) / 2 / step}
        )
    subject.show(rows)
    wrong = []
    for row in rows:
        size = max(abs(row["gradient"]), abs(row["differences"]), 1e-6)
        wrong.append(abs(row["gradient"] - row["differences"]) / size)
    if min(wrong) <= WRONG:
        return []
    message = f"along a random direction the gradient is off by {min(wrong):.0%}"
    return [make_finding("gradient-differs", [], message)]


# The scale of weights and branches, and attention that has decided.

APART = 1000.0
"""Sizes further apart than this."""


def check_unequal_scales(subject: AuditSubject) -> list[Finding]:
    """Compare the sizes of weights, of the operands of sums, and of attention logits."""
    seen = operations(subject)
    findings = []
    sizes = {}
    for name, each in subject.module.named_modules():
        if isinstance(each, SUMMING) and isinstance(
            weight := getattr(each, "weight", None), Tensor
        ):
            inputs = weight.numel() / max(weight.shape[0], 1)
            if size := float(root_mean_square(weight.detach())) * inputs**0.5:
                sizes[f"{name}.weight"] = size
    if sizes:
        least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        if sizes[most] > APART * sizes[least]:
            message = f"rows are {digits(sizes[most] / sizes[least])} times as long in one"
            findings.append(make_finding("weights-apart", [most, least], message))
    apart = {
        name: max(one, other) / min(one, other)
        for name, one, other in seen.sums
        if min(one, other) > 0
    }
    far = {name: ratio for name, ratio in apart.items() if ratio > 30}
    if far:
        worst = max(far.values())
        message = f"one of two branches that are added is up to {digits(worst)} times the other"
        severity = RISK if worst > APART else FACT
        findings.append(make_finding("branches-apart", list(far), message, severity))
    findings += _steep_signals(subject)
    decided = [name for name, top, _ in seen.attention if top > 0.95]
    if decided and len(decided) >= len(seen.attention) / 2:
        message = f"the largest attention weight is {seen.attention[0][1]:.2f} on average"
        findings.append(make_finding("attention-saturated", decided, message))
    if seen.lost:
        where = [name for _, name in seen.lost.values()]
        findings.append(make_finding("result-lost", where, "the result is not used"))
    layers = [m for m in subject.module.modules() if isinstance(m, SUMMING)]
    if not seen.curved and len(layers) > 1:
        message = f"{len(layers)} layers and no activation function between them"
        findings.append(make_finding("no-activation", [], message))
    return findings


STEEP, DEEP = 300.0, 6
"""Outputs of at least so many layers of one class whose size changes by this factor."""


def _steep_signals(subject: AuditSubject) -> Iterator[Finding]:
    """Signals that grow or shrink with depth."""
    kinds: dict[Any, list[tuple[str, float]]] = {}
    for name, (module_class, size) in operations(subject).sizes.items():
        kind = module_class, re.sub(r"\d+", "*", name)
        kinds.setdefault(kind, []).append((name, size))
    steep = {}
    for calls in kinds.values():
        (first, before), (last, after) = calls[0], calls[-1]
        if len(calls) >= DEEP and before > 0 and after > 0 and math.isfinite(after):
            ratio = after / before
            if max(ratio, 1 / ratio) > STEEP:
                steep[f"{first} to {last}"] = ratio
    if steep:
        worst = max(steep.values(), key=lambda ratio: abs(math.log(ratio)))
        change = "grows" if worst > 1 else "shrinks"
        factor = digits(max(worst, 1 / worst))
        message = f"the output of layers of one class {change} by a factor of {factor}"
        yield make_finding("signal-steep", list(steep), message)


# What is the same where it should not be, and what no optimizer or checkpoint sees.


def check_registration(subject: AuditSubject) -> list[Finding]:
    """Find parameters that are not registered, parts that are one object, equal weights."""
    model = subject.given
    known = {id(p) for p in (*model.parameters(), *model.buffers())}
    modules = {id(m) for m in model.modules()}
    lost = [
        name
        for owner_name, owner in model.named_modules()
        for key, value in vars(owner).items()
        if not key.startswith("_")
        for name in _unregistered(f"{owner_name}.{key}".strip("."), value, known, modules)
    ]
    findings = []
    if lost:
        message = f"{count(len(lost), 'part')} that can be trained and that no optimizer sees"
        findings.append(make_finding("parameter-unregistered", lost, message))
    names: dict[int, list[str]] = {}
    for name, each in model.named_modules(remove_duplicate=False):
        if next(each.parameters(), None) is not None:
            names.setdefault(id(each), []).append(name)
    for same in names.values():
        inner = any(_inside(same, others) for others in names.values())
        if len(same) > 1 and not inner:
            message = f"{len(same)} names for one object"
            findings.append(make_finding("module-repeated", same, message))
    equal = list(_duplicate_weights(model, subject.trainable))
    if equal:
        message = f"{count(len(equal), 'weight')} with the same random numbers as another"
        findings.append(make_finding("weights-equal", equal, message))
    rows = [
        f"{owner}.{name}".strip(".")
        for owner, each in model.named_modules()
        if isinstance(each, nn.Linear | nn.RNNBase)
        for name, p in each.named_parameters(recurse=False)
        if p.dim() == 2 and min(p.shape) > 2 and bool((p == p[:1]).all()) and bool(p.any())
    ]
    if rows:
        findings.append(make_finding("units-equal", rows, "all rows of a weight are equal"))
    frozen = [name for name, p in subject.trainable.items() if not p]
    if frozen and len(frozen) < len(subject.trainable):
        message = f"{count(len(frozen), 'parameter')} of {len(subject.trainable)}: no gradient"
        findings.append(make_finding("parameter-frozen", frozen, message))
    return findings


def _inside(same: list[str], others: list[str]) -> bool:
    """Return True if the parts are repeated because what holds them is."""
    return (
        len(others) > 1
        and others != same
        and all(any(name.startswith(f"{other}.") for other in others) for name in same)
    )


def _unregistered(name: str, value: Any, known: set[int], modules: set[int]) -> list[str]:
    """Return the names of parameters and layers in an attribute that torch does not see."""
    if isinstance(value, nn.Module):
        own = [p for p in value.parameters() if p.requires_grad]
        return [name] if own and not known & {id(p) for p in value.parameters()} else []
    if isinstance(value, Tensor):
        trained = value.requires_grad and value.is_floating_point()
        return [name] if trained and id(value) not in known else []
    values: Any = value if isinstance(value, list | tuple) else ()
    values = value.values() if isinstance(value, dict) else values
    return [
        n for i, v in enumerate(values) for n in _unregistered(f"{name}.{i}", v, known, modules)
    ]


def _duplicate_weights(model: nn.Module, trainable: dict[str, bool]) -> Iterator[str]:
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


def check_train_and_eval_modes(subject: AuditSubject) -> list[Finding]:
    """Compare both modes of the module as it was given, with its dropout."""
    findings = [
        *_unrepeatable_evaluation(subject),
        *_misused_dropout(subject),
        *_misused_running_statistics(subject),
    ]
    closed = [
        f"{name}.bias"
        for name, each in subject.module.named_modules()
        if isinstance(each, nn.LSTM | nn.GRU) and _closed_gates(each)
    ]
    if closed:
        message = "the biases of a gate hold it shut or open, whatever comes in"
        findings.append(make_finding("gate-saturated", closed, message))
    return findings


def _unrepeatable_evaluation(subject: AuditSubject) -> Iterator[Finding]:
    """An evaluation that is another the second time, or from another random state."""
    module = deepcopy_module(subject.original, share=True).eval()

    def evaluate(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return subject.read(module(subject.x.clone()))

    with torch.no_grad(), restored_random_state():
        first, other = evaluate(0), evaluate(1)
        if first.shape != other.shape or not bool(first.isfinite().all()):
            return
        if torch.equal(first, other):
            return
        again = evaluate(1)
    if not torch.equal(other, again):
        change = digits(relative_change(again, other))
        message = f"the second evaluation of one input differs by {change}"
        yield make_finding("state-kept", [], message)
    else:
        change = digits(relative_change(other, first))
        message = f"two evaluations of one input differ by {change}"
        yield make_finding("random-in-evaluation", [], message)


def _misused_dropout(subject: AuditSubject) -> Iterator[Finding]:
    modules = dict(subject.original.named_modules())
    dropped = {
        name: each.p
        for name, each in modules.items()
        if isinstance(each, _DropoutNd) and each.p
    }
    most = [f"{name} (p = {p:g})" for name, p in dropped.items() if p >= 0.95]
    if most:
        yield make_finding("dropout-of-all", most, "nothing, or next to nothing, is kept")
    makers: dict[int, str] = {}
    norms = {n for group in find_norms(subject) for n in group.names}
    before, at_end = [], []
    for call in subject.trace.calls:
        if call.name in norms and isinstance(call.module, TorchNorm) and call.input_memory:
            drop = makers.get(call.input_memory[0])
            if drop is not None and call.module.running_var is not None:
                before.append(f"{drop} (before {call.name})")
        if call.name == "" and len(call.outputs) == 1:  # others may not go into the loss
            at_end += [makers[m] for m in call.output_memory if m in makers]
        elif call.name in dropped:
            makers |= dict.fromkeys(call.output_memory, call.name)
        elif not any(call.module.children()):
            for memory in call.output_memory:
                makers.pop(memory, None)
    if before:
        message = "the variance is that of what is dropped, in training alone"
        yield make_finding("dropout-before-batch-norm", before, message)
    if at_end and subject.has_loss:
        message = "what is returned has been dropped"
        yield make_finding("dropout-at-end", at_end, message)
    wrong = list(_dropouts_that_change_the_mean(subject))
    if wrong:
        message = "the mean in training is not what evaluation returns"
        yield make_finding("dropout-unscaled", wrong, message)


def _dropouts_that_change_the_mean(subject: AuditSubject) -> Iterator[str]:
    """Yield the parts that drop something and do not keep its mean."""
    copy = deepcopy_module(subject.original, share=True)
    parts = [
        (name, module)
        for name, module in copy.named_modules()
        if name in {*subject.dropout, *subject.noise}
        and not any(module.children())
        and not type(module).__module__.startswith("torch.nn.")  # which are right
    ]
    if not parts:
        return
    inputs: dict[str, Tensor] = {}

    def keep(name: str, module: nn.Module, args: tuple) -> None:
        if args and isinstance(args[0], Tensor) and args[0].is_floating_point():
            inputs.setdefault(name, args[0].detach().clone())

    handles = [m.register_forward_pre_hook(partial(keep, n)) for n, m in parts]
    with torch.no_grad(), restored_random_state(), SavedBuffers(copy):
        copy.eval()(subject.x.clone())
        for handle in handles:
            handle.remove()
        for name, module in parts:
            if name not in inputs or next(module.parameters(), None) is not None:
                continue
            x = inputs[name][:, :4096] if inputs[name].dim() == 2 else inputs[name]
            plain = module.eval()(x.clone())
            if not isinstance(plain, Tensor) or plain.shape != x.shape or not plain.any():
                continue
            torch.manual_seed(0)
            module.train()
            mean = sum(module(x.clone()) for _ in range(DRAWS)) / DRAWS
            # the projection, as single numbers are noisy
            ratio = float((mean * plain).sum() / plain.square().sum())
            if not 0.67 < ratio < 1.5:
                yield f"{name} ({digits(ratio)} times as large in training)"


def _misused_running_statistics(subject: AuditSubject) -> Iterator[Finding]:
    """Running statistics that are not averages, not saved, or of more than one place."""
    last = [
        f"{name} (momentum {each.momentum:g})"
        for name, each in subject.module.named_modules()
        if isinstance(each, TorchNorm) and each.momentum is not None and each.momentum > 0.9
    ]
    if last:
        message = "running statistics are those of the last batch"
        yield make_finding("momentum-large", last, message)
    module = deepcopy_module(subject.module, share=True).train()
    with torch.no_grad(), restored_random_state():
        before = dict(_statistics(module))
        saved = {n for n, _ in module.named_buffers()}
        try:
            if before:
                module(subject.x.clone())
        except Exception:  # a single case, say
            return
        after = dict(_statistics(module))
    moved = {n for n, v in before.items() if n in after and not torch.equal(v, after[n])}
    unsaved = sorted(moved - saved)
    if unsaved and _is_lost(subject, module):
        message = "they change in training and no checkpoint has them"
        yield make_finding("state-unsaved", unsaved, message)
    trained = {n.rpartition(".")[0] for n, p in subject.trainable.items() if p}
    stuck = [
        n
        for n in before
        if n.endswith("running_var") and n not in moved and n.rpartition(".")[0] in trained
    ]
    if stuck and subject.module.training:
        message = "a batch in training mode does not change them"
        yield make_finding("running-statistics-stuck", stuck, message)
    calls: dict[str, list[Tensor]] = {}
    for call in subject.trace.calls:
        if isinstance(call.module, TorchNorm) and call.module.running_var is not None:
            calls.setdefault(call.name, []).append(call.inputs[0])
    shared = [name for name, inputs in calls.items() if _differ(inputs)]
    if shared:
        message = "it is called several times, on inputs of different statistics"
        yield make_finding("norm-of-several", shared, message)


def _is_lost(subject: AuditSubject, trained: nn.Module) -> bool:
    """Return True if the state of a trained copy does not make another copy the same."""
    restored = deepcopy_module(subject.module)  # whose numbers are replaced
    restored.load_state_dict(trained.state_dict())
    with torch.no_grad():
        outputs = []
        for module in (trained, restored):
            with restored_random_state(0):
                outputs.append(subject.read(module.eval()(subject.x.clone())))
    return not torch.equal(*outputs)


def _statistics(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a module keeps beside its parameters, copied."""
    for owner_name, owner in module.named_modules():
        for key, value in {**owner._buffers, **vars(owner)}.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                yield f"{owner_name}.{key}".strip("."), value.detach().clone()


def _differ(inputs: list[Tensor]) -> bool:
    """Return True if the batch statistics of two inputs are far apart."""
    if len(inputs) < 2 or len({v.shape[1] for v in inputs}) > 1:
        return False
    moments = [v.double().transpose(0, 1).flatten(1) for v in inputs]
    means = torch.stack([v.mean(1) for v in moments])
    deviations = torch.stack([v.std(1, correction=0) for v in moments]) + 1e-12
    shift = (means.amax(0) - means.amin(0)) / deviations.amin(0)
    ratio = deviations.amax(0) / deviations.amin(0)
    return float(shift.median()) > 1 or float(ratio.median()) > 2


def _closed_gates(rnn: nn.RNNBase) -> bool:
    """Return True if the median bias of a gate is beyond 10, where a sigmoid is 0 or 1."""
    if not rnn.bias:
        return False
    biases = [getattr(rnn, f"bias_{kind}_l0").detach() for kind in ("ih", "hh")]
    gates = (biases[0] + biases[1]).unflatten(0, (-1, rnn.hidden_size))
    return bool((gates.median(1).values.abs() > 10).any())


# Axes: channels that are taken for steps, and gains that are those of another convention.


def check_layout(subject: AuditSubject) -> list[Finding]:
    """Find normalizers along the wrong axis for the layers beside them, and odd gains."""
    is_one_case = bool((subject.x == subject.x[:1]).all())
    makers: dict[int, tuple[nn.Module, torch.Size]] = {}
    width, steps, zeros = [], [], []
    normed: dict[int, str] = {}
    for call in subject.trace.calls:
        if any(call.module.children()) or not call.inputs or not call.outputs:
            continue
        a, module = call.inputs[0], call.module
        maker = makers.get(call.input_memory[0])
        last = isinstance(module, nn.LayerNorm | nn.RMSNorm) and is_known_norm(module)
        by_last = last and a.dim() == 4
        of_pixels = maker and isinstance(maker[0], nn.Conv2d) and maker[1] == a.shape
        if by_last and of_pixels and len(module.normalized_shape) == 1:
            width.append(call.name)
        by_channel = isinstance(module, TorchNorm | nn.GroupNorm)
        if by_channel and a.dim() == 3:
            normed |= dict.fromkeys(call.output_memory, call.name)
        norm = normed.get(call.input_memory[0])
        if isinstance(module, nn.Linear) and norm and a.dim() == 3 and a.is_contiguous():
            steps.append(norm)
        if isinstance(module, SUMMING) and a.dim() > 1 and a.is_floating_point():
            axis = a.dim() - 1 if isinstance(module, nn.Linear) else 1
            silent = (a == 0).movedim(axis, 0).flatten(1).all(1)
            # behind a ReLU they are dead units, which another check tells
            enough = a.numel() // a.shape[axis] >= FEW_CASES and not is_one_case
            enough &= bool((a < 0).any())
            if enough and 0.25 <= float(silent.double().mean()) < 1:
                zeros.append(f"{call.name} ({int(silent.sum())} of {len(silent)})")
        makers |= dict.fromkeys(call.output_memory, (module, call.outputs[0].shape))
    findings = []
    if width:
        message = "it normalizes each row of pixels of what a convolution made"
        findings.append(make_finding("norm-over-width", width, message))
    if steps:
        message = "its channels are axis 1, those of the layer behind it the last axis"
        findings.append(make_finding("norm-over-steps", steps, message))
    if zeros:
        message = "channels of the input of a layer are 0 in all cases"
        findings.append(make_finding("channels-of-zeros", zeros, message))
    signs = [
        name
        for group in find_norms(subject)
        for call in group.calls
        for name, p in call.module.named_parameters(call.name, recurse=False)
        if group.properties.get(name.rpartition(".")[2], "").startswith("multiplies")
        and p.numel() >= 16
        and 0.25 < float((p < 0).double().mean()) < 0.75
    ]
    if signs:
        message = "about half of the gains are negative"
        findings.append(make_finding("gains-of-both-signs", signs, message))
    return findings
