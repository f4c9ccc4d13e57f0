"""Training: the loop of an experiment, its evaluations and checkpoints, and its run on disk."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

from lnlab import paths
from lnlab.progress import progress
from lnlab.threads import in_one_thread_if_small, one_thread
from lnlab.training.experiment import BatchSource, Evaluation, Experiment, plan_evaluations
from lnlab.training.random_state import (
    IsolatedTorchRandomState,
    default_dtype,
    move_to_device,
    read_device,
    seed_torch_temporarily,
)
from lnlab.training.runs import Run
from lnlab.training.stacking import Stacked, stack

Loss = Callable[[Any, Any], Tensor]
"""A loss: from outputs and targets of S models to their mean losses over examples (S,)."""


class Step(NamedTuple):
    """One update."""

    update: int  # how many there were, this one included
    epoch: float  # how many passes over the data they make; whole at the end of one
    loss: Tensor  # the loss of each model (S,) on the batch, before the update; on the device
    # how long training took so far, without evaluations, checkpoints, and whatever is done
    # between two steps
    total_seconds: float
    total_cpu_seconds: float  # the processor time of the same


class Trainer:
    """An experiment in training: its model, optimizer, random numbers and last update.

    Iterating trains it to the end, and logs what is measured to the run.

    Attributes:
        diverged: the update after which a seed's loss or weights were not finite, by seed.
        best: the best weights so far, if those count and not the last.
    """

    def __init__(
        self,
        experiment: Experiment,
        dataset: Any,
        run: Run,
        device: torch.device,
        precision: str,
        save_every: float,
    ) -> None:
        self.experiment, self.dataset, self.run, self.device = experiment, dataset, run, device
        self.mixed, self.save_every = precision == "mixed", save_every
        dtype = PRECISIONS[precision]
        self.model = stack(build_initial_models(experiment, dataset)).to(device, dtype)
        self.optimizer = experiment.optimizer(self.model.parameters())
        self.learning_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.batches = experiment.training_batches(dataset, device, dtype)
        self.noise = IsolatedTorchRandomState(f"noise of seeds {experiment.seeds}", device)
        self.best = BestWeights(experiment, self.model) if experiment.best_metric else None
        self.diverged: dict[int, int] = {}
        self.step = Step(0, 0.0, torch.full((len(experiment.seeds),), math.nan), 0.0, 0.0)
        if run.state is not None:
            self.load_state_dict(run.state)

    def __iter__(self) -> Iterator[Step]:
        experiment, model, optimizer = self.experiment, self.model, self.optimizer
        per_epoch = len(self.batches)
        last = experiment.num_updates(per_epoch)
        points = plan_evaluations(experiment, per_epoch)
        batches = self._endless_upcoming_batches()
        saved = time.monotonic()
        model.train()
        if self.step.update == 0 and 0 in points:
            self.evaluate_finally_restoring_best(points[0])

        while self.step.update < last and not all(self.has_diverged):
            began, cpu_began = time.perf_counter(), time.process_time()
            for group, rate in zip(optimizer.param_groups, self.learning_rates, strict=True):
                group["lr"] = rate * experiment.schedule(self.step.update / last)
            with self.noise:
                x, y = next(batches)
                with one_thread(model):
                    optimizer.zero_grad()
                    # the losses of the models are added: each has the gradient that it would
                    # have alone
                    output = forward_in_mixed_precision(model, x) if self.mixed else model(x)
                    losses = experiment.loss(output, y)
                    losses.sum().backward()
                    if experiment.max_grad_norm:
                        experiment.clip_(optimizer)
                    optimizer.step()
            update, seconds, cpu_seconds = self.step.update + 1, *self.step[3:]
            self.step = Step(
                update,
                update / per_epoch,
                losses.detach(),
                seconds + time.perf_counter() - began,
                cpu_seconds + time.process_time() - cpu_began,
            )

            # between evaluations an accelerator would have to be waited for
            if update in points or self.device.type == "cpu":
                self.mark_diverged_seeds(torch.isfinite(self.step.loss))
            if update in points:  # the loss is of before the update, which may be the last
                self.mark_diverged_seeds(model.finite_models())
            if update in points or all(self.has_diverged):
                began = time.perf_counter()
                if self.device.type != "cpu":  # wait until it has done what it was given
                    torch.accelerator.synchronize(self.device)
                seconds = self.step.total_seconds + time.perf_counter() - began
                self.step = self.step._replace(total_seconds=seconds)
                self.evaluate_finally_restoring_best(
                    Evaluation.FINAL if all(self.has_diverged) else points[update]
                )
            if time.monotonic() - saved >= self.save_every:
                self.save()
                saved = time.monotonic()
            try:
                yield self.step
            except GeneratorExit:  # between two updates: nothing is half done
                self.save()
                raise

    def _endless_upcoming_batches(self) -> Iterator[tuple[Any, Any]]:
        """Yield the batches from the next update on, one epoch after the other."""
        epoch, start = divmod(self.step.update, len(self.batches))
        while True:
            yield from self.batches.batches_of_epoch(epoch, start)
            epoch, start = epoch + 1, 0

    def mark_diverged_seeds(self, finite: Tensor) -> None:
        """Note which seeds have diverged by now, by what is finite of each (S,)."""
        for seed, fine in zip(self.experiment.seeds, finite.tolist(), strict=True):
            if not fine:
                self.diverged.setdefault(seed, self.step.update)

    @property
    def has_diverged(self) -> list[bool]:
        """True for each seed that has diverged (S,)."""
        return [seed in self.diverged for seed in self.experiment.seeds]

    def evaluate_finally_restoring_best(self, evaluation: Evaluation) -> None:
        """Measure and log; at the end, the selected weights, which the model then has."""
        skipped = self.has_diverged
        if self.best and evaluation is Evaluation.FINAL:
            self._evaluate(Evaluation.FULL, skipped)  # the last weights may be the best
            self.best.restore()
            pairs = zip(skipped, self.best.state["values"], strict=True)
            skipped = [gone and value is None for gone, value in pairs]
        self._evaluate(evaluation, skipped)

    def _evaluate(self, evaluation: Evaluation, skipped: list[bool]) -> None:
        metrics: Mapping[str, Sequence[Any]] = {}
        if not all(skipped):
            model = (
                self.model.replace_diverged_by_survivor(skipped) if any(skipped) else self.model
            )
            with self.noise:
                metrics = self.experiment.evaluate(model, self.dataset, evaluation)
            if self.best and evaluation in (Evaluation.INITIAL, Evaluation.FULL):
                self.best.update(self.step.update, metrics, skipped)

        losses = self.step.loss.tolist()
        times = {"seconds": self.step.total_seconds, "cpu_seconds": self.step.total_cpu_seconds}
        for index, seed in enumerate(self.experiment.seeds):
            row = {"update": self.step.update, "epoch": self.step.epoch, **times, "seed": seed}
            row["loss"] = losses[index] if self.step.update else None
            if seed in self.diverged:
                row |= {"loss": None, "diverged": self.diverged[seed]}
            if skipped[index]:
                values: dict[str, Any] = dict.fromkeys(self.experiment.metrics)
            else:
                values = {name: of_seeds[index] for name, of_seeds in metrics.items()}
            pictures = {n: v for n, v in values.items() if getattr(v, "ndim", 0)}
            numbers = {n: v for n, v in values.items() if n not in pictures}
            self.run.log(row | numbers, pictures)

    def save(self) -> None:
        """Keep a checkpoint."""
        self.run.checkpoint(self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return all that the rest of the training depends on."""
        return {
            "step": tuple(self.step),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "noise": self.noise.state,
            "diverged": self.diverged,
            "best": self.best.state if self.best else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where a :meth:`state_dict` was taken."""
        self.step = Step(*state["step"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.noise.state = state["noise"]
        self.diverged = dict(state["diverged"])
        if self.best:
            best = state["best"]
            self.best.state = tree_map_only(Tensor, lambda w: w.to(self.device), best)

    def save_weights_and_result(self) -> None:
        """Write the weights, by ``<seed>.<name>``, and the result of the run."""
        outcomes, weights = {}, {}
        models = self.model.unstack()
        for index, seed in enumerate(self.experiment.seeds):
            outcome: dict[str, Any] = {"outcome": "finished", "update": self.step.update}
            if seed in self.diverged:
                outcome = {"outcome": "diverged", "update": self.diverged[seed]}
            if self.best:
                outcome["best"] = self.best.report(index)
            outcomes[str(seed)] = outcome
            for name, tensor in models[index].state_dict().items():
                weights[f"{seed}.{name}"] = tensor
        result = {
            "updates": self.step.update,
            "seconds": self.step.total_seconds,
            "cpu_seconds": self.step.total_cpu_seconds,
            "main_metrics": self.experiment.metrics,
            "outcomes": outcomes,
        }
        self.run.finish(result, weights)


class BestWeights:
    """The weights of stacked models at the best value of a metric, each model's own.

    Attributes:
        state: the values, the updates they were measured after, and the weights.
    """

    def __init__(self, experiment: Experiment, model: Stacked) -> None:
        self.metric, self.model = experiment.best_metric, model
        self.sign = 1 if self.metric in experiment.higher_is_better else -1
        self.state: dict[str, Any] = {
            "values": [None] * model.count,
            "updates": [0] * model.count,
            "weights": {name: value.clone() for name, value in model.state_dict().items()},
        }

    def update(
        self, update: int, metrics: Mapping[str, Sequence[Any]], skipped: Sequence[bool]
    ) -> None:
        """Keep the weights of models whose metric is better than before; NaN never is."""
        values = self.state["values"]
        for index, value in enumerate(map(float, metrics[self.metric])):
            if skipped[index] or math.isnan(value):
                continue
            if values[index] is None or self.sign * value > self.sign * values[index]:
                values[index], self.state["updates"][index] = value, update
                self._keep_current_weights(index)

    def restore(self) -> None:
        """Give the model its best weights; one that never had a value keeps its own."""
        for index, value in enumerate(self.state["values"]):
            if value is None:
                self._keep_current_weights(index)
        self.model.load_state_dict(self.state["weights"])

    def _keep_current_weights(self, model_index: int) -> None:
        """Keep the weights that one model has now, a slice of a stack of several."""
        which = model_index if self.model.count > 1 else ...
        for name, weights in self.model.state_dict().items():
            self.state["weights"][name][which] = weights[which]

    def report(self, model_index: int) -> dict[str, Any]:
        """Return the entry in a result: metric, value, and the update it was measured after."""
        value = self.state["values"][model_index]
        update = self.state["updates"][model_index]
        return {"metric": self.metric, "value": value, "update": update}


def forward_in_mixed_precision(model: nn.Module, x: Any) -> Any:
    """Return a model's outputs, its matrix products made in bfloat16, in the weights' dtype."""
    weight = next(model.parameters())
    with torch.autocast(weight.device.type, torch.bfloat16):
        output = model(x)
    return tree_map_only(
        Tensor, lambda a: a.to(weight.dtype) if a.dtype is torch.bfloat16 else a, output
    )


def build_initial_models(experiment: Experiment, dataset: Any) -> list[nn.Module]:
    """Return the model of each seed with its initial weights, before training.

    The weights are drawn in float32.

    Examples:
        >>> experiment = lnlab.papers.mnist.Experiment(preset="smoke")
        >>> models = lnlab.training.build_initial_models(experiment, experiment.dataset())
    """
    models = []
    for seed in experiment.seeds:
        with default_dtype(torch.float32), seed_torch_temporarily(seed):
            models.append(experiment.model(seed, dataset))
    return models


# Runs of experiments

PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "mixed": torch.float32}
"""The dtype of weights and data; "mixed" makes products of matrices in bfloat16 in training."""


def train(experiment: Experiment, label: str = "", **settings: Any) -> Run:
    """Train an experiment to its end, with a progress bar, and return its run.

    If the run was finished before, it is read from disk, and a line says so.

    Args:
        experiment: the experiment to train.
        label: the text of the progress bar; by default the name of the experiment.
        settings: arguments of :func:`train_steps`, such as ``root`` and ``device``.

    Examples:
        >>> experiment = lnlab.papers.mnist.Experiment(preset="smoke", seeds=(0,))
        >>> run = lnlab.train(experiment, root="runs")
        >>> print(run.metrics())
    """
    if not isinstance(experiment, Experiment):
        raise TypeError(
            f"experiment is {experiment!r}: give an experiment, such as "
            "lnlab.papers.mnist.Experiment(preset='smoke'), or one of the values of its arms()."
        )
    run: Any = None

    def yield_steps_then_set_run() -> Generator[Step, None, None]:
        nonlocal run
        run = yield from train_steps(experiment, **settings)

    steps, label = yield_steps_then_set_run(), label or experiment.name
    step = next(steps, None)
    if step is None:
        when = f", trained {run.finish_time} UTC" if run.finish_time else ""
        print(f"{label}: read back from run {run.key}{when}", flush=True)
        return run
    left = experiment.num_updates(round(step.update / step.epoch)) - step.update + 1
    for _ in progress(chain([step], steps), left, label):
        pass
    return run


def train_steps(
    experiment: Experiment,
    *,
    root: Path | None = None,
    device: str | torch.device = "auto",
    precision: str = "float32",
    save_every: float = 30.0,
) -> Generator[Step, None, Run]:
    """Train an experiment to its end, yielding each :class:`Step`; return its run.

    All seeds train at once, in one thread. Each evaluation logs one row per seed: ``update``,
    ``epoch``, ``seconds``, ``cpu_seconds``, ``seed``, ``loss`` (of the last batch) and what the
    experiment measures. If the process is killed, the next call continues from the last
    checkpoint and ends with the same result, except for times. If the run is finished, no step
    is yielded.

    If the loss or the weights of a seed stop being finite, the seed has diverged: its row has
    only the update at which this happened and ``diverged``. The other seeds train on and end
    with the same weights as without it. ``outcomes`` in the result says for each seed whether
    it "finished" or "diverged", and at which update.

    Args:
        experiment: the experiment to train.
        root: the folder of the runs, by default ``runs`` in the checkout; the run is in
            ``root/<experiment>/<key>``.
        device: where to train; "auto" uses CUDA if it is available, else the CPU. It is part of
            the configuration, because results differ in their last digits.
        precision: "float32", "float64" or "mixed" (float32, with the matrix products of
            training steps in bfloat16); part of the configuration.
        save_every: seconds between two checkpoints; another one is saved when the iterator is
            closed.

    Raises:
        RunLockedError: if another process is writing the run.
        ValueError: if this machine does not have the device, or the precision is unknown.

    Examples:
        >>> experiment = lnlab.papers.mnist.Experiment(preset="smoke", seeds=(0,))
        >>> for step in lnlab.training.train_steps(experiment, root="runs"):
        ...     print(step.update, step.loss)
    """
    device, dataset = read_device(device), experiment.dataset()
    config, data = _run_identity(experiment, dataset, device, precision)
    root = paths.folder_in_checkout_or_cwd("runs") if root is None else Path(root)
    # of any size: how sums are cut among threads shows in their last bits
    with one_thread(), Run.open(experiment.name, config, data, root, device) as run:
        if not run.done:
            trainer = Trainer(experiment, dataset, run, device, precision, save_every)
            yield from trainer
            trainer.save_weights_and_result()
    return run


def find_run(
    experiment: Experiment,
    *,
    root: Path | None = None,
    device: str | torch.device = "auto",
    precision: str = "float32",
) -> Run | None:
    """Return the run of an experiment from disk, finished or not; None if it was never begun.

    Examples:
        >>> experiment = lnlab.papers.mnist.Experiment(preset="smoke")
        >>> run = lnlab.training.find_run(experiment, root="runs")
    """
    config, data = _run_identity(
        experiment, experiment.dataset(), read_device(device), precision
    )
    return Run.find(
        experiment.name, config, data, root or paths.folder_in_checkout_or_cwd("runs")
    )


class RunIdentity(NamedTuple):
    """The identity of a run: its configuration and its data."""

    config: dict[str, Any]  # that of the experiment, the type of the device and the precision
    data: dict[str, Any]  # what the data set says of itself: name, kind, checksum, licence


def _run_identity(
    experiment: Experiment, dataset: Any, device: torch.device, precision: str
) -> RunIdentity:
    """Return what identifies a run."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r}: choose from {', '.join(PRECISIONS)}.")
    config = {**experiment.config(), "device": device.type, "precision": precision}
    names = ["name", "kind", "checksum", "licence"]
    if hasattr(dataset, "checksum_of"):  # data of the user's own may not say
        names.append("checksum_of")
    return RunIdentity(config, {name: getattr(dataset, name) for name in names})


# Without a run


def fit(
    model: nn.Module,
    batches: BatchSource,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    epochs: int,
) -> Iterator[Tensor]:
    """Train a stack of S models without keeping a run, yielding their losses (S,) per update.

    An update is made when its losses are requested, so you can measure between two updates.

    Examples:
        >>> models = lnlab.training.stack([net])
        >>> batches = lnlab.training.Batches(x, y, 8, seeds=[0])
        >>> optimizer = torch.optim.Adam(models.parameters())
        >>> loss = lnlab.training.cross_entropy_per_model
        >>> losses = [*lnlab.training.fit(models, batches, loss, optimizer, epochs=1)]
    """
    model.train()
    for epoch in range(epochs):
        for x, y in batches.batches_of_epoch(epoch):
            with one_thread(model):
                optimizer.zero_grad()
                losses = loss(model(x), y)
                losses.sum().backward()
                optimizer.step()
            yield losses.detach()


def cross_entropy_per_model(output: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy in nats of S models (S,).

    The scores are (S, B, classes), the true classes (S, B).

    Examples:
        >>> scores, classes = torch.randn(2, 32, 4), torch.zeros(2, 32).long()
        >>> losses = lnlab.training.cross_entropy_per_model(scores, classes)  # of 2 models
    """
    if len(output) == 1:  # less to do for the gradient, least of all in a view
        return F.cross_entropy(output.squeeze(0), y.squeeze(0)).unsqueeze(0)
    losses = F.cross_entropy(output.flatten(0, 1), y.flatten(), reduction="none")
    return losses.view(y.shape).mean(1)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[nn.Module]:
    """Put a model in evaluation mode, without gradients; afterwards each module as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        for module, mode in modes:
            module.training = mode


@in_one_thread_if_small
def evaluate(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, *, batch_size: int = 1000
) -> dict[str, list[float]]:
    """Return the mean loss and the fraction of wrong classes of each model: ``nll``, ``error``.

    x is (N, ...). y is (N,), or (N, T) with T classes per example. The models see
    ``batch_size`` examples at a time; all models of a :class:`Stacked` see the same ones.

    Examples:
        >>> print(lnlab.training.evaluate(net, x, y, F.cross_entropy))
    """
    if len(x) == 0:
        raise ValueError("there are no examples to evaluate on.")
    weight = next(model.parameters())
    nll = wrong = torch.zeros((), dtype=torch.float64)
    with evaluation_mode(model):
        for some_x, some_y in zip(x.split(batch_size), y.split(batch_size), strict=True):
            count = len(some_x)
            some_x, some_y = move_to_device((some_x, some_y), weight.device, weight.dtype)
            if isinstance(model, Stacked):
                some_x = some_x.expand(model.count, *some_x.shape)
                some_y = some_y.expand(model.count, *some_y.shape)
            output = model(some_x)
            nll = nll + loss(output, some_y).double().cpu() * count
            missed = output.argmax(-1) != some_y
            wrong = wrong + missed.reshape(*nll.shape, -1).sum(-1).cpu()
    return {
        "nll": (nll / len(x)).reshape(-1).tolist(),
        "error": (wrong.double() / y.numel()).reshape(-1).tolist(),
    }
