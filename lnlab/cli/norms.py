"""``lnlab norms``: what the normalizers of an installed package compute."""

import os
from pathlib import Path

import click


@click.command("norms")
@click.argument("package")
@click.option("--out", type=click.Path(path_type=Path), help="A table: .csv, .json or .html.")
def identify_norms(package: str, out: Path | None) -> None:
    """Identify the normalizers of an installed package.

    PACKAGE is a name like torch.nn. Each is identified by what it computes.

    Every class whose name contains "norm" is imported, built on the CPU and given inputs: run
    this on packages that you trust. transformers takes about two minutes.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # many small products
    from lnlab.auditing.norm_survey import survey_norms
    from lnlab.progress import progress

    survey = survey_norms(package, progress=lambda kinds: progress(kinds, len(kinds), "norms"))
    click.echo(str(survey))
    if out is not None:
        click.echo(f"{survey.save(out)}: the table")
