"""The attentive reader: questions about a passage, Ba et al. (2016), section 6.2."""
