"""Speech with what is said in it: synthesised, spoken digits, TIMIT and LibriSpeech.

An utterance is its features and the units (phones or letters) that are said. Where it is known
when, the ends of the units are kept too, so that an alignment can be held against the truth.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lnlab.data.archive import unpacked
from lnlab.data.cache import code, stamp
from lnlab.data.dataset import Dataset
from lnlab.data.phones import DIGITS, PHONES
from lnlab.data.source import Source, data_folder
from lnlab.data.utterance import Memory, Unit, Utterance, first

MADE = {"unit": "phones", "most": "how many utterances to train on at most"}
FILES = {
    "most": MADE["most"],
    "mix": "True mixes recordings of several channels to one",
    "leave_out": "True does without faulty recordings",
}
"""Options of synthesised speech, and of speech from files; the first unit is the default."""
LETTERS = (*" 'ABCDEFGHIJKLMNOPQRSTUVWXYZ",)

SPOKEN = Source(
    name="spoken",
    title="Words synthesised by lnlab, phone boundaries known",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.data.formant",
    offers="speech",
    options=MADE,
)
FSDD = Source(
    name="fsdd",
    title="Free Spoken Digit Dataset v1.0.10, digits joined into strings, 8 kHz",
    kind="official",
    licence="CC BY-SA 4.0",
    citation="Jackson et al. (2020), https://github.com/Jakobovski/free-spoken-digit-dataset",
    offers="speech",
    options={
        "unit": "words, letters, phones",
        "unheard": "a speaker whom only the test has",
        **FILES,
    },
)
TIMIT = Source(
    name="timit",
    title="TIMIT, 61 phones folded to 39",
    kind="official",
    licence="LDC User Agreement",
    citation="Garofolo et al. (1993), https://catalog.ldc.upenn.edu/LDC93S1",
    offers="speech",
    options={"unit": "phones", **FILES},
)
LIBRISPEECH = Source(
    name="librispeech",
    title="LibriSpeech, read English at 16 kHz",
    kind="official",
    licence="CC BY 4.0",
    citation="Panayotov et al. (2015), https://www.openslr.org/12",
    offers="speech",
    options={"unit": "letters", **FILES},
)
SOURCES = (SPOKEN, FSDD, TIMIT, LIBRISPEECH)

GET = {
    "fsdd": "download the archive of tag v1.0.10 from its page",
    "timit": "order it from the Linguistic Data Consortium (LDC93S1)",
    "librispeech": "download train-clean-100, dev-clean and test-clean from its page",
}
"""The way to the files of a source whose licence or size forbids a download unasked."""


class Speech(Dataset[tuple[Utterance, ...]]):
    """A set of utterances, heard when they are needed; as :class:`lnlab.data.Images`.

    The checksum is of the samples and of the units. An epoch takes the memory of a batch and
    of :data:`lnlab.data.utterance.MOST` bytes of features, however long it is.

    Args:
        source, of, noted: as of :class:`Dataset`.
        said: the utterances by split, and the note.
        units: all that can be said, in the order of their numbers.
        rate: samples of the sound a second.
    """

    def __init__(
        self,
        source: Source,
        said: Callable[[], tuple[Mapping[str, Sequence[Utterance]], str]],
        of: Callable[[], str],
        *,
        units: tuple[str, ...],
        rate: int,
        noted: bool = False,
    ) -> None:
        super().__init__(source, self._remembered, of, noted=noted)
        self._said, self.units, self.rate = said, units, rate

    def _remembered(self) -> tuple[Mapping[str, tuple[Utterance, ...]], str]:
        said, note = self._said()
        for split, utterances in said.items():
            if not utterances and split != "valid":
                raise ValueError(f"{self.source.name} has no utterances to {split} with.")
        memory = Memory()
        return {
            split: tuple(replace(utterance, memory=memory) for utterance in utterances)
            for split, utterances in said.items()
        }, note

    def _digest(self) -> bytes:
        total = hashlib.sha256(f"{self.rate}".encode())
        for split, utterances in self._parts[0].items():
            total.update(f"{split}\n".encode())
            for u in utterances:
                said = f"{u.name}\0{u.speaker}\0{' '.join(u.units)}\n"
                total.update(said.encode() + u.heard.digest)
                for places in (u.begins, u.ends):
                    total.update(b"" if places is None else places.tobytes())
        return total.digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{len(part)} {split}" for split, part in self._parts[0].items())
        return f"{self.kind} data: {self.name}, utterances: {counts}; {len(self.units)} units"


def load(
    source: Source,
    place: Path | None = None,
    *,
    unit: Unit | None = None,
    most: int | None = None,
    unheard: str = "",
    mix: bool = False,
    leave_out: bool = False,
) -> Speech:
    """The speech of a source, for :func:`lnlab.data.load`.

    When a split is first used all recordings are looked at, and all that are faulty are named
    in one error.

    Args:
        place: a folder, or the .tar.gz of the authors, which is unpacked once into the data
            folder; LibriSpeech comes in several, to be unpacked into one folder. None: the
            source's own place in the data folder.
        unit: what is recognized, phones, letters or (of digits) words; None: the source's own.
        most: how many utterances to train on at most, the first; those of validation and test
            get fewer in proportion. None: all.
        unheard: a speaker of ``fsdd`` whom only the test has; the other sources have other
            speakers in their tests anyway.
        mix: whether recordings of several channels are mixed to one.
        leave_out: whether faulty recordings are left out. The name of the data says how many
            were mixed and left out.

    Raises:
        ValueError: for an unknown unit or speaker; later, for damaged files.
        FileNotFoundError: where the files are not; says how to get them.
    """
    units: Any = source.options["unit"].split(", ")
    if unit is not None and unit not in units:
        raise ValueError(f"{source.name} has no {unit}: choose from {', '.join(units)}.")
    if most is not None and most < 1:
        raise ValueError(f"most is {most}: give at least 1, or None for all.")
    said: Unit = units[0] if unit is None else unit
    options = f"{said} {most} {unheard!r} {mix} {leave_out}"
    if source is SPOKEN:
        if place is not None:
            raise ValueError(f"{source.name}={place}: it is synthesised here, give no path.")
        return _synthesised(most)
    place = place or data_folder() / source.name
    if not place.exists():
        raise FileNotFoundError(
            f"{source.name} is not in {place}: {GET[source.name]} ({source.citation}), and "
            f"name it or a folder of its files: {source.name}=PATH"
        )
    read = partial(_from_files, source, place, said, most, unheard, mix, leave_out)
    known = {"phones": PHONES, "letters": LETTERS, "words": DIGITS}
    return Speech(
        source,
        read,
        lambda: f"{options} {stamp(_files(place))} {code(*Path(__file__).parent.glob('*.py'))}",
        units=known[said],
        rate=8_000 if source is FSDD else 16_000,
        noted=mix or leave_out,
    )


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())


def _from_files(
    source: Source,
    place: Path,
    unit: Unit,
    most: int | None,
    unheard: str,
    mix: bool,
    leave_out: bool,
) -> tuple[Mapping[str, Sequence[Utterance]], str]:
    from lnlab.data import corpora, fsdd

    folder = unpacked(place, data_folder() / "unpacked") if place.is_file() else place
    faulty: Any = {"mix": mix, "leave_out": leave_out}
    if source is FSDD:
        said, note = fsdd.strings(folder, unit, unheard, **faulty)
        return first(said, most), note
    return corpora.heard(first(corpora.LISTS[source.name](folder), most), **faulty)


def _synthesised(most: int | None) -> Speech:
    from lnlab.data import formant, spoken

    return Speech(
        SPOKEN,
        lambda: (spoken.corpus(most), ""),
        lambda: f"{most} {spoken.made_of()} {code(*Path(__file__).parent.glob('*.py'))}",
        units=PHONES,
        rate=formant.RATE,
    )
