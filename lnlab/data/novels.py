"""Novels as Project Gutenberg has them, cut into sentences and words by NLTK.

The text stands between two lines of asterisks; before the first and behind the second one is
the licence. Sentences end where Punkt (Kiss and Strunk, 2006) ends them, which learns from the
novel how its sentences begin; its abbreviations are :data:`SHORT`, for those that it learns are
often words of dialogue. Words are those of NLTK's tokenizer, as in the Penn Treebank, in small
letters: the tools of Kiros et al. (2015). A sentence never goes on in the next paragraph.

nltk is imported when a text is cut: to list what data there are does not take it.
"""

import codecs
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lnlab.data.kept import code, kept

SHORT = frozenset(
    "mr mrs dr st esq messrs mme mlle m prof rev hon capt col gen lieut no".split()  # noqa: SIM905
)
"""Words behind which a full stop ends no sentence."""
BEGINS = re.compile(r"^\*\*\* ?START OF TH(?:IS|E) PROJECT GUTENBERG EBOOK.*$", re.M | re.I)
ENDS = re.compile(
    r"^(?:\*\*\* ?END OF TH(?:IS|E) PROJECT GUTENBERG EBOOK|End of (?:the )?Project Gutenberg)",
    re.M | re.I,
)
MADE_BY = re.compile(r"\s*(?:Produced|Transcribed|E-text prepared)\b.*?\n\s*\n", re.S)
"""The paragraph before the title page."""
ENCODING = re.compile(rb"^Character set encoding:\s*([\w-]+)", re.M)
PARAGRAPH = re.compile(r"\n\s*\n")

Sentences = list[list[str]]


def novel(file: Path) -> Sentences:
    """The sentences of a novel in a file of Project Gutenberg; cut once on this machine.

    Raises:
        ValueError: if the file is not in the encoding that it names, or its text does not stand
            between the two lines; names it.
    """
    text = told(file)
    found = kept(
        "sentences",
        f"{text} {code(__file__)} {_nltk().__version__}",
        lambda: {"text": np.frombuffer(joined(sentences(text)).encode(), np.uint8)},
    )
    return [line.split() for line in found["text"].tobytes().decode().split("\n")]


def joined(lines: Sentences) -> str:
    """Sentences as a text, a line each, words between spaces."""
    return "\n".join(" ".join(words) for words in lines)


def told(file: Path) -> str:
    """The text of a file without the licence before and behind it, and without underscores,
    which stand for italics.

    Raises:
        ValueError: as :func:`novel`.
    """
    text = _decoded(file).removeprefix(codecs.BOM_UTF8.decode()).replace("\r\n", "\n")
    begins, ends = BEGINS.search(text), ENDS.search(text)
    if not begins or not ends or ends.start() < begins.end():
        raise ValueError(
            f"{file} is no whole book of Project Gutenberg: expected its text between lines "
            "'*** START OF THIS PROJECT GUTENBERG EBOOK' and '*** END OF'."
        )
    return MADE_BY.sub("", text[begins.end() : ends.start()], count=1).replace("_", "")


def _decoded(file: Path) -> str:
    """The text of a file in UTF-8, or in the encoding that it names."""
    content = file.read_bytes()
    named = ENCODING.search(content)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        try:
            return content.decode(named[1].decode() if named else "utf-8")
        except (UnicodeDecodeError, LookupError):
            says = f"it says {named[1].decode()}" if named else "it names no other"
            raise ValueError(f"{file} is no UTF-8 at byte {error.start}; {says}.") from error


def sentences(text: str) -> Sentences:
    """The sentences of a text, their words in small letters; empty lines part paragraphs."""
    ends = _punkt(text)
    lines = (
        line
        for paragraph in PARAGRAPH.split(text)
        for line in ends.tokenize(" ".join(paragraph.split()))
    )
    return [words(line) for line in lines if line.split()]


def words(sentence: str) -> list[str]:
    """The words and signs of a sentence, in small letters."""
    return [word for one in _treebank().tokenize(sentence.lower()) for word in one.split()]


def _nltk() -> Any:
    import nltk

    return nltk


def _punkt(text: str) -> Any:
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    learned = PunktTrainer(text).get_params()
    learned.abbrev_types = set(SHORT)
    return PunktSentenceTokenizer(learned)


@cache
def _treebank() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()
