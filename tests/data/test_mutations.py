"""Files of sound and of text with any bytes changed: an error that names them, or data."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

import lnlab.papers.order_embeddings.data
from lnlab import data
from lnlab.papers.las import recordings
from tests.data import layouts

RATE = 16_000
TONE = 0.3 * np.sin(np.arange(RATE // 4) / 6)
PHONES = "0 800 h#\n800 2000 sh\n2000 3000 ix\n3000 4000 h#\n"


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Bytes changed, cut out, put in or torn off; in the head as often as elsewhere."""
    place = chance.randrange(min(64, len(content)) if chance.random() < 0.5 else len(content))
    length = chance.randrange(1, 9)
    kind = chance.randrange(4)
    if kind == 0:
        return content[:place]
    put_in = chance.randbytes(length) if kind != 1 else b""
    return content[:place] + put_in + content[place + (length if kind != 2 else 0) :]


def waves(folder: Path, suffix: str) -> Path:
    path = folder / f"sound{suffix}"
    soundfile.write(path, TONE, RATE, format="NIST" if suffix == ".sph" else None)
    return path


def librispeech(folder: Path) -> Path:
    path = folder / "LibriSpeech" / "train-clean-100" / "103" / "7" / "103-7.trans.txt"
    path.parent.mkdir(parents=True)
    path.write_text("103-7-0000 HE'D WAIT\n103-7-0001 NO LONGER\n")
    for number in range(2):
        soundfile.write(path.parent / f"103-7-000{number}.flac", TONE, RATE)
    return path


def timit(folder: Path) -> Path:
    for part, speaker in (("TRAIN", "FCJF0"), ("TEST", "MDAB0")):
        path = folder / part / "DR1" / speaker / "SX127.PHN"
        path.parent.mkdir(parents=True)
        path.write_text(PHONES)
        soundfile.write(path.with_suffix(".WAV"), TONE, RATE)
    return path


def sound(path: Path) -> bool:
    found = recordings.mixed(path, RATE)[0]
    return found.ndim == 1 and bool(np.isfinite(found).all()) and found.dtype == np.float32


def spoken(name: str, above: int) -> Callable[[Path], bool]:
    def read(path: Path) -> bool:
        found = data.load(f"{name}={path.parents[above]}", "speech")
        return all(set(u.units) <= set(found.units) for u in (*found.train, *found.test))

    return read


def pictured(layout: Callable[[Path], Path], name: str) -> Callable[[Path], Path]:
    return lambda folder: layout(folder / "data") / name


def captions(source: str, above: int) -> Callable[[Path], bool]:
    def read(path: Path) -> bool:
        found = data.load(f"{source}={path.parents[above]}", "captions")
        parts = (found.train, found.valid, found.test)
        return all(len(part.captions) == 5 * len(part) for part in parts if part)

    return read


def asked(source: str, above: int) -> Callable[[Path], bool]:
    def read(path: Path) -> bool:
        found = data.load(f"{source}={path.parents[above]}", "questions")
        parts = (found.train, found.valid, found.test)
        return all(q.answer in q.candidates for part in parts for q in part or ())

    return read


def drawn(source: str, above: int) -> Callable[[Path], bool]:
    def read(path: Path) -> bool:
        found = data.load(f"{source}={path.parents[above]}", "strokes")
        lines = [line for part in (found.train, found.valid, found.test) for line in part or ()]
        return all(line.text and np.isfinite(line.offsets).all() for line in lines)

    return read


def related(path: Path) -> bool:
    judge = data.load(f"sentence-tasks={path.parents[1]}", "judges", only="SICK")["SICK"]
    return bool((abs(judge.targets - 3) <= 2).all() and len(judge.others) == len(judge))


FORMATS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], bool]]] = {
    "wav": (lambda folder: waves(folder, ".wav"), sound),
    "flac": (lambda folder: waves(folder, ".flac"), sound),
    "sph": (lambda folder: waves(folder, ".sph"), sound),
    "trans.txt": (librispeech, spoken("librispeech", 3)),
    "phn": (timit, spoken("timit", 3)),
    "txt": (pictured(layouts.coco, "train.txt"), captions("coco", 0)),
    "npy": (pictured(layouts.coco, "images/10crop/test.npy"), captions("coco", 2)),
    "json": (
        pictured(layouts.coco_boxes, "annotations/captions_val2017.json"),
        captions("coco-boxes", 1),
    ),
    "boxes": (
        pictured(layouts.coco_boxes, "boxes/coco_val2017.txt"),
        captions("coco-boxes", 1),
    ),
    "pen": (
        pictured(layouts.unipen, "train_r01_v07/include/apa/data/apa00/app0000.dat"),
        drawn("unipen", 5),
    ),
    "segment": (
        pictured(layouts.unipen, "train_r01_v07/data/8/apa/apa00/app0000.dat"),
        drawn("unipen", 5),
    ),
    "xml": (
        pictured(layouts.iam, "lineStrokes/a01/a01-000/a01-000u-01.xml"),
        drawn("iam", 3),
    ),
    "question": (
        pictured(layouts.cnn, f"questions/training/{4:040x}.question"),
        asked("cnn", 2),
    ),
    "sick": (pictured(layouts.sentence_tasks, "sick/SICK_train.txt"), related),
}


def complaint_of(read: Callable[[Path], bool], path: Path) -> str:
    """Empty if it can be read; anything but an error of value or place is a crash."""
    try:
        assert read(path)
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    return ""


@pytest.mark.stress
@pytest.mark.parametrize("name", FORMATS)
def test_no_mutation_crashes_or_hangs(name, full, tmp_path, monkeypatch):
    """What can be read afterwards has the right kind: no hash is known of these."""
    monkeypatch.setattr(lnlab.papers.order_embeddings.data, "HELD_OUT", 2)
    make, read = FORMATS[name]
    path, chance = make(tmp_path), random.Random(name)
    whole = path.read_bytes()
    assert read(path)
    refused, tries = 0, 2000 if full else 60
    for _ in range(tries):
        path.write_bytes(mutated(whole, chance))
        began = time.process_time()
        complaint = complaint_of(read, path)
        assert not complaint or str(tmp_path) in complaint or "has no utterances" in complaint
        refused += bool(complaint)
        assert time.process_time() - began < 2
    assert refused > tries / 10
