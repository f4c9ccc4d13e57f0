"""What certifying a network costs: a ResNet of 20 layers with batch norm, at its start.

The net is that of He et al. (2016), section 4.2, for pictures of 3 x 32 x 32, with projections
where the shape changes: 272,474 parameters. Three precisions, three modes, four pictures, one
thread. Seconds of the processor are those of this process: others on the machine count less.
"""

import json as text
import time
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.probes.certify import certify
from lnlab.runs import device_name

CASES = 4
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


class Block(nn.Module):
    """Two convolutions, and what comes in added to what comes out."""

    def __init__(self, inputs: int, units: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, units, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(units)
        self.last = nn.Conv2d(units, units, 3, padding=1, bias=False)
        self.last_norm = nn.BatchNorm2d(units)
        same = inputs == units and stride == 1
        projected = nn.Conv2d(inputs, units, 1, stride, bias=False), nn.BatchNorm2d(units)
        self.beside = nn.Identity() if same else nn.Sequential(*projected)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first_norm(self.first(x)).relu()
        return (self.last_norm(self.last(h)) + self.beside(x)).relu()


def resnet20() -> nn.Sequential:
    """Three stages of three blocks, of 16, 32 and 64 filters, and ten outputs."""
    blocks, inputs = [], 16
    for units in (16, 32, 64):
        for number in range(3):
            stride = 2 if units != inputs and number == 0 else 1
            blocks.append(Block(inputs, units, stride))
            inputs = units
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def measure(cases: int = CASES) -> list[dict[str, Any]]:
    """A row for each precision by itself, and one for all of them together."""
    torch.manual_seed(0)
    module, x = resnet20(), torch.randn(cases, 3, 32, 32)
    rows = []
    for dtypes in (*((dtype,) for dtype in DTYPES), DTYPES):
        began, worked = time.perf_counter(), time.process_time()
        certificate = certify(module, x, dtypes=dtypes)
        rows.append(
            {
                "dtypes": [str(dtype).removeprefix("torch.") for dtype in dtypes],
                "seconds": round(time.perf_counter() - began, 2),
                "processor_seconds": round(time.process_time() - worked, 2),
                "evaluations": certificate.evaluations,
                "invariances": len(certificate.invariances),
            }
        )
    return rows


def main(json: bool = False) -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    parameters = sum(p.numel() for p in resnet20().parameters())
    figures = {
        "net": "ResNet20", "parameters": parameters, "cases": CASES, "rows": measure(),
        "threads": 1, "hardware": device_name(torch.device("cpu")),
    }  # fmt: skip
    if json:
        print(text.dumps(figures, indent=2))
        return
    print(f"{'precision':32}{'seconds':>9}{'processor':>11}{'evaluations':>13}")
    for row in figures["rows"]:
        head = f"{', '.join(row['dtypes']):32}{row['seconds']:9.1f}"
        print(f"{head}{row['processor_seconds']:11.1f}{row['evaluations']:13}")
    print(
        f"certify of ResNet20, {parameters} parameters, {CASES} pictures, 1 thread, "
        f"{figures['hardware']}."
    )


if __name__ == "__main__":
    main()
