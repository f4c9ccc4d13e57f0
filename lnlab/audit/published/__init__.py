"""Published trained networks, to be audited: their nets, and the reading of their weights.

lnlab has none of the weights; whoever has a file names it.
"""

from lnlab.audit.published.resnet20 import ResNet20, pictures, resnet20
from lnlab.audit.published.sasrec import SASRec, sasrec

__all__ = ["ResNet20", "SASRec", "pictures", "resnet20", "sasrec"]
