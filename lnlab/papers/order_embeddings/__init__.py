"""Order embeddings: pictures and captions in one space, Ba et al. (2016), section 6.1."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "order_violation_matrix": ".model",
        "parse_caption": ".data",
    },
)
