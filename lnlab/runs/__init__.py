"""Runs and what they leave: one folder each, one writer, nothing half-written, to be read back.

A run lives in ``root/<task>/<key>/``. The key is made from its configuration and the
checksum of its data, so that the same experiment is found again and a changed one is not
mistaken for it. In the folder:

=================== ====================================================================
config.json         the task, its configuration, the data
environment.json    versions, commit, device, threads, and what else decides the bits
metrics.jsonl       one JSON object a row, in the order in which they came
pictures.tensors    arrays that belong to rows (attention, canvases), where there are any
state.pt            where to resume; known by its SHA-256 in checkpoints.json
weights.safetensors the trained weights
result.json         written last, with the SHA-256 of the others: a run is done when it is
                    there
=================== ====================================================================

Kept runs have no weights, and metrics and pictures compressed (``.xz``). Their ``result.json``
tells the configuration and the environment, of which a file is kept only where it says more:
of a run that ended in another environment than it began in.
"""

from lnlab.runs.environment import environment
from lnlab.runs.files import write
from lnlab.runs.identity import key, place
from lnlab.runs.lock import Busy
from lnlab.runs.run import Run
from lnlab.runs.store import Damaged, keep, read, remove, survey, table, unbegun

__all__ = [
    "Busy",
    "Damaged",
    "Run",
    "environment",
    "keep",
    "key",
    "place",
    "read",
    "remove",
    "survey",
    "table",
    "unbegun",
    "write",
]
