"""Ba et al. (2016), section 6.2: the attentive reader of CNN articles.

What it says of the gain is tested on digits, in :mod:`lnlab.ledger.ba2016_sequences`.
"""

from lnlab.ledger.ba2016_analysis import untested

NOT_BUILT = "the attentive reader (notebook 09) is not built yet"

OTHERS = {
    "baseline": "the LSTM",
    "bn": "with BN in the LSTM",
    "everywhere": "with BN everywhere",
}

CLAIMS = [
    *(
        untested(
            f"6.2-faster-{arm}",
            "6.2, Fig. 2",
            f"the attentive reader with LN trains faster than {words}",
            would="the area under the validation error against updates",
            waits=NOT_BUILT,
        )
        for arm, words in OTHERS.items()
    ),
    *(
        untested(
            f"6.2-better-{arm}",
            "6.2, Fig. 2",
            f"the attentive reader with LN converges to a better validation error than {words}",
            would="the least of the trend of validation errors",
            waits=NOT_BUILT,
        )
        for arm, words in OTHERS.items()
    ),
]
