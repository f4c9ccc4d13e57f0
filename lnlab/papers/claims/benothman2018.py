"""Ben Othman (2018), layer normalization in Listen, Attend and Spell: what it claims."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.random import normal
from lnlab.papers.claims.ba2016_analysis import (
    ANGLE,
    BEND,
    DRIFT,
    FRESH_NETS,
    against_none,
    does_not_reduce,
)
from lnlab.papers.claims.ba2016_mnist import WAITS
from lnlab.papers.claims.claim import ALONG, Claim
from lnlab.papers.claims.claim import equation as equation_of
from lnlab.papers.claims.claim import restated as restated_of
from lnlab.papers.claims.claim import untested as untested_of
from lnlab.papers.claims.exact import counted, greatest, readings, unchanged
from lnlab.papers.claims.measurement import (
    Measurement,
    Numbers,
    common_level,
    declare,
    each,
    least,
    time_to,
    to_common_level,
    to_own_level,
)
from lnlab.papers.claims.paired import Arms, NumberOfRuns, final, numbers
from lnlab.papers.claims.rule import Kind, Says
from lnlab.papers.las.experiment import Spelling

if TYPE_CHECKING:
    import pandas as pd


# Claims of Ben Othman (2018) about recognizers: declared for TIMIT, and for recorded digits.
#
# TIMIT may not be given away: whoever has it can train the study's own settings. Everybody can
# train on FSDD, where each of the six speakers is unheard in turn; no other seed makes those
# recordings unseen, and that is said.


PAPER = "Ben Othman (2018)"
EPOCHS = 16
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
UNHEARD = tuple({"held_out_speaker": speaker} for speaker in SPEAKERS)
SHARED = 1 / (len(SPEAKERS) - 1)
"""The speaker of the test over those of the training, whom two splits have mostly in common."""
FSDD = Spelling(data="fsdd", epochs=EPOCHS, validate=True, seeds=(100, 101, 102))
TIMIT_SPEECH = Spelling.budget(
    "paper", data="timit", validate=True, seeds=tuple(range(100, 105))
)
STATED: dict[str, Any] = {
    name: value
    for name, value in TIMIT_SPEECH.config().items()
    if name
    in (
        "data",
        "units",
        "batch_size",
        "epochs",
        "encoder_layers",
        "decoder_layers",
        "learning_rate",
        "learning_rate_decay",
        "scheduled_sampling",
        "dropout",
        "input_noise",
        "beam_width",
        "max_length",
    )
}
"""The text states the data; the rest is what its published code has."""
OPEN = (
    "seeds",
    "clipping: the published code cuts each element of a gradient, ours its norm",
    "stopping: the code stops after two validations without gain, ours after 300 epochs",
    "initialisation",
)
SEEN = "FSDD's recordings were seen in earlier runs; its unheard speakers were tests before"
FRESH: dict[str, Any] = {
    "seeds": (103, 104, 105),
    "on_fsdd": {
        "family": "recorded digits, fresh seeds",
        "seen": f"{SEEN}, by seeds 100 to 102",
    },
}  # fmt: skip
"""Words of what was declared after runs of the first seeds had been looked at."""
STUDY = {
    "none": (0.268, 15947),
    "encoder": (0.245, 9976),
    "both": (0.253, 15552),
    "decoder": (0.666, 15600),
}
"""Tables 1 and 3: phone error rate on TIMIT, and the steps to it."""
STUDY_LIBRISPEECH = {"none": (0.426, 96785), "encoder": (0.401, 64354)}
"""Table 2: word error rate on LibriSpeech, and the steps to it."""
MEASURES = {
    "error": final("test_error"),
    "substitutions": final("substitutions"),
    "deletions": final("deletions"),
    "insertions": final("insertions"),
    "units (N)": final("reference_length"),
    "error, ends in N": final("test_error_with_end"),
}
"""Errors at the end of a run."""


def beside_the_study(
    arms: Arms, measures: Mapping[str, NumberOfRuns] = MEASURES
) -> "pd.DataFrame":
    """A row for each arm: means over seeds, and tables 1 to 3 of the study.

    ``updates`` are those until the trend of the test error is at a level that all arms of a
    seed reach; the study's are steps to a stop of its own.
    """
    import pandas as pd

    from lnlab.papers.claims.paired import rows

    table = pd.DataFrame(
        {
            arm: {
                name: pd.Series(numbers(runs, number)).mean()
                for name, number in measures.items()
            }
            | {"seeds": len(runs)}
            for arm, runs in arms.items()
        }
    ).T.loc[sorted(arms, key=[*STUDY, *arms].index)]
    shared = set.intersection(*(set(runs) for runs in arms.values()))
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    for seed in sorted(shared):
        frames = {arm: rows(runs[seed].metrics(), seed) for arm, runs in arms.items()}
        level = common_level([*frames.values()], "test_error")
        for arm, frame in frames.items():
            times[arm].append(time_to(frame, "test_error", level).at)
    table["updates"] = pd.Series({arm: sum(t) / len(t) for arm, t in times.items() if t})
    for title, study in (("TIMIT", STUDY), ("LibriSpeech", STUDY_LIBRISPEECH)):
        for place, name in enumerate(("error", "steps")):
            table[f"study, {title}: {name}"] = [
                study.get(arm, (float("nan"),) * 2)[place] for arm in table.index
            ]
    return table


def claims(
    id: str,
    section: str,
    statement: str,
    arm: str,
    other: str,
    read: Numbers,
    *,
    paper: str = "",
    note: str = "",
    fsdd: str = "",
    waits: str = WAITS,
    seeds: tuple[int, ...] = FSDD.seeds,
    on_fsdd: Mapping[str, Any] = MappingProxyType({}),
    **words: Any,
) -> list[Claim]:
    """A claim in the study's own settings, and on recorded digits, which have a note, seeds
    and words of their own."""
    terms = (1, {"norm": arm}), (-1, {"norm": other})
    own = declare(Measurement(TIMIT_SPEECH, terms, read, STATED, failed=words.pop("failed")),
                  **{"family": "TIMIT", "open": OPEN} | words)  # fmt: skip
    else_ = declare(
        replace(own[0], task=replace(FSDD, seeds=seeds), blocks=UNHEARD),
        **{"family": "recorded digits", "seen": SEEN, "shared": SHARED} | words | dict(on_fsdd),
    )  # fmt: skip
    six = "six values, one an unheard speaker: the mean of 3 seeds; one learning rate, 0.002"
    on = "; ".join(filter(None, [six, fsdd]))
    return [
        Claim(
            f"benothman2018-{id}{where}", f"{PAPER}, {section}", statement, test=test,
            declared=declared, command=test.command(data), paper=paper, waits=why,
            note="; ".join(filter(None, [kept, note])),
        )
        for where, (test, declared), data, why, kept in (
            ("", own, "timit=PATH", "TIMIT may not be given away", ""),
            ("-fsdd", else_, "fsdd=PATH", waits, on),
        )
    ]  # fmt: skip


ERRORS: dict[str, Any] = {
    "measure": "error rate, a fraction of the units said", "window": "the end of the run",
    "split": "test: on FSDD all takes of a speaker whom training did not hear", "failed": 1.0,
}  # fmt: skip
STEPS = "log of the updates until the trend of the NLL is at a level that both reach"
VALIDATION: dict[str, Any] = {"split": "validation", "window": "the whole run", "failed": None}


SPEECH = [
    *claims(
        "4.1-steps", "4.1, Tables 1 and 2",
        "layer norm in the encoder makes Listen, Attend and Spell converge in fewer steps",
        "encoder", "none", to_common_level("valid_nll"), **VALIDATION, measure=STEPS,
        margin=0.2, reason="less than half of log(15947/9976) = 0.47",
        paper="TIMIT 9976 against 15947, LibriSpeech 64354 against 96785",
        fsdd="exploratory: by the NLL of the unheard speaker the interval is -0.62 to 0.53 "
        "(95 %), of no sign either",
    ),
    *claims(
        "4.1-error", "4.1, Tables 1 and 2", "it reduces the error rate by up to 2 %",
        "encoder", "none", each(final("test_error")), **ERRORS,
        margin=0.011, reason="half of the 2.3 points of Table 1",
        paper="TIMIT PER .245 against .268, LibriSpeech WER .401 against .426",
        note="these are absolute points, 2.3 and 2.5",
    ),
    *claims(
        "4.2-encoder", "4.2, Table 3",
        "layer norm in the encoder alone converges faster than in encoder and decoder",
        "encoder", "both", to_common_level("valid_nll"), **VALIDATION, measure=STEPS,
        margin=0.2, reason="less than half of log(15552/9976) = 0.44",
        paper=".245 @ 9976 against .253 @ 15552",
        note="the table's heading says word error rate; TIMIT's is of phones",
    ),
    *claims(
        "4.2-generalizes", "4.2, Table 3",
        "layer norm in the encoder alone generalizes slightly better than in both",
        "encoder", "both", each(final("test_error")), **ERRORS,
        margin=0.004, reason="half of the 0.8 points of Table 3", paper="PER .245 against .253",
    ),
    *claims(
        "4.2-decoder", "4.2, Table 3",
        "layer norm in the decoder alone performs poorly: worse than none",
        "none", "decoder", each(final("test_error")), **ERRORS,
        margin=0.19, reason="less than half of the 39.8 points of Table 3", paper="PER .666",
        note="the published code swaps c and h in that cell at each step",
    ),
    *claims(
        "4.2-decoder-earlier", "4.2, Fig. 3",
        "with layer norm in the decoder alone the validation loss converges earlier than with "
        "none, wherever to",
        "decoder", "none", to_own_level("valid_nll"),
        **VALIDATION | {"measure": "log of the updates until the trend of the NLL is at the "
                        "run's own level, its end and a twentieth of its fall"},
        margin=0.2, reason="a fifth sooner, as for the other steps; Table 3 has "
        "log(15947/15600) = 0.02", paper="15600 steps against 15947", **FRESH,
    ),
    *claims(
        "4.2-decoder-higher", "4.2, Fig. 3",
        "with layer norm in the decoder alone the validation loss converges to a higher value "
        "than with none",
        "none", "decoder", each(least("valid_nll")),
        **VALIDATION | {"measure": "the least of the trend of the NLL, nats a unit"},
        margin=0.1, reason="no number in the text; a tenth of a nat is far less than .666 of "
        "the phones wrong against .268 must be", paper="PER .666 against .268",
        fsdd="exploratory, of seeds 100 to 102: 0.029 nats higher to 0.043 lower (95 %)",
        **FRESH,
    ),
    *claims(
        "4.3-attention", "4.3.2, Fig. 8 to 10",
        "attention fails when layer norm is added to the decoder: less of it lies on what is "
        "said than without",
        "decoder", "none", each(final("alignment")),
        **ERRORS | {"measure": "part of the attention inside the unit", "failed": 0.0},
        margin=0.1, reason="no number in the study; a failure would cost more than a tenth",
    ),
    *claims(
        "4.3-intense", "4.3.2, Fig. 9",
        "with layer norm in the encoder more attention is paid to some regions of the input: "
        "it is less spread than without",
        "encoder", "none", each(final("entropy")),
        **ERRORS | {"measure": "entropy of the attention, nats, mean of units", "failed": 5.0},
        margin=0.1, reason="no number in the study; a tenth of a nat is a tenth more frames",
    ),
    *claims(
        "4.3-alignment", "4.3.2, Fig. 8 and 9",
        "the baseline and layer norm in the encoder have almost the same alignment",
        "encoder", "none", each(final("alignment")),
        **ERRORS | {"measure": "part of the attention inside the unit", "failed": 0.0},
        margin=0.05, reason="half of what a failure of the attention must cost",
        says=Says.SAME, **FRESH,
        fsdd="exploratory, of seeds 100 to 102: 0.057 to 0.14 more is inside the unit with it "
        "(95 %)",
    ),
]  # fmt: skip


equation = partial(equation_of, PAPER)
untested = partial(untested_of, PAPER)
restated = partial(restated_of, PAPER)
H, B = 12, 8
GATES = f"random gates and states, H = {H}, float64"


def baseline_output(seed: int) -> float:
    """The distance of h_t of eq. 6 from that of an LSTM, sigma(o) tanh(c)."""
    o, before, c = normal(seed, 0, 3, B, H)
    lstm = o.sigmoid() * c.tanh()
    return relative_change(o.sigmoid() * before * c.tanh(), lstm)


def shifted_by_gain(seed: int) -> float:
    """The failure of a gain g to shift: 1 if means over cases of 0 stay where they are."""
    g, z = 1 + normal(seed, 0, H).abs(), normal(seed, 1, B, H)
    z = z - z.mean(0)
    return 1.0 - min(1.0, float(((g * z).mean(0)).abs().max() > 1e-12))


def not_shifted_and_scaled(seed: int) -> float:
    """The distance of g z + b from mean b and standard deviation g, for standard z."""
    g, b, z = 1 + normal(seed, 0, H).abs(), normal(seed, 1, H), normal(seed, 2, B, H)
    z = (z - z.mean(0)) / z.std(0, correction=0)
    y = g * z + b
    return greatest([relative_change(y.mean(0), b), relative_change(y.std(0, correction=0), g)])


def not_standard(seed: int) -> float:
    """The distance of g z + b from mean 0 and standard deviation 1, for standard z."""
    g, b, z = 1 + normal(seed, 0, H).abs(), normal(seed, 1, H), normal(seed, 2, B, H)
    z = (z - z.mean(0)) / z.std(0, correction=0)
    y = g * z + b
    return greatest(
        map(float, [y.mean(0).abs().max(), (y.std(0, correction=0) - 1).abs().max()])
    )


def points(study: Mapping[str, tuple[float, float]]) -> float:
    """The points of error that the encoder's layer norm is ahead by in a table."""
    return 100 * (study["none"][0] - study["encoder"][0])


TIMIT = 462 * 10
"""Training sentences of TIMIT, all ten of each speaker (Garofolo et al., 1993)."""


def share_of_eq_10() -> float:
    """The fewest steps to converge on TIMIT, over what eq. 10 gives of batches of one."""
    return min(steps for _, steps in STUDY.values()) / TIMIT


EQUATIONS = [
    equation("2.2-eq6", "2.2, eq. 6", "the hidden state of the baseline LSTM is that of eq. 6",
             unchanged(baseline_output, data=GATES),
             note="a factor c_(t-1) too many; eq. 9, with layer norm, has it not"),
    equation("2.1-serve", "2.1", "gain and bias serve respectively to shifting and scaling",
             readings({
                 "respectively: the gain shifts": unchanged(
                     shifted_by_gain, "failure of the gain to shift", GATES),
                 "together they shift and scale": unchanged(
                     not_shifted_and_scaled, "distance of mean and deviation", GATES),
             }),
             kind=Kind.READING,
             note="a slip of the pen: the gain scales and the bias shifts"),
    equation("2.1-standard", "2.1",
             "gain and bias bring the normalized output to zero mean and unit variance",
             unchanged(not_standard, "distance of mean from 0 and deviation from 1", GATES),
             note="they take it away from there: to mean b and deviation g"),
    equation("4.1-eq10", "4.1, eq. 10",
             "the number of steps is that of all training examples, over the batch size",
             counted(share_of_eq_10, lambda n: n <= 1,
                     "steps to converge, Table 1, of the most that eq. 10 gives for TIMIT"),
             note="that is the number of an epoch; a step is an update, as the sentence before "
             "it says. (Of examples counted as often as they are read it is so by definition)"),
    *(
        equation(f"4.1-up-to-{name.lower()}", f"4.1, Table {k}",
                 f"layer norm reduces the error rate on {name} by up to 2 %",
                 readings({
                     "points of error, to a tenth": counted(
                         partial(points, study), lambda p: 0 < p <= 2.0, "points of error"),
                     "in whole points": counted(
                         partial(points, study), lambda p: 0.5 <= round(p, 6) <= 2.5,
                         "points of error"),
                     "in per cent of the error without": counted(
                         lambda study=study: points(study) / study["none"][0],
                         lambda p: 0 < p <= 2.0, "per cent"),
                 }),
                 kind=Kind.READING, paper=f"{study['none'][0]} to {study['encoder'][0]}",
                 note="2.3 points are 2 when rounded; 2.5, to the digits printed, are 2 or 3")
        for k, (name, study) in enumerate(
            (("TIMIT", STUDY), ("LibriSpeech", STUDY_LIBRISPEECH)), 1)
    ),
]  # fmt: skip

UNTESTED = [
    restated(
        "abstract-faster",
        "abstract",
        "layer norm leads to faster convergence of the recognizer",
        same="benothman2018-4.1-steps",
    ),
    restated(
        "abstract-general",
        "abstract",
        "layer norm leads to better generalization",
        same="benothman2018-4.1-error",
    ),
    untested(
        "2-shift",
        "2",
        "depth, non-linearities and initialisation favour internal covariate shift, which"
        " lies at the core of vanishing and exploding gradients and dead neurons",
        would="shift, gradients and dead units against depth, f and initialisation",
        waits=ALONG,
    ),
    untested(
        "4.1-librispeech-steps",
        "4.1, Table 2",
        "with LN in the encoder the recognizer of LibriSpeech converges in fewer steps",
        would="both arms on LibriSpeech",
        waits="too long for two cores",
        paper="64354 against 96785",
    ),
    untested(
        "4.1-librispeech-error",
        "4.1, Table 2",
        "and has the lower word error rate",
        would="both arms on LibriSpeech",
        waits="too long for two cores",
        paper=".401 against .426",
    ),
    untested(
        "4.3-distributions",
        "4.3.1, Fig. 4 to 6",
        "the distributions of trainable variables show that layer norm does not reduce "
        "covariate shift",
        would="the figures are of parameters, and covariate shift is of activations",
        waits="the evidence cannot carry it, whatever is measured",
    ),
    untested(
        "5-both",
        "5",
        "the effect is not only due to less covariate shift but also to a smoother landscape",
        would="an arm with one and not the other",
        waits="nobody knows how to build one",
    ),
]

ICS = (
    "layer norm has nothing to do with reducing the internal covariate shift: it does not "
    "reduce the "
)
"""He writes that its reduction "might not be correct" as an explanation; these are the tests of
ba2016-3-covariate with the other sign."""

CLAIMS = [
    *EQUATIONS,
    *SPEECH,
    *UNTESTED,
    *does_not_reduce(
        "benothman2018-4.3-ics-drift", f"{PAPER}, 4.3.1", ICS + DRIFT.words, DRIFT,
    ),
    *does_not_reduce(
        "benothman2018-4.3-ics-gradients", f"{PAPER}, 4.3.1", ICS + ANGLE.words, ANGLE,
    ),
    *against_none(
        "benothman2018-4.3-lipschitz", f"{PAPER}, 4.3.1, Fig. 7",
        "layer norm improves the smoothness of the loss: on a step that promises a fiftieth of "
        "it, less of the gradient changes",
        BEND,
        margin=0.23, reason="a quarter more or less, as of the measure before this one",
        family="smoothness",
        note="a third measure, chosen after two had come out otherwise. The paper's words, "
             "the loss changes at a smaller rate, were measured as they stand by one "
             "that ranges along the gradient, since given up: not seen on MNIST, undecided on "
             "the digits. Their evidence, Fig. 7, is the loss against steps of training, which "
             "shows no "
             "such thing. The rate at which a loss changes along its own gradient is the "
             "speed of plain descent; beside that, smoothness is how long a gradient stays "
             "true (Santurkar et al. 2018), here on steps that promise as much in both arms. "
             "Such a step is shorter where a net learns faster, by L/||g||^2: layer norm "
             "comes to a tenth in half the updates on the digits and in 0.3 of them on "
             "MNIST, and a step of one length bends its gradient more on the digits, where "
             "MNIST leaves it open (exploratory, of numbers that are not kept)",
        nets=FRESH_NETS,
    ),
]  # fmt: skip
