"""A survey of the normalizers of an installed package: what does each class compute?

Every class whose name contains "norm" is built with the arguments that its signature asks for,
and identified as a black box; its name and source are not looked at.
"""

from __future__ import annotations

import csv
import inspect
import pkgutil
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lnlab.analysis.magnitudes import relative_max_change
from lnlab.analysis.norm_identity import NOTHING, Divisor, NormPropertyReport, identify_norm
from lnlab.analysis.random import normal
from lnlab.analysis.result import DataFrame, TextResult, make_frame
from lnlab.auditing.norms import copy_without_nonnorms_if_any

StateDictTransfer = str  # "yes", "gain + 1", "no"; "" if not identified

WIDTH = 64
"""The number of features with which a class is built."""

SHAPES = (
    (8, 10, WIDTH),
    (8, WIDTH, 6, 6),
    (8, 6, 6, WIDTH),
    (8, WIDTH, 10),
    (8, WIDTH),
    (8, WIDTH, 4, 4, 4),
    (8, 10, 4, WIDTH),
    (8, 4, 10, WIDTH),
)
"""The shapes of input that are tried; the first one that a module keeps is taken."""

SIZE = (
    r"(size|dim|dims|feat|features|channels?|chs|shape|hidden|units|width|embd|embed|model|"
    r"planes)$|(^|_)[dnc]$"
)
"""Names of arguments that say how many features there are."""

ARGUMENTS = {
    r"(^|_)eps": 1e-5,
    r"group|heads|^num_splits$": 4,
    r"dropout": 0.0,
    r"kernel|^(stride|padding|dilation|padding_idx)$": 1,
    rf"{SIZE}|^(cin|cout)$": WIDTH,
    r"^(num_|n_)|^steps$": 8,
}
"""A value for each argument of a constructor, by patterns of names, the first that fits."""

STATUSES = ("identified", "another form", "other input", "not built", "not a normalizer")
NormClassStatus = Literal[
    "identified", "another form", "other input", "not built", "not a normalizer"
]

LAYERS = (nn.Linear, nn.Embedding, nn.modules.conv._ConvNd, nn.RNNBase, nn.MultiheadAttention)


ShapeText = str  # "(8, 64, 6, 6)"


@dataclass(frozen=True)
class NormClass:
    """A class and what it computes.

    Attributes:
        name: the class with its module.
        status: "identified", "another form" (statistics, but not those of a norm of torch.nn),
            "not a normalizer", "not built" or "other input".
        computes: the operator of torch.nn that it is or comes nearest to, and the differences;
            or why nothing can be said.
        gain: "w", "1 + w", "f(w)" or "none".
        eps: the small number with its place.
        float32: whether it computes in float32 whatever its input is.
        bfloat16_error: the largest error in bfloat16 over the largest output; nan: it raises.
        transfers: whether a state dict goes into torch.nn's class: "yes", "gain + 1" or "no".
        input: the shape that it was identified on.
    """

    name: str
    status: NormClassStatus
    computes: str
    gain: str = ""
    eps: str = ""
    float32: bool | None = None
    bfloat16_error: float | None = None
    transfers: StateDictTransfer = ""
    input: ShapeText = ""


@dataclass(frozen=True)
class PackageNormSurvey(TextResult):
    """The normalizers of a package.

    Attributes:
        package: its name.
        version: the installed one.
        classes: one for each class.
        import_errors: modules that could not be imported, with the error.
    """

    package: str
    version: str
    classes: tuple[NormClass, ...]
    import_errors: tuple[str, ...] = ()

    unwrapped_columns = (0,)

    def to_frame(self) -> DataFrame:
        """Return one row per class."""
        return make_frame(self.classes).assign(package=f"{self.package} {self.version}")

    def _lines_above_table(self) -> list[str]:
        counts = Counter(c.status for c in self.classes)
        return [f"{self.package} {self.version}", *(f"{s}: {n}" for s, n in counts.items())]

    def _header_and_rows(self) -> list[Sequence[str]]:
        columns = ("status", "computes", "gain", "eps", "transfers")
        rows = sorted(self.classes, key=lambda c: STATUSES.index(c.status))
        return [
            ("class", *columns),
            *((c.name.rpartition(".")[2], *(getattr(c, n) for n in columns)) for c in rows),
        ]


def survey_norms(
    package: str, *, progress: Callable[[list], Iterable] = iter
) -> PackageNormSurvey:
    """Identify every normalizer of an installed package.

    Args:
        package: its name as it is imported, "transformers" say, or a part of it, "torch.nn".
        progress: wraps the classes while they are identified, as ``tqdm`` does.

    Raises:
        ValueError: if the package cannot be imported, or defines no such class.
    """
    try:
        root = import_module(package)
    except ImportError as error:
        raise ValueError(f"the package {package!r} cannot be imported: {error}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of the package are not the subject
        modules, failed = import_modules_and_list_errors(root)
        classes = find_norm_classes(modules, package)
    if not classes:
        raise ValueError(
            f'{package} defines no torch module with "norm" in its name: give the package '
            "that defines them, by the name under which it is imported."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # once more: some modules change what is shown
        rows = [identify_class(kind) for kind in progress(classes)]
    top = package.partition(".")[0]
    name = metadata.packages_distributions().get(top, [top])[0]
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = getattr(root, "__version__", "of unknown version")
    return PackageNormSurvey(package, version, tuple(rows), tuple(failed))


def read_stored_norm_survey() -> list[dict[str, str]]:
    """Return the kept table: transformers, timm, torchvision and x-transformers, by class."""
    with (Path(__file__).parent / "norm_classes.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def import_modules_and_list_errors(root: ModuleType) -> tuple[list[ModuleType], list[str]]:
    """Import every module of a package; return them and the errors of those that fail."""
    modules, failed = [root], []
    paths = getattr(root, "__path__", ())
    for info in pkgutil.walk_packages(paths, f"{root.__name__}.", onerror=lambda name: None):
        # tests, programs, and the sources from which transformers generates its models
        if not re.search(r"\.(_?test(s|ing)?|conftest|__main__|modular_\w+)(\.|$)", info.name):
            try:
                with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                    modules.append(import_module(info.name))
            except Exception as error:  # a module may raise anything when it is imported
                failed.append(f"{info.name}: {type(error).__name__}: {error}")
    return modules, failed


def find_norm_classes(modules: Sequence[ModuleType], package: str) -> list[type[nn.Module]]:
    """Return the torch modules that a package defines whose names contain "norm"."""
    found = {}
    for module in modules:
        for name, kind in list(vars(module).items()):
            if (
                inspect.isclass(kind)
                and issubclass(kind, nn.Module)
                and f"{kind.__module__}.".startswith(f"{package}.")
                and re.search("norm(?!al(?!iz))", name, re.IGNORECASE)
            ):
                found[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return [found[name] for name in sorted(found)]


def identify_class(norm_class: type[nn.Module]) -> NormClass:
    """Return what a class computes, or why that cannot be said."""
    name = f"{norm_class.__module__}.{norm_class.__qualname__}"
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = build_with_guessed_arguments(norm_class).float()
        return identify_module(name, module)
    except Exception as error:  # a constructor may raise anything, and one class ends no survey
        return NormClass(name, "not built", _describe_error(error))


def identify_module(name: str, module: nn.Module) -> NormClass:
    """Find an input that a module takes, and identify what it computes."""
    layers = [type(m).__name__ for m in module.modules() if isinstance(m, LAYERS)]
    if layers:
        return NormClass(name, "not a normalizer", f"contains {layers[0]}")
    complete, module = module, copy_without_nonnorms_if_any(module)
    choices = [module]
    if gated := "gate" in inspect.signature(module.forward).parameters:
        choices = [NormWithConstantGate(module, gate) for gate in (SILU_IS_1, SIGMOID_IS_1)]
    try:
        x = find_shape_preserving_input(choices[0])
        reports = [(choice, identify_norm(choice, x)) for choice in choices]
    except Exception as error:  # so may a forward pass
        return NormClass(name, "other input", _describe_error(error))
    module, report = min(reports, key=lambda pair: len(pair[1].differences))
    more = ", with a gate" if gated else describe_activation(complete, module, x)
    return _norm_class_from_report(name, module, x, report, more)


SILU_IS_1, SIGMOID_IS_1 = 1.2784645, 40.0


class NormWithConstantGate(nn.Module):
    """A norm with a gate that multiplies its input or output, at a constant gate."""

    def __init__(self, norm: nn.Module, gate: float) -> None:
        super().__init__()
        self.norm, self.gate = norm, gate

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x, gate=torch.full_like(x, self.gate))


def _describe_error(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    if isinstance(error, UnknownArgument):
        return text
    return f"{type(error).__name__}: {text}"[:200]


class UnknownArgument(ValueError):
    """Says what a constructor needs that is not known."""


def build_with_guessed_arguments(norm_class: type[nn.Module]) -> nn.Module:
    """Return an instance whose required arguments are made up from their names.

    Raises:
        UnknownArgument: if an argument is of unknown meaning, or nothing says a size.
    """
    parameters = list(inspect.signature(norm_class.__init__).parameters.values())[1:]
    variadic = [p for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = [
        p.name
        for p in parameters
        if p not in variadic
        and (p.default is p.empty or (p.default is None and re.search(SIZE, p.name.lower())))
    ]
    if variadic and not required:  # they are handed on to torch's class
        return (
            norm_class(4, WIDTH) if issubclass(norm_class, nn.GroupNorm) else norm_class(WIDTH)
        )
    arguments = {name: guess_argument(name) for name in required if name != "config"}
    # a size may also be asked for as a shape
    choices = [arguments, {n: (4, v) if v == WIDTH else v for n, v in arguments.items()}]
    if "config" in required:
        choices = [
            {**arguments, "config": config} for config in default_model_configs(norm_class)
        ]
    first: Exception | None = None
    for choice in choices:
        try:
            return norm_class(**choice)
        except Exception as error:  # the next choice may be the one
            first = first or error
    raise first or UnknownArgument("it needs a configuration")


def guess_argument(argument_name: str) -> Any:
    """Return a value for an argument of a constructor, by its name."""
    for pattern, value in ARGUMENTS.items():
        if re.search(pattern, argument_name.lower()):
            return value
    raise UnknownArgument(
        f"its argument {argument_name!r} has no default, and its meaning is not known"
    )


def default_model_configs(norm_class: type[nn.Module]) -> Iterator[Any]:
    """Yield default configurations of the model that a class belongs to, as in transformers."""
    package = norm_class.__module__.rpartition(".")[0]
    try:
        infos = list(pkgutil.iter_modules(import_module(package).__path__))
    except (ImportError, AttributeError):
        return
    for info in infos:
        if info.name.startswith("configuration"):
            module = import_module(f"{package}.{info.name}")
            for value in [vars(module)[name] for name in sorted(vars(module))]:
                if inspect.isclass(value) and value.__module__ == module.__name__:
                    try:
                        yield value()
                    except Exception:  # some need arguments
                        continue


@torch.no_grad()
def describe_activation(complete: nn.Module, without_activation: nn.Module, x: Tensor) -> str:
    """Return words for the activation that a norm holds: after the norm, or inside it."""
    for name, child in complete.named_children():
        removed = isinstance(without_activation.get_submodule(name), nn.Identity)
        if removed and name != "drop" and not isinstance(child, nn.Identity):
            after = (
                relative_max_change(complete(x.clone()), child(without_activation(x.clone())))
                < 1e-5
            )
            kind = type(child).__name__
            return f", then {kind}" if after else f", with {kind} inside"
    return ""


def find_shape_preserving_input(module: nn.Module) -> Tensor:
    """Return an input whose shape the module keeps, if possible without a warning.

    Raises:
        ValueError: with the first shape's reason, if there is none.
    """
    # buffers of recurrent norms have an axis of time, too
    sizes = [p.numel() for p in module.parameters() if p.numel() > 1]
    width = max(sizes or [b.numel() for b in module.buffers() if b.numel() > 1], default=WIDTH)
    reason: Exception | None = None
    warned_of: Tensor | None = None
    for shape in SHAPES:
        x = normal(3, 1, *(width if n == WIDTH else n for n in shape)).float()
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                y = module(x)
        except Exception as error:  # the next shape may be the one
            reason = reason or error
            continue
        if isinstance(y, Tensor) and y.shape == x.shape:
            if not warned:
                return x
            warned_of = x if warned_of is None else warned_of
    if warned_of is not None:
        return warned_of
    if reason is None:
        raise ValueError("its output has another shape than its input")
    raise reason


def _norm_class_from_report(
    name: str, module: nn.Module, x: Tensor, report: NormPropertyReport, activation_words: str
) -> NormClass:
    roles = {role.role for role in report.roles}
    words = {"gain, 1 + ": "1 + w", "gain": "w", "gain, other": "f(w)"}
    gain = next((word for role, word in words.items() if role in roles), "none")
    row = NormClass(
        name,
        "identified",
        summarize_operator(report, module, x) + activation_words,
        gain,
        "" if report.divisor is None else describe_eps(report.divisor),
        report.computes_float64_in_float32,
        bfloat16_error(module, x),
        input=str(tuple(x.shape)),
    )
    if report.kind == NOTHING:
        pointwise = report.properties[0].found.startswith("none")
        status = row.status if pointwise else "another form"
        return replace(row, status=status, gain="", transfers="no")
    return replace(
        row, transfers="no" if activation_words else judge_parameter_transfer_to_torch(report)
    )


@torch.no_grad()
def summarize_operator(report: NormPropertyReport, module: nn.Module, x: Tensor) -> str:
    """Return the operator, and what is done otherwise but for a gain of 1 + w."""
    if report.kind == NOTHING and report.properties[0].found.startswith("none"):
        second = module(x + 2) - 2 * module(x + 1) + module(x)
        if float(second.abs().max()) < 1e-4:
            return "an affine map of each value, without statistics of its input"
        return "a function of each value, without statistics"
    if report.kind == NOTHING:
        return "; ".join(f"{p.name} {p.found}" for p in report.properties)
    differences = [
        p
        for p in report.properties
        if p.differs_from_torch and not p.name.startswith("differs") and "1 + it" not in p.found
    ]
    return "; ".join([report.kind, *(f"{p.name}: {p.found}" for p in differences)])


def describe_eps(divisor: Divisor) -> str:
    """Return the small number with its place."""
    places = {"inside": "in the root", "outside": "added to sigma", "at least": "least sigma"}
    return f"{divisor.eps:.0e} {places[divisor.eps_position]}" if divisor.eps else "none"


@torch.no_grad()
def bfloat16_error(module: nn.Module, x: Tensor) -> float:
    """Return the largest error of outputs in bfloat16, relative to the largest output.

    The reference is the module in float64 with the same parameters and inputs, which are
    rounded to bfloat16 first: 0.004 is half a unit in the last place.
    """
    half = deepcopy(module).bfloat16()
    if not module(x).any():  # the constructor left the gain empty
        for parameter in half.parameters():
            parameter.fill_(1)
    largest = 0.0
    for mean in (0.0, 10.0):
        rounded = (x + mean).bfloat16()
        try:
            y = half(rounded)
        except Exception:  # a module that does not run in bfloat16
            return float("nan")
        exact = deepcopy(half).double()(rounded.double())
        error = (y.double() - exact).abs().max() / exact.abs().max()
        largest = max(largest, float(error))
    return largest


def judge_parameter_transfer_to_torch(
    report: NormPropertyReport,
) -> Literal["no", "gain + 1", "yes"]:
    """Return whether torch.nn's class computes the same with the module's parameters."""
    if (
        report.nearest_operator is None
        or report.divisor is None
        or 0 in report.nearest_operator.over.axes
    ):
        return "no"
    # neither rounding nor a tiny least sigma matters here
    ignored = ("differs", "float32", *(["eps"] if report.divisor.eps < 1e-9 else []))
    wrong = [
        p.found
        for p in report.properties
        if p.differs_from_torch and not p.name.startswith(ignored)
    ]
    is_one_plus = ["1 + it" in found for found in wrong]
    return "no" if not all(is_one_plus) else "gain + 1" if wrong else "yes"
