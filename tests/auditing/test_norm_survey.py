"""A survey of a package names what each of its normalizers computes, or why it cannot."""

import sys
from importlib import metadata

import pytest

from lnlab.auditing.norm_survey import read_stored_norm_survey, survey_norms

SOURCE = """
import torch
from torch import nn

class OnePlusRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(hidden_size)), eps

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * (1 + self.weight.float())).type_as(x)

class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)

class UnbiasedNorm(nn.LayerNorm):
    def forward(self, x):
        var = x.var(-1, keepdim=True)
        y = (x - x.mean(-1, keepdim=True)) / torch.sqrt(var + self.eps)
        return self.weight * y + self.bias

class FrozenNorm(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.register_buffer("scale", torch.full((num_features,), 2.0))

    def forward(self, x):
        return x * self.scale

class GatedNorm(nn.RMSNorm):
    def forward(self, x, gate):
        return super().forward(x) * torch.sigmoid(gate)

class NormOfActivation(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.act, self.eps = nn.SiLU(), eps

    def forward(self, x):
        return self.act(x) * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)

class EmptyNorm(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x):
        ms = x.float().square().mean(-1, keepdim=True)
        return x * torch.rsqrt(ms + 1e-6).to(x.dtype) * self.weight

class ConvNorm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))

class NormOfStyle(nn.Module):
    def __init__(self, style):
        super().__init__()
"""


@pytest.fixture
def survey(tmp_path, monkeypatch):
    package = tmp_path / "package_of_norms"
    package.mkdir()
    (package / "__init__.py").write_text(SOURCE)
    (package / "broken.py").write_text("raise KeyError('no GPU')")
    monkeypatch.syspath_prepend(tmp_path)
    yield survey_norms("package_of_norms")
    for name in [name for name in sys.modules if name.startswith("package_of_norms")]:
        del sys.modules[name]


def test_each_class_is_named_by_what_it_computes(survey):
    rows = {row.name.rpartition(".")[2]: row for row in survey.classes}
    gemma = rows["OnePlusRMSNorm"]
    assert (gemma.computes, gemma.gain, gemma.transfers) == ("RMSNorm", "1 + w", "gain + 1")
    assert gemma.float32
    assert gemma.bfloat16_error < 0.005
    assert gemma.eps == "1e-06 in the root"
    image = rows["LayerNorm2d"]
    assert (image.computes, image.gain, image.transfers) == ("LayerNorm", "w", "yes")
    assert not image.float32
    assert image.input == "(8, 64, 6, 6)"
    assert rows["UnbiasedNorm"].computes == "LayerNorm; variance: 1/(N-1), unbiased"
    assert rows["UnbiasedNorm"].transfers == "no"
    assert rows["FrozenNorm"].computes.startswith("an affine map of each value")
    assert rows["NormOfActivation"].computes == "RMSNorm, with SiLU inside"
    assert rows["EmptyNorm"].float32
    assert rows["EmptyNorm"].bfloat16_error > 0
    assert rows["GatedNorm"].computes == "RMSNorm, with a gate"
    assert rows["ConvNorm"].status == "not a normalizer"
    assert rows["NormOfStyle"].status == "not built"
    assert "'style'" in rows["NormOfStyle"].computes
    assert survey.import_errors == ("package_of_norms.broken: KeyError: 'no GPU'",)


def test_the_table_prints_and_saves(survey, tmp_path):
    assert "OnePlusRMSNorm" in str(survey)
    assert len(survey.to_frame()) == len(survey.classes) == 9
    assert survey.save(tmp_path / "norms.csv").read_text().count("package_of_norms.") == 9


def test_a_part_of_a_package_is_a_package():
    survey = survey_norms("torch.nn.modules.instancenorm")
    rows = {row.name.rpartition(".")[2]: row.computes for row in survey.classes}
    assert survey.version == metadata.version("torch")
    assert rows["InstanceNorm2d"] == "InstanceNorm"  # of a batch, which it does not warn of


@pytest.mark.parametrize(
    ("package", "words"),
    [("no_such_package", "cannot be imported"), ("email", "defines no torch module")],
)
def test_a_package_without_norms_is_refused(package, words):
    with pytest.raises(ValueError, match=words):
        survey_norms(package)


def test_kept_table_agrees_with_the_sources():
    """Each of these classes was read by hand."""
    rows = {row["name"].rpartition(".")[2]: row for row in read_stored_norm_survey()}
    known = {
        "LlamaRMSNorm": ("RMSNorm", "w", "True"),
        "T5LayerNorm": ("RMSNorm", "w", "True"),
        "ImageGPTLayerNorm": ("RMSNorm", "w", "False"),
        "RmsNormAct2d": ("RMSNorm, then ReLU", "w", "False"),
        "GemmaRMSNorm": ("RMSNorm", "1 + w", "True"),
        "FalconMambaWeightlessRMSNorm": ("RMSNorm", "none", "True"),
        "BailingHybridRMSNormGated": ("RMSNorm, with a gate", "w", "True"),
        "SimpleRMSNorm": ("RMSNorm; eps: sigma at least 1.2e-13", "none", "False"),
        "DoryL2Norm": (
            "RMSNorm; mean square: the sum: outputs 1/sqrt(N) as large",
            "none",
            "True",
        ),
        "PocketTTSTimestepNorm": (
            "LayerNorm; mean: kept, but not in the variance; variance: 1/(N-1), unbiased",
            "w",
            "False",
        ),
        "CohereLayerNorm": ("LayerNorm", "w", "True"),
        "LayerNorm2dFp32": ("LayerNorm", "w", "True"),
        "NemotronLayerNorm1P": ("LayerNorm", "1 + w", "False"),
        "OlmoLayerNorm": ("LayerNorm or InstanceNorm", "none", "True"),
        "PoolFormerGroupNorm": ("GroupNorm(1)", "w", "False"),
        "GroupNorm": ("GroupNorm(32)", "w", "False"),
        "ConditionalDetrFrozenBatchNorm2d": (
            "an affine map of each value, without statistics of its input",
            "",
            "False",
        ),
        "EvoNorm2dS1": (
            "GroupNorm(16); mean: kept, but not in the variance, with SiLU inside",
            "w",
            "True",
        ),
    }
    for name, row in known.items():
        assert (rows[name]["computes"], rows[name]["gain"], rows[name]["float32"]) == row, name
    norms = [row for row in rows.values() if row["status"] != "not a normalizer"]
    judged = [row for row in norms if row["status"] in ("identified", "another form")]
    assert len(judged) >= 0.95 * len(norms)
