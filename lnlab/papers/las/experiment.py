"""Layer norm in parts of a recognizer of speech: Ben Othman (2018), sections 3 and 4."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lnlab import training
from lnlab.data import load
from lnlab.nn import CELL_INITS
from lnlab.nn.padding import mean_masked_cross_entropy
from lnlab.papers.las.data import SpeechDataset
from lnlab.papers.las.evaluate import recognition_and_attention_metrics
from lnlab.papers.las.model import (
    ARMS,
    ENCODER_NORMS,
    ListenAttendSpell,
    Listener,
    SpeechBatch,
    Speller,
    make_batch_and_unit_counts,
)
from lnlab.papers.models import RecurrentNormGain
from lnlab.training import BucketedBatches, Evaluation, setting
from lnlab.training.experiment import CPU, LossPerSeed
from lnlab.training.optim import Adam
from lnlab.training.random_state import seed_torch_temporarily

NormalizedParts = str  # one of ARMS
MeasuresValidationErrors = bool
NormPlace = str  # one of ENCODER_NORMS
FactorOverWholeTraining = float
AreSpellerHAndCSwapped = bool
ListenerAndSpellerSizes = tuple[int, ...]
CharactersOrPhones = int


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One placement of layer norm, its seeds trained from paired starts on the same batches.

    The study's table 1 has TIMIT PER 26.8 % without and 24.5 % with layer norm, after 15,947
    and 9,976 steps; its table 3 25.3 % in both and 66.6 % in the decoder alone. Embedded
    speech is synthesised here (:mod:`lnlab.papers.las.synthesizer`).
    """

    norm: NormalizedParts = setting("encoder", choices=ARMS)
    encoder_norm: NormPlace = setting("cell", choices=ENCODER_NORMS)
    """The place of the listener's normalizers: the cells of its LSTMs, or their outputs over
    features or over time, as in the published code."""
    swap_states: AreSpellerHAndCSwapped = False
    """True if the speller's h and c change places at each step, as in the published code."""
    published_cell: bool = False
    """True if a normalized speller has the cell of the published code; with ``swap_states`` it
    is that cell, mistake included."""
    initialisation: str = setting("modern", choices=CELL_INITS)
    """"paper" is U(-0.1, 0.1), square weights orthogonal; "modern" N(0, 1/fan-in)."""
    gain: RecurrentNormGain = 1.0  # the first gain of the normalizers of W_h h
    batch_size: int = 16
    epochs: int = 12
    data: str = "embedded"
    """``embedded``, ``fsdd=PATH``, ``timit=PATH`` or ``librispeech=PATH``."""
    held_out_speaker: str = ""
    """A speaker of ``fsdd`` whom only the test has; empty: all speakers are in all splits."""
    train_size: int = setting(0, least=0)
    """The largest number of utterances to train on; 0: all."""
    units: ListenerAndSpellerSizes = setting((64, 128), least=1, count=2)
    """The sizes of each direction of the listener's LSTMs, and of the speller's."""
    encoder_layers: int = setting(3, least=1)
    """LSTMs of the listener; before all but the last, time is halved."""
    decoder_layers: int = setting(1, least=1)  # LSTMs of the speller
    learning_rate: float = 2e-3
    learning_rate_decay: FactorOverWholeTraining = setting(0.1, least=0)
    """The factor by which the learning rate falls, exponentially, until the end."""
    max_grad_norm: float = setting(1.0, least=0)
    """Norm to which a gradient is clipped; the study's code clips each element to 1."""
    scheduled_sampling: float = setting(0.0, least=0)
    """The probability that the speller reads a unit of its own instead of the right one."""
    dropout: float = setting(0.0, least=0)
    """The probability with which an output of an LSTM is dropped while training."""
    input_noise: float = setting(0.0, least=0)
    """Standard deviation of the noise on the features, whose own is 1."""
    beam_width: int = setting(1, least=1)  # width of the beam search; 1 is greedy
    max_length: CharactersOrPhones = setting(100, least=1)
    """Units after which a hypothesis is cut; 100 in the study."""
    validate: MeasuresValidationErrors = setting(False, measured=True)
    """True if errors are measured on the validation data, too."""

    name = "las"
    required_data_kind = "speech"
    lower_is_better = ("test_nll", "test_error")

    def dataset(self) -> SpeechDataset:
        speech = load(
            self.data,
            self.required_data_kind,
            max_train=self.train_size,
            held_out_speaker=self.held_out_speaker,
        )
        if self.validate and not speech.valid:
            raise ValueError(f"{self.data} has no validation examples: set validate=False.")
        return speech

    def model(self, seed: int, dataset: SpeechDataset) -> nn.Module:
        with seed_torch_temporarily(seed):
            listener = Listener(self, dataset.train[0].features.shape[1])
            speller = Speller(self, len(dataset.units) + 1)
        return self.fuse(ListenAttendSpell(listener, speller))

    def training_batches(
        self,
        dataset: SpeechDataset,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> BucketedBatches:
        """Return batches of utterances of like length."""
        utterances = dataset.train
        numbers = {unit: number for number, unit in enumerate(dataset.units)}

        def make_batch_and_targets(
            indices: list[int],
        ) -> tuple[SpeechBatch, tuple[Tensor, Tensor]]:
            x, counts = make_batch_and_unit_counts(
                [utterances[k] for k in indices], numbers, dtype
            )
            return x, (x.units, counts)

        lengths = [utterance.num_frames for utterance in utterances]
        return BucketedBatches(
            lengths,
            make_batch_and_targets,
            self.batch_size,
            self.seeds,
            device,
            fill=len(numbers),
        )

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return Adam(parameters, lr=self.learning_rate)

    def schedule(self, progress: float) -> float:
        return self.learning_rate_decay**progress

    def loss(self, output: Tensor, y: tuple[Tensor, Tensor]) -> LossPerSeed:
        """Return the nats a unit of each model (S,), from logits (S, B, U, V)."""
        return torch.stack(
            [
                mean_masked_cross_entropy(logits, units, counts)
                for logits, units, counts in zip(output, *y, strict=True)
            ]
        )

    def measure(
        self, net: Any, dataset: SpeechDataset, evaluation: Evaluation
    ) -> dict[str, Any]:
        limits = {"width": self.beam_width, "max_length": self.max_length}
        return recognition_and_attention_metrics(
            net, dataset, include_validation=self.validate, **limits
        )
