"""The command line: ``lnlab list | run | site | train | sweep | results | data | claims |
audit | norms | bench | playground``.

What a command needs is imported when it runs: ``lnlab --help`` answers without torch.
"""

import os
from typing import Any

import click

import lnlab
from lnlab.cli import audit, bench, claims, data, norms, notebooks, playground, results, train
from lnlab.extras import explain_missing_extra

EXPECTED = (ValueError, OSError, RuntimeError, ArithmeticError, ModuleNotFoundError)
"""The errors that a user can cause; another one is a fault of lnlab's."""


class GroupWithOneLineErrors(click.Group):
    """A wrong input ends in one line that says what to do, not in a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with explain_missing_extra():
                return super().invoke(ctx)
        except EXPECTED as error:
            plain = not isinstance(error, click.exceptions.Exit | click.Abort | BrokenPipeError)
            if plain and not os.environ.get("LNLAB_TRACEBACK"):
                raise click.ClickException(str(error)) from error
            raise


@click.group(
    cls=GroupWithOneLineErrors, epilog="LNLAB_TRACEBACK=1 shows where an error came from."
)
@click.version_option(lnlab.__version__, prog_name="lnlab", message="%(prog)s %(version)s")
def app() -> None:
    """See, test and explain layer normalization."""


app.add_command(notebooks.list_notebooks)
app.add_command(notebooks.run_and_publish)
app.add_command(notebooks.make_site)
app.add_command(train.train)
app.add_command(train.sweep)
app.add_command(results.results)
app.add_command(data.data)
app.add_command(claims.claims)
app.add_command(audit.audit)
app.add_command(norms.identify_norms)
app.add_command(bench.run_benchmark)
app.add_command(playground.write_playground)
