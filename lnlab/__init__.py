"""See, test and explain layer normalization and its relatives."""

__version__ = "0.1.0"
