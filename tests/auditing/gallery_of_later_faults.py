"""Faults that were written after the checks, by a person who had not read them.

Importing this module adds them to ``gallery.FAULTS``. They measure what the other two galleries
cannot: the checks were written after a look at those. Their writer knew the subject of the
audit, the faults of the other galleries and the names of the rules that find them. Which rules
count as finding one of these was declared before the audit was tried on any of them.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.auditing.gallery import Problem, UNet, WrittenByHand, fault, modules_of, replace
from tests.auditing.gallery_of_published_faults import change_blocks, change_weighing


@fault("divided by the variance", "MLP", "Transformer", "LSTM")
def forget_the_root(problem: Problem) -> None:
    class DividedByVariance(WrittenByHand):
        def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
            var, mu = torch.var_mean(x, -1, keepdim=True, correction=0)
            return mu, var + self.eps

    replace(problem.model, nn.LayerNorm, DividedByVariance)


@fault("a mean that is not subtracted", "MLP", "LSTM")
def forget_the_mean(problem: Problem) -> None:
    class NotCentred(WrittenByHand):
        def forward(self, x: Tensor) -> Tensor:
            return x / self.moments(x)[1] * self.weight + self.bias

    replace(problem.model, nn.LayerNorm, NotCentred)


@fault("a sum of squares where their mean was meant", "MLP", "Transformer")
def sum_squares(problem: Problem) -> None:
    class SummedSquares(WrittenByHand):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + self.eps) * self.weight

    replace(problem.model, nn.LayerNorm, SummedSquares)


@fault("gain and bias before the statistics", "MLP", "LSTM")
def apply_gain_first(problem: Problem) -> None:
    class GainFirst(WrittenByHand):
        def forward(self, x: Tensor) -> Tensor:
            x = x * self.weight + self.bias
            mu, sigma = self.moments(x)
            return (x - mu) / sigma

    replace(problem.model, nn.LayerNorm, GainFirst)


class RunningBatchNorm(nn.Module):
    """A batch norm that normalizes with its running statistics in training, too."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(norm.num_features))
        self.bias = nn.Parameter(torch.zeros(norm.num_features))
        self.register_buffer("running_mean", torch.zeros(norm.num_features))
        self.register_buffer("running_var", torch.ones(norm.num_features))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                var, mu = torch.var_mean(x, (0, 2, 3))
                self.running_mean.lerp_(mu, 0.1)
                self.running_var.lerp_(var, 0.1)
        shape = (1, -1, 1, 1)
        x = (x - self.running_mean.view(shape)) * torch.rsqrt(
            self.running_var.view(shape) + 1e-5
        )
        return x * self.weight.view(shape) + self.bias.view(shape)


@fault("running statistics used in training", "CNN", "ResNet")
def normalize_with_running_statistics(problem: Problem) -> None:
    replace(problem.model, nn.BatchNorm2d, RunningBatchNorm)


@fault("a branch scaled below the rounding of its sum", "ResNet", "Transformer")
def scale_branches_below_rounding(problem: Problem) -> None:
    """Start a layer scale at 1e-9, where CaiT (Touvron et al., 2021) has 1e-6."""
    change_blocks(problem, lambda x, branch: x + 1e-9 * branch)


class Swish(torch.autograd.Function):
    """x sigmoid(x), with a backward pass that takes the sigmoid for a constant."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * x.sigmoid()


@fault("a backward pass that is not the gradient", "MLP", "UNet")
def write_a_wrong_backward(problem: Problem) -> None:
    class WrongSwish(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return Swish.apply(x)

    replace(problem.model, nn.ReLU, lambda relu: WrongSwish())


@fault("a clamp that most values reach", "CNN", "UNet")
def clamp_pixels_of_0_to_255(problem: Problem) -> Problem:
    """Clamp outputs of convolutions for stability, and give them pixels of 0 to 255."""

    class Clamped(nn.Module):
        def __init__(self, conv: nn.Module) -> None:
            super().__init__()
            self.conv = conv

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x).clamp(-1, 1)

    model = problem.model
    convs = model.down if isinstance(model, UNet) else model.convs
    convs[0] = Clamped(convs[0])
    low, high = problem.x.aminmax()
    return problem._replace(x=255 * (problem.x - low) / (high - low))


@fault("a row of attention that is masked entirely", "Transformer")
def mask_each_token_from_itself(problem: Problem) -> None:
    """Mask the diagonal, too: the first token then attends to all tokens alike."""

    def weigh(logits: Tensor, future: Tensor) -> Tensor:
        masked = torch.ones_like(future).triu()
        return logits.masked_fill(masked, torch.finfo(logits.dtype).min).softmax(-1)

    change_weighing(problem, weigh)


@fault("a padding index that is a real token", "Transformer")
def pad_with_token_0(problem: Problem) -> None:
    problem.model.tokens = nn.Embedding(32, 32, padding_idx=0)


@fault("a feature in other units", "MLP", "LSTM")
def give_years_beside_normalized_features(problem: Problem) -> Problem:
    x = problem.x.clone()
    x[..., 0] = 2000 + 10 * x[..., 0]
    return problem._replace(x=x)


@fault("a likelihood of logits without log-softmax", "MLP", "CNN", "LSTM", "UNet")
def forget_log_softmax(problem: Problem) -> Problem:
    return problem._replace(loss_fn=functional.nll_loss)


@fault("weights drawn with a deviation of 1", "MLP", "Transformer", "LSTM", "UNet")
def draw_unit_weights(problem: Problem) -> None:
    """Call ``normal_`` with its default deviation for every matrix."""
    for module in modules_of(problem.model, (nn.Linear, nn.Conv2d, nn.LSTM)):
        for weight in module.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight)


@fault("a skip connection that drowns the other half", "UNet")
def concatenate_unequal_parts(problem: Problem) -> None:
    """Concatenate features as large as pixels of 0 to 255 with features of unit size."""

    class UnequalUNet(UNet):
        def skip(self, x: Tensor) -> Tensor:
            return 255 * x

    problem.model.__class__ = UnequalUNet
