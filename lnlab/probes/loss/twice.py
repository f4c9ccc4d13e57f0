"""A test of gradients: can torch differentiate a second time what it differentiated once?"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def plain_operators() -> Iterator[None]:
    """A context without fused attention and cuDNN's recurrent nets, differentiable once."""
    with sdpa_kernel(SDPBackend.MATH), torch.backends.cudnn.flags(enabled=False):
        yield


def breaks_off(slope: Tensor) -> bool:
    """True if a gradient (any shape) went through what is differentiable once.

    Torch would silently leave the part of the second derivative out of what is marked so, and
    raise later where it knows of none.
    """
    seen, ahead = set(), [slope.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        if node.name().endswith(("Error", "NotImplemented")):
            return True
        seen.add(node)
        ahead += [before for before, _ in node.next_functions]
    return False
