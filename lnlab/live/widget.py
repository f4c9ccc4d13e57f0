"""The playground in a notebook."""

import os
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from lnlab.live.bundle import (
    MIME,
    check_settings,
    playground_module_source,
    playground_page_html,
)


class Playground(anywidget.AnyWidget):
    """A playground. Its networks train in the browser; Python holds only the settings."""

    _esm = traitlets.Unicode().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    """The settings that are not the defaults; setting it starts anew."""

    @traitlets.default("_esm")
    def _default_module_source(self) -> str:
        return playground_module_source()

    @traitlets.validate("state")
    def _validate_settings(self, proposal: dict[str, Any]) -> dict[str, Any]:
        check_settings(proposal["value"])
        return proposal["value"]

    def save(self, path: str | Path) -> Path:
        """Write a page in one file, which needs no network, and return its path."""
        Path(path).write_text(playground_page_html(self.state), encoding="utf-8")
        return Path(path)

    def _repr_mimebundle_(self, **settings: Any) -> Any:
        ours = {MIME: self.state, "text/plain": "Networks that learn while you watch."}
        if os.environ.get("LNLAB_HEADLESS"):
            return ours
        shown = super()._repr_mimebundle_(**settings)
        return (shown[0] | ours, shown[1]) if isinstance(shown, tuple) else (shown or {}) | ours


def playground(*, simple: bool = False, **state: Any) -> Playground:
    """Return a page on which small networks train in the browser while you change settings.

    The networks differ only in their normalizer. Show the playground in a notebook, or write it
    as a page in one file: ``playground().save("playground.html")``.

    Args:
        simple: whether to show only two sliders.
        state: settings such as ``dataset="digits"`` or ``norms=["none", "layer", "rms"]``; the
            file live/state.json lists all of them.

    Raises:
        ValueError: if a setting does not exist or cannot have this value.

    Examples:
        >>> lnlab.playground(norms=["none", "layer", "rms"]).save("playground.html")
    """
    return Playground(state=state | ({"simple": True} if simple else {}))
