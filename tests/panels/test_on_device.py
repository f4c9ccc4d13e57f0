"""A panel shows of nets on an accelerator what it shows of them on the CPU."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.panels.test_every_panel import CASES, FUNCTIONS
from tests.pretend import waited

pytestmark = pytest.mark.gpu

WITH_NETS = ("landscape", "order", "thoughts", "writing")


def moved(given: Any, device: Any) -> Any:
    """What a panel is given, every network and tensor of it on a device."""
    if isinstance(given, nn.Module | torch.Tensor):
        return deepcopy(given).to(device)
    if isinstance(given, Mapping):
        return {name: moved(one, device) for name, one in given.items()}
    if hasattr(given, "nets"):
        return replace(given, nets=moved(given.nets, device))
    return given


def nets(given: Any) -> list[nn.Module]:
    if isinstance(given, nn.Module):
        return [given]
    inside = given if isinstance(given, Mapping) else getattr(given, "nets", {})
    return [net for one in inside.values() for net in nets(one)]


def test_no_panel_that_is_given_nets_is_forgotten():
    found = [name for name, case in CASES.items() if any(map(nets, case.given))]
    assert sorted(found) == sorted(WITH_NETS)


def alike(found: Any, expected: Any, where: str) -> None:
    """Whether what is shown are the same words, and numbers but for rounding."""
    if isinstance(expected, Mapping):
        assert found.keys() == expected.keys(), where
        for key, one in expected.items():
            alike(found[key], one, f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            alike(one, other, f"{where}.{number}")
    elif isinstance(expected, np.ndarray | float) and np.asarray(expected).dtype.kind == "f":
        # float32, other orders of summation
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=where)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=where)


@pytest.mark.parametrize("name", WITH_NETS)
def test_a_panel_shows_what_it_shows_on_the_cpu(name, device):
    case, shown = CASES[name], {}
    for place in ("cpu", device):
        given = [moved(one, place) for one in case.given]
        there = {p.device.type for net in nets(given[0]) for p in net.parameters()}
        assert there == {torch.device(place).type}
        panel = FUNCTIONS[name](*given, **case.start)
        for field, new in case.other.items():
            panel.controls[field].value = new
            assert panel.bar.error == ""
            figure, _, sentence = panel._show(panel.state)
            layout = {key: it for key, it in figure["layout"].items() if key != "template"}
            shown.setdefault(str(place), []).append((sentence, figure["data"], layout))
    assert not waited["indices of the CPU"]
    alike(shown[str(device)], shown["cpu"], name)
