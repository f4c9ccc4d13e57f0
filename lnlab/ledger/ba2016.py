"""Ba, Kiros & Hinton (2016, arXiv:1607.06450), Layer Normalization: what it claims."""

from lnlab.ledger import (
    ba2016_analysis,
    ba2016_experiments,
    ba2016_geometry,
    ba2016_mnist,
    ba2016_recurrence,
    ba2016_recurrent,
    ba2016_text,
)

CLAIMS = [
    *ba2016_text.CLAIMS,
    *ba2016_analysis.CLAIMS,
    *ba2016_recurrence.CLAIMS,
    *ba2016_geometry.CLAIMS,
    *ba2016_mnist.CLAIMS,
    *ba2016_recurrent.CLAIMS,
    *ba2016_experiments.CLAIMS,
]
