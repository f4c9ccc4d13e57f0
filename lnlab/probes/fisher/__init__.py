"""The Fisher metric: of any network, and of normalized generalized linear models."""
