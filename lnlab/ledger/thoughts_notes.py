"""Notes on skip-thought vectors: what a reader of single rows must know."""

AT_THE_START = (
    "exploratory: of the 31 points that layer norm is ahead by at the end, 18 are there before "
    "the first update, and the nets without it stay near a guess: what is seen is less what it "
    "learned than where it begins"
)
ONE_RATE = (
    "trainings at one rate, 0.001, which all rows of the stories share; those without "
    "layer norm are the less trained ones, 1.35 to 1.41 nats against 0.94 to 0.98 (seeds 100 "
    "to 104); see the rows at own rates, 0.025 for both, of nats, SICK's r and MR"
)
CLOCKS = (
    "one reading of the clock for all five seeds: no interval over seeds; the same training "
    "without layer norm took 36, 42 and 62 CPU-seconds, with it 40 and 41, on one machine; "
    "the kept runs are two programs, layer in lnlab's GRU and none in torch's, so that they "
    "say what layer norm cost whoever used this library, not what it adds to one program"
)
OF_SICK = "SICK's r, rho and MSE are read of the same predictions: no findings apart"
MONTH = (
    "those without layer norm gain as much, 7.1 to 11 points against 5.7 to 11: at 325 of 520 "
    "updates, of which the run is 1.6 times, any of these nets still learns"
)
SILENT = "neither arm is above a bag of words, and so nothing is compared, as was declared"
ALL_BUT_ONE = "of seed 105 neither arm is above a bag of words, and so it has no number"
SCORES = {
    "-novels": {
        "sick-r": "r of 0.52 to 0.56 and 0.45 to 0.48, untrained 0.47 to 0.49, words 0.79",
        "mr": "54.6 to 56.0 and 55.8 to 56.5 %, words 76.7",
        "cr": "65.2 to 65.5 and 64.6 to 66.2 %, words 79.2",
        "subj": "67.3 to 69.8 and 69.8 to 70.5 %, untrained 62.2 to 63.6 and 66.6 to 66.7, "
        "words 91.2",
        "mpqa": "73.5 to 73.8 and 73.3 to 74.2 %, words 86.3",
    },
    "-novels-small": {
        "sick-r": "r of 0.48 to 0.51 and 0.31 to 0.36, untrained 0.42 to 0.47, words 0.79",
        "mr": "55.8 to 57.0 and 52.2 to 55.1 %, words 76.7",
        "cr": "64.3 to 66.5 and 63.8 to 64.3 %, words 79.2",
        "subj": "69.4 to 71.3 and 61.3 to 64.4 %, words 91.2",
        "mpqa": "72.2 to 73.2 and 72.3 to 72.5 %, words 86.3",
    },
}
"""Scores of the nets on novels by their judges, of three seeds and, the small ones, of five."""
ONE_ROW = {
    **{
        f"{of}-{metric}{end}": f"{SILENT}; exploratory, at the end, with layer norm and "
        f"without: {said}"
        for of in ("table3", "faster")
        for end, scores in SCORES.items()
        for metric, said in scores.items()
    },
    **{
        f"{of}-sick-{metric}{end}": SILENT
        for of in ("table3", "faster")
        for end in SCORES
        for metric in ("rho", "mse")
    },
    "conditioning-novels-small": SILENT,
    "conditioning-stories": SILENT,
    "faster-sick-r-stories": ALL_BUT_ONE,
    "faster-sick-mse-stories": ALL_BUT_ONE,
    "month-novels": "exploratory: the mean of all metrics is worse at the end, by 0.06 to 0.74 "
    "points, of all three seeds",
    "table3-mr-stories": AT_THE_START,
    "table3-mr-stories-own-rates": "exploratory: 18 of the 24 points that layer norm is ahead "
    "by are there before the first update; without it two seeds of five end within six points "
    "of it",
    "faster-nll-novels": "both arms at the rate of the published code, 0.0002; exploratory: of "
    "the lead 0.02 to 0.03 nats are left at the end",
    "faster-nll-novels-small": "both arms at the rate of the published code, 0.0002; at 0.005, "
    "the best of six for both, 0.07 to 0.14 nats of the lead are left",
    "faster-nll-novels-small-own-rates": "0.005 is the best of six for both arms; exploratory: "
    "of the lead 0.04 to 0.05 nats are left at the end",
    "table3-sick-r-novels-small-own-rates": f"{SILENT}; exploratory, at the end, with layer "
    "norm and without: r of 0.59 to 0.62 and 0.57 to 0.59, words 0.79",
    "table3-mr-novels-small-own-rates": f"{SILENT}; exploratory, at the end, with layer norm "
    "and without: 57.5 to 58.8 and 55.0 to 57.3 %, words 76.7",
    "faster-nll-stories-own-rates": "0.025 is the best of six for both arms",
    "faster-subj-stories": "six of the twenty points are layer norm's lower start, 68.5 "
    "against 74.4; all nets but one, at 95.8, end at 99 to 100. Exploratory: at 0.025, the "
    "best rate of both arms, their curves are level (0 to 0.4 points apart, 95 %), and that "
    "layer norm gains 1.1 to 6.4 more is its lower start alone",
    "faster-mpqa-stories": "at this rate the nets without layer norm fall below their own "
    "start, and no speed is compared; at 0.025 they learn it, from 61 to 78 %. Exploratory: at "
    "that rate, the best of both arms, nothing of a speedup is told (none - layer: -12 to 17 "
    "points, 95 %)",
    "faster-mr-stories": "at this rate the nets without layer norm stay near a guess",
    "month-stories": MONTH,
    "cost-stories": CLOCKS,
    "cost-novels-small": "one reading of the clock for all seeds: no interval over seeds",
}
"""Notes of single rows, by what their ids end with."""
