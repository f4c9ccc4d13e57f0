"""Text in figures: plotly reads some HTML in every label."""

from html import escape


def literal(text: object) -> str:
    """Text that comes from data, such that plotly shows its letters and obeys no tag in it."""
    return escape(str(text), quote=False)
