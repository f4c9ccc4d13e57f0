"""Claims of the papers, and what became of them: one entry per statement.

The entries are TOML files (:mod:`lnlab.papers.claims.entries` describes them), ``judge`` makes
a word of one number per seed, ``pairs`` and ``measures`` read these numbers from kept runs, and
``equations`` checks formulas. Nothing here needs torch until something is judged anew.
"""

from lnlab.lazy import lazy
from lnlab.papers.claims.table import Claims, claims, findings_markdown

__all__ = ["Claims", "claims", "findings_markdown"]

__getattr__, _ = lazy(
    __name__,
    {
        "drop_best_model_row": ".measures",
        "rows_with_downstream_score": ".measures",
        "count_unselectable_keys": ".equations",
    },
)
