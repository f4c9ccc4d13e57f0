"""The view of a panel's state: all that is shown of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Drawing(NamedTuple):
    """New attributes of a plot's traces, by name, and of its layout."""

    traces: Mapping[int | str, Mapping[str, Any]]
    layout: Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """The looks of a state: sentence, titles and drawings.

    Attributes:
        sentence: the number that matters, in words.
        titles: what each plot shows, and of what; they stand over its picture where there are
            no controls to read it from.
        drawings: of the plots by name.
        late: of those plots that need not follow a slider: they are made and drawn once the
            state has been still for a moment, or at once where there is no page.
    """

    sentence: str
    titles: Mapping[str, str]
    drawings: Mapping[str, Drawing]
    late: Mapping[str, Callable[[], Drawing]] = field(default_factory=dict)
