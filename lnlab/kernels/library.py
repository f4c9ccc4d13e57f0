"""KernelLibrary libraries: built from C++ by the machine's own compiler when first needed.

Each is kept in the user's cache under a name made of everything it depends on (sources, flags,
compiler, processor), so that an old build is never taken for a new one. A build appears
there at once and whole: two processes may build at the same time. Where the cache cannot be
written, the build lives as long as the process.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).with_name("cpp")
"""The sources of recurrent layers, and what those of other folders include of them."""
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno")


class NoKernel(UserWarning):
    """There is no compiled library; torch's operators do its work, several times slower."""


class BuildError(RuntimeError):
    """The library cannot be compiled here; the message says why and what to do."""


def fields(names: str, kind: type) -> list[tuple[str, type]]:
    """Fields of a C structure, by the names in a row, all of one type."""
    return [(name, kind) for name in names.split()]


class Problem(ctypes.Structure):
    """``struct Problem`` of cpp/sequences.h: sizes, and pointers that may be null."""

    _fields_ = [
        *fields(
            "kernel is_double T B D H reverse threads own_cache from_batch", ctypes.c_int64
        ),
        *fields("lengths eps x h0 c0 W_x W_h parameters mask", ctypes.c_void_p),
        *fields("statistics y h_n c_n saved dy dh_n dc_n", ctypes.c_void_p),
        *fields("dx dh0 dc0 dW_x dW_h dparameters", ctypes.c_void_p),
    ]


class KernelLibrary(NamedTuple):
    """A library to be compiled.

    Attributes:
        name: its source is the file NAME.cpp.
        purpose: whose work it does, in words.
        problem: the argument of its functions.
        folder: where its sources lie, besides :data:`SOURCES`; None: only there.
    """

    name: str
    purpose: str
    problem: type[ctypes.Structure]
    folder: Path | None = None

    @property
    def folders(self) -> list[Path]:
        """The folders of its sources, the one with NAME.cpp first."""
        return [SOURCES] if self.folder is None else [self.folder, SOURCES]

    @property
    def sources(self) -> list[Path]:
        """All files that it may be made of."""
        return [
            path
            for folder in self.folders
            for path in sorted(folder.iterdir())
            if path.suffix in (".cpp", ".h")
        ]


RECURRENCE = KernelLibrary("recurrence", "recurrent layers", Problem)


@functools.cache
def library(of: KernelLibrary = RECURRENCE) -> ctypes.CDLL | None:
    """A library, ready to be called; None, with one :class:`NoKernel` warning, where it cannot
    be had."""
    try:
        path = build(cache(), of)
        return signed(ctypes.CDLL(str(path)), of.problem)
    except (BuildError, OSError) as error:
        warnings.warn(
            f"{error} Torch's operators do the work of {of.purpose} instead: the same "
            "results, several times slower.",
            NoKernel,
            stacklevel=2,
        )
        return None


def cache() -> Path:
    """The folder of the builds: ``LNLAB_CACHE``, or lnlab's folder in the user's cache."""
    if given := os.environ.get("LNLAB_CACHE"):
        return Path(given) / "kernels"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "lnlab" / "kernels"


def build(folder: Path, of: KernelLibrary = RECURRENCE) -> Path:
    """A library in ``folder``, compiled unless it is there already.

    Raises:
        BuildError: there is no compiler, or it failed.
    """
    command = [*compiler(), *FLAGS, native()]
    target = folder / f"{of.name}-{key(command, of)}.so"
    if intact(target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place = tempfile.mkdtemp(dir=folder)
    except OSError:  # read-only: for this process only
        return compile_into(Path(_of_this_process().name) / target.name, command, of)
    try:
        built = compile_into(Path(place) / target.name, command, of)
        os.replace(seal(built), seal(target))
        os.replace(built, target)
        return target
    finally:
        shutil.rmtree(place, ignore_errors=True)


def compiler() -> list[str]:
    """The command in ``CXX``, or the first C++ compiler on the path.

    Raises:
        BuildError: if there is none.
    """
    if given := os.environ.get("CXX"):
        return shlex.split(given)
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return [found]
    raise BuildError("No C++ compiler was found: install g++ or clang++, or set CXX.")


def native() -> str:
    """The flag that asks for this very processor."""
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
    return "-march=native" if x86 else "-mcpu=native"


def key(command: list[str], of: KernelLibrary) -> str:
    """A digest of all that the build depends on.

    Raises:
        BuildError: if the compiler cannot be run.
    """
    try:
        version = subprocess.run(
            [*compiler(), "--version"], capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"The compiler {command[0]} cannot be run ({error}): set CXX."
        ) from error
    digest = hashlib.sha256("\0".join([*command, version, processor()]).encode())
    for source in of.sources:
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:24]


def processor() -> str:
    """The abilities of this processor: a cache may be shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return "\n".join(sorted(set(told)))


@functools.cache
def own_cache(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """The bytes of the second-level cache that a thread has for itself; 0 where nobody says."""
    for index in sorted(folder.glob("index*")):
        names = "level", "size", "shared_cpu_list"
        try:
            level, size, threads = ((index / name).read_text().strip() for name in names)
            if level == "2":
                return 1024 * int(size.removesuffix("K")) // numbered(threads)
        except (OSError, ValueError):
            continue
    return 0


def numbered(ranges: str) -> int:
    """The count of the numbers in a list of ranges: 5 in 0-3,64."""
    ends = [[int(end) for end in part.split("-")] for part in ranges.split(",")]
    return sum(part[-1] - part[0] + 1 for part in ends)


def compile_into(target: Path, command: list[str], of: KernelLibrary) -> Path:
    """Compile a library into ``target`` and write the SHA-256 of the result beside it.

    Raises:
        BuildError: if the compiler cannot be run or fails; has its last words.
    """
    print(f"lnlab: compiling the kernels of {of.purpose}, once (10 to 20 s)", file=sys.stderr)
    folders = [f"-I{folder}" for folder in of.folders]
    source = of.folders[0] / f"{of.name}.cpp"
    whole = [*command, *folders, str(source), "-o", str(target)]
    try:
        done = subprocess.run(whole, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"The compiler could not be run: {error}.") from error
    if done.returncode or not target.is_file():
        reason = done.stderr.strip()[-600:] or f"exit code {done.returncode}"
        raise BuildError(f"The compiler failed ({shlex.join(whole)}):\n{reason}\n")
    seal(target).write_text(hashlib.sha256(target.read_bytes()).hexdigest())
    return target


def seal(target: Path) -> Path:
    """The file that holds the digest of a build."""
    return target.with_suffix(".sha256")


def intact(target: Path) -> bool:
    """True if ``target`` is a build, and the one that was sealed."""
    try:
        return hashlib.sha256(target.read_bytes()).hexdigest() == seal(target).read_text()
    except OSError:
        return False


@functools.cache
def _of_this_process() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="lnlab-")


def signed(lib: ctypes.CDLL, problem: type[ctypes.Structure]) -> ctypes.CDLL:
    """The library, its functions told of their arguments."""
    for name in ("saved_bytes", "forward", "backward", "floor_of"):
        function = getattr(lib, name)
        function.argtypes, function.restype = [ctypes.POINTER(problem)], ctypes.c_int64
    lib.take.argtypes, lib.take.restype = [ctypes.c_int64], ctypes.c_void_p
    lib.give.argtypes, lib.give.restype = [ctypes.c_void_p], None
    return lib
