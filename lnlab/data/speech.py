"""Speech with what is said in it: synthesised, spoken digits, AN4, TIMIT and LibriSpeech.

An utterance is its features and the units (phones or letters) that are said. Where it is known
when, the ends of the units are kept too, so that an alignment can be held against the truth.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lnlab.data.archive import unpacked
from lnlab.data.phones import DIGITS, PHONES
from lnlab.data.source import Kind, Source, data_folder, find, split_spec
from lnlab.data.utterance import Unit, Utterance

LETTERS = (*" 'ABCDEFGHIJKLMNOPQRSTUVWXYZ",)

SPOKEN = Source(
    name="spoken",
    title="Words synthesised by lnlab, phone boundaries known",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.data.formant",
)
ESPEAK = Source(
    name="espeak",
    title="Words spoken by eSpeak NG on this machine, phone boundaries known",
    kind="synthetic",
    licence="made on this machine by a program under GPL-3.0-or-later",
    citation="https://github.com/espeak-ng/espeak-ng",
)
FSDD = Source(
    name="fsdd",
    title="Free Spoken Digit Dataset v1.0.10, digits joined into strings, 8 kHz",
    kind="official",
    licence="CC BY-SA 4.0",
    citation="Jackson et al. (2020), https://github.com/Jakobovski/free-spoken-digit-dataset",
)
AN4 = Source(
    name="an4",
    title="CMU Census (AN4): audio at 16 kHz, or mel cepstra",
    kind="official",
    licence="CMU, free for any purpose",
    citation="Acero (1990), http://www.speech.cs.cmu.edu/databases/an4/",
)
TIMIT = Source(
    name="timit",
    title="TIMIT, 61 phones folded to 39",
    kind="official",
    licence="LDC User Agreement",
    citation="Garofolo et al. (1993), https://catalog.ldc.upenn.edu/LDC93S1",
)
LIBRISPEECH = Source(
    name="librispeech",
    title="LibriSpeech, read English at 16 kHz",
    kind="official",
    licence="CC BY 4.0",
    citation="Panayotov et al. (2015), https://www.openslr.org/12",
)
UNITS: dict[str, tuple[Unit, ...]] = {
    "spoken": ("phones",),
    "espeak": ("phones",),
    "fsdd": ("words", "letters", "phones"),
    "an4": ("letters",),
    "timit": ("phones",),
    "librispeech": ("letters",),
}
"""What can be recognized in each source, its own first."""
SOURCES = (SPOKEN, ESPEAK, FSDD, AN4, TIMIT, LIBRISPEECH)

GET = {
    "fsdd": "download the archive of tag v1.0.10 from its page",
    "an4": "download an4_sphere.tar.gz, or the cepstra",
    "timit": "order it from the Linguistic Data Consortium (LDC93S1)",
    "librispeech": "download train-clean-100, dev-clean and test-clean from its page",
}
"""How the files of a source are to be had; its licence or size forbids to do it unasked."""


@dataclass(frozen=True)
class Speech:
    """A set of utterances and where it is from; as :class:`lnlab.data.Dataset`.

    Attributes:
        units: all that can be said, in the order of their numbers.
        rate: samples of the sound a second.
    """

    name: str
    kind: Kind
    licence: str
    checksum: str
    units: tuple[str, ...]
    rate: int
    train: tuple[Utterance, ...]
    valid: tuple[Utterance, ...]
    test: tuple[Utterance, ...]

    def __str__(self) -> str:
        counts = ", ".join(
            f"{len(getattr(self, split))} {split}" for split in ("train", "valid", "test")
        )
        return f"{self.kind} data: {self.name}, utterances: {counts}; {len(self.units)} units"


def load(
    spec: str = "embedded",
    unit: Unit | None = None,
    most: int | None = None,
    unheard: str = "",
) -> Speech:
    """The speech called ``spec``: ``embedded``, ``NAME=PATH``, or ``NAME`` in the data folder.

    PATH is a folder, or the .tar.gz of the authors, which is unpacked once into the data
    folder; LibriSpeech comes in several, to be unpacked into one folder.

    Args:
        unit: what is recognized, phones, letters or (of digits) words; None: the source's own.
        most: how many utterances to train on at most, the first; those of validation and test
            get fewer in proportion. None: all.
        unheard: a speaker of ``fsdd`` whom only the test has; the other sources have other
            speakers in their tests anyway.

    Raises:
        ValueError: for an unknown name, unit or speaker, or a damaged file, which is named.
        FileNotFoundError: where the files are not; says how to get them.
    """
    from lnlab.data import corpora, espeak, formant, spoken

    name, folder = split_spec(spec)
    source = SPOKEN if name == "embedded" else find(name, SOURCES)
    units = UNITS[source.name]
    if unit is not None and unit not in units:
        raise ValueError(f"{source.name} has no {unit}: choose from {', '.join(units)}.")
    unit = unit or units[0]
    if unheard and source is not FSDD:
        raise ValueError(
            f"unheard is {unheard!r}: {source.name} tests on speakers of its own, leave it out."
        )
    if source in (SPOKEN, ESPEAK):
        if folder is not None:
            raise ValueError(f"data {spec!r}: it is synthesised here, give no path.")
        said = spoken.corpus(most=most) if source is SPOKEN else first(espeak.corpus(), most)
        return _speech(source, PHONES, formant.RATE, said)
    folder = folder or data_folder() / source.name
    if not folder.exists():
        raise FileNotFoundError(
            f"{source.name} is not in {folder}: {GET[source.name]} ({source.citation}), and "
            f"name it or a folder of its files: {source.name}=PATH"
        )
    if folder.is_file():
        folder = unpacked(folder, data_folder() / "unpacked")
    more = {"unheard": unheard} if unheard else {}
    rate, parts = corpora.READERS[source.name](folder, unit, **more)
    parts = first(parts, most)
    known = {"phones": PHONES, "letters": LETTERS, "words": DIGITS}
    return _speech(source, known[unit], rate, parts)


def first(parts: dict[str, list[Utterance]], most: int | None) -> dict[str, list[Utterance]]:
    """The first utterances of each part, at most ``most`` to train on."""
    part = 1 if most is None else min(1, most / max(1, len(parts["train"])))
    return {split: said[: math.ceil(part * len(said))] for split, said in parts.items()}


def _speech(
    source: Source, units: tuple[str, ...], rate: int, parts: dict[str, list[Utterance]]
) -> Speech:
    for split, utterances in parts.items():
        if not utterances and split != "valid":
            raise ValueError(f"{source.name} has no utterances to {split} with.")
    return Speech(
        name=source.name,
        kind=source.kind,
        licence=source.licence,
        checksum=checksum(parts.values()),
        units=units,
        rate=rate,
        **{split: tuple(utterances) for split, utterances in parts.items()},
    )


def checksum(parts: Iterable[Sequence[Utterance]]) -> str:
    """sha256 of the features and units of all utterances, in their order."""
    total = hashlib.sha256()
    for part in parts:
        for utterance in part:
            total.update(f"{utterance.name} {' '.join(utterance.units)}".encode())
            total.update(utterance.features.numpy().tobytes())
    return total.hexdigest()
