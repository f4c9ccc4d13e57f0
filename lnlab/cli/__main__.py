"""``python -m lnlab.cli``, which torchrun can start."""

from lnlab.cli import app

app()
