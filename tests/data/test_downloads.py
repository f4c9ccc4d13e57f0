"""A download or an archive ends with the right files, or an error says why not."""

import gzip
import hashlib
import io
import random
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lnlab import data
from lnlab.data import downloads
from lnlab.data.dataset import File, Source

CONTENT = random.Random(3).randbytes(300_000)
FILE = File("numbers.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


class Handler(BaseHTTPRequestHandler):
    """Answers the n-th request with the n-th of the server's answers, then with the last."""

    def do_GET(self):
        self.server.requests.append(self.path)
        n = min(len(self.server.requests), len(self.server.answers))
        content, status, sent = self.server.answers[n - 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:sent])

    def log_message(self, format, *args):
        pass


@contextmanager
def serving(*answers):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.answers, server.requests = answers, []
        server.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def send(content: bytes = CONTENT, status: int = 200, sent: int | None = None):
    """An answer with some content, of which only the first `sent` bytes arrive."""
    return content, status, sent


def source(*mirror_folder_urls: str) -> Source:
    return Source(
        "numbers",
        "",
        "official",
        "none",
        "",
        "images",
        mirror_folder_urls=mirror_folder_urls,
        files=(FILE,),
    )


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(downloads, "PAUSES", (0, 0, 0))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_file_is_fetched_once_by_many_and_replaced_if_damaged(tmp_path):
    with serving(send()) as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: downloads.fetch(source(server.url), tmp_path), range(4)))
        assert (names(tmp_path), server.requests) == ([FILE.name], ["/numbers.bin"])
        (tmp_path / FILE.name).write_bytes(CONTENT[:-1])
        downloads.fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


def test_an_interrupted_download_starts_again_and_says_so(tmp_path, capsys):
    (tmp_path / ".download").mkdir()
    (tmp_path / ".download" / "tmpabc").write_bytes(b"of a process that was killed")
    (tmp_path / "tmpabc").write_bytes(b"a user's file")
    with serving(send(sent=9), send()) as server:
        downloads.fetch(source(server.url), tmp_path)
    output = capsys.readouterr()
    assert "numbers: a download was interrupted, it starts again." in output.out
    assert "100%" in output.err
    assert names(tmp_path) == [FILE.name, "tmpabc"]
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


def test_mirrors_are_tried_again_and_each_is_named_in_the_error(tmp_path):
    with serving(send(status=404)) as gone, serving(send(status=503), send()) as slow:
        downloads.fetch(source(gone.url, slow.url), tmp_path, progress=False)
    assert (len(gone.requests), len(slow.requests)) == (2, 2)
    (tmp_path / FILE.name).unlink()
    with (
        serving(send(status=404)) as gone,
        serving(send(b"<html>Log in</html>")) as portal,
        pytest.raises(ConnectionError, match=r"cannot fetch numbers\.bin: ") as error,
    ):
        downloads.fetch(source(gone.url, portal.url), tmp_path)
    assert f"{gone.url}numbers.bin: 404 Client Error" in str(error.value)
    assert f"{portal.url}numbers.bin: SHA256 hash of downloaded file" in str(error.value)
    assert FILE.sha256 in str(error.value)
    assert names(tmp_path) == []


def test_what_cannot_be_fetched_says_so(tmp_path):
    with pytest.raises(ValueError, match="digits is embedded: it has no files to download"):
        data.fetch("digits")
    with pytest.raises(ValueError, match="unknown data 'minst': choose from"):
        data.fetch("minst")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot write its 300,000 bytes .* set LNLAB_DATA"):
        downloads.fetch(source("http://127.0.0.1/"), tmp_path / "file")


def test_the_data_folder_is_that_of_the_environment_the_checkout_or_the_user(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LNLAB_DATA", "~/données à moi")
    assert data.data_folder() == Path.home() / "données à moi"
    monkeypatch.delenv("LNLAB_DATA")
    assert data.data_folder() == Path(data.__file__).parents[2] / "data"
    monkeypatch.setattr("lnlab.__file__", str(tmp_path / "a/lnlab/__init__.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data.data_folder().name == "lnlab"
    assert not data.data_folder().is_relative_to(tmp_path / "a")


# Archives.

MEMBERS = {"set/a.bin": random.Random(0).randbytes(3000), "set/in/b.txt": b"text\n" * 100}


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


def packed(*entries) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in (*(member(*item) for item in MEMBERS.items()), *entries):
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue())


def tree(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_an_archive_is_unpacked_once(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    path = tmp_path / "a.tar.gz"
    path.write_bytes(packed(member("folder", kind=tarfile.DIRTYPE), member("./c", b"c")))
    folder = downloads.unpack_into_data_folder(path)
    assert tree(folder) == MEMBERS | {"c": b"c"}
    (folder / "c").write_bytes(b"changed")
    assert downloads.unpack_into_data_folder(path) == folder
    assert tree(folder)["c"] == b"changed"
    path.write_bytes(packed())
    assert tree(downloads.unpack_into_data_folder(path)) == MEMBERS


HOSTILE = {
    "a way out": lambda outside: packed(member("../../outside", b"x")),
    "a link": lambda outside: packed(member("a", kind=tarfile.SYMTYPE, link=str(outside))),
    "a bomb": lambda outside: packed(member("set/zeros", bytes(100_000_000))),
    "another checksum": lambda outside: packed()[:-8] + bytes(8),
    "no archive": lambda outside: b"<html>log in</html>",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_is_left(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    path = tmp_path / "hostile.tar.gz"
    path.write_bytes(HOSTILE[kind](tmp_path))
    with pytest.raises(ValueError, match=r"hostile\.tar\.gz(:| is damaged)"):
        downloads.unpack_into_data_folder(path)
    assert not [name for name in tree(tmp_path) if not name.endswith((".lock", path.name))]
