"""Write what lnlab computes as plain data: a JSON file for each part, a line for each entry.

    python tests/golden/write.py --out DIR                   write everything into DIR
    python tests/golden/write.py --compare                   compare with the committed files
    python tests/golden/write.py --against REV               compare bits with another commit
    python tests/golden/write.py --update "panels/order/*"   replace some committed entries

``--only PART`` (several are allowed) restricts each of these to a part.

The committed files prove that a change of the code's layout leaves its behaviour alone. All
that is known here of lnlab's modules and names stands in ``LNLAB``, ``NAMES`` and the few
functions below them: a commit that moves or renames something changes these lines and no
committed file.
"""

import argparse
import ast
import base64
import hashlib
import io
import json
import math
import os
import re
import subprocess
import symtable
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

LNLAB = {
    "sources": "lnlab.data:sources",
    "load": "lnlab.data:load",
    "Question": "lnlab.papers.attentive_reader.data:Question",
    "from_samples": "lnlab.papers.las.recordings:from_samples",
    "Utterance": "lnlab.papers.las.recordings:Utterance",
    "experiments": "lnlab.papers:EXPERIMENTS",
    "declared": "lnlab.training.experiment:experiment_fields",
    "initial_models": "lnlab.training.trainer:initial_models",
    "side_by_side": "lnlab.training:stack",
    "train": "lnlab.training:train_steps",
    "Maps": "lnlab.analysis.feature_maps:MapStatistics",
    "landscape_networks": "lnlab.papers.mnist:train_landscape_networks",
    "shipped_writers": "lnlab.papers.handwriting.panel:included_writers",
    "read_runs": "lnlab.training.runs:read",
}
"""Where each thing that is used below is imported from."""

NAMES: dict[str, dict[str, str]] = {
    "dataset": {},
    "experiment": {},
    "field": {},
    "arm": {},
    "metric": {},
    "panel": {},
    "plot": {},
}
"""Today's names in the code, and the names that the committed files have for them, where they
differ."""

PANELS = {
    "attention": "lnlab.papers.las.panel",
    "drawing": "lnlab.papers.draw.panel",
    "order": "lnlab.papers.order_embeddings.panel",
    "reading": "lnlab.papers.attentive_reader.panel",
    "thoughts": "lnlab.papers.skip_thoughts.panel",
    "transformer": "lnlab.papers.transformer.panel",
    "over_depth": "lnlab.papers.transformer.panel",
    "writing": "lnlab.papers.handwriting.panel",
}
"""The modules of the panels of experiments."""

LEFT_OUT_FIELDS = ("norm", "fused")
"""Fields whose choices are no variants: the arms themselves, and what each arm tries."""


class Lnlab:
    """The names of ``LNLAB``, each imported when it is used."""

    def __getattr__(self, name: str) -> Any:
        module, _, attribute = LNLAB[name].partition(":")
        return getattr(import_module(module), attribute)


lnlab = Lnlab()


def called(kind: str, name: str) -> str:
    """The name that the committed files have for something."""
    return NAMES[kind].get(name, name)


def checksum(dataset: Any) -> str:
    """The checksum of a data set, computed from what it reads or generates now."""
    return dataset.compute_checksum()


def shown(panel: Any) -> tuple[str, Mapping[str, str], Mapping[str, Any]]:
    """What a panel shows: a sentence, and the titles and the figures of its plots."""
    import plotly.graph_objects as go

    frames = panel.view(panel.state)
    sentence = next(iter(frames.values())).sentence
    titles = {name: frame.title for name, frame in frames.items()}
    return sentence, titles, {name: go.Figure(it.figure) for name, it in frames.items()}


def last_row(run: Any) -> Mapping[str, Any]:
    """The last measurements of a finished run."""
    return run.metrics().iloc[-1].to_dict()


def pictures(run: Any, seed: int) -> Mapping[int, Mapping[str, Any]]:
    """The arrays that a run kept for one of its seeds, by update and name."""
    try:
        return run.pictures(seed)
    except FileNotFoundError:  # of most runs they are not kept
        return {}


# --- plain data ------------------------------------------------------------------------------

SAMPLES = 16


def plain(value: Any, bits: bool = False) -> Any:
    """A value as JSON has it; a long array as its shape, dtype, sum, norm and 16 samples."""
    import numpy as np
    import pandas as pd

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.generic):
        return plain(value.item(), bits)
    if isinstance(value, pd.DataFrame):
        columns = {str(name): list(value[name]) for name in value}
        return plain({"index": list(value.index), "columns": columns}, bits)
    if isinstance(value, pd.Series):
        return plain({"index": list(value.index), "values": list(value)}, bits)
    if hasattr(value, "to_plotly_json"):
        return plain(value.to_plotly_json(), bits)
    if isinstance(value, np.ndarray):
        return array(value, bits) if value.size > SAMPLES else plain(value.tolist(), bits)
    if isinstance(value, Mapping) and "bdata" in value:  # an array of plotly's
        return plain(unpacked(value), bits)
    if isinstance(value, Mapping):
        return {str(k): plain(v, bits) for k, v in value.items() if k != "template"}
    if isinstance(value, Sequence):
        numbers = all(type(one) in (int, float) or isinstance(one, np.number) for one in value)
        if len(value) > SAMPLES and (numbers or all(type(one) is str for one in value)):
            return array(np.array(value), bits)
        return [plain(one, bits) for one in value]
    raise TypeError(f"{type(value).__name__} has no plain form yet: {value!r}")


def array(values: Any, bits: bool) -> dict[str, Any]:
    """A long array in short; one of texts with a hash instead of sum and norm."""
    import numpy as np

    flat = values.reshape(-1)
    places = np.linspace(0, flat.size - 1, SAMPLES).round().astype(int)
    short: dict[str, Any] = {"shape": list(values.shape)}
    if values.dtype.kind in "OUS":
        texts = [text if isinstance(text, str) else plain(text) for text in flat.tolist()]
        whole = json.dumps(texts, sort_keys=True).encode()
        chosen = [texts[place] for place in places]
        return {**short, "texts": hashlib.sha256(whole).hexdigest()[:16], "samples": chosen}
    finite = flat[np.isfinite(flat)].astype(float)
    short |= {
        "dtype": str(values.dtype),
        "finite": finite.size,
        "sum": plain(float(finite.sum())),
        "norm": plain(float(np.linalg.norm(finite))),
        "samples": [plain(rounded(flat[place])) for place in places],
    }
    if bits:
        short["sha256"] = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
    return short


def unpacked(packed: Mapping[str, Any]) -> Any:
    """An array that plotly has as text."""
    import numpy as np

    values = np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"])
    return values.reshape([int(n) for n in str(packed.get("shape", -1)).split(",")])


def rounded(value: Any) -> Any:
    """A number with as many digits as its precision needs to be found again."""
    return float(str(value)) if str(value.dtype) in ("float32", "float16") else value


def hashed(values: Iterable[Any]) -> str:
    """The hash of a column of values; whole numbers and others are the same there."""

    def simple(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [simple(one) for one in value]
        if isinstance(value, dict):
            return {name: simple(one) for name, one in sorted(value.items())}
        if value is None or isinstance(value, str):
            return value
        if hasattr(value, "tolist"):
            return simple(value.tolist())
        return float(value) if math.isfinite(value) else None

    whole = json.dumps([simple(value) for value in values])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


# --- the parts -------------------------------------------------------------------------------


def data() -> Iterator[tuple[str, Any]]:
    """Checksum, kind and licence of every data set that needs no download."""
    for source in lnlab.sources():
        if source.kind in ("embedded", "synthetic"):
            dataset = lnlab.load(source.name, source.offers)
            name = called("dataset", source.name)
            yield name, {"checksum": checksum(dataset), "kind": source.kind}


def experiments() -> Iterator[tuple[str, Any]]:
    """The arms of every experiment at smoke: the start, and three updates."""
    for name, kind in lnlab.experiments.items():
        dataset = kind.budget("smoke").dataset()
        for arm, task in kind.arms("smoke").items():
            key = f"{called('experiment', name)}/{called('arm', arm)}"
            yield key, trained(replace(task, seeds=(0,), updates=3), dataset)


def variants() -> Iterator[tuple[str, Any]]:
    """The other choices that an experiment's fields have, as of its arms."""
    for name, kind in lnlab.experiments.items():
        for field, known in lnlab.declared(kind).items():
            choices = known.allowed.get("choices") or (True, False) * (known.kind is bool)
            if field in LEFT_OUT_FIELDS or len(choices) < 2:
                continue
            arms = kind.arms("smoke", field, choices).values()
            for value, task in zip(choices, arms, strict=True):
                key = f"{called('experiment', name)}/{called('field', field)}={value}"
                task = replace(task, seeds=(0,), updates=3)
                yield key, trained(task, task.dataset())


def trained(task: Any, dataset: Any) -> dict[str, Any]:
    """The start of a model in float32 and, by the reference code, in float64; its losses over
    a few updates, and what is measured after them."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        steps = lnlab.train(task, root=Path(folder), device="cpu")
        losses = []
        while True:
            try:
                losses.append(float(next(steps).loss[0]))
            except StopIteration as ended:
                run = ended.value
                break
        row = {
            called("metric", name): value
            for name, value in last_row(run).items()
            if "seconds" not in name
        }
        kept = pictures(run, 0)
    reference = replace(task, fused=False)
    return {
        "losses": losses,
        "measured": row,
        "pictures": {str(update): kept[update] for update in kept},
        "float32": start(task, dataset, torch.float32),
        "float64": start(reference, dataset, torch.float64),
    }


def start(task: Any, dataset: Any, dtype: Any) -> dict[str, Any]:
    """Batch, output, loss and norm of the gradient of a model before its first update."""
    import torch

    model = lnlab.side_by_side(lnlab.initial_models(task, dataset)).to(dtype)
    if dtype == torch.float64:  # initial weights are drawn in float32, and known to 1e-7 only
        draw_weights(model)
    x, y = next(iter(task.batches(dataset, dtype=dtype).epoch(0)))
    torch.manual_seed(0)
    output = model(x)
    loss = task.loss(output, y).sum()
    parameters = [p for p in model.parameters() if p.requires_grad]
    slopes = torch.autograd.grad(loss, parameters, allow_unused=True)
    squares = [slope.double().square().sum() for slope in slopes if slope is not None]
    leaves = torch.utils._pytree.tree_leaves
    return {
        "batch": leaves((x, y)),
        "output": leaves(output),
        "loss": loss.item(),
        "gradient norm": float(sum(squares)) ** 0.5,
        "parameters": sum(p.numel() for p in parameters),
    }


def draw_weights(model: Any) -> None:
    """Give a model weights that are the same on every processor, as large as its own."""
    import torch

    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            start = parameter.flatten()[0].item()
            constant = bool((parameter == start).all())
            size = 0.1 if constant else float(f"{parameter.std().item():.2g}")
            drawn = size * random(number).standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.as_tensor(drawn + start * constant))


def panels() -> Iterator[tuple[str, Any]]:
    """Sentence, titles and figures of every panel at some of its states."""
    import torch

    for name, (given, states) in panels_given().items():
        make = getattr(import_module(PANELS.get(name, "lnlab.panels")), name)
        for number, state in enumerate(states):
            panel = make(*given, **state)
            with torch.no_grad():
                sentence, titles, figures = shown(panel)
            panel.close()
            yield (
                f"{called('panel', name)}/{number}",
                {
                    "state": {called("field", field): value for field, value in state.items()},
                    "sentence": sentence,
                    "plots": {
                        called("plot", plot): {"title": titles[plot], "figure": figure}
                        for plot, figure in figures.items()
                    },
                },
            )


def panels_given() -> dict[str, tuple[tuple, list[dict[str, Any]]]]:
    """What each panel is given, and the states it is looked at in."""
    arms = {"none": 0, "layer": 1}
    return {
        "invariance": ((), [
            {},
            {"normalizers": ("batch", "ghost batch", "recurrent batch", "batch layer"),
             "transformation": 2, "delta": 10.0, "sign": -1, "mode": "recomputed"},
            {"normalizers": ("layer", "rms", "group", "scale"), "transformation": 4,
             "eps": 0.0},
            {"normalizers": ("weight", "weight, mean-only batch", "weight standardization",
                             "spectral"), "transformation": 6, "delta": 0.01},
            {"normalizers": ("none", "layer", "ada", "dyt"), "transformation": 9,
             "dtype": "float32", "batch": 1, "mode": "frozen"},
        ]),
        "geometry": ((), [
            {},
            {"normalizers": ("layer", "weight"), "family": "Bernoulli", "length": 5.0},
            {"family": "categorical", "inputs": 0.2, "units": 4},
        ]),
        "landscape": (lnlab.landscape_networks(), [
            {},
            {"statistics": "frozen", "extent": 2.0, "seed": 1},
            {"normalizer": "layer", "size": 3.0, "lengths": "stay", "extent": 0.5},
        ]),
        "recurrence": ((), [
            {},
            {"cell": "LSTM", "normalizers": ("none", "layer", "rms", "weight"), "steps": 25},
            {"cell": "GRU", "recurrent": 0.5, "inputs": 2.0, "gain": 0.1, "steps": 50},
            {"cell": "RNN, tanh", "recurrent": 0.8},
        ]),
        "transformer": ((), [
            {"depth": 4},
            {"depth": 2, "kind": "rms", "places": ("pre", "post", "sandwich")},
            {"depth": 1, "kind": "dyt"},
        ]),
        "over_depth": ((), [
            {"depth": 4},
            {"depth": 12, "arms": ("post", "lns"), "initialisation": "scaled"},
        ]),
        "distributions": ((recorded(),), [
            {},
            {"net": "wide", "arms": ("layer",), "what": "gradients", "step": 10},
        ]),
        "positions": ((feature_maps(),), [
            {},
            {"norm": "none", "padding": "reflection", "time": "after", "layer": "second"},
        ]),
        "attention": (({arm: recognizer(seed) for arm, seed in arms.items()}, utterances()), [
            {}, {"example": 1, "epoch": 0.0},
        ]),
        "drawing": (({arm: drawer(seed) for arm, seed in arms.items()}, digits()), [
            {}, {"picture": 1, "glimpse": 2, "update": 40},
        ]),
        "reading": (({arm: reader(seed) for arm, seed in arms.items()}, questions()), [
            {}, {"question": 1, "update": 0},
        ]),
        "order": (untrained("order_embeddings"), [
            {}, {"caption": "a small red heart left of a square", "net": "layer"},
        ]),
        "thoughts": (untrained("skip_thoughts", updates=(0, 10)), [
            {}, {"sentence": "the king went home", "book": 1, "update": 0},
        ]),
        "writing": ((lnlab.shipped_writers(), []), [
            {}, {"text": "quick fox", "bias": 2.0, "update": 150, "pen": 40},
        ]),
    }  # fmt: skip


def runs() -> Iterator[tuple[str, Any]]:
    """Every kept run: configuration, data, endings, and a hash of each column of its metrics.

    A run is found again by its seconds, which no other run shares and no migration changes.
    """
    for run in lnlab.read_runs(ROOT / "results"):
        frame = run.metrics()
        columns = {called("metric", name): hashed(frame[name]) for name in frame}
        kept = [pictures(run, seed) for seed in dict.fromkeys(frame["seed"])]
        whole = json.dumps(plain(kept, bits=True), sort_keys=True).encode()
        outcomes = run.result.get("outcomes", {})
        yield (
            f"{called('experiment', run.task)}/{columns['seconds']}",
            {
                "config": {
                    called("field", field): value for field, value in run.config.items()
                },
                "data": [run.data["name"], run.data["kind"], run.data["checksum"][:16]],
                "rows": len(frame),
                "columns": columns,
                "pictures": hashlib.sha256(whole).hexdigest()[:16] if any(kept) else None,
                "outcomes": [[seed, *outcomes[seed].values()] for seed in outcomes],
            },
        )


# --- what panels are given -------------------------------------------------------------------


def random(seed: int) -> Any:
    import numpy as np

    return np.random.default_rng(seed)


def finished(rows: Mapping[str, Any], kept: Mapping[int, Any], **config: Any) -> Any:
    """A run, as panels read it."""
    import pandas as pd

    frame = pd.DataFrame(dict(rows))
    return SimpleNamespace(metrics=lambda: frame, pictures=lambda seed: kept, config=config)


def recorded() -> dict[str, Any]:
    """Quantiles of three layers at three steps, as a recorder gives them."""
    import numpy as np
    import pandas as pd

    percents = (5, 25, 50, 75, 95)

    def frame(scale: float) -> Any:
        return pd.DataFrame(
            {"what": what, "step": step, "name": f"layers.{layer}"}
            | {
                f"q{q:02d}": scale * (step + 1) * place
                for q, place in zip(percents, np.linspace(-layer, layer, 5), strict=True)
            }
            for what in ("activations", "gradients")
            for step in (0, 5, 10)
            for layer in (1, 2, 3)
        )

    return {
        "deep": {"none": frame(1.0), "layer": frame(2.0)},
        "wide": {"none": frame(3.0), "layer": frame(4.0)},
    }


def feature_maps() -> dict[tuple[str, str, str], Any]:
    """Maps of two arms, paddings, times and layers."""
    import torch

    drawn = torch.Generator().manual_seed(0)

    def maps(side: int) -> Any:
        return lnlab.Maps(*torch.rand(3, 2, side, side, generator=drawn).double())

    return {
        (arm, padding, time): {"first": maps(8), "second": maps(4)}
        for arm in ("layer", "none")
        for padding in ("zeros", "reflection")
        for time in ("before", "after")
    }


def utterances() -> list[Any]:
    times = random(0).uniform(0.1, 0.2, 3).cumsum()
    sound = random(0).normal(0, 0.1, 400 + 79 * 160)  # 80 frames
    return [
        lnlab.Utterance(
            name=f"seven {number}", speaker="seven", units=("seven", "b"),
            recording=lnlab.from_samples(sound, 16_000), begins=times[:2], ends=times[1:],
        )
        for number in range(2)
    ]  # fmt: skip


def recognizer(seed: int) -> Any:
    """A run that kept its attention to two utterances at two moments."""
    rows = {
        "seed": [0, 0], "update": [0, 7], "epoch": [0.0, 1.0], "test_error": [0.5, 0.25],
        "hypotheses": [[["seven"], ["b", "seven"]], [[], ["b"]]],
    }  # fmt: skip
    draw = random(seed)
    kept = {
        update: {f"attention {number}": draw.dirichlet([1.0] * 40, 2) for number in range(2)}
        for update in rows["update"]
    }
    return finished(rows, kept, encoder_layers=2)


def digits() -> Any:
    return 255 * random(9).integers(0, 2, (3, 6, 6), "uint8")


def drawer(seed: int, glimpses: int = 3) -> Any:
    """A run that kept drawings of two pictures at two moments."""
    draw = random(seed)
    rows = {
        "seed": [0] * 3, "update": [0, 40, 80], "valid_bound": [180.0, 90.25, 80.5],
        "valid_kl": [0.0, 8.0, 9.0],
    }  # fmt: skip
    kept = {
        update: {
            "canvas": draw.integers(0, 256, (glimpses, 2, 6, 6), "uint8"),
            "windows": draw.uniform(1, 4, (2, 4, glimpses, 2)).astype("float32"),
            "dreams": draw.integers(0, 256, (16, 6, 6), "uint8"),
        }
        for update in (40, 80)
    }
    return finished(rows, kept, read_size=2, write_size=5, glimpses=glimpses)


def questions() -> list[Any]:
    names = ("@entity0", "@entity1", "@entity2")
    passage = ("@entity0 met @entity1 .", "@entity1 met @entity2 .")
    return [
        lnlab.Question(f"met {number}", passage, "@entity0 met @placeholder", names, names[1])
        for number in range(2)
    ]


def reader(seed: int) -> Any:
    """A run that kept its attention to two questions at two moments."""
    rows = {
        "seed": [0, 0], "update": [0, 70], "valid_error": [0.5, 0.25],
        "candidate_probabilities": [[[0.5, 0.2, 0.3]] * 2, [[0.1, 0.8, 0.1]] * 2],
    }  # fmt: skip
    draw = random(seed)
    kept = {
        update: {f"attention {number}": draw.dirichlet([1.0] * 9) for number in range(2)}
        for update in rows["update"]
    }
    return finished(rows, kept)


def untrained(experiment: str, updates: tuple[int, ...] = ()) -> tuple[dict[str, Any], Any]:
    """Two models of an experiment that never learned, and its data; with ``updates`` several
    of each, as if kept after these."""
    kind = lnlab.experiments[experiment]
    dataset = kind.budget("smoke").dataset()
    models: dict[str, Any] = {}
    for norm in ("none", "layer"):
        tasks = [kind.budget("smoke", norm=norm, seeds=(seed,)) for seed in updates or (0,)]
        several = [lnlab.initial_models(task, dataset)[0].eval() for task in tasks]
        models[norm] = dict(zip(updates, several, strict=True)) if updates else several[0]
    return models, dataset


# --- cells of notebooks ----------------------------------------------------------------------

KEPT = "read_kept_runs("
"""The text by which a cell reads kept runs."""

TRAINS = re.compile(r"\b(fit|train|cached_call|find_run|read_runs)\(")
"""Calls by which a cell trains, or reads what was trained; what depends on one is left out."""


def notebooks() -> Iterator[tuple[str, Any]]:
    """What the cells of notebooks show of kept runs: tables, curves, printed text."""
    os.environ["LNLAB_BUDGET"] = "notebook"
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        codes = {c["id"]: "".join(c["source"]) for c in cells if c["cell_type"] == "code"}
        wanted, needed = of_kept_runs(codes)
        space: dict[str, Any] = {"__name__": "__main__"}
        for id in needed:
            shows = shown_by(codes[id], space)
            if id in wanted and shows:
                yield f"{path.stem[:2]}/{id}", shows


def of_kept_runs(codes: Mapping[str, str]) -> tuple[set[str], list[str]]:
    """The cells that depend on kept runs and need no training, and all that they need."""
    made = {id: names_made(code) for id, code in codes.items()}
    used = {id: names_used(code) for id, code in codes.items()}
    makers: dict[str, list[str]] = {}  # of a name as it is by now: who made it, and changed it
    needs: dict[str, set[str]] = {}
    for id in codes:
        direct = {maker for name in used[id] for maker in makers.get(name, ())}
        needs[id] = {id}.union(*(needs[other] for other in direct))
        for name, anew in made[id].items():
            makers[name] = [id] if anew else [*makers.get(name, ()), id]
    trains = {id for id in codes if TRAINS.search(codes[id])}
    reads = {id for id in codes if KEPT in codes[id]}
    wanted = {id for id in codes if needs[id] & reads and not needs[id] & trains}
    needed = set().union(*(needs[id] for id in wanted))
    return wanted, [id for id in codes if id in needed]


def names_made(code: str) -> dict[str, bool]:
    """The names that a cell makes (True), or of which it changes a part (False)."""
    top = symtable.symtable(code, "cell", "exec")
    changed = {
        name.id: False
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store)
        for name in ast.walk(node.value)
        if isinstance(name, ast.Name)
    }
    symbols = top.get_symbols()
    return changed | {
        one.get_name(): True
        for one in symbols
        if one.is_assigned() or one.is_imported() or one.is_namespace()
    }


def names_used(code: str) -> set[str]:
    """The names that a cell needs from cells above it, within its functions, too."""
    made: set[str] = set()
    found: set[str] = set()
    for line in ast.parse(code).body:
        here = names_read(ast.unparse(line))
        if isinstance(line, ast.For):
            here -= {*names_made(ast.unparse(line.target) + " = 0")} - names_read(
                ast.unparse(line.iter)
            )
        found |= here - made
        made |= {name for name, anew in names_made(ast.unparse(line)).items() if anew}
    return found


def names_read(code: str) -> set[str]:
    """The names that code reads, but for those that belong to its functions."""
    tables, found = [symtable.symtable(code, "cell", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {
            one.get_name()
            for one in table.get_symbols()
            if one.is_referenced() and (one.is_global() or table.get_type() == "module")
        }
    return found


def shown_by(code: str, space: dict[str, Any]) -> dict[str, Any]:
    """What a cell shows when it is run: what it prints, and the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, values = io.StringIO(), []
    space["display"] = lambda *shown: values.extend(shown)
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), space)
        if last is not None:
            values.append(eval(compile(ast.Expression(last.value), "cell", "eval"), space))
    shows: dict[str, Any] = {"printed": printed.getvalue()} if printed.getvalue() else {}
    if values := [framed(value) for value in values if value is not None]:
        shows["shown"] = values
    return shows


def framed(value: Any) -> Any:
    """A table without what stands around it: a style, or what filters its rows."""
    if hasattr(value, "to_plotly_json"):
        return value
    return getattr(value, "frame", getattr(value, "data", value))


# --- writing and comparing -------------------------------------------------------------------

PARTS: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {
    "data": data,
    "experiments": experiments,
    "variants": variants,
    "panels": panels,
    "runs": runs,
    "notebooks": notebooks,
}

Entries = dict[str, Any]

TOLERANCES = (
    ("data/*", 0.0),
    ("runs/*", 0.0),
    # pixels that hardly vary are divided by their deviation, in float32
    ("*/bln-pictures/*/float64/*", 1e-4),
    ("*/float64/*", 1e-12),
    # the divergence of Gaussians that are nearly the same, by numbers that are much larger
    ("*/draw/*/float32/*", 1e-3),
    # small states that a norm makes large, rounding errors included
    ("*/las/*/float32/*", 1e-3),
    # ratios of changes that are as small as rounding errors in models that have not learned yet
    ("*/measured/beta", 1.0),
    ("*/measured/variation", 1.0),
    # errors of few examples, correlations of few pairs: one that changes sides counts
    ("*/measured/*", 0.2),
    ("*/las/*/pictures/*", 5e-2),
    # sums of many products, and three updates by Adam, which divides gradients by their size
    ("experiments/*", 1e-4),
    ("variants/*", 1e-4),
    # models in float32, whose vectors are nearly equal before they have learned
    ("panels/order/*", 1e-5),
    ("panels/thoughts/*", 1e-5),
    ("panels/writing/*", 1e-5),
    # the smallest eigenvalues of matrices that are nearly singular
    ("panels/geometry/*", 1e-5),
    # logarithms of defects that are rounding errors
    ("panels/invariance/*/data/0/z/*", 0.1),
    # defects that are hardly larger than these
    ("panels/invariance/*", 1e-6),
    ("*", 1e-12),
)
"""The largest relative difference of a number by the path of where it stands; of several paths
the first counts. Where it is more than 1e-12 of float64, a comment has the reason: so far apart
are AVX-512 and SSE. All else must be the same: words, whole numbers, checksums. What one
machine computes is compared in all its bits (``--against``)."""

ROUNDING = (("panels/invariance/4/*", 1e-5), ("*", 1e-12))
"""The number below which others are as good as 0, by path, also in words: the defect of what
holds is a rounding error, in float32 in one state of a panel."""


def computed(part: str, bits: bool = False) -> Entries:
    """The entries of a part as the code has them now; with ``bits`` hashes of arrays, too."""
    return {key: plain(value, bits) for key, value in PARTS[part]()}


def text(entries: Entries) -> str:
    """Entries as JSON, one a line, in order."""
    lines = (
        f"{json.dumps(key)}: "
        + json.dumps(entries[key], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        for key in sorted(entries)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(part: str, folder: Path = HERE) -> Entries:
    """The entries of a part that a folder has."""
    return json.loads((folder / f"{part}.json").read_text(encoding="utf-8"))


class Difference(NamedTuple):
    """How far a number is from another, relative to its tolerance and by itself, and where."""

    excess: float
    size: float
    path: str

    def __str__(self) -> str:
        size = "not the same" if math.isinf(self.size) else f"{self.size:.1e}"
        return f"{self.path}: {size}"


def largest(path: str, before: Any, after: Any) -> Difference:
    """The largest difference of two values, relative to what it may be there."""
    found = [Difference(0.0, 0.0, path)]
    for place, one, other, scale in pairs(path, before, after):
        allowed, least = (first(place, table) for table in (TOLERANCES, ROUNDING))
        size = distance(one, other, scale, least)
        excess = size / allowed if allowed and size else size and math.inf
        if size and place.endswith("/sha256"):  # the numbers beside it say how far apart
            excess, size = 1e-99, 0.0
        found.append(Difference(excess, size, place))
    return max(found)


def first(path: str, table: Sequence[tuple[str, float]]) -> float:
    """The number of the first glob that a path matches."""
    return next(number for glob, number in table if fnmatch(path, glob))


def distance(one: Any, other: Any, scale: float, least: float) -> float:
    """The relative difference of two numbers; infinite where others are not the same."""
    if float in (type(one), type(other)) and {type(one), type(other)} <= {float, int}:
        largest = max(abs(one), abs(other))
        return abs(one - other) / max(largest, scale) if largest > least else 0.0
    if isinstance(one, str) and isinstance(other, str):

        def zero(number: re.Match) -> str:
            return "0" if float(number[0]) < least else number[0]

        one, other = (NUMBER.sub(zero, words) for words in (one, other))
    return 0.0 if type(one) is type(other) and one == other else math.inf


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def pairs(
    path: str, before: Any, after: Any, scale: float = 0.0
) -> Iterator[tuple[str, Any, Any, float]]:
    """What stands at the same place on both sides, and what its difference is relative to.

    Numbers of a list are compared in relation to the largest there; the samples of an array to
    its root mean square; its sum to what it could be at most.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        of_array = {"norm", "samples"} <= before.keys() & after.keys()
        size = max(before["finite"], 1) ** 0.5 if of_array else 1.0
        norm = float(before["norm"]) if of_array else 0.0
        scales = {"samples": norm / size, "sum": norm * size}
        for name in sorted(before.keys() | after.keys()):
            sides = (side.get(name, "(not there)") for side in (before, after))
            yield from pairs(f"{path}/{name}", *sides, scales.get(name, 0.0))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        scale = max([scale, *(abs(one) for one in before if isinstance(one, int | float))])
        for place, sides in enumerate(zip(before, after, strict=True)):
            yield from pairs(f"{path}/{place}", *sides, scale)
    else:
        yield path, before, after, scale


def compared(part: str, before: Entries, after: Entries) -> list[Difference]:
    """The largest difference of each entry; one that only one side has is not the same."""
    return [
        largest(f"{part}/{key}", before[key], after[key])
        if key in before and key in after
        else Difference(math.inf, math.inf, f"{part}/{key}, in one of the two only")
        for key in sorted(before.keys() | after.keys())
    ]


# --- the command line ------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="write the parts into this folder")
    what.add_argument("--compare", action="store_true", help="with the committed files")
    what.add_argument("--against", metavar="REV", help="compare bits with another commit")
    what.add_argument("--update", nargs="+", metavar="ENTRY", help="globs, as panels/order/*")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART")
    parser.add_argument("--bits", action="store_true", help="with hashes of arrays")
    given = parser.parse_args()
    parts = given.only or [*PARTS]
    if given.against:
        return against(given.against, parts)
    with alone():
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            for part in parts:
                entries = computed(part, given.bits)
                (given.out / f"{part}.json").write_text(text(entries), encoding="utf-8")
            return 0
        if given.update:
            for part in parts:
                update(part, given.update)
            return 0
        return said(one for part in parts for one in compared(part, read(part), computed(part)))


@contextmanager
def alone() -> Iterator[None]:
    """This checkout's lnlab, in one thread, without what a user has downloaded or cached."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LNLAB_DATA"] = folder
        yield


def said(found: Iterable[Difference], least: float = 1.0) -> int:
    """Print the entries that differ by more than they may; 1 if there are any."""
    entries = [*found]
    wrong = [one for one in entries if one.excess > least]
    for one in wrong:
        print(one)
    print(f"{len(wrong)} of {len(entries)} entries differ")
    return int(bool(wrong))


def update(part: str, globs: Sequence[str]) -> None:
    """Replace the committed entries that are named; print the largest difference of each."""

    def named(key: str) -> bool:
        return any(fnmatch(f"{part}/{key}", glob) for glob in globs)

    if not any(fnmatch(part, glob.partition("/")[0]) for glob in globs):
        return
    path = HERE / f"{part}.json"
    before = read(part) if path.exists() else {}
    after = {key: value for key, value in computed(part).items() if named(key)}
    replaced = {key: value for key, value in before.items() if named(key)}
    for one in compared(part, replaced, after):
        print(one)
    kept = {key: value for key, value in before.items() if not named(key)}
    path.write_text(text(kept | after), encoding="utf-8")


def against(revision: str, parts: Sequence[str]) -> int:
    """Compare what this checkout computes with what another commit does, bit by bit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", folder / "tree", revision], check=True)
        try:
            for tree, out in ((folder / "tree", "before"), (ROOT, "after")):
                script = tree / HERE.relative_to(ROOT) / Path(__file__).name
                only = [word for part in parts for word in ("--only", part)]
                command = [sys.executable, script, "--out", folder / out, "--bits", *only]
                environment = {**os.environ, "PYTHONPATH": str(tree)}
                subprocess.run(command, check=True, cwd=tree, env=environment)
        finally:
            subprocess.run([*git, "remove", "--force", folder / "tree"], check=True)
        found = {
            part: compared(part, *(read(part, folder / out) for out in ("before", "after")))
            for part in parts
        }
    return said((one for several in found.values() for one in several), least=0.0)


if __name__ == "__main__":
    raise SystemExit(main())
