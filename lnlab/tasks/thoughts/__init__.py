"""Skip-thoughts: sentences told by their neighbours, Ba et al. (2016), section 6.3."""

from lnlab.tasks.thoughts.net import SkipThoughts, Told
from lnlab.tasks.thoughts.task import SkipThoughtVectors

__all__ = ["SkipThoughtVectors", "SkipThoughts", "Told"]
