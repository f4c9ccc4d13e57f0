"""A page of an audit stands alone, shows letters for tags, and holds all that was found."""

import html
import json
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.auditing import audit
from lnlab.auditing.subject import counted, span

TAG = "<img src=x onerror=alert`1`>"


@pytest.fixture(scope="module")
def found():
    net = nn.Sequential()
    net.add_module(TAG, nn.Linear(6, 4))
    net.add_module("norm", nn.BatchNorm1d(4))
    net.add_module("out", nn.Linear(4, 3))
    return audit(net, torch.randn(16, 6), lambda y: F.cross_entropy(y, torch.arange(16) % 3))


def test_page_needs_nothing_beside_it(found, tmp_path):
    page = found.save(tmp_path / "report.html").read_text()
    assert not re.search(
        r'(src|href)="(?!#|data:)[^"]+"', re.sub(r"(?s)<script.*?</script>", "", page)
    )
    assert "prefers-color-scheme: dark" in page
    assert page.count('class="finding ') == len(found.findings)
    assert page.count('class="plot"') == sum(
        r.profile is not None for r in found.results.values()
    )
    assert TAG not in page
    assert found.summary() in page


def test_pages_of_a_folder_can_share_what_is_large(found, tmp_path):
    (tmp_path / "beside").mkdir()
    whole = found.save(tmp_path / "whole.html")
    one = found.save(tmp_path / "beside" / "one.html", beside=True)
    assert whole.stat().st_size < 5.5e6  # it has no mathematics, whose font would add 2 MB
    page = one.read_text()
    assert page.count("<script src=") == 2
    for file in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert (one.parent / file).stat().st_size > 0
    assert len(page) < 0.1 * whole.stat().st_size


def test_page_goes_where_it_is_told_or_says_why_not(found, tmp_path):
    with pytest.raises(OSError, match="no"):
        found.save(tmp_path / "no" / "report.html")


def test_notebook_and_data(found):
    shown = found._repr_html_()
    assert TAG not in shown
    for _, finding in found.findings:
        assert html.escape(finding.do, quote=False) in shown
    kept = json.loads(found.to_json())
    assert [f["seen"] for f in kept["findings"]] == [f.seen for _, f in found.findings]
    assert kept["tables"]["gradients over depth"]


def test_one_of_something_is_not_several():
    assert [counted(n, "weight") for n in (0, 1, 2)] == ["0 weights", "1 weight", "2 weights"]
    assert counted(3, "bias", "biases") == "3 biases"
    assert (span("3.1", "3.1"), span("3.1", "4")) == ("3.1", "3.1 to 4")
