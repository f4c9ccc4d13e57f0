"""The deep recurrent attentive writer, DRAW: pictures glimpse by glimpse, section 6.4."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
