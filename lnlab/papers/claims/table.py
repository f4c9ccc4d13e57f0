"""The claims as :func:`lnlab.claims` gives them: a table, a figure, a page, an explanation."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from lnlab.papers.claims.entries import AFTER, DRAWN
from lnlab.papers.claims.judge import NOT_TESTED
from lnlab.papers.claims.results import Record, load_or_judge_records

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

WIDTH = 100
INTERVAL = re.compile(r"\([\d.]+[^()]* to [\d.]+[^()]*\)")
"""An interval in brackets: "(21 to 32)", "(7 % lower to 8 % higher)"."""
MARKDOWN_HEAD = """\
# What became of the claims

`lnlab claims judge` writes this page: for each statement of a paper what it says, the result, \
the data and the setting of that result, and the place in the paper. `lnlab claims show ID \
--all` prints the rest: quotation, all other settings, commands. \
[commands.md](commands.md) says how to read the runs in Python. \
[Notebook 18](../notebooks/18_claims.ipynb) shows the claims as a table and explains how they \
are judged. Formulas are checked, unless stated otherwise, on ten random draws of weights and \
inputs, in double precision. "Declared after its runs" marks an exploratory comparison, \
chosen after its runs had been seen."""


class Claims(Sequence[Record]):
    """Statements of the papers with their verdicts, one record each.

    Prints as a table in a terminal, and as a page with details to unfold in a notebook.
    """

    def __init__(self, records: Sequence[Record], *, controls: bool = True) -> None:
        self.records, self._controls = list(records), controls

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __repr__(self) -> str:
        return self.text()

    def text(self, width: int = WIDTH) -> str:
        """Return a list, so many letters wide: word and id, the statement, the effect."""
        from lnlab.book.claims_page import LEGEND

        lines = [fill(LEGEND, width), ""]
        for one in self:
            lines.append(f"{one['verdict'].upper()}  {one['id']}")
            lines.append(fill(one["says"], width, initial_indent="  ", subsequent_indent="  "))
            effect = f"→ {one['effect']}"
            lines.append(fill(effect, width, initial_indent="  ", subsequent_indent="    "))
        return "\n".join([*lines, _describe_verdict_counts(self)])

    def to_frame(self) -> "pd.DataFrame":
        """Return a row per statement, named by its id."""
        import pandas as pd

        from lnlab.book.claims_page import COLUMNS

        rows = [{name: one.get(name) for name in COLUMNS} for one in self]
        return pd.DataFrame(rows, columns=list(COLUMNS)).set_index("id")

    def plot(self) -> "go.Figure":
        """Return the measured statements: a dot with its interval each."""
        from lnlab.papers.claims.figure import effects_figure

        return effects_figure(self.records)

    def save(self, path: Path | str) -> Path:
        """Write a page (.html), a list (.md) or a table (.csv, .json) of the claims.

        Raises:
            ValueError: for any other end of the path.
        """
        from lnlab.book.claims_page import claims_page_html

        path = Path(path)
        if path.suffix == ".csv":
            self.to_frame().to_csv(path)
        elif path.suffix == ".json":
            self.to_frame().reset_index().to_json(path, orient="records", force_ascii=False)
        elif path.suffix == ".md":
            path.write_text(claims_markdown(self), encoding="utf-8")
        elif path.suffix != ".html":
            raise ValueError(f"{path}: end its name with .html, .md, .csv or .json.")
        else:
            title = "<h1>What became of the claims</h1>"
            path.write_text(claims_page_html(self.records, title), encoding="utf-8")
        return path

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        from lnlab.book.claims_page import MIME, claims_html

        shown = {"records": self.records, "controls": self._controls}
        html = claims_html(**shown)
        return {"text/plain": repr(self), "text/html": html, MIME: shown}


def claims_markdown(records: Sequence[Record]) -> str:
    """Return a page of claims in Markdown: an anchor and a line for each, by theme."""
    from lnlab.book.claims_page import LEGEND

    findings = findings_markdown()
    themes: dict[str, list[Record]] = {}
    for one in records:
        themes.setdefault(one["theme"], []).append(one)
    blocks = [MARKDOWN_HEAD, LEGEND, f"{_describe_verdict_counts(records)}."]
    for theme, of_theme in themes.items():
        lines = [_describe_in_markdown(one, findings) for one in of_theme]
        blocks += [f"## {theme}", "\n".join(lines)]
    return "\n\n".join(blocks) + "\n"


def _describe_in_markdown(record: Record, findings: str) -> str:
    word, effect = record["verdict"], record["effect"].rstrip(".")
    line = f'- <a id="{record["id"]}"></a>**{record["says"]}**<br>'
    line += f"*{word[0].upper()}{word[1:]}*: {effect}. "
    if record["settings"]:
        near = f"{record['nearness']}; n = {record['n']}"
        after = "; declared after its runs" if record["declared"] == AFTER else ""
        line += f"Measured on {record['setting']} ({near}{after}). "
    elif record["setting"] not in ("", DRAWN):
        line += f"Checked on {record['setting']}. "
    line += f"{record['paper']}, {record['source']}, `{record['id']}`"
    for one in _settings_quoted_in_findings(record, findings):
        question = f" ({one['asks']})" if one["asks"] else ""
        line += f"<br>Also{question}: {one['effect']}; {one['verdict']}. "
        line += f"Measured on {one['name']} (n = {one['n']})."
    return line


def _settings_quoted_in_findings(record: Record, findings: str) -> list[Record]:
    """Return the settings whose interval a finding quotes and the statement's effect lacks."""
    link = f"](#{record['id']})"
    text = "\n".join(line for line in findings.splitlines() if link in line)
    quoted: dict[str, Record] = {}  # by effect: the first setting of several alike
    for one in record["settings"]:
        number, interval = re.search(r"[\d.]+", one["effect"]), INTERVAL.search(one["effect"])
        if number and interval and interval.group() not in record["effect"]:
            pattern = rf"\b{number.group()} [^()]*{re.escape(interval.group())}"
            if re.search(pattern, text):
                quoted.setdefault(one["effect"], one)
    return [*quoted.values()]


def _describe_verdict_counts(records: Sequence[Record]) -> str:
    counts = Counter(one["word"] for one in records)
    total = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    statements = "statement" if len(records) == 1 else "statements"
    return f"{len(records)} {statements}: {total}"


def claims(*ids: str) -> Claims:
    """Return the statements of the papers with their verdicts and measured effects.

    Args:
        ids: beginnings of ids such as "ba2016-6.1"; without any, all statements are returned.

    Raises:
        ValueError: if no statement's id begins so.

    Examples:
        >>> print(lnlab.claims("ba2016-6.6"))
        >>> table = lnlab.claims().to_frame()
    """
    records = load_or_judge_records()
    wanted = tuple(filter(None, ids))
    for beginning in wanted:
        if not any(one["id"].startswith(beginning) for one in records):
            raise ValueError(
                f"no statement's id begins with {beginning!r}: `lnlab claims` lists all."
            )
    chosen = [one for one in records if not wanted or one["id"].startswith(wanted)]
    return Claims(chosen, controls=not wanted)


def findings_markdown(claims_page: str = "") -> str:
    """Return the ten findings in Markdown, with links to the statements on a page."""
    text = (Path(__file__).parent / "findings.md").read_text(encoding="utf-8")
    errata = "docs/errata.md" if claims_page else "../docs/errata.md"
    text = text.replace("](#", f"]({claims_page}#").replace("](errata.md)", f"]({errata})")
    return text.replace("](claims.md)", f"]({claims_page or '../docs/claims.md'})")


def explain_record(record: Record, width: int = WIDTH, *, other_questions: bool = True) -> str:
    """Return what is known of one statement: the outcome, details, settings, command.

    Args:
        other_questions: whether settings that ask another question are listed, too.
    """
    from lnlab.book.claims_page import (
        describe_nearness_and_seeds,
        details_by_label,
        heading_and_commands_by_setting,
        titled_groups_of_settings,
    )

    outcome = f"{record['verdict'][0].upper()}{record['verdict'][1:]}: {record['effect']}"
    if record["interval"] or record.get("shares"):
        outcome += f". In brackets: the 95 % interval{'s' * record['shares']}"
    blocks = [fill(f"Claim: {record['says']}", width), fill(outcome.rstrip(".") + ".", width)]
    blocks += [
        fill(f"{label}: {text}", width, subsequent_indent="  ")
        for label, text in details_by_label(record).items()
    ]
    left_out = 0
    untested = Counter(one["data"] for one in record["settings"] if one["word"] == NOT_TESTED)
    for title, settings in titled_groups_of_settings(record):
        others = [one for one in settings if not one.get("headline")]
        others = [one for one in others if one["word"] != NOT_TESTED]
        if title and not other_questions:
            left_out += len(others)
        elif others:
            lines = [fill(f"{title or 'Other settings'}:", width, subsequent_indent="  ")]
            for one in others:
                text = f"- {one['name']} ({describe_nearness_and_seeds(one, record)}): "
                text += f"{one['effect']}; {one['verdict']}. {one['note']}"
                lines.append(fill(text, width, initial_indent="  ", subsequent_indent="    "))
            blocks.append("\n".join(lines))
    if untested and record["word"] != NOT_TESTED:
        where = ", ".join(
            f"{data} ({n} setting{'s' * (n > 1)})" for data, n in untested.items()
        )
        text = f"Not tested, as none of the networks learned: {where}."
        blocks.append(fill(text, width, subsequent_indent="  "))
    if left_out:
        blocks.append(f"`--all` lists {left_out} more, which ask another question.")
    heading, commands = heading_and_commands_by_setting(record)
    if commands:
        lines = [fill(heading, width)]
        for name, command in commands.items():
            lines += [fill(f"- {name}:", width, subsequent_indent="  ")] if name else []
            lines.append(command)
        blocks.append("\n".join(lines))
    blocks.append("How the numbers are made, and what the words mean: `lnlab claims --help`.")
    return "\n\n".join(blocks)
