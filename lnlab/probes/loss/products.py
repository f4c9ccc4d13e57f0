"""Products of what does not move with what moves along a few directions, computed once.

On a grid of weights W = W_0 + alpha W_1 + beta W_2, a layer that reads the cases has the summed
inputs W x = W_0 x + alpha W_1 x + beta W_2 x: three products serve every point.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.norms.invariances import Statistics

from .objective import Objective

PRODUCTS = (F.linear, F.conv1d, F.conv2d, F.conv3d)
ARGUMENTS: tuple[str, ...] = (
    "input",
    "weight",
    "bias",
    "stride",
    "padding",
    "dilation",
    "groups",
)


class SharedProducts:
    """The loss at w + where @ directions, for many ``where`` (n,).

    Products are shared where torch's ``linear`` or a convolution is given a parameter of w
    and what does not depend on w: the cases, or what was made of them alone. Whatever else a
    module computes is computed at every point.

    Args:
        objective: the loss.
        directions: (n, P).
    """

    def __init__(self, objective: Objective, directions: Tensor) -> None:
        self.objective = objective
        corners = [objective.start, *directions]
        split = [objective.split(corner) for corner in corners]
        # each parameter as W_0, W_1, W_2, ...: its own part of w and of every direction
        self.parts = {name: [part[name] for part in split] for name in objective.names}
        self.weights, self.products = KeptSums(corners), {}
        # statistics are recomputed by another call of the module, with its own parameters
        self.shares = objective.statistics is not Statistics.RECOMPUTED

    def __call__(self, where: Tensor) -> Tensor:
        self.factors = where.tolist()
        tensors, x = self.objective.split(self.weights(self.factors)), self.objective.x
        if not self.shares:
            return self.objective.at(tensors, x)
        self.names = {id(tensor): name for name, tensor in tensors.items()}
        self.calls = 0
        return self.objective.at(tensors, Still.of(x, self))

    def product(self, func: Callable, given: dict[str, Any]) -> Tensor | None:
        """``func`` of the arguments ``given``, (B, H), by the products that are there; None if
        its weight is no parameter of w."""
        name = self.names.get(id(given["weight"]))
        if name is None:
            return None
        self.calls += 1
        # the bias moves too, but is added once behind the sum, not in each of its products
        bias, given = given.get("bias"), given | {"bias": None}
        key, Ws = (name, func, self.calls), self.parts[name]
        if key not in self.products:
            sums = KeptSums([func(**given | {"weight": W}) for W in Ws])
            self.products[key] = given["input"], sums
        x, sums = self.products[key]
        if not self._same(x, given["input"]):  # the module went another way at this point
            return None
        total, space = sums(self.factors), Ws[0].dim() - 2
        return total if bias is None else total.add_(bias.view(-1, *(1,) * space))

    def _same(self, one: Tensor, other: Tensor) -> bool:
        """True if two inputs of a layer are equal; views of the cases are known by sight."""
        cases = self.objective.x.untyped_storage().data_ptr()
        if {v.untyped_storage().data_ptr() for v in (one, other)} == {cases}:
            seen = [(v.data_ptr(), v.shape, v.stride()) for v in (one, other)]
            if seen[0] == seen[1]:
                return True
        return torch.equal(one, other)


class KeptSums:
    """a_0 + alpha a_1 + beta a_2 + ..., of one shape, all but the last term kept between calls.

    A sum is written where the one before it was: fresh memory costs more than the adding.
    """

    def __init__(self, parts: list[Tensor]) -> None:
        self.parts, self.kept = parts, ([], parts[0])
        self.sum = torch.empty_like(parts[0])

    def __call__(self, factors: list[float]) -> Tensor:
        total, *along = self.parts
        # along a row of the grid all factors but the last stand still
        if self.kept[0] != factors[:-1]:
            for part, factor in zip(along, factors[:-1], strict=False):
                total = torch.add(total, part, alpha=factor)
            self.kept = factors[:-1], total
        return torch.add(self.kept[1], along[-1], alpha=factors[-1], out=self.sum)


class Still(Tensor):
    """The cases, or what a module made of them before any weight came in."""

    shared: SharedProducts

    @staticmethod
    def of(tensor: Tensor, shared: SharedProducts) -> "Still":
        """``tensor`` (B, ...) as what no weight has come into."""
        still = tensor.as_subclass(Still)
        still.shared = shared
        return still

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        given = [*args, *(kwargs or {}).values()]
        tensors = [v for v in given if isinstance(v, Tensor)]
        shared = next((v.shared for v in tensors if isinstance(v, Still)), None)
        with torch._C.DisableTorchFunctionSubclass():
            if func in PRODUCTS and shared is not None:
                named = dict(zip(ARGUMENTS, args, strict=False)) | (kwargs or {})
                if isinstance(x := named.get("input"), Still):
                    named["input"] = x.as_subclass(Tensor)
                    product = shared.product(func, named)
                    if product is not None:
                        return product
            result = func(*args, **kwargs or {})
        if not isinstance(result, Tensor) or shared is None:
            return result
        if all(isinstance(v, Still) for v in tensors):
            return cls.of(result, shared)
        return result.as_subclass(Tensor)
