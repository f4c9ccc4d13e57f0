"""Layer norm in DRAW: Ba et al. (2016), section 6.4 and Fig. 4."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from lnlab import training
from lnlab.data import Images, load
from lnlab.papers.draw.evaluate import bound_metrics_and_pictures
from lnlab.papers.draw.kernels import fused_draw_sharing_tensors
from lnlab.papers.draw.model import (
    ARMS,
    DRAW,
    INITIALISATIONS,
    MISTAKES,
    KLNats,
    ReconstructionNats,
)
from lnlab.training import Evaluation, setting
from lnlab.training.experiment import LossPerSeed, OneHiddenSize
from lnlab.training.random_state import seed_torch_temporarily

ImplementationMistake = str  # one of MISTAKES
NumberOfEvaluations = int


@dataclass(frozen=True)
class Experiment(training.Experiment):
    """One arm, trained from paired starts on the same batches with the same noise.

    The paper's bounds on the test set after 200 epochs are 82.36 nats without and 82.09 with
    layer norm, which converges almost twice as fast. It states 64 glimpses, 256 units, Adam's
    default settings and batches of 128; the rest is that of the public command with the same
    settings (jbornschein/draw). ``digits-binary`` is generated (:mod:`lnlab.data.images`).
    """

    norm: str = setting("layer", choices=ARMS)
    initialisation: str = setting("published", choices=INITIALISATIONS)
    """"published" is N(0, 1e-4), "modern" N(0, 1/fan-in)."""
    mistake: ImplementationMistake = setting("none", choices=MISTAKES)
    """A mistake of the most copied implementation."""
    data: str = "mnist-binary"
    """``digits-binary`` or ``mnist-binary=PATH``; images that are not binary are refused."""
    train_size: int = setting(0, least=0)  # the largest number of images to train on; 0: all
    batch_size: int = setting(128, least=1)
    epochs: int = 200
    learning_rate: float = 1e-3
    max_grad_norm: float = setting(10.0, least=0)  # the norm to which gradients are clipped
    glimpses: int = setting(64, least=1)  # T
    units: OneHiddenSize = setting((256,), least=1, count=1)  # H, of both LSTMs
    latent_size: int = setting(100, least=1)  # Z, the size of the latent variable of a glimpse
    read_size: int = setting(2, least=1)  # N of the window of reading
    write_size: int = setting(5, least=1)  # N of the window of writing
    eval_every: int = setting(390, least=1)  # updates from one validation to the next
    drawings: NumberOfEvaluations = setting(6, least=0)
    """The number of full evaluations during training, which save drawings."""

    name = "draw"
    required_data_kind = "images"
    lower_is_better = ("valid_bound",)

    def dataset(self) -> Images:
        grey = self.mistake == "grey"
        options: Any = {"max_train": self.train_size, "grey": grey}
        return check_drawable(load(self.data, self.required_data_kind, **options), grey)

    def model(self, seed: int, dataset: Images) -> nn.Module:
        height, width = dataset.shape
        with seed_torch_temporarily(seed):
            net = DRAW(self, (height, width))
        return fused_draw_sharing_tensors(net) if self.fused else net

    def loss(self, output: tuple[ReconstructionNats, KLNats], y: Tensor) -> LossPerSeed:
        """Return the bound in nats per image: terms (S, B) of canvas and KL to (S,)."""
        canvas, kl = output
        return (canvas + kl).mean(-1)

    def full_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return ``drawings`` updates, each twice the one before; drawings are saved then."""
        last = self.num_updates(updates_per_epoch)
        return {round(last / 2**k) for k in range(1, self.drawings + 1)} - {0}

    def light_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return every ``eval_every`` updates, at which the bound is measured."""
        return self.updates_divisible_by(self.eval_every, updates_per_epoch)

    def measure(self, net: Any, dataset: Images, evaluation: Evaluation) -> dict[str, Any]:
        test = evaluation is Evaluation.FINAL
        pictures = test or evaluation is Evaluation.FULL
        return bound_metrics_and_pictures(
            net, dataset, include_pictures=pictures, include_test=test
        )


def check_drawable(dataset: Images, allow_grey: bool = False) -> Images:
    """Return a data set, if its images can be drawn: binary, or grey if that is allowed."""
    if len(dataset.shape) != 2 or dataset.valid is None:
        lacks = "validation pictures" if dataset.valid is None else "a height and a width alone"
        raise ValueError(f"{dataset.name} lacks {lacks}: draw digits-binary or mnist-binary.")
    x = dataset.train.x
    if not (allow_grey or bool(((x == 0) | (x == 1)).all())):
        raise ValueError(
            f"{dataset.name} has grey pixels, and Bernoullis draw 0 and 1 alone: give "
            "digits-binary or mnist-binary=PATH."
        )
    return dataset
