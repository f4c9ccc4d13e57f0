"""The surroundings of a run that decide its bits, besides the configuration."""

import hashlib
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lnlab import __version__
from lnlab.runs.closure import closure

if TYPE_CHECKING:
    import torch


def environment(
    device: "torch.device | str" = "cpu", modules: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Versions, commit, device, threads and instruction set, as they are now.

    Nothing in it names the machine or its user. ``commit`` is None outside a checkout, and
    ends in ``-dirty`` where files differ from it; ``code`` is the hash of the sources that
    decide what ``code_of`` does, the ``modules``.
    """
    import numpy
    import torch

    device = torch.device(device)
    return {
        "lnlab": __version__,
        "commit": commit(),
        "code": code(*modules),
        "code_of": list(modules),
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
def code(*modules: str) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the sources that decide some modules.

    They are the :func:`~lnlab.runs.closure.closure` of the modules. Unlike the commit the
    code changes with an edit that is not committed, and not with another experiment, a
    figure or a page of documentation. In one process it stays what it was at first, as what
    is imported does.
    """
    digest = hashlib.sha256()
    for name, path in sorted(closure(modules).items()):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
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


def device_name(device: "torch.device") -> str:
    """The name that a processor gives itself."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
