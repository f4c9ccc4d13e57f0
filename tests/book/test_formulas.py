"""Markdown on pages: formulas as MathML, lines that break well, nothing hostile."""

import re
from xml.etree import ElementTree

import pytest

from lnlab.book.html import latex_to_mathml, markdown_to_html

PAPER = {
    "eq. 3": r"\mu^l = \frac{1}{H}\sum_{i=1}^{H} a_i^l \qquad "
    r"\sigma^l = \sqrt{\frac{1}{H}\sum_{i=1}^{H}\left(a_i^l-\mu^l\right)^2}",
    "eq. 2": r"\begin{aligned} \bar a_i^l &= \frac{g_i^l}{\sigma_i^l}\left(a_i^l-\mu_i^l\right)"
    r" \\ \mu_i^l &= \mathop{\mathbb{E}}_{\mathbf{x}\sim P(\mathbf{x})}\left[a_i^l\right]"
    r" \end{aligned}",
    "eq. 20": r"\begin{pmatrix} f_t \\ i_t \end{pmatrix} = W_h h_{t-1} + W_x x_t + b",
    "cases": r"f(x) = \begin{cases} x & x > 0 \\ 0 & \text{otherwise} \end{cases}",
}


@pytest.mark.parametrize("tex", PAPER.values(), ids=PAPER)
def test_formulas_of_the_papers_become_mathml(tex):
    rows = latex_to_mathml(tex, display=True)
    ElementTree.fromstring(rows)
    assert "&amp;" not in rows


def test_a_line_over_a_term_lies_over_it():
    over = latex_to_mathml(
        r"\overline{r y} + \overline{\hat a} + \hat{\overline{b}}", display=False
    )
    assert "\u0332" not in over, "a line under a letter"
    assert over.count('<mo stretchy="true">‾</mo></mover>') == 3
    alone, _, _ = over.split("<mo>+</mo>")
    assert "accent" not in alone, "an accent is drawn into its letter"


def test_a_formula_that_is_not_understood_is_shown():
    with pytest.raises(ValueError, match=r"\\nonsense"):
        latex_to_mathml(r"a + \nonsense{b}", display=False)
    page = markdown_to_html(r"so $a < \nonsense$ holds", trusted=True)
    assert r"a &lt; \nonsense</code> holds" in page


@pytest.mark.parametrize(
    ("source", "together"),
    [
        ("At $w$, with ($g$), of $b$ and\n\n$$a$$.", ["w,", "(g),"]),
        ('From "$a$ to $b$", he says', ["b&quot;,"]),
    ],
)
def test_what_belongs_together_stays_on_one_line(source, together):
    page = markdown_to_html(source, trusted=True)
    kept = re.findall(r'<span class="together">(.*?)</span>', page)
    assert [re.sub("<[^>]*>", "", text) for text in kept] == together


def test_links_lead_to_pages():
    page = markdown_to_html("[there](02_what_stays_the_same.ipynb#Claim)", trusted=True)
    assert 'href="02_what_stays_the_same.html#Claim"' in page


def test_our_own_prose_may_fold_a_solution():
    source = "<details><summary>Solution</summary>\n\n$x^2$\n\n</details>"
    page = markdown_to_html(source + "\n\n$$a = W x$$", trusted=True)
    assert page.index("<details>") < page.index("<math>") < page.index("</details>")
    assert page.count('<math display="block"') == page.count("<math>") == 1
    assert "$" not in page
