"""An audit prints worst first; its page stands alone, is small, and shows tags as letters."""

import html
import json
import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.auditing import Severity, audit
from lnlab.auditing.report import log_bar_percentages_and_axis

TAG = "<img src=x onerror=alert`1`>"


@pytest.fixture(scope="module")
def report():
    net = nn.Sequential()
    net.add_module(TAG, nn.Linear(6, 4))
    net.add_module("norm", nn.BatchNorm1d(4, eps=1.0))  # a risk: larger than its variances
    net.add_module("out", nn.Linear(4, 3))
    return audit(net, torch.randn(16, 6), torch.arange(16) % 3, F.cross_entropy)


def test_page_is_small_and_needs_nothing_beside_it(report, tmp_path):
    page = report.save(tmp_path / "report.html").read_text()
    assert len(page) < 300e3
    assert not re.search(r'(src|href)="(?!#|data:|https://arxiv.org)[^"]+"|url\(', page)
    assert "prefers-color-scheme: dark" in page
    assert page.count('class="finding ') == len(report.findings)
    curves = [data for data in report.data.values() if data.plotted_column]
    assert page.count('class="bar"') == sum(len(data.rows) for data in curves) > 0
    assert TAG not in page
    assert report.summary() in page
    for finding in report.findings:
        assert finding.rule in page


def test_worst_comes_first_as_text_in_a_notebook_and_as_data(report):
    severities = [f.severity for f in report.findings]
    assert severities == sorted(severities)
    assert severities[0] is Severity.RISK
    assert report.with_severity("Risk") == report.with_severity(Severity.RISK) != []
    with pytest.raises(ValueError, match="choose from fault, risk, fact"):
        report.with_severity("warning")
    assert str(report).index("RISK") < str(report).index("FACT")
    shown = report._repr_html_()
    assert TAG not in shown
    for finding in report.findings:
        assert html.escape(finding.advice, quote=False) in shown
    kept = json.loads(report.to_json())
    assert [f["message"] for f in kept["findings"]] == [f.message for f in report.findings]
    assert kept["tables"]["gradients over depth"]
    assert list(report.to_frame()["rule"]) == [f.rule for f in report.findings]


def test_numbers_and_curve_of_a_check_or_why_there_are_none(report):
    assert list(report.plot("gradients over depth").data[0].y) == list(
        report.table("gradients over depth")["gradient"]
    )
    assert len(report.plot().data[0].y)
    assert repr(report) == str(report)
    with pytest.raises(KeyError, match="no nonlinearity"):
        report.table("dead units")
    with pytest.raises(KeyError, match="has no curve"):
        report.plot("curvature")


def test_bars_are_on_a_logarithmic_axis_of_whole_decades():
    lengths, axis = log_bar_percentages_and_axis([0.01, 0.1, 0.0, 1.0, math.inf])
    assert (lengths, axis) == ([1, 33.3, 0, 66.7, 0], "from 0.01 to 10")
