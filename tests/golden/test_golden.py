"""What lnlab computes is what it computed when ``tests/golden`` was written.

Where a change of behaviour is meant, ``python tests/golden/write.py --update ENTRY`` replaces
the entries concerned.
"""

import subprocess
import sys

import pytest

from tests.golden import write

HEAVY = ("variants", "runs", "notebooks")
"""Parts that take some 80 seconds of processor together; the others take 50."""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The folder of what a process of its own writes: each group of parts when first asked."""
    folder = tmp_path_factory.mktemp("golden")

    def written(part):
        if not (folder / f"{part}.json").exists():
            group = [one for one in write.PARTS if (one in HEAVY) == (part in HEAVY)]
            only = [word for one in group for word in ("--only", one)]
            subprocess.run([sys.executable, write.__file__, "--out", folder, *only], check=True)
        return write.read(part, folder)

    return written


@pytest.mark.slow
@pytest.mark.parametrize("part", write.PARTS)
def test_it_computes_what_it_did(part, fresh):
    found = write.compared(part, write.read(part), fresh(part))
    wrong = [str(one) for one in found if one.excess > 1]
    assert not wrong, "\n".join(wrong[:20])


ENTRY = {
    "words": "layer is smaller",
    "number": 0.25,
    "long": {
        "dtype": "float32", "finite": 400, "norm": 20.0, "samples": [1.0, -1.0, 0.0],
        "shape": [400], "sum": 3.0,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("after", "path"),
    [
        ({**ENTRY, "words": "layer is larger"}, "words"),
        ({**ENTRY, "number": 0.2501}, "number"),
        ({**ENTRY, "number": 0}, "number"),
        ({**ENTRY, "number": "nan"}, "number"),
        ({**ENTRY, "long": {**ENTRY["long"], "shape": [20, 20]}}, "shape"),
        ({**ENTRY, "long": {**ENTRY["long"], "samples": [1.0, -1.0, 3e-4]}}, "samples/2"),
        ({**ENTRY, "more": None}, "more"),
    ],
)
def test_a_difference_is_seen_and_where_it_is(after, path):
    (found,) = write.compared("experiments", {"one": ENTRY}, {"one": after})
    assert found.excess > 1
    assert path in found.path


def test_rounding_is_allowed_and_a_missing_entry_is_not():
    near = {**ENTRY, "number": 0.25 + 1e-6}
    near["long"] = {**ENTRY["long"], "samples": [1.0, -1.0, 1e-6], "sum": 3.001}
    (found,) = write.compared("experiments", {"one": ENTRY}, {"one": near})
    assert 0 < found.excess < 1
    (missing,) = write.compared("experiments", {"one": ENTRY}, {})
    assert missing.excess > 1
