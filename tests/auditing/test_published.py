"""Published networks: their nets take the weights by name, and an audit of them is reproduced.

The files are nobody's but their authors': set LNLAB_TEST_DATA to a folder that holds models/.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from lnlab.auditing import audit
from lnlab.auditing.published import ResNet20, SASRec, pictures, resnet20, sasrec


def trained(name):
    folder = os.environ.get("LNLAB_TEST_DATA")
    path = Path(folder or "", "models", name)
    if not folder or not path.is_file():
        pytest.skip(f"set LNLAB_TEST_DATA to a folder that holds models/{name}")
    return path


@pytest.fixture(autouse=True)
def single():
    torch.set_default_dtype(torch.float32)


@pytest.mark.slow
def test_audit_of_resnet20():
    net = resnet20(trained("resnet20-12fca82f.safetensors"))
    report = audit(net, torch.randn(2, 3, 32, 32))
    norms = report.table("normalizers")
    assert norms[["is", "how many"]].to_numpy().tolist() == [["BatchNorm", 7], ["BatchNorm", 6]]
    off = [int(f.message.split()[0]) for f in report.findings if f.rule == "gains-off"]
    assert sum(off) == 18
    rates = report.table("effective learning rates").set_index("weight")
    assert len(rates) == 19
    assert "linear.weight" not in rates.index
    assert {*rates["invariant"]} == {"rows"}
    sizes = rates["effective rate / rate"]
    assert (round(min(sizes), 2), round(max(sizes), 2)) == (0.21, 0.75)


@pytest.mark.slow
def test_audit_of_sasrec():
    net = sasrec(trained("sasrec-ml-1m-epoch1000.safetensors"))
    items = torch.arange(1, 33).reshape(4, 8)
    items[0, :3] = 0
    report = audit(net, items, only=["normalizers", "parameters without effect"])
    (row,) = report.data["normalizers"].rows
    assert (row["how many"], row["is"]) == (5, "LayerNorm")
    assert row["eps"].startswith("1.0e-08")
    idle = report.table("parameters without effect").set_index("parameter")["without effect"]
    assert idle.to_dict() == {f"attention_layers.{i}.in_proj_bias": 50 for i in range(2)}


def test_nets_take_weights_under_a_prefix_and_no_others(tmp_path):
    path = tmp_path / "net.safetensors"
    for make, kind in ((resnet20, ResNet20), (sasrec, SASRec)):
        net = kind()
        state = {f"module.{n}": v for n, v in net.state_dict().items() if "tracked" not in n}
        save_file(state, path)
        again = make(path)
        assert not again.training
        for name, value in again.named_parameters():
            torch.testing.assert_close(value, net.get_parameter(name))
    with pytest.raises(ValueError, match="is not of ResNet20"):
        resnet20(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        resnet20(tmp_path / "no.safetensors")
    path.write_text("not weights")
    with pytest.raises(ValueError, match="no safetensors"):
        resnet20(path)


def test_images_of_the_binary_version(tmp_path):
    records = np.zeros((3, 3073), np.uint8)
    records[:, 0] = [4, 9, 0]
    records[1, 1 : 1 + 1024] = 255
    records.tofile(tmp_path / "test_batch.bin")
    x, y = pictures(tmp_path / "test_batch.bin", 2)
    assert y.tolist() == [4, 9]
    torch.testing.assert_close(x[1, 0], torch.full((32, 32), (1 - 0.485) / 0.229))
    torch.testing.assert_close(x[1, 2], torch.full((32, 32), -0.406 / 0.225))
    with pytest.raises(ValueError, match="not 4 pictures"):
        pictures(tmp_path / "test_batch.bin", 4)
