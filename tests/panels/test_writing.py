"""The writing panel: a text that is typed, the pen on its way, stages, hands to go on in."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lnlab.nn import Identity, LayerNorm
from lnlab.papers import handwriting
from lnlab.papers.handwriting import pen
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.model import HandwritingNet, LineBatch
from lnlab.papers.handwriting.panel import (
    SHIPPED,
    Hands,
    WritingState,
    of_runs,
    pack,
    shipped,
)
from lnlab.papers.handwriting.panel import writing as writing_panel
from lnlab.papers.handwriting.pen import Line
from lnlab.training import train
from lnlab.training.random_state import default_dtype

SMOKE = handwriting.Experiment.budget("smoke", seeds=(0,))
NORMS = ("none", "layer")


def hands(*arms) -> Hands:
    """Nets of two stages that never learned."""
    made = {}
    for number, arm in enumerate(arms or ("none", "layer")):
        norm = (Identity, LayerNorm)[number % 2]
        with torch.random.fork_rng(devices=()), default_dtype(torch.float32):
            torch.manual_seed(number)
            made[arm] = {
                stage: HandwritingNet(Alphabet(ALPHABETS["pen"]), 4, 2, 2, norm, pace=0.2)
                for stage in (0, 7)
            }
    return Hands(made, (np.zeros(2), np.ones(2)), 0.01, "by hand")


def line(text="a fox", writer="w") -> Line:
    offsets = np.random.default_rng(0).normal(0, 1, (20, 3)).astype(np.float32)
    offsets[:, 2] = 0
    return Line("l", writer, text, offsets)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(pen, "SIZES", {"train": 32, "valid": 6, "test": 6})


def test_the_pen_has_come_as_far_as_is_said():
    panel = writing_panel(hands(), text="fox")
    plot = panel.plots["writing"]
    for part in (0, 50, 100):
        panel.controls["pen"].value = part
        for slot in range(2):
            ink, rest, now, pen = (
                plot.current(f"{kind} {slot}") for kind in ("ink", "rest", "now", "pen")
            )
            count = plot.current(f"window {slot}")["z"].shape[1]
            written = round(part / 100 * count)
            assert np.isfinite(ink["x"]).sum() == written + 1
            assert now["x"][0] == written
            assert pen["x"][0] == ink["x"][-1]
            assert np.isfinite(rest["x"]).sum() == count + 1


def test_what_is_typed_is_written_or_refused_by_name():
    panel = writing_panel(hands())
    panel.controls["text"].value = "fox"
    assert "“fox”" in panel.bar.sentence
    panel.controls["text"].value = "Fox 7"
    assert "has 'F', '7', which this net never learned" in panel.bar.error
    panel.controls["text"].value = "box"
    assert panel.bar.error == ""
    panel.controls["text"].value = "x" * 41
    assert "give 1 to 40 characters" in panel.bar.error


def test_each_stage_has_its_net_and_each_hand_its_line():
    panel = writing_panel(hands(), [line()], text="fox")
    phis = set()
    for update in (0, 7):
        for like in (-1, 0):
            panel.state = WritingState("fox", update=update, like=like)
            phi = panel.plots["writing"].current("window 1")["z"]
            assert phi.shape[0] == 3
            phis.add(phi.tobytes())
    assert len(phis) == 4


def test_nets_without_a_common_stage_are_refused():
    apart = hands()
    alone = {"none": {1: apart.nets["none"][0]}, "layer": {2: apart.nets["layer"][7]}}
    with pytest.raises(ValueError, match="2 arms with 0 common stages"):
        writing_panel(Hands(alone, apart.scale, 0.0, ""))


# --- nets that come with lnlab ---------------------------------------------------------------


def test_nets_are_packed_and_write_the_same_again(tmp_path, few):
    """But for the rounding of their weights to float16."""
    torch.set_default_dtype(torch.float32)
    runs = [train(replace(SMOKE, norm=norm), norm, root=tmp_path) for norm in NORMS]
    hands = of_runs(runs)
    pack(runs, tmp_path / "hands.safetensors")
    again = shipped(tmp_path / "hands.safetensors")
    assert again.stages == hands.stages == (2,)
    assert again.floor == SMOKE.std_floor
    assert "lnlab train handwriting --budget notebook --set norm=none" in again.made
    np.testing.assert_array_equal(again.scale[1], hands.scale[1])
    x = LineBatch(torch.randn(1, 9, 3), torch.tensor([[3, 4, 1]]))
    for arm in NORMS:
        one, other = hands.nets[arm][2], again.nets[arm][2]
        with torch.no_grad():
            torch.testing.assert_close(one(x), other(x), rtol=0.02, atol=0.02)  # float16


def test_runs_of_other_lines_are_not_packed_together(tmp_path, few):
    torch.set_default_dtype(torch.float32)
    runs = [train(replace(SMOKE, max_lines=n), f"{n}", root=tmp_path) for n in (16, 32)]
    with pytest.raises(ValueError, match="2 data sets and have 1 floors"):
        of_runs(runs)


def test_the_nets_that_come_with_lnlab_need_no_data(monkeypatch):
    monkeypatch.setattr("lnlab.papers.handwriting.experiment.load", None)
    hands = shipped()
    assert set(hands.nets) == set(NORMS)
    assert SHIPPED.stat().st_size < 1_000_000
    assert hands.made.count("lnlab train handwriting") == 2 * len(hands.stages)
    for arm in NORMS:
        weights = hands.nets[arm][hands.stages[-1]].parameters()
        assert all(p.dtype == torch.float32 and p.isfinite().all() for p in weights)
        assert len(hands.write(arm, hands.stages[-1], "ox", bias=1.0).phi) > 4
