"""Ben Othman (2018), layer normalization in Listen, Attend and Spell: what it claims."""

from lnlab.ledger.benothman2018_speech import PAPER, SPEECH
from lnlab.ledger.verdict import Claim
from lnlab.ledger.watched import SHIFT, SHIFTS, VARIATION, less_shift, less_variation, watched

ICS = (
    "the interval holds 0: it is not shown that layer norm reduces it, nor that it does not",
    "it does reduce this, by about a sixth",
)

CLAIMS = [
    *SPEECH,
    *(
        Claim(f"benothman2018-4.3-ics-{of}", f"{PAPER}, 4.3.1",
              "layer norm has nothing to do with reducing the internal covariate shift: it "
              f"does not reduce the {words}",
              watched(less_shift("none", "layer", of), f"{words}: {SHIFT}"), "lnlab claims",
              note=f"{found}; section 5 says less: not only due to reducing it; on digits, "
              "not on speech")
        for (of, words), found in zip(SHIFTS.items(), ICS, strict=True)
    ),
    Claim("benothman2018-4.3-lipschitz", f"{PAPER}, 4.3.1, Fig. 7",
          "layer norm improves the Lipschitzness of the loss: it changes at a smaller rate",
          watched(less_variation("layer", "none"), f"{VARIATION}, layer - none"),
          "lnlab claims",
          note="its evidence, Fig. 7, is the loss against steps of training, which shows no "
          "such thing; measured along the gradient (Santurkar et al. 2018), on digits, not on "
          "speech"),
]  # fmt: skip
