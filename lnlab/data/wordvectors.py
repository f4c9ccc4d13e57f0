"""Vectors of words: files in word2vec's two layouts, and vectors counted here.

Counted vectors are the singular vectors of a matrix of positive pointwise mutual information
(Levy, Goldberg and Dagan, 2015, who find them about as good as word2vec's), by scipy and
scikit-learn; gensim, the library for word2vec, has no build for Python 3.14.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lnlab.data.archive import opened
from lnlab.data.cutting import Sentences, cut

SMOOTH = 0.75
"""The power that makes rare contexts less rare."""
BLOCK = 1_000_000
"""Words whose pairs are counted at a time."""
STOP = re.compile(r"(?<=[.!?])\s+")
LONGEST, WIDEST = 1000, 100_000
"""Bytes of a word and numbers of a vector in a file, at most."""


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words, each once, and their vectors, float32 (N, D)."""

    words: tuple[str, ...]
    vectors: np.ndarray

    def __post_init__(self) -> None:
        if len(self.words) != len(self.vectors) or len({*self.words}) != len(self.words):
            raise ValueError(
                f"{len(self.words)} words, {len({*self.words})} of them different, have "
                f"{len(self.vectors)} vectors: give each word once, with its vector."
            )
        if not np.isfinite(self.vectors).all():
            raise ValueError("a vector of a word is not finite: make it again.")

    def __len__(self) -> int:
        return len(self.words)


# --- files -----------------------------------------------------------------------------------


def read(path: Path, wanted: Container[str] | None = None) -> WordVectors:
    """The vectors in a file in word2vec's text or binary layout; of a word that is there twice
    the first.

    Args:
        wanted: the words to keep; None: all. Others are read over, one at a time.

    Raises:
        ValueError: if the file is damaged, or none of the words is there.
        FileNotFoundError: where there is no file.
    """
    found: dict[str, np.ndarray] = {}
    with path.open("rb") as file:
        count, width = _heading(file, path)
        rows = _binary if _is_binary(file, width) else _text
        for word, vector in rows(file, count, width, path):
            if (wanted is None or word in wanted) and word not in found:
                found[word] = vector
    if not found:
        raise ValueError(f"{path}: none of the words that are asked for is among its {count}.")
    try:
        return WordVectors(tuple(found), np.stack([*found.values()]))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def write(path: Path, vectors: WordVectors, *, binary: bool = True) -> None:
    """Write a file in word2vec's binary or text layout."""
    with path.open("wb") as file:
        file.write(f"{len(vectors)} {vectors.vectors.shape[1]}\n".encode())
        for word, vector in zip(vectors.words, vectors.vectors.astype("<f4"), strict=True):
            said = vector.tobytes() if binary else " ".join(map(repr, vector.tolist())).encode()
            file.write(word.encode() + b" " + said + b"\n")


def _heading(file: BinaryIO, path: Path) -> tuple[int, int]:
    try:
        count, width = map(int, file.readline(LONGEST).split())
    except ValueError:
        count = width = 0
    if count < 1 or not 1 <= width <= WIDEST:
        raise ValueError(
            f"{path} does not begin with the number of its words and their width, 1 to "
            f"{WIDEST}."
        )
    return count, width


def _is_binary(file: BinaryIO, width: int) -> bool:
    """True if what follows is no line of a word and so many numbers."""
    begins = file.tell()
    parts = file.readline(LONGEST + 32 * width).split()
    file.seek(begins)
    try:
        return len([float(part) for part in parts[-width:]]) != width
    except ValueError:
        return True


def _binary(
    file: BinaryIO, count: int, width: int, path: Path
) -> Iterator[tuple[str, np.ndarray]]:
    for place in range(count):
        letters = bytearray()
        while (letter := file.read(1)) not in (b" ", b"") and len(letters) < LONGEST:
            letters += letter
        numbers = file.read(4 * width)
        if letter != b" " or len(numbers) < 4 * width:
            raise ValueError(f"{path} is cut off or damaged at word {place + 1} of {count}.")
        yield _word(bytes(letters).lstrip(b"\n"), place, path), np.frombuffer(numbers, "<f4")


def _text(
    file: BinaryIO, count: int, width: int, path: Path
) -> Iterator[tuple[str, np.ndarray]]:
    for place in range(count):
        word, *numbers = file.readline().rstrip(b"\n\r ").split(b" ")
        try:
            vector = np.array(numbers, "S").astype(np.float32)
        except ValueError:
            vector = np.empty(0)
        if len(vector) != width:
            raise ValueError(f"{path} is cut off or damaged at word {place + 1} of {count}.")
        yield _word(word, place, path), vector


def _word(letters: bytes, place: int, path: Path) -> str:
    try:
        return letters.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: word {place + 1} is no UTF-8: {error}") from error


# --- counted here ----------------------------------------------------------------------------


def counted(
    sentences: Iterable[Sequence[str]],
    width: int = 300,
    *,
    least: int = 5,
    most: int = 50_000,
    window: int = 5,
) -> WordVectors:
    """Vectors of words by what stands beside them, always the same for the same sentences.

    Args:
        width: D.
        least: how often a word occurs that has a vector.
        most: words that have one, the most frequent.
        window: words on either side that count, the nearer the more: by 1 / distance.

    Raises:
        ValueError: if fewer words than ``width`` occur so often.
    """
    from sklearn.utils.extmath import randomized_svd

    texts = [*sentences]
    counts = Counter(word for words in texts for word in words)
    frequent = (word for word, count in counts.items() if count >= least)
    known = sorted(frequent, key=lambda word: (-counts[word], word))[:most]
    if len(known) <= width:
        raise ValueError(
            f"{len(known)} words occur {least} times or more: vectors of {width} numbers need "
            "more of them. Give more text or shorter vectors."
        )
    matrix = informed(beside(texts, known, window))
    u, s, _ = randomized_svd(matrix, width, n_iter=4, random_state=0)  # pyright: ignore
    return WordVectors(tuple(known), (u * np.sqrt(s)).astype(np.float32))


def beside(texts: Iterable[Sequence[str]], known: Sequence[str], window: int) -> Any:
    """A sparse matrix (V, V): how often words stand beside words in sentences, by nearness."""
    from scipy import sparse

    number = {word: place for place, word in enumerate(known)}
    gap = [-1] * window  # between sentences, and in the place of words without a number
    total: Any = sparse.csr_matrix((len(known), len(known)))
    row: list[int] = []
    for words in texts:
        row += [number.get(word, -1) for word in words] + gap
        if len(row) > BLOCK:
            total, row = total + _block(row, len(known), window), []
    total = total + _block(row, len(known), window)
    return total + total.T


def _block(row: Sequence[int], size: int, window: int) -> Any:
    from scipy import sparse

    places = np.array(row, np.int32)
    total: Any = sparse.csr_matrix((size, size))
    for distance in range(1, min(window, len(places) - 1) + 1):
        first, second = places[:-distance], places[distance:]
        both = (first >= 0) & (second >= 0)
        nearness = np.full(int(both.sum()), 1 / distance)
        total = total + sparse.csr_matrix((nearness, (first[both], second[both])), (size, size))
    return total


def informed(pairs: Any) -> Any:
    """Positive pointwise mutual information of a sparse matrix of counts, contexts smoothed."""
    found = pairs.tocoo()
    words = np.asarray(pairs.sum(1)).ravel()
    contexts = np.asarray(pairs.sum(0)).ravel() ** SMOOTH
    chance = words[found.row] * contexts[found.col] / contexts.sum()
    found.data = np.maximum(0, np.log(found.data / chance))
    found = found.tocsr()
    found.eliminate_zeros()
    return found


# --- texts -----------------------------------------------------------------------------------


def imdb_training(place: Path) -> Sentences:
    """The sentences of IMDB's 25,000 training reviews, in a folder or its archive.

    They end behind every full stop, question mark or exclamation mark: good enough for words
    that stand beside words.

    Raises:
        FileNotFoundError: where they are not.
    """
    files = sorted(opened(place, "aclImdb*.tar.gz").glob("**/train/???/*.txt"))
    if not files:
        raise FileNotFoundError(f"no aclImdb/train in {place}: name the folder of IMDB.")
    texts = (file.read_text("utf-8").replace("<br />", " ") for file in files)
    lines = (line for text in texts for line in STOP.split(text))
    return cut(" ".join(line.split()) for line in lines if line.strip())
