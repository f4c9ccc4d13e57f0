"""The panel of notebook 06: what grows and what dies out in a recurrent net."""

from lnlab.panels.recurrence.state import RecurrenceState
from lnlab.panels.recurrence.view import recurrence

__all__ = ["RecurrenceState", "recurrence"]
