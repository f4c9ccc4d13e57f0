"""Fast equivalents of the reference modules, which share their parameters."""

from lnlab.kernels.fuse import LeftOnReference, fuse

__all__ = ["LeftOnReference", "fuse"]
