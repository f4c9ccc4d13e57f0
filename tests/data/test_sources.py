"""What every source promises: the same cases whatever the process has set or done before."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lnlab.papers.attentive_reader.data
import lnlab.papers.batch_layer_norm.data
import lnlab.papers.las.data
import lnlab.papers.order_embeddings.data
import lnlab.papers.skip_thoughts.data
from lnlab import data
from lnlab.data import images, shapes
from lnlab.papers.handwriting import pen
from lnlab.papers.las import synthesizer
from tests.data import layouts
from tests.data.test_images import write_idx

SMALL = {"train": 6, "valid": 2, "test": 3}
SPEECH = ("spoken", "fsdd", "timit", "librispeech")
IMAGES = ("digits", "idx", "shapes", "cifar10", "digits-binary")
TEXT = ("tales", "txt")
CAPTIONS = ("scenes", "coco", "coco-boxes")
QUESTIONS = ("cloze", "cnn", "cbt")
REVIEWS = ("opinions", "imdb")
TASKS = ("story-tasks", "sentence-tasks")
BOOKS = ("stories", "bookcorpus", "gutenberg", "cbt-books", "novels")
STROKES = ("pen", "unipen", "iam")
WHAT = {
    **dict.fromkeys(SPEECH, "speech"),
    **dict.fromkeys(IMAGES, "images"),
    **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(CAPTIONS, "captions"),
    **dict.fromkeys(QUESTIONS, "questions"),
    **dict.fromkeys(REVIEWS, "reviews"),
    **dict.fromkeys(BOOKS, "books"),
    **dict.fromkeys(TASKS, "tasks"),
    **dict.fromkeys(STROKES, "strokes"),
}


MADE = (
    "spoken",
    "digits",
    "digits-binary",
    "shapes",
    "tales",
    "scenes",
    "cloze",
    "opinions",
    "stories",
    "story-tasks",
    "pen",
)


def written(name: str, folder: Path) -> str:
    """The spec of a source, its files written into the folder if it has any."""
    if name in MADE:
        return name
    if name == "txt":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "own.txt").write_text("als ich ein kind war, ähnlich klein. " * 100, "utf-8")
        return f"txt={folder / 'own.txt'}"
    if name == "idx":
        return f"idx={write_idx(folder)}"
    return f"{name}={getattr(layouts, name.replace('-', '_'))(folder)}"


def small() -> None:
    """Have the corpora that are made here small, in this process."""
    lnlab.papers.las.data.STRINGS = synthesizer.SIZES = (
        lnlab.papers.order_embeddings.data.SCENE_SIZES
    ) = shapes.SIZES = lnlab.papers.attentive_reader.data.CLOZE_SIZES = SMALL
    lnlab.papers.batch_layer_norm.data.SIZES = pen.SIZES = SMALL
    lnlab.papers.skip_thoughts.data.COUNT = 6
    lnlab.papers.order_embeddings.data.HELD_OUT = 2
    images.BATCH, images.VALID = layouts.CIFAR_BATCH, 20
    lnlab.papers.attentive_reader.data.COMMON = 4


def fingerprint(spec: str, what: str, *, backwards: bool = False) -> list[str]:
    """The checksum of a data set, and a hash of its cases, read in another order."""
    found = data.load(spec, what)
    cases = {}
    if what == "books":
        return [found.checksum, hashlib.sha256(repr(found.books).encode()).hexdigest()]
    if what == "tasks":
        return [found.checksum, *(task.checksum for task in found.values())]
    for split in ("test", "train") if backwards else ("train", "test"):
        part = getattr(found, split)
        if what in ("images", "text", "reviews"):
            cases[split] = part.x.numpy().tobytes() + part.y.numpy().tobytes()
            continue
        if what == "questions":
            asked = reversed([*part]) if backwards else part
            cases |= {q.name: repr(q).encode() for q in asked}
            continue
        if what == "strokes":
            lines = reversed([*part]) if backwards else part
            cases |= {line.name: line.text.encode() + line.offsets.tobytes() for line in lines}
            continue
        if what == "captions":
            cases[split] = part.features.tobytes() + "\n".join(part.captions).encode()
            continue
        for said in reversed(part) if backwards else part:
            sound = said.sound.tobytes()
            units = " ".join(said.units).encode()
            cases[said.name] = said.features.numpy().tobytes() + sound + units
    total = hashlib.sha256()
    for name in sorted(cases):
        total.update(cases[name])
    return [found.checksum, total.hexdigest()]


@pytest.fixture(autouse=True)
def made_small(monkeypatch):
    monkeypatch.setattr(lnlab.papers.las.data, "STRINGS", SMALL)
    monkeypatch.setattr(synthesizer, "SIZES", SMALL)
    monkeypatch.setattr(lnlab.papers.order_embeddings.data, "SCENE_SIZES", SMALL)
    monkeypatch.setattr(lnlab.papers.order_embeddings.data, "HELD_OUT", 2)
    monkeypatch.setattr(shapes, "SIZES", SMALL)
    monkeypatch.setattr(lnlab.papers.batch_layer_norm.data, "SIZES", SMALL)
    monkeypatch.setattr(lnlab.papers.skip_thoughts.data, "COUNT", 6)
    monkeypatch.setattr(pen, "SIZES", SMALL)
    monkeypatch.setattr(images, "BATCH", layouts.CIFAR_BATCH)
    monkeypatch.setattr(images, "VALID", 20)
    monkeypatch.setattr(lnlab.papers.attentive_reader.data, "CLOZE_SIZES", SMALL)
    monkeypatch.setattr(lnlab.papers.attentive_reader.data, "COMMON", 4)


@pytest.mark.parametrize("name", [*WHAT])
def test_cases_depend_on_no_setting_and_on_no_order(name, tmp_path, monkeypatch):
    what = WHAT[name]
    spec = written(name, tmp_path / "files")
    found = set()
    for number, dtype in enumerate((torch.float64, torch.float32, torch.float16)):
        shapes._block.cache_clear()
        torch.set_default_dtype(dtype)
        torch.set_num_threads(1 + number % 2)
        torch.rand(number)
        monkeypatch.setenv("LNLAB_DATA", str(tmp_path / f"kept {number}"))
        found.add(tuple(fingerprint(spec, what, backwards=bool(number % 2))))
        found.add(tuple(fingerprint(spec, what)))  # from what is kept
    assert len(found) == 1


FRESH = """
import json, sys
from tests.data.test_sources import fingerprint, small
small()
specs = json.load(sys.stdin)
print(json.dumps([fingerprint(*each, backwards=True) for each in specs]))
"""


@pytest.mark.dear
def test_a_fresh_process_has_the_same_cases(tmp_path, monkeypatch):
    """One with two threads; and this one again, from what the other has kept."""
    specs = [(written(name, tmp_path / name), what) for name, what in WHAT.items()]
    here = [fingerprint(*each) for each in specs]
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "kept"))
    done = subprocess.run(
        [sys.executable, "-c", FRESH],
        input=json.dumps(specs),
        env=os.environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == here
    assert [fingerprint(*each) for each in specs] == here


@pytest.mark.parametrize("name", [*WHAT])
def test_what_a_data_set_is_costs_no_reading_twice(name, tmp_path, monkeypatch):
    what = WHAT[name]
    spec = written(name, tmp_path)
    first = data.load(spec, what)
    known = first.name, first.kind, first.licence, first.checksum, first.checksum_of
    again = data.load(spec, what)

    def reads() -> None:
        raise AssertionError("it reads its cases")

    monkeypatch.setattr(again, "_read", reads)
    assert (again.name, again.kind, again.licence, again.checksum, "source") == known


def test_every_source_says_what_it_is_and_is_found_by_its_name():
    names = [source.name for source in data.sources()]
    assert len({*names}) == len(names)
    for source in data.sources():
        assert source in data.module_of(source.offers).SOURCES
        assert source.title
        assert source.licence
        assert source.kind in ("official", "embedded", "synthetic", "own")
        assert all(len(file.sha256) == 64 for file in source.files)
        archives = [file.name.endswith(".tar.gz") for file in source.files]
        assert [not file.content_sha256 for file in source.files] == archives
        assert bool(source.urls) == bool(source.files)
    assert data.load("tales").source.offers == "text"
    assert data.load("embedded", "strokes").source.name == "pen"


@pytest.mark.parametrize(
    ("spec", "what", "options", "message"),
    [
        ("embedded", "music", {}, "what is 'music': choose from images, speech, text"),
        ("cifar", None, {}, "unknown data 'cifar': choose from embedded, digits, mnist, idx"),
        ("mnist", "speech", {}, "unknown data 'mnist': choose from embedded, spoken"),
        ("", None, {}, "write embedded, NAME or NAME=PATH"),
        ("mnist=", None, {}, "write embedded, NAME or NAME=PATH"),
        ("=/tmp", None, {}, "write embedded, NAME or NAME=PATH"),
        ("idx", None, {}, "idx=PATH"),
        ("digits=/tmp", None, {}, "digits=/tmp: digits is embedded, give no path"),
        ("scenes=.", None, {}, "scenes is synthetic, give no path"),
        ("embedded", None, {"classes": 10}, "digits has no option classes: it has none"),
        ("spoken", None, {"mix": True}, "spoken has no option mix: it has unit, most"),
        ("coco", None, {"split": 1}, "coco has no option split: it has none"),
        ("coco-boxes=.", None, {"split": -1}, "split is -1: which pictures train"),
        ("embedded", "speech", {"most": 0}, "most is 0: give at least 1"),
    ],
)
def test_a_spec_that_names_nothing_is_refused(spec, what, options, message):
    with pytest.raises(ValueError, match=message):
        data.load(spec, what, **options)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "shakespeare", "imdb"])
def test_what_is_not_there_says_how_to_get_it(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    message = f"{name} is not in .*lnlab data fetch {name}.*{name}=PATH"
    with pytest.raises(FileNotFoundError, match=message):
        data.load(name)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        data.load(f"{name}={tmp_path / 'nowhere'}")
