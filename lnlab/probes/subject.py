"""A user's module, evaluated again and again without leaving a trace."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parameter import UninitializedParameter

from lnlab.nn import Conv2d, Linear
from lnlab.nn.table1 import Statistics
from lnlab.probes.inside import NORMALIZERS, Inside, Site
from lnlab.probes.refusals import refuse_no_function, refuse_no_tensor
from lnlab.probes.returned import first_tensor
from lnlab.probes.untouched import Buffers, in_one_pass, remember, taking_statistics, untouched

Read = Callable[[Any], Tensor]
"""A reader: from what a module returns to the tensor that is judged."""

GIVEN = "the tensor that the module is called on (a module around it can hold others)"
READER = "a function from what the module returns to the tensor that is judged"

GAINS = ("weight_g", "original0")
"""Parameters of torch's weight_norm that are gains, though they are matrices (H, 1)."""

SUMMING = (nn.Linear, _ConvNd, Linear, Conv2d)
"""Layers that make summed inputs, torch's and ours."""

EPS = ("eps", "epsilon", "variance_epsilon")
"""The names that modules have for it."""
NO_EPS = 1e-300
"""Torch's BatchNorm refuses 0 in training; no variance that float64 can hold notices this."""


@dataclass(frozen=True)
class Weight:
    """A matrix or kernel of a module.

    Attributes:
        name: what the parameter is called, "0.weight".
        owner: what the module is called that has it, "0".
        unit_axis: the axis along which its units stand.
        summed: whether its owner makes summed inputs when it is called.
    """

    name: str
    owner: str
    unit_axis: int
    summed: bool


def weights_of(module: nn.Module, names: list[str] | None = None) -> dict[str, Weight]:
    """The weights of ``module`` by name; the given ``names`` alone, where there are any.

    Found are all parameters of two axes or more but those of normalizers and embeddings.

    Raises:
        ValueError: for a name that is none, and for parameters not made yet.
    """
    found = {}
    first_names = {id(p): name for name, p in module.named_parameters()}
    for owner_name, owner in module.named_modules():
        for name, p in owner.named_parameters(recurse=False):
            path = first_names[id(p)]  # of a parameter that is shared by several parts
            if isinstance(p, UninitializedParameter):
                raise ValueError(f"{path} has no shape yet: call the module once first.")
            asked = names is not None and path in names
            gain = isinstance(owner, (*NORMALIZERS, nn.Embedding)) or name in GAINS
            if path not in found and p.dim() >= 2 and (asked or (names is None and not gain)):
                axis = 1 if isinstance(owner, _ConvTransposeNd) else 0
                summed = isinstance(owner, SUMMING)
                found[path] = Weight(path, owner_name, axis, summed)
    if missing := set(names or ()) - set(found):
        choice = ", ".join(weights_of(module)) or "none"
        raise ValueError(f"no weight is called {sorted(missing)}: there are {choice}.")
    return found


class Trial(NamedTuple):
    """A change: what is put in the place of what the module has.

    Attributes:
        x: its input.
        weights: parameters by name.
        shift: the owner of a weight, and what is done to the summed inputs it makes.
    """

    x: Tensor
    weights: Mapping[str, Tensor] = {}
    shift: tuple[str, Callable[[Tensor], Tensor]] | None = None


class Seen(NamedTuple):
    """The outputs of one evaluation, what was seen inside, and which modules were called."""

    y: Tensor
    inside: list[Site]
    called: set[str]


class Subject:
    """A copy of a module in one precision, with statistics over cases from one place.

    Each evaluation starts from the same buffers, and from the random state at hand, which it
    puts back. Hooks that are not torch's own are not copied.

    Args:
        module: what is copied; it is not touched.
        x: its input.
        dtype: the precision of the copy; None as it is.
        statistics: where those over cases come from. BATCH is training mode.
        read: what is judged.

    Raises:
        TypeError: where module, x or read are none.
        ValueError: where the module cannot be copied.
    """

    def __init__(
        self,
        module: nn.Module,
        x: Tensor,
        *,
        dtype: torch.dtype | None = None,
        statistics: Statistics = Statistics.FROZEN,
        read: Read = first_tensor,
    ) -> None:
        refuse_no_tensor("x", x, GIVEN)
        refuse_no_function("read", read, READER)
        self.statistics, self.read = statistics, read
        self.module = untouched(module)
        self.x = x.detach().clone()
        if dtype is not None:
            self.module.to(dtype)
            self.x = self.x.to(dtype) if x.is_floating_point() else self.x
        self.module.train(statistics is Statistics.BATCH)
        self._buffers = Buffers(self.module)
        self._devices = [x.device] if x.is_cuda else []
        self.parameters = dict(self.module.named_parameters())
        self._inside = Inside(self.module)
        self._one_pass: bool | None = None

    @torch.no_grad()
    def see(self, trial: Trial | None = None, *, find_shut: bool = False) -> Seen:
        """Evaluate the module with ``trial`` in the place of its own.

        Args:
            trial: the changes; None: none.
            find_shut: whether to ask each f where it is shut.

        Raises:
            TypeError: if what is read of the output is no tensor.
            ValueError: if the module does not take what it is given.
        """
        trial = Trial(self.x) if trial is None else trial
        with torch.random.fork_rng(self._devices), self._buffers, self._changed(trial):
            x, inside = trial.x.clone(), self._inside
            try:
                with self._taking_statistics(trial.x), inside.watching(find_shut=find_shut):
                    output = self.module(x)
            except Exception as error:  # whatever a module of the user's may raise
                raise ValueError(
                    f"{type(self.module).__name__} does not take x of shape "
                    f"{tuple(trial.x.shape)} in {trial.x.dtype}: {error}"
                ) from error
            y = self.read(output)
            if not isinstance(y, Tensor):
                raise TypeError(f"read= returned {type(y).__name__}: let it return a tensor.")
            return Seen(y.clone(), inside.sites, inside.called)

    def _taking_statistics(self, population: Tensor) -> AbstractContextManager:
        """A context in which recomputed statistics are those of the population."""
        if self.statistics is not Statistics.RECOMPUTED:
            return nullcontext()
        if self._one_pass is None:
            self._one_pass = in_one_pass(self.module, population)
        if self._one_pass:
            return taking_statistics(self.module)
        remember(self.module, population)
        return nullcontext()

    def without(self, *, eps: bool = False, bias: bool = False) -> "Subject | None":
        """Another one with every eps, or the bias inside every a, 0; None where there is none.

        A bias inside is that of a layer that makes summed inputs.
        """
        other = deepcopy(self)
        found = [eps and _drop_eps(part) for part in other.module.modules()]
        found += [bias and _drop_bias(part) for part in other.module.modules()]
        return other if any(found) else None

    @contextmanager
    def _changed(self, trial: Trial) -> Iterator[None]:
        own = {name: self.parameters[name].data for name in trial.weights}
        hook = None if trial.shift is None else self._shifting(*trial.shift)
        try:
            for name, W in trial.weights.items():
                self.parameters[name].data = W
            yield
        finally:
            for name, W in own.items():
                self.parameters[name].data = W
            if hook is not None:
                hook.remove()

    def _shifting(self, owner: str, shift: Callable[[Tensor], Tensor]):
        """A hook that shifts the summed inputs of ``owner``."""

        def before(norm: nn.Module, args: tuple) -> tuple:
            return shift(args[0]), *args[1:]

        def behind(layer: nn.Module, args: tuple, output: Tensor) -> Tensor:
            return shift(output)

        part = self.module.get_submodule(owner)
        if isinstance(part, Linear | Conv2d):
            return part.norm.register_forward_pre_hook(before)
        return part.register_forward_hook(behind)


def _drop_eps(part: nn.Module) -> bool:
    """True if there was one."""
    if isinstance(part, nn.RMSNorm) and part.eps is None:  # torch's: that of the precision
        part.eps = NO_EPS
        return True
    found = [n for n in EPS if isinstance(getattr(part, n, None), float) and getattr(part, n)]
    for name in found:
        setattr(part, name, NO_EPS)
    return bool(found)


def _drop_bias(part: nn.Module) -> bool:
    """True if there was one."""
    if not isinstance(part, SUMMING):
        return False
    b = part.b_inside if isinstance(part, Linear | Conv2d) else part.bias
    if not isinstance(b, Tensor) or not bool(b.any()):
        return False
    b.data = torch.zeros_like(b)
    return True
