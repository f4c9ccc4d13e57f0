"""Novels as Project Gutenberg has them.

The text stands between two lines of asterisks; before the first and behind the second one is
the licence. A sentence never goes on in the next paragraph: :mod:`lnlab.data.vocabulary`.
"""

import codecs
import re
from pathlib import Path

from lnlab.data.vocabulary import Sentences
from lnlab.data.vocabulary import told as cut

BEGINS = re.compile(r"^\*\*\* ?START OF TH(?:IS|E) PROJECT GUTENBERG EBOOK.*$", re.M | re.I)
ENDS = re.compile(
    r"^(?:\*\*\* ?END OF TH(?:IS|E) PROJECT GUTENBERG EBOOK|End of (?:the )?Project Gutenberg)",
    re.M | re.I,
)
MADE_BY = re.compile(r"\s*(?:Produced|Transcribed|E-text prepared)\b.*?\n\s*\n", re.S)
"""The paragraph before the title page."""
ENCODING = re.compile(rb"^Character set encoding:\s*([\w-]+)", re.M)


def novel(file: Path) -> Sentences:
    """The sentences of a novel in a file of Project Gutenberg; cut once on this machine.

    Raises:
        ValueError: if the file is not in the encoding that it names, or its text does not stand
            between the two lines; names it.
    """
    return cut(told(file))


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
