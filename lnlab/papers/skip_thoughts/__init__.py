"""Skip-thoughts: sentences told by their neighbours, Ba et al. (2016), section 6.3."""
