"""CNN's articles with questions, as DeepMind laid them out: one ``.question`` file each."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lnlab.data.question import ENTITY, Question, nearest

SPLITS = {"train": "training", "valid": "validation", "test": "test"}
"""The folders of the splits, below ``questions``."""
BLOCKS = ("the address", "the passage", "the question", "the answer", "the entities")
LARGEST = 2**20
"""Bytes that a question may have; the longest article of CNN has some 20,000."""
ENDS = (".", "!", "?")


class Articles(Sequence[Question]):
    """The questions of a split, each read from its file when it is asked for.

    Args:
        folder: of the files.
        sentences: how many of each passage are kept, :func:`.question.nearest`; 0: all.

    Raises:
        FileNotFoundError: if the folder has no ``.question`` files.
    """

    def __init__(self, folder: Path, sentences: int = 0) -> None:
        self.folder, self.sentences = folder, sentences
        self.files = sorted(folder.glob("*.question")) if folder.is_dir() else []
        if not self.files:
            raise FileNotFoundError(
                f"{folder} has no .question files: name the folder that holds "
                f"questions/{{{','.join(SPLITS.values())}}}, cnn=PATH."
            )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        return read(self.files[place], self.sentences)

    def __iter__(self) -> Iterator[Question]:
        return (read(file, self.sentences) for file in self.files)


def read(file: Path, sentences: int = 0) -> Question:
    """The question in a file: five parts with a line between them.

    Raises:
        ValueError: if the file is cut off or too large, or an entity, the answer or the blank
            is missing; names the file.
    """
    if file.stat().st_size > LARGEST:
        raise ValueError(f"{file} is larger than any question: is it one?")
    try:
        blocks = file.read_bytes().decode("utf-8").strip("\n").split("\n\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: {error}") from error
    if len(blocks) != len(BLOCKS) or not all(block.strip() for block in blocks):
        raise ValueError(
            f"{file} has {len(blocks)} parts, expected {', '.join(BLOCKS)}: it is cut off, or "
            "no question."
        )
    _, passage, query, answer, listed = (block.strip() for block in blocks)
    called = {}
    for line in listed.split("\n"):
        entity, colon, name = line.partition(":")
        if not (colon and name and ENTITY.fullmatch(entity)):
            raise ValueError(f"{file}: {line[:60]!r} names no entity: it is cut off.")
        called[entity] = name
    question = Question(
        str(file), tuple(cut(passage)), query, tuple(sorted(called, key=number)), answer, called
    )
    return nearest(question, sentences) if sentences else question


def cut(passage: str) -> list[str]:
    """The sentences of a passage that was cut into words: each ends at ".", "!" or "?"."""
    found: list[list[str]] = [[]]
    for word in passage.split():
        found[-1].append(word)
        if word in ENDS:
            found.append([])
    return [" ".join(words) for words in found if words]


def number(entity: str) -> int:
    """The number of an entity."""
    return int(entity.removeprefix("@entity"))
