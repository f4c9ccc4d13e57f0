"""An epoch of a corpus that is larger than the memory that it may take."""

import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile

EPOCH = """
import resource, sys
import torch
from lnlab import data
from lnlab.papers.las import recordings

torch.set_num_threads(1)
found = data.load(sys.argv[1], "speech")
recordings.MOST = int(sys.argv[2])
_ = found.train[0].features, found.valid, found.test  # what is loaded late is loaded
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(sys.argv[3]),) * 2)
order = torch.randperm(len(found.train)).tolist()
heard = 0
for start in range(0, len(order), 8):
    batch = [found.train[place].features for place in order[start : start + 8]]
    heard += sum(features.nbytes for features in batch)
    assert [len(f) for f in batch] == [found.train[p].frames for p in order[start : start + 8]]
print(heard)
"""
MB = 2**20
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(MB // 8)}
"""What is freed goes back at once: how full glibc's heaps are of holes is chance."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, request):
    """Speech in the layout of LibriSpeech, and the memory that an epoch of it may take."""
    count, seconds = (600, 30) if request.config.getoption("--full") else (150, 10)
    folder = tmp_path_factory.mktemp("corpus")
    draw = np.random.default_rng(0)
    for part, speaker, files in (("train-clean-100", 1, count), ("test-clean", 2, 1)):
        at = folder / part / str(speaker) / "1"
        at.mkdir(parents=True)
        names = [f"{speaker}-1-{number:04}" for number in range(files)]
        (at / f"{speaker}-1.trans.txt").write_text("".join(f"{n} GO ON\n" for n in names))
        for name in names:
            noise = draw.normal(0, 0.1, seconds * 16_000).astype(np.float32)
            soundfile.write(at / f"{name}.flac", noise, 16_000)
    return folder, count * seconds


def epoch(folder, most, room):
    """Bytes of features that an epoch saw, or what the process said that died of it."""
    command = [sys.executable, "-c", EPOCH, f"librispeech={folder}", str(most), str(room)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | ALLOCATOR
    )
    return int(done.stdout) if done.returncode == 0 else done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's memory so")
def test_an_epoch_takes_the_memory_that_it_is_given(corpus):
    """And, to be sure that the limit is one, not the memory of all its features."""
    folder, seconds = corpus
    features = seconds * 100 * 123 * 4
    room = features * 2 // 3
    heard = epoch(folder, 8 * MB, room)
    assert isinstance(heard, int), heard
    assert heard > 0.99 * features > room
    died = epoch(folder, 2**40, room)
    assert isinstance(died, str)
    assert "alloc" in died.lower() or "memory" in died.lower()
