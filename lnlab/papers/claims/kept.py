"""Verdicts that are kept: read in no time and without torch, known by what they came from."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lnlab.analysis.statistics import ends
from lnlab.papers.claims.rule import Outcome, defect, size
from lnlab.paths import place
from lnlab.training.runs import KEPT

if TYPE_CHECKING:
    import pandas as pd


ROOTS = (place("results"), place("runs"))
"""The places where runs are looked for: those that are committed, then one's own."""

EXPERIMENTS = {
    "Hidden dynamics": "ba2016-abstract-stabilizes-paper",
    "Order embeddings": "ba2016-6.1-table2-caption-r1-boxes",
    "Order embeddings, own rates": "ba2016-6.1-speed-boxes-own-rates",
    "Attentive reader": "ba2016-6.2-better-baseline-books",
    "Skip-thoughts, novels": "ba2016-6.3-faster-nll-novels",
    "Skip-thoughts, stories": "ba2016-6.3-table3-sick-r-stories",
    "DRAW": "ba2016-6.4-bound-two-cores-40",
    "Handwriting": "ba2016-6.5-faster-unipen",
    "MNIST": "ba2016-6.6-faster-128",
    "MNIST, own rates": "ba2016-6.6-faster-128-own-rates",
    "Convolutions": "ba2016-6.7-batch-lenet-128",
    "Speech": "benothman2018-4.2-decoder-fsdd",
    "CIFAR-10": "ziaee2022-4-cifar-against-ln-25",
    "CIFAR-10, own batches": "ziaee2022-4-cifar-against-ln-25-own",
    "IMDB": "ziaee2022-4-imdb-against-ln",
    "Transformer": "xiong2020-without",
}
"""The experiments of the papers, and the claim that each is told by in one line: where that of
the paper's own data has no runs, the same of data that are there."""

NAME = "verdicts.json"
JUDGES = ("analysis/", "nn/", "papers/", "training/runs.py")
"""The parts of lnlab that hold the declarations, with the budgets that these name, and decide
what follows from them."""


def source(roots: Sequence[Path] = ROOTS) -> str:
    """The hash of what verdicts follow from: declarations, the code that judges, the runs."""
    package = Path(__file__).parents[2]
    named = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    code = {name: path for name, path in named.items() if name.startswith(JUDGES)}
    runs = {
        path.relative_to(root.parent).as_posix(): path for root in roots for path in _runs(root)
    }
    told = hashlib.sha256()
    for name, path in sorted((code | runs).items()):
        told.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return told.hexdigest()


def _runs(root: Path) -> Iterator[Path]:
    """Yield the files that are another when a run under a root is."""
    yield from root.glob(f"*{KEPT}")
    yield from root.glob("*/*/result.json")


def _newest(roots: Sequence[Path]) -> dict[str, Any]:
    """The kept verdicts: one's own where they are current, else those of the checkout."""
    wanted, found = source(roots), []
    for root in reversed(roots):
        if (root / NAME).exists():
            found.append(json.loads((root / NAME).read_text(encoding="utf-8")))
    for kept in found:
        if kept["source"] == wanted:
            return kept
    if not found:
        raise FileNotFoundError("no verdicts are kept here: `lnlab claims judge` makes them.")
    return found[-1]


def current(roots: Sequence[Path] = ROOTS) -> bool:
    """True if the verdicts that :func:`entries` reads are of the code and runs of today."""
    return _newest(roots)["source"] == source(roots)


def entries(roots: Sequence[Path] = ROOTS) -> list[dict[str, Any]]:
    """Every claim and what became of it.

    Raises:
        FileNotFoundError: if nothing was ever judged here.
    """
    return _newest(roots)["claims"]


def judge(roots: Sequence[Path] = ROOTS) -> Path:
    """Judge every claim anew, and keep that: beside one's own runs if there are any."""
    from lnlab.papers.claims import judging
    from lnlab.training.runs import read, write

    root = next((r for r in reversed(roots) if any(_runs(r))), roots[0])
    kept = {"source": source(roots), "claims": judging.entries(read(roots))}
    text = json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False)
    root.mkdir(parents=True, exist_ok=True)
    write(root / NAME, (text + "\n").encode())
    return root / NAME


def frame(roots: Sequence[Path] = ROOTS) -> "pd.DataFrame":
    """:func:`entries` as a table, one row a claim, with what was :func:`found` in words."""
    import pandas as pd

    rows = [{**entry, "found": found(entry)} for entry in entries(roots)]
    return pd.DataFrame(rows).set_index("id")


def found(entry: dict[str, Any]) -> str:
    """The measurement of a claim in a few words: an interval, or the worst of some draws."""
    if entry["interval"]:
        margin = ", ".join(filter(None, [f"margin {entry['margin']:.2g}", _size(entry)]))
        return f"{ends(entry['interval'])} ({margin}); {entry['quantity']}"
    if entry["worst"] is not None:
        draws = f", {len(entry['values'])} draws" if len(entry["values"]) > 1 else ""
        return f"{defect(entry['worst'])}{draws}; {entry['quantity']}"
    if silent := [value for value in entry["values"] or () if value is None]:
        seeds = f"{len(silent)} of {len(entry['values'])} seeds"
        return f"no number of {seeds}, and so no interval; {entry['quantity']}"
    return entry["waits"] or entry["quantity"]


def _size(entry: dict[str, Any]) -> str:
    """The size of what was found next to its margin, where a sign was claimed; of what is
    undecided also the effect that its seeds find four times out of five."""
    says = (entry["declared"] or {}).get("says", "")
    told = [size(entry["outcome"], says, entry["interval"], entry["margin"])]
    if entry["outcome"] == Outcome.INCONCLUSIVE.value and entry["detectable"]:
        least = float(f"{entry['detectable']:.2g}")
        told.append(f"found 4 times of 5: {least:g}")
    return ", ".join(filter(None, told))


def markdown(roots: Sequence[Path] = ROOTS) -> str:
    """The table of the README: a line for each experiment of the papers.

    The verdict of an experiment is that of one claim; the others are in the whole table.
    """
    claims = {claim["id"]: claim for claim in entries(roots)}
    lines = [
        "| experiment | claim | the paper's number | ours | setting | seeds | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, id in EXPERIMENTS.items():
        claim = claims[id]
        measure = (claim["declared"] or {}).get("measure", "")
        ours = f"{found(claim).partition(';')[0]}: {measure}" if claim["interval"] else "–"
        seeds = len(claim["seeds"] or (claim["declared"] or {}).get("seeds", ()))
        blocks = len(claim["values"] or ())
        where = ", ".join(filter(None, (claim["setting"], claim["data"])))
        cells = (
            name, claim["statement"], claim["paper"] or "a figure without one", ours,
            where or "–", f"{blocks} x {seeds}" if blocks > seeds else str(seeds or "–"),
            f"**{claim['verdict']}**",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def faults(roots: Sequence[Path] = ROOTS) -> str:
    """A list of what is wrong in the papers as it is printed."""
    return "\n".join(
        f"- {claim['source']}: {claim['statement']}. {claim['note'][:1].upper()}"
        f"{claim['note'][1:]}."
        for claim in entries(roots)
        if claim["verdict"] == "fails"
    )


def table(roots: Sequence[Path] = ROOTS) -> str:
    """``docs/ledger.md``: every claim, with its note."""
    claims = entries(roots)
    lines = [
        "# The ledger",
        "",
        "The statements of the three papers, and of those on transformers, that can be "
        f"tested, and what became of them: {len(claims)} rows, for a statement has one for "
        "each setting that it is judged in. Written by `lnlab claims docs`; `lnlab claims "
        "show ID` has the values of each seed, the declaration and the command.",
        "",
        "A margin is the least effect that was declared to matter. *All of it beyond*, "
        "*perhaps less than it*, *below 0, and less than it*, *no gain as large* say how an "
        "interval stands to it, where a sign was claimed; *found 4 times of 5* is the effect "
        "that so many seeds tell so often: where it is many times the margin, they could "
        "hardly decide.",
        "",
        "What was declared before its runs has an earlier commit than its verdict, but for "
        "`ba2016-1-sgd`, four rows of digits at own rates (6.6) and four of LeNets' batch norm "
        "at own rates (6.7): they were declared first, in a commit that is no longer there.",
        "",
        "## What is wrong in the papers as it is printed",
        "",
        faults(roots),
    ]
    for kind in ("equation", "reading", "measurement"):
        lines += ["", f"## {kind.capitalize()}s", ""]
        lines += [
            "| id | source | claim | verdict | found | note |",
            "|---|---|---|---|---|---|",
        ]
        for claim in claims:
            if claim["kind"] == kind:
                note = ". ".join(filter(None, [claim["would"], claim["note"]]))
                cells = (
                    f"`{claim['id']}`", claim["source"], claim["statement"],
                    f"**{claim['verdict']}**", found(claim), note,
                )  # fmt: skip
                lines.append(
                    "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
                )
    return "\n".join(lines) + "\n"
