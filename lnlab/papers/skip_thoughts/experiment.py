"""Layer norm in skip-thoughts: Ba et al. (2016), section 6.3, Fig. 3 and Table 3."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from lnlab import training
from lnlab.data import load
from lnlab.kernels import fuse
from lnlab.nn import CELL_INITS, Identity, LayerNorm, NormLayer
from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.papers.skip_thoughts.evaluate import bag_of_words_scores, measure
from lnlab.papers.skip_thoughts.model import CONDITIONS, SkipThoughts, Triples
from lnlab.training import Bucketed, Evaluation, setting
from lnlab.training.experiment import CPU, collate
from lnlab.training.optim import (
    Adam,
    adam_without_bias_correction_,
    before_step,
)
from lnlab.training.random_state import generator, seeded

ARMS: dict[str, NormLayer] = {"none": Identity, "layer": LayerNorm}
"""The normalizer of the three GRUs."""

THEIR_RATE = 2e-4
"""The rate that the authors' Adam takes whatever it is given: they ask for 0.01."""


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm, its seeds trained from paired starts on the same batches.

    Table 3 of the paper, after a million updates on BookCorpus, without and with layer norm:
    SICK r .842 and .854, rho .767 and .785, MSE .298 and .277; MR 77.3 and 79.5, CR 81.8 and
    82.6, SUBJ 92.6 and 93.4, MPQA 87.9 and 89.0. What the paper does not state is as in the
    code that it was added to (ryankiros/skip-thoughts), its Adam included.
    """

    norm: str = setting("layer", choices=ARMS)
    initialisation: str = setting("paper", choices=CELL_INITS)
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
    """On what vectors are scored: ``story-tasks``, ``sentence-tasks=PATH``, or ``none``."""
    max_sentences: int = setting(0, least=0)
    """The number of sentences to read, in whole books; 0: all."""
    shuffled: bool = False
    """True if sentences stand in the places of others: neighbours then say nothing."""
    batch_size: int = setting(64, least=2)
    epochs: int = 5
    learning_rate: float = THEIR_RATE
    max_grad_norm: float = setting(5.0, above=0)
    """Norm to which the gradient of the whole network is clipped."""
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
    """Updates from one scoring of vectors to the next."""
    snapshots: bool = False
    """True if the weights are kept at each scoring of vectors, in half precision."""

    name = "skip_thoughts"
    lower_is_better = ("valid_nll",)

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
        """As of every experiment; of downstream tasks, too, the name and not the path."""
        return super().config() | {"downstream_tasks": self.downstream_tasks.split("=")[0]}

    def dataset(self) -> EncodedBooks:
        """Books by number, and the tasks on which vectors are scored.

        Raises:
            ValueError: as what it reads.
            FileNotFoundError: where something that is named is not there.
        """
        books = load(self.data, "books", longest=self.max_length - 1)
        none = self.downstream_tasks == "none"
        tasks = {} if none else load(self.downstream_tasks, "tasks")
        size = self.vocab_size, self.max_sentences
        return EncodedBooks(books, *size, tasks, shuffled=self.shuffled)

    def model(self, seed: int, dataset: EncodedBooks) -> nn.Module:
        """The network of one seed; its weights depend on the seed and the sizes alone."""
        initial = CELL_INITS[self.initialisation]
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
        dataset: EncodedBooks,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> "TripleBatches":
        """Sentences of one length together, each with its neighbours."""
        return TripleBatches(dataset, dataset.train, self.batch_size, self.seeds, device)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        published = self.adam == "published"
        rate = THEIR_RATE if published else self.learning_rate
        optimizer = Adam(parameters, lr=rate, fused=True)
        if published:
            before_step(optimizer, adam_without_bias_correction_)
        return optimizer

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The nats of both neighbours of all sentences, summed as in the authors' code: of each
        side (S, 2) to (S,)."""
        return output.sum(-1)

    def eval_points(self, updates_per_epoch: int) -> set[int]:
        """After every ``downstream_every`` updates."""
        return self.every(self.downstream_every, updates_per_epoch)

    def log_points(self, updates_per_epoch: int) -> set[int]:
        """After every ``eval_every`` updates."""
        return self.every(self.eval_every, updates_per_epoch)

    def evaluate(
        self, model: Any, dataset: EncodedBooks, evaluation: Evaluation = Evaluation.FINAL
    ) -> dict[str, list[Any]]:
        """Per seed: see :func:`.evaluate.measure`; at the end, too, the scores of
        :func:`.evaluate.bag_of_words_scores`."""
        baselines = bag_of_words_scores(dataset) if evaluation is Evaluation.FINAL else {}
        return collate(
            [
                measure(net, dataset, evaluation, snapshot=self.snapshots) | baselines
                for net in model.unstack()
            ]
        )


class TripleBatches(Bucketed):
    """Sentences in batches of one length, with neighbours of any.

    The lengths come in an order that depends on the epoch alone, so that seeds can be trained
    side by side; which sentences come depends on (seed, epoch). The last batch of a length may
    be smaller, as in the authors' code.

    Args:
        books: where the sentences are.
        indices: which of them.
        batch_size, seeds, device: as of :class:`lnlab.training.Bucketed`.
    """

    def __init__(
        self,
        books: EncodedBooks,
        indices: Tensor,
        batch_size: int,
        seeds: Sequence[int],
        device: torch.device,
    ) -> None:
        lengths = books.lengths[indices]

        def batch(chosen: list[int]) -> tuple[Triples, Tensor]:
            triples = books.triples(indices[chosen])
            return triples, triples.counts.sum(1)

        super().__init__(lengths.tolist(), batch, batch_size, seeds, device)
        self.by_length = {
            int(length): (lengths == length).nonzero().squeeze(1) for length in lengths.unique()
        }

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return len(self._lengths())

    def _lengths(self) -> list[int]:
        """Return the length of each batch of an epoch, the shortest first."""
        return [
            length
            for length, indices in self.by_length.items()
            for _ in range(0, len(indices), self.size)
        ]

    def _order(self, seed: int, epoch: int) -> list[list[int]]:
        random = generator(f"order of seed {seed} in epoch {epoch}")
        batches = {
            length: iter(some[torch.randperm(len(some), generator=random)].split(self.size))
            for length, some in self.by_length.items()
        }
        lengths = self._lengths()
        # one order of lengths for all seeds, or their batches would not fit into one tensor
        order = torch.randperm(len(lengths), generator=generator(f"lengths of epoch {epoch}"))
        return [next(batches[lengths[k]]).tolist() for k in order.tolist()]
