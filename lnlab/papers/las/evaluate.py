"""Recognition of held-out utterances: errors, attention, gradients and distributions."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from lnlab.analysis.recorder import QUANTILES, record, tensor_statistics
from lnlab.extras import explain_missing_extra
from lnlab.nn.padding import mean_masked_cross_entropy
from lnlab.papers.las.data import SpeechDataset
from lnlab.papers.las.model import ListenAttendSpell, SpeechBatch, make_batch_and_unit_counts
from lnlab.papers.las.recordings import HOP, Utterance
from lnlab.papers.las.search import (
    BestHypothesisPerUtterance,
    Hypothesis,
    attention_entropy,
    attention_monotonicity,
    attention_share_in_segments,
    beam_search,
)

if TYPE_CHECKING:
    import pandas as pd


BATCH = 100  # utterances that are recognized at once
SHOWN = 4  # test utterances whose attention is stored at each evaluation


class LossAttentionAndHypotheses(NamedTuple):
    """The loss, the attention and the transcripts of a model on some utterances."""

    nll_per_unit: float  # nats a unit
    teacher_forced_alphas: list[Tensor]  # of each utterance, the attention at the right units
    hypotheses: BestHypothesisPerUtterance


@torch.no_grad()
def evaluate_and_transcribe(
    net: ListenAttendSpell,
    utterances: Sequence[Utterance],
    units: Sequence[str],
    *,
    width: int,
    max_length: int,
) -> LossAttentionAndHypotheses:
    """Return the loss and the attention at the right units, and what the search finds.

    ``width`` and ``max_length`` are those of :func:`.search.beam_search`.
    """
    net.eval()
    numbers = {unit: number for number, unit in enumerate(units)}
    weight = next(net.parameters())
    nll, count, alphas, hypotheses = 0.0, 0, [], []
    for start in range(0, len(utterances), BATCH):
        chosen = utterances[start : start + BATCH]
        batch, counts = make_batch_and_unit_counts(chosen, numbers, weight.dtype, weight.device)
        annotations = net.listen(batch)
        logits, alpha = net.speller(annotations, batch.units)
        nll += float(mean_masked_cross_entropy(logits, batch.units, counts)) * int(counts.sum())
        count += int(counts.sum())
        alphas += [a[: len(u.units)].cpu() for u, a in zip(chosen, alpha, strict=True)]
        hypotheses += beam_search(
            net.speller, annotations, len(numbers), width=width, max_length=max_length
        )
    return LossAttentionAndHypotheses(nll / count, alphas, hypotheses)


def recognition_and_attention_metrics(
    net: ListenAttendSpell,
    dataset: SpeechDataset,
    *,
    width: int,
    max_length: int,
    include_validation: bool,
) -> dict[str, Any]:
    """Return the metrics of a model on the test utterances.

    ``test_nll`` in nats a unit; the :func:`error_rates_and_reference_length` of the search;
    of the attention at the
    right units ``alignment``, its part within 40 ms of the unit (NaN where the times of units
    are unknown), ``monotonicity`` and ``entropy`` in nats, means over utterances; pictures of
    it, ``attention 0`` and so on, for the first :data:`SHOWN`, and their ``hypotheses``. Then
    :func:`value_quantiles_and_gradient_norm`, and with ``include_validation`` ``valid_nll``
    and ``valid_error``.
    """
    limits = {"width": width, "max_length": max_length}
    test, units = dataset.test, dataset.units
    nll, alphas, hypotheses = evaluate_and_transcribe(net, test, units, **limits)
    step = HOP * net.listener.joined
    masses = [
        attention_share_in_segments(alpha, step, u.begins, u.ends)
        for u, alpha in zip(test, alphas, strict=True)
        if u.begins is not None and u.ends is not None
    ]
    values = {
        "test_nll": nll,
        **error_rates_and_reference_length(test, hypotheses, units),
        "alignment": float(torch.cat(masses).mean()) if masses else math.nan,
        "monotonicity": sum(map(attention_monotonicity, alphas)) / len(alphas),
        "entropy": float(torch.cat([attention_entropy(alpha) for alpha in alphas]).mean()),
        **{f"attention {k}": alpha.half() for k, alpha in enumerate(alphas[:SHOWN])},
        "hypotheses": [[units[number] for number in h.units] for h in hypotheses[:SHOWN]],
        **value_quantiles_and_gradient_norm(net, dataset),
    }
    if include_validation:
        valid = dataset.valid or ()
        recognized = evaluate_and_transcribe(net, valid, units, **limits)
        values["valid_nll"] = recognized.nll_per_unit
        rates = error_rates_and_reference_length(valid, recognized.hypotheses, units)
        values["valid_error"] = rates["test_error"]
    return values


def error_rates_and_reference_length(
    utterances: Sequence[Utterance], hypotheses: Sequence[Hypothesis], units: Sequence[str]
) -> dict[str, float]:
    """Return the error rates over all utterances, counted by jiwer.

    ``test_error`` is substitutions, deletions and insertions divided by N, the number of right
    units, which is ``reference_length``. ``test_error_with_end`` also counts the end symbols in
    N, as the study's code does.
    """
    with explain_missing_extra():
        import jiwer

    # jiwer splits at spaces, and a unit may be one
    names = {unit: f"u{number}" for number, unit in enumerate(units)}
    right = [" ".join(names[unit] for unit in u.units) for u in utterances]
    recognized = [" ".join(f"u{number}" for number in h.units) for h in hypotheses]
    counts = jiwer.process_words(right, recognized)
    wrong = counts.substitutions + counts.deletions + counts.insertions
    N = counts.hits + counts.substitutions + counts.deletions
    return {
        "test_error": wrong / N,
        "test_error_with_end": wrong / (N + len(right)),
        "substitutions": counts.substitutions / N,
        "deletions": counts.deletions / N,
        "insertions": counts.insertions / N,
        "reference_length": N,
    }


# Gradients and distributions, at each evaluation: figures 4 to 7 of Ben Othman (2018).

UTTERANCES = 16
"""The first training utterances, on which gradients and distributions are measured."""
SHOWN_QUANTILES = [name for name, q in QUANTILES.items() if q in (0.05, 0.25, 0.5, 0.75, 0.95)]


def value_quantiles_and_gradient_norm(net: Any, dataset: SpeechDataset) -> dict[str, Any]:
    """Return the steepness of the loss and distributions, on the first training utterances.

    ``lipschitz``, the length of the gradient: the local Lipschitz constant of the loss;
    ``quantiles``, by the name of a parameter or of a layer (its outputs): five quantiles, 5,
    25, 50, 75 and 95 %.
    """
    net.eval()
    weight = next(net.parameters())
    numbers = {unit: number for number, unit in enumerate(dataset.units)}
    utterances = dataset.train[:UTTERANCES]
    batch, counts = make_batch_and_unit_counts(utterances, numbers, weight.dtype, weight.device)
    with torch.enable_grad():
        loss = mean_masked_cross_entropy(net(batch), batch.units, counts)
        grads = torch.autograd.grad(loss, [*net.parameters()])
    return {
        "lipschitz": float(nn.utils.get_total_norm(grads)),
        "quantiles": signed_parameter_and_output_quantiles(net, batch),
    }


@torch.no_grad()
def signed_parameter_and_output_quantiles(
    net: Any, batch: SpeechBatch
) -> dict[str, list[float]]:
    """Return quantiles of all parameters, and of the outputs of the listener and the readout.

    Both directions of an LSTM are one.
    """
    layers = [f"listener.layers.{k}" for k in range(len(net.listener.layers))]
    with record(net, [*layers, "speller.readout"], evaluation=True) as recorded:
        net(batch)
    rows = {row["name"].removesuffix("[0]"): row for row in recorded if not row["call"]}
    directions = defaultdict(list)
    for name, p in net.named_parameters():
        name = re.sub(r"^(listener\.layers\.\d+)\.cells\.\d+", r"\1", name)
        directions[name].append(p.flatten())
    rows |= {name: tensor_statistics(torch.cat(ps)) for name, ps in directions.items()}
    return {
        name: [float(f"{row[q]:.3g}") for q in SHOWN_QUANTILES]
        for name, row in rows.items()
        if not name.endswith("]")  # last states
    }


def quantiles_by_update(metrics: "pd.DataFrame", parameter_or_layer: str) -> "pd.DataFrame":
    """Return the quantiles of a parameter or layer by update, from the rows of one seed."""
    import pandas as pd

    rows = metrics["quantiles"]
    if parameter_or_layer not in rows.iloc[0]:
        raise ValueError(
            f"nothing is called {parameter_or_layer!r}: choose from {', '.join(rows.iloc[0])}."
        )
    frame = pd.DataFrame([row[parameter_or_layer] for row in rows], columns=SHOWN_QUANTILES)
    return frame.assign(step=metrics["update"].to_numpy())
