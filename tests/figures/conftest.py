"""What tests of figures look for in all of them."""

import pytest


@pytest.fixture
def strings():
    """Every text that a figure holds, wherever it stands."""

    def within(part):
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            for value in part.values():
                yield from within(value)
        elif isinstance(part, list | tuple):
            for value in part:
                yield from within(value)

    return lambda figure: list(within(figure.to_plotly_json()))
