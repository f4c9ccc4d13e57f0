"""What is generated has the same bytes as ever: kept runs were trained on them."""

import pytest

from lnlab import data

CHECKSUMS = {
    "cloze": "140ff09c38ef1aade14b39c9a52df5f9",
    "digits": "9e7bc1c2d48e638b2afca1828a5433ed",
    "digits-binary": "6f891d0ba6ccbd3bf166c292aed67290",
    "opinions": "fda72a5823bc07fb052f807bf14eadd1",
    "pen": "58e96f1f690cd108ea09026d72c45883",
    "scenes": "64da28d357b5972a11ca0930f2808474",
    "shapes": "61417912bf9eea93a91abab72d3fa741",
    "spoken": "475dba0e45e222c987db85c4639b5092",
    "stories": "7079dd964d111847960f9dbff3424419",
    "story-tasks": "234016dc3bba857dde0d47248312578f",
    "tales": "fe494379a76a8f57e079777e40fdd606",
}


SLOW = ("pen", "scenes", "shapes", "spoken")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CHECKSUMS]
)
def test_generated_data_have_their_bytes(name):
    assert data.load(name).compute_checksum().startswith(CHECKSUMS[name])


def test_no_generated_source_is_left_out():
    made = {one.name for one in data.sources() if one.kind in ("embedded", "synthetic")}
    assert made == {*CHECKSUMS}
