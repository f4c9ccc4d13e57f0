"""Ba, Kiros & Hinton (2016, arXiv:1607.06450), Layer Normalization: what it claims."""

from lnlab.ledger import (
    ba2016_analysis,
    ba2016_attentive_reader,
    ba2016_convolution,
    ba2016_convolution_arms,
    ba2016_draw,
    ba2016_geometry,
    ba2016_handwriting,
    ba2016_introduction,
    ba2016_logits,
    ba2016_mnist,
    ba2016_order_embeddings,
    ba2016_recurrence,
    ba2016_sequences,
    ba2016_skip_thoughts,
)

CLAIMS = [
    *ba2016_introduction.CLAIMS,  # abstract, 1, 2 and 7
    *ba2016_analysis.CLAIMS,  # 4, 5.1, and what else is an equation
    *ba2016_recurrence.CLAIMS,  # 3
    *ba2016_geometry.CLAIMS,  # 5.2
    *ba2016_sequences.CLAIMS,  # what is said of recurrent nets, tested on digits
    *ba2016_order_embeddings.CLAIMS,  # 6.1
    *ba2016_attentive_reader.CLAIMS,  # 6.2
    *ba2016_skip_thoughts.CLAIMS,  # 6.3
    *ba2016_draw.CLAIMS,  # 6.4
    *ba2016_handwriting.CLAIMS,  # 6.5
    *ba2016_mnist.CLAIMS,  # 6.6
    *ba2016_logits.CLAIMS,  # 6.6
    *ba2016_convolution.CLAIMS,  # 6.7
    *ba2016_convolution_arms.CLAIMS,  # 6.7
]
