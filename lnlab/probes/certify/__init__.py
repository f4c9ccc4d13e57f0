"""The invariances of Table 1 that a module of any make has: tried, and graded."""

from lnlab.probes.certify.module import certify

__all__ = ["certify"]
