"""Ben Othman (2018), layer normalization in Listen, Attend and Spell: what it claims."""

from lnlab.ledger.verdict import Claim
from lnlab.ledger.watched import SHIFT, SHIFTS, VARIATION, less_shift, less_variation, watched

PAPER = "Ben Othman (2018)"

ICS = (
    "the interval holds 0: it is not shown that layer norm reduces it, nor that it does not",
    "it does reduce this, by about a sixth",
)

CLAIMS = [
    Claim("benothman2018-4.1-steps", f"{PAPER}, 4.1, Tables 1 and 2",
          "layer norm in the encoder makes Listen, Attend and Spell converge in fewer steps",
          paper="TIMIT 9976 against 15947, LibriSpeech 64354 against 96785"),
    Claim("benothman2018-4.1-error", f"{PAPER}, 4.1, Tables 1 and 2",
          "it reduces the error rate by up to 2 %",
          paper="TIMIT PER .245 against .268, LibriSpeech WER .401 against .426",
          note="these are absolute points, 2.3 and 2.5"),
    Claim("benothman2018-4.2-encoder", f"{PAPER}, 4.2, Table 3",
          "layer norm in the encoder alone converges faster and generalizes slightly better "
          "than in encoder and decoder", paper=".245 @ 9976 against .253 @ 15552",
          note="the table's heading says word error rate; TIMIT's is of phones"),
    Claim("benothman2018-4.2-decoder", f"{PAPER}, 4.2, Table 3",
          "layer norm in the decoder alone performs poorly", paper="PER .666",
          note="the published code swaps c and h in that cell at each step: a likely cause"),
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
    Claim("benothman2018-4.3-attention", f"{PAPER}, 4.3.2, Fig. 8 to 10",
          "attention fails when layer norm is added to the decoder; with it in the encoder the "
          "alignment is almost the same and pays more attention to some regions"),
]  # fmt: skip
