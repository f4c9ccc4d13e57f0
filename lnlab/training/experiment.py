"""The contract of an experiment: its fields, and what training asks of it."""

import json
import math
import sys
import tomllib
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    cast,
    get_args,
    get_origin,
)
from typing import get_type_hints as type_hints

import torch
from torch import Tensor, nn

from lnlab.data.dataset import ExampleKind
from lnlab.kernels import NotFusedWarning, fuse
from lnlab.seeds import read_seeds
from lnlab.training.batches import Batches
from lnlab.training.optim import Adam, clip_grad_norm_
from lnlab.training.random_state import move_to_device


def setting(
    default: Any,
    *,
    choices: Iterable[str | bool] = (),
    least: float | None = None,
    count: int | None = None,
    measured: bool = False,
) -> Any:
    """Return a field of an experiment: its default, and what else it may be.

    Args:
        default: the value if none is given, of the type of the field.
        choices: the names from which it is chosen.
        least: the smallest number, of each member where it is a tuple.
        count: how many members the tuple has; by default at least one.
        measured: True if the field adds measurements and changes nothing else: runs that
            differ in it alone are trained alike.
    """
    allowed = {"choices": tuple(choices), "least": least, "count": count, "measured": measured}
    return field(default=default, metadata=allowed)


class Field(NamedTuple):
    """A field as a class of experiments has it: name, type, default, and what it may be."""

    name: str
    type_hint: Any
    default: Any
    constraints: Mapping[str, Any]


@cache
def experiment_fields(experiment: type) -> dict[str, Field]:
    """Return the fields of a class of experiments by name.

    Where a class gives a field another default only, it may be what it may be above.
    """
    hints = type_hints(experiment)
    allowed: dict[str, Mapping[str, Any]] = {}
    for kind in reversed(experiment.__mro__):
        declared_here = vars(kind).get("__dataclass_fields__", {})
        allowed |= {n: field.metadata for n, field in declared_here.items() if field.metadata}
    return {
        one.name: Field(one.name, hints[one.name], one.default, allowed.get(one.name, {}))
        for one in fields(experiment)
    }


def convert_and_check(value: Any, field: Field) -> Any:
    """Return a value as its field holds it: a list as a tuple, an int as a float.

    Raises:
        ValueError: if it may not be that; names the field, and says what it may be.
    """
    several = get_origin(field.type_hint) is tuple
    kind = get_args(field.type_hint)[0] if several else field.type_hint
    choices, least, count = (
        field.constraints.get(name) for name in ("choices", "least", "count")
    )
    is_sequence = isinstance(value, list | tuple)
    members = list(value) if is_sequence else [value]
    if kind is float:
        members = [float(member) if type(member) is int else member for member in members]

    def is_valid_member(member: Any) -> bool:
        if type(member) is not kind or (choices and member not in choices):
            return False
        number = kind in (int, float)
        return not number or (math.isfinite(member) and (least is None or member >= least))

    right_count = len(members) == (count or max(1, len(members)))
    if several == is_sequence and right_count and all(map(is_valid_member, members)):
        return tuple(members) if several else members[0]
    if choices:
        raise ValueError(
            f"{field.name} is {value!r}: choose from {', '.join(map(str, choices))}."
        )
    words = (
        f"a tuple of {count or 'at least one'}: each {WORDS[kind]}" if several else WORDS[kind]
    )
    limit = "" if least is None else f", at least {least:g}"
    raise ValueError(f"{field.name} is {value!r}: give {words}{limit}, like {field.default!r}.")


WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}


CPU = torch.device("cpu")

LossPerSeed = Tensor  # (S,)
OneHiddenSize = tuple[int, ...]  # a tuple of one, as other experiments have several


class BatchSource(Protocol):
    """A source of batches such as :class:`lnlab.training.Batches`."""

    def __len__(self) -> int:
        """Return the number of updates in an epoch."""
        ...

    def batches_of_epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Any, Any]]:
        """Yield x and y of each batch from ``start`` on: trees of tensors (S, B, ...)."""
        ...


class Evaluation(Enum):
    """A kind of evaluation: when it is made, and so how much it may cost."""

    INITIAL = "before the first update"
    LIGHT = "on the way, often: what costs little"
    FULL = "on the way, seldom: everything that is measured on the way"
    FINAL = "after the last update, of the selected weights"


T = TypeVar("T")


class CallableWithPreset(ABCMeta):
    """Classes that are called with fields, or with a preset: ``Experiment(preset="smoke")``."""

    def __call__(cls: type[T], *args: Any, preset: str = "", **fields: Any) -> T:
        """Return an experiment; with a preset, the one that :meth:`Experiment.budget` has."""
        if preset:
            return cast(Any, cls).budget(preset, **fields)
        return cast(Any, super()).__call__(*args, **fields)


@dataclass(frozen=True)
class Experiment(metaclass=CallableWithPreset):
    """The settings of one training: one arm of an experiment, with all its seeds.

    All seeds are trained at once. Each experiment is a subclass, a frozen dataclass whose
    defaults are the settings of the paper; :func:`setting` restricts the values of a field.

    - ``Experiment.budget(name, **changes)`` returns the experiment with the settings of a
      budget: "smoke" (seconds, only to see that it runs), "notebook" or "paper".
      ``Experiment(preset=name)`` does the same.
    - ``Experiment.arms(budget, field, values, **changes)`` returns a dictionary of experiments
      that differ in one field, such as "norm", by the value of the field.

    The experiments are ``lnlab.papers.NAME.Experiment`` for the names mnist, sequential_digits,
    convolutions, order_embeddings, attentive_reader, skip_thoughts, draw, handwriting, las and
    transformer, and ``lnlab.papers.batch_layer_norm.ImageExperiment`` and ``ReviewExperiment``.
    ``lnlab train NAME --help`` lists the fields of one and their values. With
    ``data="embedded"``, the default, it trains on the small data that come with lnlab: mnist,
    for example, on 8 x 8 digits. Name the data with ``dataset().name``.

    A run has a table ``run.metrics()`` with one row per seed and update at which it was
    evaluated; its columns are update, epoch, seconds, cpu_seconds, seed, loss, and what the
    experiment measures.

    Attributes:
        name: the name of the experiment; its runs are kept under it.
        lower_is_better: the metrics that every finished run has and of which less is better.
            Tables of runs show the last of them.
        higher_is_better: the metrics of which more is better.
        eval_every: the number of updates between two full evaluations. 0 leaves it to the
            experiment: once per epoch, or more often as in mnist.
        max_grad_norm: the largest norm of the gradient, to which it is clipped; 0 does not
            clip.

    Examples:
        >>> Mnist = lnlab.papers.mnist.Experiment
        >>> arms = Mnist.arms("smoke", "norm", ("layer", "batch"), epochs=2)
        >>> curves = {}
        >>> for name, experiment in arms.items():
        ...     table = lnlab.train(experiment, root="runs").metrics()
        ...     losses = table.pivot(index="seed", columns="update", values="test_nll")
        ...     curves[name] = losses.columns, losses.to_numpy()
        >>> figure = lnlab.figures.line_chart({"": curves}, x="updates", y="test loss (nats)")
        >>> figure.write_html("curves.html")
    """

    norm: str = "layer"
    """The normalizer and its place: the arms of the paper."""
    seeds: tuple[int, ...] = setting((0,), least=0)
    """A training for each; all arms have its initial weights and batches. 3 is 0, 1, 2."""
    data: str = "embedded"
    """``embedded``, ``NAME`` or ``NAME=PATH``."""
    epochs: int = setting(1, least=1)
    """Passes over the training examples."""
    updates: int = setting(0, least=0)
    """All updates; 0: as many as ``epochs`` have."""
    batch_size: int = setting(1, least=1)
    """Examples of an update."""
    learning_rate: float = setting(1e-3, least=0)
    """The learning rate of the optimizer, before :meth:`schedule`."""
    best_metric: str = ""
    """The weights at the best value of this (validation) metric count; empty: the last ones."""
    fused: bool = True
    """Use the fast forms of layers where there are any."""

    name: ClassVar[str]
    # what the data has to offer; None: anything
    required_data_kind: ClassVar[ExampleKind | None] = None
    lower_is_better: ClassVar[tuple[str, ...]] = ()
    higher_is_better: ClassVar[tuple[str, ...]] = ()
    # without annotations: an experiment that has them as fields gives them one
    eval_every = 0
    max_grad_norm = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.seeds, int | str):
            object.__setattr__(self, "seeds", read_seeds(self.seeds))
        for name, one in experiment_fields(type(self)).items():
            object.__setattr__(self, name, convert_and_check(getattr(self, name), one))
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds is {self.seeds}: each once, or intervals are too narrow.")
        if self.best_metric and self.best_metric not in self.metrics:
            known = ", ".join(self.metrics) or "no metric, leave it empty"
            raise ValueError(f"best_metric is {self.best_metric!r}: choose from {known}.")

    # what it is: budgets, arms, configuration

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that every finished run has."""
        return (*self.lower_is_better, *self.higher_is_better)

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        """Return the budgets: ``smoke`` (seconds, for tests), ``notebook`` and ``paper``.

        They are tables such as ``[NAME.smoke]`` of ``presets.toml`` beside the class or a class
        above it. A field that is missing there has its default.
        """
        for kind in cls.__mro__:
            presets = _read_presets(kind.__module__).get(vars(kind).get("name", ""))
            if presets:
                return {
                    name: cls(**presets.get(name, {}))
                    for name in ("smoke", "notebook", "paper")
                }
        raise ValueError(f"{cls.__name__} has no presets: write them into presets.toml.")

    @classmethod
    def implied_changes(cls, budget: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return changes that follow from other changes, unless these fields are given."""
        return {}

    @classmethod
    def budget(cls, name: str, **changes: Any) -> Self:
        """Return the experiment at ``smoke``, ``notebook`` or ``paper``, with ``changes``.

        A change that is None or empty leaves the budget's own.
        """
        budgets = cls.budgets()
        if name not in budgets:
            raise ValueError(f"no budget is called {name!r}: choose from {', '.join(budgets)}.")
        empty = (None, "", (), [])
        changes = {field: value for field, value in changes.items() if value not in empty}
        return replace(budgets[name], **{**cls.implied_changes(name, changes), **changes})

    @classmethod
    def arms(
        cls,
        budget: str,
        field: str = "norm",
        values: Sequence[Any] | Mapping[str, Mapping[str, Any]] | None = None,
        **changes: Any,
    ) -> dict[str, Self]:
        """Return the arms of a comparison, by label: equal in all but what they compare.

        Each seed has the same batches in every arm, and the same initial weights where these
        have the same names and shapes.

        Args:
            budget: smoke, notebook or paper.
            field: in what they differ.
            values: those that are compared, by default all that can be chosen from. Arms that
                differ in several fields: the changes of each, by label.
            changes: what all of them have otherwise than the budget.
        """
        if not isinstance(values, Mapping):
            values = values or cls._choices(field)
            values = {name_arm(field, value): {field: value} for value in values}
        return {
            arm: replace(cls.budget(budget, **{**changes, **fields_of_arm}), **fields_of_arm)
            for arm, fields_of_arm in values.items()
        }

    @classmethod
    def _choices(cls, name: str) -> Sequence[Any]:
        known = experiment_fields(cls)
        if name not in known:
            raise ValueError(
                f"{cls.name} has no field {name!r}: choose from {', '.join(known)}."
            )
        if known[name].type_hint is bool:
            return (False, True)
        if choices := known[name].constraints.get("choices"):
            return choices
        raise ValueError(f"{name} has no list to choose from: say which values to compare.")

    def config(self) -> dict[str, Any]:
        """Return the fields that make a run this run: all, but of the data the name alone."""
        return {**asdict(self), "data": self.data.split("=")[0]}

    @classmethod
    def config_with_defaults(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a run's configuration with every field; newer ones have their defaults."""
        fields = {name: field.default for name, field in experiment_fields(cls).items()}
        return json.loads(json.dumps(fields)) | config

    @classmethod
    def from_config_ignoring_unknown(cls, config: Mapping[str, Any], **changes: Any) -> Self:
        """Return the experiment of a run's configuration, with ``changes``.

        What an experiment no longer has, and what is of the machine alone, is left out.
        """
        fields = {
            name: value for name, value in config.items() if name in experiment_fields(cls)
        }
        return cls(**{**fields, **changes})

    # what it trains, and on what

    @abstractmethod
    def dataset(self) -> Any:
        """Return the data set, as :func:`lnlab.data.load`: name, kind, checksum, licence."""

    @abstractmethod
    def model(self, seed: int, dataset: Any) -> nn.Module:
        """Return the model of one seed, whose weights depend on the seed and the sizes alone.

        Torch has been seeded with ``seed`` before. What is random here or in :meth:`loss` comes
        from torch's generators, which are kept in checkpoints.
        """

    def load_model(self, weights: Mapping[str, Tensor], dataset: Any, seed: int) -> Any:
        """Return the model of one seed with the weights of a run (each of its own shape).

        It is in evaluation mode.
        """
        model = self.model(seed, dataset)
        of_seed = f"{seed}."
        model.load_state_dict(
            {n.removeprefix(of_seed): w for n, w in weights.items() if n.startswith(of_seed)}
        )
        return model.eval()

    def fuse(self, model: nn.Module) -> nn.Module:
        """Return :func:`lnlab.fuse` of a model without its warnings, if ``fused`` is set."""
        if not self.fused:
            return model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotFusedWarning)
            return fuse(model)

    @abstractmethod
    def loss(self, output: Any, y: Any) -> LossPerSeed:
        """Return the loss of each model (S,), of trees of tensors (S, B, ...)."""

    def training_batches(
        self, dataset: Any, device: torch.device = CPU, dtype: torch.dtype = torch.float32
    ) -> BatchSource:
        """Return training batches on a device, floats in ``dtype``; an order for each seed."""
        x, y = move_to_device((dataset.train.x, dataset.train.y), device, dtype)
        return Batches(x, y, self.batch_size, self.seeds)

    def num_updates(self, updates_per_epoch: int) -> int:
        """Return the number of updates of the whole run."""
        return self.updates or self.epochs * updates_per_epoch

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer of all models' parameters, each (S, ...): Adam."""
        return Adam(parameters, lr=self.learning_rate, fused=True)

    def clip_(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip the gradient of each model to ``max_grad_norm`` before a step."""
        clip_grad_norm_(optimizer, self.max_grad_norm, len(self.seeds))

    def schedule(self, progress: float) -> float:
        """Return the factor of the learning rate at a fraction of the updates, from 0 to 1."""
        return 1.0

    # what is measured, and when

    def full_evaluation_updates(self, updates_per_epoch: int) -> Collection[int]:
        """Return updates after which all is measured; the last update always is one of them."""
        return self.updates_divisible_by(
            self.eval_every or updates_per_epoch, updates_per_epoch
        )

    def light_evaluation_updates(self, updates_per_epoch: int) -> Collection[int]:
        """Return further updates, after which only what costs little is measured."""
        return ()

    def updates_divisible_by(self, n: int, updates_per_epoch: int) -> set[int]:
        """Return 0 and every ``n``-th update after it, to the end of the run."""
        return set(range(0, self.num_updates(updates_per_epoch) + 1, n))

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> Mapping[str, Sequence[Any]]:
        """Return metrics by name: for each seed a number, or a picture (an array).

        By default :meth:`measure` of each network. ``model`` is a
        :class:`lnlab.training.Stacked`, which stays as it was; ``evaluation`` says how much
        may be measured.
        """
        return collate_rows([self.measure(net, dataset, evaluation) for net in model.unstack()])

    def measure(self, net: Any, dataset: Any, evaluation: Evaluation) -> Mapping[str, Any]:
        """Return the metrics of one network, for :meth:`evaluate`."""
        raise NotImplementedError


PresetsByExperimentAndBudget = dict[str, dict[str, dict[str, Any]]]


@cache
def _read_presets(module: str) -> PresetsByExperimentAndBudget:
    """Return the presets beside a module by experiment and budget; {} if there are none."""
    file = Path(getattr(sys.modules[module], "__file__", None) or "nowhere")
    path = file.with_name("presets.toml")
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def name_arm(field: str, value: Any) -> str:
    """Return the name of an arm that differs from others in one field: "layer", "gain 0.1"."""
    return value if isinstance(value, str) and value else f"{field} {value!r}"


def collate_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the measurements of each seed as a list for each name, as ``evaluate`` gives."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def plan_evaluations(experiment: Experiment, updates_per_epoch: int) -> dict[int, Evaluation]:
    """Return the updates after which an experiment is evaluated, and how."""
    last = experiment.num_updates(updates_per_epoch)
    points = dict.fromkeys(
        experiment.light_evaluation_updates(updates_per_epoch), Evaluation.LIGHT
    )
    points |= dict.fromkeys(
        experiment.full_evaluation_updates(updates_per_epoch), Evaluation.FULL
    )
    if 0 in points:
        points[0] = Evaluation.INITIAL
    return {n: points[n] for n in points if n < last} | {last: Evaluation.FINAL}
