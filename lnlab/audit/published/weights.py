"""Weights of somebody else's training, from a safetensors file into a net."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn


def loaded(net: nn.Module, path: str | Path) -> nn.Module:
    """``net`` with the weights of a file, in evaluation mode.

    A prefix ``module.``, which DataParallel leaves, is taken off. What counts batches may be
    missing: early versions of torch did not.

    Raises:
        FileNotFoundError: where there is no such file.
        ValueError: where it is no safetensors file, or one of another net.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: name one with the weights.")
    try:
        found = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from error
    state = {name.removeprefix("module."): value for name, value in found.items()}
    own = net.state_dict()
    missing = sorted(n for n in own.keys() - state.keys() if not n.endswith("_tracked"))
    strange = sorted(state.keys() - own.keys())
    wrong = sorted(n for n in own.keys() & state.keys() if own[n].shape != state[n].shape)
    if missing or strange or wrong:
        raise ValueError(
            f"{path} is not of {type(net).__name__}: missing {missing[:3]}, not known "
            f"{strange[:3]}, of another shape {wrong[:3]}."
        )
    net.load_state_dict(state, strict=False)
    return net.eval()
