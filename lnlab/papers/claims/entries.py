"""The claims of the papers, read from TOML files: one file per paper, one entry per statement.

A file names its paper and lists its claims::

    paper = "Ba et al. (2016)"
    link = "https://arxiv.org/abs/1607.06450"

    [[claim]]
    id = "ba2016-eq6"
    source = "5.1, eq. 6"          # the place in the paper
    theme = "Invariance"           # one of THEMES
    quote = "..."                  # the paper's own words
    says = "..."                   # the statement in plain words, one sentence

Then it has one of three forms.

**Exact**: a formula, checked in float64. ``check = "eq_8"`` or ``"table_1(layer)"`` names a
function of :mod:`lnlab.papers.claims.equations`, which returns a number per random draw. The
statement is correct if all of them are at most ``within``, or at least ``beyond``; else it is
wrong as printed, and ``right`` says what is right. The number is a relative difference of the
two things that ``compares`` names, or a change of one; with ``counts_in`` it is absolute, in
that unit. ``outcome`` says it in other words where it is correct. A statement that can be read
in several ways lists ``readings``, each with ``says`` (a clause: "if added to the inputs"),
``check`` and a bound; it is ambiguous where they disagree. ``finds`` says what was found, with
{} for the number and {least} for the least of the ten, where ``compares`` would say it badly.
``checked`` says how, if not on random weights and inputs.

**Not tested**: ``needs = "BookCorpus, which is not given away any more"``.

**Measured**: two arms are compared seed by seed, in one setting or several::

    arms = [{ norm = "layer" }, { norm = "batch" }]   # fields of the experiment
    measure = "mean_along(train_nll)"                 # a function of measures.py
    claims = "less"      # of the first arm: less, more, equal, or not more (than matters)
    effect = "ratio"     # shown in per cent; or "difference"
    matters = 0.10       # the smallest effect that matters: 10 %, or in the unit times scale
    reason = "..."       # why that size
    unit = "training loss"      # what is measured; of a difference "nats of training loss"

    [[claim.settings]]
    name = "MNIST, batch 128, one learning rate"
    near = "smaller"       # paper: its data and protocol; smaller: its data; other: not
    experiment = "mnist"
    runs = { data = "mnist", batch_size = 128, learning_rate = 0.001 }
    seeds = [100, 104]             # the first and the last
    declared = "64832724"          # commit, or "after the runs"

Every field of a setting but name and numbers may stand in the claim instead, for all its
settings; a setting's own wins, and adds to ``runs``. Optional fields:

``sides``: the two things compared, in words ("with LN", "without normalization"), where the
arms do not give them. ``rates``: a learning rate per arm; ``tuned_on``: "validation" or
"training", if chosen.
``scale``: multiplies a difference (100: points). ``digits``: after the decimal point.
``expect``: what the effect is compared with, in place of no effect.
``learned``: "final(valid_error) < 0.9", what counts as having learned: a baseline.
``over``: fields with several values each: every arm has a run of each, and the mean counts.
``seed_fields``: fields whose value goes with the seed in the same place (a split per seed).
``blocks``: fields whose values are the unit of the interval, each the mean over the seeds.
``shared``: test examples over training examples, for splits of the same examples.
``on``: the data in a word, said with the verdict where ``near`` is "other".
``asks``: another question than the claim's (batch 4): shown, but it never makes a claim mixed.
``parts``, of a claim: questions that its sentence asks as well; their answers stand with the
effect. ``note``: one sentence. ``numbers``, ``numbers_from``: those of runs that are not kept,
and the commit whose verdicts.json has them; they take the place of ``experiment`` and ``runs``.

With one arm its own number is judged, with four the difference of the first two less that of
the others, with three or more the first less the best of the others. ``measure`` may be a
list, one for each arm. :meth:`Statement.headline_rank` decides which setting is the headline.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

THEMES = (
    "Invariance", "Formulas", "Training speed", "Results", "Why it works",
    "Batch layer normalization", "Speech recognition", "Transformers",
)  # fmt: skip
NEAR = {
    "paper": "the paper's data and protocol",
    "smaller": "the paper's data, another protocol",
    "other": "not data on which the paper tests this",
}
CLAIMS = ("less", "more", "equal", "not more")
AFTER = "after the runs"
DRAWN = "ten random draws of weights and inputs, in double precision, with eps = 0"
CALL = re.compile(r"(\w+)(?:\(([^()]*)\))?")
CONDITION = re.compile(r"(\w+\([^()]*\)) ([<>]) (-?[\d.]+)")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A setting: where the arms were run, what is read of them, what it is held against.

    The fields are those of the file, described above.
    """

    name: str
    near: str
    arms: list[dict[str, Any]]
    measure: str | list[str]
    claims: str = "less"
    effect: str = "difference"
    matters: float
    reason: str
    unit: str
    scale: float = 1.0
    digits: int = 0
    expect: float | None = None
    learned: str = ""
    sides: list[str] = field(default_factory=list)
    experiment: str = ""
    runs: Mapping[str, Any] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    tuned_on: str = ""
    seeds: tuple[int, ...]
    over: Mapping[str, list[Any]] = field(default_factory=dict)
    seed_fields: Mapping[str, list[Any]] = field(default_factory=dict)
    blocks: Mapping[str, list[Any]] = field(default_factory=dict)
    shared: float = 0.0
    on: str = ""
    asks: str = ""
    declared: str = AFTER
    note: str = ""
    numbers: list[float] = field(default_factory=list)
    numbers_from: str = ""

    @property
    def pairs_name(self) -> str:
        """The unit of the number of pairs: seeds, or speakers held out."""
        return "held-out speakers" if self.blocks else "seeds"

    @property
    def measures(self) -> list[str]:
        """The measure of each arm."""
        measure = self.measure
        return [measure] * len(self.arms) if isinstance(measure, str) else measure


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement of a paper; the fields are those of the file, described above."""

    paper: str
    id: str
    source: str
    theme: str
    quote: str
    says: str
    check: str = ""
    finds: str = ""
    within: float | None = None
    beyond: float | None = None
    compares: list[str] = field(default_factory=list)
    counts_in: str | None = None
    outcome: str = ""
    right: str = ""
    checked: str = DRAWN
    readings: list[dict[str, Any]] = field(default_factory=list)
    needs: str = ""
    note: str = ""
    parts: list[str] = field(default_factory=list)
    settings: tuple[Comparison, ...] = ()

    @property
    def all_readings(self) -> list[dict[str, Any]]:
        """The readings of an exact statement: what each says, its check, bound and unit."""
        alone = {
            name: getattr(self, name) for name in ("says", "check", "finds", "within", "beyond")
        }
        readings = self.readings or [{k: v for k, v in alone.items() if v not in (None, "")}]
        shared = {"compares": self.compares, "counts_in": self.counts_in}
        return [{**shared, **one} for one in readings]

    @staticmethod
    def headline_rank(setting: Comparison) -> tuple[int, int, int, bool]:
        """Return what the headline is least in: it is chosen by rule, not by result.

        Nearest to the paper's data and protocol; then each arm at its best rate, chosen on
        validation data rather than on training data; then most seeds; then declared before its
        runs; then first in the file. A setting that asks something else is none, nor one in
        which nothing learned.
        """
        tuned = ("validation", "training", "").index(setting.tuned_on)
        near = [*NEAR].index(setting.near)
        return near, tuned, -len(setting.seeds), setting.declared == AFTER


SHARED_FIELDS = (
    "arms", "measure", "claims", "effect", "matters", "reason", "unit", "scale", "digits",
    "expect", "learned", "sides", "experiment", "runs", "seeds", "over", "seed_fields",
    "blocks", "shared", "on", "near", "rates", "tuned_on", "declared",
)  # fmt: skip
"""Fields of a setting that may stand in its claim, for all settings."""
ALLOWED = {"near": NEAR, "claims": CLAIMS, "effect": ("ratio", "difference"),
           "tuned_on": ("validation", "training", "")}  # fmt: skip


def load_statements(folder: Path | None = None) -> list[Statement]:
    """Return the claims of all files in a folder, by default those of this package.

    Raises:
        ValueError: for what no entry may have; names file, entry and field.
    """
    folder = folder or Path(__file__).parent
    claims = [
        claim for path in sorted(folder.glob("*.toml")) for claim in read_statements(path)
    ]
    ids = [claim.id for claim in claims]
    for id in ids:
        if ids.count(id) > 1:
            raise ValueError(f"{folder}: two claims have the id {id}.")
    return claims


def read_statements(path: Path) -> list[Statement]:
    """Return the claims of one file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return [
        _make_statement(path.name, content["paper"], dict(one))
        for one in content.get("claim", [])
    ]


def _make_statement(file: str, paper: str, given: dict[str, Any]) -> Statement:
    entry = f"{file}, {given.get('id', 'an entry without id')}"
    settings = given.pop("settings", [])
    common = {name: given.pop(name) for name in SHARED_FIELDS if name in given}
    paper = given.pop("paper", paper)
    _check_fields(entry, Statement, {"paper": paper, **given})
    _check_allowed(entry, "theme", given["theme"], THEMES)
    forms = ("check", "readings", "needs")
    if sum(bool(given.get(form)) for form in forms) + bool(settings) != 1:
        raise ValueError(f"{entry}: give one of {', '.join(forms)}, settings.")
    for one in given.get("readings", [given] if "check" in given else []):
        bounds = ("within" in one) + ("beyond" in one)
        if bounds != 1 or not {"compares", "finds"} & {*given, *one}:
            raise ValueError(f"{entry}: a check needs compares, and one of within and beyond.")
    made = tuple(_make_comparison(entry, _inherit_fields(common, one)) for one in settings)
    for part in given.get("parts", []):
        _check_allowed(entry, "parts", part, [one.asks or one.name for one in made])
    return Statement(paper=paper, settings=made, **given)


def _inherit_fields(common: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    if "numbers" in setting:  # there are no runs to select
        common = {k: v for k, v in common.items() if k not in ("experiment", "runs")}
        return _drop_sides(common, setting) | dict(setting)
    runs = {**common.get("runs", {}), **setting.get("runs", {})}
    return {**_drop_sides(common, setting), **setting, "runs": runs}


def _drop_sides(common: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a setting inherits: other arms have other names."""
    return {k: v for k, v in common.items() if k != "sides" or "arms" not in setting}


def _make_comparison(entry: str, given: dict[str, Any]) -> Comparison:
    entry = f"{entry}, {given.get('name', 'a setting without name')}"
    _check_fields(entry, Comparison, given)
    for name, allowed in ALLOWED.items():
        if name in given:
            _check_allowed(entry, name, given[name], allowed)
    if bool(given.get("numbers")) == bool(given.get("experiment")):
        raise ValueError(f"{entry}: give experiment and runs, or numbers and numbers_from.")
    first, last = given["seeds"]
    made = Comparison(**{**given, "seeds": tuple(range(first, last + 1))})
    if made.matters <= 0:
        raise ValueError(f"{entry}: matters is {made.matters}: give a size above 0.")
    if len(made.measures) != len(made.arms) or len(made.rates) not in (0, len(made.arms)):
        raise ValueError(f"{entry}: measure and rates need one value per arm.")
    if len(made.sides) not in (0, 2) or (len(made.arms) == 4 and not made.sides):
        raise ValueError(f"{entry}: name two sides.")
    for values in (*made.seed_fields.values(), *([made.numbers] if made.numbers else [])):
        if len(values) != len(made.seeds):
            raise ValueError(f"{entry}: seed_fields and numbers need one value per seed.")
    if made.near == "other" and not made.on:
        raise ValueError(f"{entry}: on is missing: name the data in a word.")
    return made


def _check_fields(entry: str, kind: type, given: Mapping[str, Any]) -> None:
    known = {one.name: one for one in fields(kind)}
    for name in given:
        _check_allowed(entry, "field", name, known)
    for name, one in known.items():
        required = one.default is MISSING and one.default_factory is MISSING
        if required and name not in given:
            raise ValueError(f"{entry}: {name} is missing.")


def _check_allowed(entry: str, name: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        raise ValueError(f"{entry}: {name} {value!r} is unknown: {', '.join(allowed)}.")


def parse_call(text: str) -> tuple[str, list[Any]]:
    """Split "name(a, 2)" into "name" and its arguments, words or numbers."""
    match = CALL.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no call: write name, or name(argument, ...).")
    name, arguments = match.groups()
    words = [word.strip() for word in arguments.split(",")] if arguments else []
    return name, [_parse_argument(word) for word in words]


def _parse_argument(word: str) -> Any:
    try:
        return int(word) if word.lstrip("-").isdigit() else float(word)
    except ValueError:
        return word
