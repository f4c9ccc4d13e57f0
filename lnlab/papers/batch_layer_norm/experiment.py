"""Batch layer normalization: the experiments of Ziaee & Çano (2022) on images and reviews."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab import training
from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.data.dataset import Split
from lnlab.nn import Normalizer
from lnlab.papers.batch_layer_norm.evaluate import (
    metrics_of_every_configuration,
    score_in_batches,
    score_with_batch_statistics,
)
from lnlab.papers.batch_layer_norm.model import (
    ARMS,
    NORM_POSITIONS,
    VARIANTS,
    NormFactorySettings,
    ReviewReader,
    TanhLeNet,
    allocate_population_statistics_,
)
from lnlab.papers.classification import (
    DatasetWithReplacedSplits,
    check_classifiable,
    gradient_and_stepped_parameters,
    mean_covariate_shift_angle_radians,
)
from lnlab.training import Batches, Evaluation, cross_entropy_per_model, setting
from lnlab.training.experiment import CPU, LossPerSeed, collate_rows
from lnlab.training.optim import Adam
from lnlab.training.random_state import move_to_device, seed_torch_temporarily

TRAIN_EVAL_SIZE = 1_000
"""The number of training examples, the first ones, whose loss is measured."""


def take_first_examples(
    dataset: Any, counts: Mapping[str, int], transform_inputs: Callable[[Tensor], Tensor]
) -> DatasetWithReplacedSplits:
    """Return the first examples of each split, their inputs transformed; a count of 0: all."""
    splits = {}
    for name, count in counts.items():
        split = getattr(dataset, name)
        available = 0 if split is None else len(split.y)
        if split is None or count > available or not available:
            raise ValueError(
                f"{dataset.name} has {available:,} examples in its {name} split, and "
                f"{name}_size is {count:,}."
            )
        count = count or available
        splits[name] = Split(transform_inputs(split.x[:count]), split.y[:count])
    return DatasetWithReplacedSplits(dataset, **splits)


class BatchesShuffledOncePerSeed(Batches):
    """Batches whose order is drawn once per seed, for all epochs."""

    def order_in_every_epoch(self, seed: int) -> Tensor:
        """Return the indices of the examples in every epoch of a seed (N,)."""
        return super()._shuffle_examples(seed, 0)

    def _shuffle_examples(self, seed: int, epoch: int) -> Tensor:
        return self.order_in_every_epoch(seed)


VariantName = str  # one of VARIANTS
FirstExamplesOrAllIfZero = int
Logit = float


@dataclass(frozen=True)
class BatchLayerNormExperiment(training.Experiment):
    """One arm, trained from paired starts on the same batches.

    As in the authors' code, all epochs have the same batches in the same order, the weights
    with the lowest validation loss are tested, and evaluation has the batch size of the
    training. Training scores are measured after each epoch with the statistics of each batch
    (Keras' logs are means over the epoch).

    Training examples are scored twice: in the batches that they are trained in
    (``..._own_batches``, comparable with Keras' logs), and in others (``train_...``). A model
    that sees the rest of a batch can memorize the batch rather than the example.
    """

    norm: str = setting("batch layer", choices=ARMS)
    batch_size: int = setting(25, least=1)  # 25 and 1 in the paper
    variant: VariantName = setting("code", choices=VARIANTS)
    """"code" has eps 0.001 and m/(m-1) on variances, "paper" what is printed."""
    unbiased: bool = True
    """True: the population's sigmas have the factor m/(m-1), which is infinite at m = 1."""
    train_size: int = setting(9_000, least=1)  # the number of training examples, the first ones
    # the number of validation examples; 0: all
    valid_size: FirstExamplesOrAllIfZero = setting(1_000, least=0)
    # the number of test examples; 0: all, as published
    test_size: FirstExamplesOrAllIfZero = setting(0, least=0)
    best_metric: str = "valid_nll"
    seeds: tuple[int, ...] = (0, 1, 2)

    lower_is_better = ("train_nll", "valid_nll")

    @abstractmethod
    def make_net(self, dataset: Any, norm: Callable[..., Normalizer]) -> nn.Module:
        """Return the network, its weights drawn from torch's generator.

        ``norm`` makes the normalizers, and takes ``space`` too.
        """

    @abstractmethod
    def losses_and_hits(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the NLL of each example (N,), and whether its class is correct (N,)."""

    def model(self, seed: int, dataset: Any) -> nn.Module:
        setup = NormFactorySettings(
            self.batch_size,
            max(1, self.train_size // self.batch_size),
            replace(VARIANTS[self.variant], population_sigma_bessel_corrected=self.unbiased),
        )
        with seed_torch_temporarily(seed):
            net = self.make_net(dataset, ARMS[self.norm](setup))
            x = dataset.train.x[: self.batch_size]
            allocate_population_statistics_(
                net, move_to_device(x, CPU, torch.get_default_dtype())
            )
        return self.fuse(net)

    def training_batches(
        self, dataset: Any, device: torch.device = CPU, dtype: torch.dtype = torch.float32
    ) -> BatchesShuffledOncePerSeed:
        """Return the same batches in every epoch, in another order for each seed."""
        x, y = move_to_device((dataset.train.x, dataset.train.y), device, dtype)
        return BatchesShuffledOncePerSeed(x, y, self.batch_size, self.seeds)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return Adam(parameters, lr=self.learning_rate, eps=1e-8, fused=True)

    def full_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return the last update of each epoch; as in the authors' code, not 0."""
        return self.updates_divisible_by(updates_per_epoch, updates_per_epoch) - {0}

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> dict[str, list[float]]:
        """Return NLL (nats) and accuracy of training and validation examples, per seed.

        The final evaluation adds :func:`.evaluate.metrics_of_every_configuration`.
        """
        models = zip(model.unstack(), self.seeds, strict=True)
        return collate_rows(
            [self._metrics_of_seed(net, seed, dataset, evaluation) for net, seed in models]
        )

    def _metrics_of_seed(
        self, model: nn.Module, seed: int, dataset: Any, evaluation: Evaluation
    ) -> dict[str, float]:
        m, train = self.batch_size, dataset.train
        order = self.training_batches(dataset).order_in_every_epoch(seed)[:TRAIN_EVAL_SIZE]
        own = Split(train.x[order], train.y[order])
        others = Split(train.x[:TRAIN_EVAL_SIZE], train.y[:TRAIN_EVAL_SIZE])
        scores = {
            "train_{}_own_batches": score_with_batch_statistics(
                model, own, m, self.losses_and_hits
            ),
            "train_{}": score_with_batch_statistics(model, others, m, self.losses_and_hits),
            "valid_{}": score_in_batches(model, dataset.valid, m, self.losses_and_hits),
        }
        metrics = {
            pattern.format(name): value
            for pattern, pair in scores.items()
            for name, value in pair._asdict().items()
        }
        if evaluation is Evaluation.FINAL:
            splits = {"valid": dataset.valid, "test": dataset.test}
            metrics |= metrics_of_every_configuration(model, splits, m, self.losses_and_hits)
        return metrics


# Images: section 4.1, Fig. 4 and Table 1.

SHIFT_BATCHES = 4  # batches in which the covariate shift is measured


def mean_internal_covariate_shift_radians(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]
) -> float:
    """Return the covariate shift of a small step in each of some batches, a mean in radians.

    It is :func:`lnlab.papers.classification.mean_covariate_shift_angle_radians`, with the
    statistics of the batch. The step removes the same fraction of the batch's loss in every
    arm, to first order.
    """
    weight, angles = next(model.parameters()), []
    for batch in batches:
        x, y = move_to_device(batch, weight.device, weight.dtype)
        loss = Objective(model, x, y, F.cross_entropy, bn_stats="batch", dtype=torch.float64)
        angles.append(
            mean_covariate_shift_angle_radians(loss, gradient_and_stepped_parameters(loss)[1])
        )
    return sum(angles) / len(angles)


@dataclass(frozen=True)
class ImageExperiment(BatchLayerNormExperiment):
    """LeNet on images whose pixels have mean 0 and deviation 1 over the training examples.

    The authors' code takes these from all 50,000 training images of CIFAR-10, held out or not.
    Published for one training each on 20 % (9,000 images), batch layer / batch / layer:
    training accuracy .87 / .79 / .74 at batch size 25, .61 / .10 / .35 at 1; test accuracy .455
    (the best of 16 on the test) / .453 / .423 and .442 / .109 / .378.
    """

    data: str = "cifar10"  # ``shapes``, ``cifar10`` or ``cifar10=PATH``
    epochs: int = setting(15, least=1)
    learning_rate: float = 2e-3
    gradient_angle: bool = setting(False, measured=True)
    """True: each evaluation includes :func:`mean_internal_covariate_shift_radians`."""
    norm_position: str = setting("after", choices=NORM_POSITIONS)
    """The position of the normalizers relative to tanh."""

    name = "batch_layer_norm_images"
    required_data_kind = "images"

    def dataset(self) -> DatasetWithReplacedSplits:
        # generated images: only as many as are used; files: all, to have the same checksum
        generated = self.train_size if self.data == "shapes" else None
        whole = load(self.data, self.required_data_kind, max_train=generated)
        check_classifiable(whole, smallest_side=12)  # the second pooling leaves one position
        shape = whole.shape if len(whole.shape) == 3 else (1, *whole.shape)
        x = whole.train.x[: self.train_size]
        mean, deviation = x.mean(0), x.std(0, correction=0)

        def standardize_and_reshape(x: Tensor) -> Tensor:
            flat = (x - mean) / torch.where(deviation > 0, deviation, 1.0)
            return flat.unflatten(1, shape)

        counts = {"train": self.train_size, "valid": self.valid_size, "test": self.test_size}
        return take_first_examples(whole, counts, standardize_and_reshape)

    def make_net(self, dataset: Any, norm: Callable[..., Normalizer]) -> TanhLeNet:
        return TanhLeNet(self, tuple(dataset.train.x.shape[1:]), dataset.classes, norm)

    def loss(self, output: Tensor, y: Tensor) -> LossPerSeed:
        """Return the NLL in nats of logits (S, B, classes) and classes (S, B): (S,)."""
        return cross_entropy_per_model(output, y)

    def losses_and_hits(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return F.cross_entropy(output, y, reduction="none"), output.argmax(-1) == y

    def _metrics_of_seed(
        self, model: nn.Module, seed: int, dataset: Any, evaluation: Evaluation
    ) -> dict[str, float]:
        metrics = super()._metrics_of_seed(model, seed, dataset, evaluation)
        if self.gradient_angle:
            order = self.training_batches(dataset).order_in_every_epoch(seed)[
                : SHIFT_BATCHES * self.batch_size
            ]
            train = dataset.train
            batches = (tensor[order].split(self.batch_size) for tensor in (train.x, train.y))
            metrics["gradient_angle"] = mean_internal_covariate_shift_radians(
                model, zip(*batches, strict=True)
            )
        return metrics


# Reviews: section 4.2, Fig. 6 and Table 2.


@dataclass(frozen=True)
class ReviewExperiment(BatchLayerNormExperiment):
    """Two LSTMs that classify reviews as good or bad by their last words.

    Published for one training each on 20 % (4,000 reviews), batch layer / batch / layer: test
    accuracy .771 (the best of 16 on the test) / .698 / .711 at batch size 25, .731 / .495 /
    .684 at 1. The authors' code applies an accuracy for probabilities to logits: a review
    counts as good if its logit exceeds 0.5.
    """

    data: str = "imdb"  # ``opinions``, ``imdb`` or ``imdb=PATH``
    train_size: int = setting(4_000, least=1)
    epochs: int = setting(10, least=1)
    learning_rate: float = 3e-3
    vocab_size: int = setting(20_000, least=5)  # V, the number of word numbers
    max_length: int = setting(80, least=1)  # T, the number of words of a review, the last ones
    embedding_size: int = setting(512, least=1)  # the size of a word's embedding
    units: tuple[int, ...] = setting((128, 64), least=1, count=2)  # the sizes of the two LSTMs
    threshold: Logit = 0.5
    """The logit above which a review counts as good: 0.5 (a probability of 0.62) as coded."""

    name = "batch_layer_norm_reviews"
    required_data_kind = "reviews"

    def dataset(self) -> DatasetWithReplacedSplits:
        whole = load(
            self.data,
            self.required_data_kind,
            max_length=self.max_length,
            vocab_size=self.vocab_size,
        )
        counts = {"train": self.train_size, "valid": self.valid_size, "test": self.test_size}
        return take_first_examples(whole, counts, lambda x: x)

    def make_net(self, dataset: Any, norm: Callable[..., Normalizer]) -> ReviewReader:
        return ReviewReader(self, norm)

    def loss(self, output: Tensor, y: Tensor) -> LossPerSeed:
        """Return the NLL in nats of logits (S, B) and classes (S, B): (S,)."""
        return _nll_per_example(output, y).mean(1)

    def losses_and_hits(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return _nll_per_example(output, y), (output > self.threshold) == (y == 1)


def _nll_per_example(output: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, y.to(output.dtype), reduction="none")
