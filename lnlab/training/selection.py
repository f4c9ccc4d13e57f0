"""The weights that count: of each model those at its best value of a metric."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lnlab.training.stacked import Stacked


class Best:
    """The weights of stacked models at the best value of a metric, each model's own.

    Args:
        metric: its name among what is measured.
        rises: whether it is better when larger.
        model: whose weights are kept; those that it has now until there is a value.
    """

    def __init__(self, metric: str, rises: bool, model: Stacked) -> None:
        self.metric, self.rises, self.model = metric, rises, model
        self.values: list[float | None] = [None] * model.count
        self.updates = [0] * model.count
        self.weights = {name: value.clone() for name, value in model.state_dict().items()}

    def look(self, update: int, measured: Mapping[str, Sequence[Any]]) -> None:
        """Keep the weights of the models whose metric is better than ever; NaN never is.

        Raises:
            ValueError: if the metric was not measured.
        """
        if self.metric not in measured:
            raise ValueError(
                f"best_metric is {self.metric!r}, and only {', '.join(measured)} were measured "
                f"after update {update}: name one of them, or let measure() give it there."
            )
        for index, value in enumerate(map(float, measured[self.metric])):
            if math.isnan(value) or not self._better(value, self.values[index]):
                continue
            self.values[index], self.updates[index] = value, update
            for name, now in self.model.state_dict().items():
                self._slice(self.weights[name], index).copy_(self._slice(now, index))

    def put(self) -> None:
        """Give the model the weights that count; one that never had a value keeps its own."""
        now = self.model.state_dict()
        for index, value in enumerate(self.values):
            if value is None:
                for name, kept in self.weights.items():
                    self._slice(kept, index).copy_(self._slice(now[name], index))
        self.model.load_state_dict(self.weights)

    def _better(self, value: float, before: float | None) -> bool:
        return before is None or (value > before if self.rises else value < before)

    def _slice(self, tensor: Tensor, index: int) -> Tensor:
        return tensor[index] if self.model.count > 1 else tensor

    def report(self, index: int) -> dict[str, Any]:
        """The entry in a result: metric, value, and the update after which it was measured."""
        return {
            "metric": self.metric,
            "value": self.values[index],
            "update": self.updates[index],
        }

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on."""
        return {"values": self.values, "updates": self.updates, "weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where a :meth:`state_dict` was taken."""
        self.values, self.updates = list(state["values"]), list(state["updates"])
        for name, kept in self.weights.items():
            kept.copy_(state["weights"][name])
