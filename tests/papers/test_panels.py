"""The panels of experiments: what they show is what runs kept and what models compute."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import NORMS
from lnlab.papers import handwriting, las
from lnlab.papers.attentive_reader import panel as reading_panel
from lnlab.papers.draw import panel as drawing_panel
from lnlab.papers.handwriting import panel as writing_panel
from lnlab.papers.handwriting import pen
from lnlab.papers.handwriting.data import ALPHABETS, Alphabet
from lnlab.papers.handwriting.model import HandwritingNet, LineBatch
from lnlab.papers.las import panel as attention_panel
from lnlab.papers.order_embeddings import panel as order_panel
from lnlab.papers.order_embeddings.data import parse_caption
from lnlab.papers.order_embeddings.evaluate import embed_captions, embed_images
from lnlab.papers.order_embeddings.model import order_violation_matrix
from lnlab.papers.skip_thoughts import panel as thoughts_panel
from lnlab.papers.skip_thoughts.data import EncodedBooks
from lnlab.papers.transformer import evaluate
from lnlab.papers.transformer import panel as transformer_panel
from lnlab.papers.transformer.model import NormLayersAndPlacement, TransformerLanguageModel
from lnlab.seeds import read_seeds
from lnlab.training import train, train_steps
from lnlab.training.random_state import default_dtype, generator_seeded_by_hash
from lnlab.training.runs import read
from tests.panels.given import digits, drawer, questions, reader, untrained
from tests.papers.test_skip_thoughts import SMALL
from tests.papers.test_skip_thoughts_data import Written, random_books

# Attention of recognizers.


@pytest.fixture(scope="module")
def recognizers(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    small = las.Experiment.budget("smoke", train_size=24, epochs=2)
    for norm in ("none", "both"):
        for _ in train_steps(replace(small, norm=norm), root=root):
            pass
    return {run.config["norm"]: run for run in read(root, "las")}, small.dataset().test


def test_attention_is_what_the_runs_kept_at_every_moment_of_every_example(recognizers):
    runs, utterances = recognizers
    panel = attention_panel.attention(*recognizers)
    assert panel.settings == attention_panel.AttentionPanelSettings(0, 2)
    for example in range(2):
        units = " ".join(utterances[example].units)
        for epoch in range(3):
            panel.settings = attention_panel.AttentionPanelSettings(example, epoch)
            assert panel.footer.sentence.startswith(f"Epoch {epoch:g}. Spoken: ")
            assert units in panel.footer.sentence
            for slot, run in enumerate(runs.values()):
                update = run.metrics()["update"][epoch]
                alpha = run.pictures(0)[update][f"attention {example}"]
                steps = -(-len(utterances[example].features) // 2)
                trace = panel.plots["attention"].current_trace(f"attention {slot}")
                np.testing.assert_array_equal(trace["z"], alpha[:, :steps])
                assert trace["x"][0] == pytest.approx(0.01)  # half a step
    with pytest.raises(ValueError, match="there are no runs"):
        attention_panel.attention({}, utterances)


# Drawings and readers.


def test_drawings_are_those_that_were_kept():
    runs = {"none": drawer(0), "layer": drawer(1)}
    panel = drawing_panel.drawing(runs, digits())
    assert panel.settings == drawing_panel.DrawingPanelSettings(0, 3, 80)
    assert len(panel.controls["picture"].options) == 2, "of the third no drawing was kept"
    panel.settings = drawing_panel.DrawingPanelSettings(1, 2, 40)
    plot = panel.plots["drawing"]
    for slot, run in enumerate(runs.values()):
        arrays = run.pictures(0)[40]
        images = {"looked": digits()[1], "canvas": arrays["canvas"][1, 1]}
        images["dreams"] = drawing_panel.tile_images(arrays["dreams"])
        for kind, image in images.items():
            np.testing.assert_array_equal(plot.current_trace(f"{kind} {slot}")["z"], image)
        sizes = {"looked": 2, "canvas": 5}
        for (kind, count), window in zip(sizes.items(), arrays["windows"], strict=True):
            grid = drawing_panel.FilterGrid(*map(float, window[:, 1, 1]), count)
            trace = plot.current_trace(f"{kind} window {slot}")
            np.testing.assert_array_equal(
                trace["x"], drawing_panel.window_and_filter_centers_trace(grid)["x"]
            )
    with pytest.raises(ValueError, match=r"glimpses, \[3, 4\]"):
        drawing_panel.drawing({"none": drawer(0), "layer": drawer(0, glimpses=4)}, digits())


def test_words_have_the_attention_that_was_kept_and_entities_have_colours():
    runs = {"none": reader(0), "layer": reader(1)}
    panel = reading_panel.reading(runs, [*questions()] * 3)
    assert len(panel.controls["question"].options) == 2, "of the others nothing was kept"
    panel.settings = reading_panel.ReadingPanelSettings(1, 70)
    plot = panel.plots["reading"]
    words = [*questions()[0].passage.split(), "<end>"]
    for slot, run in enumerate(runs.values()):
        cells, text = (plot.current_trace(f"{kind} {slot}") for kind in ("attention", "words"))
        alpha = run.pictures(0)[70]["attention 1"]
        for word, x, y, weight in zip(words, text["x"], text["y"], alpha, strict=True):
            begin = round(x - (len(word) - 1) / 2)
            assert (cells["z"][int(y), begin : begin + len(word)] == weight).all()
        assert np.isfinite(cells["z"]).sum() == sum(map(len, words))
        colours = dict(zip(words, text["textfont"]["color"], strict=True))
        assert len({colours[name] for name in questions()[0].candidates}) == 3
    assert ": none: @entity1 (80%); layer" in panel.footer.sentence
    panel.settings = reading_panel.ReadingPanelSettings(1, 0)
    early = plot._layout["annotations"][1]["text"]
    assert "answers @entity0 with probability 50% (right answer: @entity1, 20%)" in early
    assert "error on all validation questions: 50%" in early
    none = SimpleNamespace(metrics=reader(0).metrics, pictures=lambda seed: {}, config={})
    with pytest.raises(ValueError, match="kept no attention"):
        reading_panel.reading({"none": none}, questions())


# Order embeddings.


@pytest.fixture(scope="module")
def search():
    return order_panel.PictureAndCaptionSearch(*untrained("order_embeddings"))


def test_the_nearest_pictures_are_those_of_least_violation(search):
    state = order_panel.OrderPanelSettings("a heart left of a thing", "layer")
    model, result = search.models["layer"], search.find_nearest(state)
    point = embed_captions(model, (state.caption,), search.dataset.vocabulary)
    expected = order_violation_matrix(point, embed_images(model, search.dataset.test))[
        0
    ].numpy()
    np.testing.assert_allclose(
        result.violation_per_test_picture, expected, rtol=1e-5
    )  # float32
    nearest = result.violation_per_test_picture[result.nearest_pictures].tolist()
    assert nearest == sorted(nearest) == pytest.approx(sorted(expected)[:8], rel=1e-5)
    assert np.array_equal(
        result.truth_per_test_picture,
        search.dataset.truth_per_test_image_if_generated(state.caption),
    )


def test_captions_above_say_less_and_those_below_say_more(search):
    result = search.find_nearest(
        order_panel.OrderPanelSettings("a heart and a polygon", "none")
    )
    meaning = parse_caption(result.caption)
    (typed,) = search.embed_captions("none", [result.caption])
    assert len(result.more_general) * len(result.more_specific) > 0
    for one in (*result.more_general, *result.more_specific):
        other, (point,) = parse_caption(one.text), search.embed_captions("none", [one.text])
        pair = (point, typed) if one in result.more_general else (typed, point)
        assert meaning.entails(other) if one in result.more_general else other.entails(meaning)
        assert one.violation_with_typed_caption == pytest.approx(
            float(order_violation_matrix(*(p[None] for p in pair)))
        )


# Skip-thoughts.


def untrained_models(*names, words=None):
    """Models that never learned, at two moments, and a few held-out sentences."""
    written = random_books() if words is None else Written([[words, ["b"]] * 600])
    numbered = EncodedBooks(written, 40)
    arms = zip(names or ("none", "layer"), ("none", "layer"), strict=False)
    with default_dtype(torch.float32):
        models = {
            name: {k: replace(SMALL, norm=norm).model(k, numbered).eval() for k in (0, 10)}
            for name, norm in arms
        }
    return models, numbered


@pytest.fixture(scope="module")
def sentences():
    return thoughts_panel.HeldOutSentenceMaps(*untrained_models())


def test_the_nearest_sentences_are_those_of_the_greatest_cosine(sentences):
    thought = sentences.view_sentence("layer", 10, "w3 w5 w7")
    model, encode = sentences.models["layer"][10], sentences.numbered.vocabulary.encode_with_end
    vectors = model.encode_sentences([*map(encode, sentences.texts)])
    cosine = F.cosine_similarity(vectors, model.encode_sentences([encode("w3 w5 w7")])).numpy()
    shown = [c for _, c in thought.nearest_by_cosine]
    assert shown == sorted(shown, reverse=True)
    assert len({text for text, _ in thought.nearest_by_cosine}) == thoughts_panel.NEIGHBOURS
    assert shown[0] == pytest.approx(cosine.max(), abs=1e-6)  # float32
    for text, c in thought.nearest_by_cosine:
        assert cosine[sentences.texts.index(text)] == pytest.approx(c, abs=1e-6)


def test_the_map_has_the_directions_of_greatest_spread_turned_towards_the_last(sentences):
    vectors, last = (sentences.vectors("none", update) for update in (0, 10))
    mean, axes = sentences.map_origin_and_axes("none", 0)
    torch.testing.assert_close(axes.T @ axes, torch.eye(2, dtype=torch.float64))
    spread = torch.linalg.svdvals(vectors - vectors.mean(0))[:2].square().sum()
    torch.testing.assert_close(((vectors - mean) @ axes).square().sum(), spread)
    center, final = sentences.map_origin_and_axes("none", 10)

    def distance(axes):
        return ((vectors - mean) @ axes - (last - center) @ final).norm()

    for angle in np.linspace(0, 6, 13):
        c, s = np.cos(angle), np.sin(angle)
        assert distance(axes) <= distance(axes @ torch.tensor([[c, -s], [s, c]])) + 1e-9


def test_the_sentence_says_what_the_models_say_and_what_is_typed_is_cut_into_words(sentences):
    panel = thoughts_panel.thoughts(sentences.models, sentences.numbered, book=1)
    first = sentences.books[1][0]
    for name in sentences.models:
        thought = sentences.view_sentence(name, 10, sentences.texts[first])
        (text, cosine) = thought.nearest_by_cosine[0]
        assert (
            f"{name}: nearest sentence “{text}” (cosine {cosine:.2f})" in panel.footer.sentence
        )
        (follows,) = re.findall(
            rf"{name}: .*?, predicted next sentence “(.*?)”", panel.footer.sentence
        )
        assert thought.predicted_next.startswith(follows.removesuffix(" …"))
        assert len(follows) <= thoughts_panel.LONG
    assert f"in the book: “{sentences.texts[first + 1]}”" in panel.footer.sentence
    panel.controls["sentence"].value = "W3 isn't <end>."
    assert panel.footer.sentence.startswith("“w3 is n't < end > .” after")


# Transformers.


def one_draw(place, kind, depth, draw):
    """Return one of the draws by itself, and its examples."""
    start = transformer_panel.initialize_networks(place, kind, depth)
    size = (
        start.weights_by_parameter["module.readout.W"].shape[1],
        transformer_panel.CONTEXT,
        depth,
    )
    size = *size, transformer_panel.WIDTH, transformer_panel.HEADS
    model = TransformerLanguageModel(
        *size, NormLayersAndPlacement(place, NORMS[kind]), fused=False
    )
    model.initialize_(lambda name: generator_seeded_by_hash(f"{name} of draw {draw}"))
    return model.double(), start.x[draw], start.y[draw]


@pytest.mark.parametrize("kind", ["layer", "dyt"])
def test_draws_side_by_side_have_the_gradients_that_they_have_alone(kind):
    for draw in (0, 2):
        model, x, y = one_draw("pre", kind, 2, draw)
        expected = evaluate.W_2_gradient_norm_per_layer(evaluate.nll_objective(model, x, y))
        np.testing.assert_allclose(
            transformer_panel.initial_w2_gradient_norms("pre", kind, 2)[draw], expected
        )


def test_a_first_step_is_that_of_adam():
    model, x, y = one_draw("post", "layer", 1, 0)
    rate = transformer_panel.STEPS[4]
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, eps=0.0)
    evaluate.mean_nll_over_characters(model(x), y).backward()
    optimizer.step()
    with torch.no_grad():
        loss = evaluate.mean_nll_over_characters(model(x), y)
    # parameters without any gradient would be 0/0: there are none
    first = transformer_panel.losses_after_step_by_size("post", "layer", 1)
    assert first[0, 4] == pytest.approx(loss.item())


# Handwriting.


def untrained_writers(*arms) -> writing_panel.WriterModels:
    """Models of two stages that never learned."""
    models = {}
    for number, arm in enumerate(arms or ("none", "layer")):
        sizes = {"units": (4,), "components": 2, "window_components": 2}
        config = handwriting.Experiment(norm=("none", "layer")[number % 2], **sizes)
        with torch.random.fork_rng(devices=()), default_dtype(torch.float32):
            torch.manual_seed(number)
            models[arm] = {
                stage: HandwritingNet(config, Alphabet(ALPHABETS["pen"]), pace=0.2)
                for stage in (0, 7)
            }
    return writing_panel.WriterModels(models, (np.zeros(2), np.ones(2)), 0.01, "by hand")


def line(text="a fox", writer="w") -> pen.Line:
    offsets = np.random.default_rng(0).normal(0, 1, (20, 3)).astype(np.float32)
    offsets[:, 2] = 0
    return pen.Line("l", writer, text, offsets)


def test_the_pen_has_come_as_far_as_it_says():
    panel = writing_panel.writing(untrained_writers(), text="fox")
    plot = panel.plots["writing"]
    for part in (0, 50, 100):
        panel.controls["percent_written"].value = part
        for slot in range(2):
            ink, rest, now, tip = (
                plot.current_trace(f"{kind} {slot}") for kind in ("ink", "rest", "now", "pen")
            )
            count = plot.current_trace(f"window {slot}")["z"].shape[1]
            written = round(part / 100 * count)
            assert np.isfinite(ink["x"]).sum() == written + 1
            assert now["x"][0] == written
            assert tip["x"][0] == ink["x"][-1]
            assert np.isfinite(rest["x"]).sum() == count + 1


def test_what_is_typed_is_written_or_refused_and_each_hand_has_its_line():
    panel = writing_panel.writing(untrained_writers(), [line()], text="fox")
    windows = set()
    for update, like in ((0, -1), (0, 0), (7, -1), (7, 0)):
        panel.settings = writing_panel.WritingPanelSettings(
            "fox", update=update, style_line=like
        )
        windows.add(panel.plots["writing"].current_trace("window 1")["z"].tobytes())
    assert len(windows) == 4
    panel.controls["text"].value = "Fox 7"
    assert "has 'F', '7', which this model never learned" in panel.footer.error
    panel.controls["text"].value = "x" * 41
    assert "give 1 to 40 characters" in panel.footer.error


def test_models_are_packed_and_write_the_same_again(tmp_path, monkeypatch):
    """But for the rounding of their weights to float16."""
    monkeypatch.setattr(pen, "SIZES", {"train": 32, "valid": 6, "test": 6})
    torch.set_default_dtype(torch.float32)
    smoke = handwriting.Experiment.budget("smoke", seeds=(0,))
    arms = ("none", "layer")
    runs = [train(replace(smoke, norm=norm), norm, root=tmp_path) for norm in arms]
    writers = writing_panel.load_writers(runs)
    writing_panel.save_writers(runs, tmp_path / "hands.safetensors")
    again = writing_panel.load_included_writers(tmp_path / "hands.safetensors")
    assert again.shared_updates == writers.shared_updates == (2,)
    assert again.std_floor == smoke.std_floor
    assert (
        "lnlab train handwriting --budget notebook --set norm=none"
        in again.commands_that_trained_models
    )
    assert again.commands_that_trained_models.endswith("--set seeds=0,")  # 0 alone is a count
    np.testing.assert_array_equal(again.offset_mean_and_std[1], writers.offset_mean_and_std[1])
    x = LineBatch(torch.randn(1, 9, 3), torch.tensor([[3, 4, 1]]))
    for arm in arms:
        one, other = (each.models_by_arm_and_update[arm][2] for each in (writers, again))
        with torch.no_grad():
            torch.testing.assert_close(one(x), other(x), rtol=0.02, atol=0.02)  # float16


def test_the_models_that_come_with_lnlab_need_no_data(monkeypatch):
    monkeypatch.setattr("lnlab.papers.handwriting.experiment.load", None)
    writers = writing_panel.load_included_writers()
    assert set(writers.models_by_arm_and_update) == {"none", "layer"}
    assert writers.commands_that_trained_models.count("lnlab train handwriting") == 2 * len(
        writers.shared_updates
    )
    for command in writers.commands_that_trained_models.split("; "):
        (seed,) = read_seeds(command.rpartition("seeds=")[2])
        assert seed == 0
    for arm, models in writers.models_by_arm_and_update.items():
        weights = models[writers.shared_updates[-1]].parameters()
        assert all(p.dtype == torch.float32 and p.isfinite().all() for p in weights)
        assert (
            len(writers.write(arm, writers.shared_updates[-1], "ox", sampling_bias=1.0).phi) > 4
        )
