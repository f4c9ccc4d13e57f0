"""Is this really layer normalization? A normalizer told by what it computes."""

from .normalizer import conformance

__all__ = ["conformance"]
