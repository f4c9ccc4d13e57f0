"""pyproject.toml, the lock, environment.yml, CITATION.cff and the code say the same."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import lnlab
from tests.test_architecture import MODULES, imported

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = [Requirement(r) for r in PROJECT["project"]["dependencies"]]
EXTRAS = {
    extra: [Requirement(r) for r in listed]
    for extra, listed in PROJECT["project"]["optional-dependencies"].items()
}
GROUPS = {
    name: [Requirement(r) for r in group]
    for name, group in PROJECT["dependency-groups"].items()
}
LOCKED = [r for extra, listed in EXTRAS.items() for r in listed if extra != "triton"]
BUILD = [Requirement(r) for r in PROJECT["build-system"]["requires"]]
OPTIONAL = [requirement for listed in EXTRAS.values() for requirement in listed]
DECLARED = {canonicalize_name(r.name) for r in RUNTIME + OPTIONAL}
PYTHONS = ("3.11", "3.12")
# declared, and needed without an import: served, started or read as a file
SERVED = {"jupyterlab", "jupyter-server", "ipykernel"}


def locked() -> list[tuple[Requirement, list[str]]]:
    """Each line of the lock, with its hashes."""
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(Requirement(line.split("--hash")[0]), line.split("--hash=")[1:]) for line in lines]


def pins(python: str) -> dict[str, Version]:
    """What the lock installs on Linux with this Python."""
    system = {"python_version": python, "python_full_version": f"{python}.0"}
    system |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return {
        canonicalize_name(r.name): Version(next(iter(r.specifier)).version)
        for r, _ in locked()
        if r.marker is None or r.marker.evaluate(system)
    }


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(
    "wanted", [*RUNTIME, *LOCKED, *BUILD, *(r for g in GROUPS.values() for r in g)], ids=str
)
def test_lock_satisfies_what_is_declared(wanted, python):
    name = canonicalize_name(wanted.name)
    if name == "torch":
        assert name not in pins(python), "the user's index decides which torch"
    else:
        assert pins(python)[name] in wanted.specifier


def test_every_line_of_the_lock_is_an_exact_version_with_hashes_and_no_address():
    for requirement, hashes in locked():
        (specifier,) = requirement.specifier
        assert specifier.operator == "=="
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", digest) for digest in hashes)
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links|^-|/", text, re.M)


def test_torch_is_one_version_everywhere():
    (pin,) = next(r.specifier for r in RUNTIME if r.name == "torch")
    assert pin.operator == "=="
    for name in ("environment.yml", "Makefile", "docs/install.md"):
        text = (ROOT / name).read_text()
        assert all(v == pin.version for v in re.findall(r"torch==([\d.]+)", text))


def test_the_group_torch_is_what_torch_needs():
    needed = [Requirement(r) for r in requires("torch") or []]
    # the builds for CUDA bring their own libraries, from torch's index
    needed = [r for r in needed if not re.match(r"nvidia|triton|cuda", r.name)]
    required = {canonicalize_name(r.name) for r in needed if "extra" not in str(r.marker)}
    assert {canonicalize_name(r.name) for r in GROUPS["torch"]} == required


def test_environment_brings_torch_for_the_cpu_and_the_extras():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, torch, pip, packages = environment["dependencies"]
    assert environment["name"] == PROJECT["project"]["name"]
    assert pip == "pip"
    wanted = ",".join(extra for extra in EXTRAS if extra != "triton")
    assert packages == {"pip": [f"--editable .[{wanted}]"]}
    assert torch == "pytorch-cpu=" + next(iter(RUNTIME[0].specifier)).version
    version = python.removeprefix("python=")
    assert version in PYTHONS
    classifier = f"Programming Language :: Python :: {version}"
    assert classifier in PROJECT["project"]["classifiers"]


def test_what_is_imported_is_declared_and_what_is_declared_is_used():
    # those of extras need not be here
    extras = {r.name.replace("-", "_"): [r.name] for r in OPTIONAL}
    distributions, used = extras | dict(packages_distributions()), set()
    for path in MODULES:
        for name in {name.split(".")[0] for name in imported(path)}:
            if name not in sys.stdlib_module_names | {"lnlab"}:
                owners = {canonicalize_name(owner) for owner in distributions[name]}
                assert owners & DECLARED, f"{name}, imported by {path}, is not declared"
                used |= owners
    assert not DECLARED - used - SERVED - {"ziamath"}


WITHOUT_EXTRAS = f"""
import sys
import lnlab

class Missing:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0].replace("_", "-").lower()
        if package in {sorted(r.name for r in LOCKED)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
"""A process in which only the library's own dependencies can be imported."""


def test_the_library_works_without_the_extras(tmp_path):
    code = f"""{WITHOUT_EXTRAS}
for package in (lnlab, lnlab.nn, lnlab.data, lnlab.training, lnlab.auditing):
    for name in dir(package):
        name == "playground" or getattr(package, name)
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), lnlab.nn.LayerNorm(4))
lnlab.audit(net, torch.randn(8, 4)).save({str(tmp_path / "audit.html")!r})
lnlab.claims().save({str(tmp_path / "claims.html")!r})
from lnlab.cli import app
app(["audit", {str(tmp_path / "net.py:make")!r}, "--json"], standalone_mode=False)
"""
    (tmp_path / "net.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(4, 4), torch.randn(8, 4)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(list(tmp_path.glob("*.html"))) == 2


NEEDS = {
    "lnlab.playground": "workbook",
    "lnlab.panels.invariance": "workbook",
    "from lnlab.cli import app; app(['run', '01'])": "workbook",
    "from lnlab.papers.skip_thoughts.data import tokenize; tokenize('A b.')": "text",
    "from lnlab.papers.las import recordings; recordings.read_audio(None, 1)": "speech",
}


def test_what_needs_an_extra_says_which():
    code = f"""{WITHOUT_EXTRAS}
for code in {[*NEEDS]}:
    try:
        exec(code)
    except (ModuleNotFoundError, SystemExit) as error:
        print(error, flush=True)
"""
    command = [sys.executable, "-c", code]
    output = subprocess.check_output(command, stderr=subprocess.STDOUT, text=True)
    named = re.findall(r'is not installed: pip install "lnlab\[(\w+)\]" brings it', output)
    assert named == [*NEEDS.values()]


def test_versions_of_the_package_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == lnlab.__version__
    assert f"## [{lnlab.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_servers_with_known_holes_are_refused():
    floors = {r.name: r.specifier for r in OPTIONAL}
    assert "4.6.1" not in floors["jupyterlab"], "CVE-2026-73417"
    assert "2.19" not in floors["jupyter-server"], "CVE-2026-44727"


def built(kind: str, checkout: Path) -> Path:
    """The wheel that pip installs, of a copy of the checkout."""
    checkout.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    shutil.copytree(ROOT / "lnlab", checkout / "lnlab", ignore=shutil.ignore_patterns("*.pyc"))
    build = f"from setuptools import build_meta; build_meta.build_{kind}('built')"
    subprocess.run([sys.executable, "-c", build], cwd=checkout, check=True, capture_output=True)
    (wheel,) = (checkout / "built").glob("*.whl")
    return wheel


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_installation_brings_all_files_and_jupyterlab_its_style_sheet(kind, tmp_path):
    with zipfile.ZipFile(built(kind, tmp_path / "lnlab")) as archive:
        place = "data/share/jupyter/labextensions/lnlab/"
        names = {*archive.namelist()}
    brought = {name.split(place)[1] for name in names if place in name}
    assert brought == {"package.json", "static/style.js", "static/live_plot.css"}
    files = [
        p
        for p in (ROOT / "lnlab").rglob("*")
        if p.is_file() and p.suffix not in (".pyc", ".ts")
    ]
    missing = {path.relative_to(ROOT).as_posix() for path in files} - names
    assert kind == "editable" or not missing, "add them to package-data in pyproject.toml"


@pytest.mark.slow
def test_python_in_the_folder_that_holds_the_clone_imports_lnlab(tmp_path):
    wheel, place = built("editable", tmp_path / "lnlab"), tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    code = (
        "import site, sys; "
        f"sys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]; "  # else ours comes first
        f"site.addsitedir({str(place)!r}); from lnlab.training.runs import Run; "
        "import lnlab; print(lnlab.__file__)"
    )
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert Path(run.stdout.strip()) == tmp_path / "lnlab/lnlab/__init__.py"
