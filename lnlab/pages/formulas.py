"""Markdown with its formulas as MathML, which browsers draw without a download."""

import html
import re
from typing import Any

from math_core import LatexError, LatexToMathML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

# Chrome draws a stretched tilde over its neighbours
TEX = LatexToMathML(fancy_error=False, macros={"widetilde": r"\tilde{#1}"})


def mathml(tex: str, *, display: bool) -> str:
    r"""A formula of LaTeX as MathML.

    As in JupyterLab nothing is numbered but what carries a ``\tag``.

    Raises:
        ValueError: The formula has a command or a structure that is not understood.
    """
    tex = re.sub(r"\\(begin|end)\{(equation|align|gather)\}", r"\\\1{\2*}", tex)
    if r"\tag" in tex and not re.match(r"\s*\\begin\{(equation|align|gather)\*\}", tex):
        tex = rf"\begin{{equation*}}{tex}\end{{equation*}}"
    try:
        return overlined(TEX.convert_with_local_state(tex, displaystyle=display))
    except LatexError as error:
        raise ValueError(f"{error} (at that character of {tex!r})") from None


def overlined(formula: str) -> str:
    """A formula of MathML whose lines over terms lie over them.

    math-core makes them of the character for a line under a letter, as an accent: a browser
    draws that through the letter.
    """
    lone = r'<mover accent="true">((?:(?!<mover).)*)<mo stretchy="true">\u0332</mo>'
    formula = re.sub(lone, r'<mover>\1<mo stretchy="true">‾</mo>', formula)
    return formula.replace("\u0332", "‾")


class Renderer(IPythonRenderer):
    """Markdown to HTML; a formula that is not understood stays readable as LaTeX."""

    def formula(self, tex: str, *, display: bool) -> str:
        try:
            return mathml(tex, display=display)
        except ValueError as error:
            reason = html.escape(str(error))
            return f'<code class="unread" title="{reason}">{html.escape(tex)}</code>'

    def block_math(self, body: str) -> str:
        return self.formula(body, display=True)

    def inline_math(self, body: str) -> str:
        return self.formula(body, display=False)

    def latex_environment(self, name: str, body: str) -> str:
        return self.formula(rf"\begin{{{name}}}{body}\end{{{name}}}", display=True)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        page = re.sub(r"^([\w-]+)\.ipynb(?=$|#)", r"\1.html", url)
        return super().link(text, page, title)


def markdown(source: str, *, trusted: bool, **cell: Any) -> str:
    """The HTML of a Markdown text, with formulas between dollars or in a LaTeX environment.

    Args:
        source: The text.
        trusted: Whether HTML in it is kept (our own prose) or shown as text (outputs).
        cell: The ``attachments`` of its cell, if it has any.
    """
    renderer = Renderer(escape=not trusted, allow_harmful_protocols=False, **cell)
    return together(MarkdownWithMath(renderer=renderer).render(source))


def together(page: str) -> str:
    """HTML in which no line ends between a formula and the bracket, quote or comma at it, nor
    between a number and its per cent or within the "--data" of a command."""
    page = re.sub(
        r"(<(code|pre)\b.*?</\2>)|(?<=\d) (?=%)",
        lambda m: m[1] or "\xa0",
        page,
        flags=re.DOTALL,
    )
    command = r"(?<![^\s>])--[\w-]+(?=[^<]*</code>)"
    page = re.sub(command, lambda m: f'<span class="together">{m[0]}</span>', page)
    formula = r'<math(?![^>]*display="block")[^>]*>(?:(?!</math>).)*</math>'
    at = rf"(\(?)({formula})((?:[,.;:!?)”]|&quot;)*)"
    return re.sub(at, _joined, page, flags=re.DOTALL)


def _joined(found: re.Match[str]) -> str:
    opening, formula, closing = found.groups()
    return f'<span class="together">{found[0]}</span>' if opening or closing else formula
