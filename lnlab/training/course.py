"""An experiment on its way: trained, measured, and saved so that it can be gone on with."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lnlab.runs import Run
from lnlab.training.loop import Step, fit
from lnlab.training.machine import Noise, default_dtype, seconds_until_idle
from lnlab.training.selection import Best
from lnlab.training.stacked import stack
from lnlab.training.task import Beside, Experiment, Moment, measured_after


class Course:
    """An experiment on its way: model, optimizer, random numbers, clocks, and where they stand.

    Iterating goes on from there to the end, and logs to the run at the evaluation points.

    Attributes:
        diverged: the update after which a seed's loss or weights were seen not to be finite, by
            seed.
        best: the weights that count so far, where these are not the last.
    """

    def __init__(
        self,
        task: Experiment,
        dataset: Any,
        run: Run,
        device: torch.device,
        dtype: torch.dtype,
        beside: Callable[[nn.Module], Beside] | None,
        mixed: bool = False,
    ) -> None:
        self.task, self.dataset, self.run, self.device = task, dataset, run, device
        self.mixed = mixed
        self.model = stack(models(task, dataset)).to(device, dtype)
        self.optimizer = task.optimizer(self.model.parameters())
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.batches = task.batches(dataset, device=device, dtype=dtype)
        self.noise = Noise(f"noise of seeds {task.seeds}", device)
        self.beside = beside(self.model) if beside else None
        metric = task.best_metric
        self.best = Best(metric, metric in task.rises, self.model) if metric else None
        self.diverged: dict[int, int] = {}
        self.step = Step(0, 0.0, torch.full((len(task.seeds),), math.nan), 0.0, 0.0)
        state = run.restore()
        if state is not None:
            self.load_state_dict(state)

    def __iter__(self) -> Iterator[Step]:
        task, before, each = self.task, self.step, len(self.batches)
        last = task.length(each)
        points = measured_after(task, each)
        if before.update == 0 and 0 in points:
            self._measure(points[0])
        steps = fit(
            self.model,
            self.batches,
            task.loss,
            self.optimizer,
            math.ceil(last / each),
            start=before.update,
            mixed=self.mixed,
        )
        waited = before.seconds
        while self.step.update < last and not all(self.lost):
            self._set_rates(self.step.update / last)
            with self.noise:
                step = next(steps)
            # elsewhere than at these points an accelerator would have to be waited for
            if step.update in points or self.device.type == "cpu":
                self._see(step.update, torch.isfinite(step.loss))
            if step.update in points:  # the loss is of before the update, which may be the last
                self._see(step.update, self.model.finite())
            moment = Moment.END if all(self.lost) else points.get(step.update)
            if moment:
                waited += seconds_until_idle(self.device)
            self.step = step._replace(
                seconds=waited + step.seconds,
                cpu_seconds=before.cpu_seconds + step.cpu_seconds,
            )
            if moment:
                self._measure(moment)
            yield self.step

    def _see(self, update: int, finite: Tensor) -> None:
        """Remember which seeds have diverged by now, and when that was seen."""
        if not bool(finite.all()):
            for seed, fine in zip(self.task.seeds, finite.tolist(), strict=True):
                if not fine:
                    self.diverged.setdefault(seed, update)

    @property
    def lost(self) -> list[bool]:
        """True for each seed that has diverged (S,)."""
        return [seed in self.diverged for seed in self.task.seeds]

    def _set_rates(self, part: float) -> None:
        """The learning rates of the next update."""
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.task.schedule(part)

    def _measure(self, moment: Moment) -> None:
        """Measure and log; at the end of the weights that count, which the model then has."""
        lost = self.lost
        if self.best and moment is Moment.END:
            self._log(*self._measured(Moment.DEAR, lost))  # the last may be the best
            self.best.put()
            lost = [
                gone and best is None for gone, best in zip(lost, self.best.values, strict=True)
            ]
        self._log(*self._measured(moment, lost))

    def _measured(
        self, moment: Moment, lost: list[bool]
    ) -> tuple[Mapping[str, Sequence[Any]], list[bool]]:
        """The task's measurements, NaN for seeds that are lost, and which are lost."""
        if all(lost):
            return {}, lost
        model = self.model if not any(lost) else self.model.without(lost)
        with self.noise:
            measured = self.task.measure(model, self.dataset, moment)
        found = {
            name: [
                math.nan if gone else value for gone, value in zip(lost, values, strict=True)
            ]
            for name, values in measured.items()
        }
        if self.best and moment in (Moment.START, Moment.DEAR):
            self.best.look(self.step.update, found)
        return found, lost

    def _log(self, measured: Mapping[str, Sequence[Any]], lost: list[bool]) -> None:
        """A row for each seed; of one that is lost, with nothing of it."""
        step, losses = self.step, self.step.loss.tolist()
        for index, seed in enumerate(self.task.seeds):
            row: dict[str, Any] = {
                "update": step.update,
                "epoch": step.epoch,
                "seconds": step.seconds,
                "cpu_seconds": step.cpu_seconds,
                "seed": seed,
                "loss": losses[index] if step.update else None,
            }
            if seed in self.diverged:
                row |= {"loss": None, "diverged": self.diverged[seed]}
            if lost[index]:
                self.run.log(row | dict.fromkeys((*self.task.falls, *self.task.rises)))
                continue
            found = {name: values[index] for name, values in measured.items()}
            pictures = {name: value for name, value in found.items() if is_picture(value)}
            numbers = {name: value for name, value in found.items() if name not in pictures}
            self.run.log(row | numbers, **({"pictures": pictures} if pictures else {}))

    def save(self) -> None:
        """Keep a checkpoint."""
        self.run.checkpoint(self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the course depends on."""
        return {
            "step": tuple(self.step),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "noise": self.noise.state,
            "diverged": self.diverged,
            "best": self.best.state_dict() if self.best else None,
            "beside": self.beside.state_dict() if self.beside else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where a :meth:`state_dict` was taken."""
        self.step = Step(*state["step"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.noise.state = state["noise"]
        self.diverged = dict(state["diverged"])
        if self.best:
            self.best.load_state_dict(state["best"])
        if self.beside and state["beside"] is not None:
            self.beside.load_state_dict(state["beside"])

    def weights(self) -> dict[str, Tensor]:
        """Parameters and buffers (as each model has them), by ``<seed>.<name>``."""
        pairs = zip(self.task.seeds, self.model.unstack(), strict=True)
        return {
            f"{seed}.{name}": tensor
            for seed, model in pairs
            for name, tensor in model.state_dict().items()
        }

    def result(self) -> dict[str, Any]:
        """The time that the run took, the ending of each seed, and the metrics that judge."""
        return {
            "updates": self.step.update,
            "seconds": self.step.seconds,
            "cpu_seconds": self.step.cpu_seconds,
            "main_metrics": [*self.task.falls, *self.task.rises],
            "outcomes": {str(s): self._outcome(i) for i, s in enumerate(self.task.seeds)},
        }

    def _outcome(self, index: int) -> dict[str, Any]:
        diverged = self.diverged.get(self.task.seeds[index])
        outcome = {
            "outcome": "finished" if diverged is None else "diverged",
            "update": self.step.update if diverged is None else diverged,
        }
        return outcome | ({"best": self.best.report(index)} if self.best else {})


def is_picture(value: Any) -> bool:
    """True if a measurement has axes: attention, a canvas, a stroke."""
    return isinstance(value, Tensor | np.ndarray) and value.ndim > 0


def models(task: Experiment, dataset: Any) -> list[nn.Module]:
    """The model of each seed of a task as it is before training, drawn in float32."""
    with default_dtype(torch.float32), Noise("models", torch.device("cpu")):
        return [_drawn(task, seed, dataset) for seed in task.seeds]


def _drawn(task: Experiment, seed: int, dataset: Any) -> nn.Module:
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)
    return task.model(seed, dataset)
