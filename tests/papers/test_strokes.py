"""Handwriting: points along strokes, three sources, and what is wrong with lines of theirs."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from lnlab import data
from lnlab.papers.handwriting import pen
from lnlab.papers.handwriting.data import ALPHABETS, PER_CHARACTER, STEP, Alphabet
from lnlab.papers.handwriting.pen import length, offsets, resample, strokes
from tests.data import layouts

ZIGZAG = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0], [9.0, 8.0]])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pen, "SIZES", {"train": 24, "valid": 8, "test": 8})


def test_strokes_are_their_offsets_summed_up():
    ink = [ZIGZAG, ZIGZAG[:1] + 20, ZIGZAG - 5]
    again = strokes(offsets(ink))
    assert [len(one) for one in again] == [4, 1, 4]
    for one, other in zip(again, ink, strict=True):
        np.testing.assert_allclose(one, other - ink[0][0], atol=1e-5)
    assert not offsets(ink)[0, :2].any()


def test_points_stand_at_equal_distances_along_the_ink():
    found = resample(ZIGZAG, 0.5)
    along = np.linspace(0, length([ZIGZAG]), len(found))
    corners = np.concatenate([[0], np.linalg.norm(np.diff(ZIGZAG, axis=0), axis=1).cumsum()])
    expected = [np.interp(along, corners, ZIGZAG[:, k]) for k in range(2)]
    np.testing.assert_allclose(found.T, expected)
    np.testing.assert_array_equal(found[[0, -1]], ZIGZAG[[0, -1]])
    assert abs(length([ZIGZAG]) / (len(found) - 1) - 0.5) < 0.02


# --- made here -------------------------------------------------------------------------------


def test_every_point_made_here_knows_its_character():
    for line in data.load("pen", "strokes").train:
        assert line.places is not None
        assert len(line.places) == len(line.offsets)
        written = {place for place, letter in enumerate(line.text) if letter != " "}
        assert {*line.places.tolist()} == written
        # strokes are made letter by letter, from left to right
        assert (np.diff(line.places) >= 0).all()
        assert set(line.text) <= set(ALPHABETS["pen"])


def test_what_joins_two_letters_belongs_to_the_second():
    corners = np.array([[0.0, 0.0], [10.0, 0.0], [20.0, 0.0], [30.0, 0.0]])
    points, places = pen._at_equal_times(corners, np.array([0, 0, 1, 1]))
    assert len(points) > 6
    np.testing.assert_array_equal(places, points[:, 0] > 10)


def test_no_writer_is_in_two_parts_and_no_two_lines_are_alike():
    made = data.load("pen", "strokes")
    writers = [{line.writer for line in part} for part in (made.train, made.valid, made.test)]
    assert not set.intersection(writers[0], writers[1] | writers[2])
    assert len({line.offsets.tobytes() for line in made.train}) == len(made.train)


def test_the_pen_is_slow_where_its_way_is_bent():
    """Points are nearer to each other there: the two-thirds law."""
    near, far = [], []
    for line in data.load("pen", "strokes").train:
        for stroke in strokes(line.offsets):
            moved = np.diff(stroke, axis=0)
            if len(moved) < 6:
                continue
            turn = np.abs(np.diff(np.unwrap(np.arctan2(moved[:, 1], moved[:, 0]))))[1:-1]
            steps = np.linalg.norm(moved, axis=1)[2:-1]
            near += steps[turn > 0.5].tolist()
            far += steps[turn < 0.1].tolist()
    assert np.mean(near) < 0.9 * np.mean(far)


def test_the_acknowledgement_is_with_the_fonts():
    notice = (Path(pen.__file__).parent / "hershey" / "NOTICE").read_text()
    assert "A. V. Hershey" in notice
    assert "James Hurt" in notice


# --- alphabets -------------------------------------------------------------------------------


def test_a_text_that_cannot_be_written_is_refused_by_name():
    known = Alphabet("ab ")
    assert known.encode("b a", strict=True) == [2, 3, 1]
    assert known.encode("bü") == [2, 0]
    with pytest.raises(ValueError, match=re.escape("has 'ü', '7', which this net")):
        known.encode("aü7ü", strict=True)
    with pytest.raises(ValueError, match="no text"):
        known.encode("  ", strict=True)


# --- UNIPEN ----------------------------------------------------------------------------------


def test_lines_of_unipen_are_read_and_writers_parted(tmp_path):
    found = data.load(f"unipen={layouts.unipen(tmp_path)}", "strokes")
    parts = found.train, found.valid, found.test
    assert [len(part) for part in parts] == [20, 2, 2]
    writers = [{line.writer for line in part} for part in parts]
    assert len(set.union(*writers)) == sum(map(len, writers)) == 12
    assert found.name == "unipen"
    assert str(found).endswith("0 lines to test have a text that is trained on too")
    for line in found.train:
        assert abs(line.steps - PER_CHARACTER * len(line.text)) <= 3
        assert int(line.offsets[:, 2].sum()) == 2


def test_the_archive_is_read_as_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "data"))
    folder = layouts.unipen(tmp_path / "files")
    archive = layouts.pack(folder / "train_r01_v07", tmp_path / "unipen_x.tar.gz")
    one, other = (data.load(f"unipen={path}") for path in (folder, archive))
    assert one.checksum == other.checksum


def test_bad_lines_of_unipen_are_counted_and_said(tmp_path):
    own = layouts.PEN.format(writer="w", y=130)
    texts = (".COMMENT nothing said", "!? #", 'say \\"no\\"', "nan", "far", "one")
    pens = (own, own, own, own.replace("581 130", "nan nan\n1e30 4"),
            own.replace("566 122\n634 150", "99000 99000"),
            ".WRITER_ID w\n.PEN_DOWN\n5 5\n.PEN_UP\n")  # fmt: skip
    found = data.load(f"unipen={layouts.unipen(tmp_path, texts, pens)}", "strokes")
    for said in (
        "1 lines of one point left out", "1 lines of symbols only left out",
        "1 lines without text left out", "1 offsets longer than 60 kept",
        "2 points without a place",
    ):  # fmt: skip
        assert said in found.name, said
    lines = [*found.train, *found.valid, *found.test]
    assert 'say "no"' in {line.text for line in lines}
    assert all(np.isfinite(line.offsets).all() for line in lines)
    assert len(lines) == 21


@pytest.mark.parametrize(
    ("pen_data", "message"),
    [(".PEN_DOWN\n1 2\n3\n.PEN_UP\n", "pairs x y")],
)
def test_damaged_pen_data_is_named(tmp_path, pen_data, message):
    spec = f"unipen={layouts.unipen(tmp_path, pens=(pen_data,))}"
    with pytest.raises(ValueError, match=f"app0000.dat.*{message}"):
        _ = data.load(spec, "strokes").train


def test_pen_data_outside_of_the_collection_is_not_read(tmp_path):
    folder = layouts.unipen(tmp_path)
    (label,) = folder.glob("*/data/8/apa/apa00/*.dat")
    label.write_text(label.read_text().replace("apa/data/apa00", "apa/data/../../../../apa00"))
    with pytest.raises(FileNotFoundError, match="which is not in"):
        _ = data.load(f"unipen={folder}", "strokes").train


REAL = os.environ.get("LNLAB_TEST_DATA", "")


@pytest.mark.slow
@pytest.mark.skipif(
    not (REAL and (Path(REAL) / "unipen").is_dir()),
    reason="set LNLAB_TEST_DATA to a folder that holds unipen/ with the real archive",
)
def test_the_apple_collection_is_what_is_said_of_it():
    found = data.load(f"unipen={Path(REAL) / 'unipen'}", "strokes")
    parts = found.train, found.valid, found.test
    lines = [line for part in parts for line in part]
    left_out = int(re.search(r"(\d+) lines of symbols only", found.name)[1])
    assert len(lines) + left_out == 3135
    # of 97 names three are of people who came twice, one has written symbols only
    assert len({line.writer for line in lines}) == 93
    assert 280 < np.mean([line.steps for line in lines]) < 340


# --- IAM-OnDB --------------------------------------------------------------------------------


def test_lines_of_iam_are_read_in_their_layout(tmp_path):
    found = data.load(f"iam={layouts.iam(tmp_path)}", "strokes")
    assert [len(part) for part in (found.train, found.valid, found.test)] == [4, 2, 2]
    line = found.train[1]
    assert (line.name, line.writer, line.text) == ("a01-000u-02", "a01-000u", "to stop, Mr. Q")
    ink = line.strokes
    assert len(ink) == 3
    np.testing.assert_allclose(
        ink[0] * STEP, [[0, 0], [927 - 915, 992 - 915]], atol=1e-4
    )  # y grows upwards


def test_iam_says_how_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="forbids to give it on: register at"):
        data.load(f"iam={tmp_path}", "strokes")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><a/>', "declares types"),
        (layouts.SESSION.format(strokes='<Stroke><Point x="1"/></Stroke>'), "no line of IAM"),
    ],
)
def test_damaged_files_of_iam_are_named(tmp_path, content, message):
    folder = layouts.iam(tmp_path)
    (path,) = folder.glob("lineStrokes/*/*/a01-000u-01.xml")
    path.write_text(content)
    with pytest.raises(ValueError, match=f"a01-000u-01.xml.*{message}"):
        _ = data.load(f"iam={folder}", "strokes").train


def test_most_is_checked():
    assert len(data.load("pen", "strokes", most=3).train) == 3
    with pytest.raises(ValueError, match="most is 0"):
        data.load("pen", "strokes", most=0)
    with pytest.raises(ValueError, match="give no path"):
        data.load("pen=.", "strokes")
