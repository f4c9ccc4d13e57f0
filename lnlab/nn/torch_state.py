"""Conversion of parameters to torch's names; ``load_state_dict`` reads torch's by itself."""

from torch import Tensor, nn

from lnlab.nn.linear import LayerWithNorm
from lnlab.nn.normalizer import Normalizer
from lnlab.nn.recurrent import Recurrent


def torch_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return the state of ``model`` as the same network of torch.nn's modules has it.

    Layers and norms of lnlab have torch's names and order of gates, (H, D) or (G H, D); all
    else is as in ``model.state_dict()``. The other way, ``load_state_dict`` of a layer here
    takes a state dict of torch's.

    Raises:
        ValueError: names a module whose function torch.nn does not have.

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
