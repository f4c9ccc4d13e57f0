"""Order embeddings: pictures and captions in one space, Ba et al. (2016), section 6.1."""
