"""The recipe for a normalizer in CONTRIBUTING.md, followed to the letter in a copy of lnlab."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

RULE = '''"""A normalizer that divides by the largest summed input of a case."""

from lnlab.nn.normalizer import AffineNormalizer, Stats


class LargestNorm(AffineNormalizer):
    """mu = 0, sigma = max_i abs(a_i), over the units of a case."""

    def stats(self, a, W=None, t=None):
        return Stats(mu=a.new_zeros(()), sigma=a.abs().amax(-1, keepdim=True))
'''
IMPORT = "from lnlab.nn.largest import LargestNorm\n"

FOLLOWED = """
from pathlib import Path

from lnlab import panels
from lnlab.nn.table1 import ROWS
from lnlab.analysis.normalized_layer import measure_table1
from lnlab.papers import mnist
from lnlab.training import train_steps

assert measure_table1({"largest": ROWS["largest"]}).to_frame().agrees.all()
panel = panels.invariance(normalizers=["largest"], eps=0.0)
assert "largest unchanged" in panel.bar.sentence, panel.bar.sentence
task = mnist.Experiment.budget("smoke", norm="largest", seeds=(0,))
for _ in train_steps(task, root=Path("runs")):
    pass
print("followed")
"""


def insert(path: Path, after: str, line: str) -> None:
    """Put a line behind the one that begins a dictionary, and the import in front of all."""
    text = path.read_text()
    assert len(re.findall(after, text, flags=re.M)) == 1, f"{path}: {after}"
    text = re.sub(after, lambda found: f"{found[0]}\n{line}", text, flags=re.M)
    first = re.search(r"(?m)^from ", text)
    assert first
    path.write_text(text[: first.start()] + IMPORT + text[first.start() :])


def test_a_normalizer_of_the_recipe_is_found_everywhere(tmp_path):
    recipe = (ROOT / "CONTRIBUTING.md").read_text()
    package = tmp_path / "lnlab"
    shutil.copytree(ROOT / "lnlab", package)
    (package / "nn/largest.py").write_text(RULE)
    insert(package / "nn/__init__.py", r"^NORMS\b.*\{$", '    "largest": LargestNorm,')
    insert(
        package / "nn/table1.py",
        r"^ROWS\b.*\{$",
        '    "largest": Row(LargestNorm, "YNNYNYNNNNYY", "divides by the largest of a case"),',
    )
    insert(
        package / "papers/mnist.py", r"^ARMS\b.*\{$", '    "largest": (LargestNorm, Identity),'
    )
    for place in ("`NORMS` (`nn/__init__.py`)", "`ROWS` (`nn/table1.py`)", "`ARMS`"):
        assert place in recipe, "the recipe names every place that is edited here"
    followed = subprocess.run(
        [sys.executable, "-c", FOLLOWED],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert followed.stdout.endswith("followed\n"), followed.stderr[-3000:]
