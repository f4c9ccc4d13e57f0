"""Downloads, verified by their SHA-256, and archives, unpacked without trusting them."""

import gzip
import hashlib
import shutil
import tarfile
import time
import zlib
from pathlib import Path
from typing import Any

from filelock import FileLock

from lnlab.data.dataset import File, Source
from lnlab.paths import data_folder

PAUSES = (0.0, 1.0, 4.0)
"""Seconds to wait before each round over the mirrors."""
TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""
LARGEST_RATIO = 20
"""The most times its own size that an archive may unpack to (sound shrinks to half)."""
DAMAGED = (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile)


def fetch(source: Source, folder: Path | None = None, *, progress: bool = True) -> Path:
    """Download the files of a source; a file that is there and right stays.

    A download that is interrupted starts again. One process downloads, others wait for it.

    Args:
        folder: where the files go; None: the source's name in :func:`data_folder`.
        progress: show a bar for each file.

    Returns:
        The folder.
    """
    import pooch
    from requests import RequestException

    if not source.mirror_folder_urls:
        raise ValueError(f"{source.name} is {source.kind}: it has no files to download")
    folder = folder or data_folder() / source.name
    pooch.get_logger().setLevel("WARNING")
    unfinished = folder / ".download"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            if unfinished.exists():
                print(f"{source.name}: a download was interrupted, it starts again.")
                shutil.rmtree(unfinished)
            try:
                for file in source.files:
                    target = folder / file.name
                    if not (target.is_file() and pooch.file_hash(target) == file.sha256):
                        _fetch_file(
                            file, source.mirror_folder_urls, unfinished, progress
                        ).replace(target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except (ConnectionError, RequestException):
        raise
    except OSError as error:
        raise type(error)(
            f"{source.name}: cannot write its {source.size:,} bytes into {folder}: "
            f"{error.strerror or error}; set LNLAB_DATA to use another folder"
        ) from error
    return folder


def _fetch_file(file: File, mirrors: tuple[str, ...], folder: Path, progress: bool) -> Path:
    """Download one file from the first mirror that has it, and return its path."""
    import pooch
    from requests import RequestException

    # some servers declare .gz files as encoded, and requests would unpack them
    headers = {"Accept-Encoding": "identity"}
    errors = {}
    for pause in PAUSES:
        time.sleep(pause)
        for url in [f"{mirror}{file.name}" for mirror in mirrors]:
            get: Any = pooch.HTTPDownloader(progress, timeout=TIMEOUT, headers=headers)
            try:
                return Path(pooch.retrieve(url, file.sha256, file.name, folder, None, get))
            except RequestException as error:
                errors[url] = error
                if error.response is not None:
                    error.response.close()
            except ValueError as error:  # another hash
                errors[url] = error
    reasons = "; ".join(f"{url}: {error}" for url, error in errors.items())
    raise ConnectionError(" ".join(f"cannot fetch {file.name}: {reasons}".split()))


def unpack_into_data_folder(archive: Path) -> Path:
    """Return the folder with the files of a .tar.gz, unpacked when it is first asked for.

    The folder lies in ``data_folder()``, is called by the archive's SHA-256, and is complete
    when it exists. Processes that ask at the same time wait for one of them.
    """
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    folder = data_folder() / "unpacked" / digest
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_suffix(".part")
    with FileLock(folder.with_suffix(".lock")):
        if folder.is_dir():
            return folder
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        try:
            _extract(archive, part)
            part.rename(folder)
        except DAMAGED as error:
            raise ValueError(f"{archive} is damaged, or no .tar.gz: {error}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def _extract(archive: Path, folder: Path) -> None:
    allowed = LARGEST_RATIO * archive.stat().st_size + 2**20

    def check_kind_and_total_size(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        nonlocal allowed
        # the data filter lets links through that have led out of the folder (CVE-2025-4517)
        if not (member.isfile() or member.isdir()):
            raise ValueError(f"{archive}: {member.name!r} is neither a file nor a folder.")
        allowed -= member.size
        if allowed < 0:
            raise ValueError(
                f"{archive}: it unpacks to more than {LARGEST_RATIO} times its size, as no "
                "archive of sound or pictures does: unpack it yourself and name the folder."
            )
        return tarfile.data_filter(member, path)

    with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as members:
        members.extractall(folder, filter=check_kind_and_total_size)
        while stream.read(2**20):  # to the end, where the checksum of the stream is
            pass
