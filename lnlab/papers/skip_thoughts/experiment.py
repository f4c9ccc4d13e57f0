"""Layer norm in skip-thoughts: Ba et al. (2016), section 6.3, Fig. 3 and Table 3."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from lnlab.data import load
from lnlab.kernels import fuse
from lnlab.nn import STARTS, Identity, LayerNorm, Norm
from lnlab.papers.skip_thoughts.batches import NumberedBooks, OfOneLength
from lnlab.papers.skip_thoughts.evaluate import measured, words_alone
from lnlab.papers.skip_thoughts.model import CONDITIONS, SkipThoughts
from lnlab.training import Experiment, Moment, setting
from lnlab.training.experiment import CPU, collate
from lnlab.training.optim import (
    Adam,
    adam_without_bias_correction_,
    before_step,
    clip_grad_norm_,
)
from lnlab.training.random_state import seeded

ARMS: dict[str, Norm] = {"none": Identity, "layer": LayerNorm}
"""The normalizer of the three GRUs."""

THEIR_RATE = 2e-4
"""The rate that the authors' Adam takes whatever it is given: they ask for 0.01."""


@dataclass(frozen=True)
class SkipThoughtVectors(Experiment):
    """One arm, its seeds trained from paired starts on the same batches.

    Table 3 of the paper, after a million updates on BookCorpus, without and with layer norm:
    SICK r .842 and .854, rho .767 and .785, MSE .298 and .277; MR 77.3 and 79.5, CR 81.8 and
    82.6, SUBJ 92.6 and 93.4, MPQA 87.9 and 89.0. What the paper does not state is as in the
    code that it was added to (ryankiros/skip-thoughts), its Adam included.
    """

    norm: str = setting("layer", choices=ARMS)
    initialisation: str = setting("paper", choices=STARTS)
    """"paper" is U(-0.1, 0.1), square weights orthogonal; "modern" N(0, 1/fan-in)."""
    gain: float = 1.0
    """The first gain of the normalizers of W_h h."""
    condition: str = setting("start", choices=CONDITIONS)
    """The way in which the decoders know the sentence: "start" is the authors' code, "every
    step" what Kiros et al. (2015) publish."""
    adam: str = setting("published", choices=("published", "standard"))
    """"published" is that of the authors' code: its rate is 0.0002 whatever ``learning_rate``
    is, and its first hundred updates are 3 to 6.6 times as long
    (:mod:`lnlab.training.optim`)."""
    data: str = "bookcorpus"
    """``stories``, which are made here, ``bookcorpus=PATH``, ``gutenberg=PATH``,
    ``cbt-books=PATH``, or both of these as ``novels=PATH``."""
    downstream_tasks: str = "sentence-tasks"
    """The judges of vectors: ``story-tasks``, ``sentence-tasks=PATH``, or ``none``."""
    max_sentences: int = setting(0, least=0)
    """The number of sentences to read, in whole books; 0: all."""
    shuffled: bool = False
    """True if sentences stand in the places of others: neighbours then say nothing."""
    batch_size: int = setting(64, least=2)
    epochs: int = 5
    learning_rate: float = THEIR_RATE
    max_grad_norm: float = setting(5.0, above=0)
    """Norm to which the gradient of the whole net is cut."""
    units: tuple[int, ...] = setting((2400,), least=1, count=1)
    """H, of all three GRUs: the length of a vector."""
    embedding_size: int = setting(620, least=1)
    """Numbers a word."""
    vocab_size: int = setting(20_000, least=3)
    """V, the most frequent words, with the end and the unknown word."""
    max_length: int = setting(30, least=2)
    """The number of words that a sentence must have less than."""
    eval_every: int = setting(1000, least=1)
    """Updates from one validation to the next."""
    downstream_every: int = setting(50_000, least=1)
    """Updates from one time that vectors are judged to the next."""
    snapshots: bool = False
    """True if the weights are kept each time that vectors are judged, in half precision."""

    name = "skip_thoughts"
    falls = ("valid_nll",)

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        small = cls(
            data="stories",
            downstream_tasks="story-tasks",
            units=(96,),
            embedding_size=48,
            vocab_size=1000,
            adam="standard",
            learning_rate=1e-3,
            snapshots=True,
        )
        return {
            "smoke": replace(
                small,
                initialisation="modern",
                max_sentences=2000,
                units=(8,),
                embedding_size=6,
                updates=6,
                eval_every=3,
                downstream_every=3,
            ),
            "notebook": replace(small, updates=520, eval_every=26, downstream_every=104),
            "paper": cls(updates=1_000_000),
        }

    def config(self) -> dict[str, Any]:
        """As of every experiment; of judges, too, the name and not the path."""
        own = super().config()
        return own | {"downstream_tasks": self.downstream_tasks.split("=")[0]}

    def dataset(self) -> NumberedBooks:
        """Books by number, and what judges the vectors.

        Raises:
            ValueError: as what it reads.
            FileNotFoundError: where something that is named is not there.
        """
        books = load(self.data, "books", longest=self.max_length - 1)
        judges = (
            {} if self.downstream_tasks == "none" else load(self.downstream_tasks, "judges")
        )
        return NumberedBooks(
            books, self.vocab_size, self.max_sentences, judges, shuffled=self.shuffled
        )

    def model(self, seed: int, dataset: NumberedBooks) -> nn.Module:
        """The net of one seed; its weights depend on the seed and the sizes alone."""
        initial = STARTS[self.initialisation]
        if self.norm != "none":
            initial = replace(initial, recurrent_gain=self.gain)
        with seeded(seed):
            net = SkipThoughts(
                dataset.vocabulary,
                self.units[0],
                self.embedding_size,
                ARMS[self.norm],
                self.initialisation,
                self.condition,
                initial=initial,
            )
        return fuse(net) if self.fused else net

    def batches(
        self,
        dataset: NumberedBooks,
        split: str = "train",
        *,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> OfOneLength:
        """Sentences of one length together, each with its neighbours."""
        places = getattr(dataset, split)
        return OfOneLength(dataset, places, self.batch_size, self.seeds, device)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        published = self.adam == "published"
        rate = THEIR_RATE if published else self.learning_rate
        optimizer = Adam(parameters, lr=rate, fused=True)
        clip = {"max_norm": self.max_grad_norm, "models": len(self.seeds)}
        before_step(optimizer, clip_grad_norm_, **clip)
        if published:
            before_step(optimizer, adam_without_bias_correction_)
        return optimizer

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The nats of both neighbours of all sentences, summed as in the authors' code: of each
        side (S, 2) to (S,)."""
        return output.sum(-1)

    def evaluation_points(self, updates_per_epoch: int) -> set[int]:
        """After every ``downstream_every`` updates."""
        return set(range(0, self.length(updates_per_epoch) + 1, self.downstream_every))

    def glances(self, updates_per_epoch: int) -> set[int]:
        """After every ``eval_every`` updates."""
        return set(range(0, self.length(updates_per_epoch) + 1, self.eval_every))

    def measure(
        self, model: Any, dataset: NumberedBooks, moment: Moment = Moment.END
    ) -> dict[str, list[Any]]:
        """Per seed: see :func:`.measured.measured`; at the end :func:`.measured.words_alone`,
        too."""
        words = words_alone(dataset) if moment is Moment.END else {}
        rows = [
            measured(
                one,
                dataset,
                moment,
                snapshot=self.snapshots,
            )
            | words
            for one in model.unstack()
        ]
        return collate(rows)
