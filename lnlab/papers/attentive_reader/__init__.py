"""The attentive reader: questions about a passage, Ba et al. (2016), section 6.2."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
