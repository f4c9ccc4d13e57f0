"""Every test starts from the same numbers: float64, a seed, one thread."""

import os
from pathlib import PurePath

import pytest
import torch

HEAVY = ("browser", "slow")
"""Markers of what takes long, longest first."""


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where gpu tests run: cuda, mps, pretend")
    parser.addoption("--pages", default="", help="what `lnlab run` left, to move its sliders")
    parser.addoption("--network", action="store_true", help="also run tests that download")


def pytest_configure(config):
    if not config.getoption("--device").startswith("cuda"):
        # the device "auto" is the CPU, whose bytes tests compare; in processes of theirs, too
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if config.getoption("--device") == "pretend":
        from tests.pretend import register

        register()  # torch counts the devices at the first backward pass, and never again


def pytest_collection_modifyitems(config, items):
    closed = {
        "gpu": config.getoption("--device") == "cpu" and "needs --device cuda",
        "network": not config.getoption("--network") and "needs --network",
    }
    for item in items:
        for marker, reason in closed.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
    items[:] = longest_first(items)


def longest_first(items):
    """The tests in their order, but for files with heavy ones, which come before all others:
    one that began last would keep a single core busy at the end. Then come notebooks."""
    ranks = {}
    for item in items:
        found = [i for i, name in enumerate(HEAVY) if item.get_closest_marker(name)]
        rank = min(found, default=len(HEAVY) + (item.path.suffix != ".ipynb"))
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    return sorted(items, key=lambda item: ranks[item.path])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With ``--dist loadfile`` a process gets whole files, and all of ``tests/browser``, as
    one JupyterLab is enough."""
    from xdist.scheduler import LoadFileScheduling

    if config.getoption("dist") != "loadfile":
        return None

    class WholeFiles(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "browser" if "browser" in PurePath(file).parts else file

    return WholeFiles(config, log)


@pytest.fixture(autouse=True, scope="session")
def same_numbers_throughout():
    """The same numbers also where a fixture outlives a test."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)  # on their number depend the last bits of sums


@pytest.fixture(autouse=True)
def same_numbers():
    """Float64 by default, a fixed seed, and one thread again."""
    before = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before[0])
    torch.set_num_threads(before[1])


@pytest.fixture
def device(request):
    """The device named by ``--device``; the CPU without it, or one that is pretended."""
    name = request.config.getoption("--device")
    if name != "pretend":
        yield torch.device(name)
        return
    from tests.pretend import pretending

    with pretending():
        yield torch.device("pretend", 0)


@pytest.fixture
def randomize():
    """Makes the parameters of a module ones that no start value and no mix-up equals."""

    @torch.no_grad()
    def randomize_parameters(module):
        for parameter in module.parameters():
            parameter.copy_(0.5 + torch.rand_like(parameter))
        return module

    return randomize_parameters


@pytest.fixture
def outcome():
    """An output and the gradients, by name, of one random function of it."""

    def taken(output, **leaves):
        generator = torch.Generator().manual_seed(1)
        direction = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        gradients = torch.autograd.grad(
            output, list(leaves.values()), direction.to(output), retain_graph=True
        )
        return {"output": output.detach(), **dict(zip(leaves, gradients, strict=True))}

    return taken


@pytest.fixture
def strings():
    """Every text that a figure holds, wherever it stands."""

    def within(part):
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            for value in part.values():
                yield from within(value)
        elif isinstance(part, list | tuple):
            for value in part:
                yield from within(value)

    return lambda figure: list(
        within(figure if isinstance(figure, dict) else figure.to_plotly_json())
    )


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium, headless; without one the test is skipped.

    One for all tests: a second one cannot be driven beside it from the same thread.
    """
    from benchmarks._jupyterlab import chromium, find_chromium  # playwright takes a second

    if find_chromium() is None:
        pytest.skip("no Chromium or Chrome on the PATH: apt-get install chromium")
    with chromium() as started:
        yield started
