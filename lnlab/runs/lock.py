"""The right to write in a folder: one process has it, and loses it when it ends."""

from pathlib import Path

from filelock import FileLock, Timeout


class Busy(RuntimeError):
    """The folder of a run is being written by another process, or by this one."""


def locked(folder: Path) -> FileLock:
    """The right to write in a folder, until it is released or its process ends.

    Raises:
        Busy: if somebody has it.
    """
    # Not thread-local: a generator may be closed by another thread than began it.
    lock = FileLock(folder / ".lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise Busy(
            f"{folder} is being written by another run of the same task, in this process or "
            "another: wait for it, or stop it (close() its iterator)."
        ) from None
    return lock
