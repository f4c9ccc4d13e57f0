"""``python -m lnlab.cli``."""

from lnlab.cli import app

app()
