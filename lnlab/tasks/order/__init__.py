"""Order embeddings: pictures and captions in one space, Ba et al. (2016), section 6.1."""

from .net import OrderEmbedding, Pairs, contrastive, penalty
from .task import OrderEmbeddings

__all__ = ["OrderEmbedding", "OrderEmbeddings", "Pairs", "contrastive", "penalty"]
