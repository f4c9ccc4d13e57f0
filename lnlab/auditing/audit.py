"""The audit: every check on one module, one after the other, and the report of all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from lnlab.analysis.module_copy import find_norms_with_running_statistics, find_user_hooks
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.auditing import learning, signals, structure
from lnlab.auditing.finding import (
    RULES,
    CannotCheck,
    CheckTable,
    Finding,
    Findings,
    Severity,
    count_with_noun,
    select_rule_names,
)
from lnlab.auditing.subject import AuditSubject, Loss
from lnlab.progress import progress as progress_bar
from lnlab.threads import in_one_thread_if_small

CHECKS: dict[str, Callable[[AuditSubject], Findings]] = {
    "registration": signals.check_registration_and_duplicates,
    "scales": signals.check_weight_and_branch_sizes,
    "statistics over examples": structure.check_running_statistics,
    "loss": signals.check_loss_inputs,
    "modes": signals.check_train_and_eval_modes,
    "normalizers": structure.check_normalizers,
    "layout": signals.check_norm_axes_and_gains,
    "activations": learning.check_activations,
    "dead units": structure.check_dead_units,
    "inputs": signals.check_ignored_inputs,
    "backward pass": signals.check_backward_pass,
    "derivative": signals.check_wrong_derivative,
    "gradients over depth": learning.check_gradients,
    "parameters without effect": structure.check_idle_parameters,
    "independent examples": structure.check_dependent_examples,
    "precision": learning.check_precision,
    "mu and sigma in the backward pass": learning.check_gradient_taken_by_statistics,
    "weight invariances": learning.check_weight_invariances,
    "effective learning rates": learning.check_effective_rates,
    "curvature": learning.check_curvature,
}
"""The checks by name, in the order in which they run: what takes long comes last. Each yields
findings, and shows the numbers behind them."""


@dataclass(frozen=True)
class Audit(AnalysisResult):
    """The findings about one module, the most severe first; prints as a page of text.

    Attributes:
        module_class_name: the name of its class.
        about: its size, its input and how it was evaluated, in a sentence.
        findings: sorted by severity, then in the order of the checks.
        data: the numbers behind each check that ran, by the name of the check.
        not_run: the reason for each check that did not run, by its name.
        seconds: how long the audit took.
    """

    module_class_name: str
    about: str
    findings: tuple[Finding, ...]
    data: Mapping[str, CheckTable]
    not_run: Mapping[str, str]
    seconds: float

    def with_severity(self, severity: Severity | str) -> list[Finding]:
        """Return a list of the findings of one severity: "fault", "risk" or "fact".

        A finding has the attributes id, rule, severity, where, message, meaning and advice.

        Raises:
            ValueError: if there is no such severity.
        """
        return [f for f in self.findings if f.severity is Severity(severity)]

    def to_frame(self) -> DataFrame:
        """Return one row per finding: check, id, rule, severity, where, message, ..."""
        return make_frame([f.row() for f in self.findings], list(Finding.__annotations__))

    def table(self, check: str) -> DataFrame:
        """Return the numbers behind one check.

        Raises:
            KeyError: where it did not run; the message says why.
        """
        return make_frame(self._data(check).rows)

    def plot(self, check: str | None = None) -> Figure:
        """Return the curve over depth of one check; None: the first that has one.

        Raises:
            KeyError: where it did not run, or has no curve.
        """
        from lnlab.figures.curves import line_chart_over_depth

        if check is None:
            check = next((name for name, data in self.data.items() if data.plotted_column), "")
        data = self._data(check)
        if not data.plotted_column:
            raise KeyError(f"{check!r} has no curve: `table({check!r})` has its numbers.")
        rows = [row for row in data.rows if row[data.plotted_column]]
        names = [next(iter(row.values())) or "output" for row in rows]
        curve = {data.curve_axis_label: [row[data.plotted_column] for row in rows]}
        return line_chart_over_depth(names, curve, y=data.curve_axis_label)

    def _data(self, check: str) -> CheckTable:
        if check not in self.data:
            known = f"there are {', '.join(self.data)}"
            raise KeyError(f"{check!r} did not run: {self.not_run.get(check, known)}")
        return self.data[check]

    def to_json(self) -> str:
        """Return the audit as JSON; numbers that are not finite become null."""
        return json.dumps(
            {
                "module": self.module_class_name,
                "about": self.about,
                "findings": [f.row() for f in self.findings],
                "tables": {
                    # which writes null for NaN and infinities
                    name: json.loads(str(self.table(name).to_json(orient="records")))
                    for name in self.data
                },
                "not_run": dict(self.not_run),
                "seconds": self.seconds,
            }
        )

    def summary(self) -> str:
        """Return the numbers of findings of each severity and of checks, in a sentence."""
        counts = [
            f"{n} {s.word}{'s' * (n != 1)}"
            for s in Severity
            if (n := len(self.with_severity(s)))
        ]
        checks = f"{count_with_noun(len(self.data), 'check')} in {self.seconds:.1f} s"
        not_run = f", {len(self.not_run)} could not run" if self.not_run else ""
        return f"{', '.join(counts) or 'nothing to say'}; {checks}{not_run}"

    def __str__(self) -> str:
        findings = [line for f in self.findings for line in ("", str(f))]
        return "\n".join([*self._lines_above_table(), *findings])

    def _lines_above_table(self) -> list[str]:
        not_run = [f"not run: {check}: {why}" for check, why in self.not_run.items()]
        return [f"{self.module_class_name}: {self.summary()}", self.about, *not_run]

    def summary_with_checks_not_run(self) -> str:
        """Return the number of findings, how the module was evaluated, and what did not run."""
        return "\n".join(self._lines_above_table())

    def _repr_html_(self) -> str:
        table = self.to_frame().drop(columns="paper_url").to_html(index=False, border=0)
        # the texts begin on the left: JupyterLab has cells end on the right
        left = 'style="text-align: left"'
        table = table.replace("<td>", f"<td {left}>").replace("<th>", f"<th {left}>")
        return self._html_lines_above_table() + table

    def save(self, path: str | Path) -> Path:
        """Write a page that needs nothing beside it (``.html``), or the findings as a table.

        Raises:
            OSError: where it cannot be written.
            ValueError: for another ending than .html, .csv or .json.
        """
        from lnlab.auditing.report import write_page

        page = Path(path).suffix == ".html"
        return write_page(self, Path(path)) if page else super().save(path)


@in_one_thread_if_small
def audit(
    model: nn.Module,
    x: Any,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    only: Collection[str] | str | None = None,
    skip: Collection[str] | str = (),
    on_finding: Callable[[Finding], None] | None = None,
    progress: bool = False,
) -> Audit:
    """Audit a module: look for mistakes, risks and facts that its normalization brings.

    The audit works on copies: the module, its training mode, its buffers and the random state
    do not change. In the copies dropout is set to 0, and hooks are not called. A check that
    cannot run says why.

    Args:
        model: any module. If it was compiled by torch.compile, the original module is audited.
        x: the input: a tensor, a tuple of positional arguments, a mapping of keyword arguments,
            or a :class:`Call`. About 16 examples are enough; with a single example, statistics
            over examples cannot be checked.
        y: the targets that are passed to the loss, if it needs any.
        loss_fn: ``loss_fn(output, y)``, or ``loss_fn(output)`` without y; returns a scalar.
            Without a loss, the squared distance of the outputs to random targets replaces it,
            and curvature is not checked.
        only: the rules to check. Each is given by its id ("LN114"), its name ("eps-missing"),
            the beginning of several ids ("LN1") or the name of a check ("normalizers"). None
            checks all rules.
        skip: the rules to leave out, given in the same way.
        on_finding: a function that is called with each finding as soon as it is made.
        progress: whether to show a progress bar.

    Raises:
        TypeError: if ``model`` is not a module, the loss is not a function, ``y`` is one, or
            the input holds no tensor.
        ValueError: if the module cannot be copied or does not take the input, or if a rule or
            check does not exist.

    Examples:
        >>> report = lnlab.audit(net, x, y, F.cross_entropy)
        >>> print(report)
        >>> report.save("audit.html")
    """
    if callable(y):
        raise TypeError("y is a function: give the targets as y, or the loss as loss_fn=.")
    rules = (set(RULES) if only is None else select_rule_names(only)) - select_rule_names(skip)
    wanted = {RULES[rule]["check"] for rule in rules}
    names = [name for name in CHECKS if name in wanted]
    start = time.perf_counter()
    subject = AuditSubject(model, x, y, loss_fn)
    findings: list[Finding] = []
    data: dict[str, CheckTable] = {}
    not_run: dict[str, str] = {}
    for name in progress_bar(names, len(names), subject.name, shown=progress):
        subject.shown = CheckTable()
        try:
            made = [f for f in CHECKS[name](subject) if f and f.rule in rules]
            data[name] = subject.shown
        except CannotCheck as error:
            not_run[name] = _first_line_of_message(error)
        except Exception as error:  # one check must not take the others with it
            not_run[name] = f"{type(error).__name__}: {_first_line_of_message(error)}"
        else:
            findings += made
            if on_finding is not None:
                for finding in made:
                    on_finding(finding)
    findings.sort(key=lambda f: f.severity)
    seconds = time.perf_counter() - start
    return Audit(
        subject.name, _describe_subject(subject), tuple(findings), data, not_run, seconds
    )


def _first_line_of_message(error: Exception) -> str:
    """Return the first line of an error, in bounded length."""
    lines = str(error).strip().splitlines() or ["no reason was given"]
    return lines[0].partition(" Hint:")[0][:300]  # torch's are long


def _describe_subject(subject: AuditSubject) -> str:
    """Return size, input and mode of what was audited."""
    parameters = sum(p.numel() for p in subject.module.parameters())
    dtypes = [subject.dtype, *(p.dtype for p in subject.module.parameters() if p.is_complex())]
    dtype = " and ".join(dict.fromkeys(str(d).removeprefix("torch.") for d in dtypes))
    mode = "as in training" if subject.bn_stats == "batch" else "as in evaluation"
    dropout = ""
    if subject.dropout:
        dropout = f", dropout at 0 in {count_with_noun(len(subject.dropout), 'module')}"
    frozen = sum(
        not norm.training for norm in find_norms_with_running_statistics(subject.given)
    )
    if frozen and subject.given.training and subject.bn_stats == "batch":
        norms = count_with_noun(frozen, "batch norm")
        dropout += f", also {norms} that you had set to evaluation"
    if subject.noise:
        modules = count_with_noun(len(subject.noise), "module")
        dropout += f", {modules} with random numbers as in evaluation"
    if subject.is_random:
        dropout += ", random numbers are drawn in evaluation, too"
    if hooks := len(find_user_hooks(subject.given)):
        dropout += f", without your {count_with_noun(hooks, 'hook')}"
    size = f"{parameters:,} parameters in {dtype}"
    if subject.float64_copy_output_precision is not (
        subject.float64_if_possible or subject.dtype
    ):
        inside = str(subject.float64_copy_output_precision).removeprefix("torch.")
        inside = inside.replace("bfloat16", "float16 or bfloat16")
        size += f", computed in {inside} whatever the input is"
    return f"{size}, input {tuple(subject.x.shape)}, {mode}{dropout}."
