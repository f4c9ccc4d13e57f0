"""Order embeddings: penalty, loss and ranks by their formulas, the reader, what is measured."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from lnlab.data import Vocabulary
from lnlab.nn import Identity, LayerNorm
from lnlab.papers import OrderEmbeddings
from lnlab.papers.order_embeddings import evaluate
from lnlab.papers.order_embeddings.model import OrderEmbedding, Pairs, contrastive, penalty
from lnlab.training import Moment, found, train
from lnlab.training.runs import read

H, D, E = 6, 5, 4
KNOWN = Vocabulary(["a", "dog", "and", "cat", "big"])
SMOKE = OrderEmbeddings.budget("smoke", seeds=(0,))


def net(norm=LayerNorm, **settings):
    torch.manual_seed(3)
    return OrderEmbedding(KNOWN, D, H, E, norm, **settings).double()


# --- penalty and loss ------------------------------------------------------------------------


def test_the_penalty_is_what_lies_beyond_squared():
    captions, pictures = torch.rand(4, H), torch.rand(3, H)
    found = penalty(captions, pictures)
    for c, p in product(range(4), range(3)):
        beyond = [max(0.0, float(s - i)) ** 2 for s, i in zip(captions[c], pictures[p])]  # noqa: B905
        assert float(found[c, p]) == pytest.approx(sum(beyond))
    below = pictures[1] * torch.rand(H)
    assert not penalty(below[None], pictures)[0, 1]
    torch.testing.assert_close(evaluate.violations(captions, pictures), found)


def test_the_loss_adds_both_ways_and_leaves_out_the_right_ones():
    captions, pictures, margin = torch.rand(4, H), torch.rand(4, H), 0.3
    places = torch.tensor([0, 1, 2, 1])  # one picture is there twice
    cost = penalty(captions, pictures)
    expected = 0.0
    for i, j in product(range(4), range(4)):
        if places[i] != places[j]:
            expected += max(0.0, float(margin + cost[i, i] - cost[i, j]))  # another picture
            expected += max(0.0, float(margin + cost[j, j] - cost[i, j]))  # another caption
    found = contrastive(captions, pictures, places, margin)
    assert float(found) == pytest.approx(expected)
    assert expected > 0


# --- the reader ------------------------------------------------------------------------------


def pairs():
    texts = ["a dog and a big cat", "cat", "a dog", "a strange cat"]
    words, lengths = KNOWN.encoded(texts)
    return Pairs(torch.randn(4, D), words, lengths)


@pytest.mark.parametrize("norm", [Identity, LayerNorm])
@pytest.mark.parametrize("unit", [True, False])
def test_points_are_the_formula_and_padding_enters_nothing(norm, unit):
    given, made = pairs(), net(norm, unit_captions=unit)
    captions, pictures = made(given)
    for row, length in enumerate(given.lengths.tolist()):
        x = made.word[given.words[row, :length]]
        h = made.reader(x.unsqueeze(1))[1][-1, 0]
        expected = (h / h.norm() if unit else h).abs()
        torch.testing.assert_close(captions[row], expected, rtol=0, atol=1e-12)  # other order
    seen = given.vectors @ made.W.T + made.b
    torch.testing.assert_close(pictures, (seen / seen.norm(dim=1, keepdim=True)).abs())
    longer = torch.cat([given.words, torch.full((4, 3), 4)], dim=1)
    torch.testing.assert_close(made.read(longer, given.lengths), captions)


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_fused_it_is_the_same_function_with_the_same_gradients(norm):
    dataset = SMOKE.dataset()
    both = {}
    for fused in (True, False):
        task = replace(SMOKE, norm=norm, fused=fused)
        made = task.model(0, dataset).double()
        x, y = next(task.batches(dataset, dtype=torch.float64).epoch(0))
        loss = contrastive(*made(Pairs(*(part[0] for part in x))), y[0], task.margin)
        loss.backward()
        both[fused] = {"loss": loss} | {n: p.grad for n, p in made.named_parameters()}
        assert made.reader.opaque is fused
    assert both[True].keys() == both[False].keys()
    for name, expected in both[False].items():
        torch.testing.assert_close(both[True][name], expected, rtol=1e-9, atol=1e-12, msg=name)


@torch.no_grad()
def test_initialisations_are_those_that_they_are_called():
    dataset, wide = SMOKE.dataset(), {"units": (64,), "embedding_size": 48}
    paper = replace(SMOKE, **wide).model(0, dataset)
    assert float(paper.word.abs().max()) <= 0.1
    U = paper.reader.cells[0].W_h[:64]
    torch.testing.assert_close(
        U @ U.T, torch.eye(64, dtype=U.dtype), rtol=0, atol=1e-5
    )  # float32
    modern = replace(SMOKE, initialisation="modern", gain=0.3, **wide).model(0, dataset)
    assert float(modern.word.std()) == pytest.approx(1, rel=0.1)
    assert float(modern.W.std()) == pytest.approx(dataset.width**-0.5, rel=0.1)
    cell = modern.reader.cells[0]
    for norms, gain in (((cell.norm_h, cell.norm_U), 0.3), ((cell.norm_x, cell.norm_W), 1.0)):
        assert all(torch.equal(norm.g, torch.full_like(norm.g, gain)) for norm in norms)


def test_weights_of_another_vocabulary_are_refused():
    made, others = (
        net(),
        OrderEmbedding(Vocabulary(["a", "cat", "and", "dog", "big"]), D, H, E, LayerNorm),
    )
    made.load_state_dict(made.state_dict())
    with pytest.raises(ValueError, match="another vocabulary"):
        made.load_state_dict(others.double().state_dict())


# --- batches ---------------------------------------------------------------------------------


def test_an_epoch_has_every_picture_once_with_a_caption_of_its_own():
    task = replace(SMOKE, seeds=(0, 1), batch_size=32)
    dataset = task.dataset()
    batches = task.batches(dataset)
    known, own = dataset.vocabulary, dataset.train
    drawn = {}
    for epoch in (0, 1):
        places = []
        for x, y in batches.epoch(epoch):
            for seed, row in product(range(2), range(32)):
                place, length = int(y[seed, row]), int(x.lengths[seed, row])
                said = " ".join(known.words[w] for w in x.words[seed, row, : length - 1])
                assert said in own.of(place)
                assert np.allclose(x.vectors[seed, row], own.vectors[place])
                assert not x.words[seed, row, length - 1 :].any()
            places.append(y)
        drawn[epoch] = torch.cat(places, 1)
        assert all(len(set(row.tolist())) == len(own) == 128 for row in drawn[epoch])
    assert not torch.equal(drawn[0][0], drawn[0][1])
    assert not torch.equal(drawn[0], drawn[1])
    (x, y), *_ = batches.epoch(1, start=2)
    assert torch.equal(y, drawn[1][:, 64:96])
    with pytest.raises(ValueError, match="a batch of 129 cannot be taken from 128 pictures"):
        replace(task, batch_size=129).batches(dataset)


# --- ranks -----------------------------------------------------------------------------------


def sorted_ranks(violation, each):
    """Ranks by sorting, as the authors do; there are no ties."""
    v = violation.numpy()
    of_caption = [
        1 + min(np.argsort(v[:, p]).tolist().index(each * p + k) for k in range(each))
        for p in range(v.shape[1])
    ]
    of_image = [1 + np.argsort(v[c]).tolist().index(c // each) for c in range(len(v))]
    return of_caption, of_image


def test_ranks_are_those_of_sorting():
    violation = torch.rand(5 * 12, 12)
    captions, images = evaluate.ranks(violation)
    of_caption, of_image = sorted_ranks(violation, 5)
    assert captions.tolist() == of_caption
    assert images.tolist() == of_image


def test_a_net_that_is_lost_has_no_rank():
    violation = torch.rand(10, 2)
    violation[3] = torch.nan
    captions, images = evaluate.ranks(violation)
    assert captions.isfinite().tolist() == [False, True]
    assert images.isfinite().tolist() == [n != 3 for n in range(10)]
    assert evaluate.ranks(torch.full((10, 2), torch.nan))[0].isnan().all()


def test_who_finds_everything_is_first_and_who_sees_nothing_is_chance():
    right = 1 - torch.eye(20).repeat_interleave(5, 0)
    found = evaluate.retrieved(right, "test", 20)
    assert {found[f"test_{way}_r1"] for way in ("caption", "image")} == {100}
    assert found["test_image_mean_rank"] == found["test_caption_median_rank"] == 1
    blind = evaluate.retrieved(torch.zeros(100, 20), "test", 20)
    assert blind["test_image_mean_rank"] == evaluate.chance(20)["image_mean_rank"] == 10.5
    assert blind["test_image_r10"] == blind["test_image_r1"] == 0


def test_chance_is_what_guessing_gives():
    many = [evaluate.retrieved(torch.rand(100, 20), "t", 20) for _ in range(300)]
    for name, expected in evaluate.chance(20).items():
        mean = np.mean([one[f"t_{name}"] for one in many])
        assert mean == pytest.approx(expected, rel=0.08), name  # 6,000 guesses


def test_folds_are_searched_apart():
    violation = torch.rand(50, 10)
    halves = [evaluate.retrieved(violation[25 * k : 25 * k + 25, 5 * k : 5 * k + 5], "t", 5)
              for k in range(2)]  # fmt: skip
    whole = evaluate.retrieved(violation, "t", 5)
    assert whole == {n: pytest.approx(np.mean([h[n] for h in halves])) for n in whole}
    ranks = evaluate.retrieved(violation, "t", 4)
    assert ranks["t_image_mean_rank"] < whole["t_image_mean_rank"]  # two of four, two left out


def test_precision_is_of_those_that_it_is_true_of():
    true = torch.rand(30, 12).numpy() < 0.3
    everything = evaluate.truth(torch.from_numpy(1.0 - true), true, "t")
    assert everything["t_true_1"] == 100 * np.mean(true.any(1))
    order = np.argsort(violation := np.random.default_rng(0).random((30, 12)), axis=1)[:, :10]
    found = evaluate.truth(torch.from_numpy(violation), true, "t")
    assert found["t_true_10"] == pytest.approx(100 * np.take_along_axis(true, order, 1).mean())


def test_words_alone_find_what_words_alone_tell():
    task = replace(SMOKE, train_size=1000)
    found = evaluate.baseline(task.dataset(), fold=500)
    guessing = evaluate.chance(500)
    assert found["test_image_r10"] > 10 * guessing["image_r10"]
    assert found["test_image_mean_rank"] < guessing["image_mean_rank"] / 4


# --- what is measured ------------------------------------------------------------------------


def test_the_order_of_captions_is_their_violation_pair_by_pair():
    dataset = SMOKE.dataset()
    made = SMOKE.model(0, dataset)
    found = evaluate.order(made, dataset)
    forth, right = [], []
    for pair in dataset.entailments:
        special, general = evaluate.points(made, pair, dataset.vocabulary)
        forth.append(float((general - special).clamp(min=0).square().sum()))
        right.append(forth[-1] < float((special - general).clamp(min=0).square().sum()))
    assert found["entailment_violation"] == pytest.approx(np.mean(forth), rel=1e-4)  # float32
    assert found["direction_accuracy"] == pytest.approx(np.mean(right), abs=0.01)


def test_the_test_is_of_the_best_on_validation(tmp_path):
    task = replace(SMOKE, epochs=3, eval_every=1, learning_rate=0.05)
    list(train(task, root=tmp_path))
    (run,) = read(tmp_path)
    rows = run.metrics()
    *way, end = rows.to_dict("records")
    assert not any(
        "test_image_r1" in row and row["test_image_r1"] == row["test_image_r1"] for row in way
    )
    best = max(row["valid_recall"] for row in way)
    assert (
        end["valid_recall"]
        == pytest.approx(best)
        == run.result["outcomes"]["0"]["best"]["value"]
    )
    assert way[-1]["valid_recall"] < best, "else this shows nothing"
    assert 0 <= end["test_true_1"] <= 100
    assert rows["update"].tolist() == [*range(7), 6]


def test_a_run_is_found_by_its_split(tmp_path):
    assert found(SMOKE, root=tmp_path) is None
    assert "split" in SMOKE.config()
    with pytest.raises(ValueError, match="scenes has no option split"):
        replace(SMOKE, split=1).dataset()


def test_only_the_end_looks_at_the_test():
    dataset = SMOKE.dataset()
    model = torch.nn.Module()
    model.unstack = lambda: [SMOKE.model(0, dataset)]
    for moment in Moment:
        names = SMOKE.measure(model, dataset, moment)
        assert any(name.startswith("test") for name in names) == (moment is Moment.END)
