"""Faults of normalization, scale and gradient flow, planted in six small networks.

A checker is tried on it: it should name each fault, and say nothing bad of the healthy
networks. ``problems()`` gives every pair of a network and a fault that fits it.

The faults were written from the literature, from issue trackers and from memory, by people who
had not read the checks of ``lnlab.audit``, before those were tuned.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
EXAMPLES = 32


class Problem(NamedTuple):
    """A network with one batch of data, as a user would give it to a checker."""

    name: str
    model: nn.Module
    x: Tensor
    y: Tensor
    loss_fn: Callable[[Tensor, Tensor], Tensor]


# ------------------------------------------------------------------------- healthy networks


class MLP(nn.Module):
    """Three hidden layers of 64 units, a norm before each ReLU, and an output layer."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        sizes = [(20, 64), (64, 64), (64, 64)]
        self.linears = nn.ModuleList(nn.Linear(*size) for size in sizes)
        self.norms = nn.ModuleList(norm(64) for _ in sizes)
        self.activation: nn.Module = nn.ReLU()
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = self.activation(norm(linear(x)))
        return self.head(x)


class CNN(nn.Module):
    """Three convolutions with batch norm, an average over space, and an output layer."""

    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        widths = [3, 16, 32, 32]
        self.convs = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=2, padding=1, bias=bias)
            for before, after in pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths[1:])
        self.head = nn.Linear(32, CLASSES)

    def features(self, x: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = functional.relu(norm(conv(x)))
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))


class ResidualBlock(nn.Module):
    """Two convolutions with batch norm, added to their input (He et al., 2016)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def branch(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm1(self.conv1(x)))
        return self.norm2(self.conv2(x))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.branch(x))


class ResNet(nn.Module):
    """A convolution, three residual blocks of 16 channels, and an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(*(ResidualBlock(16) for _ in range(3)))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.stem(x)))
        return self.head(self.blocks(x).mean((2, 3)))


class SelfAttention(nn.Module):
    """Causal attention with four heads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.scale = 1 / math.sqrt(width // 4)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        heads = self.qkv(x).view(batch, time, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        q, k, v = heads
        logits = (q @ k.transpose(-1, -2)) * self.scale
        future = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)
        weights = logits.masked_fill(future, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, time, width))


class TransformerBlock(nn.Module):
    """Attention and a feed-forward network, each after a layer norm (pre-norm)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), SelfAttention(width)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward: nn.Module = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Transformer(nn.Module):
    """A causal language model of two pre-norm blocks over 32 tokens."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(32, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(TransformerBlock(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 32, bias=False)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).transpose(1, 2)


class LSTMClassifier(nn.Module):
    """An LSTM over 12 steps, a layer norm of its last output, and an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 32, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        outputs, _ = self.lstm(x)
        return self.head(self.norm(outputs[:, -1]))


class UNet(nn.Module):
    """Two levels with group norm and a skip connection; a class for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down = self.convolve(3, 16)
        self.middle = self.convolve(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.last = self.convolve(32, 16)
        self.head = nn.Conv2d(16, CLASSES, 1)

    @staticmethod
    def convolve(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.ReLU()
        )

    def skip(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down(x)
        coarse = self.middle(functional.max_pool2d(fine, 2))
        return self.head(self.last(torch.cat([self.skip(fine), self.up(coarse)], 1)))


def mlp(norm: Callable[[int], nn.Module] = nn.LayerNorm) -> Problem:
    """Return vectors of 20 numbers whose class is the largest of ten random projections."""
    x = torch.randn(EXAMPLES, 20)
    y = (x @ torch.randn(20, CLASSES)).argmax(1)
    return Problem("MLP", MLP(norm), x, y, functional.cross_entropy)


def cnn(bias: bool = False) -> Problem:
    """Return images of 16 x 16 pixels whose class is a random projection's largest entry."""
    x, y = images()
    return Problem("CNN", CNN(bias), x, y, functional.cross_entropy)


def resnet() -> Problem:
    """Return the images of the CNN for a residual network."""
    x, y = images()
    return Problem("ResNet", ResNet(), x, y, functional.cross_entropy)


def transformer() -> Problem:
    """Return sequences of 12 tokens, each the sum of the two before it; predict the next."""
    tokens = torch.randint(32, (EXAMPLES, 13))
    for step in range(2, 13):
        tokens[:, step] = (tokens[:, step - 1] + tokens[:, step - 2]) % 32
    x, y = tokens[:, :-1], tokens[:, 1:]
    return Problem("Transformer", Transformer(), x, y, functional.cross_entropy)


def lstm() -> Problem:
    """Return sequences of 12 vectors whose class is a projection of their sum."""
    x = torch.randn(EXAMPLES, 12, 8)
    y = (x.sum(1) @ torch.randn(8, CLASSES)).argmax(1)
    return Problem("LSTM", LSTMClassifier(), x, y, functional.cross_entropy)


def unet() -> Problem:
    """Return images of 16 x 16 pixels with a class for each pixel, from its three colours."""
    x = torch.randn(8, 3, 16, 16)
    y = torch.einsum("bchw,ck->bkhw", x, torch.randn(3, CLASSES)).argmax(1)
    return Problem("UNet", UNet(), x, y, functional.cross_entropy)


def images() -> tuple[Tensor, Tensor]:
    x = torch.randn(EXAMPLES, 3, 16, 16)
    y = (x.flatten(1) @ torch.randn(768, CLASSES)).argmax(1)
    return x, y


HOSTS: dict[str, Callable[[], Problem]] = {
    "MLP": mlp,
    "CNN": cnn,
    "ResNet": resnet,
    "Transformer": transformer,
    "LSTM": lstm,
    "UNet": unet,
}

# ----------------------------------------------------------------------------------- faults

Plant = Callable[[Problem], "Problem | None"]
"""Changes the model of a problem in place, or returns another problem."""

FAULTS: dict[str, dict[str, Plant]] = {}
"""By the name of the fault: what plants it in each host."""


def fault(name: str, *hosts: str) -> Callable[[Plant], Plant]:
    """Register a function that plants the fault ``name`` in each of the hosts."""

    def register(plant: Plant) -> Plant:
        for host in hosts:
            FAULTS.setdefault(name, {})[host] = plant
        return plant

    return register


def problems(seed: int = 0) -> Iterator[tuple[str, str, Problem]]:
    """Yield the name of each fault, of its host, and the problem that has it."""
    for name, plants in FAULTS.items():
        for host in plants:
            yield name, host, plant(name, host, seed)


def plant(name: str, host: str, seed: int = 0) -> Problem:
    """Return the problem of a host with a fault planted in it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        problem = HOSTS[host]()
        return FAULTS[name][host](problem) or problem


def healthy(seed: int = 0) -> Iterator[Problem]:
    """Yield the problem of each host without a fault."""
    for build in HOSTS.values():
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            yield build()


def replace(model: nn.Module, kind: type, make: Callable[[nn.Module], nn.Module]) -> None:
    """Replace every module of a type by what ``make`` returns for it."""
    for name, child in list(model.named_children()):
        if isinstance(child, kind):
            setattr(model, name, make(child))
        else:
            replace(child, kind, make)


def modules_of(model: nn.Module, kind: type | tuple[type, ...]) -> list:
    return [module for module in model.modules() if isinstance(module, kind)]


NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm2d)


class WrittenByHand(nn.Module):
    """A layer norm that somebody has written again, here without a fault."""

    correction, eps, axes = 0, 1e-5, (-1,)

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.weight = nn.Parameter(norm.weight.detach().clone())
        self.bias = nn.Parameter(norm.bias.detach().clone())

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        var, mu = torch.var_mean(x, self.axes, keepdim=True, correction=self.correction)
        return mu, torch.sqrt(var + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        mu, sigma = self.moments(x)
        return (x - mu) / sigma * self.weight + self.bias


@fault("statistics over the wrong axis", "MLP", "Transformer")
def normalize_over_examples(problem: Problem) -> None:
    class OverExamples(WrittenByHand):
        axes = (0,)

    replace(problem.model, nn.LayerNorm, OverExamples)


@fault("statistics over the wrong axis", "LSTM")
def normalize_last_norm_over_examples(problem: Problem) -> None:
    class OverExamples(WrittenByHand):
        axes = (0,)

    problem.model.norm = OverExamples(problem.model.norm)


@fault("statistics over time leak the future", "Transformer")
def normalize_over_time(problem: Problem) -> None:
    class OverTime(WrittenByHand):
        axes = (1, 2)

    replace(problem.model, nn.LayerNorm, OverTime)


@fault("variance over N - 1", "MLP", "Transformer", "LSTM")
def divide_by_one_less(problem: Problem) -> None:
    class OneLess(WrittenByHand):
        correction = 1

    replace(problem.model, nn.LayerNorm, OneLess)


@fault("eps outside the root", "MLP", "Transformer")
def add_eps_to_sigma(problem: Problem) -> None:
    class OutsideTheRoot(WrittenByHand):
        def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x.mean(-1, keepdim=True), x.std(-1, keepdim=True, correction=0) + 1e-3

    replace(problem.model, nn.LayerNorm, OutsideTheRoot)


@fault("eps far too large", "MLP", "CNN", "ResNet", "Transformer", "LSTM", "UNet")
def enlarge_eps(problem: Problem) -> None:
    for norm in modules_of(problem.model, NORMS):
        norm.eps = 10.0


@fault("variance in a single pass", "MLP")
def subtract_squares(problem: Problem) -> None:
    class SinglePass(WrittenByHand):
        def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
            mu = x.mean(-1, keepdim=True)
            var = (x * x).mean(-1, keepdim=True) - mu * mu
            return mu, torch.sqrt(var.clamp(min=0) + self.eps)

    replace(problem.model, nn.LayerNorm, SinglePass)
    for linear in problem.model.linears:  # the mean is 3,000 times the deviation
        nn.init.constant_(linear.bias, 3e3)


@fault("sigma without gradient", "MLP", "Transformer", "LSTM")
def detach_statistics(problem: Problem) -> None:
    class Detached(WrittenByHand):
        def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
            mu, sigma = super().moments(x)
            return mu.detach(), sigma.detach()

    replace(problem.model, nn.LayerNorm, Detached)


@fault("one value per group", "MLP")
def normalize_a_single_output(problem: Problem) -> Problem:
    problem.model.head = nn.Sequential(nn.Linear(64, 1), nn.LayerNorm(1))
    y = problem.x[:, :1] - problem.x[:, 1:2]
    return problem._replace(y=y, loss_fn=functional.mse_loss)


@fault("one value per group", "CNN")
def normalize_each_pooled_channel(problem: Problem) -> None:
    problem.model.head = nn.Sequential(nn.GroupNorm(32, 32), nn.Linear(32, CLASSES))


@fault("one value per group", "UNet")
def normalize_each_pixel_and_channel(problem: Problem) -> None:
    class PerPixel(nn.Module):
        def __init__(self, norm: nn.Module) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(1)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x[..., None])[..., 0]

    problem.model.middle[1] = PerPixel(problem.model.middle[1])


@fault("a norm that is never called", "MLP", "CNN", "ResNet", "Transformer", "LSTM", "UNet")
def forget_a_norm(problem: Problem) -> None:
    width = 32
    problem.model.extra_norm = nn.LayerNorm(width)


@fault("gain 0", "MLP", "CNN", "Transformer", "LSTM", "UNet")
def zero_last_gain(problem: Problem) -> None:
    last = modules_of(problem.model, NORMS)[-1]
    nn.init.zeros_(last.weight)
    last.weight.requires_grad_(False)


@fault("frozen running statistics", "CNN", "ResNet")
def freeze_running_statistics(problem: Problem) -> None:
    class Frozen(nn.BatchNorm2d):
        def train(self, mode: bool = True) -> "Frozen":
            return super().train(False)

    def freeze(norm: nn.Module) -> nn.Module:
        frozen = Frozen(norm.num_features)
        frozen.running_mean.fill_(2.0)
        frozen.running_var.fill_(25.0)
        return frozen.train()

    replace(problem.model, nn.BatchNorm2d, freeze)


@fault("running variance of 0", "CNN", "ResNet")
def zero_running_variance(problem: Problem) -> None:
    for norm in modules_of(problem.model, nn.BatchNorm2d):
        norm.running_var.zero_()
        norm.momentum = 0.0


@fault("momentum 0", "CNN", "ResNet")
def stop_momentum(problem: Problem) -> None:
    for norm in modules_of(problem.model, nn.BatchNorm2d):
        norm.momentum = 0.0


@fault("momentum 1", "CNN", "ResNet")
def forget_earlier_batches(problem: Problem) -> None:
    for norm in modules_of(problem.model, nn.BatchNorm2d):
        norm.momentum = 1.0


@fault("batch statistics in evaluation", "CNN", "ResNet")
def drop_running_statistics(problem: Problem) -> None:
    def without(norm: nn.Module) -> nn.Module:
        return nn.BatchNorm2d(norm.num_features, track_running_stats=False)

    replace(problem.model, nn.BatchNorm2d, without)


@fault("one batch norm for two distributions", "CNN")
def share_batch_norm(problem: Problem) -> None:
    class Shared(CNN):
        def forward(self, x: Tensor) -> Tensor:
            near, far = self.features(x), self.features(20 * x + 5)
            return self.head((near + far).mean((2, 3)))

    problem.model.__class__ = Shared


@fault("a bias without effect", "CNN")
def add_bias_before_batch_norm(problem: Problem) -> Problem:
    return cnn(bias=True)


@fault("a bias without effect", "ResNet")
def add_bias_in_blocks(problem: Problem) -> None:
    for block in problem.model.blocks:
        block.conv1 = nn.Conv2d(16, 16, 3, padding=1, bias=True)
        block.conv2 = nn.Conv2d(16, 16, 3, padding=1, bias=True)


@fault("dropout in evaluation", "MLP", "CNN", "Transformer", "LSTM")
def keep_dropout(problem: Problem) -> None:
    class AlwaysDropout(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.dropout(x, 0.5)

    problem.model.head = nn.Sequential(AlwaysDropout(), problem.model.head)


@fault("dropout of 1", "MLP", "CNN", "LSTM")
def drop_everything(problem: Problem) -> None:
    problem.model.head = nn.Sequential(nn.Dropout(1.0), problem.model.head)


@fault("an over-confident start", "MLP", "CNN", "ResNet", "Transformer", "LSTM", "UNet")
def enlarge_head(problem: Problem) -> None:
    with torch.no_grad():
        problem.model.head.weight *= 100


@fault("attention logits too large", "Transformer")
def sharpen_attention(problem: Problem) -> None:
    for block in problem.model.blocks:
        block.attention.scale = 50.0


@fault("weights of very different scale", "MLP", "UNet")
def scale_one_layer(problem: Problem) -> None:
    layer = problem.model.linears[1] if isinstance(problem.model, MLP) else problem.model.up
    with torch.no_grad():
        layer.weight *= 1e4


@fault("branches of very different scale", "ResNet", "Transformer")
def enlarge_residual_stream(problem: Problem) -> None:
    with torch.no_grad():
        if isinstance(problem.model, Transformer):
            problem.model.tokens.weight *= 1e4
        else:
            problem.model.norm.weight *= 1e4


@fault("a cut graph", "MLP")
def take_data(problem: Problem) -> None:
    class Cut(MLP):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(self.norms[0](self.linears[0](x))).data
            x = torch.relu(self.norms[1](self.linears[1](x)))
            return self.head(torch.relu(self.norms[2](self.linears[2](x))))

    problem.model.__class__ = Cut


@fault("a cut graph", "CNN")
def compute_features_without_gradient(problem: Problem) -> None:
    class Cut(CNN):
        @torch.no_grad()
        def features(self, x: Tensor) -> Tensor:
            return super().features(x)

    problem.model.__class__ = Cut


@fault("a cut graph", "Transformer")
def rebuild_tensor_from_numpy(problem: Problem) -> None:
    class Cut(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.from_numpy(x.detach().numpy())

    block = problem.model.blocks[0]
    block.feed_forward = nn.Sequential(block.feed_forward, Cut())


@fault("a cut graph", "UNet")
def detach_skip(problem: Problem) -> None:
    class Cut(UNet):
        def forward(self, x: Tensor) -> Tensor:
            fine = self.down(x)
            coarse = self.middle(functional.max_pool2d(fine.detach(), 2)).detach()
            return self.head(self.last(torch.cat([fine, self.up(coarse)], 1)))

    problem.model.__class__ = Cut


@fault("a cut graph", "LSTM")
def detach_outputs(problem: Problem) -> None:
    class Cut(LSTMClassifier):
        def forward(self, x: Tensor) -> Tensor:
            outputs, _ = self.lstm(x)
            return self.head(self.norm(outputs[:, -1].detach()))

    problem.model.__class__ = Cut


@fault("layers that are not registered", "MLP")
def keep_layers_in_a_list(problem: Problem) -> None:
    linears = list(problem.model.linears)
    del problem.model.linears
    problem.model.linears = linears


@fault("layers that are not registered", "Transformer")
def keep_blocks_in_a_list(problem: Problem) -> None:
    blocks = list(problem.model.blocks)
    del problem.model.blocks
    problem.model.blocks = blocks


@fault("parameters that are frozen", "MLP", "CNN")
def freeze_first_layer(problem: Problem) -> None:
    first = modules_of(problem.model, (nn.Linear, nn.Conv2d))[0]
    first.weight.requires_grad_(False)


@fault("a branch multiplied by 0", "ResNet")
def zero_branches(problem: Problem) -> None:
    class Zeroed(ResidualBlock):
        def forward(self, x: Tensor) -> Tensor:
            return functional.relu(x + 0.0 * self.branch(x))

    problem.model.blocks[1].__class__ = Zeroed


@fault("a branch multiplied by 0", "Transformer")
def zero_feed_forward(problem: Problem) -> None:
    class Zeroed(TransformerBlock):
        def forward(self, x: Tensor) -> Tensor:
            x = x + self.attention(self.norm1(x))
            return x + 0.0 * self.feed_forward(self.norm2(x))

    problem.model.blocks[1].__class__ = Zeroed


@fault("a branch multiplied by 0", "UNet")
def zero_skip(problem: Problem) -> None:
    class Zeroed(UNet):
        def skip(self, x: Tensor) -> Tensor:
            return 0.0 * x

    problem.model.__class__ = Zeroed


@fault("a softmax before the cross-entropy", "MLP", "CNN", "ResNet", "LSTM", "UNet")
def add_softmax(problem: Problem) -> None:
    problem.model.head = nn.Sequential(problem.model.head, nn.Softmax(1))


@fault("a softmax before the cross-entropy", "Transformer")
def add_softmax_over_tokens(problem: Problem) -> None:
    problem.model.head = nn.Sequential(problem.model.head, nn.Softmax(-1))


@fault("an activation on the logits", "MLP", "CNN", "ResNet", "Transformer", "LSTM", "UNet")
def add_relu(problem: Problem) -> None:
    problem.model.head = nn.Sequential(problem.model.head, nn.ReLU())


class OnlyPart(nn.Module):
    """A network that receives its input with a part of it set to 0."""

    def __init__(self, model: nn.Module, keep: tuple[slice, ...]) -> None:
        super().__init__()
        self.model, self.keep = model, keep

    def forward(self, x: Tensor) -> Tensor:
        part = torch.zeros_like(x)
        part[self.keep] = x[self.keep]
        return self.model(part)


@fault("a part of the input is ignored", "MLP", "CNN", "ResNet", "UNet")
def ignore_features(problem: Problem) -> Problem:
    half = slice(0, max(problem.x.shape[1] // 2, 1))
    return problem._replace(model=OnlyPart(problem.model, (slice(None), half)))


@fault("a part of the input is ignored", "LSTM", "Transformer")
def ignore_early_steps(problem: Problem) -> Problem:
    return problem._replace(model=OnlyPart(problem.model, (slice(None), slice(6, None))))


@fault("dead units", "MLP")
def push_units_below_zero(problem: Problem) -> None:
    for norm in problem.model.norms:
        nn.init.constant_(norm.bias, -20.0)


@fault("dead units", "CNN", "ResNet")
def push_channels_below_zero(problem: Problem) -> None:
    norm = modules_of(problem.model, nn.BatchNorm2d)[0]
    nn.init.constant_(norm.bias, -20.0)


@fault("saturated units", "MLP")
def saturate(problem: Problem) -> None:
    problem.model.activation = nn.Tanh()
    for norm in problem.model.norms:
        nn.init.constant_(norm.weight, 100.0)


@fault("saturated units", "LSTM")
def close_forget_gate(problem: Problem) -> None:
    nn.init.constant_(problem.model.lstm.bias_hh_l0[32:64], -30.0)


@fault("gradients that vanish", "MLP")
def stack_sigmoids(problem: Problem) -> Problem:
    layers: list[nn.Module] = [nn.Linear(20, 64), nn.Sigmoid()]
    for _ in range(12):
        layers += [nn.Linear(64, 64), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(64, CLASSES))
    return problem._replace(model=model)


@fault("gradients that explode", "MLP")
def stack_large_weights(problem: Problem) -> Problem:
    layers: list[nn.Module] = [nn.Linear(20, 64), nn.ReLU()]
    for _ in range(12):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    for layer in layers[::2]:
        nn.init.normal_(layer.weight, std=1.0)
    return problem._replace(model=nn.Sequential(*layers, nn.Linear(64, CLASSES)))


@fault("all units start equal", "MLP", "LSTM")
def start_from_constants(problem: Problem) -> None:
    for parameter in problem.model.parameters():
        if parameter.ndim == 2:
            nn.init.constant_(parameter, 0.01)


@fault("a residual connection is missing", "Transformer")
def forget_residual(problem: Problem) -> None:
    class Plain(TransformerBlock):
        def forward(self, x: Tensor) -> Tensor:
            return self.feed_forward(self.norm2(self.attention(self.norm1(x))))

    width = 32
    blocks = [Plain(width) for _ in range(12)]
    problem.model.blocks = nn.ModuleList(blocks)
