"""The hot start of an Adam whose bias correction mistakes one minus beta for beta."""

import torch

BETAS = (0.9, 0.999)


def heat(t: int) -> float:
    """The effective step of update ``t``, from 1, over that of Adam: 3.5, at most 6.6, later 1.

    The code of order embeddings and skip-thoughts (``optim.py``) calls b1 = 0.1 and b2 = 0.001
    what Kingma and Ba (2015) call 1 - beta, and corrects by 1 - b^t where 1 - beta^t is due: by
    almost nothing. The two means start at 0 all the same, the second one slower.
    """
    theirs, right = (
        (1 - second**t) ** 0.5 / (1 - first**t)
        for first, second in (tuple(1 - beta for beta in BETAS), BETAS)
    )
    return theirs / right


def heated(optimizer: torch.optim.Optimizer) -> None:
    """Multiply the rates of an Adam's coming update by its :func:`heat`.

    Called before each update, when the rates are those of Adam. How many there were is counted
    in its groups, which are saved with it: Adam's own count is on the device.
    """
    for group in optimizer.param_groups:
        group["updates"] = group.get("updates", 0) + 1
        group["lr"] *= heat(group["updates"])
