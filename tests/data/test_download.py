"""A download ends with the right file or one line that says why not."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lnlab import data
from lnlab.data import download, images
from lnlab.data.source import File, Source

CONTENT = random.Random(3).randbytes(300_000)
FILE = File("numbers.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "")
OTHER = File("more.bin", 1_000, hashlib.sha256(CONTENT[:1_000]).hexdigest(), "")

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    """Answers the n-th request with the n-th of `answers`, and then with the last one."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *answers: Answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.asked: list[tuple[str, str | None]] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.asked.append((self.path, self.headers["Range"]))
        n = min(len(self.server.asked), len(self.server.answers))
        try:
            self.server.answers[n - 1](self)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format, *args):
        pass


@contextmanager
def serving(*answers: Answer) -> Iterator[Server]:
    server = Server(*answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def send(
    request: BaseHTTPRequestHandler,
    content: bytes,
    status: int = 200,
    *,
    sent: int | None = None,
    length: bool = True,
    **headers: str,
) -> None:
    """Answer with `content`, of which only the first `sent` bytes arrive."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    if length:
        request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content[:sent])
    request.close_connection = True


def whole(request):
    """What a good server does: the file, or the range of it that was asked for."""
    content = CONTENT if request.path.endswith(FILE.name) else CONTENT[:1_000]
    wanted = request.headers["Range"]
    if not wanted:
        return send(request, content)
    start = int(wanted.removeprefix("bytes=").removesuffix("-"))
    shown = f"bytes {start}-{len(content) - 1}/{len(content)}"
    return send(request, content[start:], 206, Content_Range=shown)


def fails(status):
    return lambda request: send(request, b"no", status)


def stalls(request):
    send(request, CONTENT, sent=100_000)
    request.wfile.flush()
    request.server.closing.wait(20)


def log_in(request):
    send(request, b"<!DOCTYPE html><title>Log in</title>", Content_Type="text/html")


def source(*urls: str, files: tuple[File, ...] = (FILE,)) -> Source:
    return Source("numbers", "random", "official", "none", "", "images", urls=urls, files=files)


fetch = partial(download.fetch, pauses=(0, 0, 0, 0), timeout=5, progress=False)


@pytest.fixture(autouse=True)
def straight_to_the_server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_file_is_fetched_once(tmp_path):
    with serving(whole) as server:
        for _ in range(2):
            assert fetch(source(server.url), tmp_path / "data") == tmp_path / "data"
    assert (tmp_path / "data" / FILE.name).read_bytes() == CONTENT
    assert names(tmp_path / "data") == [FILE.name]
    assert server.asked == [("/numbers.bin", None)]


def test_it_lands_in_the_folder_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "données à moi"))
    with serving(whole) as server:
        folder = fetch(source(server.url))
    assert folder == tmp_path / "données à moi" / "numbers"
    assert (folder / FILE.name).read_bytes() == CONTENT


def test_without_the_variable_downloads_land_in_the_checkout(monkeypatch):
    monkeypatch.delenv("LNLAB_DATA", raising=False)
    assert data.data_folder() == Path(data.__file__).parents[2] / "data"


def test_outside_a_checkout_they_land_in_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("LNLAB_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("lnlab.data.source.__file__", str(tmp_path / "a/lnlab/data/source.py"))
    assert data.data_folder().name == "lnlab"
    assert not data.data_folder().is_relative_to(tmp_path / "a")


def test_503_twice_then_the_file(tmp_path):
    with serving(fails(503), fails(503), whole) as server:
        fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answer", "message", "asked"),
    [
        (fails(503), "503 Service Unavailable", 4),
        (fails(429), "429 Too Many Requests", 4),
        (fails(404), "404 Not Found", 1),
        (fails(403), "403 Forbidden", 1),
        (log_in, "a web page and not the file", 1),
        (lambda r: send(r, b"x" * 99), "Content-Length is 99, expected 300000", 1),
        (lambda r: send(r, CONTENT + b"x", length=False), "more than the expected 300,000", 1),
        (lambda r: send(r, bytes(300_000)), rf"sha256 \w{{64}}, expected {FILE.sha256}", 1),
        (lambda r: send(r, CONTENT[:9], length=False), "ended after 9 of 300,000 bytes", 4),
        (lambda r: send(r, CONTENT, sent=9), r"IncompleteRead\(9 bytes read", 4),
    ],
)
def test_a_bad_answer_is_told_in_one_line_and_leaves_no_file(tmp_path, answer, message, asked):
    with serving(answer) as server, pytest.raises(ConnectionError, match=message) as error:
        fetch(source(server.url), tmp_path)
    assert str(error.value).startswith(f"cannot fetch numbers.bin: {server.url}numbers.bin: ")
    assert "\n" not in str(error.value)
    assert len(server.asked) == asked
    assert not (tmp_path / FILE.name).exists()


def test_no_server_at_all_is_told(tmp_path):
    with serving(whole) as server:
        pass
    with pytest.raises(ConnectionError, match=r"cannot fetch numbers\.bin: .*refused"):
        fetch(source(server.url), tmp_path)


def test_a_stalled_server_is_given_up_and_its_bytes_are_kept(tmp_path):
    with serving(stalls, whole) as server:
        fetch(source(server.url), tmp_path, timeout=1)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert server.asked[1][1] == "bytes=65536-"  # whole chunks of 64 KiB


def test_only_stalls_end_with_an_error(tmp_path):
    with serving(stalls) as server, pytest.raises(ConnectionError, match="timed out"):
        fetch(source(server.url), tmp_path, timeout=0.1)


@pytest.mark.parametrize("length", [True, False])
def test_a_truncated_download_goes_on_where_it_ended(tmp_path, length):
    first = partial(send, content=CONTENT, sent=200_000, length=length)
    with serving(first, whole) as server:
        fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=200000-"]


def test_a_server_that_ignores_ranges_sends_all_again(tmp_path):
    (tmp_path / "numbers.bin.part").write_bytes(CONTENT[:1_000])
    with serving(lambda request: send(request, CONTENT)) as server:
        fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


@pytest.mark.parametrize("start", [bytes(1_000), bytes(300_000), bytes(300_001)])
def test_a_wrong_beginning_is_fetched_again(tmp_path, start):
    (tmp_path / "numbers.bin.part").write_bytes(start)
    with serving(whole) as server:
        fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert server.asked[-1][1] is None


def test_a_whole_part_takes_its_name_without_a_download(tmp_path):
    (tmp_path / "numbers.bin.part").write_bytes(CONTENT)
    with serving(fails(500)) as server:
        fetch(source(server.url), tmp_path)
    assert server.asked == []
    assert names(tmp_path) == [FILE.name]


def test_a_wrong_range_is_refused(tmp_path):
    (tmp_path / "numbers.bin.part").write_bytes(CONTENT[:1_000])
    wrong = partial(send, content=CONTENT[5:], status=206, Content_Range="bytes 5-9/10")
    with (
        serving(wrong) as server,
        pytest.raises(ConnectionError, match=r"Content-Range is .*expected bytes 1000-299999/"),
    ):
        fetch(source(server.url), tmp_path)


def test_mirrors_are_tried_in_order_and_a_wrong_one_is_not_asked_again(tmp_path):
    with serving(fails(404)) as gone, serving(fails(503), whole) as slow:
        fetch(source(gone.url, slow.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert (len(gone.asked), len(slow.asked)) == (1, 2)


def test_a_mirror_with_other_bytes_does_not_spoil_the_next(tmp_path):
    other = partial(send, content=bytes(300_000), sent=1_000, length=False)
    with serving(other) as wrong, serving(whole) as right:
        fetch(source(wrong.url, right.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert [wanted for _, wanted in right.asked] == ["bytes=1000-", None]


def test_every_mirror_is_named_in_the_error(tmp_path):
    with (
        serving(fails(404)) as gone,
        serving(log_in) as portal,
        pytest.raises(ConnectionError) as error,
    ):
        fetch(source(gone.url, portal.url), tmp_path)
    assert f"{gone.url}numbers.bin: 404 Not Found; {portal.url}numb" in str(error.value)


def test_content_declared_as_gzip_is_stored_as_sent(tmp_path):
    as_gzip = partial(send, content=CONTENT, Content_Encoding="gzip")
    with serving(as_gzip) as server:
        fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


@pytest.mark.parametrize("damage", [b"", b"short", CONTENT[:-1] + b"?"])
def test_a_damaged_file_is_replaced_and_the_others_stay(tmp_path, damage):
    files = (FILE, OTHER)
    with serving(whole) as server:
        fetch(source(server.url, files=files), tmp_path)
        (tmp_path / FILE.name).write_bytes(damage)
        fetch(source(server.url, files=files), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/numbers.bin", "/more.bin", "/numbers.bin"]


def test_a_damaged_file_stays_until_a_right_one_is_there(tmp_path):
    (tmp_path / FILE.name).write_bytes(b"damaged")
    with serving(fails(404)) as server, pytest.raises(ConnectionError):
        fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == b"damaged"


def test_stray_parts_are_swept(tmp_path):
    (tmp_path / FILE.name).write_bytes(CONTENT)
    (tmp_path / "numbers.bin.part").write_bytes(CONTENT[:10])
    with serving(fails(500)) as server:
        fetch(source(server.url), tmp_path)
    assert names(tmp_path) == [FILE.name]


def test_a_source_without_files_says_so():
    with pytest.raises(ValueError, match="digits is embedded: it has no files to download"):
        data.fetch("digits")
    with pytest.raises(ValueError, match="unknown data 'minst': choose from"):
        data.fetch("minst")


def test_pauses_grow_and_are_kept(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(download.time, "sleep", kept.append)
    with serving(fails(503)) as server, pytest.raises(ConnectionError):
        fetch(source(server.url), tmp_path, pauses=(0, 30, 60))
    assert [pause for pause in kept if pause >= 30] == [30, 60]
    assert len(server.asked) == 3
    assert list(download.PAUSES) == sorted(download.PAUSES)


def test_a_bar_shows_the_bytes(tmp_path, capsys):
    with serving(whole) as server:
        fetch(source(server.url), tmp_path, progress=True)
    assert "numbers.bin: 100%" in capsys.readouterr().err


def test_threads_at_once_download_once(tmp_path):
    with serving(whole) as server, ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: fetch(source(server.url), tmp_path), range(6)))
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert len(server.asked) == 1


CHILD = """
import sys
from pathlib import Path
from lnlab.data import download
from lnlab.data.source import File, Source
url, folder, size, sha256, run = sys.argv[1:]
files = (File("numbers.bin", int(size), sha256, ""),)
source = Source("numbers", "random", "official", "none", "", "images", urls=(url,), files=files)
folder = Path(folder)
exec(run)
"""


def child(server: Server, folder: Path, run="download.fetch(source, folder, progress=False)"):
    """Another process that fetches from `server`."""
    arguments = (server.url, str(folder), str(FILE.size), FILE.sha256, run)
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments], stderr=subprocess.PIPE, text=True
    )


def test_six_processes_at_once_end_with_one_right_file(tmp_path):
    with serving(whole) as server:
        children = [child(server, tmp_path) for _ in range(6)]
        assert [process.communicate()[1] for process in children] == [""] * 6
    assert [process.returncode for process in children] == [0] * 6
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert names(tmp_path) == [FILE.name]
    assert len(server.asked) == 1


def test_killed_in_the_middle_it_goes_on(tmp_path):
    part = tmp_path / "numbers.bin.part"
    with serving(stalls, whole) as server:
        process = child(server, tmp_path)
        while not (part.exists() and part.stat().st_size) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert names(tmp_path) == [part.name]
        fetch(source(server.url), tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert names(tmp_path) == [FILE.name]
    assert server.asked[1][1] == "bytes=65536-"


def drip(request):
    """The file or its range in 1 KiB steps, over about a third of a second."""
    wanted = request.headers["Range"]
    start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
    shown = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
    send(request, CONTENT[start:], 206 if wanted else 200, sent=0, Content_Range=shown)
    for at in range(start, len(CONTENT), 1024):
        request.wfile.write(CONTENT[at : at + 1024])
        time.sleep(0.001)


@pytest.mark.slow
def test_kills_after_any_number_of_bytes_never_show_a_wrong_file(full, tmp_path):
    rng, target = random.Random(4), tmp_path / FILE.name
    part = tmp_path / "numbers.bin.part"
    for _ in range(10 if full else 3):
        with serving(drip) as server:
            process = child(server, tmp_path)
            enough = rng.randrange(len(CONTENT))
            while process.poll() is None and written(part) < enough:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert not target.exists() or target.read_bytes() == CONTENT
        target.unlink(missing_ok=True)
    with serving(whole) as server:
        fetch(source(server.url), tmp_path)
    assert target.read_bytes() == CONTENT
    assert names(tmp_path) == [FILE.name]


def written(path: Path) -> int:
    """The bytes of a file; 0 where there is none, or none any more."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


FULL_DISK = """
import resource
for room in range(0, 300_000, 15_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        download.fetch(source, folder, progress=False)
    except OSError as error:
        print(type(error).__name__, error, file=sys.stderr)
    assert not (folder / "numbers.bin").exists()
    assert (folder / "more.bin").stat().st_size == 1_000
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
download.fetch(source, folder, progress=False)
"""


def test_a_full_disk_is_told_and_harms_nothing(tmp_path):
    """Twenty sizes of file that the system will not exceed; then room again."""
    (tmp_path / OTHER.name).write_bytes(CONTENT[:1_000])
    with serving(whole) as server:
        process = child(server, tmp_path, FULL_DISK)
        told = process.communicate()[1].splitlines()
    assert process.returncode == 0, told
    assert len(told) == 20
    start = f"OSError numbers: cannot write its 300,000 bytes into {tmp_path}: File too large;"
    assert all(line.startswith(start) for line in told)
    assert "set LNLAB_DATA" in told[0]
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert (tmp_path / OTHER.name).read_bytes() == CONTENT[:1_000]


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """`folder` without the right to write, for root too, who would not need it."""
    user = os.geteuid()
    modes = {path: path.stat().st_mode for path in (folder, *folder.parents)}
    folder.chmod(0o555)
    if user == 0:
        for parent in folder.parents:
            if modes[parent] & 0o011 != 0o011:
                parent.chmod(modes[parent] | 0o011)
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for path, mode in modes.items():
            if path.stat().st_mode != mode:
                path.chmod(mode)


def test_a_read_only_folder_is_told(tmp_path):
    with serving(whole) as server, read_only(tmp_path):
        with pytest.raises(
            PermissionError, match=rf"numbers: cannot write .* into {tmp_path}/"
        ):
            fetch(source(server.url), tmp_path / "numbers")
        with pytest.raises(PermissionError, match=rf"into {tmp_path}: Perm.*set LNLAB_DATA"):
            fetch(source(server.url), tmp_path)
    assert server.asked == []


def test_a_read_only_folder_that_is_complete_is_enough(tmp_path):
    with serving(whole) as server:
        fetch(source(server.url), tmp_path)
        with read_only(tmp_path):
            assert fetch(source(server.url), tmp_path) == tmp_path
    assert len(server.asked) == 1


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "numbers").write_text("not a folder")
    with serving(whole) as server, pytest.raises(FileExistsError, match="numbers: cannot"):
        fetch(source(server.url), tmp_path / "numbers")


@pytest.mark.network
def test_the_mirrors_of_mnist_have_it(tmp_path):
    for url in images.MNIST.urls[:2]:
        one = Source(
            "mnist", "", "official", "", "", "images", urls=(url,), files=images.MNIST.files
        )
        download.fetch(one, tmp_path / hashlib.sha256(url.encode()).hexdigest(), progress=False)


def test_mnist_fetched_by_name_is_found_by_name(tmp_path, monkeypatch):
    """The real files from a server of our own: fetch, damage, refuse, fetch, load."""
    folder = os.environ.get("LNLAB_TEST_DATA")
    if not folder or not (Path(folder) / "mnist").is_dir():
        pytest.skip("set LNLAB_TEST_DATA to a folder that holds mnist/ with the real files")

    def real(request):
        send(request, (Path(folder) / "mnist" / request.path.strip("/")).read_bytes())

    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    with serving(real) as server:
        local = Source(
            "mnist",
            "",
            "official",
            "",
            "",
            "images",
            urls=(server.url,),
            files=images.MNIST.files,
        )
        fetch(local)
        labels = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
        labels.write_bytes(labels.read_bytes()[:-100])
        with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte\.gz: truncated gzip"):
            _ = data.load("mnist").train
        fetch(local)
    assert data.load("mnist").checksum == images.MNIST.checksum
    assert len(server.asked) == 5
