"""The measurements of a net: nats on held-out sentences, verdicts of judges, its weights."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from lnlab.data import SentenceJudge
from lnlab.training import Moment

from .net import SkipThoughts, of_one_length
from .numbered import NumberedBooks

if TYPE_CHECKING:  # an experiment that is named costs no sklearn
    from .judges import Judgement, Represent

HELD = 1000
"""Held-out sentences that are looked at, spread evenly over all of them."""
C = 256.0
"""The inverse strength of the judges' penalty along a training: the largest of the authors'
grid, so that vectors that are nearly parallel are not punished for small differences."""
ENDS = {"accuracy": "", "pearson": "_r", "spearman": "_rho", "mse": "_mse"}
"""The ends of the names of metrics."""
WEIGHTS = "weights "
"""The beginning of the names of pictures that are weights."""


@torch.no_grad()
def held_out(net: SkipThoughts, numbered: NumberedBooks) -> dict[str, float]:
    """``valid_nll``, nats a word of the neighbours of held-out sentences; ``valid_nll_before``
    and ``valid_nll_after``, of each neighbour."""
    chosen = numbered.valid[:: max(1, len(numbered.valid) // HELD)][:HELD]
    lengths = numbered.lengths[chosen].tolist()
    device = net.word.device
    nats, words = torch.zeros(2, dtype=torch.float64), torch.zeros(2)
    for places in of_one_length([range(length) for length in lengths]):
        told = tree_map(lambda tensor: tensor.to(device), numbered.told(chosen[places]))
        nats += net(told).double().cpu()
        words += told.counts.sum(0).cpu()
    before, after = (nats / words).tolist()
    return {
        "valid_nll": float(nats.sum() / words.sum()),
        "valid_nll_before": before,
        "valid_nll_after": after,
    }


def asked(
    numbered: NumberedBooks, seen: "Callable[[SentenceJudge], Represent]", *, nested: bool
) -> dict[str, float]:
    """The scores that all judges give to a representation of their sentences.

    By the judge's name in small letters: accuracy in percent; of pairs, with ``_r``, ``_rho``
    and ``_mse`` behind it, Pearson's r, Spearman's rho and the mean squared error. C is
    :data:`C`.

    Args:
        seen: the representation for a judge.
        nested: whether to give, too, with ``_nested`` behind the name, the scores with a C that
            inner folds choose, of pairs the trial pairs.
    """
    from .judges import judged

    found = {}
    for name, judge in numbered.judges.items():
        own = seen(judge)(judge)
        found |= named(name, judged(judge, lambda _, own=own: own, C))
        if nested:
            inner = named(name, judged(judge, lambda _, own=own: own))
            found |= {f"{metric}_nested": score for metric, score in inner.items()}
    return found


def named(name: str, verdict: "Judgement") -> dict[str, float]:
    """The scores of a verdict by the names of metrics."""
    return {f"{name.lower()}{ENDS[score]}": value for score, value in verdict.scores.items()}


def of_net(
    net: SkipThoughts, numbered: NumberedBooks
) -> "Callable[[SentenceJudge], Represent]":
    """The vectors that a net gives to the sentences of a judge.

    As in the authors' code the ends of sentences are read where pairs are judged, and else not.
    """

    from .judges import frozen

    def vectors(sentences: Sequence[Sequence[str]], *, end: bool) -> np.ndarray:
        rows = [numbered.vocabulary.numbers(" ".join(words)) for words in sentences]
        return net.vectors(rows if end else [row[:-1] for row in rows]).cpu().numpy()

    return lambda judge: frozen(partial(vectors, end=judge.pairs))


def words_alone(numbered: NumberedBooks) -> dict[str, float]:
    """The scores of bags of words, which know of no order, as of :func:`asked`."""
    from .judges import BASELINES, judged

    return {
        metric: score
        for name, judge in numbered.judges.items()
        for metric, score in named(name, judged(judge, BASELINES["bag of words"], C)).items()
    }


def measured(
    net: Any, numbered: NumberedBooks, moment: Moment, *, nested: bool, snapshot: bool
) -> dict[str, Any]:
    """All that is measured of a net at a moment.

    On the way often :func:`held_out` alone; seldom what judges say, and its weights, where they
    are asked for; at the end what bags of words are worth, ``_words`` behind the names.
    """
    found: dict[str, Any] = held_out(net.eval(), numbered)
    if moment is Moment.CHEAP:
        return found
    found |= asked(numbered, of_net(net, numbered), nested=nested)
    if moment is Moment.END:
        found |= {f"{metric}_words": score for metric, score in words_alone(numbered).items()}
    if snapshot:
        found |= {f"{WEIGHTS}{n}": p.detach().half() for n, p in net.named_parameters()}
    return found


def snapshots(task: Any, run: Any, numbered: NumberedBooks) -> dict[int, Any]:
    """The nets of a run's first seed along its training, by update, as they were kept.

    Raises:
        ValueError: if the run kept no weights.
    """
    seed = task.seeds[0]
    found = {}
    for update, pictures in run.pictures(seed).items():
        weights = {
            name.removeprefix(WEIGHTS): torch.from_numpy(array).float()
            for name, array in pictures.items()
            if name.startswith(WEIGHTS)
        }
        if weights:
            found[update] = task.model(seed, numbered).eval()
            found[update].load_state_dict(weights, strict=False)  # buffers are as they begin
    if not found:
        raise ValueError("the run kept no weights: train it with snapshots=True.")
    return found
