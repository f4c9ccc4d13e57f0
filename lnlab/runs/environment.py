"""What besides the configuration decides the bits of a run."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy
import torch

from lnlab import __version__


def environment(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Versions, commit, device, threads and instruction set, as they are now.

    Nothing in it names the machine or its user. ``commit`` is None outside a checkout, and
    ends in ``-dirty`` where files differ from it.
    """
    device = torch.device(device)
    return {
        "lnlab": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device.type,
        "device_name": device_name(device),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def commit() -> str | None:
    """The commit that lnlab runs from, if this file is kept in a git checkout."""
    here = Path(__file__).resolve()
    if not _git(here.parent, "ls-files", here.name):
        return None
    return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def device_name(device: torch.device) -> str:
    """What the processor calls itself."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
