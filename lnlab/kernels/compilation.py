"""C++ libraries, compiled by the machine's own compiler when they are first needed.

A build stands in the user's cache under a name made of all that it depends on (sources, flags,
compiler, processor), so that an old build is never taken for a new one. It is moved there when
it is complete: two processes may build at the same time. If the cache cannot be written, the
build lasts as long as the process.
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
from typing import Any, NamedTuple

SOURCES = Path(__file__).with_name("cpp")
"""Sources of recurrent layers; those of other folders include some of them."""
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno")


class NoKernelWarning(UserWarning):
    """No compiled library: torch's operators compute the same, several times slower."""


class BuildError(RuntimeError):
    """The library cannot be compiled here; the message says why and what to do."""


def ctypes_fields(names: str, kind: type) -> list[tuple[str, type]]:
    """Return fields of a C structure, all of one type, from their names in a string."""
    return [(name, kind) for name in names.split()]


class Problem(ctypes.Structure):
    """``struct Problem`` of cpp/sequences.h: sizes, and pointers that may be null."""

    _fields_ = [
        *ctypes_fields(
            "kernel is_double T B D H reverse threads own_cache from_batch", ctypes.c_int64
        ),
        *ctypes_fields("lengths eps x h0 c0 W_x W_h parameters mask", ctypes.c_void_p),
        *ctypes_fields("statistics y h_n c_n saved dy dh_n dc_n", ctypes.c_void_p),
        *ctypes_fields("dx dh0 dc0 dW_x dW_h dparameters", ctypes.c_void_p),
    ]


class KernelLibrary(NamedTuple):
    """A library to be compiled."""

    name: str  # its source is the file NAME.cpp
    purpose: str  # what it computes, in words
    problem: type[ctypes.Structure]  # the argument of its functions
    # the folder of its sources, besides :data:`SOURCES`; None: only there
    additional_source_folder: Path | None = None

    @property
    def source_folders(self) -> list[Path]:
        """The folders of its sources, the one with NAME.cpp first."""
        return (
            [SOURCES]
            if self.additional_source_folder is None
            else [self.additional_source_folder, SOURCES]
        )


RECURRENCE = KernelLibrary("recurrence", "recurrent layers", Problem)


@functools.cache
def library(kernels: KernelLibrary = RECURRENCE) -> ctypes.CDLL | None:
    """Return a library, compiled if need be; warn once and return None if it cannot be had."""
    try:
        path = build_library(kernel_cache_folder(), kernels)
        return declare_library_functions(ctypes.CDLL(str(path)), kernels.problem)
    except (BuildError, OSError) as error:
        warnings.warn(
            f"{error} Torch's operators do the work of {kernels.purpose} instead: the same "
            "results, several times slower.",
            NoKernelWarning,
            stacklevel=2,
        )
        return None


def kernel_cache_folder() -> Path:
    """Return the folder of builds: ``LNLAB_CACHE``, or lnlab's folder in the user's cache."""
    if given := os.environ.get("LNLAB_CACHE"):
        return Path(given) / "kernels"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "lnlab" / "kernels"


def build_library(folder: Path, kernels: KernelLibrary = RECURRENCE) -> Path:
    """Return the path of a library in ``folder``, compiled unless it is there already."""
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
    # for the processor of this machine
    command = [*find_cxx_compiler(), *FLAGS, "-march=native" if x86 else "-mcpu=native"]
    target = folder / f"{kernels.name}-{hash_build_inputs(command, kernels)}.so"
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=folder)
    except OSError:  # read-only: for this process only
        target = Path(_one_temporary_folder_per_process().name) / target.name
        temporary = tempfile.TemporaryDirectory(dir=target.parent)
    with temporary:
        built = compile_into(Path(temporary.name) / target.name, command, kernels)
        with built.open("rb") as file:
            os.fsync(file.fileno())
        # on the disk and moved as a whole: whoever looks finds all of it or nothing
        os.replace(built, target)
    return target


def find_cxx_compiler() -> list[str]:
    """Return the command in ``CXX``, or the first C++ compiler on the path."""
    if given := os.environ.get("CXX"):
        return shlex.split(given)
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return [found]
    raise BuildError("No C++ compiler was found: install g++ or clang++, or set CXX.")


def hash_build_inputs(command: list[str], kernels: KernelLibrary) -> str:
    """Return a digest of all that the build depends on."""
    try:
        version = subprocess.run(
            [*find_cxx_compiler(), "--version"], capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"The compiler {command[0]} cannot be run ({error}): set CXX."
        ) from error
    digest = hashlib.sha256("\0".join([*command, version, describe_processor()]).encode())
    for source in (
        path for folder in kernels.source_folders for path in sorted(folder.iterdir())
    ):
        if source.suffix in (".cpp", ".h"):
            digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:24]


def describe_processor() -> str:
    """Return model and features of the processor: machines may share a cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    features = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return "\n".join(sorted(set(features)))


@functools.cache
def l2_bytes_per_thread() -> int:
    """Return the bytes of second-level cache per thread; 0 if unknown."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        names = "level", "size", "shared_cpu_list"
        try:
            level, size, threads = ((index / name).read_text().strip() for name in names)
            if level == "2":
                return 1024 * int(size.removesuffix("K")) // count_numbers_in_ranges(threads)
        except (OSError, ValueError):
            continue
    return 0


def count_numbers_in_ranges(ranges: str) -> int:
    """Return how many numbers a list of ranges has: 5 in 0-3,64."""
    ends = [[int(end) for end in item.split("-")] for item in ranges.split(",")]
    return sum(end[-1] - end[0] + 1 for end in ends)


def compile_into(target: Path, command: list[str], kernels: KernelLibrary) -> Path:
    """Compile a library into ``target``."""
    print(
        f"lnlab: compiling the kernels of {kernels.purpose}, once (10 to 20 s)", file=sys.stderr
    )
    source_folders = [f"-I{folder}" for folder in kernels.source_folders]
    source = kernels.source_folders[0] / f"{kernels.name}.cpp"
    arguments = [*command, *source_folders, str(source), "-o", str(target)]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"The compiler could not be run: {error}.") from error
    if done.returncode or not target.is_file():
        reason = done.stderr.strip()[-600:] or f"exit code {done.returncode}"
        raise BuildError(f"The compiler failed ({shlex.join(arguments)}):\n{reason}\n")
    return target


@functools.cache
def _one_temporary_folder_per_process() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="lnlab-")


def declare_library_functions(lib: ctypes.CDLL, problem: type[ctypes.Structure]) -> ctypes.CDLL:
    """Declare the arguments and results of a library's functions; return it."""
    for name in ("saved_bytes", "forward", "backward", "floor_of"):
        function = getattr(lib, name)
        function.argtypes, function.restype = [ctypes.POINTER(problem)], ctypes.c_int64
    lib.take.argtypes, lib.take.restype = [ctypes.c_int64], ctypes.c_void_p
    lib.give.argtypes, lib.give.restype = [ctypes.c_void_p], None
    return lib


def call_library_or_raise(lib: ctypes.CDLL, name: str, problem: Any) -> int:
    """Call a function of a library by name; return its result, bytes or 0."""
    result = getattr(lib, name)(ctypes.byref(problem))
    if result < 0:
        raise MemoryError(f"no memory for {problem.T} steps of {problem.B} sequences.")
    return result
