"""Permutation-invariant MNIST: arms start and are fed alike, and differ where they say so."""

import json
from collections import Counter
from dataclasses import fields, replace
from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import BatchNorm, LayerNorm, Linear
from lnlab.nn.linear import DENSE_INITS
from lnlab.papers.mnist import ARMS, Experiment
from lnlab.training import Batches, evaluate, fit, stack, train_steps
from lnlab.training.runs import read

every_arm = pytest.mark.parametrize("arm", ARMS)
both_sizes = pytest.mark.parametrize("batch_size", [128, 4])


@pytest.fixture(scope="module")
def digits():
    return Experiment.budget("smoke").dataset()


def models(task, digits):
    """The task's models side by side, in float64."""
    return stack([task.model(seed, digits) for seed in task.seeds]).double()


def layers(net):
    """The layers of a model, from the pixels to the logits."""
    return [part for part in net.modules() if isinstance(part, Linear)]


def some(digits, *shape):
    """Cases and their classes, (*shape, D) and (*shape,), in float64."""
    cases = torch.arange(torch.Size(shape).numel()).reshape(shape) * 7 % len(digits.train)
    return digits.train.x[cases].double(), digits.train.y[cases]


@pytest.mark.parametrize("initialisation", DENSE_INITS)
def test_arms_start_from_the_same_weights(initialisation, digits):
    starts = [
        [layer.W for layer in layers(task.model(3, digits))]
        for task in Experiment.arms("smoke", initialisation=initialisation).values()
    ]
    for Ws in starts[1:]:
        assert all(map(torch.equal, Ws, starts[0]))
    other = Experiment.budget("smoke", initialisation=initialisation).model(4, digits)
    assert not torch.equal(layers(other)[0].W, starts[0][0])


def test_the_caller_s_random_numbers_do_not_matter(digits):
    first = Experiment.budget("smoke").model(0, digits)
    torch.manual_seed(99)
    again = Experiment.budget("smoke").model(0, digits)
    assert all(map(torch.equal, first.parameters(), again.parameters()))


@pytest.mark.parametrize(
    ("initialisation", "spread", "bound"),
    [
        ("he", (2 / 64) ** 0.5, None),
        ("torch", 64**-0.5 / 3**0.5, 64**-0.5),
        ("authors", 0.1 / 3**0.5, 0.1),
    ],
)
def test_initialisations_are_those_they_name(initialisation, spread, bound, digits):
    task = Experiment.budget("smoke", units=(400, 8), initialisation=initialisation)
    W = layers(task.model(0, digits))[0].W.detach()
    count = W.numel()
    assert W.std().item() == pytest.approx(spread, rel=4 / (2 * count) ** 0.5)  # 4 std errors
    assert abs(W.mean().item()) < 4 * spread / count**0.5  # likewise
    if bound is not None:
        assert 0.99 * bound < W.abs().max().item() <= bound


def test_arms_are_fed_the_same_batches(tmp_path):
    seen = {}

    class Listening(Experiment):
        def loss(self, output, y):
            if torch.is_grad_enabled():
                seen.setdefault(self.norm, []).append(y.clone())
            return super().loss(output, y)

    for arm in ("layer", "batch"):
        task = Listening.budget("smoke", norm=arm, batch_size=200, seeds=(0, 1))
        for _ in train_steps(task, root=tmp_path):
            pass
    layer, batch = (torch.stack(seen[arm]) for arm in ("layer", "batch"))
    assert layer.shape == (2 * 6, 2, 200)
    assert torch.equal(layer, batch)
    assert not torch.equal(layer[:, 0], layer[:, 1])
    assert not torch.equal(layer[:6], layer[6:])


@every_arm
@both_sizes
def test_two_steps_on_one_batch_reduce_the_loss_of_every_seed(arm, batch_size, digits):
    task = Experiment.budget("smoke", norm=arm, batch_size=batch_size)
    net = models(task, digits).train()
    x, y = some(digits, 2, batch_size)
    optimizer = task.optimizer(net.parameters())
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        losses.append(task.loss(net(x), y))
        losses[-1].sum().backward()
        optimizer.step()
    assert losses[0].shape == (2,)
    assert (losses[2] < losses[0]).all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_the_loss_is_the_nll_of_each_seed(digits):
    task = Experiment.budget("smoke")
    generator = torch.Generator().manual_seed(1)
    output = torch.randn(3, 5, 10, generator=generator)
    y = torch.randint(10, (3, 5), generator=generator)
    by_hand = -output.log_softmax(-1).gather(-1, y.unsqueeze(-1)).mean((1, 2))
    torch.testing.assert_close(task.loss(output, y), by_hand)
    torch.testing.assert_close(task.loss(output[:1], y[:1]), by_hand[:1])


@every_arm
def test_each_layer_has_one_bias_and_its_own_normalizer(arm, digits):
    *hidden, logits = layers(Experiment.budget("smoke", norm=arm, fused=False).model(0, digits))
    assert [tuple(layer.W.shape) for layer in (*hidden, logits)] == [
        (32, 64),
        (32, 32),
        (10, 32),
    ]
    for layer, norm in zip((*hidden, logits), (*ARMS[arm][:1] * 2, ARMS[arm][1]), strict=True):
        assert type(layer.norm) is type(norm(3))
        biases = [
            name for name, p in layer.named_parameters() if name in ("b_inside", "norm.b")
        ]
        assert len(biases) == 1


def test_layer_norm_is_kept_off_the_logits_and_batch_norm_is_not(digits):
    kinds = {
        arm: [type(layer.norm) for layer in layers(task.model(0, digits))]
        for arm, task in Experiment.arms("smoke", fused=False).items()
    }
    assert kinds["layer"].count(LayerNorm) == 2
    assert not issubclass(kinds["layer"][-1], LayerNorm)
    assert kinds["batch"] == [BatchNorm] * 3
    assert kinds["batch hidden"] == [BatchNorm, BatchNorm, kinds["none"][-1]]


@pytest.mark.parametrize("unbiased", [False, True])
def test_the_unbiased_variance_is_batch_norm_s_alone(unbiased, digits):
    for arm, task in Experiment.arms("smoke", unbiased=unbiased).items():
        norms = [layer.norm for layer in layers(task.model(0, digits))]
        corrections = {norm.correction for norm in norms if isinstance(norm, BatchNorm)}
        assert corrections == ({int(unbiased)} if "batch" in arm else set())


@every_arm
def test_the_order_of_the_pixels_does_not_matter(arm, digits):
    task = Experiment.budget("smoke", norm=arm, seeds=(0,))
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    trained = []
    for permuted in (False, True):
        net = models(task, digits).train()
        x, y = some(digits, 40)
        if permuted:
            first = layers(net)[0]
            first.W.data.copy_(first.W[:, order])
            x = x[:, order]
        steps = fit(net, Batches(x, y, 8, [0]), task.loss, task.optimizer(net.parameters()), 2)
        losses = torch.stack([*steps])
        trained.append((losses, net.eval()(x.unsqueeze(0))))
    # ten updates of roundings: sums over the pixels run in another order
    torch.testing.assert_close(trained[1], trained[0], rtol=1e-9, atol=1e-9)


def test_budgets_grow_from_smoke_to_the_paper():
    smoke, notebook, paper = (
        Experiment.budget(name) for name in ("smoke", "notebook", "paper")
    )
    assert smoke.data == notebook.data == "embedded"
    assert paper == Experiment()
    assert (paper.data, paper.units, paper.batch_size) == ("mnist", (1000, 1000), 128)
    assert smoke.epochs < notebook.epochs
    assert len(smoke.seeds) < len(notebook.seeds)


def test_batch_4_has_fewer_epochs_and_the_unbiased_variance():
    for name in ("smoke", "notebook", "paper"):
        large, small = Experiment.budget(name), Experiment.budget(name, batch_size=4)
        assert small.epochs < large.epochs
        assert (large.unbiased, small.unbiased) == (False, True)
        assert replace(small, batch_size=128, epochs=large.epochs, unbiased=False) == large
    told = Experiment.budget("smoke", batch_size=4, epochs=7, unbiased=False)
    assert (told.epochs, told.unbiased) == (7, False)


def test_changes_that_say_nothing_leave_the_budget_s_own():
    own = Experiment.budget("notebook")
    assert Experiment.budget("notebook", data="", seeds=(), epochs=None) == own
    assert Experiment.budget("notebook", unbiased=False, seeds=(7,)).seeds == (7,)


def test_arms_differ_in_the_normalizer_alone():
    arms = Experiment.arms("smoke", batch_size=4, seeds=(5,))
    assert {arm: task.norm for arm, task in arms.items()} == {arm: arm for arm in ARMS}
    assert {replace(task, norm="none") for task in arms.values()} == {
        Experiment.budget("smoke", norm="none", batch_size=4, seeds=(5,))
    }


def test_the_configuration_is_json_and_says_nothing_of_places(tmp_path):
    config = Experiment(data=f"mnist={tmp_path}").config()
    assert str(tmp_path) not in json.dumps(config)
    assert config["data"] == "mnist"
    assert Experiment(data="mnist").config() == config
    assert set(config) == {f.name for f in fields(Experiment)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"norm": "layr"}, "norm is 'layr': choose from none, layer, layer everywhere, batch"),
        ({"initialisation": "xavier"}, "'xavier': choose from he, torch, authors"),
        ({"batch_size": 0}, "batch_size is 0: give a whole number, at least 1, like 128"),
        ({"epochs": -1}, "epochs is -1: give a whole number, at least 1"),
        ({"seeds": ()}, "seeds is .*: give a tuple of at least one"),
        ({"seeds": ("a",)}, "seeds is .*: give a tuple of at least one: whole numbers"),
        ({"units": (8.5,)}, "units is .*: give a tuple of at least one: whole numbers"),
        ({"units": (-3,)}, "units is .*: whole numbers, at least 1, like"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast': give a number, at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: give a number"),
        ({"fused": 1}, "fused is 1: give True or False"),
        ({"best_metric": "train_nl"}, "choose from train_nll, test_nll, test_error"),
        ({"seeds": (0, 1, 0)}, r"\(0, 1, 0\): each once"),
    ],
)
def test_bad_fields_are_refused_by_name(changes, says):
    with pytest.raises(ValueError, match=says):
        Experiment(**changes)


def test_an_unknown_budget_is_told_what_there_is():
    with pytest.raises(ValueError, match="'huge': choose from smoke, notebook, paper"):
        Experiment.budget("huge")
    with pytest.raises(TypeError, match="wieght"):
        Experiment.budget("smoke", wieght=1)


@pytest.mark.parametrize("updates", [1, 9, 429, 13750])
def test_measurements_are_dense_at_the_start_and_twice_an_epoch(updates):
    task = Experiment(epochs=3)
    points = task.eval_points(updates)
    assert {0, updates, 2 * updates, 3 * updates} <= points
    assert max(points) == 3 * updates
    assert min(points) == 0
    assert {updates // 2, 3 * updates // 2} <= points
    early = sorted(point for point in points if 0 < point <= updates)
    assert all(later <= 2.5 * earlier for earlier, later in pairwise(early))
    assert early[0] <= max(1, updates / 100)


def test_measurements_every_so_many_updates_are_made_besides():
    plain, often = Experiment(epochs=2), Experiment(epochs=2, eval_every=200)
    assert often.eval_points(429) - plain.eval_points(429) == {200, 400, 600, 800}
    assert often.eval_points(429) > plain.eval_points(429)
    assert {10, 20, 30} < Experiment(eval_every=10, updates=35).eval_points(429)


def test_its_length_is_of_whole_batches(digits):
    for task, length in (
        (Experiment.budget("smoke"), 2 * (1200 // 128)),
        (Experiment.budget("smoke", batch_size=4), 300),
    ):
        assert task.num_updates(len(task.batches(digits))) == length


@pytest.mark.parametrize("arm", ["layer", "batch"])
def test_measuring_is_of_every_seed_in_evaluation_mode_and_leaves_no_trace(arm, digits):
    task = Experiment.budget("smoke", norm=arm)
    net = models(task, digits).train()
    net(some(digits, 2, 64)[0])
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    found = task.evaluate(net, digits)
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    x, y = digits.test.x.double(), digits.test.y
    for seed, alone in enumerate(net.unstack()):
        output = alone.eval()(x)
        assert found["test_nll"][seed] == pytest.approx(F.cross_entropy(output, y).item())
        wrong = (output.argmax(1) != y).double().mean().item()
        assert found["test_error"][seed] == pytest.approx(wrong)
    train_nll = evaluate(net, digits.train.x, digits.train.y, task.loss)["nll"]
    assert found["train_nll"] == pytest.approx(train_nll)


def metrics(task, root):
    """What a run of the task measured, but its times."""
    for _ in train_steps(task, root=root, precision="float64"):
        pass
    (run,) = (run for run in read(root) if run.config["fused"] == task.fused)
    return run.metrics().drop(columns=["seconds", "cpu_seconds"])


@pytest.mark.parametrize("arm", ["layer", "batch", "batch hidden", "rms"])
@both_sizes
def test_fused_operators_train_to_the_same_numbers(arm, batch_size, tmp_path):
    task = Experiment.budget("smoke", norm=arm, batch_size=batch_size, epochs=1, seeds=(0,))
    task = replace(task, units=(16, 16), unbiased=False)
    reference, fused = (metrics(replace(task, fused=on), tmp_path) for on in (False, True))
    # Adam divides by gradients that are roundings where a unit is nearly dead
    assert (reference - fused).abs().max().max() < 1e-9


def test_seeds_train_together_as_they_do_alone(tmp_path):
    task = Experiment.budget("smoke", norm="batch", seeds=(0, 1))
    together = metrics(task, tmp_path / "together")
    for seed in task.seeds:
        alone = metrics(replace(task, seeds=(seed,)), tmp_path / str(seed))
        same = together[together.seed == seed].reset_index(drop=True)
        # roundings of another order of sums, through 18 updates
        assert (same - alone).abs().max().max() < 1e-9


def test_metrics_have_a_row_for_each_seed_and_point(tmp_path):
    task = Experiment.budget("smoke")
    found = metrics(task, tmp_path)
    points = sorted(task.eval_points(9))
    assert Counter(found.seed) == {0: len(points), 1: len(points)}
    assert sorted(set(found["update"])) == points
    assert found.query("update == 0").loss.isna().all()
    assert (found.test_error.between(0, 1)).all()
    assert {"epoch", "train_nll", "test_nll"} <= set(found.columns)
    first, last = (found[found["update"] == point].train_nll for point in (0, 18))
    assert last.max() < first.min()


def test_logits_are_normalized_where_that_is_the_arm(digits):
    plain, everywhere = (
        Experiment.budget("smoke", norm=norm).model(0, digits)
        for norm in ("layer", "layer everywhere")
    )
    assert torch.equal(plain.layers[-1].W, everywhere.layers[-1].W)
    x = digits.train.x[:20].to(plain.layers[0].W)
    logits, normalized = plain(x).detach(), everywhere(x).detach()
    assert (normalized.std(1, correction=0) - 1).abs().max() < 1e-2
    assert normalized.mean(1).abs().max() < 1e-5
    assert (logits.std(1, correction=0) - 1).abs().max() > 1e-2
