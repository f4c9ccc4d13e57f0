"""Every result of an analysis is a table, a figure and a file."""

import plotly.graph_objects as go
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab
import lnlab.nn
from lnlab.analysis.feature_maps import map_statistics
from lnlab.analysis.internal_covariate_shift import covariate_shift
from lnlab.analysis.landscape import training_path
from lnlab.analysis.norm_gradients import gradient_norms
from lnlab.analysis.normalized_layer import measure_table1
from lnlab.analysis.result import text_table
from lnlab.analysis.rnn_dynamics import dynamics
from lnlab.analysis.rotation import scale_invariant_weights
from lnlab.nn.table1 import ROWS


def net():
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))


def recorded(record):
    model, x = net(), torch.randn(9, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(model, optimizer, x) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return recorder


def given():
    return net(), torch.randn(9, 4), torch.arange(9) % 3, F.cross_entropy


def convolution():
    layer = lnlab.nn.Conv2d(2, 3, 3, lambda H: lnlab.nn.LayerNorm(H, space=2))
    return nn.Sequential(layer, nn.ReLU())


RESULTS = {
    "landscape": lambda: lnlab.loss_landscape(*given(), points=3),
    "smoothness": lambda: lnlab.gradient_smoothness(*given()),
    "eigenvalues": lambda: lnlab.extreme_eigenvalues(*given(), count=2),
    "trace": lambda: lnlab.hessian_trace(*given(), draws=3),
    "spectrum": lambda: lnlab.hessian_spectrum(*given(), draws=2, steps=4),
    "fisher": lambda: lnlab.fisher_information(*given()[:2]),
    "path": lambda: training_path(list(torch.randn(5, 7))),
    "gradients": lambda: gradient_norms(*given()),
    "shift": lambda: covariate_shift(net(), *given()[1:], after=net()),
    "recorder": lambda: recorded(lambda model, *_: lnlab.record(model)),
    "rotation": lambda: recorded(
        lambda model, optimizer, x: lnlab.effective_learning_rate(
            model, optimizer, scale_invariant_weights(model, x)
        )
    ),
    "invariances": lambda: lnlab.check_invariances(net(), torch.randn(9, 4), columns=[1, 2]),
    "norm": lambda: lnlab.identify_norm(nn.LayerNorm(6)),
    "table 1": lambda: measure_table1({"layer": ROWS["layer"]}),
    "maps": lambda: map_statistics(convolution(), torch.randn(5, 2, 8, 8), layers=["0"])["0"],
    "dynamics": lambda: dynamics(lnlab.nn.GRUCell(3, 4), torch.randn(6, 2, 3)),
}


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_result_is_a_table_a_figure_and_a_file(make, tmp_path):
    result = make()
    frame, figure = result.to_frame(), result.plot()
    assert len(frame)
    assert isinstance(figure, go.Figure)
    assert figure.data
    assert "<table" in result._repr_html_()
    assert 1 < repr(result).count("\n") < 50
    csv = result.save(tmp_path / "result.csv").read_text(encoding="utf-8")
    assert csv.count("\n") == len(frame) + 1
    assert "plotly" in result.save(tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"choose .html, .csv or .json"):
        result.save(tmp_path / "result.pdf")


def test_a_printed_table_fits_into_its_width_and_loses_no_word():
    rows = [("where", "what"), ("a name", "many words that go on " * 9), ("x", "")]
    lines = list(text_table(rows, width=60))
    assert max(map(len, lines)) <= 60
    assert " ".join(lines).split() == " ".join(" ".join(row) for row in rows).split()
