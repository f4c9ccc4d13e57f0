"""MNIST, and images of one's own in its format: four IDX files, each checked, and together."""

from collections.abc import Mapping
from pathlib import Path

from lnlab.data import idx
from lnlab.data.pixels import Pixels
from lnlab.data.source import File, Source

MNIST = Source(
    name="mnist",
    title="MNIST handwritten digits, 28 x 28",
    kind="official",
    licence="copyright Y. LeCun and C. Cortes; CC BY-SA 3.0 according to Keras",
    citation="LeCun, Bottou, Bengio and Haffner (1998), http://yann.lecun.com/exdb/mnist/",
    offers="images",
    # Mirrors first: the official server has answered 403 or 503 for years.
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    files=(
        File(
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        File(
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        File(
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        File(
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
    checksum="edcbea302fcfe28ca238bea820bb3693439ceda34468873ee14ed12129f43368",
)

IDX = Source(
    name="idx",
    title="your own images: four IDX files, named as those of MNIST",
    kind="own",
    licence="yours to know",
    citation="",
    offers="images",
    options={"classes": "how many there are, where some have no training image"},
)

MNIST_TRAIN = 55_000
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Images and labels, as MNIST's files are called."""


def files(folder: Path, source: Source) -> dict[str, Path]:
    """The four files by name, each gzipped or unpacked.

    Raises:
        FileNotFoundError: where one is not; names it.
    """
    return {name: _found(folder, name, source) for pair in FILES.values() for name in pair}


def read(folder: Path, paths: Mapping[str, Path], source: Source) -> tuple[Pixels, str]:
    """Four IDX files, each checked, and against one another; MNIST's with its validation.

    Returns:
        What they hold, and an empty note.

    Raises:
        ValueError: if one is damaged, does not fit another, or is no official one of MNIST.
    """
    hashes = {file.name: file.content_sha256 for file in source.files}
    pixels = {}
    for split, (images, labels) in FILES.items():
        x = idx.read(paths[images], 3, hashes.get(f"{images}.gz", ""))
        y = idx.read(paths[labels], 1, hashes.get(f"{labels}.gz", ""))
        if len(x) != len(y):
            raise ValueError(
                f"{folder}: {len(x):,} images in {images}, {len(y):,} labels in {labels}, "
                "expected as many"
            )
        pixels[split] = x, y
    train, test = pixels["train"][0].shape[1:], pixels["test"][0].shape[1:]
    if train != test:
        raise ValueError(f"{folder}: training images are {train}, test images {test}")
    if source is MNIST:
        x, y = pixels["train"]
        pixels["train"] = x[:MNIST_TRAIN], y[:MNIST_TRAIN]
        pixels["valid"] = x[MNIST_TRAIN:], y[MNIST_TRAIN:]
    return pixels, ""


def _found(folder: Path, name: str, source: Source) -> Path:
    for path in folder / f"{name}.gz", folder / name:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{source.name}: no {name}.gz and no {name} in {folder}")
