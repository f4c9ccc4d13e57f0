"""Real architectures, written small: what people bring to an audit."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from lnlab.auditing import Call
from tests.auditing.gallery import HOSTS


def cnn():
    """A host of the gallery, with batch norm."""
    _, model, x, y, loss_fn = HOSTS["CNN"]()
    return model, x, lambda out: loss_fn(out, y)


def unet():
    """Another, with group norm."""
    _, model, x, y, loss_fn = HOSTS["UNet"]()
    return model, x, lambda out: loss_fn(out, y)


class BatchNormAct2d(nn.BatchNorm2d):
    """Batch norm that holds the activation behind it, as timm's."""

    def __init__(self, units):
        super().__init__(units)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(super().forward(x))


class LayerNorm2d(nn.LayerNorm):
    """Layer norm of the channels of an image, as torchvision's."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """Liu et al. (2022): depthwise convolution, LN over channels last, GELU, layer scale."""

    def __init__(self, units):
        super().__init__()
        self.dwconv = nn.Conv2d(units, units, 7, padding=3, groups=units)
        self.norm = nn.LayerNorm(units, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(units, 2 * units), nn.Linear(2 * units, units)
        self.gamma = nn.Parameter(1e-1 * torch.ones(units))

    def forward(self, x):
        h = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        h = self.gamma * self.pwconv2(F.gelu(self.pwconv1(h)))
        return x + h.permute(0, 3, 1, 2)


class ChannelsFirst(nn.Module):
    """The same normalization on (B, C, H, W), as its authors write it by hand."""

    def __init__(self, units, eps=1e-6):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.ones(units)),
            nn.Parameter(torch.zeros(units)),
        )
        self.eps = eps

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        var = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(var + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


def convnext():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 2, 2), ChannelsFirst(8), ConvNeXtBlock(8), ConvNeXtBlock(8)
    )
    return net, torch.randn(4, 3, 12, 12), lambda y: y.square().mean()


def words(cases=4, length=6):
    return torch.arange(cases * length).reshape(cases, length) % 11


def next_word(y):
    y = y[0] if isinstance(y, tuple) else y
    return F.cross_entropy(y.flatten(0, 1), words().flatten())


class GPTBlock(nn.Module):
    """Radford et al. (2019): pre-LN, causal attention by torch's fused operator."""

    def __init__(self, units):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(units), nn.LayerNorm(units)
        self.c_attn, self.c_proj = nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.c_fc, self.c_out = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)

    def forward(self, x):
        B, T, D = x.shape
        qkv = self.c_attn(self.ln_1(x)).view(B, T, 3, 2, D // 2).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + self.c_proj(h.transpose(1, 2).reshape(B, T, D))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """The blocks, and a head tied to the embedding."""

    def __init__(self, units=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, units), nn.Embedding(6, units)
        self.h = nn.ModuleList([GPTBlock(units), GPTBlock(units)])
        self.ln_f, self.head = nn.LayerNorm(units), nn.Linear(units, 11, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, words):
        x = self.wte(words) + self.wpe.weight[: words.shape[1]]
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


def gpt():
    return GPT(), words(), next_word


@dataclass
class Encoded:
    """What a BERT returns."""

    last_hidden_state: torch.Tensor
    pooled: torch.Tensor


class BERT(nn.Module):
    """Devlin et al. (2019): embeddings that are normalized, post-LN, a mask, eps 1e-12."""

    def __init__(self, units=12):
        super().__init__()
        self.words, self.segments = nn.Embedding(11, units), nn.Embedding(2, units)
        self.norm = nn.LayerNorm(units, eps=1e-12)
        layer = nn.TransformerEncoderLayer(units, 2, 24, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pooler = nn.Linear(units, units)

    def forward(self, input_ids, segments=None, *, mask=None):
        x = self.words(input_ids)
        x = x if segments is None else x + self.segments(segments)
        h = self.layers(self.norm(x), src_key_padding_mask=mask)
        return Encoded(h, torch.tanh(self.pooler(h[:, 0])))


def bert():
    mask = torch.zeros(4, 6, dtype=torch.bool)
    mask[1:, 5] = True
    inputs = Call(words(), segments=(words() > 5).long(), mask=mask)
    return BERT(), inputs, lambda out: out.pooled.square().mean()


class RMS(nn.Module):
    """RMSNorm as the code of Llama and Mamba has it."""

    def __init__(self, units, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(units))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Mamba(nn.Module):
    """Gu & Dao (2023), one block: RMSNorm, gate, short convolution, a selective scan."""

    def __init__(self, units=8, states=4):
        super().__init__()
        self.norm, self.inwards = RMS(units), nn.Linear(units, 4 * units, bias=False)
        self.conv = nn.Conv1d(2 * units, 2 * units, 3, groups=2 * units, padding=2)
        self.select = nn.Linear(2 * units, 2 * states + 1, bias=False)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(2 * units, 1))
        self.outwards, self.states = nn.Linear(2 * units, units, bias=False), states

    def forward(self, x):
        u, z = self.inwards(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        dt, B, C = self.select(u).split([1, self.states, self.states], -1)
        decay = torch.exp(-F.softplus(dt)[..., None] * self.A_log.exp())
        h, out = torch.zeros_like(decay[:, 0]), []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + u[:, t, :, None] * B[:, t, None]
            out.append((h * C[:, t, None]).sum(-1))
        return x + self.outwards(torch.stack(out, 1) * F.silu(z))


def mamba():
    return nn.Sequential(Mamba(), Mamba(), RMS(8)), torch.randn(4, 5, 8), None


def transformer():
    """torch's own, with two inputs."""
    net = nn.Transformer(12, 2, 1, 1, 24, 0.1, batch_first=True)
    return net, (torch.randn(4, 5, 12), torch.randn(4, 3, 12)), lambda y: y.pow(4).mean()


def adaptive():
    """A diffusion block: LN without gain, scaled and shifted by a condition (two inputs)."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8, elementwise_affine=False)
            self.ada, self.mlp = nn.Linear(4, 16), nn.Linear(8, 8)

        def forward(self, x, condition):
            scale, shift = self.ada(condition).unsqueeze(1).chunk(2, -1)
            return x + self.mlp(F.silu(self.norm(x) * (1 + scale) + shift))

    return Block(), {"x": torch.randn(4, 5, 8), "condition": torch.randn(4, 4)}, None


NORMALIZERS = {
    transformer: {"LayerNorm": 7},
    cnn: {"BatchNorm": 3},
    convnext: {"LayerNorm": 3},
    unet: {"GroupNorm(4)": 3},
    gpt: {"LayerNorm": 5},
    bert: {"LayerNorm": 5},
    mamba: {"RMSNorm": 3},
    adaptive: {"LayerNorm or InstanceNorm": 1},
}
"""What each of them has, by what it computes."""

ARCHITECTURES = {make.__name__: make for make in NORMALIZERS}
