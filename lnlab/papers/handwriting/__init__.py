"""Handwriting with its text: Graves (2013), with layer norm as in Ba et al. (2016), 6.5."""
