"""The Triton programs without a GPU: values by the interpreter, code by the compiler.

Triton decides when it is imported whether it interprets: each has a process of its own.
"""

import importlib.util
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from lnlab.kernels import recurrent
from lnlab.kernels.compilation import NoKernelWarning
from lnlab.kernels.fused_cells import CellKind

HERE = Path(__file__).with_name("triton")
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs Triton: pip install triton==3.7.1"
)


def passes(file, **environment):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        HERE / file,
    ]
    given = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=given, timeout=1200)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@needs_triton
@pytest.mark.slow
def test_values_and_gradients_by_the_interpreter():
    passes("values.py", TRITON_INTERPRET="1")


@needs_triton
@pytest.mark.slow
def test_code_for_three_generations_of_gpus():
    passes("builds.py", TRITON_INTERPRET="0")


def test_where_there_is_no_triton_it_says_so_once(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    recurrent.has_triton_or_warn.cache_clear()
    given = CellKind.LSTM, 8, torch.device("cuda"), torch.float32
    try:
        with pytest.warns(NoKernelWarning, match=r"lnlab\[triton\]"):
            assert not recurrent.has_triton_program(*given)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not recurrent.has_triton_program(*given)
    finally:
        recurrent.has_triton_or_warn.cache_clear()
