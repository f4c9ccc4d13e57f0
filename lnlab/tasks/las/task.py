"""Where layer norm helps in a recognizer of speech: Ben Othman (2018), sections 3 and 4."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.cells import MODERN, PAPER, Initial, Sums
from lnlab.data import speech
from lnlab.data.speech import Speech
from lnlab.kernels import fuse
from lnlab.norms import GroupNorm, Identity, LayerNorm

from .inside import inside
from .listener import Listener, OverFeatures, OverTime
from .net import Bucketed, ListenAttendSpell
from .recognition import recognized
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

PUBLISHED: dict[str, Any] = {
    "norm": partial(LayerNorm, affine=False, eps=1e-3),
    "gates": partial(GroupNorm, groups=4, affine=False, eps=1e-3),
    "sums": Sums.TOGETHER,
    "initial": replace(MODERN, forget_bias=1.0),
}
"""The speller's cell in the study's published code, after hardmaru/supercell: gates one by one,
without gain or bias. Its weights are drawn as ours."""

INITIALISATIONS: dict[str, Initial] = {"paper": PAPER, "modern": MODERN}


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
    published: bool = False
    """Whether a normalized speller has the cell of the published code; with ``swapped`` it is
    that cell, slip included."""
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
    unheard: str = ""
    """A speaker of ``fsdd`` whom only the test has; empty: all speakers are in all parts."""
    utterances: int = 0
    """How many are trained on at most; 0: all."""
    units: tuple[int, ...] = (64, 128)
    """Of each direction of the listener's LSTMs, and of the speller's."""
    layers: int = 3
    """LSTMs of the listener; time is halved before all but the last."""
    speller_layers: int = 1
    """LSTMs of the speller."""
    location: int = 0
    """Kernels of location-aware attention; 0 is content alone, as in the study."""
    learning_rate: float = 2e-3
    decay: float = 0.1
    """What is left of the learning rate at the end; it falls exponentially."""
    clip: float = 1.0
    """Norm to which a gradient is cut; the study's code cuts each element at 1."""
    smoothing: float = 0.0
    """Of the labels."""
    sampling: float = 0.0
    """How often the speller is told, instead of the right unit before, its own."""
    dropout: float = 0.0
    noise: float = 0.0
    """Standard deviation of what is added to the features, which have 1."""
    beam: int = 1
    """How many beginnings the search keeps; 1 is greedy."""
    longest: int = 100
    """Units after which a hypothesis is cut; 100 in the study."""
    mixed: bool = False
    """Whether to train with products in bfloat16; meant for GPUs."""
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
        counts = (
            self.batch_size,
            self.epochs,
            self.layers,
            self.speller_layers,
            self.longest,
            self.beam,
        )
        if min(counts) < 1 or not self.seeds:
            raise ValueError(
                "batch_size, epochs, layers, speller_layers, longest and beam are at least 1, "
                "and there is a seed."
            )
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay is {self.decay}: give a factor above 0, at most 1.")
        if len(self.units) != 2:
            raise ValueError(f"units are {self.units}: give the listener's and the speller's.")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}: each once, or intervals are too narrow.")

    @classmethod
    def budget(cls, name: str, **changes) -> "Spelling":
        """The task at ``smoke`` (seconds), ``notebook`` or ``paper``, with ``changes``.

        A change that is None or empty leaves the budget's own. ``paper`` has the settings of
        the study's code, save that gradients are cut by their norm.
        """
        budgets = {
            "smoke": cls(units=(8, 16), layers=2, utterances=32, epochs=1, longest=20),
            "notebook": cls(utterances=1600, epochs=7, learning_rate=4e-3, decay=0.3),
            "paper": cls(
                units=(128, 128),
                batch_size=128,
                epochs=300,
                speller_layers=2,
                learning_rate=1e-3,
                sampling=0.1,
                dropout=0.5,
                noise=0.6,
                beam=16,
            ),
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
        """What makes this run this run: every field but where the data happen to lie.

        Without ``published`` a run is the one that it was before there was this field.
        """
        config = {**asdict(self), "data": self.data.split("=")[0]}
        if not self.published:
            del config["published"]
        return config

    def dataset(self) -> Speech:
        unit: Any = self.unit or None
        return speech.load(self.data, unit, self.utterances or None, self.unheard)

    def model(self, seed: int, dataset: Speech) -> nn.Module:
        """The net of one seed; its W depends on the seed and the sizes alone."""
        listening, spelling = PLACES[self.norm]
        inside = listening and self.form == "cell"
        after = FORMS[self.form] if listening else None
        D, (H, S) = dataset.train[0].features.shape[1], self.units
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            listener = Listener(
                D,
                H,
                self.layers,
                after=after,
                dropout=self.dropout,
                noise=self.noise,
                **self._normalized(inside),
            )
            speller = Speller(
                len(dataset.units) + 1,
                2 * H,
                S,
                self.speller_layers,
                location=self.location,
                swapped=self.swapped,
                dropout=self.dropout,
                sampling=self.sampling,
                **(PUBLISHED if spelling and self.published else self._normalized(spelling)),
            )
        net = ListenAttendSpell(listener, speller, mixed=self.mixed)
        return fuse(net) if self.fused else net

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

    def schedule(self, part: float) -> float:
        """Of the learning rate, when a part of the updates is over."""
        return self.decay**part

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
        """Per seed: see :func:`.recognition.recognized` and :func:`.inside.inside`."""
        rows = [
            recognized(one, dataset, width=self.beam, longest=self.longest)
            | inside(one, dataset)
            for one in model.unstack()
        ]
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
