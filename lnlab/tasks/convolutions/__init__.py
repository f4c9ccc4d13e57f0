"""Convolutional nets on pictures: Ba et al. (2016), section 6.7."""
