"""What all figures share: colours, words in them, axes, and traces that move in place."""
