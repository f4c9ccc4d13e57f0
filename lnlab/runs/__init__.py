"""What a run leaves behind: one folder, one writer, nothing half-written; and reading it back.

A run lives in ``root/<task>/<key>/``. The key is made from its configuration and the
checksum of its data, so that the same experiment is found again and a changed one is not
mistaken for it. In the folder:

=================== ====================================================================
config.json         the task, its configuration, the data
environment.json    versions, commit, device, threads, and what else decides the bits
metrics.jsonl       one JSON object a row, in the order in which they came
state.pt            where to resume; known by its SHA-256 in checkpoints.json
weights.safetensors the trained weights
result.json         written last, with the SHA-256 of the others: a run is done when it is
                    there
=================== ====================================================================
"""

from lnlab.runs.claim import Busy
from lnlab.runs.environment import environment
from lnlab.runs.files import write
from lnlab.runs.run import Run, key
from lnlab.runs.store import keep, read, remove, table

__all__ = ["Busy", "Run", "environment", "keep", "key", "read", "remove", "table", "write"]
