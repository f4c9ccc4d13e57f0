"""Every result of an analysis is a table, a figure and a file, the same on a device."""

import pandas as pd
import plotly.graph_objects as go
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab
import lnlab.nn
from lnlab.analysis.feature_maps import map_statistics
from lnlab.analysis.internal_covariate_shift import covariate_shift
from lnlab.analysis.landscape import linear_interpolation
from lnlab.analysis.norm_gradients import gradient_norms
from lnlab.analysis.normalized_layer import measure_table1
from lnlab.analysis.objective import Objective
from lnlab.analysis.result import format_text_table
from lnlab.analysis.rnn_dynamics import measure_rms_per_time_step
from lnlab.analysis.rotation import scale_invariant_weights
from lnlab.nn.table1 import ROWS


def arguments(d, norm=nn.LayerNorm):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), norm(6), nn.ReLU(), nn.Linear(6, 3))
    return net.to(d), torch.randn(9, 4).to(d), (torch.arange(9) % 3).to(d), F.cross_entropy


def given(d, bn_stats=None, norm=nn.LayerNorm):
    return Objective(*arguments(d, norm), bn_stats=bn_stats)


def by_batch(d, bn_stats):
    return given(d, bn_stats, nn.BatchNorm1d)


def recorded(d, record):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6)).to(d), torch.randn(9, 4).to(d)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(model, optimizer, x) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return recorder


def turning(model, optimizer, x):
    invariant = scale_invariant_weights(model, x)
    return lnlab.record_rotation(model, optimizer, invariant)


def shifted(d):
    loss = given(d)
    return covariate_shift(loss, after=1.1 * loss.start)


def maps(d):
    torch.manual_seed(0)
    layer = lnlab.nn.Conv2d(2, 3, 3, lambda H: lnlab.nn.LayerNorm(H, space=2))
    net = nn.Sequential(layer, nn.ReLU()).to(d)
    return map_statistics(net, torch.randn(5, 2, 8, 8).to(d), layers=["0"])["0"]


def over_time(d):
    torch.manual_seed(0)
    return measure_rms_per_time_step(lnlab.nn.GRUCell(3, 4).to(d), torch.randn(6, 2, 3).to(d))


def line(d):
    loss = by_batch(d, "running")
    return linear_interpolation(loss, other=loss.start + 1, points=5)


ALSO = {"what": ["activations", "gradients"], "extra": ["drift", "rank", "cosine"]}
RESULTS = {
    "landscape": lambda d: lnlab.loss_landscape(by_batch(d, "recomputed"), points=3),
    "line": line,
    "smoothness": lambda d: lnlab.gradient_smoothness(by_batch(d, "batch")),
    "eigenvalues": lambda d: lnlab.extreme_eigenvalues(by_batch(d, "batch"), count=2),
    "trace": lambda d: lnlab.hessian_trace(given(d), draws=3),
    "spectrum": lambda d: lnlab.hessian_spectrum(by_batch(d, "running"), draws=2, steps=4),
    "fisher": lambda d: lnlab.fisher_information(*arguments(d)[:2]),
    "gradients": lambda d: gradient_norms(given(d)),
    "shift": shifted,
    "recorder": lambda d: recorded(d, lambda model, *_: lnlab.record(model, ["1"], **ALSO)),
    "rotation": lambda d: recorded(d, turning),
    "invariances": lambda d: lnlab.check_invariances(*arguments(d)[:2]),
    "norm": lambda d: lnlab.identify_norm(nn.BatchNorm1d(6).to(d)),
    "table 1": lambda d: measure_table1({"layer": ROWS["layer"]}),
    "maps": maps,
    "dynamics": over_time,
}


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_result_is_a_table_a_figure_and_a_file(make, tmp_path):
    result = make("cpu")
    frame, figure = result.to_frame(), result.plot()
    assert len(frame)
    assert isinstance(figure, go.Figure)
    assert figure.data
    assert "<table" in result._repr_html_()
    assert 1 < repr(result).count("\n") < 50
    csv = result.save(tmp_path / "result.csv").read_text(encoding="utf-8")
    assert csv.count("\n") == len(frame) + 1
    page = result.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<div id="' in page
    assert "prefers-color-scheme: dark" in page
    # what stands below a figure is a paragraph, which a narrow page wraps
    notes = [note.text for note in figure.layout.annotations if note.name == "signature"]
    assert all(f"<p>{note[:20]}" in page for note in notes)
    assert '"signature"' not in page.replace('"meta":{"signature"', "")
    with pytest.raises(ValueError, match=r"choose .html, .csv or .json"):
        result.save(tmp_path / "result.pdf")


@pytest.mark.gpu
@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_result_is_that_of_the_cpu(make, device):
    expected, found = (make(d).to_frame() for d in ("cpu", device))
    # other orders of summation
    pd.testing.assert_frame_equal(found, expected, rtol=1e-7, atol=1e-9)


def test_a_printed_table_fits_into_its_width_and_loses_no_word():
    rows = [("where", "what"), ("a name", "many words that go on " * 9), ("x", "")]
    lines = list(format_text_table(rows, width=60))
    assert max(map(len, lines)) <= 60
    assert " ".join(lines).split() == " ".join(" ".join(row) for row in rows).split()
