"""Measurements: a module, or what a layer is given, in; numbers out."""
