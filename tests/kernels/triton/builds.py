# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""The Triton programs as code for three generations of GPUs, made on a machine without any.

Run by tests/kernels/test_triton.py, in a process that does not interpret them.
"""

import re
import subprocess
from itertools import product
from pathlib import Path

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from lnlab.kernels import triton_programs as programs
from lnlab.kernels.recurrent import MAX_UNITS
from lnlab.kernels.triton_programs import launch_settings

SHARED = {80: 163, 90: 227, 100: 227}
"""KiB of shared memory that a block may have, by compute capability (CUDA's guide, table of
technical specifications)."""

UNITS = (128, 400, 1024, MAX_UNITS)

POINTERS = ("t", "B"), ("eps_h", "eps_c", "eps_U", "eps")
"""Whole numbers and floating-point ones among the arguments; the others are tensors."""


def built(program, H, target, **flags):
    """The compiled program, for tensors of float32."""
    constants = {**launch_settings(H), **flags}
    warps = constants.pop("num_warps")
    signature = dict.fromkeys(program.arg_names, "*fp32")
    whole, floating = POINTERS
    signature |= dict.fromkeys(whole, "i32")
    signature |= {name: "fp32" for name in floating if name in signature}
    signature |= dict.fromkeys(constants, "constexpr")
    signature["lengths"] = "*i64" if constants["RAGGED"] else "constexpr"
    if not constants["RAGGED"]:
        constants["lengths"] = None
    source = ASTSource(fn=program, signature=signature, constexprs=constants)
    return triton.compile(
        source, target=GPUTarget("cuda", target, 32), options={"num_warps": warps}
    )


def resources(binary, folder):
    """Registers, stack and local memory of a binary, in numbers and bytes: spills are local."""
    (file := folder / "program.cubin").write_bytes(binary)
    tool = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    told = subprocess.run(
        [tool, "--dump-resource-usage", file], capture_output=True, text=True, check=True
    ).stdout
    found = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", told))
    return {name: int(number) for name, number in found.items()}


PROGRAMS = [
    *product(
        [
            programs.lstm_step_forward,
            programs.lstm_step_backward,
            programs.rnn_step_forward,
            programs.rnn_step_backward,
        ],
        [{}],
    ),
    *product(
        [programs.gru_step_forward, programs.gru_step_backward], [{"OPEN_GATE_KEEPS": False}]
    ),
]


@pytest.mark.parametrize("H", UNITS)
@pytest.mark.parametrize("target", SHARED)
def test_programs_are_built_without_spills_and_within_shared_memory(target, H, tmp_path):
    for program, flags in PROGRAMS:
        made = built(program, H, target, RAGGED=UNITS[1] != H, **flags)
        used = resources(made.asm["cubin"], tmp_path)
        where = f"{program.__name__} {flags} for {H} units on sm_{target}: {used}"
        assert used["STACK"] == used["LOCAL"] == 0, where
        assert 0 < used["REG"] <= 255, where
        assert made.metadata.shared <= SHARED[target] * 1024, where
