"""``lnlab check``: whether everything works on this machine's device, in a file to be sent."""

import json
from collections import Counter
from pathlib import Path

import click


@click.command()
@click.option("--device", default="cuda", show_default=True, help="cuda, cuda:1, mps or cpu.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("check.json"), show_default=True
)
@click.option("--tests", default="tests", help="Which tests, of those meant for a GPU.")
@click.option("--seconds", default=90.0, show_default=True, help="How long they may take.")
@click.option("--quick", is_flag=True, help="Leave out the times of recurrent layers.")
def check(device: str, out: Path, tests: str, seconds: float, quick: bool) -> None:
    """Try a device: the tests for GPUs, a step of each task, the speed of recurrent layers.

    Says what is right, wrong, slow or missing, in about two minutes, and writes all of it to a
    file that names neither the machine nor its user. On the CPU, a trial, the tests run on a
    pretended device. Ends with 1 if something is wrong.
    """
    from lnlab.cli.bench import shared

    findings = shared("_check").checked(device, tests, seconds, quick)
    states: Counter[str] = Counter()
    while True:
        try:
            finding = next(findings)
        except StopIteration as end:
            report = end.value
            break
        states[finding.state] += 1
        click.echo(f"{finding.state:8} {finding.about}: {finding.said}")
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    counts = ", ".join(f"{states[s]} {s}" for s in ("right", "wrong", "slow", "missing"))
    click.echo(f"{counts}; all of it is in {out}")
    raise SystemExit(bool(states["wrong"]))
