"""Several models of one shape as one module: seeds that train side by side."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

Slot = tuple[dict[str, Any], str]
"""The place of a tensor in a module: the dictionary of one of its parts, and the name there."""
ReplacedBuffers = dict[int, Tensor]
"""The buffers that a call replaced by other tensors, by the number of their slot."""


class Stacked(nn.Module):
    """S models of the same shapes as one module: x (S, B, ...) to (S, B, ...).

    x may also be a tree of tensors. The parameters and buffers of :attr:`module` have a first
    axis S, so that one matrix product, and one step of the optimizer, serves all models. A
    stack of one model keeps the shapes of the model. Each model has its own buffers (running
    statistics) and random numbers (dropout).

    The outputs are computed with ``torch.func.vmap``. A model must therefore not use the values
    of its tensors in Python (``.item()``), and a forward hook cannot read them; unstack the
    models, or hook a stack of one. Models with a part that is ``opaque_to_vmap`` (a compiled
    loop) are computed one after another. Models all of whose parts have
    :attr:`~lnlab.nn.Normalizer.stacks` are called with the stacked tensors directly, because
    for small models vmap costs more than the arithmetic.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.count = len(models)
        self.module = copy.deepcopy(models[0])
        if self.count > 1:
            tensors = [
                [registry[name] for registry, name in _tensor_slots_with_repeats(m)]
                for m in models
            ]
            _set_slots(self.module, [torch.stack(same) for same in zip(*tensors, strict=True)])
        self._tensor_slots = _tensor_slots_with_repeats(self.module)
        self._broadcasts = all(map(_computes_stack_itself, self.module.modules()))

    def forward(self, x: Any) -> Any:
        for tensor in tree_leaves(x):
            if tensor.shape[0] != self.count:
                raise ValueError(
                    f"x has shape {tuple(tensor.shape)}: the first axis must hold the inputs "
                    f"of {self.count} models."
                )
        if self.count == 1:
            output = self.module(tree_map(lambda tensor: tensor.squeeze(0), x))
            if isinstance(output, Tensor):
                return output.unsqueeze(0)
            return tree_map(lambda tensor: tensor.unsqueeze(0), output)
        if self._broadcasts and isinstance(x, Tensor) and x.dim() == 3:
            return self.module(x)
        tensors = [registry[name] for registry, name in self._tensor_slots]
        try:
            output, buffers = self._outputs_of_all_models(x, *tensors)
        finally:
            for (registry, name), tensor in zip(self._tensor_slots, tensors, strict=True):
                registry[name] = tensor
        for index, tensor in buffers.items():
            registry, name = self._tensor_slots[index]
            registry[name] = tensor
        return output

    def _outputs_of_all_models(self, *stacked: Any) -> tuple[Any, ReplacedBuffers]:
        """Return the output of every model: at once, or in turn where a part is opaque."""
        if not any(getattr(part, "opaque_to_vmap", False) for part in self.module.modules()):
            return vmap(self._output_of_one_model, randomness="different")(*stacked)
        # unbound at once: the gradient of an index is a whole stack, of zeros but for one slice
        leaves, tree = tree_flatten(stacked)
        states = zip(*(leaf.unbind() for leaf in leaves), strict=True)
        models = [self._output_of_one_model(*tree_unflatten(state, tree)) for state in states]
        return tree_map(lambda *same: torch.stack(same), *models)

    def _output_of_one_model(self, x: Any, *tensors: Tensor) -> tuple[Any, ReplacedBuffers]:
        """Return the output of one model, and the buffers that it replaced, not wrote to."""
        for (registry, name), tensor in zip(self._tensor_slots, tensors, strict=True):
            registry[name] = tensor
        output = self.module(x)
        now = [registry[name] for registry, name in self._tensor_slots]
        replaced = [i for i, tensor in enumerate(tensors) if now[i] is not tensor]
        return output, {index: now[index] for index in replaced}

    def unstack(self) -> list[nn.Module]:
        """Return the models, one module each, with their own parameters and buffers."""
        models = [copy.deepcopy(self.module) for _ in range(self.count)]
        for index, model in enumerate(models if self.count > 1 else ()):
            _set_slots(
                model,
                [registry[name][index] for registry, name in _tensor_slots_with_repeats(model)],
            )
        return models

    def finite_models(self) -> Tensor:
        """Return True for each model (S,) whose parameters are all finite."""
        each = [
            p.isfinite().reshape(self.count, p.numel() // self.count).all(1)
            for p in self.module.parameters()
        ]
        return torch.stack(each).all(0)

    def replace_diverged_by_survivor(self, lost: Sequence[bool]) -> "Stacked":
        """Return a copy in which lost models have the weights of the first other one.

        What the others compute is the same to the last bit, which in a smaller stack it would
        not be.
        """
        if all(lost):
            raise ValueError("all models are lost: none can stand in for them.")
        left, copied = list(lost).index(False), copy.deepcopy(self)
        with torch.no_grad():
            for registry, name in copied._tensor_slots:
                for index, gone in enumerate(lost):
                    if gone:
                        registry[name][index] = registry[name][left]
        return copied

    def extra_repr(self) -> str:
        return f"{self.count} models"


def stack(models: Sequence[nn.Module]) -> Stacked:
    """Return S models of the same shapes as one module, whose tensors have a first axis S.

    Examples:
        >>> models = lnlab.training.stack([nn.Linear(8, 4) for _ in range(3)])
        >>> outputs = models(torch.randn(3, 32, 8))
    """
    return Stacked(models)


def _computes_stack_itself(part: nn.Module) -> bool:
    """Return True if a part itself, not a class it inherits from, computes S models at once."""
    return type(part) is nn.ModuleList or vars(type(part)).get("stacks", False)


def _tensor_slots_with_repeats(module: nn.Module) -> list[Slot]:
    """Return where all parameters and buffers are; a shared one is listed each time."""
    return [
        (registry, name)
        for part in module.modules()
        for registry in (part._parameters, part._buffers)
        for name, tensor in registry.items()
        if tensor is not None
    ]


def _set_slots(module: nn.Module, values: Sequence[Tensor]) -> None:
    """Put values in the places of a module's tensors; what was shared stays shared."""
    put: dict[int, Tensor] = {}
    for (registry, name), value in zip(_tensor_slots_with_repeats(module), values, strict=True):
        old = registry[name]
        if id(old) not in put:
            value = value.detach().clone()
            is_parameter = isinstance(old, nn.Parameter)
            put[id(old)] = nn.Parameter(value, old.requires_grad) if is_parameter else value
        registry[name] = put[id(old)]
