"""A panel shows of networks on an accelerator what it shows of them on the CPU."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.panels.test_every_panel import FUNCTIONS, GIVEN, START, another
from tests.pretend import waited

pytestmark = pytest.mark.gpu


def move_to_device(given: Any, device: Any) -> Any:
    """Return what a panel is given, every network and tensor of it on a device."""
    if isinstance(given, nn.Module | torch.Tensor):
        return deepcopy(given).to(device)
    if isinstance(given, Mapping):
        return {name: move_to_device(one, device) for name, one in given.items()}
    if hasattr(given, "models"):
        return replace(given, models=move_to_device(given.models, device))
    return given


def assert_alike(value: Any, expected: Any, where: str) -> None:
    """Assert that two figures have the same words, and numbers but for rounding."""
    if isinstance(expected, Mapping):
        for key, one in expected.items():
            assert_alike(value[key], one, f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        for number, (one, other) in enumerate(zip(value, expected, strict=True)):
            assert_alike(one, other, f"{where}.{number}")
    elif isinstance(expected, np.ndarray | float) and np.asarray(expected).dtype.kind == "f":
        # float32, other orders of summation
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5, err_msg=where)
    else:
        np.testing.assert_array_equal(value, expected, err_msg=where)


@pytest.mark.parametrize("name", ["landscape", "order", "thoughts", "writing"])
def test_a_panel_shows_what_it_shows_on_the_cpu(name, device):
    shown: dict[str, list[Any]] = {"cpu": [], str(device): []}
    for place, figures in shown.items():
        panel = FUNCTIONS[name](*(move_to_device(one, place) for one in GIVEN[name]))
        panel.settings = replace(panel.settings, **START.get(name, {}))
        for control in panel.controls.values():
            control.value = another(control)
            assert panel.footer.error == ""
            figure, _, sentence = panel._draw(panel.settings)
            layout = {key: it for key, it in figure["layout"].items() if key != "template"}
            figures.append((sentence, figure["data"], layout))
    assert not waited["indices of the CPU"]
    assert_alike(shown[str(device)], shown["cpu"], name)
