"""Normalizers in a reader of articles: Ba et al. (2016), section 6.2 and Fig. 2."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab import training
from lnlab.data import load
from lnlab.data.vocabulary import END
from lnlab.papers.attentive_reader.data import EncodedQuestions, QuestionDataset
from lnlab.papers.attentive_reader.evaluate import validation_and_test_metrics
from lnlab.papers.attentive_reader.model import (
    ARMS,
    PADDING,
    STARTS,
    AttentiveReader,
    QuestionBatch,
)
from lnlab.training import BucketedBatches, Evaluation, setting
from lnlab.training.experiment import CPU, LossPerSeed, OneHiddenSize
from lnlab.training.optim import clip_by_sqrt_of_norm_, clip_grad_norm_
from lnlab.training.random_state import (
    generator_seeded_by_hash,
    move_to_device,
    seed_torch_temporarily,
)

FIGURE_2: dict[str, dict[str, Any]] = {
    "none": {"norm": "none"},
    "batch": {"norm": "batch"},
    "batch everywhere": {"norm": "batch everywhere"},
    "layer": {"norm": "layer"},
    "layer, gain 0.1": {"norm": "layer", "gain": 0.1},
}
"""The five curves of Fig. 2: LSTM, BN-LSTM, BN-everywhere, LN with gains of 1 and of 0.1."""

CLIPS = {"published": clip_by_sqrt_of_norm_, "standard": clip_grad_norm_}
"""Rules by which long gradients are clipped; the published one is a mistake, see
:func:`lnlab.training.optim.clip_by_sqrt_of_norm_`."""


ClippingRule = str  # one of CLIPS
PaddingRule = str  # one of PADDING
SentencesPerPassage = int
CandidatesOrVocabulary = str  # the words among which the answer is
SplitNumber = int  # the number of one of several divisions into train, valid and test


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm, its seeds trained from paired starts on the same batches.

    Fig. 2 of the paper has no numbers; Cooijmans et al. (2016) have, of the same data, the
    least validation errors 50.3 % without, 49.5 % with batch norm in the LSTMs and 50.0 % with
    it everywhere. What the papers do not state is as in the code from which both started
    (cooijmanstim/Attentive_reader, branch bn), two mistakes included. ``cloze`` is generated
    (:mod:`lnlab.papers.attentive_reader.data`).
    """

    norm: str = setting("layer", choices=ARMS)
    gain: float = setting(0.0, least=0)
    """The first gain of every normalizer; 0: 1 with layer norm and 0.1 with batch norm."""
    initialisation: str = setting("published", choices=STARTS)
    """"published" draws every matrix from the same random numbers, "paper" from those that
    follow, "modern" from N(0, 1/fan-in)."""
    max_grad_norm: float = setting(10.0, least=0)
    """The norm to which longer gradients are clipped."""
    clipping: ClippingRule = setting("published", choices=CLIPS)
    """The rule by which gradients longer than ``max_grad_norm`` are clipped."""
    padding: PaddingRule = setting("apart", choices=PADDING)
    """The inputs behind the end of a sequence; all but "apart" enter batch statistics."""
    answers: CandidatesOrVocabulary = setting(
        "candidates", choices=("candidates", "vocabulary")
    )
    """The words among which the model chooses; in the published code the whole vocabulary."""
    data: str = "cnn"  # ``cloze``, ``cnn=PATH`` or ``cbt=PATH``
    sentences: SentencesPerPassage = setting(4, least=0)
    """The number of sentences of a passage; 0: all, or, of books, 20."""
    split: SplitNumber = setting(0, least=0)
    """The number of a split of ``cbt``: decides which books train and which test."""
    train_size: int = setting(0, least=0)
    """The largest number of training questions of ``cloze``; 0: all."""
    batch_size: int = setting(64, least=2)
    epochs: int = 140
    learning_rate: float = 8e-5
    units: OneHiddenSize = setting((240,), least=1, count=1)
    """H, the size of both LSTMs, of the attention and of the layer before the answer."""
    embedding_size: int = setting(240, least=1)  # the size of a word vector
    dropout: float = setting(0.5, least=0)
    """The probability with which a number of a word vector, or of s, is dropped."""
    eval_every: int = setting(1000, least=1)  # updates from one validation to the next

    name = "attentive_reader"
    required_data_kind = "questions"
    lower_is_better = ("valid_nll", "valid_error")

    def dataset(self) -> QuestionDataset:
        options = {
            "sentences": self.sentences,
            "split": self.split,
            "max_train": self.train_size,
        }
        return load(self.data, self.required_data_kind, **options)

    def model(self, seed: int, dataset: QuestionDataset) -> nn.Module:
        with seed_torch_temporarily(seed):
            net = AttentiveReader(
                self, dataset.vocabulary, dataset.longest_training_passage_and_query
            )
        return self.fuse(net)

    def training_batches(
        self,
        dataset: QuestionDataset,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> "EntityRenamingBatches":
        """Return batches of questions of like length, their entities renamed."""
        questions, ids = dataset.encoded_split("train"), dataset.entity_ids
        return EntityRenamingBatches(questions, ids, self.batch_size, self.seeds, device)

    def clip_(self, optimizer: torch.optim.Optimizer) -> None:
        CLIPS[self.clipping](optimizer, self.max_grad_norm, len(self.seeds))

    def loss(self, output: Tensor, y: Tensor) -> LossPerSeed:
        """Return the nats a question of each model (S,), from logits (S, B, V)."""
        return torch.stack([F.cross_entropy(*each) for each in zip(output, y, strict=True)])

    def measure(
        self, net: Any, dataset: QuestionDataset, evaluation: Evaluation
    ) -> dict[str, Any]:
        test = evaluation is Evaluation.FINAL
        return validation_and_test_metrics(net, dataset, self.batch_size, include_test=test)


class EntityRenamingBatches(BucketedBatches):
    """Questions of like length together, their entities renamed at each batch.

    Each question has its own permutation, which depends on (seed, epoch, update) alone: it is
    the same in all arms of a comparison.
    """

    def __init__(
        self,
        questions: EncodedQuestions,
        entity_ids: range,
        batch_size: int,
        seeds: Sequence[int],
        device: torch.device,
    ) -> None:
        lengths = questions.passage_lengths_or_bytes
        super().__init__(lengths, questions.batch, batch_size, seeds, device, fill=END)
        self.entity_ids = entity_ids

    def batches_of_epoch(
        self, epoch: int, start: int = 0
    ) -> Iterator[tuple[QuestionBatch, Tensor]]:
        """Yield the batches of an epoch from ``start`` on: questions and answers (S, B)."""
        for update, (x, y) in enumerate(super().batches_of_epoch(epoch, start), start=start):
            orders = [
                self._entity_permutations(seed, epoch, update, y.shape[1])
                for seed in self.seeds
            ]
            rename = partial(
                rename_entities,
                move_to_device(torch.stack(orders), self.device),
                self.entity_ids,
            )
            fields = ("passage", "query", "candidate_ids")
            renamed = x._replace(**{name: rename(getattr(x, name)) for name in fields})
            yield renamed, rename(y.unsqueeze(-1)).squeeze(-1)

    def _entity_permutations(
        self, seed: int, epoch: int, update: int, batch_size: int
    ) -> Tensor:
        """Return a permutation of the entities for each question (B, E)."""
        random = generator_seeded_by_hash(
            f"names of seed {seed} in epoch {epoch}, update {update}"
        )
        return torch.rand(batch_size, len(self.entity_ids), generator=random).argsort(1)


def rename_entities(permutations: Tensor, entity_ids: range, words: Tensor) -> Tensor:
    """Return words (..., N) with new numbers of entities, by ``permutations`` (..., E)."""
    mask = (words >= entity_ids.start) & (words < entity_ids.stop)
    index = torch.where(mask, words - entity_ids.start, 0)
    return torch.where(mask, entity_ids.start + permutations.gather(-1, index), words)
