"""A small transformer that writes text: where its normalizer stands, and which it is."""
