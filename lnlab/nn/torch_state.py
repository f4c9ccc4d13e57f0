"""Conversion of parameters to torch's names; ``load_state_dict`` reads torch's by itself."""

from torch import Tensor, nn

from lnlab.nn.linear import LayerWithNorm
from lnlab.nn.normalizer import Normalizer
from lnlab.nn.recurrent import Recurrent


def torch_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return a state dict of ``model`` that the same network of torch.nn modules can load.

    Parameters of lnlab's layers and norms get torch's names, shapes and order of gates; all
    others are as in ``model.state_dict()``. In the other direction, ``load_state_dict`` of
    lnlab's layers takes torch's state dicts.

    Raises:
        ValueError: if torch.nn has no module for a part; the message names the part.

    Examples:
        >>> layer = lnlab.nn.LSTM(8, 16, norm_layer=lnlab.nn.Identity)
        >>> nn.LSTM(8, 16).load_state_dict(lnlab.nn.torch_state_dict(layer))
    """
    if isinstance(model, Normalizer | LayerWithNorm | Recurrent):
        return model.torch_state_dict()
    state = {name: p for name, p in model.state_dict().items() if "." not in name}
    for name, module in model.named_children():
        state |= {f"{name}.{key}": p for key, p in torch_state_dict(module).items()}
    return state
