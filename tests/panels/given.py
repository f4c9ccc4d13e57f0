"""What panels are given in tests: runs and recordings, made up; models that never learned."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

from lnlab.analysis.feature_maps import PositionStatistics
from lnlab.papers import EXPERIMENTS
from lnlab.papers.attentive_reader.data import Question
from lnlab.papers.las.recordings import Utterance, wrap_samples_as_recording
from lnlab.papers.mnist import train_landscape_networks
from lnlab.training.trainer import build_initial_models


def arguments() -> dict[str, tuple]:
    """Return the arguments of each panel that takes some, by its name."""
    arms = {"none": 0, "layer": 1}
    return {
        "landscape": train_landscape_networks(),
        "distributions": (recorded(),),
        "positions": (feature_maps(),),
        "attention": ({arm: recognizer(seed) for arm, seed in arms.items()}, utterances()),
        "drawing": ({arm: drawer(seed) for arm, seed in arms.items()}, digits()),
        "reading": ({arm: reader(seed) for arm, seed in arms.items()}, questions()),
        "order": untrained("order_embeddings"),
    }


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def finished(rows: Mapping[str, Any], kept: Mapping[int, Any], **config: Any) -> Any:
    """A run, as panels read it."""
    frame = pd.DataFrame(dict(rows))
    return SimpleNamespace(metrics=lambda: frame, pictures=lambda seed: kept, config=config)


def recorded() -> dict[str, Any]:
    """Quantiles of three layers at three steps, as a recorder gives them."""
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
    drawn = torch.Generator().manual_seed(0)

    def maps(side: int) -> Any:
        return PositionStatistics(*torch.rand(3, 2, side, side, generator=drawn).double())

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
        Utterance(
            name=f"seven {number}", speaker="seven", units=("seven", "b"),
            recording=wrap_samples_as_recording(sound, 16_000),
            begins=times[:2], ends=times[1:],
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
        Question(f"met {number}", passage, "@entity0 met @placeholder", names, names[1])
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
    kind = EXPERIMENTS[experiment]
    dataset = kind.budget("smoke").dataset()
    models: dict[str, Any] = {}
    for norm in ("none", "layer"):
        tasks = [kind.budget("smoke", norm=norm, seeds=(seed,)) for seed in updates or (0,)]
        several = [build_initial_models(task, dataset)[0].eval() for task in tasks]
        models[norm] = dict(zip(updates, several, strict=True)) if updates else several[0]
    return models, dataset
