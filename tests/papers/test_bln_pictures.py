"""Batch layer normalization in LeNet: the net, its arms, evaluation in 16 configurations."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from lnlab.data import shapes
from lnlab.nn import CODE, CONFIGURATIONS, Population
from lnlab.papers import batch_layer_norm
from lnlab.papers.batch_layer_norm.evaluate import asking, fitted, score, searched
from lnlab.papers.batch_layer_norm.experiment import Part, Parts
from lnlab.papers.batch_layer_norm.model import ARMS, Around, KerasBatchNorm, mixtures_of
from lnlab.papers.classification import LOWER
from lnlab.training import Evaluation, stack, train_steps
from lnlab.training.runs import read

M = 5


def pictures(count=4 * M, classes=10):
    x = torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return Part(x, torch.arange(count) % classes)


def dataset(**splits):
    return SimpleNamespace(classes=10, train=pictures(), **splits)


def task(norm="batch layer", m=M, **settings):
    return batch_layer_norm.ImageExperiment(
        norm=norm, batch_size=m, train_size=4 * M, seeds=(0,), data="shapes", **settings
    )


def net(norm="batch layer", m=M, trained=3, **settings):
    """A net that has seen a few batches, in evaluation mode."""
    model = task(norm, m, **settings).model(0, dataset()).double()
    for k in range(trained):
        model.train()(torch.randn(m, 3, 32, 32) * (1 + k))
    return model.eval()


@pytest.mark.parametrize("norm", ARMS)
def test_the_net_has_as_many_parameters_as_the_published_one(norm):
    assert sum(p.numel() for p in net(norm).parameters()) == 83_578


def test_the_net_is_the_published_one_layer_by_layer():
    model = net("layer")
    x = torch.randn(M, 3, 32, 32)

    def norm(h, place):
        layer = model.norms[place]
        h = h.movedim(1, -1)
        normed = F.layer_norm(h, h.shape[-1:], layer.g, layer.b, eps=1e-3)
        return normed.movedim(-1, 1)

    h = x
    for k, padding in ((0, 2), (1, 0)):
        layer = model.convolutions[k]
        a = F.conv2d(h, layer.W, layer.b_inside, padding=padding)
        h = norm(F.avg_pool2d(a.tanh(), 2, 2), k)
    h = h.flatten(1)
    for k in (0, 1):
        layer = model.dense[k]
        h = norm((h @ layer.W.T + layer.b_inside).tanh(), 2 + k)
    readout = model.dense[2]
    torch.testing.assert_close(model(x), h @ readout.W.T + readout.b_inside)


def test_before_is_another_place_than_after():
    x = torch.randn(M, 3, 32, 32)
    before, after = net("layer", norm_position="before"), net("layer", norm_position="after")
    seen = []
    before.norms[0].register_forward_hook(lambda norm, args, h: seen.append(args[0]))
    before(x)
    assert seen[0].shape == (M, 6, 32, 32)  # summed inputs, not pooled yet
    layer = before.convolutions[0]
    torch.testing.assert_close(seen[0], F.conv2d(x, layer.W, layer.b_inside, padding=2))
    assert not torch.allclose(before(x), after(x))


def test_weights_start_as_in_the_published_code():
    model = net()
    first = model.dense[1].W  # (84, 120): its rows are orthonormal
    torch.testing.assert_close(first @ first.T, torch.eye(84).double(), rtol=0, atol=1e-6)
    bound = (6 / (25 * 3 + 25 * 6)) ** 0.5
    assert model.convolutions[0].W.abs().max() <= bound
    assert model.convolutions[0].W.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert all(not layer.b_inside.any() for layer in [*model.convolutions, *model.dense])


def test_keras_batch_norm_remembers_a_biased_variance_also_of_one_case():
    norm = KerasBatchNorm(4)
    x = torch.randn(6, 4)
    norm(x)
    torch.testing.assert_close(norm.running_mean, 0.01 * x.mean(0))
    torch.testing.assert_close(norm.running_var, 0.99 + 0.01 * x.var(0, correction=0))
    norm = KerasBatchNorm(4)
    for _ in range(1000):
        assert torch.equal(norm(torch.randn(1, 4)), torch.zeros(1, 4))  # b, whatever comes in
    assert norm.running_var.max() < 1e-4
    x = torch.randn(1, 4)
    expected = (x - norm.running_mean) / 1e-3**0.5
    torch.testing.assert_close(norm.eval()(x), expected, rtol=0.05, atol=0)


@pytest.mark.parametrize("norm", ["batch layer", "batch, axis 0", "batch", "layer"])
def test_a_score_is_of_batches_by_themselves(norm):
    model, cases = net(norm), pictures(4 * M + 3)
    found = score(model, cases, M, task().judge)
    outputs = torch.cat([model(x) for x in cases.x[: 4 * M].double().split(M)])
    y = cases.y[: 4 * M]
    assert found.nll == pytest.approx(F.cross_entropy(outputs, y).item(), rel=1e-12)
    assert found.accuracy == pytest.approx((outputs.argmax(1) == y).double().mean().item())
    model.train()
    trained = torch.cat([model(x) for x in cases.x[: 4 * M].double().split(M)])
    as_trained = fitted(model, cases, M, task().judge)
    assert as_trained.nll == pytest.approx(F.cross_entropy(trained, y).item(), rel=1e-12)


def test_no_whole_batch_is_an_error():
    with pytest.raises(ValueError, match="4 cases make no batch of 5"):
        score(net(), pictures(4), M, task().judge)


def test_every_configuration_is_scored_and_two_are_chosen():
    model = net()
    splits = {"valid": pictures(2 * M), "test": pictures(4 * M)}
    found = searched(model, splits, M, task().judge)
    for letters in CONFIGURATIONS:
        with asking(mixtures_of(model), letters):
            for split, cases in splits.items():
                one = score(model, cases, M, task().judge)
                assert found[f"{split}_nll_{letters}"] == one.nll
                assert found[f"{split}_accuracy_{letters}"] == one.accuracy
    assert all(norm.population == Population() for norm in mixtures_of(model))
    for split, what in (("valid", "chosen"), ("test", "optimistic")):
        best = min(CONFIGURATIONS, key=lambda letters: found[f"{split}_nll_{letters}"])
        assert found[f"{what}_accuracy"] == found[f"test_accuracy_{best}"]
        assert found[f"{what}_nll"] == found[f"test_nll_{best}"]
    assert found["optimism"] == found["optimistic_accuracy"] - found["chosen_accuracy"]


def test_one_case_leaves_four_configurations_unless_the_factor_is_left_out():
    splits = {"valid": pictures(4), "test": pictures(4)}
    found = searched(net(m=1), splits, 1, task().judge)
    numbers = {
        one for one in CONFIGURATIONS if found[f"test_nll_{one}"] == found[f"test_nll_{one}"]
    }
    assert numbers == {"TFTF", "TFFF", "FFTF", "FFFF"}
    found = searched(net(m=1, unbiased=False), splits, 1, task().judge)
    assert all(value == value for value in found.values())


def test_an_arm_without_configurations_has_no_optimism():
    found = searched(net("layer"), {"valid": pictures(), "test": pictures()}, M, task().judge)
    assert found["optimism"] == 0
    assert found["chosen_nll"] == score(net("layer"), pictures(), M, task().judge).nll
    assert len(found) == 5


def test_one_case_of_the_mixture_is_layer_norm_over_sqrt_d():
    """All that is left of "BLN against LN" at batch 1: size, and one part in ten thousand."""
    mixture, layer = net("batch layer", m=1, trained=0), net("layer", trained=0)
    for ours, theirs in zip(mixture.norms, layer.norms, strict=True):
        assert torch.equal(ours.g, theirs.g)
        with torch.no_grad():
            theirs.g *= 0.9999 / ours.units**0.5
    x = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(mixture.train()(x), layer(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("m", [1, M])
@pytest.mark.parametrize("norm", ARMS)
def test_seeds_side_by_side_are_those_alone(norm, m):
    """Outputs, gradients, and what the normalizers remember of their own batches."""
    models = [task(norm, m).model(seed, dataset()).double().train() for seed in (0, 1, 2)]
    together = stack(models)
    for k in range(3):
        x = (1 + k) * torch.randn(3, m, 3, 32, 32, dtype=torch.float64)
        alone = torch.stack([model(each) for model, each in zip(models, x, strict=True)])
        output = together(x)
        torch.testing.assert_close(output, alone, rtol=0, atol=1e-12)
        for each in (output, alone):
            each.square().sum().backward()
    for apart, model in zip(together.unstack(), models, strict=True):
        for name, kept in model.named_buffers():
            torch.testing.assert_close(apart.get_buffer(name), kept, rtol=1e-12, atol=1e-12)
    for name, p in together.named_parameters():
        expected = [model.get_parameter(name.removeprefix("module.")).grad for model in models]
        torch.testing.assert_close(p.grad, torch.stack(expected), rtol=1e-9, atol=1e-9)


def test_single_cases_train_side_by_side_and_batches_in_turn():
    assert [task(m=m).model(0, dataset()).opaque for m in (1, M)] == [False, True]


def test_population_statistics_are_those_of_the_last_epoch(tmp_path):
    run_task = task(epochs=2, valid_size=M, test_size=M)
    model = run_task.model(0, dataset())
    assert {norm.over_cases.epoch for norm in mixtures_of(model)} == {4}
    assert all(norm.m == M and norm.variant == CODE for norm in mixtures_of(model))
    assert all(not norm.over_cases.batches for norm in mixtures_of(model))


def test_batches_come_in_one_order_in_every_epoch():
    some = task().batches(dataset())
    first, second = ([x for x, _ in some.epoch(k)] for k in (0, 7))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    other = batch_layer_norm.ImageExperiment(
        batch_size=M, train_size=4 * M, seeds=(1,), data="shapes"
    )
    assert not torch.equal(next(other.batches(dataset()).epoch(0))[0], first[0])


def test_training_cases_are_measured_in_their_own_batches_and_in_others():
    one, x64 = task(valid_size=M, test_size=M), torch.float64
    data = dataset(valid=pictures(M))
    model = stack([one.model(0, data)]).double()
    found = one.evaluate(model, data, Evaluation.FULL)
    (single,) = model.unstack()
    for name, batches in (
        (
            "train_nll_own_batches",
            [(x[0], y[0]) for x, y in one.batches(data, dtype=x64).epoch(3)],
        ),
        ("train_nll", list(zip(data.train.x.split(M), data.train.y.split(M), strict=True))),
    ):
        losses = [F.cross_entropy(single(x.double()), y).item() for x, y in batches]
        assert found[name] == [pytest.approx(sum(losses) / 4, rel=1e-12)]
    assert found["train_nll_own_batches"] != found["train_nll"]


def test_pixels_are_standardized_over_the_training_cases():
    data = batch_layer_norm.ImageExperiment.budget("smoke").dataset()
    x = data.train.x
    assert x.shape == (100, 3, 32, 32)
    assert (len(data.valid), len(data.test)) == (50, 100)
    torch.testing.assert_close(x.mean(0), torch.zeros(3, 32, 32).float(), rtol=0, atol=1e-5)
    torch.testing.assert_close(x.var(0, correction=0), torch.ones_like(x[0]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("m", [1, 25])
def test_a_killed_training_goes_on_to_the_same_scores(m, tmp_path):
    one = batch_layer_norm.ImageExperiment.budget(
        "smoke", seeds=(0, 1), epochs=2, train_size=4 * m, batch_size=m
    )
    *_, _ = train_steps(one, root=tmp_path / "whole")
    steps = train_steps(one, root=tmp_path / "killed", save_every=0)
    for _ in range(6):  # past the first epoch, in the midst of the second
        next(steps)
    steps.close()
    *_, _ = train_steps(one, root=tmp_path / "killed")
    whole, killed = (
        next(iter(read(tmp_path / part))).metrics() for part in ("whole", "killed")
    )
    times = ["seconds", "cpu_seconds"]
    assert whole.drop(columns=times).equals(killed.drop(columns=times))
    asked = "TTTT" if m > 1 else "TFTF"
    assert whole[f"test_accuracy_{asked}"].notna().sum() >= 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": "digits"}, "digits has no valid cases"),
        ({"train_size": 600}, "train cases: ask"),
        ({"valid_size": 600}, "valid cases: ask"),
    ],
)
def test_data_that_do_not_fit_are_named(settings, words, monkeypatch):
    monkeypatch.setattr(shapes, "SIZES", {"train": 500, "valid": 500, "test": 500})
    wrong = batch_layer_norm.ImageExperiment.budget("smoke", **settings)
    with pytest.raises(ValueError, match=words):
        wrong.model(0, wrong.dataset())


def test_data_without_validation_are_refused():
    whole = SimpleNamespace(name="digits", valid=None)
    with pytest.raises(ValueError, match="digits has no valid cases"):
        Parts(whole, {"valid": 10}, lambda x: x)


def test_small_pictures_and_unknown_places_are_refused():
    small = SimpleNamespace(classes=10, train=Part(torch.zeros(M, 3, 8, 8), torch.zeros(M)))
    with pytest.raises(ValueError, match=r"shape \(3, 8, 8\): LeNet reads"):
        task().model(0, small)
    with pytest.raises(ValueError, match="norm_position"):
        task(norm_position="beside")


def test_arms_are_what_their_names_say():
    around = Around(25, 360, CODE)
    made = {name: arm(around)(16) for name, arm in ARMS.items()}
    said = {n: (m.terms, m.root_d) for n, m in made.items() if hasattr(m, "terms")}
    assert said == {
        "batch layer": ("both", True), "batch, axis 0": ("cases", False),
        "batch, axis 0, small": ("cases", True), "batch layer, full size": ("both", False),
    }  # fmt: skip
    assert torch.equal(made["layer, small gain"].g, torch.full((16,), 0.25))
    assert {norm.eps for norm in made.values()} == {1e-3}


LAYERS = [
    *(["convolutions.0", "norms.0"], ["convolutions.1", "norms.1"]),
    *(["dense.0", "norms.2"], ["dense.1", "norms.3"], ["dense.2"]),
]
"""The parameters of LeNet by layer, a normalizer with what it stands behind."""


@pytest.mark.parametrize("norm", ["batch", "layer", "batch layer"])
def test_the_shift_is_that_of_a_small_step_in_the_batches_of_the_training(norm):
    one, data = (
        task(norm, gradient_angle=True, fused=False),
        dataset(valid=pictures(), test=pictures()),
    )
    model = net(norm)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    row = one.evaluate(stack([model]), data)
    angles = []
    for place in range(4):
        own = one.batches(data).order(0)[place * M : (place + 1) * M]
        x, y = data.train.x[own].double(), data.train.y[own]
        start = deepcopy(model).train()
        value = F.cross_entropy(start(x), y)
        grads = torch.autograd.grad(value, [*start.parameters()])
        eta = LOWER * value.detach() / sum(g.square().sum() for g in grads)
        turned = []
        for layer, names in enumerate(LAYERS):
            mixed = deepcopy(model).train()
            with torch.no_grad():
                for (name, p), g in zip(mixed.named_parameters(), grads, strict=True):
                    below = any(name.startswith(n) for each in LAYERS[:layer] for n in each)
                    p -= eta * g * below
            mine = [name.startswith(tuple(names)) for name, _ in mixed.named_parameters()]
            new = torch.autograd.grad(F.cross_entropy(mixed(x), y), [*mixed.parameters()])
            G, G_ = (
                torch.cat([g.ravel() for g, is_ in zip(those, mine, strict=True) if is_])
                for those in (grads, new)
            )
            turned.append(F.cosine_similarity(G, G_, dim=0).clamp(-1, 1).arccos().item())
        angles.append(sum(turned[1:]) / (len(turned) - 1))
    assert row["gradient_angle"][0] == pytest.approx(sum(angles) / len(angles), rel=1e-4)
    after = model.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert "gradient_angle" not in task(norm, fused=False).evaluate(stack([model]), data)
