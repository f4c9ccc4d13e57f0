"""What every source promises: the same examples whatever the process has set or done before."""

import hashlib
from pathlib import Path

import numpy as np
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

TO_FETCH = ("mnist", "mnist-binary", "shakespeare")
"""Sources whose official files are the only ones."""
NAMES = [source.name for source in data.sources() if source.name not in TO_FETCH]
SIZES = {"train": 6, "valid": 2, "test": 3}
SMALL = [
    (lnlab.papers.attentive_reader.data, "CLOZE_SIZES", SIZES),
    (lnlab.papers.attentive_reader.data, "COMMON", 4),
    (lnlab.papers.batch_layer_norm.data, "SIZES", SIZES),
    (lnlab.papers.las.data, "STRINGS", SIZES),
    (lnlab.papers.order_embeddings.data, "SCENE_SIZES", SIZES),
    (lnlab.papers.order_embeddings.data, "HELD_OUT", 2),
    (lnlab.papers.skip_thoughts.data, "COUNT", 6),
    (images, "BATCH", layouts.CIFAR_BATCH),
    (images, "VALID", 20),
    (pen, "SIZES", SIZES),
    (shapes, "SIZES", SIZES),
    (synthesizer, "SIZES", SIZES),
]
"""What makes the corpora that are made here small."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)


def write_files(name: str, folder: Path) -> str:
    """Write the files of a source, if it has any, and return its spec."""
    (source,) = (source for source in data.sources() if source.name == name)
    if source.kind in ("embedded", "synthetic"):
        return name
    if name == "txt":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "own.txt").write_text("als ich ein kind war, ähnlich klein. " * 100, "utf-8")
        return f"txt={folder / 'own.txt'}"
    if name == "idx":
        return f"idx={write_idx(folder)}"
    return f"{name}={getattr(layouts, name.replace('-', '_'))(folder)}"


def examples(part, *, backwards: bool):
    """Names and bytes of all that the examples of a split are."""
    if hasattr(part, "x"):
        yield "", part.x.numpy().tobytes() + part.y.numpy().tobytes()
    elif hasattr(part, "captions_in_image_order"):
        yield "", part.features.tobytes() + "\n".join(part.captions_in_image_order).encode()
    else:
        for one in reversed([*part]) if backwards else part:
            values = [getattr(one, name, None) for name in ("offsets", "features", "sound")]
            arrays = b"".join(np.asarray(v).tobytes() for v in values if v is not None)
            text = one.text if hasattr(one, "text") else getattr(one, "units", None) or one
            yield one.name, f"{text!r}".encode() + arrays


def fingerprint(spec: str, *, backwards: bool = False) -> list[str]:
    """The checksum of a data set, and a hash of its examples, read in another order."""
    dataset = data.load(spec)
    if dataset.source.offers == "books":
        return [
            dataset.checksum,
            hashlib.sha256(repr(dataset.sentences_per_book).encode()).hexdigest(),
        ]
    if dataset.source.offers == "tasks":
        return [dataset.checksum, *(task.checksum for task in dataset.values())]
    rows = [
        (split, *example)
        for split in (("test", "train") if backwards else ("train", "test"))
        for example in examples(getattr(dataset, split), backwards=backwards)
    ]
    return [dataset.checksum, hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()]


@pytest.mark.parametrize("name", NAMES)
def test_examples_depend_on_no_setting_and_their_checksum_is_known(name, tmp_path, monkeypatch):
    spec = write_files(name, tmp_path / "files")
    fingerprints = set()
    for number, dtype in enumerate((torch.float64, torch.float16)):
        torch.set_default_dtype(dtype)
        torch.set_num_threads(1 + number)
        torch.rand(number)
        monkeypatch.setenv("LNLAB_DATA", str(tmp_path / f"data {number}"))
        fingerprints.add(tuple(fingerprint(spec, backwards=bool(number))))
        fingerprints.add(tuple(fingerprint(spec)))  # from the cache
    assert len(fingerprints) == 1
    first, again = data.load(spec), data.load(spec)
    known = first.name, first.kind, first.licence, first.checksum
    monkeypatch.setattr(again, "_read", lambda: pytest.fail("it reads its examples"))
    assert (again.name, again.kind, again.licence, again.checksum) == known


def test_every_source_says_what_it_is_and_is_found_by_its_name():
    names = [source.name for source in data.sources()]
    assert len({*names}) == len(names)
    for source in data.sources():
        assert source.title
        assert source.licence
        assert source.kind in ("official", "embedded", "synthetic", "own")
        assert all(len(file.sha256) == 64 for file in source.files)
        archives = [file.name.endswith(".tar.gz") for file in source.files]
        assert [not file.content_sha256 for file in source.files] == archives
        assert bool(source.mirror_folder_urls) == bool(source.files)
    assert data.load("tales").source.offers == "text"
    assert data.load("embedded", "strokes").source.name == "pen"


@pytest.mark.parametrize(
    ("spec", "what", "options", "message"),
    [
        ("embedded", "music", {}, "what is 'music': choose from images, speech, text"),
        ("cifar", None, {}, "unknown data 'cifar': choose from embedded, digits, mnist, idx"),
        ("mnist", "text", {}, "'mnist' is data of images, not of text: choose from embedded"),
        ("mnist=", None, {}, "write embedded, NAME or NAME=PATH"),
        ("idx", None, {}, "idx=PATH"),
        ("digits=/tmp", None, {}, "digits=/tmp: digits is embedded, give no path"),
        ("embedded", None, {"grey": True}, "digits has no option grey: it has max_train"),
        ("coco-boxes=.", None, {"split": -1}, "split is -1: which pictures train"),
    ],
)
def test_a_spec_that_names_nothing_is_refused(spec, what, options, message):
    with pytest.raises(ValueError, match=message):
        data.load(spec, what, **options)


@pytest.mark.parametrize("name", ["mnist", "imdb"])
def test_missing_files_say_how_to_get_them(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    message = f"{name} is not in .*lnlab data fetch {name}.*{name}=PATH"
    with pytest.raises(FileNotFoundError, match=message):
        data.load(name)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        data.load(f"{name}={tmp_path / 'nowhere'}")
