"""International web addresses, which are not looked at: :mod:`jsonschema` imports without them.

nbformat imports jsonschema, and this, where it is installed, rfc3987_syntax, whose grammar
takes 1.6 CPU-seconds to build in every process. It would check strings of the format "iri"; a
notebook has none. jsonschema does without where it cannot be imported, and here it cannot,
unless it was imported before.
"""

import sys
from typing import Any

modules: dict[str, Any] = sys.modules
modules.setdefault("rfc3987_syntax", None)
