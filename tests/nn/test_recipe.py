"""The recipe for a normalizer in CONTRIBUTING.md, followed to the letter."""

from importlib.util import find_spec, module_from_spec
from pathlib import Path

import torch

from lnlab.analysis.normalized_layer import measure_table1
from lnlab.nn import NORMS, AffineNormalizer, Identity, MuSigma
from lnlab.nn.table1 import ROWS, TableRow
from lnlab.papers import mnist
from lnlab.training import train_steps


class LargestNorm(AffineNormalizer):
    """mu = 0, sigma = max_i abs(a_i), over the units of a case."""

    def stats(self, a, W=None, t=None):
        return MuSigma(mu=a.new_zeros(()), sigma=a.abs().amax(-1, keepdim=True))


def test_a_normalizer_of_the_recipe_is_found_everywhere(monkeypatch, tmp_path):
    recipe = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    for place in ("`NORMS` (`nn/__init__.py`)", "`ROWS` (`nn/table1.py`)", "`ARMS`"):
        assert place in recipe, "the recipe names every place that is edited here"
    row = TableRow(LargestNorm, "YNNYNYNNNNYY", "divides by the largest of a case")
    monkeypatch.setitem(NORMS, "largest", LargestNorm)
    monkeypatch.setitem(ROWS, "largest", row)
    # in the place of an arm, as the choices of a field are read with its class
    monkeypatch.setitem(mnist.ARMS, "layer", (LargestNorm, Identity))
    assert measure_table1({"largest": row}).to_frame().agrees.all()
    # a copy of the module, as another test may have imported it without the new row
    spec = find_spec("lnlab.panels.invariance_panel")
    invariance_panel = module_from_spec(spec)
    spec.loader.exec_module(invariance_panel)
    panel = invariance_panel.invariance(normalizers=["largest"], eps=0.0)
    assert "largest unchanged" in panel.footer.sentence, panel.footer.sentence
    torch.set_default_dtype(torch.float32)
    task = mnist.Experiment.budget("smoke", norm="layer", seeds=(0,))
    model = task.model(0, task.dataset())
    assert any(isinstance(module, LargestNorm) for module in model.modules())
    for _ in train_steps(task, root=tmp_path):
        pass
