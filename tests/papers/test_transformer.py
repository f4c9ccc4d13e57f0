"""The transformer: against torch's layers, with its causal mask, and by the papers' laws."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.rotation import record_rotation
from lnlab.papers.transformer import Experiment, evaluate
from lnlab.papers.transformer.model import ARMS, TransformerLanguageModel, WeightRotationTracker
from lnlab.training import Evaluation, stack, train_steps
from lnlab.training.random_state import generator_seeded_by_hash

V, T, D, HEADS, L = 11, 6, 8, 2, 2
TALES = Experiment.budget("smoke").dataset()
every_arm = pytest.mark.parametrize("arm", ARMS)


def make_net(arm="pre", layers=L, *, seed=0, fused=True) -> TransformerLanguageModel:
    net = TransformerLanguageModel(V, T, layers, D, HEADS, ARMS[arm], fused=fused).double()
    net.initialize_(lambda name: generator_seeded_by_hash(f"{name} {seed}"))
    return net


def text(*shape):
    torch.manual_seed(0)
    return torch.randint(V, shape)


@pytest.mark.parametrize(("arm", "norm_first"), [("pre", True), ("post", False)])
def test_blocks_are_those_of_torch(arm, norm_first):
    net, x = make_net(arm), torch.randn(3, T, D, dtype=torch.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    for block in net.blocks:
        settings = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
        theirs = nn.TransformerEncoderLayer(D, HEADS, 4 * D, **settings).double()
        for p in theirs.parameters():
            nn.init.zeros_(p)
        f = block.attention.f
        with torch.no_grad():
            theirs.self_attn.in_proj_weight.copy_(torch.cat([f.W_Q.W, f.W_K.W, f.W_V.W]))
            theirs.self_attn.out_proj.weight.copy_(f.W_O.W)
            theirs.linear1.weight.copy_(block.feed_forward.f.W_1.W)
            theirs.linear2.weight.copy_(block.feed_forward.f.W_2.W)
            for norm in (theirs.norm1, theirs.norm2):
                nn.init.ones_(norm.weight)
        expected = theirs(x, src_mask=mask)
        torch.testing.assert_close(block(x.flatten(0, 1), T).view_as(x), expected)


@every_arm
def test_stacked_fused_and_reference_networks_compute_the_same(arm):
    nets, x = [make_net(arm, seed=seed) for seed in (0, 1)], text(2, 3, T)
    together = stack(nets)
    assert together._broadcasts
    for net, one, output in zip(nets, x, together(x), strict=True):
        torch.testing.assert_close(output, net(one))
    y = text(3, T)
    (loss, grad), (expected_loss, expected_grad) = (
        evaluate.nll_objective(make_net(arm, fused=fused), x[0], y).gradient()
        for fused in (True, False)
    )
    torch.testing.assert_close(grad, expected_grad)
    assert loss == pytest.approx(expected_loss)


@every_arm
def test_a_character_depends_on_those_before_it_alone(arm):
    net, x = make_net(arm), text(1, T)
    changed = x.clone()
    changed[0, 4] = (x[0, 4] + 1) % V
    same = (net(x) == net(changed)).all(-1)[0]
    assert same.tolist() == [True] * 4 + [False] * 2


def test_the_blocks_since_2024_are_their_formulas(outcome):
    """Sun et al. (2025): x + f(LN(x) / sqrt(l)); Chen & Wei (2026): LN(2 L x + f(LN(x)))."""
    for arm in ("lns", "keel"):
        for l, block in enumerate(make_net(arm, layers=3).blocks, start=1):
            x = torch.randn(2 * T, D, dtype=torch.float64, requires_grad=True)
            h = x
            for f in (block.attention.f, block.feed_forward.f):
                n = F.layer_norm(h, (D,))
                if arm == "lns":
                    h = h + f(n / l**0.5, T)
                else:
                    h = F.layer_norm(2 * 3 * h + f(n, T), (D,))
            leaves = {"x": x, **dict(block.named_parameters())}
            gains = [name for name in leaves if name.endswith((".g", ".b"))]
            leaves = {name: leaves[name] for name in leaves if name not in gains}
            expected, found = outcome(h, **leaves), outcome(block(x, T), **leaves)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_scaled_initialisation_divides_the_last_matrix_of_each_branch():
    equal, scaled = (
        dict(Experiment.budget("smoke", initialisation=how).model(0, TALES).named_parameters())
        for how in ("equal", "scaled")
    )
    for name, W in equal.items():
        factor = 0.5 if name.endswith(("W_O.W", "W_2.W")) else 1.0  # 2 layers: sqrt(2 L) = 2
        torch.testing.assert_close(scaled[name], factor * W, msg=name)


def test_rotations_are_those_that_effective_learning_rate_sees():
    net = make_net("qk")
    net.turned = WeightRotationTracker(net)
    x, y = text(3, T), text(3, T)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.1)
    with record_rotation(net, optimizer, {}) as steps:
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(net(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
    net(x)  # the next call sees the last rotation
    by_name = steps.to_frame().pivot(index="step", columns="name", values="angle")
    for name, angle in net.turned.running_rms_rotation_angles().items():
        square = 0.0
        for step_angle in by_name[name]:
            square += WeightRotationTracker.MOMENTUM * (step_angle**2 - square)
        assert angle.item() == pytest.approx(square**0.5, rel=1e-6), name
    before = dict(net.turned.running_rms_rotation_angles())
    net.eval()(x)
    assert all(
        torch.equal(before[n], a) for n, a in net.turned.running_rms_rotation_angles().items()
    )


def test_gradients_fall_with_depth_in_pre_ln_and_not_in_post_ln():
    def top_gradient(arm, layers):
        losses = (
            evaluate.nll_objective(make_net(arm, layers, seed=seed), text(8, T), text(8, T))
            for seed in range(3)
        )
        return sum(evaluate.W_2_gradient_norm_per_layer(loss)[-1] for loss in losses) / 3

    assert top_gradient("pre", 16) / top_gradient("pre", 2) < 0.5
    assert 0.7 < top_gradient("post", 16) / top_gradient("post", 2) < 1.5


def test_residual_streams_are_those_between_blocks():
    net, x = make_net(), text(3, T)
    first, second, last = evaluate.embedding_and_block_outputs(net, x)
    torch.testing.assert_close(net.blocks[0](first, T), second)
    torch.testing.assert_close(net(x), net.readout(net.top(last)).view(3, T, V))
    ones = torch.ones(4, D, dtype=torch.float64)
    assert evaluate.squared_norm_fraction_along_ones(ones) == pytest.approx(1.0)
    assert (
        evaluate.squared_norm_fraction_along_ones(ones * torch.tensor([1, -1.0] * (D // 2)))
        == 0
    )
    assert (
        evaluate.largest_over_median_activation(torch.tensor([[1.0, -1.0, 1.0, -50.0]])) == 50
    )


def test_decay_is_of_matrices_alone_and_the_rate_rises_in_the_warmup(tmp_path):
    task = Experiment(preset="smoke", weight_decay=0.5, seeds=(0, 1))
    model = stack([task.model(seed, task.dataset()) for seed in task.seeds])
    groups = task.optimizer(model.parameters()).param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0]
    assert [{p.dim() for p in group["params"]} for group in groups] == [{3}, {2}]
    assert [task.schedule(progress) for progress in (0, 0.05, 0.1, 1)] == [0, 0.5, 1, 1]
    losses = [step.loss for step in train_steps(task, root=tmp_path)]
    assert all(loss.isfinite().all() for loss in losses)
    metrics = task.evaluate(model, task.dataset(), Evaluation.FINAL)
    assert {f"gradient_norm_{layer}" for layer in (1, 2)} <= metrics.keys()
    assert {f"rotation_{m}" for m in ("Q", "K", "V", "O", "1", "2")} <= metrics.keys()
