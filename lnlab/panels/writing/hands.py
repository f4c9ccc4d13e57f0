"""Nets that can write, at several stages of their training; small ones come with lnlab.

``hands.safetensors`` beside this file has their weights in float16, and says which runs they
are of and what made them. ``python -m lnlab.panels.writing.hands RUNS`` packs them anew.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from lnlab.data.line import Line
from lnlab.data.strokes import Alphabet
from lnlab.tasks import Handwriting
from lnlab.tasks.handwriting import HandwritingNet, Ink, write
from lnlab.tasks.handwriting.writing import Scale
from lnlab.training.random_state import default_dtype
from lnlab.training.runs import Run, read

SHIPPED = Path(__file__).with_name("hands.safetensors")


@dataclass(frozen=True, eq=False)
class Hands:
    """Nets of several arms, that were trained on the same lines.

    Attributes:
        nets: by arm, by the update after which they are.
        scale: mean and deviation of the offsets, each (2,).
        floor: of the deviations.
        made: the runs, and the commands that made them.
    """

    nets: Mapping[str, Mapping[int, HandwritingNet]]
    scale: Scale
    floor: float
    made: str

    @property
    def stages(self) -> tuple[int, ...]:
        """The updates after which every arm has a net."""
        return tuple(sorted(set.intersection(*(set(nets) for nets in self.nets.values()))))

    def write(
        self, arm: str, stage: int, text: str, *, bias: float, like: Line | None = None
    ) -> Ink:
        """A text in the hand of an arm; see :func:`lnlab.tasks.handwriting.write`."""
        net = self.nets[arm][stage]
        return write(net, text, self.scale, bias=bias, floor=self.floor, like=like)


def of_runs(runs: Iterable[Run], data: str = "") -> Hands:
    """The nets of finished runs that have their weights; of several seeds the first.

    Args:
        runs: of the task ``handwriting``, of any arms and lengths.
        data: where their lines are, if not made here: ``unipen=PATH``.

    Raises:
        ValueError: if there are none, or they differ in their lines or their floor.
    """
    nets: dict[str, dict[int, HandwritingNet]] = {}
    made, floors, scales = [], set(), {}
    for run in runs:
        task = Handwriting.of(run.config, **({"data": data} if data else {}))
        dataset, seed = task.dataset(), task.seeds[0]
        net = task.trained(run.weights(), dataset, seed)
        assert isinstance(net, HandwritingNet)
        metrics: Any = run.metrics()
        update = int(metrics["update"].max())
        nets.setdefault(task.norm, {})[update] = net
        made.append(command(task))
        floors.add(task.std_floor)
        scales[dataset.checksum] = dataset.scale
    if len(scales) != 1 or len(floors) != 1:
        raise ValueError(
            f"these runs are of {len(scales)} data sets and have {len(floors)} floors: give "
            "runs of one."
        )
    (scale,) = scales.values()
    return Hands(nets, scale, floors.pop(), "; ".join(made))


def command(task: Handwriting) -> str:
    """The command for a task that is the budget ``notebook`` but for arm, length and seed."""
    words = {"norm": task.norm, "updates": task.updates, "eval_every": task.eval_every,
             "seeds": ",".join(map(str, task.seeds))}  # fmt: skip
    told = " ".join(f"--set {name}={value}" for name, value in words.items())
    return f"lnlab train handwriting --budget notebook {told}"


def pack(runs: Iterable[Run], path: Path = SHIPPED) -> None:
    """Write the weights of runs as :func:`shipped` reads them, in float16."""
    runs = sorted(
        runs, key=lambda run: (run.config["norm"] != "none", run.config.get("updates", 0))
    )
    hands = of_runs(runs)
    weights = {
        f"{arm}/{stage}/{name}": value.half().contiguous()
        for arm, nets in hands.nets.items()
        for stage, net in nets.items()
        for name, value in net.named_parameters()
    }
    some = next(iter(next(iter(hands.nets.values())).values()))
    told = {
        "configs": {str(run.config["norm"]): dict(run.config) for run in runs},
        "scale": [part.tolist() for part in hands.scale],
        "alphabet": some.alphabet.characters,
        "floor": hands.floor,
        "made": hands.made,
    }
    save_file(weights, path, {"hands": json.dumps(told)})


def shipped(path: Path = SHIPPED) -> Hands:
    """The nets that come with lnlab, trained on words written here; no data are needed."""
    nets: dict[str, dict[int, HandwritingNet]] = {}
    with safe_open(path, "pt") as file:
        told = json.loads(file.metadata()["hands"])
        names = sorted({tuple(key.split("/")[:2]) for key in file.keys()})  # noqa: SIM118
        for arm, stage in names:
            net = _drawn(Handwriting.of(told["configs"][arm]), Alphabet(told["alphabet"]))
            for name, value in net.named_parameters():
                value.data.copy_(file.get_tensor(f"{arm}/{stage}/{name}"))
            nets.setdefault(arm, {})[int(stage)] = net
    order = [arm for arm in ("none", "layer") if arm in nets]
    scale = tuple(np.array(part) for part in told["scale"])
    return Hands(
        {arm: nets[arm] for arm in order}, (scale[0], scale[1]), told["floor"], told["made"]
    )


def _drawn(task: Handwriting, alphabet: Alphabet) -> HandwritingNet:
    """A net of a task's sizes in float32, whatever its weights."""
    with torch.random.fork_rng(devices=[]), default_dtype(torch.float32):
        return task.net(alphabet, 0.1).eval()


if __name__ == "__main__":
    pack(run for place in sys.argv[1:] for run in read(Path(place), "handwriting") if run.done)
