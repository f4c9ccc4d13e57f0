"""The notebooks: which there are and what they can be told, and running them headless.

What is read off a notebook is here, and takes no time to import; running them is
:mod:`lnlab.workbook.running`.
"""

from lnlab.workbook.written import (
    chosen,
    fingerprint,
    notebooks,
    parameters,
    read,
    shared,
    value,
)

__all__ = ["chosen", "fingerprint", "notebooks", "parameters", "read", "shared", "value"]
