"""The playground: normalized networks that learn in the browser, while you watch."""

from lnlab.live.widget import Playground, playground

__all__ = ["Playground", "playground"]
