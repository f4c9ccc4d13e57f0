"""Is this really layer normalization? A normalizer told by what it computes."""

from lnlab.probes.conformance.normalizer import conformance

__all__ = ["conformance"]
