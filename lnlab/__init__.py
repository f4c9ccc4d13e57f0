"""See, test and explain layer normalization and its relatives.

``lnlab.nn`` has the normalizers and the networks that take any of them; ``lnlab.data`` loads
data, ``lnlab.figures`` draws arrays, ``lnlab.panels`` has widgets, and ``lnlab.papers`` the
experiments of the papers.
"""

from typing import TYPE_CHECKING

from lnlab.lazy import lazy as _lazy

if TYPE_CHECKING:
    from lnlab import analysis, data, figures, nn, panels, papers, training
    from lnlab.analysis.fisher import fisher_information
    from lnlab.analysis.hessian import extreme_eigenvalues, hessian_spectrum, hessian_trace
    from lnlab.analysis.invariances import check_invariances
    from lnlab.analysis.landscape import loss_landscape
    from lnlab.analysis.norm_identity import identify_norm
    from lnlab.analysis.recorder import record
    from lnlab.analysis.rotation import record_rotation
    from lnlab.analysis.smoothness import gradient_smoothness
    from lnlab.auditing import audit, swap
    from lnlab.kernels import fuse
    from lnlab.live import playground
    from lnlab.papers.claims import claims
    from lnlab.training import compare, train

__version__ = "0.1.0"

__all__ = [
    "analysis",
    "audit",
    "check_invariances",
    "claims",
    "compare",
    "data",
    "extreme_eigenvalues",
    "figures",
    "fisher_information",
    "fuse",
    "gradient_smoothness",
    "hessian_spectrum",
    "hessian_trace",
    "identify_norm",
    "loss_landscape",
    "nn",
    "panels",
    "papers",
    "playground",
    "record",
    "record_rotation",
    "swap",
    "train",
    "training",
]

# torch takes seconds to import, so each name is imported when it is first used
__getattr__, _ = _lazy(
    __name__,
    {
        "audit": ".auditing.audit",
        "check_invariances": ".analysis.invariances",
        "claims": ".papers.claims.table",
        "compare": ".training.comparison",
        "record_rotation": ".analysis.rotation",
        "extreme_eigenvalues": ".analysis.hessian",
        "fisher_information": ".analysis.fisher",
        "fuse": ".kernels",
        "gradient_smoothness": ".analysis.smoothness",
        "hessian_spectrum": ".analysis.hessian",
        "hessian_trace": ".analysis.hessian",
        "identify_norm": ".analysis.norm_identity",
        "loss_landscape": ".analysis.landscape",
        "playground": ".live.widget",
        "record": ".analysis.recorder",
        "swap": ".auditing.swap",
        "train": ".training.trainer",
    },
)


def __dir__() -> list[str]:
    return __all__
