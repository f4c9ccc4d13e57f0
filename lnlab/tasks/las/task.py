"""Where layer norm helps in a recognizer of speech: Ben Othman (2018), sections 3 and 4."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.cells import MODERN, PAPER, Initial
from lnlab.data import speech
from lnlab.data.filterbank import HOP
from lnlab.data.speech import Speech
from lnlab.data.utterance import Utterance
from lnlab.kernels import LeftOnReference, fuse
from lnlab.norms import Identity, LayerNorm

from .alignment import mass
from .listener import Listener, OverFeatures, OverTime
from .net import Bucketed, ListenAttendSpell, gathered
from .search import Said, search
from .speller import Speller, cross_entropy

PLACES: dict[str, tuple[bool, bool]] = {
    "none": (False, False),
    "encoder": (True, False),
    "decoder": (False, True),
    "both": (True, True),
}
"""Whether the listener and the speller are normalized: the four columns of the study."""

FORMS = {
    "cell": None,
    "features": OverFeatures,
    "time": OverTime,
    "time masked": partial(OverTime, masked=True),
}
"""Where the listener is normalized: inside its LSTMs, eq. 7-9 of the study, or its outputs over
features; over time, as the study's published code does, padding included or not."""

INITIALISATIONS: dict[str, Initial] = {"paper": PAPER, "modern": MODERN}
TOGETHER = 100
"""Utterances that are recognized at a time."""
WATCHED = 4
"""Test utterances whose attention is kept at each evaluation: to be looked at."""


@dataclass(frozen=True)
class Spelling:
    """One placement of layer norm, its seeds trained from paired starts on the same batches.

    The study's table 1 has TIMIT PER 26.8 % without and 24.5 % with layer norm, after 15,947
    and 9,976 steps; its table 3 25.3 % in both and 66.6 % in the decoder alone. Embedded
    speech is synthesised here (:mod:`lnlab.data.spoken`).
    """

    norm: str = "encoder"
    form: str = "cell"
    swapped: bool = False
    """Whether the speller's h and c change places at each step, as in the published code."""
    initialisation: str = "modern"
    gain: float = 1.0
    """With which the normalizers of W_h h start."""
    batch_size: int = 16
    seeds: tuple[int, ...] = (0,)
    epochs: int = 12
    data: str = "embedded"
    """``embedded``, ``fsdd=PATH``, ``an4=PATH``, ``timit=PATH`` or ``librispeech=PATH``."""
    unit: str = ""
    """What is recognized, ``phones``, ``letters`` or ``words``; empty is the data's own."""
    utterances: int = 0
    """How many are trained on at most; 0: all."""
    units: tuple[int, ...] = (64, 128)
    """Of each direction of the listener's LSTMs, and of the speller's."""
    layers: int = 3
    """LSTMs of the listener; time is halved before all but the last."""
    location: int = 0
    """Kernels of location-aware attention; 0 is content alone, as in the study."""
    learning_rate: float = 2e-3
    clip: float = 1.0
    """Norm to which a gradient is cut."""
    smoothing: float = 0.0
    longest: int = 100
    """Units after which a hypothesis is cut; 100 in the study."""
    fused: bool = True

    name = "las"

    def __post_init__(self) -> None:
        for field, known in (
            ("norm", PLACES),
            ("form", FORMS),
            ("initialisation", INITIALISATIONS),
        ):
            if getattr(self, field) not in known:
                raise ValueError(
                    f"{field} is {getattr(self, field)!r}: choose from {', '.join(known)}."
                )
        if min(self.batch_size, self.epochs, self.layers, self.longest) < 1 or not self.seeds:
            raise ValueError(
                "batch_size, epochs, layers and longest are at least 1, and there is a seed."
            )
        if len(self.units) != 2:
            raise ValueError(f"units are {self.units}: give the listener's and the speller's.")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}: each once, or intervals are too narrow.")

    @classmethod
    def budget(cls, name: str, **changes) -> "Spelling":
        """The task at ``smoke`` (seconds), ``notebook`` or ``paper``, with ``changes``.

        A change that is None or empty leaves the budget's own. ``paper`` has the sizes of the
        study's code, without its dropout, noise and scheduled sampling.
        """
        budgets = {
            "smoke": cls(units=(8, 16), layers=2, utterances=32, epochs=1, longest=20),
            "notebook": cls(utterances=1600, epochs=7),
            "paper": cls(units=(128, 128), batch_size=128, epochs=300, learning_rate=1e-3),
        }
        if name not in budgets:
            raise ValueError(f"no budget is called {name!r}: choose from {', '.join(budgets)}.")
        said = {field: value for field, value in changes.items() if value not in (None, "", ())}
        return replace(budgets[name], **said)

    @classmethod
    def arms(cls, name: str, **changes) -> "dict[str, Spelling]":
        """All placements at one budget, by name."""
        return {place: cls.budget(name, norm=place, **changes) for place in PLACES}

    def config(self) -> dict:
        """What makes this run this run: every field but where the data happen to lie."""
        return {**asdict(self), "data": self.data.split("=")[0]}

    def dataset(self) -> Speech:
        unit: Any = self.unit or None
        return speech.load(self.data, unit, self.utterances or None)

    def model(self, seed: int, dataset: Speech) -> nn.Module:
        """The net of one seed; its W depends on the seed and the sizes alone."""
        listening, spelling = PLACES[self.norm]
        inside = listening and self.form == "cell"
        after = FORMS[self.form] if listening else None
        D, (H, S) = dataset.train[0].features.shape[1], self.units
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            listener = Listener(D, H, self.layers, after=after, **self._normalized(inside))
            speller = Speller(
                len(dataset.units) + 1,
                2 * H,
                S,
                location=self.location,
                swapped=self.swapped,
                **self._normalized(spelling),
            )
        net = ListenAttendSpell(listener, speller)
        if not self.fused:
            return net
        with warnings.catch_warnings():  # only layer norm has a fused form
            warnings.simplefilter("ignore", LeftOnReference)
            net.listener = fuse(net.listener)
        return net

    def _normalized(self, normalized: bool) -> dict[str, Any]:
        """What an LSTM is told of normalizers and of how to begin."""
        initial = INITIALISATIONS[self.initialisation]
        if not normalized:
            return {"norm": Identity, "initial": initial}
        return {"norm": LayerNorm, "initial": replace(initial, recurrent_gain=self.gain)}

    def batches(self, dataset: Speech, device: torch.device, dtype: torch.dtype) -> Bucketed:
        numbers = {unit: number for number, unit in enumerate(dataset.units)}
        return Bucketed(dataset.train, numbers, self.batch_size, self.seeds, device, dtype)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        cut = partial(clipped, largest=self.clip, models=len(self.seeds))
        optimizer.register_step_pre_hook(lambda optimizer, *_: cut(optimizer))
        return optimizer

    def loss(self, output: Tensor, y: tuple[Tensor, Tensor]) -> Tensor:
        """Nats a unit: logits (S, B, U, V) to (S,)."""
        return torch.stack(
            [
                cross_entropy(logits, units, counts, self.smoothing)
                for logits, units, counts in zip(output, *y, strict=True)
            ]
        )

    def evaluation_points(self, updates_per_epoch: int) -> set[int]:
        """After every epoch."""
        return {epoch * updates_per_epoch for epoch in range(self.epochs + 1)}

    def measure(self, model: Any, dataset: Speech) -> dict[str, list[Any]]:
        """Per seed, of the test utterances: see :func:`recognized`."""
        rows = [recognized(one, dataset, self.longest) for one in model.unstack()]
        return {name: [row[name] for row in rows] for name in rows[0]}


def clipped(optimizer: torch.optim.Optimizer, largest: float, models: int) -> None:
    """Cut the gradient of each of several stacked models to a norm of ``largest``."""
    slopes = [p.grad for group in optimizer.param_groups for p in group["params"]]
    slopes = [slope for slope in slopes if slope is not None]
    if models == 1:
        nn.utils.clip_grads_with_norm_(
            [p for group in optimizer.param_groups for p in group["params"]],
            largest,
            nn.utils.get_total_norm(slopes),
        )
        return
    squares = torch.stack([slope.flatten(1).square().sum(1) for slope in slopes]).sum(0)
    factor = (largest / (squares.sqrt() + 1e-6)).clamp(max=1)
    for slope in slopes:
        slope.mul_(factor.view(-1, *(1,) * (slope.dim() - 1)))


@torch.no_grad()
def recognized(net: Any, dataset: Speech, longest: int) -> dict[str, Any]:
    """What a net makes of the test utterances.

    ``test_nll`` in nats a unit; ``test_error``, (S + D + I) / N with jiwer, of the greedy
    search; ``test_error_with_end``, the same with the end symbols counted in N, as in the
    study's code; ``alignment``, the attention within 40 ms of the unit (NaN where nobody knows
    where that is), at the right units; ``attention``, that on the first :data:`WATCHED`, and
    ``heard``, what was made of them.
    """
    net.eval()
    numbers = {unit: number for number, unit in enumerate(dataset.units)}
    end, dtype = len(numbers), next(net.parameters()).dtype
    nll, count, masses, said, watched = 0.0, 0, [], [], []
    for start in range(0, len(dataset.test), TOGETHER):
        part = dataset.test[start : start + TOGETHER]
        batch, counts = gathered(part, numbers, end, dtype)
        logits, alpha = net.spell(batch)
        nll += float(cross_entropy(logits, batch.units, counts)) * int(counts.sum())
        count += int(counts.sum())
        masses += [
            mass(a[: len(u.units)], HOP * net.listener.joined, u.begins, u.ends)
            for u, a in zip(part, alpha, strict=True)
            if u.begins is not None and u.ends is not None
        ]
        said += search(net.speller, net.hear(batch), end, longest=longest)
        if not start:
            watched = [looked(u, a) for u, a in zip(part[:WATCHED], alpha, strict=False)]
    found = errors(dataset.test, said, dataset.units)
    total = torch.cat(masses).mean() if masses else torch.tensor(float("nan"))
    return {
        "test_nll": nll / count,
        **found,
        "alignment": float(total),
        "attention": watched,
        "heard": [[dataset.units[number] for number in s.units] for s in said[:WATCHED]],
    }


def looked(utterance: Utterance, alpha: Tensor) -> list[list[float]]:
    """The attention at each right unit of an utterance, as a run can keep it."""
    return [[round(v, 3) for v in row] for row in alpha[: len(utterance.units)].tolist()]


def errors(
    utterances: Sequence[Utterance], said: Sequence[Said], units: Sequence[str]
) -> dict[str, float]:
    """Substitutions, deletions and insertions a unit, by jiwer."""
    import jiwer

    names = {unit: f"u{number}" for number, unit in enumerate(units)}  # none is a space
    right = [" ".join(names[unit] for unit in u.units) for u in utterances]
    heard = [" ".join(f"u{number}" for number in s.units) for s in said]
    found = jiwer.process_words(right, heard)
    wrong = found.substitutions + found.deletions + found.insertions
    N = found.hits + found.substitutions + found.deletions
    return {
        "test_error": wrong / N,
        "test_error_with_end": wrong / (N + len(right)),
        "substitutions": found.substitutions / N,
        "deletions": found.deletions / N,
        "insertions": found.insertions / N,
    }
