"""Dead units: those that are shut in every case."""

from lnlab.analysis.subject import Site, dead_units
from lnlab.audit.audited import Audited
from lnlab.audit.finding import CannotCheck, Finding, Result, Severity, listed

FEW = 16
"""The cases below which a unit that is shut in all of them may open in the next."""


def check(audited: Audited) -> Result:
    """Units in front of an f that answers nothing, in all cases of the input."""
    sites = [s for s in audited.subject().see(find_shut=True).inside if s.shut is not None]
    if not sites:
        raise CannotCheck("no nonlinearity of torch is called where it can be seen.")
    dead = dead_units(sites)
    rows = tuple(
        {"where": name, "dead": n, "units": of, "cases": _cases(_site(sites, name))}
        for name, (n, of) in dead.items()
    )
    return Result(tuple(_findings(dead, min(map(_cases, sites)))), rows)


def _site(sites: list[Site], name: str) -> Site:
    return next(s for s in sites if s.name == name)


def _cases(site: Site) -> int:
    """The number of values of one unit that were seen."""
    shut = site.shut
    assert shut is not None
    units = shut.shape[1] if shut.dim() == 4 else shut.shape[-1]
    return shut.numel() // max(units, 1)


def _findings(dead: dict[str, tuple[int, int]], cases: int) -> list[Finding]:
    whole = [name for name, (n, of) in dead.items() if n == of]
    found = []
    if whole:
        found.append(
            Finding(
                Severity.FAULT, listed(whole), "every unit is shut in every case",
                "no gradient passes: what is below learns nothing.",
                "look at the scale and the bias of what goes in; put a normalizer in front.",
            )
        )  # fmt: skip
    some = {name: value for name, value in dead.items() if name not in whole}
    if some:
        n, of = (sum(column) for column in zip(*some.values(), strict=True))
        few = cases < FEW
        found.append(
            Finding(
                Severity.FACT if few or n < 0.1 * of else Severity.RISK,
                listed([f"{name} ({n} of {of})" for name, (n, of) in some.items()]),
                f"{n} of {of} units are shut in all cases ({cases} values of each at least)",
                "they answer nothing and get no gradient"
                + (", but so few cases prove little." if few else "."),
                "give more cases."
                if few
                else "a smaller learning rate, a leaky f, or a normalizer in front keeps units "
                "alive.",
            )
        )  # fmt: skip
    return found
