"""The page of the claims: one line per statement, folded out to its settings and values.

It takes records as :func:`lnlab.papers.claims.results.judged` makes them.
"""

import json
import re
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
LEGEND = (
    "In brackets: the 95 % interval, in the direction of the sentence (“27 % fewer (21 to 32)” "
    "is 21 to 32 % fewer). Supported, contradicted: the whole interval is on the claimed side "
    "of no effect, or on the other side. Inconclusive: it does not decide. Small, uncertain: "
    "compared with the smallest effect that matters, a size set for each statement."
)
MEANINGS = {
    "supported": "the 95 % interval lies wholly on the claimed side of no effect",
    "contradicted": "the 95 % interval lies wholly on the other side of no effect",
    "mixed": "another setting of the same question, as near to the paper or with learning rates"
    " chosen in another way, says the opposite, also after Holm's correction for all "
    "comparisons of the statement",
    "no difference that matters": "the 95 % interval includes 0 (no effect) and excludes every "
    "effect that matters",
    "inconclusive": "the 95 % interval includes 0 (no effect) and effects that matter; or, "
    "where two things are claimed to be equal or one not larger, it includes both what is "
    "claimed and what is not; or the shares of networks that learned cannot be told apart; or "
    "there are fewer than five pairs, or no spread between them",
    "correct": "a formula, a table or a sentence, checked: what the line says of it holds",
    "wrong as printed": "a formula, sentence or table, checked: it is not as the paper says",
    "ambiguous": "a sentence that is right in one reading and wrong in another",
    "not tested": "the data or models are out of reach, the runs are not yet done, or no "
    "network learned anything",
}
"""The meaning of each word."""
SIZES = {
    "nothing": "the whole interval is farther from no effect than the smallest effect that "
    "matters, a size set for each statement, with a reason (“large” in downloads)",
    "but small": "the whole interval is closer to no effect than the smallest effect that "
    "matters (“small” in downloads)",
    "size uncertain": "a part of the interval is closer to no effect than the smallest "
    "effect that matters, a part is not (“open” in downloads)",
}
"""The words for the size of an effect."""
CONVENTIONS = {
    "Pairs": "A seed trains both sides on the same batches, from the same weights where they "
    "have the same shapes; n counts these pairs. The interval is Student's, of the differences "
    "in the pairs. Per cents come from the logarithms of ratios, so “10 % lower” and “11 % "
    "higher” are equally far from no effect. Intervals of shares are exact (Clopper, Pearson).",
    "Other claims than a direction": "Equal: supported if the interval lies within the smallest"
    " effect that matters on both sides. Not larger: supported if it ends below that effect. "
    "Either is contradicted if it lies wholly beyond. Where a number or a factor is claimed, "
    "that takes the place of no effect.",
    "Learning rates": "“One learning rate for all” was not tuned for either side. “Each at its "
    "best learning rate (0.01, 0.003)”: that of the first side, then of the second, each the "
    "best of four to nine rates 2 to 5 times apart on other seeds, by the held-out loss at the "
    "end of training or averaged over it; “by training loss”: by that average of the training "
    "loss.",
    "Nearness": "“The paper's data and protocol”: as there, but for the seeds. “The paper's "
    "data, another protocol”: a smaller network, shorter training or other learning rates. “Not"
    " data on which the paper tests this”: it tests the sentence on other data, or on none; "
    "then the word names the data (“supported on digits”).",
    "The setting shown": "It is chosen by rule, not by result: the nearest to the paper; of "
    "these, one with each side at its best learning rate, by held-out rather than by training "
    "loss; of these, one with the most seeds; then one written down before its runs; then the "
    "first in the file of the claims. All other settings stand below it.",
    "Written down": "The commit that declared the setting before its runs. “After the runs”: "
    "exploratory, and so without q.",
    "q": "Among all tests that reject with such a q or a smaller one, about this share rejects "
    "by chance (Benjamini and Hochberg, over all settings shown that were written down before "
    "their runs). What is rejected is that there is no effect; for equal and not larger, that "
    "the difference is as large as the smallest effect that matters. q is shown where the test "
    "rejects.",
    "Formulas": "Computed in double precision for ten random draws.",
    "Commands": "`--budget paper` has the fields of the paper's experiment, `--budget notebook`"
    " those of a run of minutes; each `--set` changes one.",
}
"""The conventions by which the numbers are made."""
TERMS = {
    "LN": "layer norm, which standardizes the features of each example",
    "BN": "batch norm, which standardizes each feature over the examples of a batch",
    "BLN": "batch layer norm, a weighted sum of batch and layer norm of the same values",
    "weight norm": "weights divided by their length, times a gain",
    "group norm": "layer norm of groups of channels",
    "RMSNorm": "layer norm without subtracting the mean",
    "DyT": "dynamic tanh, tanh(αx) in place of a norm",
    "Derf": "dynamic erf, erf(αx + s) in place of a norm",
    "Keel": "layer norm before each module and after the sum, in which what skips the module "
    "counts as often as there are modules",
    "LayerNorm scaling": "pre-LN with the norm's output in layer l divided by √l",
    "residual stream": "what the modules of a transformer read and add to",
    "Peri-LN": "layer norm before and after each module",
    "pre-LN": "layer norm before each module of a transformer",
    "post-LN": "layer norm of the sum of each module of a transformer and its input",
    "population(?= statistics|'s)|(?<=of the )population": "statistics collected during "
    "training, as batch norm uses in evaluation",
    "gain|gains": "the learned factor that follows a norm",
    "bias": "the learned number that is added",
    "pre-activations?": "what a layer computes before its nonlinearity (“summed inputs”)",
    "logits": "the outputs before the softmax",
    "μ": "the mean that a norm subtracts",
    r"σ(?!\()": "the deviation by which a norm divides",
    "Fisher matrix": "the expected outer product of the gradients of the log likelihood, a "
    "metric of how far a change of parameters moves the outputs",
    "R@1|R@5|R@10": "recall: the share of queries whose match is the first (among the first 5, "
    "10) of the answers",
    "nats?": "the unit of a loss with natural logarithms",
    "variational bound": "the upper bound of the negative log likelihood that DRAW minimizes",
    "learning-rate warm-up|warm-up": "a learning rate that rises from 0 over the first updates",
    "updates": "steps of the optimizer",
    "branch|branches": "attention or the feed-forward module, whose output is added to the "
    "residual stream",
    "the authors' initialization": "initial weights drawn as in the code that the authors "
    "published",
    "as first declared|as first measured": "in its first form, before the measure or the "
    "program changed",
    "as first chosen": "at the learning rates of a first search, which was repeated because "
    "several rates tied",
    "shorter grid": "a first search over fewer learning rates",
    "LSTM|GRU": "recurrent networks with gates",
    "RNN": "a recurrent network",
    "LeNet": "a small convolutional network",
    "ResNet-8": "a small convolutional network with shortcuts",
    "LAS": "Listen, Attend and Spell, whose encoder reads speech and whose decoder writes",
    "DRAW": "a generative model that draws an image in several glimpses",
    "attentive reader": "a recurrent network that reads a text and points at the answer",
    "skip-thoughts": "a sentence encoder, trained to predict the neighbouring sentences",
    "order embeddings": "vectors of images and captions, trained so that matches are near",
    "handwriting generator": "a recurrent network that predicts the next point of the pen",
    "Adam": "an optimizer with adaptive step sizes",
    "MNIST": "28 x 28 images of handwritten digits",
    "8 x 8 digits": "1,797 images of handwritten digits, scikit-learn's",
    "digits as sequences": "8 x 8 digits read by a recurrent network, some pixels per step",
    "CIFAR-10": "60,000 small photographs in ten classes",
    "in other batches": "with the training examples in new batches, on which BN and BLN depend",
    "in the batches of its training": "with the training examples in the batches in which the "
    "network learned them",
    "IMDB": "film reviews, good or bad",
    "COCO object boxes": "pictures described by the objects in them, with captions",
    "Children's Book Test": "questions about passages of children's books, ten answers each",
    "generated cloze questions": "small stories made by rules, with one word to fill in",
    "generated stories": "small stories made by rules, with tasks made from them",
    "novels": "old novels from Project Gutenberg",
    "SICK": "pairs of sentences with a rating of how related they are",
    "MR": "film reviews to classify",
    "CR": "product reviews to classify",
    "SUBJ": "sentences to classify, subjective or not",
    "MPQA": "opinions to classify",
    "UNIPEN": "handwriting recorded with a pen",
    "FSDD": "recordings of ten spoken digits by six speakers; each is held out once",
    "Shakespeare": "his plays, predicted letter by letter",
    "progress": "how far the logarithm of the training loss has fallen",
    "change of the gradient's direction": "the angle by which updates of the lower layers turn "
    "the gradient of a layer",
    "drift of the units' means": "how far updates move the mean of a hidden unit, in standard "
    "deviations of its layer",
    "change of the gradient(?= with| on a step|,)": "the length of the change over the length "
    "of the gradient",
    "range of the loss along the gradient": "the largest less the smallest loss on the way of "
    "a step along the gradient",
    "spread of the units' contributions": "the standard deviation over units of how much each "
    "changes the loss, over its mean",
    "growth or decay of gradients": "per cent by which a gradient becomes longer or shorter "
    "when it is sent back one time step",
    "equilibrium angle": "the angle per update that Kosson et al. predict once gradient and "
    "weight decay are in balance",
    "effective learning rate": "the learning rate over the squared length of the weights",
    "W_Q": "the matrix of attention's queries",
    "W_K": "the matrix of attention's keys",
    "W_V": "the matrix of attention's values",
    "W_O": "the matrix that follows attention",
    "W_1": "the first matrix of a feed-forward module",
    "W_2": "the second matrix of a feed-forward module",
    "[TF]{4}": "a configuration of BLN, whether the batch's mean and deviation and the "
    "example's mean and deviation are those of the population (T) or current ones (F)",
}
"""Terms that a statistician may not know, as patterns, and what they mean."""


def find_terms(text: str) -> dict[str, str]:
    """Return the terms in a text with their meanings; those of several words in any case."""
    terms = {}
    for pattern, meaning in TERMS.items():
        anycase = "(?i)" if " " in pattern or "-" in pattern else ""
        if match := re.search(rf"{anycase}(?<![\w/-])(?:{pattern})(?![\w-])", text):
            terms[match.group()] = meaning
    return terms


def explain_word(record: Mapping[str, Any]) -> str:
    """Return what the word of a statement means, and its size."""
    sizes = {"small": "but small", "open": "size uncertain"}
    word = record["word"]
    text = f"“{word}”: {record.get('why') or MEANINGS[word]}"
    if size := sizes.get(record["size"]):
        text += f"; “{size}”: {SIZES[size].partition(' (“')[0]}"
    return text


def rejects(record: Mapping[str, Any]) -> str:
    """Return the hypothesis that the test of a statement rejects, or nothing."""
    if record["q"] is None or record["word"] not in ("supported", "contradicted", "mixed"):
        return ""
    if record["claims"] not in ("equal", "not more"):
        expected = record["expected"]
        return "there is no effect" if expected is None else f"it is {expected:g}"
    if record["word"] != "supported":
        return ""
    return "the difference is as large as the smallest effect that matters"


def details(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what is known of a statement beside its outcome: sentences by their label."""
    quote = f"“{record['quote']}” ({record['paper']}, {record['source']})"
    measured = bool(record["settings"])
    parts = {"Checked on": "" if measured else record["setting"]}
    if measured:
        declared = record["declared"]
        parts["Measured on"] = f"{record['setting']} ({record['nearness']}; {count(record)})"
        read = record["read"]
        parts["What is compared"] = read
        if read and not record["shares"]:
            parts["What is compared"] = f"{record['quantity']}, {read}"
        parts["The smallest effect that matters"] = (
            "" if record["shares"] else record["matters"]
        )
        if rejected := rejects(record):
            parts["False discovery rate"] = (
                f"q = {record['q']:.2g}, of the test that {rejected}"
            )
        learned = dict.fromkeys(one["learned"] for one in record["settings"] if one["learned"])
        if learned:
            parts["To learn"] = (
                f"to reach {' or '.join(learned)}; where some networks did not, the shares of "
                "those that did are compared, and no effect"
            )
        before = f"before the runs, in commit {declared}"
        after = "after the runs: exploratory, without q"
        parts["Written down"] = after if " " in declared else before
    parts |= {
        "The word": explain_word(record) if measured else "",
        "Other settings": record.get("contrary", ""),
        "Note": record["note"],
    }
    below = [f"{one['asks']} {one['name']} {one['effect']}" for one in record["settings"]]
    terms = find_terms(" ".join([record["says"], record["effect"], *parts.values(), *below]))
    parts["Terms"] = "; ".join(f"{term}: {meaning}" for term, meaning in terms.items())
    sentences = {label: _sentence(text) for label, text in parts.items() if text}
    return {"The paper": quote, **sentences}


def place(setting: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """Return how near a setting is, its seeds and n, and what differs from those above it."""
    near = setting["nearness"]
    if near == record["nearness"] and not setting.get("headline"):
        near = "as near"
    parts = [near, count(setting)]
    if setting["other_matters"]:
        size = setting["matters"].partition(" (")[0]
        parts.append(f"smallest effect that matters: {size}")
    if setting["numbers_from"]:
        parts.append(f"runs not kept, values from commit {setting['numbers_from']}")
    return "; ".join(parts)


def count(record: Mapping[str, Any]) -> str:
    """Return the seeds and the number of pairs of a setting: "seeds 100 to 104, n = 5"."""
    first, last = record["seeds"][0], record["seeds"][-1]
    seeds = f"seeds {first} to {last}, n = {record['n']}"
    return seeds if record["pairs"] == "seeds" else f"{seeds} {record['pairs']}"


def questions(record: Mapping[str, Any]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return the settings of a statement by question: its own, without a title, then others.

    An effect that compares what the title or the line of the statement names is cut short.
    """
    of: dict[str, list[Mapping[str, Any]]] = {"": []}
    for one in record["settings"]:
        of.setdefault(one["asks"], []).append(one)
    of[""].sort(key=lambda one: not one.get("headline"))
    groups = []
    for asks, settings in of.items():
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
                "effect": one["effect"].replace(f" {first['compared']}", "", 1),
                "other_matters": one["matters"] != shown,
            }
            for one in settings
        ]
        groups.append((title, cut))
    return groups


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:] if re.match("[a-z]{2}", text) else text
    return text if text.endswith((".", ".”")) else f"{text}."


def fragment(records: Sequence[Mapping[str, Any]], *, controls: bool = True) -> str:
    """Return the claims as HTML to put into a page, with their style and script.

    Args:
        controls: whether they can be filtered, sorted and downloaded.
    """
    themes = [
        (theme, list(of_theme))
        for theme, of_theme in groupby(_by_theme(records), lambda one: one["theme"])
    ]
    chosen = {
        name: list(dict.fromkeys(one[name] for one in records))
        for name in ("paper", "theme", "word")
    }
    data = json.dumps([{name: one.get(name) for name in COLUMNS} for one in records])
    return TEMPLATES.get_template("claims.html").render(
        themes=themes, chosen=chosen, controls=controls, dot=dot, kind=kind, digits=digits,
        details=details, legend=LEGEND, conventions=CONVENTIONS, meanings=MEANINGS,
        sizes=SIZES, rejects=rejects, questions=questions, place=place,
        # inside a script only "</script" and "<!--" mean something: no "<" is left
        data=Markup(data.replace("<", r"\u003c")),
        style=Markup((HERE / "claims.css").read_text(encoding="utf-8")),
        script=Markup((HERE / "claims.js").read_text(encoding="utf-8")),
    )  # fmt: skip


def page(records: Sequence[Mapping[str, Any]], before: str = "") -> str:
    """Return a whole page in one file: ``before``, trusted HTML, and the claims."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>What became of the claims · lnlab</title>\n</head>\n"
        f'<body class="lnlab-claims-page">\n{before}\n{fragment(records)}\n</body>\n</html>\n'
    )


def _by_theme(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    order = list(dict.fromkeys(one["theme"] for one in records))
    return sorted(records, key=lambda one: order.index(one["theme"]))


def kind(record: Mapping[str, Any]) -> str:
    """Return the classes of a record: its word, and "small" where its effect is."""
    return f"{record['word'].replace(' ', '-')} {record.get('size') or ''}".strip()


def digits(value: float | None) -> str:
    """Return a number in three digits that count, or nothing."""
    return "" if value is None else f"{value:.3g}"


def dot(axis: Sequence[float] | None, small: bool = False) -> Markup:
    """Return a dot with its interval as SVG, on an axis whose band is what does not matter.

    Args:
        axis: the estimate and the ends of its interval in units of the smallest effect that
            matters, the claimed side positive; None: nothing to draw.
        small: of a setting that is not the headline.
    """
    if axis is None:
        return Markup("")

    def x(value: float) -> float:
        return round(WIDTH / 2 * (1 + max(-MOST, min(MOST, value)) / (MOST + 0.3)), 1)

    middle, low, high = axis
    y, radius = HEIGHT / 2, 3 if small else 4.5
    label = escape(
        f"{middle:+.1f} times the smallest effect that matters, claimed side positive"
    )
    parts = [
        f'<rect class="band" x="{x(-1)}" width="{x(1) - x(-1)}" height="{HEIGHT}"/>',
        f'<path class="zero" d="M{x(0)} 0V{HEIGHT}"/>',
        f'<path class="interval" d="M{x(low)} {y}H{x(high)}"/>',
        f'<circle cx="{x(middle)}" cy="{y}" r="{radius}"/>',
    ]
    for end, sign in ((low, -1), (high, 1)):
        if (abs(end) > MOST and end * sign > 0) or (abs(middle) > MOST and middle * sign > 0):
            tip = x(MOST * sign) + 6 * sign
            parts.append(f'<path class="tip" d="M{tip} {y}l{-7 * sign} -5v10z"/>')
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )
