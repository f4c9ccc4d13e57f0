"""The playground: normalized networks that learn in the browser, while you watch."""

from lnlab.live.bundle import module

__all__ = ["module"]
