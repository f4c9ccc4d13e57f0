"""The form in which images are read or made, before they are cases."""

import numpy as np

Pixels = dict[str, tuple[np.ndarray, np.ndarray]]
"""Images (N, height, width), or (N, 3, height, width) in red, green and blue, and their labels
(N,), uint8, by split."""
