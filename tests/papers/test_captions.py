"""Images with captions: files in their layouts, whole and damaged, and truth of scenes."""

import random

import numpy as np
import pytest

from lnlab import data
from lnlab.papers.order_embeddings import data as captions
from lnlab.papers.order_embeddings.data import Boxes, Meaning, Noun, Truth, parse
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "captions", **options)


@pytest.fixture(autouse=True)
def few_held_out(monkeypatch):
    monkeypatch.setattr(captions, "HELD_OUT", 2)


# --- files ---------------------------------------------------------------------------------


def test_the_authors_layout_is_read_as_it_is_and_features_where_they_lie(tmp_path):
    coco = load(f"coco={layouts.coco(tmp_path)}")
    assert [len(part) for part in (coco.train, coco.valid, coco.test)] == [3, 3, 3]
    assert coco.test.captions_of(1)[4] == "a test dog 4 sits on picture 1"
    expected = np.load(tmp_path / "images" / "10crop" / "val.npy")
    assert isinstance(coco.valid.features, np.memmap)
    assert np.array_equal(coco.valid.features, expected)
    assert ("val" in coco.vocabulary, "test" in coco.vocabulary) == (True, False)


def test_boxes_are_the_things_of_their_image(tmp_path):
    coco = load(f"coco-boxes={layouts.coco_boxes(tmp_path)}")
    assert coco.categories == ("person", "dog")
    splits = coco.train, coco.valid, coco.test
    assert [len(part) for part in splits] == [3, 2, 2]
    names = [name for part in splits for name in part.names]
    assert sorted(names) == [f"{n:012}.jpg" for n in range(7)]  # the eighth has no things
    n = int(coco.test.names[0][:-4])
    assert coco.test.captions_of(0)[2] == f"a man and 2 dogs picture {n}"
    expected = [[n / 100, 0, (n + 50) / 100, 0.5], [0.1, 0.2, 0.4, 0.4]]
    assert np.allclose(coco.test.boxes[0].corners, expected)
    other = load(f"coco-boxes={tmp_path}", split=1)
    assert set(other.test.names) != set(coco.test.names)
    assert other.checksum != coco.checksum


def test_the_features_of_boxes_count_measure_and_place():
    boxes = Boxes(np.array([1, 1]), np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5]]))
    expected = [0, np.log(3), 0, 0, 0.5**0.5, 0, 0, 0, 0, 0, -0.5, 0]
    assert np.allclose(captions.box_features(boxes, 3), expected)


def broken(features):
    features[1, 2] = np.nan
    return features


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("npy", lambda v: v[:2], r"train.txt .*2 images have 15 captions: give 5"),
        ("npy", broken, r"features of image 1 \(train 1\) are not finite"),
        ("npy", lambda v: v > 0, "train.npy holds bool"),
        ("npy", lambda v: np.array([{}, v], object), "train.npy is damaged"),
        ("txt", lambda t: t.replace("a train dog 3 sits on picture 2", " "),
         r"caption 4 of image 2 \(train 2\) has no words"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path, file, change, message):
    layouts.coco(tmp_path)
    array, text = tmp_path / "images" / "10crop" / "train.npy", tmp_path / "train.txt"
    if file == "npy":
        np.save(array, change(np.load(array)))
    else:
        text.write_text(change(text.read_text()))
    with pytest.raises(ValueError, match=message):
        load(f"coco={tmp_path}").train  # noqa: B018


def test_a_file_that_is_missing_is_named(tmp_path):
    layouts.coco(tmp_path)
    (tmp_path / "val.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"val\.txt is not there: its files are train"):
        load(f"coco={tmp_path}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7.jpg 1 2 3 4 1", "line 9"),
        ("000000000001.jpg 1 2 3 4 3", "categories go from 1 to 2"),
    ],
)
def test_boxes_that_fit_nothing_are_refused(tmp_path, line, message):
    layouts.coco_boxes(tmp_path)
    path = tmp_path / "boxes" / "coco_val2017.txt"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=message):
        load(f"coco-boxes={tmp_path}").train  # noqa: B018


# --- scenes --------------------------------------------------------------------------------


def true_by_trying(meaning, scene):
    """Whether a caption is true, by trying all things for all nouns: an oracle."""
    nouns = captions.full_nouns(scene)
    for first, noun in enumerate(nouns):
        if not meaning.things[0].describes(noun):
            continue
        if len(meaning.things) == 1:
            return True
        for second, other in enumerate(nouns):
            if second == first or not meaning.things[1].describes(other):
                continue
            (x, y), (u, v) = scene.centres[first], scene.centres[second]
            holds = {
                "": True, "left of": u - x > 0.2, "right of": x - u > 0.2,
                "above": v - y > 0.2, "below": y - v > 0.2,
            }  # fmt: skip
            if holds[meaning.relation]:
                return True
    return False


def random_captions(count):
    rng = random.Random("test")
    scenes = [captions.random_scene(rng) for _ in range(40)]
    return scenes, [captions.random_caption(rng, scenes[n % 40], n % 5) for n in range(count)]


def test_truth_is_what_trying_everything_says():
    scenes, meanings = random_captions(300)
    truth = Truth(scenes)
    values = np.stack([truth.of(meaning) for meaning in meanings])
    assert np.array_equal(values, [[true_by_trying(m, s) for s in scenes] for m in meanings])
    assert 0.02 < values.mean() < 0.9
    assert all(values[n, n % 40] for n in range(300)), "a caption is true of its own scene"


def test_what_is_entailed_is_true_wherever_the_other_is():
    scenes, meanings = random_captions(120)
    truth = Truth(scenes)
    true = {meaning: truth.of(meaning) for meaning in meanings}
    pairs = [(m, n) for m in meanings for n in meanings if m != n and m.entails(n)]
    assert len(pairs) > 100
    assert all(not (true[special] & ~true[general]).any() for special, general in pairs)
    for meaning in meanings:
        for wider in meaning.generalizations():
            assert meaning.entails(wider)
            same = truth.of(wider).tolist() == true[meaning].tolist()
            assert not wider.entails(meaning) or same


def test_the_order_of_two_things_does_not_matter_but_how_they_stand_does():
    one = parse("a red heart left of a blue square")
    assert one.entails(parse("a cool polygon right of a curve"))
    assert one.entails(parse("a square and a heart"))
    assert not one.entails(parse("a square left of a heart"))
    assert not one.entails(parse("a heart above a square"))
    assert not parse("a heart").entails(parse("a heart and a thing"))


def test_captions_are_read_as_they_were_written():
    _, meanings = random_captions(200)
    assert [parse(str(meaning)) for meaning in meanings] == meanings
    assert parse("an  A small thing") == Meaning((Noun("thing", "", "small"),))


@pytest.mark.parametrize("text", ["", "a dog", "a star and a star and a star", "a ring beside"])
def test_what_no_caption_says_is_refused_with_what_may_stand_there(text):
    with pytest.raises(ValueError, match=r"small red heart|two things"):
        parse(text)


def test_a_data_set_knows_what_is_true_of_its_scenes(monkeypatch):
    monkeypatch.setattr(captions, "SCENE_SIZES", {"train": 20, "valid": 6, "test": 8})
    scenes = load("scenes", most=10)
    assert len(scenes.train) == 10
    assert scenes.truth(scenes.test.captions)[np.arange(40), np.arange(40) // 5].all()
    assert scenes.entailments
    assert all(parse(special).entails(parse(wider)) for special, wider in scenes.entailments)
