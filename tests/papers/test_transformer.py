"""The transformer: against torch's own layers, one character at a time, and by its laws."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.rotation import effective_learning_rate, scale_invariant_weights
from lnlab.nn import LayerNorm, Linear
from lnlab.papers import transformer
from lnlab.papers.transformer import evaluate
from lnlab.papers.transformer.model import ARMS, Embedding, SelfAttention, Transformer, Turned
from lnlab.training import Evaluation, stack, train_steps
from lnlab.training.random_state import generator

V, T, D, HEADS, L = 11, 6, 8, 2, 2


def made(arm="pre", layers=L, *, seed=0, fused=True) -> Transformer:
    net = Transformer(V, T, layers, D, HEADS, ARMS[arm], fused=fused).double()
    net.draw(lambda name: generator(f"{name} {seed}"))
    return net


def text(*shape):
    torch.manual_seed(0)
    return torch.randint(V, shape)


def as_torch(block, *, first: bool) -> nn.TransformerEncoderLayer:
    """A block as torch has it; torch's biases are 0."""
    f = block.attention.f
    same = nn.TransformerEncoderLayer(
        D, HEADS, 4 * D, dropout=0.0, batch_first=True, norm_first=first
    ).double()
    for p in same.parameters():
        nn.init.zeros_(p)
    with torch.no_grad():
        same.self_attn.in_proj_weight.copy_(torch.cat([f.W_Q.W, f.W_K.W, f.W_V.W]))
        same.self_attn.out_proj.weight.copy_(f.W_O.W)
        same.linear1.weight.copy_(block.feed_forward.f.W_1.W)
        same.linear2.weight.copy_(block.feed_forward.f.W_2.W)
        for norm in (same.norm1, same.norm2):
            nn.init.ones_(norm.weight)
    return same


@pytest.mark.parametrize(("arm", "first"), [("pre", True), ("post", False)])
def test_blocks_are_those_of_torch(arm, first):
    net, x = made(arm), torch.randn(3, T, D, dtype=torch.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    for block in net.blocks:
        expected = as_torch(block, first=first)(x, src_mask=mask)
        torch.testing.assert_close(block(x.flatten(0, 1), T).view_as(x), expected)


@pytest.mark.parametrize("arm", ARMS)
def test_stacked_nets_compute_what_they_compute_alone(arm):
    nets, x = [made(arm, seed=seed) for seed in (0, 1)], text(2, 3, T)
    together = stack(nets)
    assert together._broadcasts
    for net, one, seen in zip(nets, x, together(x), strict=True):
        torch.testing.assert_close(seen, net(one))


@pytest.mark.parametrize("arm", ARMS)
def test_the_fused_operator_has_the_values_and_gradients_of_the_reference(arm):
    x, y = text(3, T), text(3, T)
    slopes = [
        evaluate.objective(made(arm, fused=fused), x, y).gradient() for fused in (True, False)
    ]
    torch.testing.assert_close(slopes[0][1], slopes[1][1])
    assert slopes[0][0] == pytest.approx(slopes[1][0])


@pytest.mark.parametrize("arm", ARMS)
def test_nobody_sees_what_comes_behind_him(arm):
    net, x = made(arm), text(1, T)
    changed = x.clone()
    changed[0, 4] = (x[0, 4] + 1) % V
    same = (net(x) == net(changed)).all(-1)[0]
    assert same.tolist() == [True] * 4 + [False] * 2


def test_where_normalizers_stand_is_what_the_arm_says():
    places = {
        arm: [isinstance(n, LayerNorm) for n in (b.before, b.behind, b.after)]
        for arm in ("pre", "post", "sandwich", "none")
        for b in [made(arm).blocks[0].attention]
    }
    assert places == {
        "pre": [True, False, False],
        "post": [False, False, True],
        "sandwich": [True, True, False],
        "none": [False, False, False],
    }
    assert made("none").blocks[0].attention.behind.factor == pytest.approx((2 * L) ** -0.5)


def test_what_a_normalizer_follows_is_scale_invariant():
    """Without biases W_V and W_1 hand a scale on to what stands behind: to W_O and W_2."""
    x = text(3, T)
    short = {f"blocks.0.attention.f.W_{m}.W": m for m in "QKVO"}
    short |= {f"blocks.0.feed_forward.f.W_{m}.W": m for m in "12"}
    for arm, expected in (("qk", "QK"), ("sandwich", "VO12"), ("pre", "")):
        found = scale_invariant_weights(made(arm, layers=1), x)
        assert {short[name] for name in found} == set(expected), arm


def test_turns_are_those_that_the_probe_of_optimizers_sees():
    net = made("qk")
    net.turned = Turned(net)
    x, y = text(3, T), text(3, T)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.1)
    with effective_learning_rate(net, optimizer, {}) as seen:
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(net(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
    net(x)  # the last turn is seen by the next call
    by_name = seen.to_frame().pivot(index="step", columns="name", values="angle")
    for name, angle in net.turned.angles().items():
        square = 0.0
        for turn in by_name[name]:
            square += Turned.MOMENTUM * (turn**2 - square)
        assert angle.item() == pytest.approx(square**0.5, rel=1e-6), name
    net.eval()
    before = dict(net.turned.angles())
    net(x)
    assert all(torch.equal(before[n], a) for n, a in net.turned.angles().items())


def test_the_gradient_of_pre_ln_falls_with_depth_and_that_of_post_ln_does_not():
    def top(arm, layers):
        found = [
            evaluate.profile(evaluate.objective(made(arm, layers, seed=seed), *each))[-1]
            for seed in range(3)
        ]
        return sum(found) / 3

    each = text(8, T), text(8, T)
    assert top("pre", 16) / top("pre", 2) < 0.5
    assert 0.7 < top("post", 16) / top("post", 2) < 1.5


def test_streams_are_those_that_go_from_block_to_block():
    net, x = made(), text(3, T)
    first, second, last = evaluate.streams(net, x)
    torch.testing.assert_close(net.blocks[0](first, T), second)
    logits = net.readout(net.top(last)).view(3, T, V)
    torch.testing.assert_close(net(x), logits)
    ones = torch.ones(4, D, dtype=torch.float64)
    assert evaluate.along_ones(ones) == pytest.approx(1.0)
    assert evaluate.along_ones(ones * torch.tensor([1, -1.0] * (D // 2))) == 0
    assert evaluate.largest(torch.tensor([[1.0, -1.0, 1.0, -50.0]])) == 50


def test_what_makes_no_sense_is_named():
    with pytest.raises(ValueError, match="heads is 3: it must divide the width, 64"):
        transformer.Experiment(heads=3)
    with pytest.raises(ValueError, match="heads is 3: it must divide the width, 8"):
        SelfAttention(8, 3, Linear)
    with pytest.raises(ValueError, match="context_length is 0"):
        transformer.Experiment(context_length=0)
    with pytest.raises(ValueError, match="a case has 7 characters, the context is 6"):
        Embedding(V, T, D)(text(1, 7))


def test_decay_is_of_matrices_alone_and_the_rate_rises_to_where_it_stays(tmp_path):
    task = transformer.Experiment.budget("smoke", weight_decay=0.5, seeds=(0, 1))
    model = stack([task.model(seed, task.dataset()) for seed in task.seeds])
    decayed, other = task.optimizer(model.parameters()).param_groups
    assert decayed["weight_decay"] == 0.5
    assert other["weight_decay"] == 0
    assert {p.dim() for p in decayed["params"]} == {3}
    assert {p.dim() for p in other["params"]} == {2}
    assert [task.schedule(part) for part in (0, 0.05, 0.1, 1)] == [0, 0.5, 1, 1]
    losses = [step.loss for step in train_steps(task, root=tmp_path)]
    assert all(loss.isfinite().all() for loss in losses)
    measured = task.evaluate(model, task.dataset(), Evaluation.FINAL)
    assert {f"gradient_norm_{layer}" for layer in (1, 2)} <= measured.keys()
    assert {f"rotation_{m}" for m in ("Q", "K", "V", "O", "1", "2")} <= measured.keys()
