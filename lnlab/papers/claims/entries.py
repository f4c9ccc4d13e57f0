"""The claims of the papers, read from TOML files: one file per paper, one entry per statement.

A file names its paper and lists its claims::

    paper = "Ba et al. (2016)"
    link = "https://arxiv.org/abs/1607.06450"

    [[claim]]
    id = "ba2016-eq6"
    place_in_paper = "5.1, eq. 6"
    theme = "Invariance"           # one of THEMES
    quote = "..."                  # the paper's own words
    says = "..."                   # the statement in plain words, one sentence

Then it has one of three forms.

**Exact**: a formula, checked in float64. ``check_call = "eq_8_divergence_error"`` or
``"table_1_row_error(layer)"`` names a function of :mod:`lnlab.papers.claims.equations`, which
returns a number per random draw. The statement is correct if all of them are at most
``check_upper_bound``, or at least ``check_lower_bound``; else it is wrong as printed, and
``correction`` says what is right. The number is a relative difference of the two things that
``compared_quantities`` names, or a change of one; with ``absolute_unit`` it is absolute, in
that unit. ``outcome_if_correct`` says it in other words where it is correct. A statement that
can be read in several ways lists ``interpretations``, each with ``says`` (a clause: "if added
to the inputs"), ``check_call`` and a bound; it is ambiguous where they disagree.
``finding_template`` says what was found, with {} for the number and {least} for the least of
the ten, where ``compared_quantities`` say it badly. ``checked_inputs`` says how, if not on
random weights and inputs.

**Not tested**: ``needed_to_test = "BookCorpus, which is not given away any more"``.

**Measured**: two arms are compared seed by seed, in one setting or several::

    arms = [{ norm = "layer" }, { norm = "batch" }]   # fields of the experiment
    measure = "trapezoid_mean_over_updates(train_nll)"          # a function of measures.py
    claimed_relation = "less"        # of the first arm: less, more, equal, or not more
    effect_type = "ratio"            # shown in per cent; or "difference"
    smallest_relevant_effect = 0.10  # 10 %, or in the unit times difference_multiplier
    smallest_effect_reason = "..."   # why that size
    quantity_and_unit = "training loss"  # of a difference "nats of training loss"

    [[claim.settings]]
    name = "MNIST, batch 128, one learning rate"
    nearness = "same data"           # paper: its data and training; same data; other data
    experiment = "mnist"
    common_config = { data = "mnist", batch_size = 128, learning_rate = 0.001 }
    seeds = [100, 104]               # the first and the last
    declared_in_commit = "64832724"  # or "after the runs"

Every field of a setting but name and effects_of_unkept_runs may stand in the claim instead, for
all its settings; a setting's own wins, and adds to ``common_config``. Optional fields:

``side_names``: the two things compared, in words ("with LN", "without normalization"), where
the arms do not give them. ``learning_rates``: one per arm; ``learning_rates_tuned_on``:
"validation" or "training", if chosen.
``difference_multiplier``: multiplies a difference (100: points). ``decimals``: of its numbers.
``reference_effect``: what the effect is compared with, in place of no effect.
``learned_condition``: "final_value(valid_error) < 0.9", what counts as having learned.
``averaged_over``: fields with several values each: every arm has a run of each, and the mean
counts.
``field_values_per_seed``: fields whose value goes with the seed in the same place (a split per
seed).
``interval_blocks``: fields whose values are the unit of the interval, each the mean over the
seeds.
``test_to_train_ratio``: test examples over training examples, for splits of the same examples.
``data_name``: the data in a word, said with the verdict where ``nearness`` is "other data".
``other_question``: another question than the claim's (batch 4): shown, but it never makes a
claim mixed.
``appended_questions``, of a claim: questions that its sentence asks as well; their answers
stand with the effect. ``note``: one sentence. ``effects_of_unkept_runs``,
``unkept_effects_commit``: effects whose runs are not kept, and the commit whose verdicts.json
has them; they take the place of ``experiment`` and ``common_config``.

With one arm its own number is judged, with four the difference of the first two less that of
the others, with three or more the first less the best of the others. ``measure`` may be a
list, one for each arm. :meth:`Statement.headline_sort_key` decides which setting is the
headline.
"""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

THEMES = (
    "Invariance", "Formulas", "Training speed", "Results", "Why it works",
    "Batch layer normalization", "Speech recognition", "Transformers",
)  # fmt: skip
NEAR = {
    "paper": "the paper's data and training",
    "same data": "the paper's data, other training",
    "other data": "not data on which the paper tests this",
}
"""Whose data and training a setting has, by its ``nearness``."""
ClaimedRelation = Literal["less", "more", "equal", "not more"]
"""The relation of the first arm to the other that is claimed."""
FieldGrid = Mapping[str, list[Any]]
"""Values by field, every combination of which is taken."""
RatePerArm = list[float]
"""The learning rate of each arm; empty where the configurations have it."""
ReadingWithCheck = dict[str, Any]
"""A way to read an exact statement: what it says, its check, bound and unit."""
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
    nearness: Literal["paper", "same data", "other data"]
    arms: list[dict[str, Any]]
    measure: str | list[str]
    claimed_relation: ClaimedRelation = "less"
    effect_type: Literal["ratio", "difference"] = "difference"
    smallest_relevant_effect: float
    smallest_effect_reason: str
    quantity_and_unit: str
    difference_multiplier: float = 1.0
    decimals: int = 0
    reference_effect: float | None = None
    learned_condition: str = ""
    side_names: list[str] = field(default_factory=list)
    experiment: str = ""
    common_config: Mapping[str, Any] = field(default_factory=dict)
    learning_rates: RatePerArm = field(default_factory=list)
    learning_rates_tuned_on: Literal["validation", "training", ""] = ""
    seeds: tuple[int, ...]
    averaged_over: FieldGrid = field(default_factory=dict)
    field_values_per_seed: Mapping[str, list[Any]] = field(default_factory=dict)
    interval_blocks: FieldGrid = field(default_factory=dict)
    test_to_train_ratio: float = 0.0
    data_name: str = ""
    other_question: str = ""
    declared_in_commit: str = AFTER
    note: str = ""
    effects_of_unkept_runs: list[float] = field(default_factory=list)
    unkept_effects_commit: str = ""

    @property
    def pair_unit_name(self) -> str:
        """The unit of the number of pairs: seeds, or speakers held out."""
        return "held-out speakers" if self.interval_blocks else "seeds"

    @property
    def measure_per_arm(self) -> list[str]:
        """The measure of each arm."""
        measure = self.measure
        return [measure] * len(self.arms) if isinstance(measure, str) else measure


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement of a paper; the fields are those of the file, described above."""

    paper: str
    id: str
    place_in_paper: str
    theme: str
    quote: str
    says: str
    check_call: str = ""
    finding_template: str = ""
    check_upper_bound: float | None = None
    check_lower_bound: float | None = None
    compared_quantities: list[str] = field(default_factory=list)
    absolute_unit: str | None = None
    outcome_if_correct: str = ""
    correction: str = ""
    checked_inputs: str = DRAWN
    interpretations: list[ReadingWithCheck] = field(default_factory=list)
    needed_to_test: str = ""
    note: str = ""
    appended_questions: list[str] = field(default_factory=list)
    settings: tuple[Comparison, ...] = ()

    @property
    def all_interpretations(self) -> list[ReadingWithCheck]:
        """Each way to read an exact statement: what it says, its check, bound and unit."""
        alone = {
            name: getattr(self, name)
            for name in (
                "says",
                "check_call",
                "finding_template",
                "check_upper_bound",
                "check_lower_bound",
            )
        }
        interpretations = self.interpretations or [
            {k: v for k, v in alone.items() if v not in (None, "")}
        ]
        shared = {
            "compared_quantities": self.compared_quantities,
            "absolute_unit": self.absolute_unit,
        }
        return [{**shared, **one} for one in interpretations]

    @staticmethod
    def headline_sort_key(setting: Comparison) -> tuple[int, int, int, bool]:
        """Return a sort key, smallest for the headline: a choice by rule, not by result.

        Nearest to the paper's data and training; then each arm at its best rate, chosen on
        validation data rather than on training data; then most seeds; then declared before its
        runs; then first in the file. A setting that asks something else is none, nor one in
        which nothing learned.
        """
        tuned = ("validation", "training", "").index(setting.learning_rates_tuned_on)
        near = [*NEAR].index(setting.nearness)
        return near, tuned, -len(setting.seeds), setting.declared_in_commit == AFTER


SHARED_FIELDS = (
    "arms", "measure", "claimed_relation", "effect_type", "smallest_relevant_effect",
    "smallest_effect_reason", "quantity_and_unit", "difference_multiplier", "decimals",
    "reference_effect", "learned_condition", "side_names", "experiment", "common_config",
    "seeds", "averaged_over", "field_values_per_seed", "interval_blocks", "test_to_train_ratio",
    "data_name", "nearness", "learning_rates", "learning_rates_tuned_on", "declared_in_commit",
)  # fmt: skip
"""Fields of a setting that may stand in its claim, for all settings."""
ALLOWED = {
    "nearness": NEAR,
    "claimed_relation": get_args(ClaimedRelation),
    "effect_type": ("ratio", "difference"),
    "learning_rates_tuned_on": ("validation", "training", ""),
}


def load_statements(folder: Path | None = None) -> list[Statement]:
    """Return the claims of all files in a folder, by default those of this package.

    Raises:
        ValueError: for what no entry may have; names file, entry and field.
    """
    folder = folder or Path(__file__).parent
    claims = [
        claim for path in sorted(folder.glob("*.toml")) for claim in read_statement_file(path)
    ]
    ids = [claim.id for claim in claims]
    for id in ids:
        if ids.count(id) > 1:
            raise ValueError(f"{folder}: two claims have the id {id}.")
    return claims


def read_statement_file(path: Path) -> list[Statement]:
    """Return the claims of one file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return [
        _make_statement(path.name, content["paper"], dict(one))
        for one in content.get("claim", [])
    ]


def _make_statement(file_name: str, paper: str, toml_entry: dict[str, Any]) -> Statement:
    entry = f"{file_name}, {toml_entry.get('id', 'an entry without id')}"
    settings = toml_entry.pop("settings", [])
    common = {name: toml_entry.pop(name) for name in SHARED_FIELDS if name in toml_entry}
    paper = toml_entry.pop("paper", paper)
    _check_field_names(entry, Statement, {"paper": paper, **toml_entry})
    _check_allowed(entry, "theme", toml_entry["theme"], THEMES)
    forms = ("check_call", "interpretations", "needed_to_test")
    if sum(bool(toml_entry.get(form)) for form in forms) + bool(settings) != 1:
        raise ValueError(f"{entry}: give one of {', '.join(forms)}, settings.")
    for one in toml_entry.get(
        "interpretations", [toml_entry] if "check_call" in toml_entry else []
    ):
        bounds = ("check_upper_bound" in one) + ("check_lower_bound" in one)
        if bounds != 1 or not {"compared_quantities", "finding_template"} & {*toml_entry, *one}:
            raise ValueError(
                f"{entry}: a check needs compared_quantities, and one of "
                "check_upper_bound and check_lower_bound."
            )
    made = tuple(_make_comparison(entry, _inherit_fields(common, one)) for one in settings)
    for part in toml_entry.get("appended_questions", []):
        _check_allowed(
            entry, "appended_questions", part, [one.other_question or one.name for one in made]
        )
    return Statement(paper=paper, settings=made, **toml_entry)


def _inherit_fields(common: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    if "arms" in setting:  # other arms have other side names
        common = {k: v for k, v in common.items() if k != "side_names"}
    if "effects_of_unkept_runs" in setting:  # there are no runs to select
        common = {k: v for k, v in common.items() if k not in ("experiment", "common_config")}
        return {**common, **setting}
    runs = {**common.get("common_config", {}), **setting.get("common_config", {})}
    return {**common, **setting, "common_config": runs}


def _make_comparison(statement_name: str, setting_fields: dict[str, Any]) -> Comparison:
    statement_name = f"{statement_name}, {setting_fields.get('name', 'a setting without name')}"
    _check_field_names(statement_name, Comparison, setting_fields)
    for name, allowed in ALLOWED.items():
        if name in setting_fields:
            _check_allowed(statement_name, name, setting_fields[name], allowed)
    if bool(setting_fields.get("effects_of_unkept_runs")) == bool(
        setting_fields.get("experiment")
    ):
        raise ValueError(
            f"{statement_name}: give experiment and common_config, or "
            "effects_of_unkept_runs and unkept_effects_commit."
        )
    first, last = setting_fields["seeds"]
    made = Comparison(**{**setting_fields, "seeds": tuple(range(first, last + 1))})
    if made.smallest_relevant_effect <= 0:
        raise ValueError(
            f"{statement_name}: smallest_relevant_effect is {made.smallest_relevant_effect}: "
            "give a size above 0."
        )
    if len(made.measure_per_arm) != len(made.arms) or len(made.learning_rates) not in (
        0,
        len(made.arms),
    ):
        raise ValueError(
            f"{statement_name}: measure and learning_rates need one value per arm."
        )
    if len(made.side_names) not in (0, 2) or (len(made.arms) == 4 and not made.side_names):
        raise ValueError(f"{statement_name}: give two side_names.")
    for values in (
        *made.field_values_per_seed.values(),
        *([made.effects_of_unkept_runs] if made.effects_of_unkept_runs else []),
    ):
        if len(values) != len(made.seeds):
            raise ValueError(
                f"{statement_name}: field_values_per_seed and effects_of_unkept_runs need "
                "one value per seed."
            )
    if made.nearness == "other data" and not made.data_name:
        raise ValueError(f"{statement_name}: data_name is missing: name the data in a word.")
    return made


def _check_field_names(
    entry_name: str, dataclass_type: type, given_fields: Mapping[str, Any]
) -> None:
    known = {one.name: one for one in fields(dataclass_type)}
    for name in given_fields:
        _check_allowed(entry_name, "field", name, known)
    for name, one in known.items():
        required = one.default is MISSING and one.default_factory is MISSING
        if required and name not in given_fields:
            raise ValueError(f"{entry_name}: {name} is missing.")


def _check_allowed(
    entry_name: str, field_name: str, value: str, allowed: Collection[str]
) -> None:
    if value not in allowed:
        raise ValueError(
            f"{entry_name}: {field_name} {value!r} is unknown: {', '.join(allowed)}."
        )


def parse_call(text: str) -> tuple[str, list[Any]]:
    """Split "name(a, 2)" into "name" and its arguments, words or numbers."""
    match = CALL.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no call: write name, or name(argument, ...).")
    name, arguments = match.groups()
    words = [word.strip() for word in arguments.split(",")] if arguments else []
    return name, [_parse_argument(word) for word in words]


def _parse_argument(word: str) -> int | float | str:
    try:
        return int(word) if word.lstrip("-").isdigit() else float(word)
    except ValueError:
        return word
