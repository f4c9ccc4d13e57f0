"""Earlier verdicts on skip-thought vectors, and why they were changed."""

from lnlab.ledger.claim import AGAIN, CHANGED, PASSED, Before

INNER_C = Before(
    "not yet run",
    "C was one for all points of a run, that of most right at its end on the very folds that "
    "are reported, and the untrained encoder had its own best of them; changed before any run "
    "was there",
)
NEW_C = Before(
    "not yet run",
    "C was 256 along a training and for what it is compared with, and L-BFGS, which ends early "
    "where vectors are nearly parallel, fitted the judges; changed before there was any run",
)
NEW_LOOP = Before(
    "not yet run",
    "the arm without normalization had torch's GRU, and now has the same loop as the other; "
    "changed before there was any run",
)
ALL_GAINS = Before(
    "not yet run",
    "only metrics whose end was above their start and the bag of words were averaged, which "
    "finds gains where there are none; changed when the runs were there and nobody had looked "
    "at them",
)
BY_THE_LEAST = Before(
    "not yet run",
    "rates were chosen from three by the least nats of a run, and what is compared is their "
    "mean along it; changed before any run",
)
AT_THE_END = Before(
    "not yet run",
    "of five rates the largest, 0.025, was best for both arms on the stories (seed 99): the "
    "grid goes on to 0.125; changed before any declared seed was trained so",
)
WITH_ITS_START = (
    "what an arm is ahead by before its first update counted as speed: on the stories 18 of "
    "the 31 points of MR. What each net begins with is taken off"
)
JUDGED_SO = {
    "sick_r": "-0.2 to -0.051", "sick_mse": "-0.47 to -0.12", "mr": "-36 to -20",
    "subj": "-29 to -1.9", "mpqa": "-17 to -14",
}  # fmt: skip
"""The intervals of the stories by the mean along the run, the start included."""
AT_ANY_RATE = {
    metric: (Before(verdict, "its statement did not name the one rate of both arms", interval),)
    for metric, verdict, interval in (
        ("sick_r", "inconclusive", ""), ("sick_mse", "inconclusive", ""),
        ("mr", "inconclusive", "-23 to 0.49"), ("subj", "also seen", "-33 to -7.2"),
        ("mpqa", "also seen", "-26 to -5.2"),
    )
}  # fmt: skip
"""Earlier verdicts of the stories; at the best rate of both arms the last two have no lead."""
SMALLER_LEVEL = Before(
    "also seen",
    "of its family five rows were declared anew, and of two the judges say nothing now: they "
    "count as p = 1 in Holm's steps",
    "-30 to -1.5",
)
DATES = {
    AT_ANY_RATE["mr"][0].reason: AGAIN,
    WITH_ITS_START: AGAIN,
    SMALLER_LEVEL.reason: AGAIN,
    PASSED: CHANGED,
    INNER_C.reason: "2026-11-22 23:47",
    NEW_LOOP.reason: "2026-11-22 21:04",
    ALL_GAINS.reason: "2026-11-22 15:10",
    BY_THE_LEAST.reason: AGAIN,
    AT_THE_END.reason: AGAIN,
}
"""The dates of the declarations that came after, by the reason."""
