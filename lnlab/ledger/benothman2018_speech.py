"""What Ben Othman (2018) claims of recognizers, where recorded digits can test it.

TIMIT may not be given away, so that no verdict here is better than "same direction".
"""

from lnlab.ledger.paired import along, better, final, reached
from lnlab.ledger.verdict import Claim, Test
from lnlab.tasks import Spelling

PAPER = "Ben Othman (2018)"
LEVEL = 0.1
OURS = Spelling(data="timit", epochs=8)
"""The study's data, and what we trained on others with."""
ERROR, STEPS = "errors a unit", f"updates until the errors a unit are {LEVEL:.0%}"
ON_DIGITS = (
    "strings of recorded digits (FSDD), not TIMIT; weights from N(0, 1/fan-in), which help the "
    "recognizer without normalization; one learning rate, 0.002"
)


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
        f"lnlab train las --data fsdd=PATH --set norm={arm} --set epochs=8 --set utterances=0"
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
        better(OURS, "encoder", "none", reached("test_error", LEVEL), STEPS),
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
]  # fmt: skip
