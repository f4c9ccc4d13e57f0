"""A device that is not the CPU, for machines that have none: the CPU's tensors in disguise.

A tensor on ``pretend:0`` wraps one of the CPU, on which each operator really runs. So values
are real, and whatever mixes devices raises, as on a GPU; what would wait for a GPU is counted.
What cannot be seen here: speed, memory, kernels of a vendor, half precision as a GPU rounds it,
several devices, ``torch.func.jvp``, and tensors that are of a subclass already.

Python's way to a new backend is torch's own (``torch.utils.backend_registration``), and
experimental: it is used by tests alone.
"""

from collections import Counter
from contextlib import contextmanager
from copy import deepcopy
from types import SimpleNamespace
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only, tree_unflatten

NAME = "pretend"
COPIES = ("aten::copy_", "aten::_to_copy", "aten::_copy_from")
READS = (
    *("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::nonzero"),
    *("aten::masked_select", "aten::_unique2", "aten::unique_consecutive", "aten::bincount"),
    *("aten::repeat_interleave",),
)
"""Operators for whose answer the program has to wait, where the tensor is on a device."""

waited: Counter[str] = Counter()
"""How often a program has waited for the device, by what it asked for."""


class Pretend(torch.Tensor):
    """A tensor on the device; ``raw`` is that of the CPU which holds its values."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
            requires_grad=requires_grad,
        )
        made.raw = raw
        return made

    def __init__(self, raw, requires_grad=False):
        pass

    def __repr__(self, **kwargs):
        return f"Pretend({self.raw!r})"

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, other):
        alike = isinstance(other, Pretend) and other.dtype == self.dtype
        if not alike or other.shape != self.shape:
            raise RuntimeError(
                f"data of {tuple(self.shape)} on {NAME}:0 cannot become {other}."
            )
        self.raw = other.raw

    def __deepcopy__(self, memo):
        copy = Pretend(self.raw.detach().clone(), self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copy._is_param = True  # type: ignore[attr-defined]
        memo[id(self)] = copy
        copy.grad = deepcopy(self.grad, memo)
        return copy

    def __reduce_ex__(self, protocol):
        waited["saved"] += 1
        return self.raw.__reduce_ex__(protocol)  # what is read back lies on the CPU

    def tolist(self):
        waited["tolist"] += 1
        return self.raw.tolist()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if func.__name__ not in ("lstm", "gru"):
                return func(*args, **(kwargs or {}))
            # a build for the CPU has these of the CPU alone
            found = func(*tree_map_only(torch.Tensor, lambda one: one.to("cpu"), args))
            return tree_map(lambda one: one.to(NAME), found)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


class Placing(TorchDispatchMode):
    """While it lasts tensors can be made on the device, and moved there."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


def computed(func, args, kwargs):
    """What an operator gives, computed on the CPU, on the device where it belongs."""
    name = func.name()
    leaves, structure = tree_flatten((args, kwargs))
    given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    there = [leaf for leaf in given if isinstance(leaf, Pretend)]
    wanted = kwargs.get("device")
    wanted = None if wanted is None else torch.device(wanted)
    if not there and (wanted is None or wanted.type != NAME):
        return func(*args, **kwargs)
    copying = name.split(".")[0] in COPIES
    elsewhere = [leaf for leaf in given if not isinstance(leaf, Pretend) and leaf.dim()]
    if there and elsewhere and not copying and not indexing(name, args):
        raise RuntimeError(f"{name}: tensors on {NAME}:0 and on {elsewhere[0].device}.")
    if masking(name, args):
        waited["indices by a mask"] += 1
    target = wanted or (args[0].device if name.startswith("aten::copy_") else None)
    on_device = target is None or target.type == NAME
    if there and (name.split(".")[0] in READS or (copying and not on_device)):
        waited[name] += 1
    if wanted is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
        leaves, structure = tree_flatten((args, kwargs))
    back = {id(leaf.raw): leaf for leaf in there}
    raws = [leaf.raw if isinstance(leaf, Pretend) else leaf for leaf in leaves]
    own = {id(leaf) for leaf in raws if isinstance(leaf, torch.Tensor)}
    raw_args, raw_kwargs = tree_unflatten(raws, structure)
    found = func(*raw_args, **raw_kwargs)

    def dressed(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in back:
            return back[id(value)]
        if not on_device:
            return value.clone() if id(value) in own else value
        return Pretend(value.clone() if id(value) in own else value)

    found = tree_map(dressed, found)
    if not there or not on_device or "device" in kwargs:
        return found
    # views share their storage, and what is squeezed in place changes its shape
    return return_and_correct_aliasing(func, args, kwargs, found)


def indexing(name, args):
    """Whether these are indices of the CPU beside a tensor on the device: torch sends them.

    As it does for ``a[places]``; ``index_select`` and the like want them on the device.
    """
    sent = name.startswith(INDEXING) and isinstance(args[0], Pretend)
    if sent:
        waited["indices of the CPU"] += 1
    return sent


INDEXING = ("aten::index.", "aten::index_put", "aten::_index_put")


def masking(name, args):
    """Whether places are looked for where a mask on the device is True: how many, is read."""
    return name.startswith(INDEXING) and any(
        isinstance(index, Pretend) and index.dtype == torch.bool for index in args[1]
    )


def synchronize(device=None):
    """Count that the program waits for the device."""
    waited["synchronize"] += 1


backend = SimpleNamespace(
    device_count=lambda: 1,
    is_available=lambda: True,
    current_device=lambda: 0,
    get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
    get_rng_state=lambda device=None: torch.default_generator.get_state(),
    set_rng_state=lambda state, device=None: torch.default_generator.set_state(state),
    manual_seed_all=torch.default_generator.manual_seed,
    synchronize=synchronize,
    _is_in_bad_fork=lambda: False,
)
"""What torch asks of the module of a backend: here, that there is one device."""

_library = torch.library.Library("_", "IMPL")


def register():
    """Register the device with torch, before the first backward pass of the process."""
    if hasattr(torch, NAME):
        return
    from torch.utils import backend_registration

    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=backend)
    # under autocast operators run as they are: rounding is not pretended
    _library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")


@contextmanager
def pretending():
    """While it lasts there is a device called ``pretend``; gives the count of waits."""
    register()
    waited.clear()
    # a tensor here keeps its dtype for life: net.double() makes new parameters
    anew = "torch.__future__._overwrite_module_params_on_conversion"
    patched = mock.patch.object(torch.accelerator, "synchronize", synchronize)
    with Placing(), patched, mock.patch(anew, True):
        yield waited
