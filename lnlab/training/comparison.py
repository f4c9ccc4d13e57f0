"""Train one network with several norms, from the same start on the same batches."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import DataLoader

from lnlab.analysis.module_copy import check_type
from lnlab.analysis.result import AnalysisResult
from lnlab.analysis.statistics import interval
from lnlab.nn import Conv2d, Linear
from lnlab.progress import progress
from lnlab.seeds import read_seeds
from lnlab.threads import one_thread
from lnlab.training.batches import Batches
from lnlab.training.optim import Adam
from lnlab.training.random_state import (
    IsolatedTorchRandomState,
    move_to_device,
    read_device,
    seed_torch_temporarily,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

NormLayer = Callable[..., nn.Module]
"""A function from a number of units to the module that normalizes them."""

LAST = 0.2
"""The final loss is the mean over this last part of the updates: a single batch is noisy."""

POINTS = 50
"""The most points of a curve, each a mean over updates."""

CPU = torch.device("cpu")

MADE_BY_NORM_LAYER = "_made_by_norm_layer"
"""The attribute by which the norms that are compared are found in a network."""


@dataclass(frozen=True)
class NormComparison(AnalysisResult):
    """Training losses of one network with several norms, compared with the first norm."""

    losses: Mapping[str, Tensor]  # the training loss at each update, (seeds, updates), by norm
    seeds: tuple[int, ...]  # the seed of each row
    learning_rates: Mapping[str, float]  # the rate of each norm
    device: str  # where they were trained
    given_rates: tuple[float, ...] = ()  # those that each norm's rate was chosen from

    @property
    def final_losses(self) -> dict[str, Tensor]:
        """The mean loss over the last fifth of the updates (seeds,), by norm."""
        return {name: mean_over_last_fifth(losses) for name, losses in self.losses.items()}

    def differences(self) -> dict[str, tuple[list[float], tuple[float, float]]]:
        """Return each norm's final losses minus the first norm's, and their 95 % interval.

        The form is ``{name: (values, (low, high))}``, a value for each seed. Negative
        differences are better. The interval is NaN if a training diverged.
        """
        first, *others = self.losses
        differences = {}
        for name in others:
            values = (self.final_losses[name] - self.final_losses[first]).tolist()
            finite = all(map(math.isfinite, values))
            differences[name] = values, interval(values) if finite else (math.nan, math.nan)
        return differences

    def to_frame(self) -> "pd.DataFrame":
        """Return a row for each norm: rate, mean final loss, difference with its interval."""
        import pandas as pd

        rows, differences = [], self.differences()
        for name, losses in self.final_losses.items():
            row = {"norm": name, "learning_rate": self.learning_rates[name]}
            row["final_loss"] = float(losses.mean())
            if name in differences:
                values, (low, high) = differences[name]
                row |= {"difference": sum(values) / len(values), "low": low, "high": high}
            rows.append(row)
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        first, seeds = next(iter(self.losses)), len(self.seeds)
        legend = f"difference from {first}, 95 % interval over {seeds} seeds; training loss"
        lowest, highest = min(self.given_rates, default=0), max(self.given_rates, default=0)
        at_edge = [n for n, rate in self.learning_rates.items() if rate in (lowest, highest)]
        if lowest < highest and at_edge:
            legend += f"\nlowest or highest of the given rates: {', '.join(at_edge)}"
        return f"{super().__str__()}\n{legend}"

    def plot(self) -> "go.Figure":
        """Return the learning curves: means over seeds, and bands that hold all of them."""
        from lnlab.figures.curves import line_chart

        updates = next(iter(self.losses.values())).shape[1]
        size = math.ceil(updates / POINTS)
        curves = {}
        for name, losses in self.losses.items():
            blocks = losses.split(size, 1)
            ends = torch.tensor([block.shape[1] for block in blocks]).cumsum(0)
            means = torch.stack([block.mean(1) for block in blocks], 1)
            curves[name] = ends.double().numpy(), means.numpy()
        made_on = f"{len(self.seeds)} seeds, on {self.device}"
        return line_chart({"": curves}, x="updates", y="training loss", made_on=made_on)

    def plot_differences(self) -> "go.Figure":
        """Return the differences: a dot for each seed, a bar for the interval of their mean."""
        from lnlab.figures.curves import paired_differences

        first = next(iter(self.losses))
        rows = {f"{name} − {first}": value for name, value in self.differences().items()}
        made_on = f"Final training loss, {len(self.seeds)} seeds, on {self.device}"
        return paired_differences(rows, x="difference (negative is better)", made_on=made_on)


def mean_over_last_fifth(losses: Tensor) -> Tensor:
    """Return the mean over the last fifth of the updates: (..., updates) to (...)."""
    return losses[..., -max(1, round(LAST * losses.shape[-1])) :].mean(-1)


def compare(
    build: Callable[[NormLayer], nn.Module],
    norms: Mapping[str, NormLayer],
    data: Any,
    *,
    loss_fn: Callable[[Any, Any], Tensor] = F.cross_entropy,
    seeds: int | Sequence[int] = 5,
    updates: int = 200,
    batch_size: int = 32,
    learning_rate: float | Sequence[float] = 1e-3,
    optimizer: Callable[..., Optimizer] = Adam,
    device: str | torch.device = "auto",
) -> NormComparison:
    """Train the same network with each of several norms, on equal batches.

    The comparison is paired: for each seed all networks begin with the same initial weights and
    see the same batches. The loss that is compared is the training loss; no data are held out.
    If you interrupt it (Ctrl-C, or the stop button of a notebook), it returns the result of the
    seeds that are finished.

    Args:
        build: a function ``build(norm_layer)`` that returns the network; it calls
            ``norm_layer(units)`` wherever the network has a norm.
        norms: the norms by name: classes, or functions of the number of units, from lnlab, from
            torch or your own. The first one is the reference that the others are compared with.
        data: tensors ``(x, y)``, an object with attributes ``x`` and ``y``, a data set of
            :func:`lnlab.data.load`, or a DataLoader that yields such pairs. x may be a tuple or
            a dictionary of tensors; they become arguments of the network.
        loss_fn: ``loss_fn(output, y)``, which returns a scalar.
        seeds: the number of seeds, or the seeds themselves; at least two.
        updates: the number of updates of each training.
        batch_size: examples per batch; a DataLoader uses its own.
        learning_rate: one rate for all norms, or several. Of several, each norm gets the one
            with the lowest final loss on an additional seed.
        optimizer: called with the parameters and ``lr=``.
        device: where to train; "auto" uses CUDA if it is available, else the CPU.

    Raises:
        TypeError: if the data are of another kind, or ``build`` does not return a module.
        ValueError: if the trainings cannot be paired, because a network does not use the norm
            or its weights have another shape; if there are fewer than two norms or seeds; if
            all learning rates diverge.

    Examples:
        >>> def build(norm_layer):
        ...     return nn.Sequential(nn.Linear(8, 16), norm_layer(16), nn.Linear(16, 4))
        ...
        >>> norms = {"LN": lnlab.nn.LayerNorm, "BN": nn.BatchNorm1d, "none": nn.Identity}
        >>> runs = lnlab.compare(build, norms, (x, y), seeds=3, updates=20)
        >>> print(runs)
        >>> runs.plot()
    """
    check_type("norms", norms, Mapping, "norms by name, such as {'LN': lnlab.nn.LayerNorm}")
    for name, norm in norms.items():
        if isinstance(norm, nn.Module) or not callable(norm):
            raise TypeError(
                f"norms[{name!r}] is {norm!r}: give a class or a function of the units."
            )
    check_type("loss_fn", loss_fn, Callable, "a function of the network's output and y")
    device = read_device(device)
    seeds = [*read_seeds(seeds)]
    single = isinstance(learning_rate, float | int)
    rates = [float(rate) for rate in ((learning_rate,) if single else learning_rate)]
    for name, values in (("norms", norms), ("seeds", seeds)):
        if len({*values}) < 2:
            raise ValueError(f"{name} are {list(values)}: give two different ones at least.")
    if updates < 1 or not rates:
        raise ValueError("give one update and one learning rate at least.")

    def train(seed: int, arms: Mapping[tuple[str, float], NormLayer]) -> Iterator[list[Tensor]]:
        models = _paired_models(build, arms, seed, device)
        batches = _endless_batches(data, batch_size, seed)
        return _train(models, batches, loss_fn, optimizer, [rate for _, rate in arms], seed)

    tuned = len(rates) > 1
    grid = {(name, rate): norm for name, norm in norms.items() for rate in rates}
    chosen = dict.fromkeys(norms, rates[0])
    total = updates * (len(seeds) + tuned)
    finished: list[Tensor] = []

    def steps() -> Iterator[None]:
        for seed in [max(seeds) + 1, *seeds] if tuned else seeds:
            tuning = seed not in seeds
            arms = {(name, chosen[name]): norm for name, norm in norms.items()}
            rows = []
            for row in islice(train(seed, grid if tuning else arms), updates):
                rows.append(torch.stack(row))
                yield
            losses = torch.stack(rows, 1).double().cpu()  # (models, updates)
            if tuning:
                chosen.update(_best_rates(grid, mean_over_last_fifth(losses)))
            else:
                finished.append(losses)

    try:
        with one_thread():
            for _ in progress(steps(), total, "compare"):
                pass
    except KeyboardInterrupt:
        if len(finished) < 2:
            raise
        print(f"compare: interrupted, {len(finished)} of {len(seeds)} seeds", flush=True)
    losses = torch.stack(finished)  # (seeds, norms, updates)
    by_norm = {name: losses[:, index] for index, name in enumerate(norms)}
    done = tuple(seeds[: len(finished)])
    return NormComparison(by_norm, done, chosen, device.type, tuple(rates))


def _best_rates(grid: Iterable[tuple[str, float]], final_losses: Tensor) -> dict[str, float]:
    """Return the rate of each norm whose final loss is lowest."""
    best: dict[str, tuple[float, float]] = {}
    for (name, rate), loss in zip(grid, final_losses.tolist(), strict=True):
        if math.isfinite(loss) and (name not in best or loss < best[name][0]):
            best[name] = loss, rate
    if missing := [name for name, _ in grid if name not in best]:
        raise ValueError(f"with {missing[0]!r} every learning rate diverges: give lower ones.")
    return {name: rate for name, (_, rate) in best.items()}


def _train(
    models: Sequence[nn.Module],
    batches: Iterator[tuple[Any, Any]],
    loss_fn: Callable[[Any, Any], Tensor],
    optimizer: Callable[..., Optimizer],
    rates: Sequence[float],
    seed: int,
) -> Iterator[list[Tensor]]:
    """Make an update of every model on each batch, and yield their losses."""
    weight = next(models[0].parameters())
    optimizers = [optimizer(m.parameters(), lr=r) for m, r in zip(models, rates, strict=True)]
    # dropout draws the same in all models
    noises = [IsolatedTorchRandomState(f"noise of seed {seed}", weight.device) for _ in models]
    for batch in batches:
        x, y = move_to_device(batch, weight.device, weight.dtype)
        keywords = x if isinstance(x, Mapping) else {}
        arguments = () if keywords else x if isinstance(x, tuple | list) else (x,)
        losses = []
        for model, steps, noise in zip(models, optimizers, noises, strict=True):
            with noise:
                steps.zero_grad()
                loss = loss_fn(model(*arguments, **keywords), y)
                loss.backward()
                steps.step()
            losses.append(loss.detach())
        yield losses


# The same batches


def _endless_batches(data: Any, batch_size: int, seed: int) -> Iterator[tuple[Any, Any]]:
    """Yield batches for ever, epoch after epoch, in the order of a seed."""
    if isinstance(data, DataLoader):
        yield from _endless_loader_batches(data, seed)
    x, y = _require_x_and_y(data)
    batches, epoch = Batches(x, y, batch_size, [seed]), 0
    while True:
        for batch in batches.batches_of_epoch(epoch):
            yield tree_map(lambda tensor: tensor.squeeze(0), batch)
        epoch += 1


def _require_x_and_y(data: Any) -> tuple[Any, Any]:
    """Return x and y of data that are tensors."""
    data = getattr(data, "train", data)
    pair = (data.x, data.y) if hasattr(data, "x") and hasattr(data, "y") else data
    if not (isinstance(pair, tuple | list) and len(pair) == 2) or not all(
        isinstance(leaf, Tensor) for leaf in tree_leaves(pair)
    ):
        raise TypeError(
            f"data is {type(data).__name__}: give tensors (x, y), or a DataLoader of such "
            "pairs."
        )
    return pair[0], pair[1]


def _endless_loader_batches(loader: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    order = IsolatedTorchRandomState(
        f"order of seed {seed}", CPU
    )  # a loader shuffles by torch's generator
    while True:
        with order:
            epoch = iter(loader)
            batch = next(epoch, None)
        if batch is None:
            raise ValueError("the DataLoader gives no batches, or gives them only once.")
        while batch is not None:
            yield _require_x_and_y(batch)
            with order:
                batch = next(epoch, None)


# The same initial weights


def _paired_models(
    build: Callable[[NormLayer], nn.Module],
    arms: Mapping[tuple[str, float], NormLayer],
    seed: int,
    device: torch.device,
) -> list[nn.Module]:
    """Return a network for each arm whose weights outside of the norms begin alike."""
    models, first_name, first = [], "", dict[str, Tensor]()
    for (name, _), norm in arms.items():
        with seed_torch_temporarily(seed):
            model, weights = _model_and_weights_outside_norms(build, norm, name)
        for key, value in weights.items():
            if key not in first:
                continue
            if value.shape != first[key].shape:
                shapes = tuple(first[key].shape), tuple(value.shape)
                raise ValueError(
                    f"{key} is {shapes[0]} with {first_name!r} and {shapes[1]} with {name!r}: "
                    "trainings are paired where all but the norm is the same."
                )
            if not torch.equal(value, first[key]):  # the norm has drawn random numbers
                value.copy_(first[key])
                path, _, parameter = key.rpartition(".")
                layer = model.get_submodule(path)
                if parameter == "W" and isinstance(layer, Linear | Conv2d):
                    layer.norm.initialize_from_weights(
                        layer.W
                    )  # weight norm begins at the weights
        if not first:
            first_name, first = name, {key: value.clone() for key, value in weights.items()}
        models.append(model.to(device).train())
    return models


def _model_and_weights_outside_norms(
    build: Callable[[NormLayer], nn.Module], norm: NormLayer, name: str
) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a network, and what it has outside of its norms: parameters and buffers."""

    def make_marked_norm(*args: Any, **kwargs: Any) -> nn.Module:
        module = norm(*args, **kwargs)
        # an attribute, as build may return copies: lnlab.swap(...).make() does
        vars(module)[MADE_BY_NORM_LAYER] = True
        return module

    model = build(make_marked_norm)
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"build returns {type(model).__name__}: give the network, an nn.Module."
        )
    prefixes = [
        f"{path}."
        for path, module in model.named_modules()
        if MADE_BY_NORM_LAYER in vars(module)
    ]
    if not prefixes:
        raise ValueError(
            f"the network with {name!r} has no module of norm_layer: build(norm_layer) must "
            "put what norm_layer(units) makes into the network, and not fuse it."
        )
    weights = {
        key: value.data
        for key, value in [*model.named_parameters(), *model.named_buffers()]
        if not key.startswith(tuple(prefixes))
    }
    return model, weights
