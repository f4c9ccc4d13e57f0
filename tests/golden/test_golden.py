"""What lnlab computes is what it computed when ``tests/golden`` was written.

Where a change of behaviour is meant, ``python tests/golden/write.py --update ENTRY`` replaces
the entries concerned.
"""

import subprocess
import sys

import pytest

from tests.golden import write


@pytest.mark.slow
@pytest.mark.parametrize("part", write.PARTS)
def test_it_computes_what_it_did(part, tmp_path):
    command = [sys.executable, write.__file__, "--out", tmp_path, "--only", part]
    subprocess.run(command, check=True)
    differences = write.compared(part, write.read(part), write.read(part, tmp_path))
    wrong = [str(one) for one in differences if one.excess > 1]
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
