"""``lnlab audit``: a module of the user's, with every analysis that applies."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import click


@click.command()
@click.argument("target", metavar="FILE.py:FUNCTION", required=False)
@click.option("--data", help="Handed to the function: a path, say, to weights or examples.")
@click.option("--out", type=click.Path(path_type=Path), help="The page; none without it.")
@click.option(
    "--only",
    multiple=True,
    help="A rule, LN114 or eps-missing; LN1 for all of it. May be repeated.",
)
@click.option("--skip", multiple=True, help="A rule to leave out, likewise.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
@click.option(
    "--fail-on",
    type=click.Choice(["risk", "fault", "never"]),
    default="fault",
    show_default=True,
    help="The least severity that counts as a failure.",
)
@click.option(
    "--explain",
    metavar="RULE",
    help="Say what a rule means, with an example: LN114, or eps-missing.",
)
@click.pass_context
def audit(
    context: click.Context,
    target: str | None,
    data: str | None,
    out: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    as_json: bool,
    fail_on: str,
    explain: str | None,
) -> None:
    """Audit a module of your own.

    FUNCTION returns (module, input), (module, input, loss) or (module, input, target, loss).

    The input is a tensor, a tuple of all inputs, a dictionary of all by name, or an
    lnlab.auditing.Call; the loss takes what the module returns, and the target if there is one.
    Only with a target can the audit find outputs that depend on what they should predict.
    Findings are printed as they are made. A module of more than a million parameters is checked
    on all cores, or on as many as OMP_NUM_THREADS says.

    Exit status: 4 with a fault, 3 with a risk under --fail-on risk, 0 else; 1 or 2 for an
    error of use.
    """
    if explain is not None:
        from lnlab.auditing.finding import explain as explain_rule

        click.echo(explain_rule(explain))
        return
    if target is None:
        raise click.UsageError("give FILE.py:FUNCTION, or --explain and a rule.")
    from lnlab.auditing import Severity, audit

    model, x, y, loss_fn = load_model_input_target_and_loss(target, data)
    try:
        report = audit(
            model,
            x,
            y,
            loss_fn=loss_fn,
            only=only or None,
            skip=skip,
            on_finding=None if as_json else lambda finding: click.echo(f"{finding}\n"),
            progress=sys.stderr.isatty(),
        )
    except TypeError as error:
        raise ValueError(f"{target}: {error}") from error
    click.echo(report.to_json() if as_json else report.summary_with_checks_not_run())
    if out is not None:
        page = report.save(out)
        click.echo(f"{page}: the page, with the numbers behind it", err=as_json)
    if report.with_severity(Severity.FAULT) and fail_on != "never":
        context.exit(4)
    if report.with_severity(Severity.RISK) and fail_on == "risk":
        context.exit(3)


def load_model_input_target_and_loss(
    target: str, data: str | None
) -> tuple[Any, Any, Any, Any]:
    """Return module, input, target and loss (or None) of ``FILE.py:FUNCTION``.

    Its file may import files beside it.

    Raises:
        ValueError: there is none, it raises, or it returns something else.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise ValueError(
            f"{target!r} names no function: give FILE.py:FUNCTION, as net.py:make, where "
            "make() returns (module, input), (module, input, loss) or (module, input, target, "
            "loss)."
        )
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"{target!r} is no FILE.py:FUNCTION: there is no file {file!r}.")
    sys.path.append(str(path.resolve().parent))  # last: its files must not hide packages
    try:
        function = getattr(import_file(path), name, None)
        arguments = [] if data is None else [data]
        result = None if function is None else function(*arguments)
    except Exception as error:  # a user's file may raise anything
        reason = f"{target} raised {type(error).__name__}: {error}"
        raise ValueError(f"{reason} (LNLAB_TRACEBACK=1 shows where)") from error
    if function is None:
        raise ValueError(f"{target!r} is no FILE.py:FUNCTION: {file!r} has no {name!r}.")
    if not isinstance(result, tuple) or len(result) not in (2, 3, 4):
        raise ValueError(
            f"{target} returned {type(result).__name__}: let it return (module, input), "
            "(module, input, loss) or (module, input, target, loss)."
        )
    model, x, *target_and_loss = result
    y = target_and_loss[0] if len(target_and_loss) == 2 else None
    return model, x, y, target_and_loss[-1] if target_and_loss else None


def import_file(path: Path) -> ModuleType:
    """Return the module in a file, under a name that hides no other module."""
    name = f"lnlab_file_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module
