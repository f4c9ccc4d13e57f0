"""What Ben Othman (2018) claims of recognizers, where recorded digits can test it.

TIMIT may not be given away, so that no verdict here is better than "same direction".
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lnlab.ledger.paired import Arms, Number, along, better, final, numbers, settled
from lnlab.ledger.verdict import Claim, Test
from lnlab.tasks import Spelling

if TYPE_CHECKING:
    import pandas as pd

PAPER = "Ben Othman (2018)"
EPOCHS = 16
OURS = Spelling(data="timit", epochs=EPOCHS)
"""The study's data, and what we trained on others with."""
NEAR = 0.01
"""A run has converged at the first evaluation that is within one point of its least error."""
CONVERGED = settled("test_error", NEAR)
ERROR, STEPS = "errors a unit", "updates until the error is within a point of its least"
STUDY = {
    "none": (0.268, 15947),
    "encoder": (0.245, 9976),
    "both": (0.253, 15552),
    "decoder": (0.666, 15600),
}
"""Tables 1 and 3: phone error rate on TIMIT, and the steps to it."""
STUDY_LIBRISPEECH = {"none": (0.426, 96785), "encoder": (0.401, 64354)}
"""Table 2: word error rate on LibriSpeech, and the steps to it."""
ON_DIGITS = (
    "strings of recorded digits (FSDD), not TIMIT; weights from N(0, 1/fan-in), which help the "
    "recognizer without normalization; one learning rate, 0.002"
)


MEASURES = {
    "error": final("test_error"),
    "substitutions": final("substitutions"),
    "deletions": final("deletions"),
    "insertions": final("insertions"),
    "units (N)": final("spoken"),
    "error, ends in N": final("test_error_with_end"),
    "updates": CONVERGED,
    "CPU seconds": settled("test_error", NEAR, of="cpu_seconds"),
}
"""Errors at the end of a run, and updates and seconds of one core until it converged."""


def beside_the_study(arms: Arms, measures: Mapping[str, Number] = MEASURES) -> "pd.DataFrame":
    """A row for each arm: means over seeds, and tables 1 to 3 of the study."""
    import pandas as pd

    rows = {
        arm: {
            name: pd.Series(numbers(runs, number)).mean() for name, number in measures.items()
        }
        | {"seeds": len(runs)}
        for arm, runs in arms.items()
    }
    table = pd.DataFrame(rows).T.loc[sorted(rows, key=[*STUDY, *rows].index)]
    for title, study in (("TIMIT", STUDY), ("LibriSpeech", STUDY_LIBRISPEECH)):
        for place, name in enumerate(("error", "steps")):
            table[f"study, {title}: {name}"] = [
                study.get(arm, (float("nan"),) * 2)[place] for arm in table.index
            ]
    return table


def claim(
    id: str,
    section: str,
    statement: str,
    test: Test,
    arms: list[str],
    paper: str = "",
    note: str = "",
) -> Claim:
    """A claim that is tested on speech."""
    command = " && ".join(
        f"lnlab train las --data fsdd=PATH --set norm={arm} --set epochs={EPOCHS} "
        "--set utterances=0"
        for arm in arms
    )
    note = "; ".join(filter(None, [ON_DIGITS, note]))
    return Claim(
        f"benothman2018-{id}",
        f"{PAPER}, {section}",
        statement,
        test,
        command,
        paper=paper,
        note=note,
    )


SPEECH = [
    claim(
        "4.1-steps", "4.1, Tables 1 and 2",
        "layer norm in the encoder makes Listen, Attend and Spell converge in fewer steps",
        better(OURS, "encoder", "none", CONVERGED, STEPS),
        ["encoder", "none"],
        "TIMIT 9976 against 15947, LibriSpeech 64354 against 96785",
    ),
    claim(
        "4.1-error", "4.1, Tables 1 and 2",
        "it reduces the error rate by up to 2 %",
        better(OURS, "encoder", "none", final("test_error"), ERROR),
        ["encoder", "none"],
        "TIMIT PER .245 against .268, LibriSpeech WER .401 against .426",
        "these are absolute points, 2.3 and 2.5",
    ),
    claim(
        "4.2-encoder", "4.2, Table 3",
        "layer norm in the encoder alone converges faster than in encoder and decoder",
        better(OURS, "encoder", "both", along("test_nll"), "mean NLL (nats) along the run"),
        ["encoder", "both"],
        ".245 @ 9976 against .253 @ 15552",
        "the table's heading says word error rate; TIMIT's is of phones",
    ),
    claim(
        "4.2-decoder", "4.2, Table 3",
        "layer norm in the decoder alone performs poorly: worse than none",
        better(OURS, "none", "decoder", final("test_error"), ERROR),
        ["decoder", "none"],
        "PER .666",
        "the published code swaps c and h in that cell at each step",
    ),
    claim(
        "4.3-attention", "4.3.2, Fig. 8 to 10",
        "attention fails when layer norm is added to the decoder: less of it lies on what is "
        "said than without",
        better(OURS, "decoder", "none", final("alignment"), "attention inside the unit"),
        ["decoder", "none"],
    ),
    claim(
        "4.3-lipschitz-speech", "4.3.1, Fig. 7",
        "layer norm in the encoder improves the Lipschitzness of the loss of the recognizer",
        better(OURS, "encoder", "none", along("lipschitz"), "length of the gradient"),
        ["encoder", "none"],
        note="Fig. 7 shows the loss against steps, not its slope; ours is the mean along the "
        "run of the length of the gradient on 16 utterances",
    ),
]  # fmt: skip
