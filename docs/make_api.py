"""Writes api.md from the docstrings of lnlab, which is read and not imported: make docs."""

import ast
import logging
import re
import tomllib
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"
RULES = ROOT / "lnlab" / "auditing" / "rules.toml"

NAMES = {
    "lnlab": (),
    "lnlab.nn": (
        *("LayerNorm", "RMSNorm", "ScaleNorm", "GroupNorm", "InstanceNorm"),
        *("BatchNorm", "GhostBatchNorm", "BatchRenorm", "RecurrentBatchNorm"),
        *("BatchLayerNorm", "WeightNorm", "MeanOnlyBatchNorm", "WeightStandardization"),
        *("SpectralNorm", "AdaNorm", "DyT", "Derf", "Identity", "AffineNormalizer", "Linear"),
        *("Conv2d", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "Attention"),
        *("torch_state_dict", "use_statistics", "recompute_statistics"),
    ),
    "lnlab.analysis.objective": ("Objective",),
    "lnlab.training": (
        *("Experiment", "train_steps", "find_run", "build_initial_models"),
        *("fit", "evaluate", "cross_entropy_per_model", "Batches", "stack"),
    ),
    "lnlab.data": ("load", "sources", "fetch"),
    "lnlab.figures": (*("line_chart", "paired_differences", "matrices", "table"),),
    "lnlab.panels": ("invariance", "geometry", "recurrence", "landscape", "distributions"),
}
"""The names of each section; none: all that the module gives."""

TITLES = {
    "lnlab": "Train, analyse, audit",
    "lnlab.nn": "Normalizers and networks",
    "lnlab.analysis.objective": "The arguments of analyses",
    "lnlab.training": "Training",
    "lnlab.data": "Data",
    "lnlab.figures": "Figures",
    "lnlab.panels": "Panels",
}

INTRO = """# The public names

`import lnlab` gives all of this; torch and the rest are imported when they are first used. This
page is made from the docstrings (`make docs`), and its examples are run as tests.

Every result of an analysis has `.to_frame()` (a pandas table), `.plot()` (a plotly figure, with
`.show()` in a script) and `.save(path)` for a `.html`, `.csv` or `.json` file. A page needs
`plotly.min.js` (4.8 MB), which is written beside it once for all pages of the folder; that of
an audit needs nothing. Functions of `lnlab.figures` return plotly figures: `figure.show()`,
`figure.write_html(path)`. The result of a training is a `Run`; see `lnlab.training.Experiment`.
"""

SETUP = {
    "x": "x, y = torch.randn(32, 8), torch.arange(32) % 4",
    "net": "layers = nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4)\n"
    "net = nn.Sequential(*layers)",
}
"""The lines that define what examples in docstrings take as given."""

IMPORTS = {
    "torch": "import torch",
    "np": "import numpy as np",
    "nn": "from torch import nn",
    "F": "from torch.nn import functional as F",
}


def load() -> griffe.Module:
    """Return the package as griffe reads it, its docstrings in Google's form."""
    logging.getLogger("griffe").setLevel(logging.ERROR)
    package = griffe.load(
        "lnlab", search_paths=[ROOT], allow_inspection=False, docstring_parser="google"
    )
    assert isinstance(package, griffe.Module)
    return package


def lazy_names(module: griffe.Module) -> dict[str, str]:
    """Return the path of each name that a package imports on first use."""
    for node in ast.walk(ast.parse(Path(str(module.filepath)).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("lazy", "_lazy"):
            names = ast.literal_eval(node.args[1]) if len(node.args) > 1 else {}
            return {name: f"{module.path}{place}.{name}" for name, place in names.items()}
    return {}


def find(package: griffe.Module, section: str, name: str) -> griffe.Object:
    """Return the function or class of a public name."""
    module = package if section == "lnlab" else package[section.removeprefix("lnlab.")]
    path = lazy_names(module).get(name)
    found = package[path.removeprefix("lnlab.")] if path else module[name]
    return found.final_target if found.is_alias else found


def math_block(directive: re.Match[str]) -> str:
    """Return a displayed formula of Sphinx as a block of math, in which no sign is escaped."""
    lines = [line.strip() for line in directive[1].splitlines() if line.strip()]
    if any("&" in line for line in lines):
        lines = [r"\begin{aligned}", *lines, r"\end{aligned}"]
    return "\n".join(["```math", *lines, "```"])


def plain(text: str) -> str:
    """Return text of a docstring as Markdown: roles and formulas of Sphinx are replaced."""
    text = re.sub(r":math:`(.+?)`", r"$`\1`$", text, flags=re.DOTALL)
    text = re.sub(r":\w+:`~?(.+?)`", r"`\1`", text)
    text = re.sub(r"(?m)^\.\. math::(.*(?:\n[ \t]+\S.*)*)", math_block, text)
    return re.sub(r"(?<!`)``(?!`)", "`", text)


def signature(name: str, function: griffe.Function) -> str:
    """Return a call with its parameters and defaults, at most 88 characters a line."""
    parts, keywords = [], False
    for parameter in function.parameters:
        if parameter.name == "self":
            continue
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not keywords:
            parts.append("*")
        keywords |= kind in (
            griffe.ParameterKind.keyword_only, griffe.ParameterKind.var_positional
        )  # fmt: skip
        star = {"variadic positional": "*", "variadic keyword": "**"}.get(
            kind.value if kind else "", ""
        )
        default = "" if star or parameter.default is None else f"={parameter.default}"
        default = re.sub(r"^=setting\((.+?)(, \w+=.*)?\)$", r"=\1", default)  # of an experiment
        parts.append(f"{star}{parameter.name}{default}")
    lines, line = [], ""
    for part in parts:
        if len(line) + len(part) > 80:
            lines.append(line.rstrip())
            line = ""
        line += f"{part}, "
    lines.append(line.removesuffix(", "))
    inside = lines[0] if len(lines) == 1 else "\n    " + "\n    ".join(lines) + ",\n"
    if len(lines) == 1 and len(name) + len(inside) > 86:
        inside = f"\n    {inside},\n"
    return f"```\n{name}({inside})\n```"


def example(text: str) -> str:
    """Return the code of an example as it can be copied: imports and inputs before it."""
    code = "\n".join(
        line[4:] for line in text.splitlines() if line.startswith((">>> ", "... ", "..."))
    )
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    made = {
        node.id
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    setup = [line for name, line in SETUP.items() if name in used - made]
    code = "\n".join([*setup, code])
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    imports = [line for name, line in IMPORTS.items() if name in used]
    head = sorted([*imports, "import lnlab"], key=lambda line: (line.startswith("from"), line))
    return "\n".join(["```python", *head, "", code, "```"])


def returned(function: griffe.Function) -> str:
    """Return what is known of the class of a result: what it is, attributes and methods."""
    name = str(function.returns or "")
    kind = function.module.members.get(name)
    if kind is not None and kind.is_alias and kind.target_path.startswith("lnlab."):
        kind = kind.final_target
    if kind is None or kind.is_alias or not kind.is_class or not kind.docstring:
        return ""
    lines = [f"Returns `{name}`. {plain(first_line(kind))}", ""]
    for member in members(kind):
        lines.append(f"- `.{call(member)}`: {plain(first_line(member))}")
    return "\n".join(lines)


def call(member: griffe.Object) -> str:
    """Return a method with the names of its parameters, or the name of an attribute."""
    if not isinstance(member, griffe.Function):
        return member.name
    names = [parameter.name for parameter in member.parameters]
    return f"{member.name}({', '.join(name for name in names if name not in ('self', 'cls'))})"


def members(kind: griffe.Class) -> list[griffe.Object]:
    """Return the public attributes and methods of a class that have a docstring."""
    return [
        member
        for member in kind.members.values()
        if not member.is_alias and member.is_public and member.docstring
        and not member.name.startswith("_")
    ]  # fmt: skip


def first_line(thing: griffe.Object) -> str:
    """Return the first sentence of a docstring, on one line."""
    return " ".join(thing.docstring.value.split("\n\n")[0].split()) if thing.docstring else ""


def describe(package: griffe.Module, section: str, name: str) -> str:
    """Return the entry of a name: signature, text, arguments, result and example."""
    thing = find(package, section, name)
    function = thing if thing.is_function else thing.all_members.get("__init__")
    parts = [f"### {section}.{name}"]
    if function is not None:
        parts.append(signature(f"{section}.{name}", function))
    examples = []
    for part in thing.docstring.parsed if thing.docstring else []:
        if part.kind.value == "text":
            parts.append(plain(part.value))
        elif part.kind.value in ("parameters", "attributes"):
            lines = (f"- `{one.name}`: {plain(one.description)}" for one in part.value)
            parts.append("\n".join(" ".join(line.split()) for line in lines))
        elif part.kind.value == "examples":
            examples.append(example("\n".join(text for _, text in part.value)))
    if thing.is_function and (result := returned(function)):
        parts.append(result)
    return "\n\n".join([*parts, *examples])


def rules() -> str:
    """Return a table of the rules that an audit checks."""
    lines = ["| id | name | check | severity | what is found |", "|---|---|---|---|---|"]
    for name, rule in tomllib.loads(RULES.read_text()).items():
        message = re.sub(r"\{[^}]+\}", "…", rule.get("message") or rule["meaning"]).replace(
            "|", "\\|"
        )
        cells = rule["id"], name, rule["check"], rule["severity"], message
        lines.append(f"| {' | '.join(cells)} |")
    text = (
        "`only` and `skip` of `lnlab.audit` take ids, names and checks. "
        "`lnlab audit --explain ID` says what a rule means and what to do. The severity is the "
        "usual one; that of a finding may be higher or lower: LN114 is a fault if the output "
        "is NaN, and LN111 a fact if the name of the class promises no norm of torch. "
        "A finding has the attributes id, rule, severity, where, message, meaning and advice."
    )
    return "\n\n".join(["## The rules of the audit", text, "\n".join(lines)])


def experiments() -> str:
    """Return a table of the experiments: what `norm` may be, and what a run measures."""
    from lnlab import papers
    from lnlab.training.experiment import experiment_fields

    modules = (
        *("mnist", "sequential_digits", "convolutions", "order_embeddings"),
        *("attentive_reader", "skip_thoughts", "draw", "handwriting", "las", "transformer"),
    )
    classes = {f"{name}.Experiment": getattr(papers, name).Experiment for name in modules}
    for name in ("ImageExperiment", "ReviewExperiment"):
        classes[f"batch_layer_norm.{name}"] = getattr(papers.batch_layer_norm, name)
    lines = ["| lnlab.papers. | `norm` | columns of every finished run |", "|---|---|---|"]
    for name, kind in classes.items():
        choices = experiment_fields(kind)["norm"].constraints["choices"]
        norms = ", ".join(f"`{choice}`" for choice in choices)
        metrics = ", ".join((*kind.lower_is_better, *kind.higher_is_better))
        lines.append(f"| {name} | {norms} | {metrics} |")
    text = (
        "In the first three, `valid_size=N` holds out the last N training examples, which adds "
        "the columns valid_nll and valid_error. Most experiments measure more than the table "
        'says: `run.metrics().columns` lists all columns. In mnist, "layer" and "batch '
        'hidden" normalize the hidden layers only, and "layer everywhere" and "batch" the '
        'logits, too; `data="embedded"` has 1,200 training examples.'
    )
    return "\n\n".join(["## The experiments", "\n".join(lines), text])


def page() -> str:
    """Return the page."""
    package, index, parts = load(), [], []
    for section, chosen in NAMES.items():
        module = package if section == "lnlab" else package[section.removeprefix("lnlab.")]
        known = {**lazy_names(module), **module.all_members}
        names = [name for name in chosen or sorted(lazy_names(module)) if name in known]
        anchor = section.replace(".", "")
        links = (f"[{name}](#{anchor}{name.lower()})" for name in names)
        index.append(f"- **{TITLES[section]}**: {', '.join(links)}")
        parts.append(f"## {TITLES[section]}")
        parts += [describe(package, section, name) for name in names]
    index.append("- [The experiments](#the-experiments)")
    index.append("- [The rules of the audit](#the-rules-of-the-audit)")
    text = "\n\n".join([INTRO, "\n".join(index), *parts, experiments(), rules()])
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
