"""fit is a plain loop that can be watched, stopped and measured."""

import copy
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.training import Batches, cross_entropy, evaluate, evaluating, fit, stack

x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
y = (x[:, 0] > 0).long()


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def begun(models, epochs=3, start=0, optimizer=None):
    """A stack in training: the stack, its optimizer, its steps."""
    model = stack(models) if isinstance(models, list) else models
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=0.01)
    batches = Batches(x, y, 4, range(model.count))
    return model, optimizer, fit(model, batches, cross_entropy, optimizer, epochs, start=start)


def same(one: nn.Module, other: nn.Module) -> bool:
    states = one.state_dict(), other.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_fit_is_the_plain_loop_to_the_last_bit():
    plain = net()
    model, _, steps = begun([plain])
    losses = [step.loss.item() for step in steps]
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    expected = []
    for epoch in range(3):
        for cases, targets in Batches(x, y, 4, (0,)).epoch(epoch):
            optimizer.zero_grad()
            loss = F.cross_entropy(plain(cases[0]), targets[0])
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
    assert losses == expected
    assert same(model.module, plain)


def test_steps_count_updates_epochs_and_time():
    *_, steps = begun([net(), net()])
    steps = list(steps)
    assert [step.update for step in steps] == list(range(1, 31))
    assert [step.epoch for step in steps[4::5]] == [0.5, 1, 1.5, 2, 2.5, 3]
    assert all(step.loss.shape == (2,) and not step.loss.requires_grad for step in steps)
    for clock in ("seconds", "cpu_seconds"):
        times = [getattr(step, clock) for step in steps]
        assert times == sorted(times)
        assert times[0] > 0


def test_time_between_steps_is_not_counted(monkeypatch):
    """By a clock that goes on a second each time it is read, and an hour between steps."""
    now = count()
    clock = SimpleNamespace(perf_counter=lambda: next(now), process_time=lambda: 0.0)
    monkeypatch.setattr("lnlab.training.trainer.time", clock)
    *_, steps = begun([net()], epochs=1)
    seconds = []
    for step in steps:
        seconds.append(step.seconds)
        now = count(next(now) + 3600)
    assert seconds == [*range(1, 11)]


def test_one_update_is_made_when_it_is_asked_for():
    model, _, steps = begun([net(), net()])
    before = copy.deepcopy(model)
    assert same(model, before)
    next(steps)
    assert not same(model, before)
    before = copy.deepcopy(model)
    steps.close()
    assert same(model, before)


@pytest.mark.parametrize("stop", [1, 9, 10, 11, 29, 30])
def test_a_new_fit_goes_on_where_the_last_one_stopped(stop):
    models = [net(), net()]
    whole, _, steps = begun(models)
    losses = [step.loss for step in steps]
    model, optimizer, steps = begun(models)
    for step in steps:
        if step.update == stop:
            break
    steps.close()
    *_, steps = begun(model, start=stop, optimizer=optimizer)
    rest = list(steps)
    assert [step.update for step in rest] == list(range(stop + 1, 31))
    assert all(torch.equal(step.loss, losses[step.update - 1]) for step in rest)
    assert same(model, whole)


def test_fit_trains_what_was_left_in_evaluation_mode():
    model, _, steps = begun([net(), net()])
    model.eval()
    next(steps)
    assert all(part.training for part in model.modules())


def test_loss_of_each_model_is_the_mean_over_its_cases():
    output, targets = torch.randn(3, 5, 4), torch.randint(4, (3, 5))
    expected = torch.stack(
        [F.cross_entropy(o, t) for o, t in zip(output, targets, strict=True)]
    )
    torch.testing.assert_close(cross_entropy(output, targets), expected)
    assert torch.equal(cross_entropy(output[:1], targets[:1]), expected[:1])


def test_evaluate_is_the_mean_over_all_cases():
    models = [net() for _ in range(3)]
    found = evaluate(stack(models), x, y, cross_entropy, size=7)
    for index, model in enumerate(models):
        output = model.eval()(x)
        nll, error = F.cross_entropy(output, y), (output.argmax(1) != y).double().mean()
        assert found["nll"][index] == pytest.approx(nll.item(), rel=1e-13)
        assert found["error"][index] == error.item()


def test_evaluate_takes_a_plain_model():
    model = net()
    alone = evaluate(model, x, y, F.cross_entropy)
    stacked = evaluate(stack([model]), x, y, cross_entropy)
    assert alone == stacked


def test_evaluate_follows_the_model_in_dtype():
    model = net().float()
    assert evaluate(model, x, y, F.cross_entropy) == evaluate(
        model, x.float(), y, F.cross_entropy
    )


def test_evaluate_leaves_no_trace():
    model = stack([net(), net()])
    model(x[:10].expand(2, 10, 6)).sum().backward()
    model.get_submodule("module.1").eval()  # somebody froze the statistics
    modes = [part.training for part in model.modules()]
    state = copy.deepcopy(model.state_dict())
    gradients = copy.deepcopy([parameter.grad for parameter in model.parameters()])
    evaluate(model, x, y, cross_entropy)
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=0)
    assert torch.is_grad_enabled()


def test_evaluating_restores_the_modes_after_an_error():
    model = net()
    model[1].eval()
    with pytest.raises(KeyError), evaluating(model):
        raise KeyError(model.training)
    assert [part.training for part in model] == [True, False, True, True]


def test_evaluate_needs_cases():
    with pytest.raises(ValueError, match="no cases"):
        evaluate(net(), x[:0], y[:0], F.cross_entropy)
