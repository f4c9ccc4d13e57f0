"""The audit: every check on one module, one after the other."""

import time
from collections.abc import Callable, Collection
from typing import Any

from torch import nn

from lnlab.analysis.module_copy import as_list
from lnlab.auditing import learning, structure
from lnlab.auditing.report import Audit
from lnlab.auditing.subject import Audited, CannotCheck, OwnLoss, Result
from lnlab.threads import in_one_thread

# The checks of an audit, one file each: ``check(audited) -> Result``.


Check = Callable[[Audited], Result]

CHECKS: dict[str, Check] = {
    "normalizers": structure.check_normalizers,
    "parameters without effect": structure.check_biases,
    "statistics over cases": structure.check_population,
    "cases apart": structure.check_cases,
    "dead units": structure.check_units,
    "invariances": learning.check_invariances,
    "effective learning rates": learning.check_rates,
    "gradients over depth": learning.check_gradients,
    "activations": learning.check_activations,
    "mu and sigma on the way back": learning.check_backward,
    "curvature": learning.check_curvature,
    "precision": learning.check_precision,
}
"""The checks by name, in the order of a report."""


@in_one_thread
def audit(
    module: nn.Module,
    inputs: Any,
    loss: OwnLoss | None = None,
    *,
    checks: Collection[str] | str | None = None,
    progress: bool = False,
) -> Audit:
    """The findings of lnlab's probes in a module, those that matter most first.

    Everything is done on copies: the module, its mode, its buffers and the random state stay
    as they are. Dropout is put to 0 in the copies. A check that cannot run says why.

    Args:
        module: of any make; behind torch.compile it is taken as it was before.
        inputs: what it is called with: a tensor, a tuple of all inputs in order, a mapping of
            all by keyword, or a :class:`Call`. A few cases suffice, 16 or so; with one case
            there are no statistics over cases.
        loss: from what the module returns to a scalar; without one gradients are those of a
            stand-in, and curvature is left out.
        checks: names of those to run; None: all of :data:`lnlab.auditing.CHECKS`.
        progress: whether to show a bar.

    Raises:
        TypeError: where ``module`` is no module, the loss no function, or the input holds no
            tensor.
        ValueError: where the module cannot be copied or does not take the input, and for a
            check that does not exist.
    """
    names = list(CHECKS)
    if checks is not None:
        names = as_list(checks, str)
    if unknown := [name for name in names if name not in CHECKS]:
        raise ValueError(f"there are no checks {unknown}: choose from {', '.join(CHECKS)}.")
    start = time.perf_counter()
    audited = Audited(module, inputs, loss)
    results: dict[str, Result] = {}
    not_run: dict[str, str] = {}
    for name in _bar(names, audited.name, progress):
        try:
            results[name] = CHECKS[name](audited)
        except CannotCheck as error:
            not_run[name] = _sentence(error)
        except Exception as error:  # one check must not take the others with it
            not_run[name] = f"{type(error).__name__}: {_sentence(error)}"
    about = _about(audited)
    return Audit(audited.name, about, results, not_run, time.perf_counter() - start)


def _sentence(error: Exception) -> str:
    """The first line of an error, in bounded length."""
    return (str(error).strip().splitlines() or ["no reason was given"])[0][:300]


def _about(audited: Audited) -> str:
    """Size, input and mode of what was audited."""
    count = sum(p.numel() for p in audited.module.parameters())
    dtype = str(audited.dtype).removeprefix("torch.")
    mode = "as in training" if audited.bn_stats == "batch" else "as in evaluation"
    dropped = f", dropout of {len(audited.dropped)} parts at 0" if audited.dropped else ""
    return f"{count:,} parameters in {dtype}, input {tuple(audited.x.shape)}, {mode}{dropped}."


def _bar(names: list[str], title: str, progress: bool):
    from lnlab.progress import progress as bar

    return bar(names, len(names), title, shown=progress)
