"""Layer norm in skip-thoughts: Ba et al. (2016), section 6.3, Fig. 3 and Table 3."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lnlab import training
from lnlab.data import load
from lnlab.nn import CELL_INITS
from lnlab.papers.models import RecurrentNormGain
from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.papers.skip_thoughts.evaluate import (
    bag_of_words_scores_by_metric,
    held_out_and_vector_metrics,
)
from lnlab.papers.skip_thoughts.model import ARMS, CONDITIONS, SentenceTriples, SkipThoughts
from lnlab.training import BucketedBatches, Evaluation, setting
from lnlab.training.experiment import CPU, LossPerSeed, OneHiddenSize
from lnlab.training.optim import PublishedOrStandardAdam, adam
from lnlab.training.random_state import generator_seeded_by_hash, seed_torch_temporarily

WhenDecodersReadVector = str  # one of CONDITIONS
UpdateCount = int

THEIR_RATE = 2e-4  # the rate of the authors' Adam, which ignores the 0.01 that it is given

TaskSourceOrNone = str  # the name of a source of tasks, with =PATH if it has files; or none


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm, its seeds trained from paired starts on the same batches.

    Table 3 of the paper, after a million updates on BookCorpus, without and with layer norm:
    SICK r .842 and .854, rho .767 and .785, MSE .298 and .277; MR 77.3 and 79.5, CR 81.8 and
    82.6, SUBJ 92.6 and 93.4, MPQA 87.9 and 89.0. What the paper does not state is as in the
    code that it extends (ryankiros/skip-thoughts), its Adam included.
    """

    norm: str = setting("layer", choices=ARMS)
    initialisation: str = setting("paper", choices=CELL_INITS)
    """"paper" is U(-0.1, 0.1), square weights orthogonal; "modern" N(0, 1/fan-in)."""
    gain: RecurrentNormGain = 1.0  # the first gain of the normalizers of W_h h
    condition: WhenDecodersReadVector = setting("start", choices=CONDITIONS)
    """The use of a sentence's vector by the decoders: "start" as in the authors' code, "every
    step" as Kiros et al. (2015) write."""
    adam: PublishedOrStandardAdam = setting("published", choices=("published", "standard"))
    """"published" is that of the authors' code: its rate is 0.0002 whatever ``learning_rate``
    is, and its first hundred updates are 3 to 6.6 times as long
    (:mod:`lnlab.training.optim`)."""
    data: str = "bookcorpus"
    """``stories``, generated here, ``bookcorpus=PATH`` or ``novels=PATH``."""
    downstream_tasks: TaskSourceOrNone = "sentence-tasks"
    """The tasks of the vectors: ``story-tasks``, ``sentence-tasks=PATH``, or ``none``."""
    max_sentences: int = setting(0, least=0)
    """The number of sentences to read, in whole books; 0: all."""
    shuffled: bool = False
    """True if sentences are in a random order, in which neighbours say nothing."""
    batch_size: int = setting(64, least=2)
    epochs: int = 5
    learning_rate: float = THEIR_RATE
    max_grad_norm: float = setting(5.0, least=0)
    """Norm to which the gradient of the whole network is clipped."""
    units: OneHiddenSize = setting((2400,), least=1, count=1)
    """H, the size of all three GRUs and of a sentence's vector."""
    embedding_size: int = setting(620, least=1)  # the size of a word vector
    vocab_size: int = setting(20_000, least=3)
    """V, the most frequent words, with the end and the unknown word."""
    max_length: int = setting(30, least=2)  # sentences of so many words or more are left out
    eval_every: UpdateCount = setting(1000, least=1)  # updates from one validation to the next
    downstream_every: UpdateCount = setting(50_000, least=1)
    """Updates from one scoring of vectors to the next."""
    snapshots: bool = False
    """True if weights are stored at each scoring of vectors, in half precision."""

    name = "skip_thoughts"
    required_data_kind = "books"
    lower_is_better = ("valid_nll",)

    def config(self) -> dict[str, Any]:
        """Return the configuration, with the name of the downstream tasks, not their path."""
        return super().config() | {"downstream_tasks": self.downstream_tasks.split("=")[0]}

    def dataset(self) -> EncodedBooks:
        books = load(self.data, self.required_data_kind, max_length=self.max_length - 1)
        none = self.downstream_tasks == "none"
        tasks = {} if none else load(self.downstream_tasks, "tasks")
        size = self.vocab_size, self.max_sentences
        return EncodedBooks(books, *size, tasks, shuffled=self.shuffled)

    def model(self, seed: int, dataset: EncodedBooks) -> nn.Module:
        with seed_torch_temporarily(seed):
            net = SkipThoughts(self, dataset.vocabulary)
        return self.fuse(net)

    def training_batches(
        self,
        dataset: EncodedBooks,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> "TripleBatches":
        """Return batches of sentences of one length, with their neighbours."""
        return TripleBatches(dataset, dataset.train, self.batch_size, self.seeds, device)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        standard = self.adam == "standard"
        rate = self.learning_rate if standard else THEIR_RATE
        return adam(parameters, rate, bias_correction=standard)

    def loss(self, output: Tensor, y: Tensor) -> LossPerSeed:
        """Return the summed nats of both neighbours of each model (S,), from (S, 2)."""
        return output.sum(-1)

    def full_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """After every ``downstream_every`` updates."""
        return self.updates_divisible_by(self.downstream_every, updates_per_epoch)

    def light_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """After every ``eval_every`` updates."""
        return self.updates_divisible_by(self.eval_every, updates_per_epoch)

    def measure(
        self, net: Any, dataset: EncodedBooks, evaluation: Evaluation
    ) -> dict[str, Any]:
        metrics = held_out_and_vector_metrics(
            net, dataset, evaluation, include_model_weights=self.snapshots
        )
        if evaluation is Evaluation.FINAL:
            metrics |= bag_of_words_scores_by_metric(dataset)
        return metrics


class TripleBatches(BucketedBatches):
    """Sentences in batches of one length, with neighbours of any.

    The order of lengths depends on the epoch alone, so that seeds can be trained side by side;
    the sentences depend on (seed, epoch). The last batch of a length may be smaller, as in the
    authors' code.
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

        def make_triples_and_word_counts(
            sentence_indices: list[int],
        ) -> tuple[SentenceTriples, Tensor]:
            triples = books.sentence_triples(indices[sentence_indices])
            return triples, triples.neighbour_lengths.sum(1)

        super().__init__(
            lengths.tolist(), make_triples_and_word_counts, batch_size, seeds, device
        )
        self.by_length = {
            int(length): (lengths == length).nonzero().squeeze(1) for length in lengths.unique()
        }

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return len(self._batch_sentence_lengths_ascending())

    def _batch_sentence_lengths_ascending(self) -> list[int]:
        """Return the length of each batch of an epoch, the shortest first."""
        return [
            length
            for length, indices in self.by_length.items()
            for _ in range(0, len(indices), self.size)
        ]

    def _draw_batch_indices(self, seed: int, epoch: int) -> list[list[int]]:
        random = generator_seeded_by_hash(f"order of seed {seed} in epoch {epoch}")
        batches = {
            length: iter(rows[torch.randperm(len(rows), generator=random)].split(self.size))
            for length, rows in self.by_length.items()
        }
        lengths = self._batch_sentence_lengths_ascending()
        # one order of lengths for all seeds, whose batches become one tensor
        order = torch.randperm(
            len(lengths), generator=generator_seeded_by_hash(f"lengths of epoch {epoch}")
        )
        return [next(batches[lengths[k]]).tolist() for k in order.tolist()]
