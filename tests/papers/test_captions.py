"""Pictures with captions: files in their layouts, whole and damaged, and truth of scenes."""

import json
import random

import numpy as np
import pytest

import lnlab.papers.order_embeddings.data
from lnlab import data
from lnlab.papers.order_embeddings.data import Boxes, Noun, Said, parsed, vector
from tests.data import layouts


def load(spec, **options):
    return data.load(spec, "captions", **options)


# --- files ---------------------------------------------------------------------------------


def test_the_authors_layout_is_read_as_it_is_and_vectors_where_they_lie(tmp_path):
    found = load(f"coco={layouts.coco(tmp_path)}")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [3, 3, 3]
    assert found.test.of(1)[4] == "a test dog 4 sits on picture 1"
    expected = np.load(tmp_path / "images" / "10crop" / "val.npy")
    assert isinstance(found.valid.vectors, np.memmap)
    assert np.array_equal(found.valid.vectors, expected)
    assert "val" in found.vocabulary
    assert "test" not in found.vocabulary
    assert found.width == 4


def test_boxes_are_the_things_of_their_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(lnlab.papers.order_embeddings.data, "HELD", 2)
    found = load(f"coco-boxes={layouts.coco_boxes(tmp_path)}")
    assert found.kinds == ("person", "dog")
    parts = {"train": found.train, "valid": found.valid, "test": found.test}
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 3,
        "valid": 2,
        "test": 2,
    }
    names = [name for part in parts.values() for name in part.names]
    assert sorted(names) == [f"{n:012}.jpg" for n in range(7)]  # the eighth has no things
    assert found.test.of(0)[2] == f"a man and 2 dogs picture {int(found.test.names[0][:-4])}"
    n = int(found.test.names[0][:-4])
    boxes = found.test.boxes[0]
    assert np.allclose(boxes.places, [[n / 100, 0, (n + 50) / 100, 0.5], [0.1, 0.2, 0.4, 0.4]])
    other = load(f"coco-boxes={tmp_path}", split=1)
    assert set(other.test.names) != set(found.test.names)
    assert other.checksum != found.checksum


def test_the_vector_of_a_picture_counts_measures_and_places():
    boxes = Boxes(np.array([1, 1]), np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5]]))
    expected = [0, np.log(3), 0, 0, 0.5**0.5, 0, 0, 0, 0, 0, -0.5, 0]
    assert np.allclose(vector(boxes, 3), expected)


def spoilt(folder, split="train", **changes):
    """A whole corpus with one array or text in the place of another."""
    layouts.coco(folder)
    if "vectors" in changes:
        path = folder / "images" / "10crop" / f"{split}.npy"
        np.save(path, changes["vectors"](np.load(path)))
    if "text" in changes:
        path = folder / f"{split}.txt"
        path.write_text(changes["text"](path.read_text()))
    return f"coco={folder}"


def broken(vectors):
    vectors[1, 2] = np.nan
    return vectors


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vectors": lambda v: v[:2]}, r"train.txt .*2 pictures have 15 captions: give 5"),
        ({"text": lambda t: t[:-36]}, "3 pictures have 14 captions"),
        ({"vectors": broken}, r"picture 1 \(train 1\) holds a number that is not finite"),
        ({"text": lambda t: t.replace("a train dog 3 sits on picture 2", " ")},
         r"caption 4 of picture 2 \(train 2\) has no words"),
        ({"vectors": lambda v: v[0]}, r"train.npy holds float32 \(4,\): give floats"),
        ({"vectors": lambda v: v > 0}, "train.npy holds bool"),
        ({"vectors": lambda v: np.array([{}, v], object)}, "train.npy is damaged"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path, changes, says):
    with pytest.raises(ValueError, match=says):
        load(spoilt(tmp_path, **changes)).train  # noqa: B018


def test_a_file_that_is_missing_is_named(tmp_path):
    layouts.coco(tmp_path)
    (tmp_path / "val.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"val\.txt is not there: its files are train"):
        load(f"coco={tmp_path}")


@pytest.mark.parametrize(
    ("line", "says"),
    [("000000000001.jpg 1 2 3 4", "line 9"), ("7.jpg 1 2 3 4 1", "line 9"),
     ("000000000001.jpg 1 2 3 4 3", "kinds go from 1 to 2")],
)  # fmt: skip
def test_boxes_that_fit_nothing_are_refused(tmp_path, monkeypatch, line, says):
    monkeypatch.setattr(lnlab.papers.order_embeddings.data, "HELD", 2)
    layouts.coco_boxes(tmp_path)
    path = tmp_path / "boxes" / "coco_val2017.txt"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=says):
        load(f"coco-boxes={tmp_path}").train  # noqa: B018


def test_a_picture_with_too_few_captions_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(lnlab.papers.order_embeddings.data, "HELD", 2)
    path = layouts.coco_boxes(tmp_path) / "annotations" / "captions_val2017.json"
    whole = json.loads(path.read_text())
    whole["annotations"] = [a for a in whole["annotations"] if a["id"] not in (30, 31)]
    path.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=r"captions: give 5 of each"):
        load(f"coco-boxes={tmp_path}").train  # noqa: B018


# --- scenes --------------------------------------------------------------------------------


def plainly(said, scene):
    """Whether a caption is true, by trying all things for all nouns: an oracle."""
    there = [
        lnlab.papers.order_embeddings.data._seen(scene, at) for at in range(len(scene.kinds))
    ]
    for one, seen in enumerate(there):
        if not said.things[0].of(seen):
            continue
        if len(said.things) == 1:
            return True
        for other, second in enumerate(there):
            if other == one or not said.things[1].of(second):
                continue
            (x, y), (u, v) = scene.centres[one], scene.centres[other]
            stands = {
                "": True, "left of": u - x > 0.2, "right of": x - u > 0.2,
                "above": v - y > 0.2, "below": y - v > 0.2,
            }  # fmt: skip
            if stands[said.relation]:
                return True
    return False


def said_of_scenes(count):
    chance = random.Random("test")
    there = [lnlab.papers.order_embeddings.data._scene(chance) for _ in range(40)]
    return there, [
        lnlab.papers.order_embeddings.data._caption(there[n % 40], chance, n % 5)
        for n in range(count)
    ]


def test_truth_is_what_trying_everything_says():
    there, said = said_of_scenes(300)
    gallery = lnlab.papers.order_embeddings.data.Gallery(there)
    found = np.stack([gallery.true(one) for one in said])
    expected = [[plainly(one, scene) for scene in there] for one in said]
    assert np.array_equal(found, expected)
    assert 0.02 < found.mean() < 0.9
    assert all(found[n, n % 40] for n in range(300)), "a caption is true of its own scene"


def test_what_lies_below_is_true_nowhere_else():
    there, said = said_of_scenes(120)
    gallery = lnlab.papers.order_embeddings.data.Gallery(there)
    true = {one: gallery.true(one) for one in said}
    below = [(one, up) for one in said for up in said if one != up and one.below(up)]
    assert len(below) > 100
    assert all(not (true[one] & ~true[up]).any() for one, up in below)
    for one in said:
        for up in one.above():
            assert one.below(up)
            assert not up.below(one) or gallery.true(up).tolist() == true[one].tolist()


def test_the_order_of_two_things_does_not_matter_but_how_they_stand_does():
    one = parsed("a red heart left of a blue square")
    assert one.below(parsed("a cool polygon right of a curve"))
    assert one.below(parsed("a square and a heart"))
    assert not one.below(parsed("a square left of a heart"))
    assert not one.below(parsed("a heart above a square"))
    assert not parsed("a heart").below(parsed("a heart and a thing"))


def test_captions_are_read_as_they_were_written():
    _, said = said_of_scenes(200)
    assert [parsed(str(one)) for one in said] == said
    assert parsed("an  A small thing") == Said((Noun("thing", "", "small"),))


@pytest.mark.parametrize(
    "text", ["", "a dog", "a red", "a star and a star and a star", "heart red", "a ring beside"]
)
def test_what_no_caption_says_is_refused_with_what_may_stand_there(text):
    with pytest.raises(ValueError, match=r"small red heart|two things"):
        parsed(text)


def test_a_data_set_knows_what_is_true_of_its_scenes(monkeypatch):
    monkeypatch.setattr(
        lnlab.papers.order_embeddings.data, "SCENE_PARTS", {"train": 20, "valid": 6, "test": 8}
    )
    found = load("scenes", most=10)
    assert len(found.train) == 10
    own = found.true(found.test.captions)[np.arange(40), np.arange(40) // 5]
    assert own.all()
    pairs = [(parsed(one), parsed(up)) for one, up in found.entailments]
    assert pairs
    assert all(one.below(up) for one, up in pairs)
