"""Faults that others have published: in papers, in issue trackers, in forums.

Importing this module adds them to ``gallery.FAULTS``. Where no paper is named, the fault is one
that questions in the forums of PyTorch or issues of public repositories have come back to.

They were written by somebody who had not read the checks of ``lnlab.audit``. Some published
faults are absent, as no module with one batch shows them: weight decay on gains alone, a
learning rate without warm-up, a loss that is summed where its mean was meant.
"""

import copy
import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.auditing.gallery import (
    CLASSES,
    CNN,
    MLP,
    LSTMClassifier,
    Problem,
    ResidualBlock,
    ResNet,
    SelfAttention,
    Transformer,
    TransformerBlock,
    WrittenByHand,
    fault,
    modules_of,
    replace,
)


class Then(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class BranchedBlock(ResidualBlock):
    """A residual block whose sum of input and branch can be written in another way."""

    def add(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.add(x, self.branch(x)))


class BranchedTransformerBlock(TransformerBlock):
    """A pre-norm block whose sums of input and branch can be written in another way."""

    def add(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def forward(self, x: Tensor) -> Tensor:
        x = self.add(x, self.attention(self.norm1(x)))
        return self.add(x, self.feed_forward(self.norm2(x)))


class OpenAttention(SelfAttention):
    """The attention of the gallery in steps, each of which can be written in another way."""

    def weigh(self, logits: Tensor, future: Tensor) -> Tensor:
        return logits.masked_fill(future, -math.inf).softmax(-1)

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        heads = self.qkv(x).view(batch, time, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        q, k, v = heads
        future = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)
        weights = self.weigh((q @ k.transpose(-1, -2)) * self.scale, future)
        return self.out(self.merge(weights @ v).reshape(batch, time, width))


def change_blocks(problem: Problem, add: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Give every residual block of a network another sum.

    Args:
        problem: Its model has ``blocks`` of the gallery.
        add: Receives the input of a block and its branch.
    """

    class Block(BranchedBlock):
        def add(self, x: Tensor, branch: Tensor) -> Tensor:
            return add(x, branch)

    class Layer(BranchedTransformerBlock):
        def add(self, x: Tensor, branch: Tensor) -> Tensor:
            return add(x, branch)

    for block in problem.model.blocks:
        block.__class__ = Layer if isinstance(block, TransformerBlock) else Block


def change_attention(problem: Problem, kind: type[SelfAttention]) -> None:
    """Give every attention of a transformer another class."""
    for block in problem.model.blocks:
        block.attention.__class__ = kind


def change_weighing(problem: Problem, weigh: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Give every attention other weights.

    Args:
        problem: Its model is a transformer.
        weigh: Receives the logits and a mask that is true where the key is in the future.
    """

    class Weighing(OpenAttention):
        def weigh(self, logits: Tensor, future: Tensor) -> Tensor:
            return weigh(logits, future)

    change_attention(problem, Weighing)


def warm_up(problem: Problem) -> None:
    """Let running statistics see 50 batches."""
    with torch.no_grad():
        for _ in range(50):
            problem.model(problem.x)


# ------------------------------------------------------------------------ axes of a statistic


@fault("layer norm over the width of an image", "CNN", "UNet")
def normalize_rows(problem: Problem) -> None:
    """LayerNorm takes the last axis, and images have their channels first."""
    if isinstance(problem.model, CNN):
        problem.model.norms = nn.ModuleList(nn.LayerNorm(size) for size in (8, 4, 2))
    else:
        sizes = {"down": 16, "middle": 8, "last": 16}
        for name, size in sizes.items():
            problem.model.get_submodule(name)[1] = nn.LayerNorm(size)


@fault("time taken for channels", "Transformer")
def group_time_steps(problem: Problem) -> None:
    """GroupNorm takes axis 1 for channels, and sequences have time there."""
    replace(problem.model, nn.LayerNorm, lambda _: nn.GroupNorm(4, 12))


@fault("a unit norm over the default axis", "Transformer")
def normalize_axis_one(problem: Problem) -> None:
    """``functional.normalize`` divides by the length over axis 1, here over time."""
    replace(
        problem.model,
        nn.LayerNorm,
        lambda norm: Then(lambda x: functional.normalize(x) * math.sqrt(x.shape[1])),
    )


class PaddedLSTM(LSTMClassifier):
    """A batch norm and an LSTM over sequences of different lengths, padded with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.input_norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        lengths = (x != 0).any(-1).sum(1)
        outputs, _ = self.lstm(self.input_norm(x.transpose(1, 2)).transpose(1, 2))
        return self.head(self.norm(outputs[torch.arange(len(x)), lengths - 1]))


def pad(x: Tensor) -> Tensor:
    """Return sequences of which a random number of steps, one to nine, is set to 0."""
    lengths = torch.randint(3, 12, (len(x), 1, 1))
    return (x + 3) * (torch.arange(x.shape[1])[None, :, None] < lengths)


@fault("statistics over padded steps", "LSTM")
def normalize_padding(problem: Problem) -> Problem:
    """Cooijmans et al. (2016) name this trap of batch norm over sequences."""
    return problem._replace(model=PaddedLSTM(), x=pad(problem.x))


@fault("the last output belongs to the padding", "LSTM")
def read_padding(problem: Problem) -> Problem:
    """``outputs[:, -1]`` of a batch that is padded on the right."""
    return problem._replace(x=pad(problem.x))


@fault("a softmax over the batch", "MLP", "CNN", "LSTM")
def take_softmax_over_examples(problem: Problem) -> Problem:
    """A softmax with ``dim=0``, the axis of the examples."""
    problem.model.head = nn.Sequential(problem.model.head, nn.LogSoftmax(0))
    return problem._replace(loss_fn=functional.nll_loss)


# -------------------------------------------------------------------------- too few values


@fault("batch norm over two examples", "MLP", "CNN")
def take_two_examples(problem: Problem) -> Problem:
    """With two examples each unit is +1 or -1 (Ioffe, 2017, on small batches)."""
    if isinstance(problem.model, MLP):
        problem.model.norms = nn.ModuleList(nn.BatchNorm1d(64) for _ in range(3))
    else:
        problem.model.head = nn.Sequential(nn.BatchNorm1d(32), problem.model.head)
    return problem._replace(x=problem.x[:2], y=problem.y[:2])


@fault("batch norm over one image", "CNN", "ResNet")
def take_one_image(problem: Problem) -> Problem:
    """Detectors train with one or two images a device (Wu and He, 2018)."""
    return problem._replace(x=problem.x[:1], y=problem.y[:1])


@fault("a pooled branch that is constant", "UNet")
def normalize_pooled_context(problem: Problem) -> None:
    """A branch of the image's average with one channel a group, as at 1 x 1 pixels."""

    class Context(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(32, 32, 1), nn.GroupNorm(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return x + functional.relu(self.norm(self.conv(x.mean((2, 3), keepdim=True))))

    problem.model.middle.append(Context())


@fault("instance norm before an average over space", "CNN", "ResNet")
def average_instance_norm(problem: Problem) -> None:
    """The average of what instance norm returns is 0 for each image and channel."""
    if isinstance(problem.model, CNN):
        last = problem.model.norms[-1]

        class Pooled(CNN):
            def features(self, x: Tensor) -> Tensor:
                return self.last(super().features(x))

        problem.model.last = nn.InstanceNorm2d(last.num_features)
        problem.model.__class__ = Pooled
    else:
        problem.model.blocks.append(nn.InstanceNorm2d(16))


@fault("a bias before an instance norm", "UNet")
def normalize_each_channel(problem: Problem) -> None:
    """A mean over one channel of one image removes the bias of its convolution."""
    replace(
        problem.model,
        nn.GroupNorm,
        lambda norm: nn.InstanceNorm2d(norm.num_channels, affine=True),
    )


# ---------------------------------------------------------------------- running statistics


@fault("instance norm with running statistics", "CNN", "UNet")
def track_instances(problem: Problem) -> None:
    """Each image's own statistics in training, averages of them in evaluation."""

    def make(norm: nn.Module) -> nn.Module:
        width = norm.bias.shape[0]
        return nn.InstanceNorm2d(width, affine=True, track_running_stats=True)

    replace(problem.model, (nn.BatchNorm2d, nn.GroupNorm), make)
    problem.x[: len(problem.x) // 2] *= 10


@fault("momentum of the other convention", "CNN", "ResNet")
def port_momentum(problem: Problem) -> None:
    """Keras gives the weight of the old average, 0.99, PyTorch that of the new batch."""
    for norm in modules_of(problem.model, nn.BatchNorm2d):
        norm.momentum = 0.99


@fault("a deviation loaded as a running variance", "CNN", "ResNet")
def load_deviation(problem: Problem) -> None:
    """Torch 7 kept a deviation, and a converter did not square it."""
    warm_up(problem)
    for norm in modules_of(problem.model, nn.BatchNorm2d):
        norm.running_var.sqrt_()


@fault("running sums loaded as averages", "CNN", "ResNet")
def load_sums(problem: Problem) -> None:
    """Caffe keeps sums and the factor, near 1,000, by which both are to be divided."""
    warm_up(problem)
    for norm in modules_of(problem.model, nn.BatchNorm2d):
        norm.running_mean.mul_(999.98)
        norm.running_var.mul_(999.98)


@fault("running statistics that one batch has poisoned", "CNN", "ResNet")
def poison_statistics(problem: Problem) -> None:
    """One image with a NaN, and evaluation stays NaN for good."""
    norm = modules_of(problem.model, nn.BatchNorm2d)[1]
    norm.running_mean[0] = math.nan
    norm.running_var[0] = math.nan


@fault("functional batch norm without training", "CNN", "ResNet")
def forget_training_argument(problem: Problem) -> None:
    """``functional.batch_norm`` reads the running statistics unless told to train."""

    class Forgetful(nn.BatchNorm2d):
        def forward(self, x: Tensor) -> Tensor:
            return functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias
            )

    replace(problem.model, nn.BatchNorm2d, lambda norm: Forgetful(norm.num_features))


@fault("running statistics that are not buffers", "CNN")
def keep_statistics_as_attributes(problem: Problem) -> None:
    """A batch norm written by hand; a checkpoint of it lacks what evaluation needs."""

    class Unsaved(nn.Module):
        def __init__(self, norm: nn.Module) -> None:
            super().__init__()
            self.weight, self.bias = norm.weight, norm.bias
            self.running_mean, self.running_var = norm.running_mean, norm.running_var

        def forward(self, x: Tensor) -> Tensor:
            statistics = self.running_mean, self.running_var
            return functional.batch_norm(
                x, *statistics, self.weight, self.bias, training=self.training
            )

    replace(problem.model, nn.BatchNorm2d, Unsaved)


@fault("a norm shared between layers", "MLP", "CNN", "ResNet", "Transformer")
def share_norms(problem: Problem) -> None:
    """One object written once and called after several layers."""
    model = problem.model
    if isinstance(model, MLP):
        model.norms = nn.ModuleList([nn.BatchNorm1d(64)] * 3)
    elif isinstance(model, CNN):
        model.norms[2] = model.norms[1]
    else:
        for block in model.blocks:
            block.norm1 = block.norm2 = model.norm


# ------------------------------------------------------------------------- dropped branches


@fault("drop path without its division", "ResNet", "Transformer")
def forget_keep_probability(problem: Problem) -> None:
    """Stochastic depth whose branches are twice as large in evaluation."""

    class Drop(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if not self.training:
                return x
            kept = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) < 0.5
            return x * kept

    for block in problem.model.blocks:
        if isinstance(block, TransformerBlock):
            block.feed_forward = nn.Sequential(block.feed_forward, Drop())
            block.attention = nn.Sequential(block.attention, Drop())
        else:
            block.norm2 = nn.Sequential(block.norm2, Drop())


@fault("dropout before a batch norm", "CNN", "ResNet")
def drop_before_norm(problem: Problem) -> None:
    """The variance in training is larger than in evaluation (Li et al., 2019)."""
    for module in list(problem.model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Sequential(nn.Dropout(0.7), child))


@fault("dropout scaled in both modes", "MLP", "LSTM", "CNN")
def scale_dropout_twice(problem: Problem) -> None:
    """Divided by 0.3 in training, and multiplied by 0.3 in evaluation as well."""

    class Both(nn.Dropout):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self.training else x * (1 - self.p)

    problem.model.head = nn.Sequential(Both(0.7), problem.model.head)


@fault("dropout on the logits", "MLP", "CNN", "LSTM", "UNet")
def drop_logits(problem: Problem) -> None:
    """A last layer within a helper that adds dropout to every layer."""
    problem.model.head = nn.Sequential(problem.model.head, nn.Dropout(0.5))


# -------------------------------------------------------------------- residual connections


def deepen(problem: Problem, layers: int, kind: type[TransformerBlock]) -> None:
    problem.model.blocks = nn.ModuleList(kind(32) for _ in range(layers))


@fault("pre-norm without a final norm", "Transformer")
def forget_final_norm(problem: Problem) -> None:
    """The sum of 24 branches goes to the output layer as it is."""
    deepen(problem, 12, TransformerBlock)
    problem.model.norm = nn.Identity()


@fault("post-norm in a deep network", "Transformer")
def normalize_after_each_sum(problem: Problem) -> None:
    """Xiong et al. (2020): it does not start without warm-up."""

    class PostNorm(TransformerBlock):
        def forward(self, x: Tensor) -> Tensor:
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.feed_forward(x))

    deepen(problem, 36, PostNorm)


@fault("an input added twice", "ResNet", "Transformer")
def add_input_twice(problem: Problem) -> None:
    """A layer that adds its input, in a wrapper that adds it again: 2 to the depth."""
    blocks = [copy.deepcopy(problem.model.blocks[0]) for _ in range(12)]
    problem.model.blocks = type(problem.model.blocks)()
    for block in blocks:
        for layer in modules_of(block, (nn.Conv2d, nn.Linear)):
            layer.reset_parameters()
        problem.model.blocks.append(block)
    change_blocks(problem, lambda x, branch: 2 * x + branch)


@fault("a branch scaled twice", "ResNet", "Transformer")
def scale_branches_twice(problem: Problem) -> None:
    """A factor of 0.1 (Szegedy et al., 2017) in the weights and in the sum."""
    with torch.no_grad():
        for block in problem.model.blocks:
            if isinstance(block, TransformerBlock):
                for layer in (block.attention.out, block.feed_forward[-1]):
                    layer.weight *= 0.1
                    layer.bias *= 0.1
            else:
                block.norm2.weight *= 0.1
    change_blocks(problem, lambda x, branch: x + 0.1 * branch)


@fault("one block repeated", "ResNet", "Transformer")
def repeat_one_block(problem: Problem) -> None:
    """``[block] * n`` is n times the same object."""
    blocks = problem.model.blocks
    for i in range(len(blocks)):
        blocks[i] = blocks[0]


@fault("layers that start as copies", "ResNet", "Transformer")
def copy_one_block(problem: Problem) -> None:
    """Clones by ``deepcopy``, as nn.TransformerEncoder makes them, have equal weights."""
    blocks = problem.model.blocks
    for i in range(1, len(blocks)):
        blocks[i] = copy.deepcopy(blocks[0])


# --------------------------------------------------------------------------- gains and scale


class RMSNorm(nn.Module):
    """Division by the root of the mean square, times a gain."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


@fault("a plain gain that starts at 0", "MLP", "Transformer", "LSTM")
def start_gain_at_zero(problem: Problem) -> None:
    """The start of a gain 1 + w in a norm that multiplies by w."""
    replace(problem.model, nn.LayerNorm, lambda norm: RMSNorm(torch.zeros_like(norm.weight)))


@fault("a gain 1 + w loaded as a plain gain", "MLP", "Transformer", "LSTM")
def load_offset_gain(problem: Problem) -> None:
    """Gemma keeps w of a gain 1 + w; other code multiplies by it."""
    replace(
        problem.model,
        nn.LayerNorm,
        lambda norm: RMSNorm(0.05 * torch.randn_like(norm.weight)),
    )


@fault("the 1 of a gain added twice", "Transformer")
def add_offset_twice(problem: Problem) -> None:
    """A converter has added the 1 and the norm adds it again."""

    class Offset(RMSNorm):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + x / x.square().mean(-1, keepdim=True).sqrt()

    replace(problem.model, nn.LayerNorm, lambda norm: Offset(torch.ones_like(norm.weight)))


@fault("squares that overflow in half precision", "MLP", "Transformer")
def square_in_half_precision(problem: Problem) -> None:
    """One large feature (Dettmers et al., 2022): its square is infinite, the output 0."""

    class Half(RMSNorm):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.half()).to(x.dtype)

    with torch.no_grad():
        if isinstance(problem.model, MLP):
            for linear in problem.model.linears:
                linear.bias[0] = 4e3
        else:
            problem.model.positions.weight[:, 0] = 4e3
    replace(problem.model, nn.LayerNorm, lambda norm: Half(torch.ones_like(norm.weight)))


@fault("logits divided by a temperature of 0.01", "MLP", "CNN", "LSTM", "Transformer")
def sharpen_logits(problem: Problem) -> None:
    """A temperature of contrastive losses, which are of cosines, on plain logits."""
    problem.model.head = nn.Sequential(problem.model.head, Then(lambda x: x / 0.01))


@fault("cosine logits without a scale", "MLP", "CNN", "LSTM")
def take_cosines(problem: Problem) -> None:
    """Wang et al. (2017): with logits in [-1, 1] the loss stays high."""

    class Cosine(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            directions = functional.normalize(self.weight, dim=-1)
            return functional.linear(functional.normalize(x, dim=-1), directions)

    width = problem.model.head.in_features
    problem.model.head = Cosine(width, CLASSES, bias=False)


@fault("a norm on the logits", "MLP", "CNN", "ResNet", "LSTM")
def normalize_logits(problem: Problem) -> None:
    """The helper that adds a norm to every layer adds it to the last one as well."""
    norm = nn.LayerNorm(CLASSES, elementwise_affine=False)
    problem.model.head = nn.Sequential(problem.model.head, norm)


@fault("an embedding without its scale", "Transformer")
def forget_embedding_scale(problem: Problem) -> None:
    """Tokens with a deviation of 0.02 next to positions of size 1."""
    nn.init.normal_(problem.model.tokens.weight, std=0.02)


@fault("an embedding scaled twice", "Transformer")
def scale_embedding_twice(problem: Problem) -> None:
    """Twice the root of the width, and positions no longer count."""
    with torch.no_grad():
        problem.model.tokens.weight *= 32


@fault("tied weights that a copy has parted", "Transformer")
def copy_tied_weight(problem: Problem) -> None:
    """The output layer was to share the embedding and has a copy of it."""
    model = problem.model
    for table in (model.tokens, model.positions):
        nn.init.normal_(table.weight, std=1 / math.sqrt(32))
    model.head.weight = nn.Parameter(model.tokens.weight.detach().clone())


@fault("an input divided by 255 twice more", "MLP", "CNN", "ResNet", "UNet")
def divide_pixels_again(problem: Problem) -> Problem:
    """By the data set, its transform and the network; eps is then larger than the variance."""

    class Rescaled(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor) -> Tensor:
            return self.model(x / 255)

    return problem._replace(model=Rescaled(problem.model), x=problem.x / 255)


@fault("a deep stack that starts too small", "MLP")
def start_with_small_weights(problem: Problem) -> Problem:
    """A fixed deviation of 0.01 stalls deep networks (He et al., 2015)."""
    sizes = [20] + 12 * [64]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        linear = nn.Linear(before, after)
        nn.init.normal_(linear.weight, std=0.01)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return problem._replace(model=nn.Sequential(*layers, nn.Linear(64, CLASSES)))


# -------------------------------------------------------------------------------- attention


@fault("a causal mask that fills with 1e-9", "Transformer")
def fill_with_a_small_number(problem: Problem) -> None:
    """Written for -1e9."""
    change_weighing(problem, lambda x, future: x.masked_fill(future, 1e-9).softmax(-1))


@fault("a causal mask that is inverted", "Transformer")
def invert_mask(problem: Problem) -> None:
    """True means "leave out" for nn.MultiheadAttention, "take" for its functional core."""
    change_weighing(problem, lambda x, future: x.masked_fill(~future, -1e9).softmax(-1))


@fault("a causal mask one step late", "Transformer")
def shift_mask(problem: Problem) -> None:
    """``triu(2)``: each step sees the answer."""
    change_weighing(
        problem, lambda x, future: x.masked_fill(future.triu(2), -math.inf).softmax(-1)
    )


@fault("a mask of 0 and 1 that is added", "Transformer")
def add_plain_mask(problem: Problem) -> None:
    """A mask of floats is added to the logits, so that it needs -inf and 0."""
    change_weighing(problem, lambda x, future: (x + (~future).to(x.dtype)).softmax(-1))


@fault("attention that sums to 1 over the queries", "Transformer")
def take_softmax_over_queries(problem: Problem) -> None:
    """``softmax(-2)``."""
    change_weighing(problem, lambda x, future: x.masked_fill(future, -math.inf).softmax(-2))


@fault("attention multiplied by a mask after the softmax", "Transformer")
def mask_after_softmax(problem: Problem) -> None:
    """The weights of early steps sum to less than 1 and depend on the future."""
    change_weighing(problem, lambda x, future: x.softmax(-1).masked_fill(future, 0.0))


@fault("attention scaled twice", "Transformer")
def scale_attention_twice(problem: Problem) -> None:
    """Queries are divided before a function that divides by the same root itself."""
    for block in problem.model.blocks:
        block.attention.scale **= 2


@fault("heads merged without a transpose", "Transformer")
def merge_heads_wrongly(problem: Problem) -> None:
    """A reshape that mixes time steps with heads."""

    class Mixed(OpenAttention):
        def merge(self, heads: Tensor) -> Tensor:
            return heads

    change_attention(problem, Mixed)


@fault("positions that are not added", "Transformer")
def forget_positions(problem: Problem) -> None:
    """The table exists and ``forward`` does not use it."""

    class Unplaced(Transformer):
        def embed(self, tokens: Tensor) -> Tensor:
            return self.tokens(tokens)

    problem.model.__class__ = Unplaced


@fault("positions counted over the batch", "Transformer")
def count_positions_over_batch(problem: Problem) -> None:
    """Code for sequences with time first, given sequences with the batch first."""

    class Misplaced(Transformer):
        def embed(self, tokens: Tensor) -> Tensor:
            return self.tokens(tokens) + self.positions(torch.arange(len(tokens)))[:, None]

    problem.model.positions = nn.Embedding(32, 32)
    problem.model.__class__ = Misplaced


@fault("logits viewed where a transpose was meant", "Transformer")
def view_logits(problem: Problem) -> None:
    """The shape fits the loss, and classes are mixed with time steps."""

    class Viewed(Transformer):
        def forward(self, tokens: Tensor) -> Tensor:
            logits = super().forward(tokens).transpose(1, 2)
            return logits.reshape(len(tokens), 32, tokens.shape[1])

    problem.model.__class__ = Viewed


# ------------------------------------------------------------------------ mixed-up examples


@fault("the batch taken for time", "Transformer")
def attend_over_batch(problem: Problem) -> None:
    """A module with time first, given a batch first: examples see each other."""

    class OverBatch(SelfAttention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.transpose(0, 1)).transpose(0, 1)

    change_attention(problem, OverBatch)


@fault("the batch taken for time", "LSTM")
def recur_over_batch(problem: Problem) -> None:
    """``batch_first`` was forgotten: the state goes from one example to the next."""
    problem.model.lstm.batch_first = False


@fault("a last state viewed where a transpose was meant", "LSTM")
def view_last_state(problem: Problem) -> None:
    """The state has directions first; a view of it joins halves of two examples."""

    class Viewed(LSTMClassifier):
        def forward(self, x: Tensor) -> Tensor:
            _, (state, _) = self.lstm(x)
            return self.head(self.norm(state.view(len(x), 32)))

    problem.model.lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)
    problem.model.__class__ = Viewed


@fault("a loss that broadcasts", "MLP")
def broadcast_loss(problem: Problem) -> Problem:
    """Outputs of shape (32, 1) and targets of shape (32,) have 1,024 differences."""
    problem.model.head = nn.Linear(64, 1)
    y = problem.x[:, 0] - problem.x[:, 1]
    return problem._replace(y=y, loss_fn=lambda outputs, y: ((outputs - y) ** 2).mean())


# --------------------------------------------------------------------------- recurrent state


@fault("a state detached at each step", "LSTM")
def detach_state(problem: Problem) -> None:
    """What was meant for the end of a chunk cuts the gradient after each step."""

    class Detached(LSTMClassifier):
        def forward(self, x: Tensor) -> Tensor:
            output, state = self.lstm(x[:, :1])
            for step in range(1, x.shape[1]):
                state = state[0].detach(), state[1].detach()
                output, state = self.lstm(x[:, step : step + 1], state)
            return self.head(self.norm(output[:, -1]))

    problem.model.__class__ = Detached


@fault("a state kept between batches", "LSTM")
def keep_state(problem: Problem) -> None:
    """Each call begins where the last one ended."""

    class Keeping(LSTMClassifier):
        state: tuple[Tensor, Tensor] | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.state is not None and self.state[0].shape[1] != len(x):
                self.state = None
            outputs, state = self.lstm(x, self.state)
            self.state = state[0].detach(), state[1].detach()
            return self.head(self.norm(outputs[:, -1]))

    problem.model.__class__ = Keeping


@fault("a state that starts at random", "LSTM")
def start_at_random(problem: Problem) -> None:
    """``init_hidden`` with ``torch.randn``, in evaluation as well."""

    class Random(LSTMClassifier):
        def forward(self, x: Tensor) -> Tensor:
            state = torch.randn(2, 1, len(x), 32, dtype=x.dtype, device=x.device)
            outputs, _ = self.lstm(x, (state[0], state[1]))
            return self.head(self.norm(outputs[:, -1]))

    problem.model.__class__ = Random


@fault("the last output of two directions", "LSTM")
def read_both_directions(problem: Problem) -> None:
    """At the last step the backward direction has read one vector."""
    problem.model.lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)


# -------------------------------------------------------------------------------- gradients


@fault("rounding without a gradient", "MLP", "CNN", "LSTM", "ResNet")
def round_features(problem: Problem) -> None:
    """Bengio et al. (2013): a rounding needs a straight-through estimate."""
    rounding = Then(lambda x: torch.round(8 * x) / 8)
    problem.model.head = nn.Sequential(rounding, problem.model.head)


@fault("a gradient of NaN behind torch.where", "MLP", "CNN", "UNet")
def take_root_under_where(problem: Problem) -> None:
    """The branch that is not taken has a derivative of NaN, and 0 times it is NaN."""
    root = Then(lambda x: torch.where(x > 0, x.sqrt(), torch.zeros_like(x)))
    if isinstance(problem.model, MLP):
        problem.model.activation = root
    elif isinstance(problem.model, CNN):
        problem.model.norms[1] = nn.Sequential(problem.model.norms[1], root)
    else:
        problem.model.middle[2] = root


@fault("a gain that is not a leaf", "MLP", "LSTM")
def copy_parameter(problem: Problem) -> None:
    """``nn.Parameter(...).cuda()`` is a plain tensor, which no optimizer receives."""

    class Copied(WrittenByHand):
        def __init__(self, norm: nn.Module) -> None:
            super().__init__(norm)
            del self.weight
            self.weight = nn.Parameter(norm.weight.detach()).clone()

    replace(problem.model, nn.LayerNorm, Copied)


@fault("activations that are missing", "MLP")
def forget_activation(problem: Problem) -> None:
    """Layers with nothing between them but their norms."""
    problem.model.activation = nn.Identity()


@fault("activations that are missing", "CNN", "ResNet")
def drop_result_of_activation(problem: Problem) -> None:
    """``functional.relu(x)`` on a line of its own: its result is lost."""

    class Linear(CNN):
        def features(self, x: Tensor) -> Tensor:
            for conv, norm in zip(self.convs, self.norms, strict=True):
                x = norm(conv(x))
                functional.relu(x)
            return x

    class LinearBlock(ResidualBlock):
        def forward(self, x: Tensor) -> Tensor:
            return x + self.norm2(self.conv2(self.norm1(self.conv1(x))))

    class LinearStem(ResNet):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.blocks(self.norm(self.stem(x))).mean((2, 3)))

    if isinstance(problem.model, CNN):
        problem.model.__class__ = Linear
    else:
        problem.model.__class__ = LinearStem
        for block in problem.model.blocks:
            block.__class__ = LinearBlock
