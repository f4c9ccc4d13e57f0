"""The style of all figures: colours, words in them, axes, and traces that move in place."""
