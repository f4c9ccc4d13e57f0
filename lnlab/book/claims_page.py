"""The page of the claims: one line per statement, folded out to its settings and values.

It takes records as :func:`lnlab.papers.claims.results.judged` makes them.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

MIME = "application/vnd.lnlab.claims+json"
"""The type of an output from which a page shows claims: their records."""
HERE = Path(__file__).parent / "templates"
TEMPLATES = Environment(
    loader=PackageLoader("lnlab.book"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
WIDTH, HEIGHT, MOST = 220, 18, 4
"""The axis in pixels, and its ends in units of the smallest effect that matters."""
COLUMNS = (
    "id", "paper", "source", "quote", "says", "word", "size", "effect", "interval", "unit", "q",
    "n", "setting", "nearness", "declared", "command",
)  # fmt: skip
"""The columns of a download."""
WORDS = tomllib.loads((HERE / "claims.toml").read_text(encoding="utf-8"))
LEGEND: str = WORDS["legend"]
MEANINGS: dict[str, str] = WORDS["meanings"]
"""The meaning of each word."""
SIZES: dict[str, str] = WORDS["sizes"]
"""The words for the size of an effect."""
CONVENTIONS: dict[str, str] = WORDS["conventions"]
"""The conventions by which the numbers are made."""
TERMS: dict[str, str] = WORDS["terms"]
"""Terms that a statistician may not know, as patterns, and what they mean."""


def meanings_of_terms_in(text: str) -> dict[str, str]:
    """Return the terms in a text with their meanings; those of several words in any case."""
    terms = {}
    for pattern, meaning in TERMS.items():
        anycase = "(?i)" if " " in pattern or "-" in pattern else ""
        if match := re.search(rf"{anycase}(?<![\w/-])(?:{pattern})(?![\w-])", text):
            terms[match.group()] = meaning
    return terms


def explain_verdict_word_and_size(record: Mapping[str, Any]) -> str:
    """Return what the word of a statement means, and its size."""
    sizes = {"small": "but small", "open": "size uncertain"}
    word = record["word"]
    text = f"“{word}”: {record.get('why') or MEANINGS[word]}"
    if size := sizes.get(record["size"]):
        text += f"; “{size}”: {SIZES[size].partition(' (“')[0]}"
    return text


def describe_null_hypothesis(record: Mapping[str, Any]) -> str:
    """Return the hypothesis that the test of a statement rejects, or nothing."""
    if record["q"] is None or record["word"] not in ("supported", "contradicted", "mixed"):
        return ""
    if record["claims"] not in ("equal", "not more"):
        expected = record["expected"]
        return "there is no effect" if expected is None else f"it is {expected:g}"
    if record["word"] != "supported":
        return ""
    return "the difference is as large as the smallest effect that matters"


def details_by_label(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what is known of a statement beside its outcome: sentences by their label."""
    quote = f"“{record['quote']}” ({record['paper']}, {record['source']})"
    measured = bool(record["settings"])
    parts = {"Checked on": "" if measured else record["setting"]}
    if measured:
        where = [record["used"], record["nearness"], describe_seeds_and_pairs(record)]
        parts["Measured on"] = f"{record['setting']} ({'; '.join(filter(None, where))})"
        parts["What is compared"] = read = record["read"]
        if read and not record["shares"]:
            parts["What is compared"] = f"{record['quantity']}, {read}"
        lost = "" if record["kept"] else "not known, as the runs are not kept"
        parts["The two sides"] = record["levels"] or lost
        matters = record["matters"]
        if record["shares"]:
            compared = any(not (one["shares"] or one["asks"]) for one in record["settings"])
            matters = f"where all networks learned, {matters}" if compared else ""
        parts["The smallest effect that matters"] = matters
        parts["Counted as having learned"] = record["learned"]
        parts["How sure"] = explain_certainty(record)
        parts["Why this one is shown"] = record["shown"]
    parts["Note"] = record["note"]
    terms = meanings_of_terms_in(" ".join([record["says"], record["effect"], *parts.values()]))
    parts["Terms"] = "; ".join(f"{term}: {meaning}" for term, meaning in terms.items())
    sentences = {
        label: _capitalize_and_end_with_period(text) for label, text in parts.items() if text
    }
    all_settings = describe_verdict_counts_by_question(record)
    first = {"Quotation": quote} | (
        {"All settings": f"{all_settings}."} if all_settings else {}
    )
    return first | sentences


def explain_certainty(record: Mapping[str, Any]) -> str:
    """Return why the word follows, when it was declared, and the false discovery rate."""
    declared = f"it was declared before its runs, in commit {record['declared']}"
    if " " in record["declared"]:
        declared = "it was declared after its runs (exploratory, so without q)"
    text = f"{explain_verdict_word_and_size(record)}; {declared}"
    if rejected := describe_null_hypothesis(record):
        text += f"; q = {record['q']:.2g} (false discovery rate) for the test that {rejected}"
        text += ", for the first result above" * record["several"]
    return f"{text}; {record['contrary']}" if "contrary" in record else text


def describe_verdict_counts_by_question(record: Mapping[str, Any]) -> str:
    """Return the words of all settings: "1 inconclusive; against BN: 2 supported"."""
    if len(record["settings"]) < 2:
        return ""
    answers = []
    for asks, settings in group_settings_by_question(record).items():
        words = Counter(one["word"] for one in settings if not one["older"])
        untested = words.pop("not tested", 0)
        said = [f"{n} {word}" for word, n in words.most_common()]
        said += [f"nothing learned in {untested}"] * (untested > 0)
        answers.append(f"{asks}: {', '.join(said)}" if asks else ", ".join(said))
    return "; ".join(answers)


def group_settings_by_question(record: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the settings of a statement by question: its own, "", with the one shown first."""
    of: dict[str, list[Mapping[str, Any]]] = {"": []}
    for one in record["settings"]:
        of.setdefault(one["asks"], []).append(one)
    of[""].sort(key=lambda one: not one.get("headline"))
    return of


def describe_nearness_and_seeds(setting: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """Return how near a setting is, its seeds and n, and what differs from those above it."""
    near = setting["nearness"]
    if near == record["nearness"] and not setting.get("headline"):
        near = ""
    used = setting["used"] if setting["used"] != record["used"] else ""
    parts = [*filter(None, [used, near]), describe_seeds_and_pairs(setting)]
    if setting["other_matters"]:
        size = setting["matters"].partition(" (")[0]
        parts.append(f"smallest effect that matters: {size}")
    if setting["numbers_from"]:
        older = "an older version, not counted; " * setting["older"]
        parts.append(f"{older}runs not kept, values from commit {setting['numbers_from']}")
    return "; ".join(parts)


def describe_seeds_and_pairs(record: Mapping[str, Any]) -> str:
    """Return the seeds and the number of pairs of a setting: "seeds 100 to 104, n = 5"."""
    first, last = record["seeds"][0], record["seeds"][-1]
    seeds, n = f"seeds {first} to {last}", record["n"]
    if record["pairs"] == "seeds":
        return f"{seeds}, n = {n}"
    return f"{seeds}, whose mean counts for each of n = {n} {record['pairs']}"


def heading_and_commands_by_setting(record: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return a heading, and the commands that repeat a statement, by setting.

    Where the runs of the setting shown first are not kept: those of the others of its question.
    """
    if record["command"]:
        return "To compute it again:", {"": record["command"]}
    own = group_settings_by_question(record)[""]
    return (
        f"The result shown first is that of “{record['setting']}”, whose runs are not kept. "
        "To compute the other settings again:",
        {one["name"]: one["command"] for one in own if one["command"]},
    )


def titled_groups_of_settings(
    record: Mapping[str, Any],
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return the settings of a statement by question: its own, without a title, then others.

    An effect that compares what the title or the line of the statement names is cut short.
    """
    groups = []
    for asks, settings in group_settings_by_question(record).items():
        first = settings[0] if settings else {}
        title, shown = "", record.get("matters")
        if asks:
            title = f"Another question: {asks}. Claimed: {first['claimed']}"
        if asks and first["matters"] != shown:
            shown = first["matters"]
            title += f"; smallest effect that matters: {shown}"
        cut = [
            {
                **one,
                "effect": one["effect"].replace(first["compared"], "", 1),
                "other_matters": one["matters"] != shown,
            }
            for one in settings
        ]
        groups.append((title, cut))
    return groups


def _capitalize_and_end_with_period(text: str) -> str:
    text = text[0].upper() + text[1:] if re.match("[a-z]{2}", text) else text
    return text if text.endswith((".", ".”")) else f"{text}."


def claims_html(records: Sequence[Mapping[str, Any]], *, controls: bool = True) -> str:
    """Return the claims as HTML to put into a page, with their style and script.

    Args:
        controls: whether they can be filtered, sorted and downloaded.
    """
    themes = [
        (theme, list(of_theme))
        for theme, of_theme in groupby(_sort_by_theme(records), lambda one: one["theme"])
    ]
    chosen = {
        name: list(dict.fromkeys(one[name] for one in records))
        for name in ("paper", "theme", "word")
    }
    data = json.dumps([{name: one.get(name) for name in COLUMNS} for one in records])
    functions = (
        heading_and_commands_by_setting, css_classes, describe_nearness_and_seeds,
        details_by_label, format_three_significant_digits, interval_svg,
        describe_null_hypothesis, titled_groups_of_settings,
    )  # fmt: skip
    return TEMPLATES.get_template("claims.html").render(
        {function.__name__: function for function in functions},
        themes=themes, chosen=chosen, controls=controls, legend=LEGEND,
        conventions=CONVENTIONS, meanings=MEANINGS, sizes=SIZES,
        # inside a script only "</script" and "<!--" mean something: no "<" is left
        data=Markup(data.replace("<", r"\u003c")),
        style=Markup((HERE / "claims.css").read_text(encoding="utf-8")),
        script=Markup((HERE / "claims.js").read_text(encoding="utf-8")),
    )  # fmt: skip


def claims_page_html(records: Sequence[Mapping[str, Any]], before: str = "") -> str:
    """Return a whole page in one file: ``before``, trusted HTML, and the claims."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>What became of the claims · lnlab</title>\n</head>\n"
        f'<body class="lnlab-claims-page">\n{before}\n{claims_html(records)}\n</body>\n'
        "</html>\n"
    )


def _sort_by_theme(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    order = list(dict.fromkeys(one["theme"] for one in records))
    return sorted(records, key=lambda one: order.index(one["theme"]))


def css_classes(record: Mapping[str, Any]) -> str:
    """Return the classes of a record: its word, and "small" where its effect is."""
    return f"{record['word'].replace(' ', '-')} {record.get('size') or ''}".strip()


def format_three_significant_digits(value: float | None) -> str:
    """Return a number in three digits that count, or nothing."""
    return "" if value is None else f"{value:.3g}"


def interval_svg(estimate_and_ends: Sequence[float] | None, small: bool = False) -> Markup:
    """Return a dot with its interval as SVG, on an axis whose band is what does not matter.

    Args:
        estimate_and_ends: the estimate and the ends of its interval in units of the smallest
            effect that matters, the claimed side positive; None: nothing to draw.
        small: of a setting that is not the headline.
    """
    if estimate_and_ends is None:
        return Markup("")

    def to_svg_x(value: float) -> float:
        return round(WIDTH / 2 * (1 + max(-MOST, min(MOST, value)) / (MOST + 0.3)), 1)

    middle, low, high = estimate_and_ends
    y, radius, left = HEIGHT / 2, 3 if small else 4.5, to_svg_x(-1)
    label = escape(
        f"{middle:+.1f} times the smallest effect that matters, claimed side positive"
    )
    parts = [
        f'<rect class="band" x="{left}" width="{to_svg_x(1) - left}" height="{HEIGHT}"/>',
        f'<path class="zero" d="M{to_svg_x(0)} 0V{HEIGHT}"/>',
        f'<path class="interval" d="M{to_svg_x(low)} {y}H{to_svg_x(high)}"/>',
        f'<circle cx="{to_svg_x(middle)}" cy="{y}" r="{radius}"/>',
    ]
    for end, sign in ((low, -1), (high, 1)):
        if (abs(end) > MOST and end * sign > 0) or (abs(middle) > MOST and middle * sign > 0):
            tip = to_svg_x(MOST * sign) + 6 * sign
            parts.append(f'<path class="tip" d="M{tip} {y}l{-7 * sign} -5v10z"/>')
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )
