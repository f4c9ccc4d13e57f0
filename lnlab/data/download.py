"""Downloads that are right or not there: verified, resumed, atomic.

A file is fetched into ``NAME.part`` beside its target, from where an interrupted download
goes on, and takes its name only once its size and sha256 are those that the source states.
One process downloads, others wait for it. ``requests`` moves the bytes; pooch, which also
checks a hash, neither resumes nor locks nor knows mirrors.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import requests
import urllib3
from filelock import FileLock
from tqdm import tqdm

from lnlab.data.source import File, Source, data_folder

CHUNK = 1 << 16
PAUSES = (0.0, 1.0, 2.0, 4.0)  # seconds before each round over the mirrors
TIMEOUT = 30.0  # seconds without a byte
BUSY = (408, 425, 429)  # the only answers of 400 to 499 that may be others next time
MAY_PASS = (ConnectionError, requests.RequestException, urllib3.exceptions.HTTPError)


def fetch(
    source: Source,
    folder: Path | None = None,
    *,
    pauses: Sequence[float] = PAUSES,
    timeout: float = TIMEOUT,
    progress: bool = True,
) -> Path:
    """Have the files of ``source`` in ``folder``, each verified; what is right stays as it is.

    A damaged file is replaced. Left-over parts of files that are complete are removed.

    Args:
        source: a source with ``urls``.
        folder: where its files go; by default its name in ``data_folder()``.
        pauses: seconds to wait before each round over the mirrors.
        timeout: seconds without a byte after which a server is given up for this round.
        progress: show a bar for each file.

    Returns:
        The folder.

    Raises:
        ValueError: if the source has nothing to download.
        ConnectionError: if no mirror gave a file; says of each mirror why.
        OSError: if the folder cannot be written to, or the disk is full.
    """
    if not source.urls:
        raise ValueError(f"{source.name} is {source.kind}: it has no files to download")
    folder = folder or data_folder() / source.name
    if not _missing(source, folder) and not list(folder.glob("*.part")):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            for file in _missing(source, folder):
                _fetch_file(file, source.urls, folder, pauses, timeout, progress)
            for stray in folder.glob("*.part"):
                stray.unlink()
    except ConnectionError:
        raise
    except OSError as error:
        raise type(error)(
            f"{source.name}: cannot write its {source.size:,} bytes into {folder}: "
            f"{error.strerror or error}; set LNLAB_DATA to use another folder"
        ) from error
    return folder


def _missing(source: Source, folder: Path) -> list[File]:
    """The files that are not in ``folder`` as the source states them."""
    return [
        file
        for file in source.files
        if _size(folder / file.name) != file.size or _sha256(folder / file.name) != file.sha256
    ]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch_file(
    file: File,
    mirrors: Sequence[str],
    folder: Path,
    pauses: Sequence[float],
    timeout: float,
    progress: bool,
) -> None:
    """Get one file from the first mirror that has it; ask again those that may yet."""
    part = folder / f"{file.name}.part"
    urls = [f"{mirror}{file.name}" for mirror in mirrors]
    complaints = {}
    for pause in pauses:
        if urls:
            time.sleep(pause)
        for url in list(urls):
            try:
                _fill(part, url, file, timeout, progress)
            except MAY_PASS as error:
                complaints[url] = error
            except ValueError as error:
                complaints[url] = error
                urls.remove(url)
            else:
                part.replace(folder / file.name)
                return
    told = "; ".join(f"{url}: {error}" for url, error in complaints.items())
    raise ConnectionError(" ".join(f"cannot fetch {file.name}: {told}".split()))


def _fill(part: Path, url: str, file: File, timeout: float, progress: bool) -> None:
    """Complete ``part`` from ``url``, and verify it.

    Raises:
        ValueError: if the server has something else.
    """
    resumed = _size(part)
    if resumed < file.size:
        _download(part, url, file, timeout, progress)
    found = _sha256(part)
    if found != file.sha256:
        part.unlink()
        if not resumed:
            raise ValueError(f"sha256 {found}, expected {file.sha256}")
        # The beginning may have come from a server that had something else.
        _fill(part, url, file, timeout, progress)
        return
    with part.open("rb+") as whole:
        os.fsync(whole.fileno())


def _download(part: Path, url: str, file: File, timeout: float, progress: bool) -> None:
    """Append to ``part`` what it lacks of the file at ``url``.

    The bytes are taken as they are sent: ``requests`` would unpack a .gz file that a server
    declares as ``Content-Encoding: gzip``.
    """
    start = _size(part)
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
        _check_answer(response, start, file)
        if response.status_code == requests.codes.ok:
            start = 0
        with (
            part.open("ab" if start else "wb") as out,
            tqdm(
                total=file.size,
                initial=start,
                desc=file.name,
                unit="B",
                unit_scale=True,
                disable=not progress,
            ) as bar,
        ):
            for chunk in response.raw.stream(CHUNK, decode_content=False):
                out.write(chunk)
                bar.update(len(chunk))
                if out.tell() > file.size:
                    raise ValueError(f"more than the expected {file.size:,} bytes")
    if _size(part) < file.size:
        raise ConnectionError(f"ended after {_size(part):,} of {file.size:,} bytes")


def _check_answer(response: requests.Response, start: int, file: File) -> None:
    """Refuse an answer that cannot be the rest of ``file`` from byte ``start`` on."""
    status = response.status_code
    if status not in (requests.codes.ok, requests.codes.partial):
        lasting = 400 <= status < 500 and status not in BUSY
        raise (ValueError if lasting else ConnectionError)(f"{status} {response.reason}")
    if response.headers.get("Content-Type", "").startswith("text/html"):
        raise ValueError("a web page and not the file (a log-in page?)")
    if status == requests.codes.partial:
        name, expected = "Content-Range", f"bytes {start}-{file.size - 1}/{file.size}"
    else:
        name, expected = "Content-Length", str(file.size)
    found = response.headers.get(name, expected)
    if found != expected:
        raise ValueError(f"{name} is {found}, expected {expected}")
