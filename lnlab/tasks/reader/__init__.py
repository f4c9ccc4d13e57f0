"""The attentive reader: questions about a passage, Ba et al. (2016), section 6.2."""

from lnlab.tasks.reader.net import Asked, AttentiveReader
from lnlab.tasks.reader.task import AttentiveReading

__all__ = ["Asked", "AttentiveReader", "AttentiveReading"]
