"""Measurements inside a network while it learns."""
