"""The task of listen, attend and spell: paired arms, batches, measures."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lnlab import data
from lnlab.nn import PUBLISHED as CELLS
from lnlab.nn import Hypothesis
from lnlab.nn.padding import cross_entropy
from lnlab.papers.las.evaluate import errors, inside, recognized, ribbon, validated
from lnlab.papers.las.experiment import PLACES, Spelling
from lnlab.papers.las.model import gathered, paired
from lnlab.training import stack, train_steps
from lnlab.training.runs import read

CPU = torch.device("cpu")
SMALL = Spelling.budget("smoke", train_size=24, epochs=2, batch_size=5)


@pytest.fixture(scope="module")
def corpus():
    return SMALL.dataset()


def test_arms_start_from_the_same_weights(corpus):
    nets = {place: replace(SMALL, norm=place).model(3, corpus) for place in PLACES}
    plain = dict(nets["none"].named_parameters())
    for place, net in nets.items():
        own = dict(net.named_parameters())
        assert all(torch.equal(own[name], p) for name, p in plain.items() if name in own)
        normalized = [name for name in own if name not in plain]
        assert any("listener" in name for name in normalized) == PLACES[place][0]
        assert any("speller" in name for name in normalized) == PLACES[place][1]
    again = replace(SMALL, norm="both").model(3, corpus)
    assert all(
        torch.equal(a, b)
        for a, b in zip(again.parameters(), nets["both"].parameters(), strict=True)
    )
    other = replace(SMALL, norm="both").model(4, corpus)
    assert not torch.equal(next(other.parameters()), next(again.parameters()))


@pytest.mark.parametrize("form", ["features", "time", "time masked"])
def test_the_listener_may_be_normalized_elsewhere(corpus, form):
    net = replace(SMALL, norm="encoder", encoder_norm=form).model(0, corpus)
    names = [name for name, _ in net.named_parameters() if "after" in name]
    assert len(names) == 2 * SMALL.encoder_layers
    assert not any("norm_h.g" in name for name, _ in net.named_parameters())


def test_the_gain_is_where_the_normalizers_start(corpus):
    net = replace(SMALL, norm="both", gain=0.1).model(0, corpus)
    gains = [p for name, p in net.named_parameters() if name.endswith("norm_h.g")]
    assert len(gains) == 2 * SMALL.encoder_layers + 1
    assert all(bool((g == torch.tensor(0.1, dtype=g.dtype)).all()) for g in gains)


def test_the_published_cell_is_hardmaru_s_without_gain_and_bias(corpus):
    task = replace(SMALL, norm="decoder", published_cell=True, swap_states=True)
    speller = task.model(0, corpus).double().speller
    names = [name for name, _ in speller.cells[0].named_parameters()]
    assert sorted(names) == ["W_h", "W_x", "b"]
    theirs = CELLS["hardmaru/supercell"](speller.cells[0].inputs, speller.cells[0].units)
    own = dict(speller.cells[0].named_parameters())
    with torch.no_grad():
        theirs.W_x.copy_(own["W_x"])
        theirs.W_h.copy_(own["W_h"])
        own["b"].zero_()
        theirs.norm_h.b.zero_()
    x, state = torch.randn(3, theirs.inputs), (torch.randn(3, 16), torch.randn(3, 16))
    for ours, other in zip(speller.cells[0](x, state), theirs(x, state), strict=True):
        torch.testing.assert_close(ours, other)
    assert replace(SMALL, norm="none", published_cell=True).model(0, corpus)


def batches(corpus, seeds=(0,), size=5):
    task = replace(SMALL, batch_size=size, seeds=seeds)
    return task.batches(corpus, device=CPU, dtype=torch.float64)


def heard(corpus, epoch, seeds=(0,), start=0):
    return list(batches(corpus, seeds).epoch(epoch, start))


def test_every_utterance_comes_once_in_an_epoch(corpus):
    found = batches(corpus)
    seen = [int(length) for heeded, _ in found.epoch(0) for length in heeded.lengths[0]]
    assert len(list(found.epoch(0))) == len(found) == 5
    assert sorted(seen) == sorted(len(u.features) for u in corpus.train)


def test_batches_hold_what_was_said(corpus):
    named = {tuple(u.units): u for u in corpus.train}
    for heeded, (units, counts) in batches(corpus).epoch(1):
        for row in range(heeded.features.shape[1]):
            said = [corpus.units[n] for n in units[0, row, : counts[0, row] - 1].tolist()]
            utterance = named[tuple(said)]
            length = heeded.lengths[0, row]
            assert length == len(utterance.features)
            torch.testing.assert_close(
                heeded.features[0, row, :length].float(), utterance.features
            )
            assert not heeded.features[0, row, length:].any()
            assert (units[0, row, counts[0, row] - 1 :] == len(corpus.units)).all()


def test_the_order_is_of_the_seed_and_the_epoch_alone(corpus):
    def lengths(*given, **more):
        return [h.lengths.tolist() for h, _ in heard(corpus, *given, **more)]

    assert lengths(1) == lengths(1)
    assert lengths(1) != lengths(0)
    assert lengths(1, seeds=(1,)) != lengths(1)
    assert lengths(1, start=2) == lengths(1)[2:]


def test_seeds_side_by_side_hear_their_own(corpus):
    together = heard(corpus, 0, seeds=(0, 1))
    alone = [heard(corpus, 0, seeds=(seed,)) for seed in (0, 1)]
    for place, (heeded, (units, counts)) in enumerate(together):
        for seed in (0, 1):
            one, (right, count) = alone[seed][place]
            T, U = one.features.shape[2], right.shape[2]
            assert torch.equal(heeded.features[seed, :, :T], one.features[0])
            assert torch.equal(units[seed, :, :U], right[0])
            assert torch.equal(counts[seed], count[0])


def test_seeds_trained_together_are_those_alone(tmp_path):
    for seeds in ((0, 1), (0,), (1,)):
        for _ in train_steps(
            replace(SMALL, norm="both", seeds=seeds), root=tmp_path, precision="float64"
        ):
            pass
    runs = {
        run.config["seeds"][0] if len(run.config["seeds"]) == 1 else "both": run
        for run in read(tmp_path, "las")
    }
    together = runs["both"].metrics()
    for seed in (0, 1):
        ours = together[together.seed == seed].reset_index(drop=True)
        alone = runs[seed].metrics()
        np.testing.assert_allclose(
            ours.test_nll, alone.test_nll, rtol=1e-6
        )  # Adam divides by tiny gradients
        np.testing.assert_allclose(ours.test_error, alone.test_error)


def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path):
    task = replace(SMALL, norm="encoder")
    steps = train_steps(task, root=tmp_path / "stopped")
    for _ in range(3):
        next(steps)
    steps.close()
    last = [list(train_steps(task, root=tmp_path / place)) for place in ("stopped", "whole")]
    assert torch.equal(last[0][-1].loss, last[1][-1].loss)
    assert len(last[0]) == len(last[1]) - 3


def test_noise_of_every_kind_goes_on_where_it_was(tmp_path):
    task = replace(
        SMALL,
        norm="both",
        input_noise=0.6,
        dropout=0.5,
        scheduled_sampling=0.5,
        learning_rate_decay=0.1,
    )
    steps = train_steps(task, root=tmp_path / "stopped")
    for _ in range(3):
        next(steps)
    steps.close()
    for place in ("stopped", "whole"):
        for _ in train_steps(task, root=tmp_path / place):
            pass
    stopped, whole = (read(tmp_path / place, "las")[0] for place in ("stopped", "whole"))
    for name, value in whole.weights().items():
        assert torch.equal(value, stopped.weights()[name]), name
    plain = replace(task, input_noise=0.0, dropout=0.0, scheduled_sampling=0.0)
    for _ in train_steps(plain, root=tmp_path / "plain"):
        pass
    (plain_run,) = read(tmp_path / "plain", "las")
    assert any(not torch.equal(v, plain_run.weights()[n]) for n, v in whole.weights().items())


def test_the_study_s_own_settings_train(corpus):
    paper = Spelling.budget("paper", norm="both")
    task = replace(paper, units=(8, 16), train_size=24, epochs=1, batch_size=5, max_length=20)
    assert (task.decoder_layers, task.beam_width, task.dropout, task.input_noise) == (
        2,
        16,
        0.5,
        0.6,
    )
    net = task.model(0, corpus)
    heeded, (units, counts) = next(
        iter(task.batches(corpus, device=CPU, dtype=torch.float64).epoch(0))
    )
    net = stack([net]).double().train()
    logits = net(heeded)
    assert logits.shape == (1, *units.shape[1:], len(corpus.units) + 1)
    task.loss(logits, (units, counts)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_what_was_attended_to_is_kept(tmp_path, corpus):
    for _ in train_steps(replace(SMALL, norm="both"), root=tmp_path):
        pass
    (run,) = read(tmp_path, "las")
    kept = run.pictures(0)
    assert [*kept] == run.metrics()["update"].tolist()
    for attention, heard in zip(kept.values(), run.metrics().hypotheses, strict=True):
        assert sorted(attention) == [f"attention {k}" for k in range(4)]
        assert len(heard) == 4
        for k, utterance in enumerate(corpus.test[:4]):
            alpha = attention[f"attention {k}"]
            steps = -(-len(utterance.features) // 2 ** (SMALL.encoder_layers - 1))
            assert alpha.dtype == np.float16
            assert alpha.shape[0] == len(utterance.units)
            assert alpha.shape[1] >= steps
            np.testing.assert_allclose(alpha.sum(1), 1, atol=0.05)  # rounded to be kept
            assert not alpha[:, steps:].any()


def test_the_validation_cases_are_measured_as_the_test_cases_are(corpus):
    net = SMALL.model(3, corpus)
    swapped = SimpleNamespace(units=corpus.units, test=corpus.valid, valid=corpus.test)
    search = {"width": SMALL.beam_width, "longest": SMALL.max_length}
    tested, of_test = recognized(net, corpus, **search), validated(net, swapped, **search)
    assert of_test["valid_nll"] == tested["test_nll"]
    assert of_test["valid_error"] == tested["test_error"]
    assert validated(net, corpus, **search) != of_test


def test_validation_is_measured_at_each_evaluation_where_asked_for(tmp_path):
    old, new = replace(SMALL, epochs=1), replace(SMALL, epochs=1, validate=True)
    for task in (old, new):
        for _ in train_steps(task, root=tmp_path):
            pass
    runs = {run.config["validate"]: run.metrics() for run in read(tmp_path)}
    measured = {"valid_nll", "valid_error"}
    assert {*runs[True]} - {*runs[False]} == measured
    assert not runs[True][[*measured]].isna().any(axis=None)
    same = ["test_nll", "test_error", "loss"]
    assert runs[False][same].equals(runs[True][same]), "measuring more trains nothing else"


def test_data_without_validation_cases_are_refused(monkeypatch):
    none = SimpleNamespace(valid=None)
    monkeypatch.setattr("lnlab.papers.las.experiment.load", lambda *said, **more: none)
    with pytest.raises(ValueError, match="embedded has no validation cases: validate=False"):
        replace(SMALL, validate=True).dataset()
    assert SMALL.dataset() is none


def test_errors_are_counted_as_by_hand():
    class U:
        def __init__(self, *units):
            self.units = units

    def said(*numbers):
        return Hypothesis(list(numbers), 0.0, torch.zeros(0), True)

    found = errors([U("a", "b", "c"), U("a")], [said(0, 2), said(1, 0)], ["a", "b", "c"])
    assert found["test_error"] == pytest.approx(2 / 4)  # b left out, b put in
    assert found["test_error_with_end"] == pytest.approx(2 / 6)
    assert found["deletions"] == found["insertions"] == pytest.approx(1 / 4)
    assert found["substitutions"] == 0
    assert errors([U("a")], [said()], ["a"])["test_error"] == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"norm": "layer"}, "choose from none, encoder, decoder, both"),
        ({"encoder_norm": "units"}, "choose from cell, features, time"),
        ({"units": (64,)}, "units is .*: give a tuple of 2: whole numbers"),
        ({"seeds": (1, 1)}, "each once"),
        ({"max_length": 0}, "at least 1"),
        ({"beam_width": 0}, "at least 1"),
        ({"learning_rate_decay": 0.0}, "above 0 and at most 1"),
    ],
)
def test_impossible_settings_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        Spelling(**given)


def test_speech_can_be_cut_short(corpus):
    assert len(corpus.train) == 24
    assert len(corpus.test) == 6
    assert data.load("embedded", "speech", most=24).checksum == corpus.checksum


@pytest.mark.parametrize("norm", ["none", "both"])
def test_inside_is_the_gradient_of_the_loss_and_all_parameters(corpus, norm):
    net = replace(SMALL, norm=norm).model(0, corpus).double()
    found = inside(net, corpus)
    numbers = {unit: number for number, unit in enumerate(corpus.units)}
    batch, counts = gathered(corpus.train[:16], numbers, torch.float64)
    slopes = torch.autograd.grad(
        cross_entropy(net(batch), batch.units, counts), list(net.parameters())
    )
    total = torch.cat([slope.flatten() for slope in slopes]).norm()
    assert found["lipschitz"] == pytest.approx(float(total), rel=1e-9)
    shown = found["quantiles"]
    low, _, middle, _, high = shown["speller.readout.W"]
    values = net.speller.readout.W.flatten()
    expected = torch.quantile(values, torch.tensor([0.05, 0.5, 0.95]))
    assert [low, middle, high] == pytest.approx(expected.tolist(), rel=0.01, abs=1e-3)
    h, _ = net.listener.layers[0](
        paired(batch.features.transpose(0, 1), batch.lengths)[0],
        lengths=(batch.lengths + 1) // 2,
    )
    assert shown["listener.layers.0"][4] == pytest.approx(
        float(torch.quantile(h.detach().flatten(), 0.95)), rel=0.1
    )
    own = {
        name.replace(".cells.0", "").replace(".cells.1", "")
        for name, _ in net.listener.named_parameters()
    }
    assert {f"listener.{name}" for name in own} <= shown.keys()


def test_a_ribbon_is_what_was_seen_along_the_run(tmp_path):
    for _ in train_steps(SMALL, root=tmp_path):
        pass
    metrics = read(tmp_path, "las")[0].metrics()
    frame = ribbon(metrics, "speller.readout.W")
    assert frame.step.tolist() == metrics["update"].tolist()
    assert (frame.q05 < frame.q25).all() and (frame.q75 < frame.q95).all()  # noqa: PT018
    assert frame.q95.iloc[-1] == metrics.quantiles.iloc[-1]["speller.readout.W"][-1]
    with pytest.raises(ValueError, match="choose from listener"):
        ribbon(metrics, "speller.readout.W_x")


def test_to_look_inside_changes_nothing(corpus):
    net = replace(SMALL, norm="both").model(0, corpus)
    before = {name: p.clone() for name, p in net.state_dict().items()}
    random = torch.get_rng_state()
    inside(net, corpus)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(before[name], p) for name, p in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_the_slip_of_the_published_code_is_made_only_where_it_is_asked_for():
    assert not any(
        task.swap_states or task.published_cell for task in Spelling.budgets().values()
    )
