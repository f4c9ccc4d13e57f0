"""The loss as a function of the parameters: its slope, its curvature, its landscape."""
