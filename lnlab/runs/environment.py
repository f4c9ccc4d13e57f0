"""What besides the configuration decides the bits of a run."""

import hashlib
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import torch

from lnlab import __version__

DECIDING = ("cells", "data", "kernels", "norms", "tasks", "training", "unroll.py")
"""The parts of lnlab that decide the course of a run."""


def environment(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Versions, commit, device, threads and instruction set, as they are now.

    Nothing in it names the machine or its user. ``commit`` is None outside a checkout, and
    ends in ``-dirty`` where files differ from it; ``code`` is the hash of the sources
    themselves.
    """
    device = torch.device(device)
    return {
        "lnlab": __version__,
        "commit": commit(),
        "code": code(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device.type,
        "device_name": device_name(device),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


@cache
def code() -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the sources that decide a run.

    Unlike the commit it changes with an edit that is not committed, and not with a page of
    documentation.
    """
    package, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    files = (
        path
        for part in DECIDING
        for path in (package / part, *(package / part).rglob("*"))
        if path.suffix in (".py", ".cpp", ".h")
    )
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


@cache
def commit() -> str | None:
    """The commit that lnlab was first run from, if this file is kept in a git checkout."""
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
