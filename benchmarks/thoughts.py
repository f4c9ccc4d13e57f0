"""The costs of skip-thoughts: an update with layer norm beside one without, and encoding.

Random words, one thread. Contenders take turns, every other round in the reverse order; each
round gives one ratio, of which the median and the quartiles are shown. The clock is the
processor time of this process, so that others on the machine count less; they still slow down
caches and memory, which is why the load is printed.

An update is all that training does of it: the batch gathered, the way there and back through
the encoder, both decoders and the full softmax, clipping and Adam. Encoding is
``SkipThoughts.encode_sentences`` of sentences of :data:`LENGTH` words, beside the kernel's own
matrix products and nothing else, and beside ``torch.nn.GRU`` on the same numbers.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from json import dumps
from statistics import median, quantiles
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.recurrent import floor
from lnlab.papers.skip_thoughts import Experiment
from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.training import fit, stack
from lnlab.training.optim import call_before_each_step
from lnlab.training.runs import device_name

SIZES = ((96, 48, 1000), (256, 128, 8000))
"""H, numbers a word, V."""
ENCODED = (512, 128, 8000)
SENTENCES, LENGTH = 256, 20
ROUNDS = 9
FOREVER = 10**6
"""Epochs: more than anybody waits for."""


def main(json: bool) -> None:
    """Print the ratios, as a table or as JSON."""
    torch.set_num_threads(1)
    found = {
        "device": device_name(torch.device("cpu")), "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
        **{f"an update, layer / none, H, words, V = {size}": update(size) for size in SIZES},
        **encoding(),
    }  # fmt: skip
    found["load at the end"] = round(os.getloadavg()[0], 1)
    print(dumps(found, indent=1) if json else table(found))


def books(V: int) -> Any:
    """Two hundred books of random words: sentences of 3 to 28, short words often."""
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 29, (200, 100), generator=random)
    drawn = (V ** torch.rand(int(lengths.sum()), generator=random)).long().tolist()
    words = (f"w{k}" for k in drawn)
    written = [[[next(words) for _ in range(n)] for n in book] for book in lengths.tolist()]
    return SimpleNamespace(
        sentences_per_book=written,
        name="random",
        kind="synthetic",
        licence="",
        checksum="",
        left_out=0,
    )


def update(size: tuple[int, int, int]) -> dict[str, Any]:
    """The time of an update with layer norm over that of one without."""
    H, words, V = size
    numbered = EncodedBooks(books(V), V)
    arms = {
        norm: updates(
            Experiment(
                norm=norm, units=(H,), embedding_size=words, vocab_size=V, adam="standard"
            ),
            numbered,
        )
        for norm in ("layer", "none")
    }
    return summary(
        timed({norm: lambda steps=steps: next(steps) for norm, steps in arms.items()})
    )


def updates(task: Any, dataset: Any) -> Iterator[Any]:
    """The training of one seed; both arms have the same batches."""
    task = replace(task, seeds=(0,))
    model = stack([task.model(0, dataset)])
    optimizer = task.optimizer(model.parameters())
    call_before_each_step(optimizer, task.clip_)
    return fit(model, task.training_batches(dataset), task.loss, optimizer, FOREVER)


def encoding() -> dict[str, dict[str, Any]]:
    """The time of encoding over that of its own matrix products, and of torch's GRU."""
    H, words, V = ENCODED
    numbered = EncodedBooks(books(V), V)
    net: Any = Experiment(units=(H,), embedding_size=words, vocab_size=V).model(0, numbered)
    rows = torch.randint(2, len(net.word), (SENTENCES, LENGTH)).tolist()
    theirs = nn.GRU(words, H)
    x = F.embedding(torch.tensor(rows).T, net.word).detach()

    def torchs() -> None:
        with torch.no_grad():
            theirs(F.embedding(torch.tensor(rows).T, net.word))

    found = timed(
        {
            "encoding": lambda: net.encode_sentences(rows),
            "products": floor(net.encoder.cells[0], x, train=False),
            "nn.GRU": torchs,
        }
    )
    name = f"encoding {SENTENCES} sentences of {LENGTH} words, H = {H}, layer"
    return {
        f"{name} / {other}": summary({"encoding": found["encoding"], other: found[other]})
        for other in ("products", "nn.GRU")
    }


def timed(run: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Processor seconds of each contender in each round, after one to warm up."""
    times: dict[str, list[float]] = {name: [] for name in run}
    for function in run.values():
        function()
    for i in range(ROUNDS):
        for name in list(run)[:: 1 if i % 2 else -1]:
            began = time.process_time()
            run[name]()
            times[name].append(time.process_time() - began)
    return times


def summary(times: dict[str, list[float]]) -> dict[str, Any]:
    """The median and the quartiles of the ratio of the first to the second, and both in ms."""
    (ours, first), (other, second) = times.items()
    ratios = [a / b for a, b in zip(first, second, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    found = {"ratio": median(ratios), "quartiles": [round(low, 3), round(high, 3)]}
    found |= {f"{ours} ms": 1e3 * median(first), f"{other} ms": 1e3 * median(second)}
    return {key: round(v, 3) if isinstance(v, float) else v for key, v in found.items()}


def table(found: dict[str, Any]) -> str:
    """A line for each ratio."""
    lines = [
        f"{found['device']}, one thread, torch {found['torch']}, float32; load "
        f"{found['load']} to {found['load at the end']}; {ROUNDS} rounds"
    ]
    for name, one in found.items():
        if isinstance(one, dict):
            ms = ", ".join(f"{key} {value}" for key, value in one.items() if "ms" in key)
            lines.append(f"{name}: {one['ratio']} {one['quartiles']} ({ms})")
    return "\n".join(lines)
