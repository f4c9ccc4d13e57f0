"""Bytes that are not the ones that were written: refused, whatever was done to them."""

import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lnlab.training.runs import Run

CONFIG = {"norm": "layer", "units": [8, 8], "learning_rate": 1e-3}
DATA = {"name": "digits", "kind": "embedded", "checksum": "abc", "licence": "BSD"}


def begin(root: Path) -> Run:
    return Run.open("mnist", CONFIG, DATA, root)


def mutated(content: bytes, chance: random.Random) -> bytes:
    """One of: bits flipped, a piece cut out, doubled, replaced or torn off; text exchanged."""
    place, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    kind = chance.randrange(7)
    if kind == 0:
        place = min(place, len(content) - 1)
        flipped = content[place] ^ (1 << chance.randrange(8))
        return content[:place] + bytes([flipped]) + content[place + 1 :]
    if kind == 1:
        return content[:place]
    if kind == 2:
        return content[:place] + content[end:]
    if kind == 3:
        return content[:end] + content[place:]
    if kind == 4:
        return content[:place] + chance.randbytes(end - place) + content[end:]
    if kind == 5:
        words = [
            b"null",
            b"[]",
            b"1e999",
            b"-1",
            b"NaN",
            b"{}",
            b"\xff\xfe",
            b"\0",
            b"[" * 9999,
        ]
        return content[:place] + chance.choice(words) + content[min(place + 4, end) :]
    old, new = chance.sample([b"1", b"0", b'"', b":", b"{", b"}", b",", b"a"], 2)
    return content.replace(old, new)


def outcome(read: Callable[[], object]) -> tuple[object, str]:
    """What is read, or the complaint; anything but a ValueError is a crash."""
    try:
        return read(), ""
    except ValueError as error:
        return None, str(error)


@pytest.fixture
def finished(tmp_path) -> Run:
    with begin(tmp_path) as run:
        for update in range(20):
            run.log({"update": update, "seed": update % 2, "nll": 1 / (1 + update)})
        run.finish({"seconds": 1.5, "updates": 20}, {"0.W": torch.randn(20, 20)})
    return run


READ = {
    "config.json": lambda folder: (Run(folder).config, Run(folder).data),
    "environment.json": lambda folder: Run(folder).environment,
    "metrics.jsonl": lambda folder: Run(folder).metrics().to_csv(),
    "result.json": lambda folder: (Run(folder).result, Run(folder).metrics().to_csv()),
    "weights.safetensors": lambda folder: str(Run(folder).weights()),
}


@pytest.mark.stress
@pytest.mark.parametrize("name", READ)
def test_no_mutation_of_a_finished_run_is_taken_for_the_original(name, finished, full):
    """All hashes are known: every change is refused, at once, and the file is named."""
    chance, path = random.Random(name), finished.folder / name
    whole, right = path.read_bytes(), READ[name](finished.folder)
    tried = 0
    while tried < (2000 if full else 200):
        damaged = mutated(whole, chance)
        path.write_bytes(damaged)
        if damaged == whole:
            continue
        tried += 1
        began = time.process_time()
        found, complaint = outcome(lambda: READ[name](finished.folder))
        if complaint:
            assert str(finished.folder) in complaint
            assert "damaged" in complaint
        else:  # the same value in other words (a space more) is no other value
            assert found == right
            assert name == "result.json"
        assert time.process_time() - began < 2


@pytest.mark.stress
@pytest.mark.parametrize("name", ["config.json", "environment.json", "metrics.jsonl"])
def test_no_mutation_of_a_growing_run_crashes(name, tmp_path, full):
    """Its hashes are not known yet: a value may be another one, but it is one of its kind."""
    with begin(tmp_path) as run:
        for update in range(20):
            run.log({"update": update, "nll": 1 / (1 + update)})
    chance, path = random.Random(name), run.folder / name
    whole = path.read_bytes()
    for _ in range(2000 if full else 200):
        path.write_bytes(mutated(whole, chance))
        found, complaint = outcome(lambda: looked_at(run.folder))
        assert found == CONFIG or "damaged" in complaint


def looked_at(folder: Path) -> dict:
    run = Run(folder)
    run.metrics()
    run.environment.get("torch")
    return run.config


@pytest.mark.stress
def test_no_damaged_checkpoint_is_resumed_from(tmp_path):
    """200 truncations and 300 flipped bits of the state: 500 of 500."""
    with begin(tmp_path) as run:
        run.log({"update": 1})
        run.checkpoint({"W": torch.randn(50, 50), "step": 3})
    path, chance = run.folder / "checkpoint.bin", random.Random(0)
    whole, refused = path.read_bytes(), 0
    bits = [(chance.randrange(len(whole)), 1 << chance.randrange(8)) for _ in range(300)]
    damages = [whole[: chance.randrange(len(whole))] for _ in range(200)]
    damages += [whole[:n] + bytes([whole[n] ^ bit]) + whole[n + 1 :] for n, bit in bits]
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"checkpoint\.bin is damaged"):
            begin(tmp_path)
        refused += 1
    assert refused == 500
    path.write_bytes(whole)
    with begin(tmp_path) as run:
        assert run.restore() is not None


@pytest.mark.stress
@pytest.mark.parametrize("name", ["metrics.jsonl", "config.json", "environment.json"])
def test_no_damaged_record_of_a_checkpoint_is_resumed_from(name, tmp_path, full):
    with begin(tmp_path) as run:
        for update in range(12):
            run.log({"update": update})
        run.checkpoint({"step": 11})
    chance, path = random.Random(name), run.folder / name
    metrics, whole = run.folder / "metrics.jsonl", path.read_bytes()
    rows = metrics.read_bytes()
    for _ in range(2000 if full else 200):
        path.write_bytes(mutated(whole, chance))
        found, complaint = outcome(lambda: restored(tmp_path))
        if complaint:
            assert "damaged" in complaint
            metrics.write_bytes(rows)
        else:  # rows beyond those that the checkpoint has seen are cut off
            assert found == {"step": 11}
            assert metrics.read_bytes() == rows


def restored(root: Path) -> dict | None:
    with begin(root) as run:
        return run.restore()


@pytest.mark.stress
def test_disk_full_at_any_size_leaves_what_was_there(tmp_path):
    """Twenty limits on how large a file may become; each in a process of its own."""
    code = """
    import os, resource, signal, sys
    from pathlib import Path
    import torch
    from lnlab.training.runs import Run, environment

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    environment()
    for size in map(int, sys.argv[2:]):
        if os.fork():
            os.wait()
            continue
        run = Run.open("mnist", {"size": size}, {"checksum": "abc"}, Path(sys.argv[1]))
        run.log({"update": 1})
        run.checkpoint({"W": torch.ones(10)})
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            run.log({"text": "x" * 30_000})
        except OSError as error:
            print(size, "told", error.filename.endswith("metrics.jsonl"))
        try:
            run.checkpoint({"W": torch.ones(10_000)})
        except OSError as error:
            print(size, "told", error.filename.startswith(str(run.folder)))
        os._exit(0)
    """
    sizes = [str(n) for n in range(200, 40_200, 2_000)]
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), *sizes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(sizes) == 20
    assert all(line.endswith("told True") for line in said), said
    assert {line.split()[0] for line in said} == set(sizes)
    for size in sizes:
        with Run.open("mnist", {"size": int(size)}, {"checksum": "abc"}, tmp_path) as run:
            back = run.restore()
            assert back is not None
            assert len(back["W"]) in (10, 10_000)
            assert run.metrics()["update"].iloc[0] == 1
            assert not list(run.folder.glob("*.part"))
