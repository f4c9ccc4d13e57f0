"""The measurements of a net: nats on held-out sentences, verdicts of judges, its weights."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lnlab.data import Vocabulary
from lnlab.data.cache import cache_arrays
from lnlab.papers.skip_thoughts.batches import NumberedBooks
from lnlab.papers.skip_thoughts.model import SkipThoughts, of_one_length
from lnlab.papers.skip_thoughts.sentence_tasks import SentenceJudge
from lnlab.training import Moment
from lnlab.training.random_state import placed

if TYPE_CHECKING:
    from lnlab.papers.skip_thoughts.sentence_eval import Judgement, Verdicts


HELD = 1000
"""Held-out sentences that are looked at, spread evenly over all of them."""
BY = "_C"
"""The end of the name of a metric, before the one C that all folds have."""
NESTED, BEST = "_nested", "_best"
"""The ends of the names of metrics for which inner folds chose C, or the folds themselves."""
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
        told = placed(numbered.told(chosen[places]), device)
        nats += net(told).double().cpu()
        words += told.counts.sum(0)
    before, after = (nats / words).tolist()
    return {
        "valid_nll": float(nats.sum() / words.sum()),
        "valid_nll_before": before,
        "valid_nll_after": after,
    }


def asked(
    numbered: NumberedBooks,
    ask: "Callable[[SentenceJudge], Verdicts]",
    *,
    end: str = "",
    own: str = NESTED,
) -> dict[str, float]:
    """The scores that all judges give to a representation of their sentences.

    A metric is called by the judge's name in small letters, of pairs with ``_r``, ``_rho`` and
    ``_mse`` behind it: accuracy in percent; Pearson's r, Spearman's rho and the mean squared
    error. There is ``<metric>_nested``, inner folds choosing the C of each fold;
    ``<metric>_within``, half of a 95 % interval around it, of accuracy and r; and
    ``<metric>_C1`` ... ``<metric>_C256``, one C for all folds.

    Args:
        ask: a judge for its verdicts.
        end: of the names of metrics.
        own: what stands in the place of ``_nested``.
    """
    found = {}
    for name, judge in numbered.judges.items():
        verdicts = ask(judge)
        for C, verdict in verdicts.by_C.items():
            scores = named(name, verdict, end).items()
            found |= {f"{metric}{BY}{C:g}": score for metric, score in scores}
        scores = named(name, verdicts.own, end)
        found |= {f"{metric}{own}": score for metric, score in scores.items()}
        found[f"{next(iter(scores))}_within"] = verdicts.own.within
    return found


def at_own_C(found: Mapping[str, float], own: str) -> dict[str, float]:
    """The scores of :func:`asked` that are called ``own``, by metric."""
    return {
        name.removesuffix(own): score for name, score in found.items() if name.endswith(own)
    }


def named(name: str, verdict: "Judgement", end: str = "") -> dict[str, float]:
    """The scores of a verdict by the names of metrics."""
    scores = verdict.scores.items()
    return {f"{name.lower()}{ENDS[score]}{end}": value for score, value in scores}


def of_net(net: SkipThoughts, vocabulary: Vocabulary) -> Callable[[SentenceJudge], np.ndarray]:
    """The vectors (N, H) that a net of a vocabulary gives to the sentences of a judge.

    As in the authors' code the ends of sentences are read where pairs are judged, and else not.
    """

    def vectors(judge: SentenceJudge) -> np.ndarray:
        rows = [vocabulary.encode(" ".join(words)) for words in judge.said]
        return net.vectors(rows if judge.pairs else [row[:-1] for row in rows]).cpu().numpy()

    return vectors


def of_vectors(net: SkipThoughts, numbered: NumberedBooks) -> dict[str, float]:
    """The scores of :func:`asked` of a net."""
    from lnlab.papers.skip_thoughts.sentence_eval import judged

    vectors = of_net(net, numbered.vocabulary)
    return asked(numbered, lambda judge: judged(judge, vectors(judge)))


def words_alone(numbered: NumberedBooks) -> dict[str, float]:
    """The scores of bags of words, which know of no order, as of :func:`asked`, ``_words``
    behind the metrics and ``_best`` in the place of ``_nested``; and those of TF-IDF,
    ``_tfidf``. They are found out once on this machine."""
    import sklearn

    from lnlab.papers.skip_thoughts import sentence_eval

    def scores() -> dict[str, np.ndarray]:
        found = {}
        for end, represent in sentence_eval.BASELINES.items():
            ask = partial(sentence_eval.counted, represent=represent)
            found |= asked(numbered, ask, end=end, own=BEST)
        return {name: np.array(score) for name, score in found.items()}

    of = [f"{name} {judge.checksum}" for name, judge in numbered.judges.items()]
    of.append(sklearn.__version__)
    found = cache_arrays("words-alone", "\n".join(of), scores)
    return {name: score.item() for name, score in found.items()}


def unknown(numbered: NumberedBooks) -> dict[str, float]:
    """``<judge>_unknown``, the percentage of the words of each judge's sentences that the
    vocabulary does not have."""
    return {
        f"{name.lower()}_unknown": 100
        * numbered.vocabulary.unknown_fraction(map(" ".join, judge.said))
        for name, judge in numbered.judges.items()
    }


def measured(
    net: Any, numbered: NumberedBooks, moment: Moment, *, snapshot: bool
) -> dict[str, Any]:
    """All that is measured of a net at a moment.

    On the way often :func:`held_out` alone; seldom what judges say, and its weights, where they
    are asked for; at the end what part of their words is unknown.
    """
    found: dict[str, Any] = held_out(net.eval(), numbered)
    if moment is Moment.CHEAP:
        return found
    found |= of_vectors(net, numbered)
    if moment is Moment.END:
        found |= unknown(numbered)
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
