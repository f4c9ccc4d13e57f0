"""Order embeddings: pictures and captions in one space, Ba et al. (2016), section 6.1."""

from lnlab.tasks.order.net import OrderEmbedding, Pairs, contrastive, penalty
from lnlab.tasks.order.task import OrderEmbeddings

__all__ = ["OrderEmbedding", "OrderEmbeddings", "Pairs", "contrastive", "penalty"]
