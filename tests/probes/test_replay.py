"""What is not computed again is, to the last bit, what computing it would have given."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from lnlab.norms.invariances import Statistics
from lnlab.probes.subject import Subject, Trial, weights_of

D, H, B = 5, 6, 4


class Written(nn.Module):
    """Writes into its activations, through views and in place."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(D, H), nn.Linear(H, H)

    def forward(self, x):
        a = self.first(x)
        before = a + 1
        a[:, :2].mul_(3.0)
        a.relu_()
        a += self.last.weight.sum()
        return self.last(F.relu(a, inplace=True)) + before


class Aside(nn.Module):
    """Writes into an activation behind the back of its version."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(D, H), nn.Linear(H, H)

    def forward(self, x):
        a = self.first(x)
        a.data.add_(self.last.weight.sum())
        return torch.tanh(a) @ self.last.weight


class Branching(nn.Module):
    """Takes another way where its numbers are others."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(D, H), nn.Linear(H, H)

    def forward(self, x):
        a = self.first(x)
        b = self.last(a.tanh())
        if float(self.last.weight.sum()) > 100:
            b = b.sin().relu() + a
        return b.relu() + a.sum(dim=0)


class Late(nn.Module):
    """Writes into an activation on the way that it takes where its numbers are others."""

    def __init__(self, aside=False):
        super().__init__()
        self.first, self.last = nn.Linear(D, H), nn.Linear(H, H)
        self.aside = aside

    def forward(self, x):
        a = self.first(x)
        b = self.last(a).tanh()
        if float(self.last.weight.abs().sum()) > 100:
            (a.data if self.aside else a).mul_(2.0)
        return b.relu() + a


class Remembering(nn.Module):
    """Writes into the activation of the evaluation before."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.kept = nn.Linear(D, H), nn.Linear(H, H), []

    def forward(self, x):
        for kept in self.kept:
            kept.zero_()
        a = self.first(x)
        self.kept = [a]
        return self.last(a.relu())


class Rounded(nn.Module):
    """Computes in another precision, which no call of a function says."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(D, H), nn.Linear(H, H)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            a = F.linear(x.float(), self.first.weight.float())
            return F.linear(a.relu(), self.last.weight.float()).double()


class Unseen(nn.Module):
    """Reads a weight where nobody sees it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(D, H), nn.Linear(H, H)

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            scale = float(self.first.weight[0, 0])
        return self.last((scale * self.first(x)).tanh())


class Keeping(nn.Module):
    """Reads what its first layer gave past the layer's hooks."""

    class Layer(nn.Linear):
        def forward(self, x):
            self.a = super().forward(x)
            return self.a

    def __init__(self):
        super().__init__()
        self.first, self.last = self.Layer(D, H), nn.Linear(H, H)

    def forward(self, x):
        return self.last(self.first(x).relu()) + self.first.a


def residual() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, H, 3, padding=1), nn.BatchNorm2d(H), nn.ReLU(inplace=True),
        nn.Conv2d(H, H, 3), nn.BatchNorm2d(H), nn.Flatten(), nn.Linear(H * 16, 3),
    )  # fmt: skip


MODULES = {
    "written": (Written, (B, D)),
    "aside": (Aside, (B, D)),
    "branching": (Branching, (B, D)),
    "late": (Late, (B, D)),
    "late aside": (lambda: Late(aside=True), (B, D)),
    "remembering": (Remembering, (B, D)),
    "rounded": (Rounded, (B, D)),
    "keeping": (Keeping, (B, D)),
    "unseen": (Unseen, (B, D)),
    "convolutions": (residual, (B, 3, 6, 6)),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(D, H), nn.Dropout(0.5), nn.Linear(H, H), nn.Tanh()),
        (B, D),
    ),
    "weight norm": (
        lambda: nn.Sequential(
            parametrizations.weight_norm(nn.Linear(D, H)),
            parametrizations.spectral_norm(nn.Linear(H, H)),
        ),
        (B, D),
    ),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
        (B, 3, 8),
    ),
    "lstm": (lambda: nn.LSTM(D, H, 2, batch_first=True), (B, 3, D)),
}


@pytest.mark.parametrize("statistics", Statistics)
@pytest.mark.parametrize("name", MODULES)
def test_a_repetition_is_the_evaluation_to_the_last_bit(name, statistics):
    make, shape = MODULES[name]
    module, x = make().double(), torch.randn(shape)
    subject = Subject(module, x, statistics=statistics)
    subject.see(reuse=True)
    for path, weight in weights_of(module).items():
        for factor in (1.0, -2.0, 1e3, 0.5):
            trial = Trial(subject.x, {path: factor * subject.parameters[path].data})
            agree(subject.see(trial, reuse=True), subject.see(trial))
        if weight.summed:
            trial = Trial(subject.x, shift=(weight.owner, lambda a: 3 * a + 1))
            agree(subject.see(trial, reuse=True), subject.see(trial))
    agree(subject.see(reuse=True), subject.see())
    other = Trial(2 * subject.x)
    agree(subject.see(other, reuse=True), subject.see(other))


def agree(one, other):
    assert torch.equal(one.y, other.y)
    assert [site.name for site in one.inside] == [site.name for site in other.inside]
    for new, old in zip(one.inside, other.inside, strict=True):
        assert torch.equal(new.a, old.a)
        assert new.h is old.h is None or torch.equal(new.h, old.h)


@pytest.mark.parametrize(
    ("weight", "made"), [("0.weight", 2), ("3.weight", 1), ("6.weight", 0)]
)
def test_nothing_in_front_of_the_change_is_computed_again(weight, made):
    subject = Subject(residual().double(), torch.randn(B, 3, 6, 6), statistics=Statistics.BATCH)
    subject.see(reuse=True)
    subject.see(reuse=True)  # all is computed once more, to see that it can be repeated
    trial = Trial(subject.x, {weight: 2 * subject.parameters[weight].data})
    with torch.profiler.profile() as seen:
        subject.see(trial, reuse=True)
    counts = {event.key: event.count for event in seen.key_averages()}
    assert counts.get("aten::convolution", 0) == made
