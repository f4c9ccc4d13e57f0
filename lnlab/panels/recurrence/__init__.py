"""The panel of notebook 06: what grows and what dies out in a recurrent net."""

from .state import RecurrenceState
from .view import recurrence

__all__ = ["RecurrenceState", "recurrence"]
